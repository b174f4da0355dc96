//! What a turn gives: messages, output, usage, requests of the agent.

use serde_json::{Value, json};

use super::super::testing::Setting;
use super::{PLAIN, chunk};
use crate::contract::{Message, RawJson, RunStatus};

fn result(call_id: &str, output: &str) -> Message {
    Message::ToolResult {
        call_id: call_id.into(),
        tool: None,
        output: output.into(),
        is_error: Some(false),
        parent_call_id: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_from_handshake_to_answer() {
    let run = Setting::new(&PLAIN)
        .play(async |a| {
            let hello = a.take("initialize").await;
            assert_eq!(hello["params"]["protocolVersion"], 1);
            assert_eq!(hello["params"]["clientCapabilities"], json!({}));
            a.reply(json!({ "protocolVersion": 1 })).await;
            let new = a.take("session/new").await;
            assert_eq!(new["params"], json!({ "cwd": "/w", "mcpServers": [] }));
            a.reply(json!({ "sessionId": "s1", "models": { "currentModelId": "m0" } })).await;
            a.take("session/prompt").await;
            a.update(json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}))
                .await;
            a.text("Hel").await;
            a.text("lo").await;
            a.reply(json!({ "stopReason": "end_turn", "usage": { "inputTokens": 3, "outputTokens": 2 } }))
                .await;
        })
        .await;
    assert_eq!(
        run.messages,
        [
            Message::running(Some("s1".into())),
            Message::thinking("hm"),
            Message::text("Hel"),
            Message::text("lo")
        ]
    );
    let outcome = &run.outcome;
    assert_eq!((outcome.status, outcome.output.as_str()), (RunStatus::Completed, "Hello"));
    assert_eq!((outcome.session_id.as_deref(), outcome.resume_rejected), (Some("s1"), Some(false)));
    assert_eq!(run.usage("m0"), [Some(3), Some(2), None, None, None]);
    assert_eq!(run.methods(), ["initialize", "session/new", "session/prompt"]);
    assert_eq!(
        run.params("session/prompt"),
        &json!({"sessionId":"s1","prompt":[{"type":"text","text":"P"}]})
    );
}

#[tokio::test(start_paused = true)]
async fn the_answer_follows_the_last_tool_call() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("I will look.").await;
            let start =
                json!({"type":"ToolCall","toolCallId":"c","name":"Shell","parameters":{"command":"ls"}});
            a.update(start).await;
            a.update(json!({"type":"ToolCallUpdate","toolCallId":"c","status":"completed","output":"x\n"}))
                .await;
            a.text("It shows ").await;
            a.text("X.").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(
        run.spoken(),
        [
            Message::text("I will look."),
            Message::tool_use("terminal", "c", Some(RawJson(r#"{"command":"ls"}"#.into()))),
            result("c", "x\n"),
            Message::text("It shows "),
            Message::text("X."),
        ]
    );
    assert_eq!(run.outcome.output, "It shows X.");
}

#[tokio::test(start_paused = true)]
async fn a_chunk_just_after_the_answer_still_counts() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("pong").await;
            a.end_turn().await;
            a.wait(50).await;
            a.text(" tail").await;
            a.update(json!({"sessionUpdate":"usage_update","usage":{"inputTokens":4}})).await;
            a.wait(200).await;
            a.text("!").await;
            a.rest().await;
        })
        .await;
    assert_eq!((run.outcome.output.as_str(), run.usage("unknown")[0]), ("pong tail!", Some(4)));
    // The last words may also come while the agent, its input closed, winds down.
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("pong").await;
            a.end_turn().await;
            a.rest().await;
            a.wait(600).await;
            a.text(" late").await;
        })
        .await;
    assert_eq!(run.outcome.output, "pong late");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_falls_silent_or_never_leaves_does_not_hold_the_run() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
            for _ in 0..400 {
                a.wait(100).await;
                a.update(json!({"sessionUpdate":"usage_update","used":1,"size":2})).await;
            }
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
    assert!(run.took < std::time::Duration::from_secs(6), "{:?}", run.took);
}

