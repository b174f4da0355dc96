//! Kimi Code CLI (`kimi acp`).

mod session_log;
#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile, AfterExit, Effort, Findings, Hooks, OwnLine};
use super::{Agent, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::standalone;
use crate::contract::{BlockedFlag, Capabilities, Failure, FailureKind};
use session_log::TurnError;

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
    launch: |ctx| Box::pin(async move { acp::launch(&PROFILE, ctx) }),
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
        let kind = failure_kind(&error);
        let mut failure = Failure::of(kind);
        // Its own word is about its next attempt: false for every HTTP 500, true for a context that is full.
        if kind == FailureKind::Unknown {
            failure.retryable = error.retryable.unwrap_or(failure.retryable);
        }
        (error.message, failure)
    });
    Findings { usage: turn.usage, error }
}

fn failure_kind(error: &TurnError) -> FailureKind {
    if let Some(kind) = error.status.and_then(FailureKind::from_http_status) {
        return kind;
    }
    // The code last: `provider.api_error` stands for any status.
    let worded = FailureKind::from_text(&error.message);
    match (worded, error.code.as_str(), error.status) {
        (_, "context.overflow", _) => FailureKind::ContextOverflow,
        (FailureKind::Unknown, _, Some(400)) => FailureKind::InvalidRequest,
        (FailureKind::Unknown, code, _) => FailureKind::from_text(code),
        (kind, ..) => kind,
    }
}
