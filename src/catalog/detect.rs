//! What is installed: where, which version, and whether that is new enough.

use std::path::Path;

use serde::Serialize;

use crate::agents::Agent;
use crate::catalog::version::{MinVersion, check_min, too_old};
use crate::contract::redact::redact_here;
use crate::contract::version::parse_semver;
use crate::contract::{AgentplugError, Os};
use crate::process::args::filter_prefix;
use crate::process::env::ChildEnv;
use crate::process::find::{self, Query, Via};
use crate::process::probe::Prober;
use crate::process::shim;

/// One provider on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detection {
    pub provider: &'static str,
    /// Whether an executable was found; it may still fail to tell its version.
    pub found: bool,
    /// Absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// `1.2.3`, or the first line the CLI printed where no such version is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the version is at least the provider's minimum. Absent where no version could be read and
    /// there is a minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_ok: Option<bool>,
    /// Why it was not found, cannot be started, did not tell its version, or is too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How to look.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// `executablePath`
    pub explicit: Option<&'a Path>,
    /// `launchPrefix`
    pub prefix: &'a [String],
    /// The environment a run would get.
    pub env: &'a ChildEnv,
    pub os: Os,
}

/// Finds the executable and asks it for its version, which later starts then know without asking.
pub async fn detect(agent: &Agent, look: Look<'_>) -> Detection {
    let mut detection = Detection {
        provider: agent.id,
        found: false,
        path: None,
        via: None,
        version: None,
        version_ok: None,
        error: None,
    };
    let error = |e: &AgentplugError| Some(redact_here(&e.message));
    let found = match find::find(Query {
        name: agent.name,
        executables: agent.executables,
        known_paths: agent.known_paths,
        explicit: look.explicit,
        env: look.env,
        os: look.os,
    })
    .await
    {
        Ok(found) => found,
        Err(e) => return Detection { error: error(&e), ..detection },
    };
    detection.found = true;
    detection.path = Some(found.path.to_string_lossy().into_owned());
    detection.via = Some(found.via);
    let mut env = look.env.clone();
    if let Some(path) = &found.path_env {
        env.set("PATH", path);
    }
    let command = match shim::plan(&found.path, &env, look.os) {
        Ok(command) => command,
        Err(e) => return Detection { error: error(&e), ..detection },
    };
    for (name, value) in &command.env {
        env.set(name, value);
    }
    let prefix = filter_prefix(look.prefix, agent.blocked).kept;
    let prober = Prober::new(command.program, [command.args, prefix].concat(), env);
    match prober.version_line().await {
        Err(e) => detection.error = Some(redact_here(&e)),
        Ok(line) => {
            match check_min(agent, &line) {
                MinVersion::Ok => detection.version_ok = Some(true),
                MinVersion::TooOld { detected, min } => {
                    detection.version_ok = Some(false);
                    detection.error = error(&too_old(agent, &detected, &min));
                }
                MinVersion::Unparsable { min } => {
                    detection.error = Some(format!(
                        "{} did not tell a version that could be compared with the minimum {min}",
                        agent.id
                    ));
                }
            }
            let version = parse_semver(&line)
                .map_or_else(|| redact_here(line.lines().next().unwrap_or_default()), |v| v.to_string());
            detection.version = Some(version).filter(|v| !v.is_empty());
        }
    }
    detection
}

#[cfg(all(test, unix))]
#[path = "detect_tests.rs"]
mod tests;
