use serde_json::{Value, json};

use super::{Ran, ask};
use crate::contract::ModelUsage;

fn counts(input: u64, cached: u64, output: u64) -> Value {
    json!({"totalTokens": input + output, "inputTokens": input, "cachedInputTokens": cached, "outputTokens": output, "reasoningOutputTokens": 5})
}

fn used(ran: &Ran, model: &str) -> (Option<u64>, Option<u64>, Option<u64>) {
    let ModelUsage { input_tokens, output_tokens, cache_read_tokens, .. } =
        ran.outcome.usage.as_ref().expect("usage")[model];
    (input_tokens, cache_read_tokens, output_tokens)
}

#[tokio::test(start_paused = true)]
async fn cached_tokens_are_no_input_and_reasoning_is_output() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.message("A", Some("final_answer")).await;
            s.usage("U1", counts(100, 40, 20), counts(100, 40, 20)).await;
            s.done().await;
        })
        .await;
    assert_eq!(used(&ran, "m"), (Some(60), Some(40), Some(20)));
    assert_eq!(ran.outcome.usage.unwrap()["m"].cache_write_tokens, None, "not told is not zero");
}

#[tokio::test(start_paused = true)]
async fn cache_writes_are_part_of_the_input_too() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let total = json!({"inputTokens": 100, "cachedInputTokens": 40, "cacheWriteInputTokens": 25, "outputTokens": 1});
            s.usage("U1", total.clone(), total).await;
            s.done().await;
        })
        .await;
    let usage = ran.outcome.usage.unwrap()["m"];
    assert_eq!((usage.input_tokens, usage.cache_write_tokens), (Some(35), Some(25)));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_thread_counts_from_its_past() {
    let resumed = async |replay: bool| {
        ask()
            .resume()
            .run(async |s| {
                s.initialize().await;
                s.serve("thread/resume", json!({"thread": {"id": "T1"}, "model": "m"})).await;
                if replay {
                    s.usage("U0", json!({"inputTokens": 600, "outputTokens": 120}), counts(9, 0, 9)).await;
                }
                s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
                s.started().await;
                s.usage("U1", counts(700, 40, 140), counts(100, 40, 20)).await;
                s.message("x", None).await;
                s.done().await;
            })
            .await
    };
    for replay in [true, false] {
        assert_eq!(used(&resumed(replay).await, "m"), (Some(60), Some(40), Some(20)), "{replay}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_that_is_repeated_counts_once() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.usage("U1", counts(100, 0, 20), counts(100, 0, 20)).await;
            s.usage("U1", counts(100, 0, 20), counts(77, 0, 7)).await;
            s.usage("U1", counts(200, 0, 40), counts(100, 0, 20)).await;
            s.done().await;
        })
        .await;
    assert_eq!(used(&ran, "m"), (Some(200), Some(0), Some(40)));
}

#[tokio::test(start_paused = true)]
async fn usage_goes_to_the_model_that_answers() {
    let ran = ask()
        .with(|o| o.model = Some("asked".into()))
        .run(async |s| {
            s.turn().await;
            s.usage("U1", counts(100, 0, 20), counts(100, 0, 20)).await;
            s.say("model/rerouted", json!({"threadId": "T1", "fromModel": "asked", "toModel": "other"}))
                .await;
            s.usage("U1", counts(150, 0, 30), counts(50, 0, 10)).await;
            s.done().await;
        })
        .await;
    assert_eq!(used(&ran, "asked"), (Some(100), Some(0), Some(20)));
    assert_eq!(used(&ran, "other"), (Some(50), Some(0), Some(10)));
}

#[tokio::test(start_paused = true)]
async fn agents_that_began_in_this_run_cost_too() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.usage("U1", counts(100, 0, 20), counts(100, 0, 20)).await;
            s.say("thread/started", json!({"thread": {"id": "T2", "parentThreadId": "T1"}})).await;
            for thread in ["T2", "T3"] {
                let usage = json!({"total": counts(10, 0, 2), "last": counts(10, 0, 2)});
                let params = json!({"threadId": thread, "turnId": "V", "tokenUsage": usage});
                s.say("thread/tokenUsage/updated", params).await;
            }
            s.done().await;
        })
        .await;
    assert_eq!(used(&ran, "m"), (Some(110), Some(0), Some(22)));
}

#[tokio::test(start_paused = true)]
async fn counts_in_the_end_of_the_turn_are_for_servers_that_tell_no_others() {
    let run = async |told: bool| {
        ask()
            .run(async |s| {
                s.turn().await;
                if told {
                    s.usage("U1", counts(100, 0, 20), counts(100, 0, 20)).await;
                }
                let usage = json!({"input_tokens": 7, "cached_input_tokens": 3, "output_tokens": 2});
                let turn = json!({"id": "U1", "status": "completed", "usage": usage});
                s.say("turn/completed", json!({"threadId": "T1", "turn": turn})).await;
            })
            .await
    };
    assert_eq!(used(&run(true).await, "m"), (Some(100), Some(0), Some(20)));
    assert_eq!(used(&run(false).await, "m"), (Some(4), Some(3), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn nothing_told_is_no_usage() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.usage("U1", counts(0, 0, 0), counts(0, 0, 0)).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.usage, None);
}

#[tokio::test(start_paused = true)]
async fn the_file_of_the_thread_helps_where_the_server_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let count = json!({"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 9, "output_tokens": 4}}}});
    let model = json!({"type": "turn_context", "payload": {"model": "from-file"}});
    std::fs::write(&path, format!("{model}\n{count}\n")).unwrap();
    let ran = ask()
        .exit(1, "died")
        .run(async |s| {
            s.initialize().await;
            s.serve("thread/start", json!({"thread": {"id": "T1", "path": path}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.exit();
        })
        .await;
    assert_eq!(used(&ran, "from-file"), (Some(9), None, Some(4)));
}
