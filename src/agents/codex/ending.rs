//! Ends of a run that are not the end of a turn, and their words.

use std::time::Duration;

use crate::agents::{Retry, Verdict};
use crate::contract::{Failure, FailureKind, Limit, duration};
use crate::wire::rpc::{CloseReason, RpcError};

/// Why the conversation was left before the server ended the turn.
#[derive(Default)]
pub struct Ending {
    pub verdict: Option<Verdict>,
    /// Ranks behind a stop of ours, which may be the reason for it.
    pub fault: Option<String>,
    pub failure: Option<Failure>,
    /// The last words on stderr help.
    pub with_stderr: bool,
    /// Safe to try once more.
    pub retry: Option<Retry>,
}

impl Ending {
    pub fn fault(text: impl Into<String>, failure: Failure) -> Self {
        Ending { fault: Some(text.into()), failure: Some(failure), ..Default::default() }
    }

    pub fn limit(limit: Limit, text: impl Into<String>) -> Self {
        Ending { verdict: Some(Verdict::Limit(limit, text.into())), ..Default::default() }
    }

    /// The process ended, or stopped talking in a way that ends the conversation.
    pub fn closed(reason: &CloseReason) -> Self {
        let mut ending = Self::fault(closed(reason), closed_failure(reason));
        ending.with_stderr = true;
        ending
    }

    /// A request of the start failed: `codex <what> failed: <cause>`.
    pub fn request(what: &str, error: &RpcError, limit: Duration) -> Self {
        let text = format!("codex {what} failed: {}", cause(error, limit));
        match error {
            RpcError::Timeout { .. } => Self::limit(Limit::Handshake, text),
            RpcError::Closed { reason, .. } => Self::fault(text, closed_failure(reason)),
            RpcError::Write { .. } => Self::fault(text, Failure::of(FailureKind::Crash)),
            RpcError::Remote(object) => {
                let kind = match object.code {
                    OVERLOADED => FailureKind::Overloaded,
                    _ => match FailureKind::from_text(&object.message) {
                        FailureKind::Unknown => FailureKind::InvalidRequest,
                        known => known,
                    },
                };
                Self::fault(text, Failure::of(kind))
            }
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.failure = self.failure.take().map(|f| f.hint(hint));
        self
    }
}

/// "Server overloaded; retry later.": may answer any request.
pub const OVERLOADED: i64 = -32001;

/// The cause of a failed request, in words callers match on.
pub fn cause(error: &RpcError, limit: Duration) -> String {
    match error {
        RpcError::Timeout { method, .. } => format!(
            "codex app-server handshake timeout: {method} did not respond after {}",
            duration::format(limit)
        ),
        RpcError::Closed { reason, .. } => closed(reason),
        RpcError::Write { .. } | RpcError::Remote(_) => error.to_string(),
    }
}

fn closed(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Eof => "codex process exited".to_owned(),
        other => format!("codex process exited: {other}"),
    }
}

fn closed_failure(reason: &CloseReason) -> Failure {
    Failure::of(match reason {
        CloseReason::LineTooLong(_) | CloseReason::Stuck(_) => FailureKind::Protocol,
        CloseReason::Eof | CloseReason::Read(_) => FailureKind::Crash,
    })
}

/// A pause from the middle of `base` ± a part of it, so that many runs do not knock at the same time.
pub fn jitter(base: Duration, share: f64) -> Duration {
    let random = (uuid::Uuid::new_v4().as_u128() & 0xffff) as f64 / f64::from(0xffff);
    base.mul_f64(1.0 - share + 2.0 * share * random)
}
