//! Whether an agent refused a resume. Only its own words about the session count: network, limits, login, a
//! bad model or bad parameters never do.

use std::sync::LazyLock;

use regex::Regex;

use crate::wire::rpc::ErrorObject;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("constant pattern")
}

/// Message and data, lower-cased. The method stays out: its name holds the word "session".
fn words(error: &ErrorObject) -> String {
    format!("{} {}", error.message, error.data_text().unwrap_or_default()).to_lowercase()
}

const GONE: &[&str] = &["session not found", "no session found", "unknown session"];

/// The session vanished between the resume, which some agents answer without looking, and a later request.
/// Both halves are needed: a fitting code and words about the session.
pub fn session_gone(error: &ErrorObject, requested: &str) -> bool {
    const RESOURCE_NOT_FOUND: i64 = -32002;
    if error.code == RESOURCE_NOT_FOUND
        && let Some(data) = &error.data
        && data.get("sessionId").and_then(|id| id.as_str()) == Some(requested)
    {
        return true;
    }
    let text = words(error);
    matches!(error.code, -32603 | -32602 | -32002 | -32000) && GONE.iter().any(|phrase| text.contains(phrase))
}

/// The answer to the resume request itself says that there is no such session. Any code.
pub fn refused(error: &ErrorObject) -> bool {
    const NOUN: &str = "(?:session|conversation|thread)";
    const FAULT: &str = "(?:no such|unknown|invalid|expired|unrecogni[sz]ed|nonexistent|missing)";
    // "Invalid session parameters: …" is about the request. It is cut out, not a veto: the rest may still tell.
    static COMPLAINT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r"\b{FAULT}\s+{NOUN}\s+(?:param(?:eter)?s?|requests?|config(?:uration)?|options?|capabilit(?:y|ies)|mode|setup)\b"
        ))
    });
    static HIT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"\b{FAULT}\s+{NOUN}(?:\b|id)|\bno\s+{NOUN}\s+found\b|\b{NOUN}(?:\s+(?:id|identifier))?(?:\s+"?[a-z0-9_-]+"?)?(?:\s+is)?\s+(?:not found|does not exist|doesn't exist|no longer exists|expired|invalid|unknown|unrecogni[sz]ed)\b"#
        ))
    });
    let text = words(error);
    let text = COMPLAINT.replace_all(&text, ";");
    GONE.iter().any(|phrase| text.contains(phrase)) || HIT.is_match(&text)
}

/// A provider's complaint about an empty message inside the history: the session exists, but no turn on it
/// can succeed any more. Both the emptiness and a place in the history are needed.
pub fn unresumable_history(text: &str) -> bool {
    static EMPTY: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)must not be empty|must (?:be|have) non-?empty|non-?empty content|cannot be empty|should not be empty",
        )
    });
    static PLACE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?i)role[^a-z0-9]{0,2}assistant|assistant message|message at position|messages(?:\.|\[)\d")
    });
    EMPTY.is_match(text) && PLACE.is_match(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn error(code: i64, message: &str, data: Value) -> ErrorObject {
        ErrorObject {
            method: "session/prompt".into(),
            code,
            message: message.into(),
            data: (!data.is_null()).then_some(data),
        }
    }

    #[test]
    fn a_vanished_session_needs_code_and_words() {
        for (code, message, data, gone) in [
            (-32602, "Invalid params", json!({"session_id":"Session not found"}), true),
            (-32603, "Session not found", Value::Null, true),
            (-32603, "Internal error", json!("No session found with id q1"), true),
            (-32602, "Invalid params", json!("unknown session id"), true),
            (-32602, "Invalid params: Unknown sessionId: s1", Value::Null, true),
            (-32000, "unknown session", Value::Null, true),
            (-32002, "Resource not found", json!({"sessionId":"s1"}), true),
            (-32002, "Resource not found", json!({"sessionId":"other"}), false),
            (-32002, "Resource not found", json!({"uri":"s1"}), false),
            (-32601, "Session not found", Value::Null, false),
            (-32602, "model not available: zz", Value::Null, false),
            (-32000, "Authentication required", Value::Null, false),
        ] {
            assert_eq!(session_gone(&error(code, message, data), "s1"), gone, "{code} {message}");
        }
    }

    #[test]
    fn a_refused_resume_is_told_from_a_bad_request() {
        for (message, refusal) in [
            ("Invalid session identifier \"27d8\"", true),
            ("Invalid session identifier \"ab-1\"", true),
            ("session s1 does not exist", true),
            ("Session expired", true),
            ("No session found with id s1", true),
            ("no conversation found", true),
            ("Session \"ab-1\" not found", true),
            ("Resource not found: Session 00-11 not found", true),
            ("thread id t_1 is unknown", true),
            ("invalid session request: session not found", true),
            ("Invalid params: Unknown sessionId: 0000", true),
            ("unknown error while loading session", false),
            ("invalid token for session s1", false),
            ("invalid credentials for this session", false),
            ("cwd does not exist for session s1", false),
            ("Invalid session parameters: cwd must be absolute", false),
            ("unknown session capability requested", false),
            ("Authentication required", false),
            ("", false),
        ] {
            assert_eq!(refused(&error(-1, message, Value::Null)), refusal, "{message}");
        }
    }

    #[test]
    fn an_empty_message_counts_only_inside_the_history() {
        for (text, unresumable) in [
            ("HTTP 400 messages[4]: content must not be empty", true),
            (
                "provider.api_error: 400 the message at position 7 with role 'assistant' must not be empty",
                true,
            ),
            ("messages.3: text content blocks must be non-empty", true),
            ("assistant message must have nonempty content", true),
            ("commit message must not be empty", false),
            ("messages[4]: bad role", false),
        ] {
            assert_eq!(unresumable_history(text), unresumable, "{text}");
        }
    }
}
