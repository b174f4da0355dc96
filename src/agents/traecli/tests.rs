use serde_json::{Value, json};

use super::PROFILE;
use crate::agents::acp::arguments;
use crate::agents::acp::testing::Setting;
use crate::contract::{ExecuteOptions, Message, RawJson, RunStatus};

fn trae() -> Setting {
    Setting::new(&PROFILE)
}

#[test]
fn arguments_serve_without_questions() {
    for (custom, rest) in [
        (
            &[
                "acp",
                "serve",
                "--yolo",
                "-p",
                "--output-format",
                "json",
                "--permission-mode",
                "default",
                "--add-dir",
                "/tmp/e",
            ][..],
            &["--add-dir", "/tmp/e"][..],
        ),
        (&["-p", "hello"], &["hello"]),
        (&["--output-format=json", "--k"], &["--k"]),
    ] {
        let custom_args = custom.iter().map(|a| (*a).to_owned()).collect();
        let args = arguments(&PROFILE, &ExecuteOptions { custom_args, ..Default::default() });
        assert_eq!(args[..3], ["acp", "serve", "--yolo"]);
        assert_eq!(args[3..], *rest);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_its_dialect() {
    let run = trae()
        .turn(async |a| {
            a.update(json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"t"}})).await;
            a.update(json!({"sessionUpdate":"tool_call","toolCallId":"c","name":"Shell","parameters":{"command":"echo hi"}})).await;
            a.update(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","output":"hi\n"})).await;
            a.text("pong").await;
            a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":17,"outputTokens":5,"cachedReadTokens":3,
                "cachedWriteTokens":2,"costUsdTicks":900}})).await;
            a.wait(50).await;
            a.text(" tail").await;
        })
        .await;
    let result = Message::ToolResult {
        call_id: "c".into(),
        tool: None,
        output: "hi\n".into(),
        is_error: Some(false),
        parent_call_id: None,
    };
    assert_eq!(
        run.spoken(),
        [
            Message::thinking("t"),
            Message::tool_use("terminal", "c", Some(RawJson(r#"{"command":"echo hi"}"#.into()))),
            result,
            Message::text("pong"),
            Message::text(" tail"),
        ]
    );
    assert_eq!(run.outcome.output, "pong tail");
    assert_eq!(run.usage("unknown"), [Some(17), Some(5), Some(3), Some(2), Some(900)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_loaded() {
    let run = trae()
        .resume("b1")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/load").await;
            a.text("old").await;
            a.reply(json!({})).await;
            a.take("session/prompt").await;
            a.text("new").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!((run.spoken(), run.outcome.session_id.as_deref()), (vec![Message::text("new")], Some("b1")));
    let run =
        trae().resume("b1").turn(async |a| a.fail(-32603, "Session not found", Value::Null).await).await;
    assert_eq!((run.outcome.resume_rejected, &run.outcome.session_id), (Some(true), &None));
    let run = trae()
        .resume("b1")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/load").await;
            a.fail(-32603, "No session found with id b1", Value::Null).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
}

#[tokio::test(start_paused = true)]
async fn a_refused_model_fails_the_run() {
    let run = trae()
        .model("zz")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/set_model").await;
            a.fail(-32602, "model not available: zz", Value::Null).await;
        })
        .await;
    assert!(run.error().contains("\"zz\"") && run.error().contains("model not available"), "{}", run.error());
    assert_eq!(run.outcome.status, RunStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn every_transport_is_sent_and_no_level() {
    let config =
        r#"{"mcpServers":{"h":{"url":"http://127.0.0.1:1"},"s":{"url":"http://127.0.0.1:2","type":"sse"}}}"#;
    let run = trae()
        .mcp(config)
        .level("high")
        .with(|o| o.system_prompt = Some("S".into()))
        .play(async |a| {
            a.take("initialize").await;
            a.reply(
                json!({"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true,"sse":true}}}),
            )
            .await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/prompt").await;
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    let sent = run.params("session/new")["mcpServers"].as_array().unwrap();
    assert_eq!(sent.iter().map(|s| s["type"].as_str().unwrap()).collect::<Vec<_>>(), ["http", "sse"]);
    assert!(run.prompt().starts_with("S\n\n---\n\n"));
    assert_eq!((run.outcome.status, run.warnings().len()), (RunStatus::Completed, 0));
}
