//! From the CLI's structured error to the common taxonomy.

use serde_json::Value;

use crate::contract::{Failure, FailureKind};

/// An error of a turn, as the CLI reported it.
#[derive(Debug, Clone, Default)]
pub struct TurnError {
    pub message: String,
    /// `codexErrorInfo`: a word, or an object with one key.
    pub info: Value,
    /// The message as it came, for its words.
    raw: String,
}

impl TurnError {
    pub fn read(error: &Value) -> Self {
        let raw = error["message"].as_str().unwrap_or_default();
        // Some errors of the model service are passed on as their JSON text.
        let inner = serde_json::from_str::<Value>(raw).ok();
        let inner = inner.as_ref().and_then(|v| v["error"]["message"].as_str()).filter(|m| !m.is_empty());
        TurnError {
            message: inner.unwrap_or(raw).to_owned(),
            info: error["codexErrorInfo"].clone(),
            raw: raw.to_owned(),
        }
    }

    /// The word of `codexErrorInfo`.
    fn code(&self) -> Option<&str> {
        match &self.info {
            Value::String(word) => Some(word),
            Value::Object(members) => members.keys().next().map(String::as_str),
            _ => None,
        }
    }

    fn http_status(&self) -> Option<u16> {
        let detail = self.info.as_object()?.values().next()?;
        detail["httpStatusCode"].as_u64().and_then(|n| u16::try_from(n).ok())
    }

    fn kind(&self) -> FailureKind {
        let by_text = || FailureKind::from_text(&self.raw);
        match self.code().unwrap_or_default() {
            "contextWindowExceeded" => FailureKind::ContextOverflow,
            "usageLimitExceeded" | "sessionBudgetExceeded" => FailureKind::Quota,
            "rateLimitExceeded" => FailureKind::RateLimit,
            "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => FailureKind::Overloaded,
            "unauthorized" => FailureKind::Auth,
            "badRequest" => FailureKind::InvalidRequest,
            "modelNotFound" => FailureKind::ModelNotFound,
            "internalServerError" => FailureKind::Provider,
            "cyberPolicy"
            | "bioPolicy"
            | "misalignmentPolicyViolation"
            | "inferenceHookDenied"
            | "tooManyDenials" => FailureKind::Permission,
            "httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts" => match self.http_status() {
                Some(status) => FailureKind::from_http_status(status).unwrap_or_else(by_text),
                None => match by_text() {
                    FailureKind::Unknown => FailureKind::Network,
                    known => known,
                },
            },
            _ => by_text(),
        }
    }

    /// `limits`: the last `account/rateLimits/updated`.
    pub fn failure(&self, limits: &Value) -> Failure {
        let kind = self.kind();
        let mut failure = Failure::of(kind);
        failure.hint = match (kind, self.code()) {
            (FailureKind::Auth, _) => {
                Some("log in with `codex login`, or set the key of the model provider".to_owned())
            }
            (_, Some(code)) if self.info.is_string() && code != "other" => {
                Some(format!("codex calls it {code}"))
            }
            _ => None,
        };
        if matches!(kind, FailureKind::Quota | FailureKind::RateLimit) {
            failure.reset_at = resets_at(limits);
        }
        failure
    }
}

/// When the limit that is used up ends, in ms. Of two, the later one: before it nothing goes.
fn resets_at(limits: &Value) -> Option<u64> {
    ["primary", "secondary"]
        .iter()
        .map(|window| &limits[window])
        .filter(|window| window["usedPercent"].as_f64().is_some_and(|used| used >= 100.0))
        .filter_map(|window| window["resetsAt"].as_u64()?.checked_mul(1000))
        .max()
}
