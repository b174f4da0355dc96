//! New and resumed sessions, model and thinking level, and what may go wrong before the prompt.

use serde_json::{Value, json};

use super::super::testing::{FakeAgent, Run, Setting};
use super::{LOADS, PLAIN, chunk};
use crate::agents::Stop;
use crate::contract::{FailureKind, Limit, Message, RunStatus};

async fn hello(a: &mut FakeAgent) {
    a.take("initialize").await;
    a.reply(json!({})).await;
}

async fn good_turn(a: &mut FakeAgent) {
    a.take("session/prompt").await;
    a.text("new").await;
    a.end_turn().await;
}

#[tokio::test(start_paused = true)]
async fn old_history_stays_out() {
    for (profile, method) in [(&PLAIN, "session/resume"), (&LOADS, "session/load")] {
        let run = Setting::new(profile)
            .resume("k1")
            .play(async |a| {
                hello(a).await;
                let resume = a.take(method).await;
                assert_eq!(resume["params"], json!({"cwd":"/w","sessionId":"k1","mcpServers":[]}));
                let usage = json!({"inputTokens":1000,"outputTokens":1000});
                let start = json!({"sessionUpdate":"tool_call","toolCallId":"t1","name":"Shell","parameters":{"command":"echo old"}});
                a.update(chunk("old")).await;
                a.update(json!({"sessionUpdate":"usage_update","usage":usage})).await;
                a.update(start).await;
                a.update(json!({"type":"turn_end","stopReason":"cancelled","usage":usage})).await;
                a.reply(json!({})).await;
                // Some go on after their answer.
                a.update(chunk("older")).await;
                a.wait(80).await;
                a.update(chunk("oldest")).await;
                a.take("session/prompt").await;
                a.send(json!({"method":"session/update","params":{"_meta":{"isReplay":true},"update":chunk("marked")}})).await;
                a.update(json!({"sessionUpdate":"tool_call_update","toolCallId":"t1","title":"Shell","status":"completed",
                    "parameters":{"command":"echo new"},"output":"x\n"})).await;
                a.text("loaded").await;
                a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":2,"outputTokens":1}})).await;
            })
            .await;
        let spoken = run.spoken();
        assert_eq!(spoken.len(), 3, "{spoken:?}");
        assert!(matches!(&spoken[0], Message::ToolUse { input: Some(i), .. } if i.0.contains("echo new")));
        assert_eq!(run.outcome.output, "loaded");
        assert_eq!(
            (run.outcome.session_id.as_deref(), run.outcome.resume_rejected),
            (Some("k1"), Some(false))
        );
        assert_eq!(run.usage("unknown"), [Some(2), Some(1), None, None, None]);
        assert_eq!(run.outcome.status, RunStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn endless_history_does_not_hold_the_prompt() {
    let run = Setting::new(&LOADS)
        .resume("k1")
        .play(async |a| {
            hello(a).await;
            a.take("session/load").await;
            a.reply(json!({})).await;
            for _ in 0..100 {
                a.update(chunk("old")).await;
                a.wait(50).await;
            }
            good_turn(a).await;
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
    // The price: what still comes after two seconds of it counts as new.
    assert_eq!(run.spoken()[0], Message::text("old"));
    assert!(run.took < std::time::Duration::from_secs(11), "{:?}", run.took);
}

#[tokio::test(start_paused = true)]
async fn another_session_than_the_one_asked_for_is_told() {
    let run = Setting::new(&PLAIN)
        .resume("k1")
        .with(|o| (o.resume_expected, o.resume_continuity_notice) = (true, Some("N\n\n".into())))
        .play(async |a| {
            hello(a).await;
            a.take("session/resume").await;
            a.reply(json!({ "sessionId": "k2" })).await;
            good_turn(a).await;
        })
        .await;
    assert_eq!((run.outcome.session_id.as_deref(), run.outcome.resume_rejected), (Some("k2"), Some(false)));
    assert_eq!((run.prompt(), run.params("session/prompt")["sessionId"].as_str()), ("N\n\nP", Some("k2")));
    assert_eq!(run.warnings().len(), 1);
    assert_eq!(run.outcome.status, RunStatus::Completed);
    for odd in [json!({}), Value::Null, json!("x"), json!({"sessionId":7}), json!({"sessionId":""})] {
        let run = Setting::new(&PLAIN)
            .resume("k1")
            .with(|o| (o.resume_expected, o.resume_continuity_notice) = (true, Some("N".into())))
            .play(async |a| {
                hello(a).await;
                a.take("session/resume").await;
                a.reply(odd).await;
                good_turn(a).await;
            })
            .await;
        assert_eq!((run.outcome.session_id.as_deref(), run.prompt()), (Some("k1"), "P"));
    }
}

async fn failing_resume(code: i64, message: &str, data: Value) -> Run {
    Setting::new(&PLAIN)
        .resume("s1")
        .play(async |a| {
            hello(a).await;
            a.take("session/resume").await;
            a.fail(code, message, data).await;
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_refused_resume_is_told_from_other_failures() {
    for (message, rejected) in [
        ("Invalid session identifier \"27d8\"", true),
        ("invalid session request: session not found", true),
        ("unknown error while loading session", false),
        ("Invalid session parameters: cwd must be absolute", false),
        ("Authentication required", false),
    ] {
        let run = failing_resume(-32602, message, Value::Null).await;
        let o = &run.outcome;
        assert_eq!(
            (o.status, o.resume_rejected, &o.session_id),
            (RunStatus::Failed, Some(rejected), &None),
            "{message}"
        );
        assert_eq!(run.kind() == Some(FailureKind::ResumeRejected), rejected);
        assert!(
            run.error().contains("plain session/resume failed") && run.error().contains(message),
            "{}",
            run.error()
        );
        assert_eq!(run.methods(), ["initialize", "session/resume"]);
        assert_eq!(run.spoken(), []);
    }
    let official = failing_resume(-32002, "Resource not found", json!({ "sessionId": "s1" })).await;
    assert_eq!(official.outcome.resume_rejected, Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_session_may_turn_out_to_be_gone_later() {
    let gone = json!({ "session_id": "Session not found" });
    for (code, message, data, rejected) in [
        (-32602, "Invalid params", gone.clone(), true),
        (-32601, "Invalid params", gone, false),
        (-32002, "Resource not found", json!({"sessionId":"s1"}), true),
        (-32602, "bad", Value::Null, false),
    ] {
        let run =
            Setting::new(&PLAIN).resume("s1").turn(async |a| a.fail(code, message, data.clone()).await).await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected), (RunStatus::Failed, Some(rejected)), "{code} {message}");
        assert_eq!(o.session_id.as_deref(), (!rejected).then_some("s1"));
        let run = Setting::new(&PLAIN)
            .resume("s1")
            .model("m")
            .play(async |a| {
                hello(a).await;
                a.take("session/resume").await;
                a.reply(json!({})).await;
                a.take("session/set_model").await;
                a.fail(code, message, data).await;
            })
            .await;
        assert_eq!((run.outcome.status, run.outcome.resume_rejected), (RunStatus::Failed, Some(rejected)));
        assert_eq!(run.outcome.session_id.as_deref(), (!rejected).then_some("s1"));
    }
    let fresh =
        Setting::new(&PLAIN).turn(async |a| a.fail(-32603, "Session not found", Value::Null).await).await;
    assert_eq!(
        (fresh.outcome.resume_rejected, fresh.outcome.session_id.as_deref()),
        (Some(false), Some("s1"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_be_set_fails_the_run() {
    let run = Setting::new(&PLAIN)
        .model("zz")
        .play(async |a| {
            hello(a).await;
            a.take("session/new").await;
            a.reply(json!({ "sessionId": "s1" })).await;
            a.take("session/set_model").await;
            a.fail(-32602, "model not available: zz", Value::Null).await;
        })
        .await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::ModelNotFound)));
    assert!(run.error().contains("\"zz\"") && run.error().contains("model not available"), "{}", run.error());
    assert_eq!((&run.outcome.session_id, run.messages.len()), (&None, 0), "an unused session is no pointer");
    let run = Setting::new(&PLAIN)
        .resume("s1")
        .model("zz")
        .play(async |a| {
            hello(a).await;
            a.take("session/resume").await;
            a.reply(json!({})).await;
            a.take("session/set_model").await;
            a.fail(-32602, "bad model", Value::Null).await;
        })
        .await;
    assert_eq!((run.outcome.session_id.as_deref(), run.outcome.resume_rejected), (Some("s1"), Some(false)));
}

/// The session offers `effort` low/high; `answer` is the result of setting it.
async fn with_level(setting: Setting, answer: Result<Value, i64>) -> Run {
    let model = setting.options.model.is_some();
    setting
        .play(async |a| {
            hello(a).await;
            a.take("session/new").await;
            let options = json!([{"id":"reasoning_effort","category":"thought_level","currentValue":"low",
                "options":[{"value":"low"},{"value":"high"}]}]);
            a.reply(json!({ "sessionId": "s1", "configOptions": options })).await;
            if model {
                a.take("session/set_model").await;
                a.reply(json!({})).await;
            }
            let Some(next) = a.next().await else { return };
            a.last = next;
            if a.last["method"] == "session/set_config_option" {
                match answer {
                    Ok(result) => a.reply(result).await,
                    Err(code) => a.fail(code, "no", Value::Null).await,
                }
                a.take("session/prompt").await;
            }
            a.text("x").await;
            a.end_turn().await;
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_thinking_level_is_set_best_effort() {
    let confirmed = |id: &str, level: &str| json!({"configOptions":[{"id":id,"currentValue":level}]});
    let sent = |run: &Run| {
        run.sent.iter().find(|f| f["method"] == "session/set_config_option").map(|f| f["params"].clone())
    };

    let run = with_level(Setting::new(&PLAIN).level("high"), Ok(confirmed("reasoning_effort", "high"))).await;
    assert_eq!(sent(&run), Some(json!({"sessionId":"s1","configId":"reasoning_effort","value":"high"})));
    assert_eq!(run.warnings(), [""; 0]);
    let order = ["initialize", "session/new", "session/set_config_option", "session/prompt"];
    assert_eq!(run.methods(), order);

    for answer in [
        Err(-32602),
        Ok(json!({})),
        Ok(confirmed("reasoning_effort", "low")),
        Ok(confirmed("thinking", "high")),
    ] {
        let run = with_level(Setting::new(&PLAIN).level("high"), answer).await;
        assert_eq!(
            (run.outcome.status, run.warnings().len()),
            (RunStatus::Completed, 1),
            "{:?}",
            run.warnings()
        );
    }
    let run = with_level(Setting::new(&PLAIN).level("max"), Ok(json!({}))).await;
    assert_eq!((sent(&run), run.warnings().len(), run.outcome.status), (None, 1, RunStatus::Completed));
    let run =
        with_level(Setting::new(&PLAIN).level("max").model("m"), Ok(confirmed("reasoning_effort", "max")))
            .await;
    assert!(sent(&run).is_some() && run.warnings().is_empty(), "after a model switch the list may be stale");
    let run = with_level(Setting::new(&PLAIN), Ok(json!({}))).await;
    assert_eq!((sent(&run), run.warnings().len()), (None, 0));

    let run = with_level(Setting::new(&LOADS).level("max"), Ok(confirmed("thinking", "max"))).await;
    assert_eq!(sent(&run), Some(json!({"sessionId":"s1","configId":"thinking","value":"max"})));
    let run = Setting::new(&PLAIN)
        .level("high")
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!((sent(&run), run.warnings().len()), (None, 1), "nothing offered, nothing sent");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_names_the_request() {
    for (script, error, kind) in [
        ("initialize", "plain initialize failed: nope (code -32603)", FailureKind::Unknown),
        ("session/new", "plain session/new failed: nope (code -32603)", FailureKind::Unknown),
    ] {
        let run = Setting::new(&PLAIN)
            .play(async |a| {
                if script != "initialize" {
                    hello(a).await;
                }
                a.take(script).await;
                a.fail(-32603, "nope", Value::Null).await;
            })
            .await;
        assert_eq!((run.outcome.status, run.error(), run.kind()), (RunStatus::Failed, error, Some(kind)));
        assert_eq!(
            (&run.outcome.session_id, &run.outcome.usage, run.outcome.output.as_str()),
            (&None, &None, "")
        );
    }
    let run = Setting::new(&PLAIN)
        .play(async |a| {
            hello(a).await;
            a.take("session/new").await;
            a.reply(json!({ "sessionId": " " })).await;
        })
        .await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Protocol)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_meets_the_handshake_limit() {
    for silent_at in ["initialize", "session/new"] {
        let run = Setting::new(&PLAIN)
            .play(async |a| {
                if silent_at != "initialize" {
                    hello(a).await;
                }
                a.take(silent_at).await;
                a.rest().await;
            })
            .await;
        assert_eq!(run.outcome.status, RunStatus::Timeout);
        assert_eq!(run.outcome.failure.as_ref().and_then(|f| f.limit), Some(Limit::Handshake));
        assert!(run.error().contains(silent_at) && run.error().contains("1m0s"), "{}", run.error());
    }
    let run = Setting::new(&PLAIN)
        .with(|o| o.limits.handshake = Some(std::time::Duration::from_secs(5)))
        .play(async |a| a.rest().await)
        .await;
    assert!(run.error().contains("5s"), "{}", run.error());
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_start_is_no_failure() {
    for resume in [false, true] {
        let mut setting = Setting::new(&PLAIN);
        if resume {
            setting = setting.resume("k1");
        }
        let run = setting
            .play(async |a| {
                hello(a).await;
                a.next().await;
                a.stop(Stop::cancelled());
                a.fail(-32603, "Session not found", Value::Null).await;
                a.rest().await;
            })
            .await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected, &o.failure), (RunStatus::Aborted, Some(false), &None));
        assert!(!run.methods().contains(&"session/prompt"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_at_once_is_told_with_its_stderr() {
    let mut setting = Setting::new(&PLAIN);
    setting.exit = crate::agents::Exit::code(3);
    let run = setting
        .play(async |a| {
            a.take("initialize").await;
            a.stderr("no such option: --x\n");
        })
        .await;
    assert_eq!(run.error(), "plain exited with error: exit status 3; plain stderr: no such option: --x");
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Crash)));
}
