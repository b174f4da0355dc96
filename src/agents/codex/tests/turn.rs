use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ask, tool_result};
use crate::agents::Stop;
use crate::contract::{FailureKind, Limit, Message, RunStatus};

#[tokio::test(start_paused = true)]
async fn the_session_id_waits_for_the_first_sign_of_work() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.say("warning", json!({"threadId": "T1", "message": "careful"})).await;
            s.item("started", json!({"type": "userMessage", "id": "u"})).await;
            s.message("x", None).await;
            s.done().await;
        })
        .await;
    let kinds = [Message::log("warn", "careful"), Message::running(Some("T1".into())), Message::text("x")];
    assert_eq!(ran.messages, kinds);
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, "x"));
    assert_eq!(ran.outcome.session_id.as_deref(), Some("T1"));
    assert_eq!(ran.outcome.resume_rejected, None);
    assert!(ran.terminal);
}

#[tokio::test(start_paused = true)]
async fn the_session_id_is_told_even_when_nothing_came_of_the_turn() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.messages, [Message::running(Some("T1".into()))]);
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, ""));
}

#[tokio::test(start_paused = true)]
async fn the_final_answer_is_the_output() {
    type Spoken = &'static [(&'static str, Option<&'static str>)];
    let cases: &[(Spoken, &str)] = &[
        (&[("Looking.", Some("commentary")), ("Done.", Some("final_answer"))], "Done."),
        (&[("a", None), ("bb", None)], "bb"),
        (&[("old!", Some("final_answer")), ("new", Some("final_answer")), ("after", None)], "new"),
        (&[("a", None), ("", Some("final_answer"))], "a"),
    ];
    for (spoken, output) in cases {
        let ran = ask()
            .run(async |s| {
                s.turn().await;
                for (text, phase) in *spoken {
                    s.message(text, *phase).await;
                }
                s.done().await;
            })
            .await;
        let texts: Vec<Message> =
            spoken.iter().filter(|(t, _)| !t.is_empty()).map(|(t, _)| Message::text(*t)).collect();
        assert_eq!(ran.said(), texts);
        assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, *output));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_only_the_end_holds_is_used() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let items = json!([{"type": "agentMessage", "id": "m", "text": "late", "phase": null}]);
            let turn = json!({"id": "U1", "status": "completed", "items": items});
            s.say("turn/completed", json!({"threadId": "T1", "turn": turn})).await;
        })
        .await;
    assert_eq!(ran.outcome.output, "late");
}

#[tokio::test(start_paused = true)]
async fn text_that_was_streamed_is_not_repeated() {
    let delta = |id: &str, text: &str| json!({"threadId": "T1", "turnId": "U1", "itemId": id, "delta": text, "summaryIndex": 0, "contentIndex": 0});
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.say("item/reasoning/summaryTextDelta", delta("r", "think")).await;
            let second =
                json!({"threadId": "T1", "turnId": "U1", "itemId": "r", "delta": "more", "summaryIndex": 1});
            s.say("item/reasoning/summaryTextDelta", second).await;
            s.say("item/reasoning/textDelta", delta("r", "raw")).await;
            s.item("completed", json!({"type": "reasoning", "id": "r", "summary": ["think", "more"]})).await;
            s.item(
                "completed",
                json!({"type": "reasoning", "id": "r2", "summary": [], "content": ["a", "b"]}),
            )
            .await;
            s.item("completed", json!({"type": "reasoning", "id": "r3", "summary": [], "content": []})).await;
            for (id, pieces, whole) in
                [("a", vec!["He", "llo"], "Hello"), ("b", vec!["Hel"], "Hello"), ("c", vec!["Halo"], "Hello")]
            {
                for piece in pieces {
                    s.say("item/agentMessage/delta", delta(id, piece)).await;
                }
                s.item("completed", json!({"type": "agentMessage", "id": id, "text": whole})).await;
            }
            s.done().await;
        })
        .await;
    let want = [
        Message::thinking("think"),
        Message::thinking("\n\nmore"),
        Message::thinking("a\n\nb"),
        Message::text("He"),
        Message::text("llo"),
        Message::text("Hel"),
        Message::text("lo"),
        Message::text("Halo"),
    ];
    assert_eq!(ran.said(), want);
    assert_eq!(ran.outcome.output, "Hello");
}

