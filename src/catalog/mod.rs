//! What is installed and what it can do: detection and versions.

pub mod detect;
pub mod version;

#[cfg(test)]
pub mod testing {
    use crate::agents::{Agent, Launch, no_check};
    use crate::contract::provider::standalone;
    use crate::contract::{AgentplugError, BlockedFlag, ErrorCode};

    /// An agent of which only the table matters.
    pub fn agent(min_version: Option<&'static str>, executables: &'static [&'static str]) -> Agent {
        const BLOCKED: &[BlockedFlag] = &[standalone("--blocked")];
        let like = crate::agents::REGISTRY[0];
        Agent {
            id: "stand-in",
            name: "stand-in",
            executables,
            known_paths: &[],
            min_version,
            blocked: BLOCKED,
            check: no_check,
            launch: |_| Box::pin(async { refused() }),
            ..*like
        }
    }

    fn refused() -> Result<Launch, AgentplugError> {
        Err(AgentplugError::new(ErrorCode::Internal, "never launched"))
    }
}
