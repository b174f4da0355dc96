//! Kimi Code CLI (`kimi acp`).

mod session_log;
#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile, AfterExit, Effort, Findings, Hooks, OwnLine};
use super::{Agent, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::standalone;
use crate::contract::{BlockedFlag, Capabilities, FailureKind};

const BLOCKED: &[BlockedFlag] = &[standalone("acp")];

pub static AGENT: Agent = Agent {
    id: "kimi",
    name: PROFILE.name,
    executables: &["kimi"],
    known_paths: &["~/.kimi-code/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "kimi acp",
    capabilities: Capabilities { thinking_level: true, ..acp::CAPABILITIES },
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    blocked: BLOCKED,
    effort: Effort::Option("thinking"),
    history_rejects_resume: true,
    login_phrases: &["authentication required"],
    login_hint: "log in with `kimi login`",
    hooks: Hooks { stderr_line: Some(stderr_line), after_exit: Some(after_exit), ..Hooks::NONE },
    ..AcpProfile::new("kimi")
};

/// `provider.api_error: <status> …`. Only some statuses end the turn; others are tried again inside.
fn stderr_line(line: &str) -> Option<OwnLine> {
    const MARK: &str = "provider.api_error";
    let rest = line.split_once(MARK)?.1.trim_start_matches(':').trim();
    let status = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let told = rest.strip_prefix(status).unwrap_or(rest).trim();
    let reason = acp::detail(line).unwrap_or_else(|| told.to_owned());
    let tag = if status.is_empty() { line.to_owned() } else { format!("{MARK}: {status} {reason}") };
    Some(OwnLine { terminal: matches!(status, "400" | "401" | "403"), tag: tag.trim().to_owned() })
}

/// Neither token counts nor most provider errors are told over the protocol: a refused or rate-limited turn
/// ends like a good one. Both are in the session's own log.
fn after_exit(exit: &AfterExit) -> Findings {
    let turn = session_log::read(exit);
    let error = turn.error.map(|error| {
        let kind = kind(&error);
        (error.message, kind)
    });
    Findings { usage: turn.usage, error }
}

fn kind(error: &session_log::TurnError) -> FailureKind {
    match error.code.as_str() {
        "context.overflow" => FailureKind::ContextOverflow,
        "provider.rate_limit" => FailureKind::RateLimit,
        "provider.overloaded" => FailureKind::Overloaded,
        "provider.connection_error" => FailureKind::Network,
        "provider.not_found" | "auth.model_not_resolved" => FailureKind::ModelNotFound,
        "provider.filtered" => FailureKind::InvalidRequest,
        code if code.starts_with("auth.") || code == "provider.auth_error" => FailureKind::Auth,
        _ => {
            let by_status = error.status.and_then(FailureKind::from_http_status);
            match (by_status.unwrap_or_else(|| FailureKind::from_text(&error.message)), error.status) {
                (FailureKind::Unknown, Some(400..500)) => FailureKind::InvalidRequest,
                // The code last: `provider.api_error` stands for any status.
                (FailureKind::Unknown, _) => FailureKind::from_text(&error.code),
                (kind, _) => kind,
            }
        }
    }
}