#[tokio::test(start_paused = true)]
async fn the_older_event_family_is_understood_and_locks() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            s.serve("turn/start", json!({})).await;
            let event = |msg: Value| json!({"id": "1", "msg": msg, "conversationId": "T1"});
            for msg in [
                json!({"type": "task_started"}),
                json!({"type": "agent_message", "message": "x"}),
                json!({"type": "exec_command_begin", "call_id": "c", "command": ["ls", "-l"]}),
                json!({"type": "exec_command_end", "call_id": "c", "stdout": "a", "stderr": "b", "exit_code": 1}),
            ] {
                s.say(&format!("codex/event/{}", msg["type"].as_str().unwrap()), event(msg)).await;
            }
            // The current family has no say any more.
            s.say("turn/started", json!({"threadId": "T1", "turn": {"id": "U7"}})).await;
            s.message("not told", None).await;
            for msg in [
                json!({"type": "patch_apply_begin", "call_id": "p", "changes": {"a": {"type": "add", "content": ""}}}),
                json!({"type": "patch_apply_end", "call_id": "p", "success": false, "stderr": "bad hunk", "changes": {}}),
                json!({"type": "agent_message", "message": "y"}),
                json!({"type": "task_complete", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}}),
            ] {
                s.say("codex/event", event(msg)).await;
            }
        })
        .await;
    let want = [
        Message::running(Some("T1".into())),
        Message::text("x"),
        Message::tool_use("exec_command", "c", super::raw(json!({"command": "ls -l"}))),
        tool_result("exec_command", "c", "ab", Some(true)),
        Message::tool_use(
            "patch_apply",
            "p",
            super::raw(json!({"changes": [{"content": "", "kind": "add", "path": "a"}]})),
        ),
        tool_result("patch_apply", "p", "failed\nbad hunk", Some(true)),
        Message::text("y"),
    ];
    assert_eq!(ran.spoken(), want);
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, "y"));
    let usage = &ran.outcome.usage.unwrap()["m"];
    assert_eq!((usage.input_tokens, usage.cache_read_tokens), (Some(6), Some(4)));
}

#[tokio::test(start_paused = true)]
async fn an_aborted_turn_of_the_older_family_is_cancelled() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            s.serve("turn/start", json!({})).await;
            s.say("codex/event/turn_aborted", json!({"msg": {"type": "turn_aborted"}})).await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Cancelled, "turn was aborted"));
}

#[tokio::test(start_paused = true)]
async fn other_threads_and_turns_do_not_touch_ours() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let foreign = |turn: &str| json!({"threadId": "T2", "turn": {"id": turn, "status": "completed"}});
            s.say("turn/started", foreign("U9")).await;
            let leak = json!({"type": "agentMessage", "id": "z", "text": "leak", "phase": "final_answer"});
            s.say("item/completed", json!({"threadId": "T2", "turnId": "U9", "item": leak})).await;
            s.say("turn/completed", foreign("U9")).await;
            let old = json!({"threadId": "T1", "turn": {"id": "U0", "status": "completed"}});
            s.say("turn/completed", old).await;
            s.message("Main", None).await;
            s.done().await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.said(), [Message::text("Main")]);
    assert_eq!(ran.outcome.output, "Main");
}

