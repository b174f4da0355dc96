//! Error answers of an agent as text for people and as a kind of failure.

use serde_json::Value;

use super::profile::AcpProfile;
use crate::contract::{Failure, FailureKind};
use crate::wire::rpc::{ErrorObject, code};

/// The protocol's own code for "log in first". Some agents use it for anything.
const AUTH_REQUIRED: i64 = -32000;

/// `<name> session/new failed: Authentication required (code -32000)`.
pub fn describe(profile: &AcpProfile, error: &ErrorObject) -> String {
    format!("{} {} failed: {}", profile.name, error.method, words(error))
}

/// Message, data and code.
pub fn words(error: &ErrorObject) -> String {
    let message = error.message.trim();
    let data = data(error).filter(|data| !message.contains(data.as_str()));
    let text = match (message.is_empty(), data) {
        (true, Some(data)) => data,
        (true, None) => "no reason given".to_owned(),
        (false, Some(data)) => format!("{}: {data}", message.trim_end_matches([':', '.'])),
        (false, None) => message.to_owned(),
    };
    format!("{text} (code {})", error.code)
}

/// The sentence inside `data`, where there is one; else the whole of it.
fn data(error: &ErrorObject) -> Option<String> {
    if let Some(Value::Object(members)) = &error.data
        && let Some(text) = ["details", "detail", "message"].iter().find_map(|m| members.get(*m)?.as_str())
        && !text.trim().is_empty()
    {
        return Some(text.trim().to_owned());
    }
    // An object that only repeats what the message says, like the id it names, adds nothing.
    if let Some(Value::Object(members)) = &error.data
        && members.values().all(|v| v.as_str().is_some_and(|v| error.message.contains(v)))
    {
        return None;
    }
    error.data_text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A status of the model service in `data` decides, then the words, then the code.
pub fn failure(profile: &AcpProfile, error: &ErrorObject) -> Failure {
    let status = match &error.data {
        Some(Value::Object(members)) => ["http_status", "httpStatus", "statusCode", "status_code", "status"]
            .iter()
            .find_map(|m| members.get(*m)?.as_u64())
            .and_then(|status| u16::try_from(status).ok()),
        _ => None,
    };
    let all = format!("{} {}", error.message, error.data_text().unwrap_or_default());
    let by_code = || match error.code {
        AUTH_REQUIRED if error.method != "session/prompt" => FailureKind::Auth,
        code::INVALID_PARAMS if error.method == "session/set_model" => FailureKind::ModelNotFound,
        code::INVALID_PARAMS => FailureKind::InvalidRequest,
        code::METHOD_NOT_FOUND => FailureKind::Protocol,
        _ => FailureKind::Unknown,
    };
    let kind = status.and_then(FailureKind::from_http_status).unwrap_or_else(|| kind_of(profile, &all));
    let mut failure = of_kind(profile, if kind == FailureKind::Unknown { by_code() } else { kind });
    if error.method == "authenticate" && !profile.login_hint.is_empty() {
        failure.hint = Some(profile.login_hint.to_owned());
    }
    failure
}

/// The kind that the words of an error point to.
pub fn kind_of(profile: &AcpProfile, text: &str) -> FailureKind {
    let lower = text.to_lowercase();
    if profile.login_phrases.iter().any(|phrase| lower.contains(phrase)) {
        return FailureKind::Auth;
    }
    FailureKind::from_text(text)
}

pub fn of_kind(profile: &AcpProfile, kind: FailureKind) -> Failure {
    let failure = Failure::of(kind);
    if kind == FailureKind::Auth && !profile.login_hint.is_empty() {
        return failure.hint(profile.login_hint);
    }
    failure
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static PROFILE: AcpProfile = AcpProfile {
        login_phrases: &["no provider configured"],
        login_hint: "run `x login`",
        ..AcpProfile::new("x")
    };

    fn error(method: &str, code: i64, message: &str, data: Value) -> ErrorObject {
        ErrorObject {
            method: method.into(),
            code,
            message: message.into(),
            data: (!data.is_null()).then_some(data),
        }
    }

    #[test]
    fn an_error_is_told_with_its_reason() {
        for (message, data, want) in [
            ("Rate limited", json!("status 429"), "Rate limited: status 429 (code 7)"),
            ("Internal error", json!({"details":"No model"}), "Internal error: No model (code 7)"),
            (
                "Path not found.",
                json!({"detail":"os error 2","code":"X"}),
                "Path not found: os error 2 (code 7)",
            ),
            ("", json!({"a":1}), r#"{"a":1} (code 7)"#),
            ("bad: x", json!("x"), "bad: x (code 7)"),
            ("Unknown sessionId: x1", json!({"sessionId":"x1"}), "Unknown sessionId: x1 (code 7)"),
            ("", Value::Null, "no reason given (code 7)"),
        ] {
            assert_eq!(words(&error("m", 7, message, data)), want);
        }
        let text = describe(&PROFILE, &error("session/new", -32000, "Authentication required", Value::Null));
        assert_eq!(text, "x session/new failed: Authentication required (code -32000)");
    }

    #[test]
    fn status_then_words_then_code_give_the_kind() {
        use FailureKind::*;
        let prompt = "session/prompt";
        for (method, code, message, data, want) in [
            (prompt, -32603, "Internal error", json!({"http_status":429}), RateLimit),
            (
                prompt,
                -32603,
                "Internal error",
                json!({"message":"maximum context length","http_status":400}),
                ContextOverflow,
            ),
            (prompt, -32603, "Internal error", json!("Unauthorized (401) from x"), Auth),
            (prompt, -32003, "Rate limited", json!("API error (status 429 Too Many Requests)"), RateLimit),
            ("session/set_model", -32602, "model not available: zz", Value::Null, ModelNotFound),
            ("session/new", -32603, "Internal error", json!({"details":"No provider configured."}), Auth),
            ("session/new", -32000, "Sign in", Value::Null, Auth),
            (prompt, -32000, "odd", Value::Null, Unknown),
            (prompt, -32602, "odd", Value::Null, InvalidRequest),
            ("x", -32601, "Method not found", Value::Null, Protocol),
        ] {
            let got = failure(&PROFILE, &error(method, code, message, data));
            assert_eq!(got.kind, want, "{message}");
            assert_eq!(got.hint.is_some(), want == Auth);
        }
    }
}
