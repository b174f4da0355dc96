//! The plain case only, until the rest of the process layer lands.

use crate::agents::Agent;
use crate::contract::AgentplugError;
pub fn gate(_a: &Agent, _v: Option<&semver::Version>) -> Result<(), AgentplugError> {
    Ok(())
}
