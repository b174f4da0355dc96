//! The plain case only, until the rest of the process layer lands.

use super::env::ChildEnv;
use crate::agents::Agent;
use crate::contract::{AgentplugError, ErrorCode, Os};
use std::path::{Path, PathBuf};
pub struct Found {
    pub path: PathBuf,
}
pub async fn find(
    agent: &Agent,
    explicit: Option<&Path>,
    env: &ChildEnv,
    _os: Os,
) -> Result<Found, AgentplugError> {
    if let Some(p) = explicit {
        if p.is_file() {
            return Ok(Found { path: p.to_owned() });
        }
    } else if let Some(path) = env.get("PATH") {
        for d in path.split(':') {
            for n in agent.executables {
                let p = Path::new(d).join(n);
                if p.is_file() {
                    return Ok(Found { path: p });
                }
            }
        }
    }
    Err(AgentplugError::new(
        ErrorCode::ExecutableNotFound,
        format!(
            "{} executable not found at \"{}\"",
            agent.name,
            explicit.map(|p| p.display().to_string()).unwrap_or(agent.executables[0].into())
        ),
    ))
}