#[tokio::test(start_paused = true)]
async fn a_turn_may_end_before_its_start_is_answered() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            s.expect("turn/start").await;
            s.started().await;
            s.message("quick", None).await;
            s.done().await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.outcome.output.as_str()), (RunStatus::Completed, "quick"));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_never_answered_does_not_end_a_turn_that_runs() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            s.expect("turn/start").await;
            s.started().await;
            s.item("started", json!({"type": "reasoning", "id": "r"})).await;
            s.pause(90_000).await;
            s.message("late", None).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.output, "late");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_the_turn_decides() {
    for (status, error, want, text) in [
        ("failed", json!({"message": "boom"}), RunStatus::Failed, "boom"),
        ("failed", Value::Null, RunStatus::Failed, "codex turn failed"),
        ("interrupted", Value::Null, RunStatus::Cancelled, "turn was aborted"),
        ("aborted", Value::Null, RunStatus::Cancelled, "turn was aborted"),
        ("completed", Value::Null, RunStatus::Completed, ""),
    ] {
        let ran = ask()
            .run(async |s| {
                s.turn().await;
                s.message("part", None).await;
                s.completed(status, error.clone()).await;
            })
            .await;
        assert_eq!((ran.outcome.status, ran.error()), (want, text), "{status}");
        let partial = (want != RunStatus::Completed).then_some("part");
        assert_eq!(ran.outcome.partial_output.as_deref(), partial);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_is_no_end_but_a_hint() {
    let interrupted = ask()
        .run(async |s| {
            s.turn().await;
            s.status("idle").await;
            s.pause(50).await;
            s.completed("interrupted", Value::Null).await;
        })
        .await;
    assert_eq!(interrupted.outcome.status, RunStatus::Cancelled);
    for hint in ["idle", "final_answer", "exit"] {
        let start = Instant::now();
        let settled = ask()
            .run(async |s| {
                s.turn().await;
                s.message("A", Some(if hint == "idle" { "commentary" } else { "final_answer" })).await;
                if hint == "idle" {
                    s.status("idle").await;
                }
                if hint == "exit" {
                    s.exit();
                }
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!((settled.outcome.status, settled.outcome.output.as_str()), (RunStatus::Completed, "A"));
        let settle = if hint == "exit" { Duration::ZERO } else { Duration::from_secs(2) };
        assert_eq!(start.elapsed(), settle, "{hint}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_after_a_final_answer_goes_on() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.message("first", Some("final_answer")).await;
            s.item("started", json!({"type": "commandExecution", "id": "c", "command": "x"})).await;
            s.pause(60_000).await;
            s.item(
                "completed",
                json!({"type": "commandExecution", "id": "c", "status": "completed", "exitCode": 0}),
            )
            .await;
            s.message("second", Some("final_answer")).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.output, "second");
}

#[tokio::test(start_paused = true)]
async fn retry_notices_are_logs_and_no_end() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let error = json!({"message": "Reconnecting... 1/5", "additionalDetails": "status 500"});
            s.error(error, true).await;
            s.message("ok", None).await;
            s.done().await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Completed, ""));
    assert_eq!(ran.logs("warn"), ["Reconnecting... 1/5: status 500"]);
    assert_eq!(ran.said(), [Message::text("ok")]);
}

#[tokio::test(start_paused = true)]
async fn the_first_terminal_error_is_the_error() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.error(json!({"message": "no auth"}), false).await;
            s.completed("failed", json!({"message": "other"})).await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, "no auth"));
    assert_eq!(ran.said(), [Message::error("no auth")]);
    assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, FailureKind::Auth);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_without_an_end_settles() {
    for exit in [false, true] {
        let ran = ask()
            .run(async |s| {
                s.turn().await;
                s.error(json!({"message": "broken"}), false).await;
                if exit {
                    s.exit();
                }
                s.pause(5_000).await;
            })
            .await;
        assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, "broken"));
    }
}

#[tokio::test(start_paused = true)]
async fn structured_errors_decide_the_kind_of_failure() {
    let http = |word: &str, status: Value| json!({word: {"httpStatusCode": status}});
    for (info, message, kind) in [
        (json!("contextWindowExceeded"), "x", FailureKind::ContextOverflow),
        (json!("usageLimitExceeded"), "x", FailureKind::Quota),
        (json!("rateLimitExceeded"), "x", FailureKind::RateLimit),
        (json!("serverOverloaded"), "x", FailureKind::Overloaded),
        (json!("unauthorized"), "x", FailureKind::Auth),
        (json!("badRequest"), "x", FailureKind::InvalidRequest),
        (json!("modelNotFound"), "x", FailureKind::ModelNotFound),
        (json!("internalServerError"), "x", FailureKind::Provider),
        (json!("cyberPolicy"), "x", FailureKind::Permission),
        (json!("other"), "stream disconnected before completion", FailureKind::Network),
        (json!("sandboxError"), "x", FailureKind::Unknown),
        (
            json!("other"),
            "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\"}}",
            FailureKind::InvalidRequest,
        ),
        (json!(null), "401 unauthorized", FailureKind::Auth),
        (http("httpConnectionFailed", json!(401)), "x", FailureKind::Auth),
        (http("responseTooManyFailedAttempts", json!(429)), "x", FailureKind::RateLimit),
        (http("responseStreamDisconnected", json!(null)), "x", FailureKind::Network),
        (http("httpConnectionFailed", json!(418)), "x", FailureKind::Unknown),
    ] {
        let ran = ask()
            .run(async |s| {
                s.turn().await;
                s.completed("failed", json!({"message": message, "codexErrorInfo": info})).await;
            })
            .await;
        assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, kind, "{info} {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_used_up_limit_says_when_it_ends() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let limits = json!({"primary": {"usedPercent": 100, "resetsAt": 1_800_000_000}, "secondary": {"usedPercent": 3, "resetsAt": 1_900_000_000}});
            s.say("account/rateLimits/updated", json!({"rateLimits": limits})).await;
            s.status("systemError").await;
            s.error(json!({"message": "x", "codexErrorInfo": "usageLimitExceeded"}), false).await;
            s.completed("failed", json!({"message": "x"})).await;
        })
        .await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, "x"));
    assert_eq!(ran.said(), [Message::error("x")]);
    let failure = ran.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.reset_at), (FailureKind::Quota, Some(1_800_000_000_000)));
    assert_eq!(failure.hint.as_deref(), Some("codex calls it usageLimitExceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_exits_in_the_turn_has_failed() {
    let ran = ask()
        .exit(2, "fatal: x")
        .run(async |s| {
            s.turn().await;
            s.message("half", None).await;
            s.exit();
        })
        .await;
    assert_eq!(
        (ran.outcome.status, ran.error()),
        (RunStatus::Failed, "codex process exited; codex stderr: fatal: x")
    );
    assert_eq!(ran.outcome.session_id.as_deref(), Some("T1"));
    assert_eq!(ran.outcome.partial_output.as_deref(), Some("half"));
    let failure = ran.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.exit_code), (FailureKind::Crash, Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_in_the_turn_ends_it() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let piece = "x".repeat(1 << 20);
            for _ in 0..33 {
                s.raw(&piece).await;
            }
        })
        .await;
    assert!(ran.error().starts_with("codex process exited: token too long"), "{}", ran.error());
    assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, FailureKind::Protocol);
}

