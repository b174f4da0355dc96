//! Frames as vendors really send them.

use serde_json::json;

use super::super::testing::Setting;
use super::{PLAIN, chunk};
use crate::contract::{Message, RunStatus};

#[tokio::test(start_paused = true)]
async fn banners_broken_lines_and_odd_responses() {
    let run = Setting::new(&PLAIN)
        .play(async |a| {
            a.line("Loading plugins...").await;
            a.take("initialize").await;
            // No jsonrpc member, the id as a string, an error that is null.
            let id = a.last["id"].to_string();
            a.line(&format!(r#"{{"id":"{id}","result":{{}},"error":null}}"#)).await;
            a.take("session/new").await;
            a.line("[1,2]").await;
            a.line(r#"{"broken"#).await;
            a.line(r#"{"id":999,"result":{"sessionId":"other"}}"#).await;
            let id = a.last["id"].to_string();
            a.line(&format!(r#"{{"id":{id}.0,"result":{{"sessionId":"s1"}}}}"#)).await;
            a.take("session/prompt").await;
            a.line("\u{1b}[2K warning: slow disk").await;
            a.line(r#"{"method":"$/progress","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"no"}}}}"#).await;
            a.line(r#"{"method":"session/notification","params":{"sessionId":"else","update":{"type":"AgentMessageChunk","content":{"type":"text","text":"hey"}}}}"#).await;
            a.line(r#"{"method":"session/update"}"#).await;
            a.line(r#"{"method":"session/update","params":[]}"#).await;
            a.line(r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call"}}}"#).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.spoken(), [Message::text("hey")]);
    assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, "hey"));
    let logs: Vec<&Message> = run.messages.iter().filter(|m| matches!(m, Message::Log { .. })).collect();
    assert_eq!(logs.len(), 4, "{logs:?}");
    assert!(run.sent.iter().all(|f| f.get("method").is_some()), "nothing answers a line that is no request");
}

#[tokio::test(start_paused = true)]
async fn half_a_megabyte_in_one_line() {
    let text = "é".repeat(256 * 1024);
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text(&text).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.output, text);
}

#[tokio::test(start_paused = true)]
async fn a_big_prompt_and_much_output_at_once() {
    let mut setting = Setting::new(&PLAIN);
    setting.prompt = "p".repeat(1024 * 1024);
    let noise = "n".repeat(1000);
    let run = setting
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({ "sessionId": "s1" })).await;
            // The agent talks before it reads: neither side may wait for the other.
            for _ in 0..500 {
                a.line(&noise).await;
            }
            a.take("session/prompt").await;
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!((run.outcome.output.as_str(), run.prompt().len()), ("x", 1024 * 1024));
}

#[tokio::test(start_paused = true)]
async fn a_line_beyond_every_limit_fails_the_run() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.text("part").await;
            a.line(&"x".repeat(33 * 1024 * 1024)).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(
        (run.outcome.status, run.outcome.partial_output.as_deref()),
        (RunStatus::Failed, Some("part"))
    );
    assert_eq!(run.kind(), Some(crate::contract::FailureKind::Protocol));
    assert!(run.error().contains("token too long"), "{}", run.error());
}

#[tokio::test(start_paused = true)]
async fn an_update_without_a_session_or_with_another_is_taken() {
    let run = Setting::new(&PLAIN)
        .turn(async |a| {
            a.send(json!({"method":"session/update","params":{"update":chunk("a")}})).await;
            a.send(json!({"method":"session/update","params":{"sessionId":"zz","update":chunk("b")}})).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.outcome.output, "ab");
}
