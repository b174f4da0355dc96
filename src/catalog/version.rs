//! Minimum versions.

use semver::Version;

use crate::agents::Agent;
use crate::contract::version::parse_semver;
use crate::contract::{AgentplugError, ErrorCode};

/// How a version compares with the minimum of its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinVersion {
    /// New enough, or the provider has no minimum.
    Ok,
    TooOld {
        detected: Version,
        min: Version,
    },
    /// No version could be read, which is no proof of an old one.
    Unparsable {
        min: Version,
    },
}

/// Compares the version in `text` (any text that holds one) with the agent's minimum.
pub fn check_min(agent: &Agent, text: &str) -> MinVersion {
    let Some(min) = minimum(agent) else { return MinVersion::Ok };
    match parse_semver(text) {
        None => MinVersion::Unparsable { min },
        Some(detected) if detected < min => MinVersion::TooOld { detected, min },
        Some(_) => MinVersion::Ok,
    }
}

/// Refuses a start whose version is known to be too old.
pub fn gate(agent: &Agent, version: Option<&Version>) -> Result<(), AgentplugError> {
    match (version, minimum(agent)) {
        (Some(version), Some(min)) if *version < min => Err(too_old(agent, version, &min)),
        _ => Ok(()),
    }
}

pub fn too_old(agent: &Agent, detected: &Version, min: &Version) -> AgentplugError {
    AgentplugError::new(
        ErrorCode::VersionTooOld,
        format!(
            "{} version {detected} is below minimum required {min}: update it, or pass the path of a newer one as \
             option executablePath",
            agent.id
        ),
    )
}

fn minimum(agent: &Agent) -> Option<Version> {
    agent.min_version.and_then(parse_semver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::REGISTRY;
    use crate::catalog::testing::agent;

    #[test]
    fn versions_compare_with_the_minimum_by_number() {
        const OK: &str = "ok";
        for (min, text, expected) in [
            (Some("2.0.0"), "1.9.99", "too old"),
            (Some("2.0.0"), "2.1.100 (Claude Code)", OK),
            (Some("2.0.0"), "2.0.0-beta.1", OK),
            (Some("2.0.0"), "invalid", "unparsable"),
            (Some("2.0.0"), "", "unparsable"),
            (Some("0.100.0"), "codex-cli 0.99.0", "too old"),
            (Some("0.100.0"), "codex-cli 0.118.0", OK),
            (Some("0.2.89"), "grok 0.2.93 (f00f) [stable]", OK),
            (Some("0.20.0"), "qwen 0.20.1", OK),
            (Some("0.20.0"), "0.19.9", "too old"),
            (Some("2026.5.5"), "OpenClaw 2026.5.4", "too old"),
            (Some("2026.5.5"), "OpenClaw 2026.10.1", OK),
            (None, "invalid", OK),
            (None, "0.0.1", OK),
        ] {
            let got = match check_min(&agent(min, &["x"]), text) {
                MinVersion::Ok => OK,
                MinVersion::TooOld { .. } => "too old",
                MinVersion::Unparsable { .. } => "unparsable",
            };
            assert_eq!(got, expected, "{min:?} {text}");
        }
    }

    #[test]
    fn only_a_known_old_version_stops_a_start() {
        let agent = agent(Some("2.0.0"), &["x"]);
        assert_eq!(gate(&agent, None), Ok(()));
        assert_eq!(gate(&agent, Some(&Version::new(2, 0, 0))), Ok(()));
        let e = gate(&agent, Some(&Version::new(1, 9, 99))).unwrap_err();
        assert_eq!(e.code, ErrorCode::VersionTooOld);
        assert!(
            e.message.starts_with("stand-in version 1.9.99 is below minimum required 2.0.0"),
            "{}",
            e.message
        );
    }

    #[test]
    fn every_minimum_of_the_registry_is_a_version() {
        for agent in REGISTRY.iter().filter(|a| a.min_version.is_some()) {
            assert!(minimum(agent).is_some(), "{}", agent.id);
        }
    }
}