#[tokio::test(start_paused = true)]
async fn a_stop_interrupts_the_turn_and_waits_for_its_end() {
    let start = Instant::now();
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let delta = json!({"threadId": "T1", "turnId": "U1", "itemId": "m", "delta": "half"});
            s.say("item/agentMessage/delta", delta).await;
            s.stop.send_replace(Some(Stop::cancelled()));
            let asked = s.serve("turn/interrupt", json!({})).await;
            assert_eq!(asked["params"], json!({"threadId": "T1", "turnId": "U1"}));
            s.status("idle").await;
            s.completed("interrupted", Value::Null).await;
            assert!(s.hear().await.is_none(), "stdin is closed only now");
        })
        .await;
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Aborted, "execution cancelled"));
    assert_eq!(ran.outcome.partial_output.as_deref(), Some("half"));
    assert_eq!(ran.outcome.session_id.as_deref(), Some("T1"));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_bounded_and_works_in_every_phase() {
    for phase in ["initialize", "thread", "unanswered turn", "turn"] {
        let start = Instant::now();
        let ran = ask()
            .run(async |s| {
                match phase {
                    "initialize" => drop(s.expect("initialize").await),
                    "thread" => {
                        s.initialize().await;
                        s.expect("thread/start").await;
                    }
                    "unanswered turn" => {
                        s.begin().await;
                        s.expect("turn/start").await;
                    }
                    _ => s.turn().await,
                }
                s.stop.send_replace(Some(Stop::limit(Limit::Run, Duration::from_secs(1))));
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Timeout, "codex timed out after 1s"));
        let wait = if phase.contains("turn") { Duration::from_secs(2) } else { Duration::ZERO };
        assert_eq!(start.elapsed(), wait, "{phase}");
        assert_eq!(ran.methods().contains(&"turn/interrupt"), phase == "turn");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_gets_its_id_after_the_stop_is_interrupted_too() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            let asked = s.expect("turn/start").await;
            s.stop.send_replace(Some(Stop::cancelled()));
            s.pause(100).await;
            s.reply(&asked, json!({"turn": {"id": "U1"}})).await;
            s.serve("turn/interrupt", json!({})).await;
            s.completed("interrupted", Value::Null).await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Aborted);
}

#[tokio::test(start_paused = true)]
async fn lines_that_mean_nothing_are_skipped() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.raw("[]\nnot json\n{\"id\":77,\"result\":{}}\n\n{\"method\":\n").await;
            s.say("some/future/thing", json!({"threadId": "T1"})).await;
            s.message("x", None).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.said(), [Message::text("x")]);
    assert_eq!(ran.logs("info"), ["not json"]);
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_again() {
    let ran = ask()
        .run(async |s| {
            s.begin().await;
            for _ in 0..2 {
                let asked = s.expect("turn/start").await;
                s.refuse(&asked, -32001, "Server overloaded; retry later.").await;
            }
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.message("x", None).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.output, "x");
    let refused = ask()
        .run(async |s| {
            s.begin().await;
            while let Some(asked) = s.hear().await {
                s.refuse(&asked, -32001, "Server overloaded; retry later.").await;
            }
        })
        .await;
    assert_eq!(refused.heard.iter().filter(|f| f["method"] == "turn/start").count(), 6);
    assert_eq!(refused.outcome.failure.as_ref().unwrap().kind, FailureKind::Overloaded);
    assert!(refused.error().starts_with("codex turn/start failed: turn/start: Server overloaded"));
    assert_eq!(refused.outcome.session_id, None);
}