#[tokio::test(start_paused = true)]
async fn permission_is_given_for_one_action() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            let once = json!([{"optionId":"a1","name":"x","kind":"allow_once"},{"optionId":"f","kind":"allow_always"}]);
            let answer = a.ask(json!(0), "session/request_permission", json!({ "options": once })).await;
            assert_eq!(answer["id"], 0);
            assert_eq!(answer["result"], json!({"outcome":{"outcome":"selected","optionId":"a1"}}));
            let deny = json!([{"optionId":"f","kind":"allow_always"},{"optionId":"no","kind":"reject_once"}]);
            let answer = a.ask(json!("r-1"), "session/request_permission", json!({ "options": deny })).await;
            assert_eq!((&answer["id"], &answer["result"]["outcome"]["optionId"]), (&json!("r-1"), &json!("no")));
            for options in [json!([{"optionId":"f","kind":"allow_always"}]), json!("x"), Value::Null] {
                let answer = a.ask(Value::Null, "session/request_permission", json!({ "options": options })).await;
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32603)));
            }
            let answer = a.ask(json!(7), "fs/read_text_file", json!({ "path": "/a" })).await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32601)));
            assert!(answer["error"]["message"].as_str().unwrap().contains("fs/read_text_file"));
            a.text("done").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_before_the_session_too() {
    let run = Setting::new(&PLAIN)
        .play(async |a| {
            a.take("initialize").await;
            let answer = a.ask(json!("q"), "terminal/create", json!({})).await;
            assert_eq!(answer["error"]["code"], -32601);
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({ "sessionId": "s1" })).await;
            a.take("session/prompt").await;
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_system_prompt_goes_in_front() {
    let run = Setting::new(&PLAIN)
        .with(|o| o.system_prompt = Some("S".into()))
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.prompt(), "S\n\n---\n\nP");
}

#[tokio::test(start_paused = true)]
async fn a_stop_reason_other_than_the_end_is_logged() {
    for reason in ["max_tokens", "max_turn_requests", "refusal", "from_the_future"] {
        let run = Setting::new(&PLAIN)
            .turn(async |a| {
                a.text("part").await;
                a.reply(json!({ "stopReason": reason })).await;
            })
            .await;
        assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, "part"));
        assert_eq!(run.warnings(), [format!("plain ended the turn with {reason}")]);
    }
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("part").await;
            a.reply(json!({})).await;
        })
        .await;
    assert_eq!((run.outcome.status, run.warnings().len()), (RunStatus::Completed, 0));
}

#[tokio::test(start_paused = true)]
async fn usage_is_counted_once_and_under_the_model_in_use() {
    let turn = async |a: &mut super::super::testing::FakeAgent| {
        let record = json!({"inputTokens":90,"outputTokens":10,"totalTokens":100,"cachedReadTokens":60});
        a.text("x").await;
        a.update(json!({"sessionUpdate":"usage_update","usage":record})).await;
        a.update(json!({"type":"turn_end","stopReason":"end_turn","usage":record})).await;
        a.reply(json!({"stopReason":"end_turn","usage":record})).await;
    };
    let run = Setting::new(&PLAIN).model(" m:1 ").turn(turn).await;
    assert_eq!(run.usage("m:1"), [Some(30), Some(10), Some(60), None, None]);
    assert_eq!(run.params("session/set_model"), &json!({"sessionId":"s1","modelId":"m:1"}));
    let run = Setting::new(&PLAIN).turn(turn).await;
    assert_eq!(run.usage("unknown")[0], Some(30));
    assert_eq!(run.outcome.usage.unwrap().len(), 1);
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("x").await;
            a.reply(json!({"stopReason":"end_turn","_meta":{"modelId":"g9","usage":{"costUsdTicks":7}}}))
                .await;
        })
        .await;
    assert_eq!(run.usage("g9"), [None, None, None, None, Some(7)]);
}

#[tokio::test(start_paused = true)]
async fn servers_go_out_as_the_agent_can_take_them() {
    let config = r#"{"mcpServers":{"h":{"url":"http://127.0.0.1:1","headers":{"A":"Bearer tok"}},"p":{"command":"c"},"bad":{}}}"#;
    for (answer, names, warnings) in [
        (json!({"agentCapabilities":{"mcpCapabilities":{"http":true}}}), vec!["h", "p"], 1),
        (json!({"agentCapabilities":{"mcpCapabilities":{"http":"yes"}}}), vec!["p"], 2),
        (json!({}), vec!["p"], 2),
    ] {
        let run = Setting::new(&PLAIN)
            .mcp(config)
            .play(async |a| {
                a.take("initialize").await;
                a.reply(answer).await;
                a.take("session/new").await;
                a.reply(json!({ "sessionId": "s1" })).await;
                a.take("session/prompt").await;
                a.update(chunk("x")).await;
                a.end_turn().await;
            })
            .await;
        let sent = run.params("session/new")["mcpServers"].as_array().unwrap();
        assert_eq!(sent.iter().map(|s| s["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
        assert_eq!(run.warnings().len(), warnings);
        assert!(!run.warnings().concat().contains("tok"));
    }
}
