use serde_json::{Value, json};

use super::PROFILE;
use crate::agents::acp::testing::{FakeAgent, Run, Setting};
use crate::agents::acp::{arguments, discovery};
use crate::contract::{ExecuteOptions, Message, RawJson, RunStatus};

fn kiro() -> Setting {
    Setting::new(&PROFILE)
}

fn finish(id: &str, status: &str) -> Value {
    json!({"sessionUpdate":"tool_call_update","toolCallId":id,"title":"goal_complete","status":status,"rawInput":{}})
}

#[test]
fn arguments_trust_tools_once() {
    let custom = ["acp", "--trust-tools", "shell", "-a", "--agent", "dev"].map(String::from).to_vec();
    let options = ExecuteOptions { custom_args: custom, ..Default::default() };
    assert_eq!(arguments(&PROFILE, &options), ["acp", "--trust-all-tools", "--agent", "dev"]);
    assert_eq!(discovery::arguments(&PROFILE), ["acp"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_loaded_and_the_prompt_sent_twice() {
    let run = kiro()
        .resume("q1")
        .turn(async |a| {
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.params("session/load"), &json!({"cwd":"/w","sessionId":"q1","mcpServers":[]}));
    assert!(!run.methods().contains(&"session/resume"));
    assert_eq!(run.outcome.session_id.as_deref(), Some("q1"));
    let prompt = run.params("session/prompt");
    assert_eq!(prompt["prompt"], prompt["content"]);
    assert_eq!(run.prompt(), "P");
}

#[tokio::test(start_paused = true)]
async fn replayed_tool_ids_do_not_reach_the_live_turn() {
    let run = kiro()
        .resume("q1")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/load").await;
            a.text("old").await;
            a.update(json!({"sessionUpdate":"usage_update","usage":{"inputTokens":1000,"outputTokens":1000}})).await;
            a.update(json!({"sessionUpdate":"tool_call","toolCallId":"t1","name":"shell","parameters":{"command":"echo old"}})).await;
            a.reply(json!({})).await;
            a.take("session/prompt").await;
            a.update(json!({"sessionUpdate":"tool_call_update","toolCallId":"t1","name":"shell","status":"completed",
                "parameters":{"command":"echo new"},"output":"x\n"})).await;
            a.text("loaded").await;
            a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":2,"outputTokens":1}})).await;
        })
        .await;
    assert_eq!(
        run.spoken(),
        [
            Message::tool_use("terminal", "t1", Some(RawJson(r#"{"command":"echo new"}"#.into()))),
            Message::ToolResult {
                call_id: "t1".into(),
                tool: None,
                output: "x\n".into(),
                is_error: Some(false),
                parent_call_id: None
            },
            Message::text("loaded"),
        ]
    );
    assert_eq!(run.usage("unknown"), [Some(2), Some(1), None, None, None]);
}

#[tokio::test(start_paused = true)]
async fn tool_names() {
    for (frame, name) in [
        (json!({"title":"Todo List"}), "todo_write"),
        (json!({"title":"todo_list"}), "todo_write"),
        (json!({"title":"Code"}), "code"),
        (json!({"title":"grep"}), "search_files"),
        (json!({"title":"Run command: pwd"}), "terminal"),
        (json!({"title":"Running: pwd","_meta":{"kiro":{"toolName":"shell"}}}), "terminal"),
        (json!({"title":"Running: pwd","_meta":{"kiro":{"toolName":" "}}}), "running"),
        (json!({"title":"Running: pwd"}), "running"),
    ] {
        let run = kiro()
            .turn(async |a| {
                let mut start = frame.clone();
                start["sessionUpdate"] = json!("tool_call");
                start["toolCallId"] = json!("c");
                start["rawInput"] = json!({});
                a.update(start).await;
                a.end_turn().await;
            })
            .await;
        assert!(
            matches!(&run.spoken()[0], Message::ToolUse { tool, .. } if tool == name),
            "{:?}",
            run.messages
        );
    }
}

async fn closing_error(tools: &[Value], message: &str, data: &str) -> Run {
    kiro()
        .turn(async |a| {
            for tool in tools {
                a.update(tool.clone()).await;
            }
            a.fail(-32603, message, json!(data)).await;
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn an_error_after_finished_work_is_no_failure() {
    const CLOSE: &str = "Kiro failed to generate a response";
    let start = json!({"sessionUpdate":"tool_call","toolCallId":"g","title":"goal_complete","rawInput":{}});
    for (tools, data, finished) in [
        (vec![start.clone(), finish("g", "completed")], CLOSE, true),
        (vec![start.clone(), finish("g", "failed")], CLOSE, false),
        (vec![start], CLOSE, false),
        (vec![], CLOSE, false),
        (vec![finish("g", "completed"), finish("h", "failed")], CLOSE, false),
        (vec![finish("g", "failed"), finish("h", "completed")], CLOSE, true),
        (vec![finish("g", "completed")], "upstream 500", false),
    ] {
        let run = closing_error(&tools, " internal error ", data).await;
        let o = &run.outcome;
        assert_eq!(o.session_id.as_deref(), Some("s1"));
        if finished {
            assert_eq!((o.status, &o.error), (RunStatus::Completed, &None));
        } else {
            assert_eq!(o.status, RunStatus::Failed, "{tools:?}");
            assert!(run.error().contains(data), "{}", run.error());
        }
    }
    let other = closing_error(&[finish("g", "completed")], "Overloaded", CLOSE).await;
    assert_eq!(other.outcome.status, RunStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn an_object_as_output_costs_no_status() {
    let run = kiro()
        .turn(async |a| {
            a.update(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Shell","status":"completed",
                "rawOutput":{"items":[{"Json":{"stdout":"ok"}}]}}))
                .await;
            a.end_turn().await;
        })
        .await;
    let Message::ToolResult { output, is_error, .. } = &run.spoken()[1] else { panic!("{:?}", run.messages) };
    assert_eq!((output.as_str(), *is_error), (r#"{"items":[{"Json":{"stdout":"ok"}}]}"#, Some(false)));
}

#[tokio::test(start_paused = true)]
async fn an_image_no_provider_takes_makes_a_resumed_session_useless() {
    const IMAGE: &str = "messages.3.content.0.image.source.base64.data: At least one of the image dimensions exceed \
        max allowed size: 8000 pixels";
    for (setting, code, data, rejected) in [
        (kiro().resume("q1"), -32603, IMAGE, true),
        (kiro(), -32603, IMAGE, false),
        (kiro().resume("q1"), -32602, IMAGE, false),
        (kiro().resume("q1"), -32603, "image.source.base64.data: bad", false),
        (kiro().resume("q1"), -32603, "image dimensions exceed max allowed size", false),
    ] {
        let id = setting.options.resume_session_id.clone().unwrap_or("s1".into());
        let run = setting.turn(async |a| a.fail(code, "Internal error", json!(data)).await).await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected), (RunStatus::Failed, Some(rejected)), "{code} {data}");
        assert_eq!(o.session_id.as_deref(), Some(id.as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_session_shows_late() {
    let gone = json!("No session found with id q1");
    let run = kiro().resume("q1").turn(async |a| a.fail(-32603, "Internal error", gone.clone()).await).await;
    assert_eq!((run.outcome.resume_rejected, &run.outcome.session_id), (Some(true), &None));
    let run = kiro()
        .resume("q1")
        .model("m")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/load").await;
            a.reply(json!({})).await;
            a.take("session/set_model").await;
            a.fail(-32603, "Internal error", gone).await;
        })
        .await;
    assert_eq!((run.outcome.resume_rejected, &run.outcome.session_id), (Some(true), &None));
    let run = kiro()
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
    assert!(run.outcome.status == RunStatus::Failed && run.error().contains("zz"), "{}", run.error());
}

#[tokio::test(start_paused = true)]
async fn usage_goes_to_the_sessions_model() {
    let turn = async |a: &mut FakeAgent| {
        a.text("x").await;
        a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":2,"outputTokens":1}})).await;
    };
    let run = kiro()
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1","models":{"currentModelId":"auto"}})).await;
            a.take("session/prompt").await;
            turn(a).await;
        })
        .await;
    assert_eq!(run.usage("auto")[..2], [Some(2), Some(1)]);
    let run = kiro().resume("q1").turn(turn).await;
    assert_eq!(run.usage("unknown")[..2], [Some(2), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_just_after_the_answer_counts() {
    let run = kiro()
        .level("high")
        .turn(async |a| {
            a.text("pong").await;
            a.end_turn().await;
            a.wait(50).await;
            let chunk = json!({"type":"AgentMessageChunk","content":{"type":"text","text":" tail"}});
            a.send(json!({"method":"session/notification","params":{"update":chunk}})).await;
            a.send(json!({"method":"_kiro/x","params":{"update":chunk}})).await;
        })
        .await;
    assert_eq!(run.outcome.output, "pong tail");
    assert!(!run.methods().contains(&"session/set_config_option"));
}
