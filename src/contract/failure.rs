//! One taxonomy of failures over all CLIs.

use serde::Serialize;

use super::limits::Limit;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    Auth,
    RateLimit,
    Quota,
    Overloaded,
    ContextOverflow,
    ModelNotFound,
    InvalidRequest,
    Network,
    /// The model service failed in a way no other kind names (HTTP 5xx).
    Provider,
    ResumeRejected,
    Timeout,
    /// The process ended without its terminal event, or by a signal nobody of ours sent.
    Crash,
    /// The CLI spoke something else than its protocol.
    Protocol,
    Permission,
    Unknown,
}

impl FailureKind {
    /// Whether the same call may succeed later without a change.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            FailureKind::RateLimit
                | FailureKind::Overloaded
                | FailureKind::Network
                | FailureKind::Provider
                | FailureKind::Timeout
                | FailureKind::Crash
        )
    }

    /// The kind an HTTP status of the model service stands for. Only statuses that decide by themselves;
    /// 400 is left to the text (context overflow and unknown model both arrive as 400).
    pub fn from_http_status(status: u16) -> Option<FailureKind> {
        match status {
            401 => Some(FailureKind::Auth),
            402 => Some(FailureKind::Quota),
            403 => Some(FailureKind::Permission),
            404 => Some(FailureKind::ModelNotFound),
            408 | 504 => Some(FailureKind::Network),
            413 => Some(FailureKind::ContextOverflow),
            422 => Some(FailureKind::InvalidRequest),
            429 => Some(FailureKind::RateLimit),
            529 | 503 => Some(FailureKind::Overloaded),
            500..=599 => Some(FailureKind::Provider),
            _ => None,
        }
    }

    /// The kind the words of an error point to: the last resort after structured evidence. The order is
    /// from the specific to the general, since several phrases occur together ("429 quota exceeded").
    pub fn from_text(text: &str) -> FailureKind {
        let t = text.to_lowercase();
        let has = |phrases: &[&str]| phrases.iter().any(|p| t.contains(p));
        if has(&[
            "prompt is too long",
            "prompt_too_long",
            "context window",
            "context length",
            "context_length",
            "maximum context",
            "contextwindowexceeded",
            "context overflow",
            "context_overflow",
            "contextoverflow",
            "too many tokens",
        ]) {
            return FailureKind::ContextOverflow;
        }
        if has(&[
            "credit balance",
            "insufficient_quota",
            "quota exceeded",
            "exceeded your current quota",
            "billing",
            "payment required",
            "hit your limit",
            "usage limit",
            "weekly limit",
        ]) {
            return FailureKind::Quota;
        }
        if has(&["rate limit", "rate_limit", "ratelimit", "rate-limit", "too many requests"]) {
            return FailureKind::RateLimit;
        }
        if has(&["overloaded", "at capacity"]) {
            return FailureKind::Overloaded;
        }
        if has(&[
            "unauthorized",
            "authentication",
            "not logged in",
            "please run /login",
            "please log in",
            "login required",
            "invalid api key",
            "invalid x-api-key",
            "invalid_api_key",
            "incorrect api key",
            "oauth",
            "token has been revoked",
            "token expired",
            "no auth",
        ]) {
            return FailureKind::Auth;
        }
        if has(&["model"])
            && has(&["not found", "not_found", "does not exist", "unknown model", "not configured"])
        {
            return FailureKind::ModelNotFound;
        }
        if let Some(kind) = status_in(&t).and_then(FailureKind::from_http_status) {
            return kind;
        }
        if has(&["permission denied", "forbidden", "not allowed"]) {
            return FailureKind::Permission;
        }
        if has(&[
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "socket hang up",
            "connection closed",
            "connection refused",
            "connection reset",
            "connection error",
            "connection was closed",
            "cannot connect",
            "unexpected eof",
            "premature close",
            "request timed out",
            "error decoding response body",
            "network",
            "fetch failed",
            "terminated",
            "stream disconnected",
            "error sending request",
        ]) {
            return FailureKind::Network;
        }
        if has(&["internal server error", "api_error", "server_error", "bad gateway"]) {
            return FailureKind::Provider;
        }
        if has(&[
            "invalid_request",
            "invalid request",
            "bad request",
            "rejected the request",
            "status 400",
            "api error: 400",
        ]) {
            return FailureKind::InvalidRequest;
        }
        FailureKind::Unknown
    }
}

/// An HTTP status the text states as such ("API Error: 529 …", "HTTP 401", "error (429)", "401 mock: …").
fn status_in(text: &str) -> Option<u16> {
    use std::sync::LazyLock;
    static STATUS: LazyLock<regex::Regex> = LazyLock::new(|| {
        regex::Regex::new(r"(?:^|error:? ?\(?|http |status(?: code)?:? ?|\()(4\d\d|5\d\d)\b")
            .expect("constant pattern")
    });
    STATUS.captures(text)?.get(1)?.as_str().parse().ok()
}

/// Why a run did not complete, as data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub kind: FailureKind,
    pub retryable: bool,
    /// When a rate or usage limit ends, in ms since the epoch, where the CLI says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Which of our limits ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl Failure {
    pub fn of(kind: FailureKind) -> Self {
        Failure {
            kind,
            retryable: kind.retryable(),
            reset_at: None,
            hint: None,
            exit_code: None,
            signal: None,
            limit: None,
        }
    }
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_connections_in_the_words_of_real_clis() {
        for text in [
            "Cannot connect to API: The socket connection was closed unexpectedly.",
            "Failed native model HTTP request: error decoding response body: unexpected EOF during chunk size line",
            "request to http://127.0.0.1:1/v1 failed, reason: connect ECONNREFUSED",
            "Invalid response body: Premature close",
            "LLM request timed out.",
            "reqwest error stream: Transport error: error decoding response body",
        ] {
            assert_eq!(FailureKind::from_text(text), FailureKind::Network, "{text}");
        }
    }
}
