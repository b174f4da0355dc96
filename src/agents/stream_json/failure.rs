//! What kind of failure it was: by names and status codes the CLI gives, by its words only then.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::{Str, decode};
use super::reset;
use crate::contract::{Failure, FailureKind};

/// Everything a CLI said about one failure.
#[derive(Debug, Clone, Default)]
pub struct Clues {
    pub text: String,
    /// HTTP status of the model service.
    pub status: Option<u16>,
    /// Names of the failure, the most specific first.
    pub names: Vec<String>,
    /// End of the usage limit, in ms since the epoch, as a structured event told it.
    pub reset_at: Option<u64>,
}

impl Clues {
    pub fn of(text: impl Into<String>) -> Self {
        Clues { text: text.into(), ..Clues::default() }
    }

    /// `now`: ms since the epoch.
    pub fn failure(&self, now: u64) -> Failure {
        let limited = is_plan_limit(&self.text);
        let kind = if limited { FailureKind::RateLimit } else { self.kind() };
        let mut failure = Failure::of(kind);
        if matches!(kind, FailureKind::RateLimit | FailureKind::Quota) {
            failure.reset_at = self.reset_at.or_else(|| reset::named_end(&self.text, now));
            if failure.reset_at.is_none() {
                failure.hint = reset::phrase(&self.text).map(str::to_owned);
            }
        }
        failure
    }

    fn kind(&self) -> FailureKind {
        let names = || self.names.iter().map(String::as_str);
        // A refused request is a 400 whatever was wrong with it; the text says what.
        let vague = |status: &u16| matches!(status, 400 | 422);
        if let Some(kind) = names().find_map(named) {
            return kind;
        }
        if let Some(kind) = self.status.filter(|s| !vague(s)).and_then(FailureKind::from_http_status) {
            return kind;
        }
        if names().any(|n| matches!(n, "server_error" | "api_error")) {
            return FailureKind::Provider;
        }
        match FailureKind::from_text(&self.text) {
            FailureKind::Unknown if self.status.as_ref().is_some_and(vague) => FailureKind::InvalidRequest,
            FailureKind::Unknown if names().any(|n| n.starts_with("invalid_request")) => {
                FailureKind::InvalidRequest
            }
            FailureKind::Unknown if is_empty_answer(&self.text) => FailureKind::Provider,
            kind => kind,
        }
    }
}

/// The kind a name stands for by itself. `invalid_request` and `unknown` do not decide, `api_error` only when
/// the status does not.
fn named(name: &str) -> Option<FailureKind> {
    Some(match name {
        "authentication_failed"
        | "authentication_error"
        | "oauth_org_not_allowed"
        | "cloud_credential_error"
        | "verification_required"
        | "custom_model_auth" => FailureKind::Auth,
        "permission_error" | "account_on_hold" => FailureKind::Permission,
        "billing_error" | "insufficient_quota" => FailureKind::Quota,
        "rate_limit" | "rate_limit_error" | "rate_limit_exceeded" => FailureKind::RateLimit,
        "overloaded" | "overloaded_error" => FailureKind::Overloaded,
        "model_not_found" | "not_found_error" => FailureKind::ModelNotFound,
        "prompt_too_long"
        | "blocking_limit"
        | "rapid_refill_breaker"
        | "request_too_large"
        | "context_length_exceeded" => FailureKind::ContextOverflow,
        "timeout_error" => FailureKind::Network,
        _ => return None,
    })
}

fn is_empty_answer(text: &str) -> bool {
    text.contains("No response received from model") || text.contains("ended with empty response")
}

/// The account's limit is used up. It comes as the answer text, with or without a status.
fn is_plan_limit(text: &str) -> bool {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)usage limit reached|you've hit your [^\n]{0,60}\blimit\b|limit reached [·∙•|] resets",
        )
        .expect("constant pattern")
    });
    LIMIT.is_match(text)
}

/// An error of the model service that was given as if it were the answer. `synthetic`: no model wrote the text,
/// so its beginning decides; else only shapes that no model would answer with.
pub fn is_error_answer(text: &str, synthetic: bool) -> bool {
    static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r#"^API Error: [45]\d\d \{"type":"error""#,
            r"|^Claude AI usage limit reached\|\d{10,13}$",
            r"|^You've hit your [^\n]{0,60}\blimit\b [·∙•] resets [^\n]{1,80}$",
        ))
        .expect("constant pattern")
    });
    static SYNTHETIC: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?:API Error|Prompt is too long|Invalid API key|Not logged in|Credit balance is too low",
            r"|You've hit your |Claude (?:AI )?usage limit|OAuth token |Failed to authenticate|Please run /login)",
        ))
        .expect("constant pattern")
    });
    let text = text.trim();
    SHAPE.is_match(text) || (synthetic && SYNTHETIC.is_match(text))
}

