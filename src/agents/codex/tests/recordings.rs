//! Real conversations of codex 0.171.0, replayed: its side is written as recorded, ours is live.

use serde_json::Value;

use super::{Ran, ask, raw, tool_result};
use crate::agents::Stop;
use crate::contract::{FailureKind, Message, ModelUsage, RunStatus};

struct Line {
    ours: bool,
    frame: Value,
}

fn recording(scenario: &str) -> Vec<Line> {
    let file =
        format!("{}/__test__/recordings/codex-0.171.0/{scenario}.wire.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let line = |line: &str| {
        let entry: Value = serde_json::from_str(line).expect("a recorded line");
        let frame = serde_json::from_str(entry["line"].as_str().expect("text")).expect("a frame");
        Line { ours: entry["dir"] == ">", frame }
    };
    text.lines().map(line).collect()
}

/// Plays the recorded server: it goes on when we ask what the recording client asked, and answers with our ids.
async fn replay(scenario: &str) -> Ran {
    let lines = recording(scenario);
    let prompt = lines.iter().find_map(|l| l.frame["params"]["input"][0]["text"].as_str());
    let resume = lines.iter().find(|l| l.frame["method"] == "thread/resume");
    let unknown = scenario == "resume-unknown";
    let mut ask = ask();
    ask.prompt = prompt.unwrap_or("Go on.").to_owned();
    ask.options.resume_session_id =
        resume.map(|l| l.frame["params"]["threadId"].as_str().unwrap().to_owned());
    ask.run(async |s| {
        let mut asked: Vec<(Value, Value)> = Vec::new();
        for line in &lines {
            if !line.ours {
                let mut frame = line.frame.clone();
                if frame["method"].is_null()
                    && let Some((_, actual)) = asked.iter().find(|(recorded, _)| *recorded == frame["id"])
                {
                    frame["id"] = actual.clone();
                }
                s.frame(frame).await;
                continue;
            }
            let method = line.frame["method"].as_str().expect("we only ask");
            if method == "turn/interrupt" {
                s.stop.send_replace(Some(Stop::cancelled()));
            }
            let heard = s.expect(method).await;
            asked.push((line.frame["id"].clone(), heard["id"].clone()));
        }
        if unknown {
            let thread = serde_json::json!({"thread": {"id": "new"}});
            s.serve("thread/start", thread).await;
            s.serve("turn/start", serde_json::json!({"turn": {"id": "U"}})).await;
            let end = serde_json::json!({"threadId": "new", "turn": {"id": "U", "status": "completed"}});
            s.say("turn/completed", end).await;
        }
        while s.hear().await.is_some() {}
    })
    .await
}

fn once() -> ModelUsage {
    times(1)
}

/// The model behind the recordings always counts the same for a request.
fn times(n: u64) -> ModelUsage {
    ModelUsage::tokens((1234 - 789) * n, 56 * n, 789 * n, 0)
}

fn used(ran: &Ran) -> Option<ModelUsage> {
    ran.outcome.usage.as_ref().map(|usage| usage["gpt-5-codex"])
}

const METADATA: &str = "Model metadata for `gpt-5-codex` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.";

#[tokio::test(start_paused = true)]
async fn text() {
    let ran = replay("text").await;
    let session = ran.outcome.session_id.clone();
    assert!(session.is_some());
    let want = [
        Message::log("warn", METADATA),
        Message::running(session),
        Message::text("Hello"),
        Message::text(" from the"),
        Message::text(" mock model"),
        Message::text("."),
    ];
    assert_eq!(ran.messages, want);
    assert_eq!(
        (ran.outcome.status, ran.outcome.output.as_str()),
        (RunStatus::Completed, "Hello from the mock model.")
    );
    assert_eq!(used(&ran), Some(once()));
    assert_eq!((&ran.outcome.failure, ran.outcome.resume_rejected), (&None, None));
}

