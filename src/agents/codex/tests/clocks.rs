use std::time::Duration;

use serde_json::json;

use super::ask;
use crate::contract::options::RunLimits;
use crate::contract::{Limit, Message, RunStatus};

fn limits(semantic_ms: u64, first_ms: Option<u64>) -> RunLimits {
    RunLimits {
        semantic_inactivity: Some(Duration::from_millis(semantic_ms)),
        first_turn: first_ms.map(Duration::from_millis),
        ..Default::default()
    }
}

const CATALOG: &[u8] =
    b"ERROR failed to refresh available models: timeout waiting for child process to exit\n";

#[tokio::test(start_paused = true)]
async fn a_turn_of_which_nothing_comes_ends_in_time() {
    // What happens after the turn began; whether the catalog was the trouble; the limit that ends it.
    let echo = json!({"type": "userMessage", "id": "u"});
    for (what, catalog, limit, retry) in [
        ("nothing", true, Limit::FirstTurn, true),
        ("nothing", false, Limit::FirstTurn, false),
        ("echo", true, Limit::FirstTurn, true),
        ("retry", true, Limit::FirstTurn, true),
        ("item", true, Limit::SemanticInactivity, false),
    ] {
        let ran = ask()
            .with(|o| o.limits = limits(100, None))
            .run(async |s| {
                s.turn().await;
                if catalog {
                    s.stderr.push(CATALOG);
                }
                match what {
                    "echo" => {
                        s.item("started", echo.clone()).await;
                        s.item("completed", echo.clone()).await;
                    }
                    "retry" => s.error(json!({"message": "Reconnecting... 1/5"}), true).await,
                    "item" => s.item("completed", json!({"type": "reasoning", "id": "r"})).await,
                    _ => {}
                }
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!(ran.outcome.status, RunStatus::Timeout);
        let marker = match limit {
            Limit::FirstTurn => "codex app-server no progress timeout after 80ms",
            _ => "codex semantic inactivity timeout after 100ms without agent progress",
        };
        assert!(ran.error().starts_with(marker), "{what}: {}", ran.error());
        assert!(
            ran.error().contains(
                "codex_version=\"0.171.0\" thread_id=\"T1\" turn_id=\"U1\" model=\"default(empty)\""
            )
        );
        assert_eq!(ran.error().contains("could not load its model catalog"), catalog);
        assert_eq!(ran.outcome.failure.as_ref().unwrap().limit, Some(limit));
        assert_eq!(ran.retry.map(|r| r.fresh_session), retry.then_some(true), "{what}");
        let told = ran.messages.contains(&Message::running(Some("T1".into())));
        assert_eq!(told, !retry, "a discarded attempt tells no session id");
        let second = ask().with(|o| o.limits = limits(100, None)).attempt(2);
        let second = second
            .run(async |s| {
                s.turn().await;
                s.stderr.push(CATALOG);
                while s.hear().await.is_some() {}
            })
            .await;
        assert!(second.retry.is_none(), "two attempts are all");
        assert_eq!(second.spoken(), [Message::running(Some("T1".into()))]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_smaller_of_both_limits_wins() {
    let ran = ask()
        .with(|o| o.limits = limits(100, Some(5_000)))
        .run(async |s| {
            s.turn().await;
            s.stderr.push(CATALOG);
            while s.hear().await.is_some() {}
        })
        .await;
    assert!(ran.error().contains("semantic inactivity timeout after 100ms"));
    assert!(ran.error().contains("last activity: status:running;"), "{}", ran.error());
    assert!(ran.retry.is_none());
}

#[tokio::test(start_paused = true)]
async fn deltas_and_other_agents_are_signs_of_life() {
    let ran = ask()
        .with(|o| o.limits = limits(150, None))
        .run(async |s| {
            s.turn().await;
            for n in 0..10 {
                s.pause(100).await;
                let thread = if n % 2 == 0 { "T1" } else { "T2" };
                let delta = json!({"threadId": thread, "turnId": "U1", "itemId": "m", "delta": "x"});
                s.say("item/agentMessage/delta", delta).await;
            }
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_silent_command_has_the_limit_of_tools() {
    let command = |status: &str| json!({"type": "commandExecution", "id": "c", "command": "x", "status": status, "exitCode": 0});
    let ran = ask()
        .with(|o| o.limits = limits(1_000, None))
        .run(async |s| {
            s.turn().await;
            s.item("started", command("inProgress")).await;
            s.pause(30_000).await;
            s.item("completed", command("completed")).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Completed);
    let bounded = ask()
        .with(|o| {
            o.limits = limits(1_000, None);
            o.limits.tool = Duration::from_secs(20);
        })
        .run(async |s| {
            s.turn().await;
            s.item("started", command("inProgress")).await;
            while s.hear().await.is_some() {}
        })
        .await;
    assert!(
        bounded.error().starts_with("codex semantic inactivity timeout after 20s"),
        "{}",
        bounded.error()
    );
    assert!(bounded.error().contains("last activity: item/started:commandExecution:c;"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_no_silence_of_the_cli() {
    // The queue of the harness is large; the pardon is what the clock gets for waiting on it.
    let mut watch = super::super::watch::Watch::new(&limits(1_000, None));
    watch.started();
    let (at, limit, _) = watch.next().unwrap();
    watch.pardon(Duration::from_secs(30));
    let (later, same, _) = watch.next().unwrap();
    assert_eq!((later - at, limit, same), (Duration::from_secs(30), Limit::FirstTurn, Limit::FirstTurn));
}