/// The error fields a result or error line may have.
#[derive(Debug, Default, Deserialize)]
pub struct ErrorFields<'a> {
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub errors: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub errors_info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub api_error_status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub api_error_type: Option<&'a RawValue>,
}

/// `error` as an object, and one entry of `errors_info`. Services name the same thing differently.
#[derive(Default, Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    category: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

impl ErrorFields<'_> {
    /// The answer or the error as text: a string as it is, a structured answer as its JSON text.
    pub fn result_text(&self) -> String {
        self.result.map(plain).unwrap_or_default()
    }

    /// Everything the line says about what went wrong, beside `result`.
    pub fn clues(&self) -> Clues {
        let mut clues = Clues { status: self.api_error_status.and_then(status), ..Clues::default() };
        clues.names.extend(self.api_error_type.and_then(string));
        let listed = self.errors_info.and_then(|e| decode::<Vec<ErrorObject>>(e.get())).unwrap_or_default();
        let single = self.error.and_then(|e| decode::<ErrorObject>(e.get()));
        for object in listed.iter().chain(&single) {
            clues
                .names
                .extend([object.category, object.kind, object.code].into_iter().flatten().filter_map(string));
            clues.status =
                clues.status.or_else(|| [object.status, object.code].into_iter().flatten().find_map(status));
        }
        let message = single.as_ref().and_then(|e| e.message).and_then(string).filter(|m| !m.is_empty());
        let texts = self.errors.and_then(|e| decode::<Vec<&RawValue>>(e.get())).unwrap_or_default();
        let texts: Vec<String> = texts.into_iter().map(plain).filter(|t| !t.is_empty()).collect();
        clues.text = if !texts.is_empty() {
            texts.join("; ")
        } else {
            message.or_else(|| self.error.map(plain)).unwrap_or_default()
        };
        clues
    }
}

/// Decoded if it is a string, its JSON text if not, empty for `null`.
fn plain(json: &RawValue) -> String {
    decode::<Str>(json.get()).map_or_else(|| json.get().to_owned(), |s| s.0.into_owned())
}

fn string(json: &RawValue) -> Option<String> {
    decode::<String>(json.get())
}

