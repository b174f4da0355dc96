//! The plain case only, until the rest of the process layer lands.

use super::env::ChildEnv;
use crate::contract::{AgentplugError, Os};
use std::path::{Path, PathBuf};
pub struct Command {
    pub program: PathBuf,
    pub args: Vec<String>,
}
pub fn plan(path: &Path, _env: &ChildEnv, _os: Os) -> Result<Command, AgentplugError> {
    Ok(Command { program: path.to_owned(), args: vec![] })
}
