//! The plain case only, until the rest of the process layer lands.

use std::path::Path;
pub fn explain(e: &std::io::Error, _p: &Path) -> String {
    e.to_string()
}