fn status(json: &RawValue) -> Option<u16> {
    let text = json.get().trim_matches('"');
    text.parse().ok().filter(|s| (400..600).contains(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, status: Option<u16>, names: &[&str]) -> FailureKind {
        let names = names.iter().map(|n| n.to_string()).collect();
        Clues { text: text.into(), status, names, reset_at: None }.failure(0).kind
    }

    #[test]
    fn names_beat_status_and_status_beats_words() {
        use FailureKind::*;
        for (text, status, names, want) in [
            ("Invalid API key · Fix external API key", Some(401), &["authentication_error"][..], Auth),
            ("x", Some(429), &["rate_limit"], RateLimit),
            ("x", Some(529), &["overloaded_error"], Overloaded),
            ("x", Some(500), &[], Provider),
            ("x", None, &["server_error"], Provider),
            ("x", Some(529), &["api_error"], Overloaded),
            ("x", Some(404), &["not_found_error"], ModelNotFound),
            ("x", None, &["billing_error"], Quota),
            ("x", None, &["unknown"], Unknown),
            ("x", Some(400), &["invalid_request_error"], InvalidRequest),
            ("x", None, &["invalid_request"], InvalidRequest),
            (
                "This model's maximum context length is 200000 tokens",
                Some(400),
                &["invalid_request_error"],
                ContextOverflow,
            ),
            ("Your credit balance is too low", Some(400), &["invalid_request_error"], Quota),
            ("x", Some(400), &["prompt_too_long", "invalid_request_error"], ContextOverflow),
            ("API Error: Connection closed mid-response", None, &["unknown"], Network),
            ("No response received from model", None, &[], Provider),
        ] {
            assert_eq!(kind(text, status, names), want, "{text} {status:?} {names:?}");
        }
    }

    #[test]
    fn a_plan_limit_is_a_rate_limit_with_its_end() {
        let limit = Clues::of("You've hit your session limit · resets 3pm (UTC)").failure(1_780_000_000_000);
        assert_eq!((limit.kind, limit.retryable), (FailureKind::RateLimit, true));
        assert!(limit.reset_at.is_some_and(|end| end > 1_780_000_000_000));
        let old = Clues::of("Claude AI usage limit reached|1749924000").failure(0);
        assert_eq!((old.kind, old.reset_at), (FailureKind::RateLimit, Some(1_749_924_000_000)));
        let vague = Clues::of("5-hour limit reached ∙ resets 3pm").failure(0);
        assert_eq!((vague.kind, vague.reset_at), (FailureKind::RateLimit, None));
        assert_eq!(vague.hint.as_deref(), Some("resets 3pm"));
        let told = Clues { reset_at: Some(5), ..Clues::of("You've hit your limit · resets 3pm") }.failure(0);
        assert_eq!((told.reset_at, told.hint), (Some(5), None));
        // A limit that has nothing to do with the failure is not its end.
        let other = Clues { status: Some(500), reset_at: Some(5), ..Clues::of("x") }.failure(0);
        assert_eq!((other.kind, other.reset_at), (FailureKind::Provider, None));
    }

    #[test]
    fn errors_given_as_answers_are_known_by_their_shape() {
        for (text, synthetic, want) in [
            (r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}"#, false, true),
            ("API Error: 400 mock: bad request", true, true),
            ("API Error: 400 mock: bad request", false, false),
            ("API Error: Request rejected (429) · mock: rate limited", true, true),
            ("API Error: Connection error.", true, true),
            ("API Error (Request timed out.)", true, true),
            ("Claude AI usage limit reached|1749924000", false, true),
            ("You've hit your limit · resets 3pm (Europe/Berlin)", false, true),
            ("You've hit your weekly limit ∙ resets Dec 5, 3pm", false, true),
            ("Invalid API key · Please run /login", false, false),
            ("Invalid API key · Please run /login", true, true),
            ("Prompt is too long", true, true),
            ("Credit balance is too low", true, true),
            ("No response requested.", true, false),
            ("The log shows API Error: 529 overloaded", false, false),
            ("API Error handling in this code base works like this: …", false, false),
            ("You've hit your rate limit in three places", false, false),
            ("", true, false),
        ] {
            assert_eq!(is_error_answer(text, synthetic), want, "{text}");
        }
    }

    #[test]
    fn error_fields_of_all_shapes_give_text_names_and_status() {
        for (line, text, status, names) in [
            (r#"{"errors":["a","b"]}"#, "a; b", None, &[][..]),
            (r#"{"error":"plain"}"#, "plain", None, &[]),
            (
                r#"{"error":{"type":"authentication_error","message":"bad key"}}"#,
                "bad key",
                None,
                &["authentication_error"],
            ),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#, None, &[]),
            (r#"{"error":{"code":429,"message":"m"}}"#, "m", Some(429), &[]),
            (
                r#"{"error":{"status":"503","message":""}}"#,
                r#"{"status":"503","message":""}"#,
                Some(503),
                &[],
            ),
            (
                r#"{"errors":["x"],"errors_info":[{"status":401,"code":0,"category":"custom_model_auth"}]}"#,
                "x",
                Some(401),
                &["custom_model_auth"],
            ),
            (
                r#"{"errors":[{"m":1}],"api_error_status":400,"api_error_type":"invalid_request_error"}"#,
                r#"{"m":1}"#,
                Some(400),
                &["invalid_request_error"],
            ),
            (r#"{"errors":"odd","error":null,"api_error_status":null}"#, "", None, &[]),
            ("{}", "", None, &[]),
        ] {
            let clues = decode::<ErrorFields>(line).expect(line).clues();
            assert_eq!(
                (clues.text.as_str(), clues.status, &clues.names[..]),
                (text, status, &names.iter().map(|n| n.to_string()).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
        for (line, want) in [
            (r#"{"result":"a\nb"}"#, "a\nb"),
            (r#"{"result":null}"#, ""),
            ("{}", ""),
            (r#"{"result":{"x": 1}}"#, r#"{"x": 1}"#),
        ] {
            assert_eq!(decode::<ErrorFields>(line).expect(line).result_text(), want);
        }
    }
}
