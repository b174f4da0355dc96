use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::thread::Refusal;
use super::{Ask, Fake, ask};
use crate::contract::{FailureKind, Message, RunStatus};

fn expecting() -> Ask {
    ask().resume().with(|o| {
        o.resume_expected = true;
        o.resume_continuity_notice = Some("You lost your memory. ".into());
        o.thread_name = Some("name".into());
    })
}

async fn finish(s: &mut Fake, thread: &str) {
    s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
    s.say("turn/started", json!({"threadId": thread, "turn": {"id": "U1"}})).await;
    let item = json!({"type": "agentMessage", "id": "m", "text": "Current"});
    s.say("item/completed", json!({"threadId": thread, "turnId": "U1", "item": item})).await;
    s.say("turn/completed", json!({"threadId": thread, "turn": {"id": "U1", "status": "completed"}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_thread_goes_on() {
    let ran = expecting()
        .run(async |s| {
            s.initialize().await;
            let asked = s.expect("thread/resume").await;
            // The history of an older server, before the answer.
            s.say("turn/completed", json!({"threadId": "T1", "turn": {"id": "U0", "status": "completed"}}))
                .await;
            let old = json!({"type": "agentMessage", "id": "o", "text": "Old"});
            s.say("item/completed", json!({"threadId": "T1", "turnId": "U0", "item": old})).await;
            s.reply(&asked, json!({"thread": {"id": "T1"}})).await;
            finish(s, "T1").await;
        })
        .await;
    let want = json!({"threadId": "T1", "cwd": "/proj", "approvalPolicy": "never", "excludeTurns": true});
    assert_eq!(*ran.asked("thread/resume"), want);
    assert_eq!(ran.methods(), ["initialize", "initialized", "thread/resume", "turn/start"]);
    assert_eq!(ran.asked("turn/start")["input"][0]["text"], "Hi");
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, "Current"));
    assert_eq!((ran.outcome.resume_rejected, ran.outcome.session_id.as_deref()), (Some(false), Some("T1")));
    assert_eq!(ran.said(), [Message::text("Current")]);
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_is_gone_gives_way_to_a_new_one() {
    for answer in [
        Err("no rollout found for thread id T1"),
        Err("Invalid request: unknown field"),
        Ok(json!({"thread": {}})),
    ] {
        let ran = expecting()
            .run(async |s| {
                s.initialize().await;
                let asked = s.expect("thread/resume").await;
                match &answer {
                    Ok(result) => s.reply(&asked, result.clone()).await,
                    Err(message) => s.refuse(&asked, -32600, message).await,
                }
                s.serve("thread/start", json!({"thread": {"id": "T9"}})).await;
                s.serve("thread/name/set", json!({})).await;
                finish(s, "T9").await;
            })
            .await;
        assert_eq!(ran.asked("turn/start")["input"][0]["text"], "You lost your memory. Hi");
        assert_eq!((ran.outcome.status, ran.outcome.resume_rejected), (RunStatus::Completed, Some(true)));
        assert_eq!(ran.outcome.session_id.as_deref(), Some("T9"));
        assert!(ran.messages.contains(&Message::running(Some("T9".into()))));
        assert!(!ran.messages.contains(&Message::running(Some("T1".into()))));
    }
}

#[test]
fn refusals_are_told_apart() {
    for (message, want) in [
        ("no rollout found for thread id X", Refusal::Gone),
        ("invalid session id: x", Refusal::Gone),
        ("invalid thread id: x", Refusal::Gone),
        ("thread/resume.x requires experimentalApi capability", Refusal::Gone),
        ("session X is archived. Run `codex unarchive X` to unarchive it first.", Refusal::Archived),
        ("thread X already has an active writer", Refusal::Busy),
        ("failed to load configuration: /c.toml:1:2: x", Refusal::Misconfigured),
    ] {
        assert_eq!(Refusal::of(message), want, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_thread_is_waited_for_and_never_replaced() {
    let busy = "thread T1 already has an active writer";
    for (refusals, completes) in [(3, true), (usize::MAX, false)] {
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        let ran = expecting()
            .run(async |s| {
                s.initialize().await;
                let mut left = refusals;
                while left > 0 {
                    let Some(asked) = s.hear().await else { return };
                    assert_eq!(asked["method"], "thread/resume");
                    waited = start.elapsed();
                    s.refuse(&asked, -32600, busy).await;
                    left -= 1;
                }
                s.serve("thread/resume", json!({"thread": {"id": "T1"}})).await;
                finish(s, "T1").await;
            })
            .await;
        assert!(!ran.methods().contains(&"thread/start"));
        assert_eq!(
            (ran.outcome.resume_rejected, ran.outcome.session_id.as_deref()),
            (Some(false), Some("T1"))
        );
        if completes {
            assert_eq!(ran.outcome.status, RunStatus::Completed);
        } else {
            assert_eq!(waited, Duration::from_millis(3_500));
            let text = format!("codex thread/resume failed: thread/resume: {busy} (code=-32600)");
            assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, text.as_str()));
            assert!(ran.outcome.failure.as_ref().unwrap().retryable);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_archived_thread_is_taken_out_and_resumed() {
    let archived = "session T1 is archived. Run `codex unarchive T1` to unarchive it first.";
    let ran = expecting()
        .run(async |s| {
            s.initialize().await;
            let asked = s.expect("thread/resume").await;
            s.refuse(&asked, -32600, archived).await;
            let unarchive = s.serve("thread/unarchive", json!({})).await;
            assert_eq!(unarchive["params"], json!({"threadId": "T1"}));
            s.serve("thread/resume", json!({"thread": {"id": "T1"}})).await;
            finish(s, "T1").await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.outcome.resume_rejected), (RunStatus::Completed, Some(false)));
    let stuck = expecting()
        .run(async |s| {
            s.initialize().await;
            while let Some(asked) = s.hear().await {
                match asked["method"].as_str() {
                    Some("thread/resume") => s.refuse(&asked, -32600, archived).await,
                    _ => s.reply(&asked, json!({})).await,
                }
            }
        })
        .await;
    assert_eq!((stuck.outcome.status, stuck.outcome.resume_rejected), (RunStatus::Failed, Some(false)));
    assert_eq!(stuck.outcome.session_id.as_deref(), Some("T1"));
    assert_eq!(stuck.outcome.failure.unwrap().hint.as_deref(), Some("run `codex unarchive T1`"));
}

#[tokio::test(start_paused = true)]
async fn a_broken_configuration_is_no_rejection() {
    let ran = expecting()
        .run(async |s| {
            s.initialize().await;
            let asked = s.expect("thread/resume").await;
            s.refuse(&asked, -32600, "failed to load configuration: x").await;
            while s.hear().await.is_some() {}
        })
        .await;
    assert_eq!((ran.outcome.status, ran.outcome.resume_rejected), (RunStatus::Failed, Some(false)));
    assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, FailureKind::InvalidRequest);
    assert_eq!(ran.outcome.session_id.as_deref(), Some("T1"));
    assert!(!ran.methods().contains(&"thread/start"));
}

#[tokio::test(start_paused = true)]
async fn an_exit_or_a_silence_in_the_resume_is_no_rejection() {
    for exit in [true, false] {
        let ran = expecting()
            .exit(1, "noise")
            .run(async |s| {
                s.initialize().await;
                s.expect("thread/resume").await;
                if exit {
                    s.exit();
                }
                while s.hear().await.is_some() {}
            })
            .await;
        let cause = if exit {
            "codex process exited"
        } else {
            "codex app-server handshake timeout: thread/resume did not respond after 1m0s"
        };
        assert_eq!(ran.error(), format!("codex thread/resume failed: {cause}"));
        assert_eq!(ran.outcome.status, if exit { RunStatus::Failed } else { RunStatus::Timeout });
        assert_eq!((ran.outcome.resume_rejected, ran.retry), (Some(false), None));
        assert!(!ran.methods().contains(&"thread/start"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_over_the_line_limit_is_a_rejection() {
    for resume in [true, false] {
        let asked = if resume { expecting() } else { ask() };
        let start = Instant::now();
        let ran = asked
            .run(async |s| {
                s.initialize().await;
                s.expect(if resume { "thread/resume" } else { "thread/start" }).await;
                let piece = "h".repeat(1 << 20);
                s.raw("{\"id\":2,\"result\":\"").await;
                for _ in 0..33 {
                    s.raw(&piece).await;
                }
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!(ran.outcome.status, RunStatus::Failed);
        let method = if resume { "thread/resume failed" } else { "thread/start failed" };
        assert!(ran.error().contains(method) && ran.error().contains("token too long"), "{}", ran.error());
        assert_eq!(ran.outcome.resume_rejected, resume.then_some(true));
        assert_eq!(ran.outcome.session_id, None);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let kind = if resume { FailureKind::ResumeRejected } else { FailureKind::Protocol };
        assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_fails_in_the_turn_keeps_its_session() {
    let ran = expecting()
        .run(async |s| {
            s.initialize().await;
            s.serve("thread/resume", json!({"thread": {"id": "T1"}})).await;
            let asked = s.expect("turn/start").await;
            s.refuse(&asked, -32600, "no").await;
            while s.hear().await.is_some() {}
        })
        .await;
    assert_eq!((ran.outcome.status, ran.outcome.session_id.as_deref()), (RunStatus::Failed, Some("T1")));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_thread_gets_the_system_prompt_it_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    std::fs::write(
        &path,
        json!({"payload": {"content": [{"type": "input_text", "text": "be brief"}]}}).to_string(),
    )
    .unwrap();
    for (prompt, injected) in [("be brief", false), ("be long", true)] {
        let ran = ask()
            .resume()
            .with(|o| o.system_prompt = Some(prompt.into()))
            .run(async |s| {
                s.initialize().await;
                s.serve("thread/resume", json!({"thread": {"id": "T1", "path": path}})).await;
                if injected {
                    let asked = s.expect("thread/inject_items").await;
                    let content = json!([{"type": "input_text", "text": "be long"}]);
                    let items = json!([{"type": "message", "role": "developer", "content": content}]);
                    assert_eq!(asked["params"], json!({"threadId": "T1", "items": items}));
                    s.refuse(&asked, -32600, "unknown variant").await;
                }
                finish(s, "T1").await;
            })
            .await;
        assert_eq!(ran.asked("thread/resume")["developerInstructions"], prompt);
        assert_eq!(
            (ran.outcome.status, ran.logs("warn").len()),
            (RunStatus::Completed, usize::from(injected))
        );
    }
}
