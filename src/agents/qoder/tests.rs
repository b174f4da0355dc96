use serde_json::{Value, json};

use super::{AGENT, PROFILE};
use crate::agents::acp::arguments;
use crate::agents::acp::testing::{Recording, Run, Setting};
use crate::contract::{ExecuteOptions, FailureKind, Message, RunStatus};

fn qoder() -> Setting {
    Setting::new(&PROFILE)
}

/// One frame in this CLI's dialect.
fn update(kind: &str, more: Value) -> Value {
    let mut update = json!({ "type": kind });
    update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "method": "session/notification", "params": { "update": update } })
}

fn chunk(text: &str) -> Value {
    update("AgentMessageChunk", json!({ "content": { "type": "text", "text": text } }))
}

#[test]
fn arguments_are_global_flags() {
    let custom = ["--acp", "acp", "--yolo", "--model", "m"].map(String::from).to_vec();
    let options = ExecuteOptions { custom_args: custom, ..Default::default() };
    assert_eq!(arguments(&PROFILE, &options), ["--yolo", "--acp", "--model", "m"]);
    assert_eq!(AGENT.executables, ["qodercli", "qoderclicn"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_its_dialect() {
    let run = qoder()
        .turn(async |a| {
            a.send(chunk("ok")).await;
            a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}})).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!(
        (o.status, o.output.as_str(), o.session_id.as_deref()),
        (RunStatus::Completed, "ok", Some("s1"))
    );
    assert_eq!(run.usage("unknown")[..2], [Some(1), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_what_follows_the_last_tool() {
    for parameters in [json!({"parameters":{"command":"ls"}}), json!({})] {
        let run = qoder()
            .turn(async |a| {
                a.send(chunk("I will look.")).await;
                let mut start = json!({"toolCallId":"c","name":"Shell"});
                start.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
                a.send(update("ToolCall", start)).await;
                a.send(update("ToolCallUpdate", json!({"toolCallId":"c","status":"completed","output":"x"})))
                    .await;
                a.send(chunk("It shows ")).await;
                a.send(chunk("X.")).await;
                a.end_turn().await;
            })
            .await;
        let texts = run.spoken().iter().filter(|m| matches!(m, Message::Text { .. })).count();
        assert_eq!((run.outcome.output.as_str(), texts), ("It shows X.", 3));
    }
    let run = qoder()
        .turn(async |a| {
            a.send(chunk("Done.")).await;
            a.send(update("ToolCall", json!({"toolCallId":"c","name":"Shell","parameters":{}}))).await;
            a.send(update("ToolCallUpdate", json!({"toolCallId":"c","status":"completed"}))).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.output, "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_given_up_model_call_fails_the_turn() {
    let run = qoder()
        .turn(async |a| {
            a.send(chunk("API call failed after 3 retries: HTTP 429")).await;
            a.send(update("ToolCall", json!({"toolCallId":"c","name":"Shell","parameters":{}}))).await;
            a.send(chunk("fine")).await;
            a.end_turn().await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!(
        (o.status, o.output.as_str(), o.partial_output.as_deref()),
        (RunStatus::Failed, "", Some("fine"))
    );
    let run = qoder()
        .turn(async |a| {
            a.stderr("[ERROR] API call failed after 3 retries: HTTP 429 RateLimitError\n");
            a.send(chunk("partial")).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::RateLimit)));
}

#[tokio::test(start_paused = true)]
async fn remote_servers_need_a_declaration() {
    let config = r#"{"mcpServers":{"s":{"type":"sse","url":"http://127.0.0.1:1","headers":{"Authorization":"Bearer tok"}},
        "p":{"command":"c"}}}"#;
    for (answer, names) in [
        (json!({"agentCapabilities":{"mcpCapabilities":{"sse":true}}}), vec!["p", "s"]),
        (json!({"agentCapabilities":{"mcpCapabilities":{"http":true}}}), vec!["p"]),
        (json!({}), vec!["p"]),
    ] {
        let run = qoder()
            .mcp(config)
            .play(async |a| {
                a.take("initialize").await;
                a.reply(answer).await;
                a.take("session/new").await;
                a.reply(json!({"sessionId":"s1"})).await;
                a.take("session/prompt").await;
                a.send(chunk("x")).await;
                a.end_turn().await;
            })
            .await;
        let sent = &run.params("session/new")["mcpServers"];
        let got: Vec<&str> = sent.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(got, names);
        if names.len() == 2 {
            assert_eq!(sent[1]["headers"], json!([{"name":"Authorization","value":"Bearer tok"}]));
        } else {
            assert!(!format!("{:?}", run.sent).contains("tok"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_session_is_rejected_wherever_it_shows() {
    let gone = async |setting: Setting, at: &str, code: i64, message: &str| -> Run {
        setting
            .resume("d1")
            .play(async |a| {
                a.take("initialize").await;
                a.reply(json!({})).await;
                for step in ["session/resume", "session/set_model", "session/prompt"] {
                    if step == "session/set_model" && at != step {
                        continue;
                    }
                    a.take(step).await;
                    if step == at {
                        return a.fail(code, message, Value::Null).await;
                    }
                    a.reply(json!({})).await;
                }
            })
            .await
    };
    for run in [
        gone(qoder(), "session/prompt", -32603, "Session not found").await,
        gone(qoder().model("m"), "session/set_model", -32603, "Session not found").await,
        gone(qoder(), "session/resume", -32602, "Invalid session identifier \"d1\"").await,
    ] {
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_holds_the_pipe_delays_nothing() {
    let run = qoder()
        .turn(async |a| {
            a.send(chunk("ok")).await;
            a.end_turn().await;
            a.wait(30_000).await;
            a.send(chunk("late")).await;
        })
        .await;
    assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, "ok"));
    assert_eq!(run.spoken(), [Message::text("ok")]);
}

#[tokio::test(start_paused = true)]
async fn the_model_of_the_session_or_the_one_asked_for() {
    let run = qoder()
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1","models":{"currentModelId":"q"}})).await;
            a.take("session/prompt").await;
            a.send(chunk("x")).await;
            a.reply(json!({"usage":{"inputTokens":1}})).await;
            a.wait(50).await;
            a.send(chunk(" tail")).await;
        })
        .await;
    assert_eq!((run.usage("q")[0], run.outcome.output.as_str()), (Some(1), "x tail"));
    let run = qoder()
        .model("zz")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/set_model").await;
            a.fail(-32602, "no such model", Value::Null).await;
        })
        .await;
    assert!(run.error().contains("zz") && run.error().contains("no such model"), "{}", run.error());
    assert_eq!(run.outcome.status, RunStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn recorded_login_wall() {
    for (setting, scenario) in
        [(qoder(), "new"), (qoder().resume("00000000-0000-4000-8000-000000000000"), "resume-nologin")]
    {
        let recording = Recording::load("qodercli-1.1.52", scenario);
        let run = setting.play(async |a| recording.play(a, false).await).await;
        let o = &run.outcome;
        assert_eq!(
            (o.status, run.kind(), o.resume_rejected),
            (RunStatus::Failed, Some(FailureKind::Auth), Some(false))
        );
        assert!(run.error().contains("Authentication required"), "{}", run.error());
        assert!(o.failure.as_ref().unwrap().hint.as_ref().unwrap().contains("/login"));
    }
}
