//! Cancel, limits, and turns that only look well.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::testing::Setting;
use super::{LOADS, PLAIN};
use crate::agents::Stop;
use crate::contract::{FailureKind, Limit, RunStatus};

#[tokio::test(start_paused = true)]
async fn a_stop_is_told_to_the_agent_first() {
    for answer in ["cancelled", "end_turn", "error", "silence"] {
        let run = Setting::new(&PLAIN)
            .turn(async |a| {
                let prompt = a.last.clone();
                a.stderr("2031-01-02 03:04:05 [INFO] x: noise\nx.Error: odd\n");
                a.text("part").await;
                a.stop(Stop::cancelled());
                assert_eq!(a.take("session/cancel").await["params"], json!({ "sessionId": "s1" }));
                let options = json!([{"optionId":"a","kind":"allow_once"}]);
                let denied =
                    a.ask(json!(1), "session/request_permission", json!({ "options": options })).await;
                assert_eq!(denied["result"], json!({"outcome":{"outcome":"cancelled"}}));
                a.last = prompt;
                match answer {
                    "error" => a.fail(-32603, "Internal error", json!({"details":"NoneType"})).await,
                    "silence" => {}
                    reason => a.reply(json!({ "stopReason": reason, "usage": {"inputTokens": 3} })).await,
                }
                a.rest().await;
            })
            .await;
        let o = &run.outcome;
        assert_eq!(
            (o.status, o.output.as_str(), o.partial_output.as_deref()),
            (RunStatus::Aborted, "", Some("part"))
        );
        assert_eq!((&o.failure, o.error.as_deref()), (&None, Some("execution cancelled")), "{answer}");
        assert_eq!(o.session_id.as_deref(), Some("s1"));
        let counted = matches!(answer, "cancelled" | "end_turn");
        assert_eq!(run.usage("unknown")[0], counted.then_some(3));
        assert!(run.took <= Duration::from_secs(5), "{:?}", run.took);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_run_stays_a_timeout() {
    let run = Setting::new(&PLAIN)
        .resume("s1")
        .turn(async |a| {
            let prompt = a.last.clone();
            a.stop(Stop::limit(Limit::Run, Duration::from_secs(1)));
            a.take("session/cancel").await;
            a.last = prompt;
            a.fail(-32603, "Session not found", Value::Null).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!((o.status, run.kind()), (RunStatus::Timeout, Some(FailureKind::Timeout)));
    assert_eq!((o.resume_rejected, o.session_id.as_deref()), (Some(false), Some("s1")));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_nobody_asked_for_is_the_agents_own() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("part").await;
            a.reply(json!({ "stopReason": "cancelled" })).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!((o.status, o.error.as_deref()), (RunStatus::Cancelled, Some("plain cancelled the prompt")));
    assert_eq!((o.partial_output.as_deref(), o.output.as_str()), (Some("part"), ""));
}

#[tokio::test(start_paused = true)]
async fn a_stop_after_the_answer_changes_nothing() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
            a.wait(10).await;
            a.stop(Stop::cancelled());
            a.rest().await;
        })
        .await;
    assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, "x"));
    assert!(!run.methods().contains(&"session/cancel"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_in_the_turn() {
    let mut setting = Setting::new(&PLAIN);
    setting.exit = crate::agents::Exit { code: None, signal: Some("SIGSEGV".into()), forced: false };
    let run = setting.turn(async |a| a.text("part").await).await;
    assert_eq!(
        (run.outcome.status, run.error()),
        (RunStatus::Failed, "plain exited with error: signal: SIGSEGV")
    );
    assert_eq!((run.kind(), run.outcome.partial_output.as_deref()), (Some(FailureKind::Crash), Some("part")));
    let run = Setting::new(&PLAIN).turn(async |a| a.text("part").await).await;
    assert_eq!(run.error(), "plain stream ended without terminal result");
    let mut setting = Setting::new(&PLAIN);
    setting.exit = crate::agents::Exit::code(143);
    let run = setting
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed, "after the answer the exit says nothing");
}

#[tokio::test(start_paused = true)]
async fn provider_errors_behind_a_good_end() {
    let warning = "⚠️ API call failed (attempt 1/3): RateLimitError [HTTP 429]\n";
    let gave_up = "❌ API call failed after 3 retries: HTTP 429\n";
    let echo = "2031-01-02 03:04:05 [INFO] root: {\"x\":\"❌ Error: HTTP 500\n\"}\n";
    for (text, stderr, failed, kind) in [
        ("ok", warning.to_owned(), None, None),
        ("", warning.to_owned(), Some("RateLimitError"), Some(FailureKind::RateLimit)),
        ("ok", format!("{warning}{gave_up}"), Some("HTTP 429"), Some(FailureKind::RateLimit)),
        ("done", echo.to_owned(), None, None),
        (
            "done",
            format!("{echo}❌ API call failed after 2 retries: HTTP 500\n"),
            Some("HTTP 500"),
            Some(FailureKind::Provider),
        ),
        (
            "partial",
            "[ERROR] API call failed after 3 retries: HTTP 429 RateLimitError".into(),
            Some("429"),
            Some(FailureKind::RateLimit),
        ),
        (
            "API call failed after 3 retries: HTTP 402",
            String::new(),
            Some("API call failed after 3 retries"),
            Some(FailureKind::Quota),
        ),
        (
            "Error: Authentication failed with provider at http://x (HTTP 401)",
            String::new(),
            Some("HTTP 401"),
            Some(FailureKind::Auth),
        ),
        (
            "Info: Request failed due to a transient API error",
            String::new(),
            Some("Request failed"),
            Some(FailureKind::Provider),
        ),
        ("", String::new(), Some("ended the turn without any text"), Some(FailureKind::Provider)),
    ] {
        let run = Setting::new(&PLAIN)
            .turn(async |a| {
                a.stderr(&stderr);
                if !text.is_empty() {
                    a.text(text).await;
                }
                a.end_turn().await;
            })
            .await;
        let o = &run.outcome;
        match failed {
            None => {
                assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, text), "{:?}", run.outcome)
            }
            Some(words) => {
                assert_eq!((o.status, o.output.as_str()), (RunStatus::Failed, ""), "{text} {stderr}");
                assert!(run.error().contains(words) && !run.error().contains("stderr:"), "{}", run.error());
                assert_eq!((run.kind(), o.session_id.as_deref()), (kind, Some("s1")), "{}", run.error());
                assert_eq!(o.partial_output.as_deref().unwrap_or_default(), text);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_give_up_before_a_tool_call_fails_the_turn() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("API call failed after 3 retries: HTTP 402").await;
            a.update(json!({"sessionUpdate":"tool_call","toolCallId":"c","title":"x","rawInput":{}})).await;
            a.update(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"})).await;
            a.text("fine").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(
        (run.outcome.status, run.outcome.partial_output.as_deref()),
        (RunStatus::Failed, Some("fine"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_tokens_or_tools_needs_no_text() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| a.reply(json!({"stopReason":"end_turn","usage":{"outputTokens":5}})).await)
        .await;
    assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, ""));
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.update(json!({"sessionUpdate":"tool_call","toolCallId":"c","title":"x","rawInput":{}})).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
    let run = Setting::new(&PLAIN).turn(async |a| a.reply(json!({"stopReason":"refusal"})).await).await;
    assert_eq!((run.outcome.status, run.outcome.session_id.as_deref()), (RunStatus::Failed, Some("s1")));
    assert!(run.error().contains("refused the turn"));
}

#[tokio::test(start_paused = true)]
async fn a_history_no_provider_takes_rejects_the_resume() {
    let bad = "❌ Error: HTTP 400 messages[4]: content must not be empty";
    let other = "❌ Error: HTTP 400 commit message must not be empty";
    for (profile, resumed, stderr, rejected) in [
        (&LOADS, true, bad, true),
        (&LOADS, true, other, false),
        (&LOADS, false, bad, false),
        (&PLAIN, true, bad, false),
        (&LOADS, true, "Error: messages[4]: content must not be empty, trying again", false),
    ] {
        let mut setting = Setting::new(profile);
        if resumed {
            setting = setting.resume("s1");
        }
        let run = setting
            .turn(async |a| {
                a.stderr(stderr);
                a.end_turn().await;
            })
            .await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected), (RunStatus::Failed, Some(rejected)), "{stderr}");
        assert_eq!(o.session_id.as_deref(), Some("s1"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_on_stderr_joins_a_refused_prompt() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.stderr("noise\n❌ Non-retryable error (HTTP 401)\n   Error: HTTP 401: bad key\nmore noise\n");
            a.fail(-32603, "Internal error", Value::Null).await;
        })
        .await;
    assert_eq!(
        run.error(),
        "plain session/prompt failed: Internal error (code -32603); plain provider error: HTTP 401: bad key"
    );
}
