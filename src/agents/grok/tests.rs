use serde_json::{Value, json};

use super::{AGENT, PROFILE};
use crate::agents::Stop;
use crate::agents::acp::testing::{FakeAgent, Recording, Run, Setting};
use crate::agents::acp::{arguments, discovery, testing};
use crate::contract::options::EnvList;
use crate::contract::{ExecuteOptions, FailureKind, Limit, Message, Os, RunStatus};
use crate::process::env::ChildEnv;

fn grok() -> Setting {
    Setting::new(&PROFILE)
}

fn args(level: Option<&str>, custom: &[&str]) -> Vec<String> {
    let custom_args = custom.iter().map(|a| (*a).to_owned()).collect();
    let thinking_level = level.map(str::to_owned);
    arguments(&PROFILE, &ExecuteOptions { custom_args, thinking_level, ..Default::default() })
}

#[test]
fn arguments_keep_their_places() {
    let custom = [
        "agent",
        "stdio",
        "--yolo",
        "-p",
        "--output-format",
        "json",
        "--model",
        "x",
        "--effort",
        "low",
        "--cwd",
        "/q",
        "--worktree",
        "br",
        "--ref",
        "o",
        "--fork-session",
        "--rules",
        "r",
    ];
    assert_eq!(
        args(Some("high"), &custom),
        ["--no-auto-update", "agent", "--always-approve", "--effort", "high", "--rules", "r", "stdio"]
    );
    assert_eq!(
        args(None, &["-w", "--rules", "r"]),
        ["--no-auto-update", "agent", "--always-approve", "--rules", "r", "stdio"]
    );
    assert_eq!(AGENT.min_version, Some("0.2.89"));
}

/// Offers these methods; gives the one chosen, or the error.
async fn choose(key: &str, initialize: Value) -> Result<String, Run> {
    let mut chosen = None;
    let run = grok()
        .env(&[("XAI_API_KEY", key)])
        .play(async |a| {
            a.take("initialize").await;
            a.reply(initialize).await;
            let Some(next) = a.next().await else { return };
            assert_eq!(
                (&next["method"], &next["params"]["_meta"]["headless"]),
                (&json!("authenticate"), &json!(true))
            );
            chosen = next["params"]["methodId"].as_str().map(str::to_owned);
        })
        .await;
    chosen.ok_or(run)
}

fn offer(ids: &[&str]) -> Value {
    json!({ "authMethods": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() })
}

#[tokio::test(start_paused = true)]
async fn the_way_to_authenticate() {
    let default = json!({"authMethods":[{"id":"xai.api_key"},{"id":"grok.com"}],"_meta":{"defaultAuthMethodId":"xai.api_key"}});
    for (key, initialize, want) in [
        ("k-fake", offer(&["cached_token", "xai.api_key"]), "xai.api_key"),
        ("", offer(&["cached_token", "xai.api_key"]), "cached_token"),
        (" ", offer(&["cached_token"]), "cached_token"),
        ("k-fake", offer(&["xai.api_key", "grok.com"]), "xai.api_key"),
        ("", offer(&["grok.com"]), "grok.com"),
        ("", default, "xai.api_key"),
    ] {
        assert_eq!(choose(key, initialize).await.unwrap(), want);
    }
    for (initialize, words) in [
        (offer(&["xai.api_key"]), "XAI_API_KEY is not set"),
        (offer(&[]), "grok login"),
        (offer(&["zebra", "future"]), "future, zebra"),
        (json!({"authMethods":"x"}), "grok login"),
    ] {
        let run = choose("", initialize).await.unwrap_err();
        assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Auth)));
        assert!(run.error().contains(words), "{}", run.error());
        assert_eq!((run.methods(), run.outcome.resume_rejected), (vec!["initialize"], Some(false)));
        assert!(run.outcome.failure.unwrap().hint.unwrap().contains("grok login"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_asks_for_no_session() {
    let run = grok()
        .play(async |a| {
            a.take("initialize").await;
            a.reply(offer(&["cached_token"])).await;
            a.take("authenticate").await;
            a.fail(-32000, "authentication required: run grok login", Value::Null).await;
        })
        .await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Auth)));
    assert!(run.error().contains("grok authenticate failed: authentication required: run grok login"));
    assert_eq!(run.methods(), ["initialize", "authenticate"]);
}

