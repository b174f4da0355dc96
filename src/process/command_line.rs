//! The plain case only, until the rest of the process layer lands.

use super::env::ChildEnv;
use crate::contract::{AgentplugError, Os};
use std::path::Path;
pub fn check(_p: &Path, _a: &[String], _e: &ChildEnv, _os: Os) -> Result<(), AgentplugError> {
    Ok(())
}