#[tokio::test(start_paused = true)]
async fn thinking() {
    let ran = replay("thinking").await;
    let thoughts: String = ran
        .said()
        .iter()
        .filter_map(|m| match m {
            Message::Thinking { content, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, "Let me think about it.");
    assert!(matches!(ran.said().last(), Some(Message::Text { .. })));
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

fn command(scenario: &str, id: &str, line: &str) -> Message {
    let lines = recording(scenario);
    let cwd = lines.iter().find(|l| l.frame["method"] == "thread/start").expect("a start");
    let cwd = &cwd.frame["params"]["cwd"];
    let input = serde_json::json!({"command": format!("/bin/bash -lc '{line}'"), "cwd": cwd});
    Message::tool_use("exec_command", id, raw(input))
}

/// Tool messages only.
fn tools(ran: &Ran) -> Vec<Message> {
    let tool = |m: &Message| matches!(m, Message::ToolUse { .. } | Message::ToolResult { .. });
    ran.said().into_iter().filter(tool).collect()
}

#[tokio::test(start_paused = true)]
async fn tool() {
    let ran = replay("tool").await;
    let id = "mock_call_1_4";
    assert_eq!(
        tools(&ran),
        [command("tool", id, "echo hi"), tool_result("exec_command", id, "hi\n", Some(false))]
    );
    assert_eq!(ran.outcome.output, "The tool said: hi");
    assert_eq!(used(&ran), Some(times(2)));
}

#[tokio::test(start_paused = true)]
async fn tool_fail() {
    let ran = replay("tool-fail").await;
    let id = "mock_call_1_10";
    let want = [
        command("tool-fail", id, "echo oops >&2; exit 3"),
        tool_result("exec_command", id, "oops\n", Some(true)),
    ];
    assert_eq!(tools(&ran), want);
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn narrated_tool() {
    let ran = replay("narrated-tool").await;
    let said = ran.said();
    let first_tool = said.iter().position(|m| matches!(m, Message::ToolUse { .. })).expect("a tool");
    let before: String = said[..first_tool]
        .iter()
        .map(|m| match m {
            Message::Text { content, .. } => content.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(!before.is_empty());
    assert_ne!(ran.outcome.output, before, "the narration is no answer");
    assert!(!ran.outcome.output.contains(&before));
    assert_eq!(tools(&ran).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn multi() {
    let ran = replay("multi").await;
    let tools = tools(&ran);
    let uses = tools.iter().filter(|m| matches!(m, Message::ToolUse { .. })).count();
    assert_eq!((uses, tools.len()), (2, 4));
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn errors() {
    for (scenario, kind, notices) in [
        ("error-400", FailureKind::InvalidRequest, 0),
        ("error-401", FailureKind::Auth, 5),
        ("error-403", FailureKind::Permission, 5),
        ("error-429", FailureKind::RateLimit, 5),
        ("error-500", FailureKind::Provider, 5),
        ("error-500-0retry", FailureKind::Provider, 0),
        ("overflow", FailureKind::ContextOverflow, 0),
        ("cut", FailureKind::Network, 5),
    ] {
        let ran = replay(scenario).await;
        assert_eq!(ran.outcome.status, RunStatus::Failed, "{scenario}");
        assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, kind, "{scenario}");
        let errors: Vec<_> = ran.said().into_iter().filter(|m| matches!(m, Message::Error { .. })).collect();
        assert_eq!(errors, [Message::error(ran.error())], "{scenario}");
        let retries = ran.logs("warn").iter().filter(|l| l.starts_with("Reconnecting...")).count();
        assert_eq!(retries, notices, "{scenario}");
        assert!(ran.outcome.session_id.is_some());
        assert_eq!(ran.outcome.output, "");
    }
}

#[tokio::test(start_paused = true)]
async fn empty() {
    let ran = replay("empty").await;
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, ""));
    assert!(ran.said().is_empty());
}

#[tokio::test(start_paused = true)]
async fn resume() {
    let ran = replay("resume").await;
    assert_eq!((ran.outcome.status, ran.outcome.resume_rejected), (RunStatus::Completed, Some(false)));
    assert_eq!(used(&ran), Some(once()), "the counters run on over the life of the thread");
    assert_eq!(ran.outcome.output, "Hello from the mock model.");
}

#[tokio::test(start_paused = true)]
async fn resume_unknown() {
    let ran = replay("resume-unknown").await;
    assert_eq!(ran.outcome.resume_rejected, Some(true));
    assert_eq!(ran.outcome.session_id.as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn slow_interrupt() {
    let ran = replay("slow-interrupt").await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Aborted, "execution cancelled"));
    assert_eq!(ran.outcome.partial_output.as_deref(), Some("tick 0 tick 1 tick 2 tick 3 "));
    assert_eq!(ran.heard.iter().filter(|f| f["method"] == "turn/interrupt").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn tool_slow_interrupt() {
    let ran = replay("tool-slow-interrupt").await;
    assert_eq!(ran.outcome.status, RunStatus::Aborted);
    assert_eq!(tools(&ran).len(), 1, "no result is made up for a command that never ended");
    assert_eq!(used(&ran), Some(once()));
}