async fn hello(a: &mut FakeAgent) {
    a.text("hello").await;
}

#[tokio::test(start_paused = true)]
async fn the_order_on_the_wire() {
    let turn = async |a: &mut FakeAgent| {
        hello(a).await;
        a.end_turn().await;
    };
    let run = grok().turn(turn).await;
    assert_eq!(run.methods(), ["initialize", "authenticate", "session/new", "session/prompt"]);
    assert_eq!(run.messages[0], Message::running(Some("s1".into())), "the id comes before any text");
    let run = grok().resume("x1").turn(turn).await;
    assert_eq!(run.methods(), ["initialize", "authenticate", "session/load", "session/prompt"]);
    assert_eq!(run.outcome.session_id.as_deref(), Some("x1"));
}

#[tokio::test(start_paused = true)]
async fn usage_is_that_of_the_whole_turn() {
    let whole = json!({"stopReason":"end_turn","_meta":{"modelId":"g9","inputTokens":45,"outputTokens":5,"cachedReadTokens":30,
        "usage":{"inputTokens":90,"outputTokens":10,"totalTokens":100,"cachedReadTokens":60,"costUsdTicks":1234}}});
    for setting in [grok(), grok().resume("x1")] {
        let run = setting
            .turn(async |a| {
                hello(a).await;
                a.reply(whole.clone()).await;
            })
            .await;
        assert_eq!(run.usage("g9"), [Some(30), Some(10), Some(60), None, Some(1234)]);
    }
    let run = grok()
        .turn(async |a| {
            hello(a).await;
            a.reply(json!({"_meta":{"modelId":42,"inputTokens":50,"outputTokens":10,"cachedReadTokens":5}}))
                .await;
        })
        .await;
    assert_eq!(run.usage("unknown"), [Some(50), Some(10), Some(5), None, None]);
    let models = json!({"a":{"inputTokens":90,"outputTokens":10,"totalTokens":100,"cachedReadTokens":60},
        "b":{"inputTokens":7,"outputTokens":1,"totalTokens":8},"c":{"inputTokens":0}});
    let run = grok()
        .model("asked")
        .turn(async |a| {
            hello(a).await;
            a.reply(json!({"_meta":{"usage":{"inputTokens":97,"outputTokens":11,"totalTokens":108,"cachedReadTokens":60,
                "costUsdTicks":5,"modelUsage":models}}}))
                .await;
        })
        .await;
    assert_eq!(run.usage("a"), [Some(30), Some(10), Some(60), None, None]);
    assert_eq!(run.usage("b")[..2], [Some(7), Some(1)]);
    assert_eq!(run.usage("asked")[4], Some(5), "a cost that names no model");
    assert_eq!(run.outcome.usage.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_model_fails_the_run() {
    let run = grok()
        .model("zz")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(offer(&["cached_token"])).await;
            a.take("authenticate").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/set_model").await;
            a.fail(-32602, "model not available: zz", Value::Null).await;
        })
        .await;
    assert!(run.outcome.status == RunStatus::Failed && run.error().contains("\"zz\""), "{}", run.error());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_without_an_answer_ends_by_the_stop() {
    for (stop, status) in [
        (Stop::limit(Limit::Run, std::time::Duration::from_secs(1)), RunStatus::Timeout),
        (Stop::cancelled(), RunStatus::Aborted),
    ] {
        let run = grok()
            .turn(async |a| {
                a.stop(stop);
                a.rest().await;
            })
            .await;
        assert_eq!(run.outcome.status, status);
        assert!(run.took.as_secs() < 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_goes_along() {
    let config = r#"{"mcpServers":{"fetch":{"command":"uvx","args":["mcp-server-fetch"]}}}"#;
    let run = grok()
        .mcp(config)
        .turn(async |a| {
            hello(a).await;
            a.end_turn().await;
            a.wait(50).await;
            a.text(" tail").await;
        })
        .await;
    assert_eq!(run.params("session/new")["mcpServers"].as_array().unwrap(), &testing::servers(config));
    assert_eq!(run.outcome.output, "hello tail");
}

/// The models it lists, or the error.
async fn discover(script: impl AsyncFnOnce(&mut FakeAgent)) -> Result<Vec<discovery::Model>, String> {
    let env = ChildEnv::new(&EnvList::default(), &EnvList::default(), Os::Linux);
    let client = async |source, sink| discovery::discover(&PROFILE, &env, "/tmp/x", source, sink).await;
    testing::connect(script, client).await.map(|found| found.models)
}

#[tokio::test(start_paused = true)]
async fn models_are_asked_for_after_the_login() {
    assert_eq!(discovery::arguments(&PROFILE), ["--no-auto-update", "agent", "--always-approve", "stdio"]);
    let models = discover(async |a| {
        a.take("initialize").await;
        a.reply(offer(&["cached_token"])).await;
        a.take("authenticate").await;
        a.reply(json!({})).await;
        a.take("session/new").await;
        let listed = json!([{"modelId":"g1"},{"modelId":"g2"}]);
        a.reply(json!({"models":{"currentModelId":"g2","availableModels":listed}})).await;
    })
    .await
    .unwrap();
    let ids: Vec<_> = models.iter().map(|m| (m.id.as_str(), m.is_default)).collect();
    assert_eq!(ids, [("g1", false), ("g2", true)]);
    let error = discover(async |a| {
        a.take("initialize").await;
        a.reply(offer(&[])).await;
        assert_eq!(a.next().await, None, "neither a login nor a session is asked for");
    })
    .await
    .unwrap_err();
    assert!(error.contains("grok login"), "{error}");
    let error = discover(async |a| {
        a.take("initialize").await;
        a.reply(offer(&["cached_token"])).await;
        a.take("authenticate").await;
        a.fail(-32000, "no", Value::Null).await;
        assert_eq!(a.next().await, None, "no session after a refused login");
    })
    .await
    .unwrap_err();
    assert!(error.contains("authenticate"), "{error}");
    let fallback = discovery::fallback(&PROFILE);
    let fallback: Vec<_> = fallback.iter().map(|m| (m.id.as_str(), m.is_default)).collect();
    assert_eq!(fallback, [("grok-4.5", true), ("grok-composer-2.5-fast", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_a_warning_and_no_progress() {
    let run = grok()
        .turn(async |a| {
            let retry = json!({"sessionUpdate":"retry_state","type":"retrying","attempt":2,"max_retries":15,"reason":"status 500"});
            a.send(json!({"method":"_x.ai/session_notification","params":{"update":retry}})).await;
            a.send(json!({"method":"_x.ai/other","params":{"update":retry}})).await;
            hello(a).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.warnings(), ["grok tries again (attempt 2): status 500"]);
}

// ---- recordings of grok 1.0.41 ---------------------------------------------------------------

async fn recorded_with(setting: Setting, scenario: &str, cancel: bool) -> Run {
    let recording = Recording::load("grok-1.0.41", scenario);
    setting.env(&[("XAI_API_KEY", "xai-fake")]).play(async |a| recording.play(a, cancel).await).await
}

async fn recorded(scenario: &str) -> Run {
    recorded_with(grok(), scenario, false).await
}

fn texts(run: &Run) -> Vec<String> {
    run.spoken()
        .into_iter()
        .map(|m| match m {
            Message::Text { content, .. } => content,
            Message::Thinking { content, .. } => format!("(thinking){content}"),
            Message::ToolUse { tool, input, .. } => {
                format!("(use){tool} {}", input.map_or(String::new(), |i| i.0))
            }
            Message::ToolResult { output, is_error, .. } => format!("(result {}){output}", is_error.unwrap()),
            other => format!("{other:?}"),
        })
        .collect()
}

const ONE_CALL: [Option<u64>; 5] = [Some(445), Some(56), Some(789), Some(0), None];
const TWO_CALLS: [Option<u64>; 5] = [Some(890), Some(112), Some(1578), Some(0), None];

#[tokio::test(start_paused = true)]
async fn recorded_turns() {
    let run = recorded("text").await;
    assert_eq!(texts(&run), ["Hello", " from the", " mock model", "."]);
    let o = &run.outcome;
    assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, "Hello from the mock model."));
    assert_eq!((run.usage("mock-model"), run.warnings().len()), (ONE_CALL, 0));
    assert!(run.messages.contains(&Message::running(o.session_id.clone())) && o.session_id.is_some());

    let run = recorded("thinking").await;
    assert_eq!(texts(&run)[..3], ["(thinking)Let me", "(thinking) think about", "(thinking) it."]);

    let run = recorded("tool").await;
    assert_eq!(
        texts(&run),
        [
            r#"(use)terminal {"command":"echo hi","description":"Run a mock command"}"#,
            "(result false)hi\n",
            "The tool",
            " said: ",
            "hi"
        ]
    );
    assert_eq!((run.outcome.output.as_str(), run.usage("mock-model")), ("The tool said: hi", TWO_CALLS));

    let run = recorded("narrated-tool").await;
    assert_eq!(
        (texts(&run)[0].as_str(), run.outcome.output.as_str()),
        ("I will run it. ", "The tool said: hi")
    );

    let run = recorded("multi").await;
    let tools: Vec<String> = texts(&run).into_iter().filter(|t| t.starts_with('(')).collect();
    assert_eq!(tools.len(), 4, "{tools:?}");
    assert_eq!(tools[2..], ["(result false)one\n", "(result false)two\n"]);

    let run = recorded("tool-fail").await;
    assert_eq!(texts(&run)[1], "(result true)exit: 3\noops\n");
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn recorded_failures() {
    for (scenario, kind, words) in [
        ("error-400", FailureKind::InvalidRequest, "mock: bad request"),
        ("error-401", FailureKind::Auth, "mock: invalid x-api-key"),
        ("error-429", FailureKind::RateLimit, "mock: rate limited"),
        ("overflow", FailureKind::ContextOverflow, "maximum context length"),
    ] {
        let run = recorded(scenario).await;
        assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(kind)), "{}", run.error());
        assert!(run.error().contains(words), "{}", run.error());
        assert!(run.outcome.session_id.is_some());
    }
    let setting = grok();
    let recording = Recording::load("grok-1.0.41", "new-nologin");
    let run = setting.play(async |a| recording.play(a, false).await).await;
    assert_eq!(run.outcome.status, RunStatus::Failed);
    assert!(run.outcome.failure.unwrap().hint.unwrap().contains("grok login"));
}

#[tokio::test(start_paused = true)]
async fn recorded_sessions() {
    const KNOWN: &str = "01a22d71-5132-73b2-8ca4-0e0a9c4e7c99";
    let run = recorded_with(grok().resume(KNOWN), "load-known", false).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, "Hello from the mock model."));
    assert_eq!(
        (texts(&run).len(), run.usage("mock-model")),
        (4, ONE_CALL),
        "old history and its usage stay out"
    );
    assert_eq!((o.session_id.as_deref(), o.resume_rejected), (Some(KNOWN), Some(false)));

    let run =
        recorded_with(grok().resume("00000000-0000-4000-8000-000000000000"), "load-unknown", false).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));

    let run = recorded_with(grok().model("no-such-model-x"), "set-model-bad", false).await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::ModelNotFound)));
    assert!(run.error().contains("unknown model id"), "{}", run.error());

    // A prompt on a session that is gone: as after a resume that was answered without a look.
    let run = grok()
        .resume("x1")
        .turn(async |a| a.fail(-32602, "Invalid params", json!("unknown session id")).await)
        .await;
    assert_eq!((run.outcome.resume_rejected, &run.outcome.session_id), (Some(true), &None));
}

#[tokio::test(start_paused = true)]
async fn recorded_cancels() {
    for (scenario, usage) in [("slow-cancel", None), ("tool-slow-cancel", Some(445))] {
        let run = recorded_with(grok(), scenario, true).await;
        let o = &run.outcome;
        assert_eq!((o.status, &o.failure), (RunStatus::Aborted, &None), "{scenario}");
        assert_eq!(run.usage("mock-model")[0], usage);
    }
}
