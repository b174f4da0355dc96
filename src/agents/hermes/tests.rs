use serde_json::{Value, json};

use super::PROFILE;
use crate::agents::acp::arguments;
use crate::agents::acp::testing::{FakeAgent, Recording, Run, Setting};
use crate::contract::{ExecuteOptions, FailureKind, Message, RawJson, RunStatus};

fn hermes() -> Setting {
    Setting::new(&PROFILE)
}

/// A session `s1` with this result, then a short turn.
async fn with_session(setting: Setting, result: Value) -> Run {
    let resume = setting.options.resume_session_id.is_some();
    setting
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take(if resume { "session/resume" } else { "session/new" }).await;
            a.reply(result).await;
            let Some(next) = a.next().await else { return };
            a.last = next;
            if a.last["method"] != "session/prompt" {
                a.reply(json!({})).await;
                a.take("session/prompt").await;
            }
            a.text("x").await;
            a.end_turn().await;
        })
        .await
}

fn tool(kind: &str, id: &str, title: &str, text: &str) -> Value {
    json!({"sessionUpdate":"tool_call","toolCallId":id,"title":title,"kind":kind,
        "content":[{"type":"content","content":{"type":"text","text":text}}]})
}

fn done(id: &str, text: &str) -> Value {
    json!({"sessionUpdate":"tool_call_update","toolCallId":id,"status":"completed",
        "content":[{"type":"content","content":{"type":"text","text":text}}]})
}

#[test]
fn arguments_and_environment() {
    let custom: Vec<String> = ["acp", "-p", "lab", "--x"].map(String::from).to_vec();
    let options = ExecuteOptions { custom_args: custom, ..Default::default() };
    assert_eq!(arguments(&PROFILE, &options), ["acp", "-p", "lab", "--x"]);
    assert_eq!(PROFILE.env, [("HERMES_YOLO_MODE", "1")]);
}

#[tokio::test(start_paused = true)]
async fn a_model_goes_into_the_new_session() {
    let run = with_session(hermes().model("m1"), json!({"sessionId":"s1"})).await;
    assert_eq!(run.params("session/new"), &json!({"cwd":"/w","mcpServers":[],"model":"m1"}));
    let run = with_session(hermes(), json!({"sessionId":"s1"})).await;
    assert_eq!(run.params("session/new"), &json!({"cwd":"/w","mcpServers":[]}));
}

#[tokio::test(start_paused = true)]
async fn the_current_model_is_not_set_again() {
    for (current, wanted, set) in [
        (Some("p:m1"), "p:m1", false),
        (Some("p:m1"), "p:m2", true),
        (Some("P:M1"), "m1", false),
        (Some("m1"), "p:m1", true),
        (Some("q:m1"), "p:m1", true),
        (Some("custom:a:b"), "custom:a:b", false),
        (None, "m1", true),
    ] {
        let result = json!({"sessionId":"s1","models":{"currentModelId":current}});
        let run = with_session(hermes().model(wanted), result).await;
        assert_eq!(run.methods().contains(&"session/set_model"), set, "{current:?} {wanted}");
        assert_eq!(run.outcome.status, RunStatus::Completed);
    }
    let run = hermes()
        .model("p:m1")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"h1","models":{"currentModelId":"p:m1"}})).await;
            a.take("session/prompt").await;
            a.text("x").await;
            a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":2}})).await;
        })
        .await;
    assert_eq!(run.usage("p:m1")[0], Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_refused_model_names_it_and_keeps_no_fresh_session() {
    let run = hermes()
        .model("p:m2")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"h1","models":{"currentModelId":"p:m1"}})).await;
            a.take("session/set_model").await;
            a.fail(-32602, "model not available: p:m2", Value::Null).await;
        })
        .await;
    assert!(
        run.error().contains("\"p:m2\"") && run.error().contains("model not available"),
        "{}",
        run.error()
    );
    assert_eq!((run.outcome.status, &run.outcome.session_id), (RunStatus::Failed, &None));
}

#[tokio::test(start_paused = true)]
async fn the_provenance_tells_where_a_resume_landed() {
    let expected = || {
        hermes()
            .resume("h1")
            .with(|o| (o.resume_expected, o.resume_continuity_notice) = (true, Some("N\n\n".into())))
    };
    let at = |id: &str| json!({"_meta":{"hermes":{"sessionProvenance":{"acpSessionId":id,"currentHermesSessionId":"no"}}}});
    let run = with_session(expected(), at("h2")).await;
    assert_eq!((run.prompt(), run.params("session/prompt")["sessionId"].as_str()), ("N\n\nP", Some("h2")));
    assert_eq!((run.outcome.session_id.as_deref(), run.outcome.resume_rejected), (Some("h2"), Some(true)));
    assert_eq!(
        run.outcome.status,
        RunStatus::Completed,
        "the turn runs in the session that was started instead"
    );
    for result in [at("h1"), json!({}), json!("x"), json!({"_meta":7})] {
        let run = with_session(expected(), result).await;
        let o = &run.outcome;
        assert_eq!(
            (run.prompt(), o.session_id.as_deref(), o.resume_rejected),
            ("P", Some("h1"), Some(false))
        );
    }
    let unexpected = with_session(hermes().resume("h1"), at("h2")).await;
    assert_eq!(unexpected.prompt(), "P");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_any_activity_rejects_the_resume() {
    let refuse = async |a: &mut FakeAgent| a.reply(json!({"stopReason":"refusal"})).await;
    let run = hermes().resume("h1").turn(refuse).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
    assert_eq!(run.kind(), Some(FailureKind::ResumeRejected));
    assert!(run.error().contains("could not restore the resumed session"), "{}", run.error());

    let run = hermes()
        .resume("h1")
        .turn(async |a| {
            a.text("chunk").await;
            a.reply(json!({"stopReason":"refusal"})).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!(
        (o.status, o.resume_rejected, o.session_id.as_deref()),
        (RunStatus::Completed, Some(false), Some("h1"))
    );
    assert_eq!(o.output, "chunk");

    let run = hermes()
        .resume("h1")
        .turn(async |a| {
            a.reply(json!({"stopReason":"refusal"})).await;
            a.wait(600).await;
            a.text("late").await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!(
        (o.resume_rejected, o.session_id.as_deref(), o.output.as_str()),
        (Some(false), Some("h1"), "late")
    );

    let run = hermes()
        .resume("h1")
        .turn(async |a| {
            a.stderr("RuntimeError: No LLM provider configured. Run x\n");
            a.reply(json!({"stopReason":"refusal"})).await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
    assert!(run.error().contains("No LLM provider configured"), "{}", run.error());

    let run = hermes().turn(refuse).await;
    assert_eq!((run.outcome.session_id.as_deref(), run.outcome.resume_rejected), (Some("s1"), Some(false)));
}

#[tokio::test(start_paused = true)]
async fn its_own_binary_tells_a_tool_at_the_start() {
    let turn = async |a: &mut FakeAgent| {
        a.update(tool("edit", "w", "write: /tmp/q", "Preparing write to /tmp/q")).await;
        a.update(tool("execute", "t", "terminal: pwd", "$ pwd")).await;
        a.update(done("w", "wrote 2 bytes")).await;
        a.end_turn().await;
    };
    let json = |text: &str| Some(RawJson(text.into()));
    let result = Message::ToolResult {
        call_id: "w".into(),
        tool: None,
        output: "wrote 2 bytes".into(),
        is_error: Some(false),
        parent_call_id: None,
    };
    let run = hermes().turn(turn).await;
    let shell = Message::tool_use("terminal", "t", json(r#"{"text":"$ pwd"}"#));
    assert_eq!(run.spoken(), [Message::tool_use("write_file", "w", None), shell, result.clone()]);
    let run = hermes().custom_binary().turn(turn).await;
    let write = Message::tool_use("write_file", "w", json(r#"{"text":"Preparing write to /tmp/q"}"#));
    assert_eq!(run.spoken(), [write, result.clone()]);
    let run = hermes()
        .custom_binary()
        .turn(async |a| {
            a.update(tool("edit", "w", "write: /tmp/q", "Preparing write to /tmp/q")).await;
            let mut end = done("w", "wrote 2 bytes");
            end["rawInput"] = json!({"path":"/tmp/q"});
            a.update(end).await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.spoken(), [Message::tool_use("write_file", "w", json(r#"{"path":"/tmp/q"}"#)), result]);
}

#[tokio::test(start_paused = true)]
async fn remote_servers_pass_undeclared_with_its_own_binary_only() {
    let config = r#"{"mcpServers":{"h":{"url":"http://127.0.0.1:1"}}}"#;
    let declared_false = json!({"agentCapabilities":{"mcpCapabilities":{"http":false}}});
    for (setting, answer, sent) in [
        (hermes(), json!({}), 1),
        (hermes().custom_binary(), json!({}), 0),
        (hermes(), declared_false.clone(), 0),
        (hermes().custom_binary(), declared_false, 0),
    ] {
        let run = setting
            .mcp(config)
            .play(async |a| {
                a.take("initialize").await;
                a.reply(answer).await;
                a.take("session/new").await;
                a.reply(json!({"sessionId":"s1"})).await;
                a.take("session/prompt").await;
                a.text("x").await;
                a.end_turn().await;
            })
            .await;
        assert_eq!(run.params("session/new")["mcpServers"].as_array().unwrap().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_level_goes_to_the_advertised_option() {
    let options = json!([{"id":"reasoning_effort","category":"thought_level",
        "options":[{"value":"low"},{"value":"medium"},{"value":"high"}]}]);
    for setting in [hermes().level("high"), hermes().level("high").resume("s1")] {
        let run = with_session(setting, json!({"sessionId":"s1","configOptions":options})).await;
        let set = run.params("session/set_config_option");
        assert_eq!(set, &json!({"sessionId":"s1","configId":"reasoning_effort","value":"high"}));
    }
    let run = with_session(hermes().level("high"), json!({"sessionId":"s1"})).await;
    assert!(!run.methods().contains(&"session/set_config_option"));
}

#[tokio::test(start_paused = true)]
async fn a_late_usage_update_counts() {
    let run = hermes()
        .model("m")
        .turn(async |a| {
            a.text("x").await;
            a.reply(
                json!({"stopReason":"end_turn","usage":{"inputTokens":120,"outputTokens":30,"totalTokens":150,
                "cachedReadTokens":20,"cachedWriteTokens":7,"costUsdTicks":400}}),
            )
            .await;
            let late = json!({"inputTokens":300,"outputTokens":120,"cachedReadTokens":80,"costUsdTicks":900});
            a.update(json!({"sessionUpdate":"usage_update","usage":late})).await;
        })
        .await;
    assert_eq!(run.usage("m"), [Some(300), Some(120), Some(80), Some(7), Some(900)]);
}

#[tokio::test(start_paused = true)]
async fn a_system_prompt_is_not_sent_and_that_is_said() {
    let run =
        with_session(hermes().with(|o| o.system_prompt = Some("S".into())), json!({"sessionId":"s1"})).await;
    assert_eq!(run.prompt(), "P");
    assert!(run.warnings().iter().any(|w| w.contains("systemPrompt")), "{:?}", run.warnings());
}

#[tokio::test(start_paused = true)]
async fn an_unresumable_history_rejects_the_resume() {
    for (stderr, rejected) in [
        ("❌ Error: HTTP 400 messages[4]: content must not be empty", true),
        ("❌ Error: commit message must not be empty", false),
    ] {
        let run = hermes()
            .resume("s1")
            .turn(async |a| {
                a.stderr(stderr);
                a.end_turn().await;
            })
            .await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected), (RunStatus::Failed, Some(rejected)));
        assert_eq!(o.session_id.as_deref(), Some("s1"));
    }
}

#[test]
fn shell_results_are_readable() {
    for (text, want) in [
        ("terminal result\n- **output:** hi\n- **exit_code:** 0", Some(("hi", false))),
        ("terminal result\n- **output:** a\nb\n- **exit_code:** 3", Some(("a\nb\nexit code: 3", true))),
        ("terminal result\n- **exit_code:** 124", Some(("exit code: 124", true))),
        ("terminal result\n- **exit_code:** 0", Some(("", false))),
        ("terminal result\n- **odd:** x\n- **exit_code:** 0", None),
        ("terminal result", None),
        ("wrote 2 bytes", None),
    ] {
        let frame = done("c", text).to_string();
        let got = super::tool_output(&crate::agents::acp::Fields::read(&frame).unwrap());
        assert_eq!(got.as_ref().map(|o| (o.text.as_str(), o.failed)), want, "{text}");
    }
}

// ---- recordings of hermes 0.19.0 ------------------------------------------------------------

async fn recorded_with(setting: Setting, scenario: &str, cancel: bool) -> Run {
    let recording = Recording::load("hermes-0.19.0", scenario);
    setting.play(async |a| recording.play(a, cancel).await).await
}

async fn recorded(scenario: &str) -> Run {
    recorded_with(hermes(), scenario, false).await
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

const ONE_CALL: [Option<u64>; 5] = [Some(445), Some(56), Some(789), None, None];
const TWO_CALLS: [Option<u64>; 5] = [Some(890), Some(112), Some(1578), None, None];
const MODEL: &str = "custom:mock-model";

#[tokio::test(start_paused = true)]
async fn recorded_turns() {
    let hello = ["Hello", " from the", " mock model", "."];
    let run = recorded("text").await;
    assert_eq!((texts(&run), run.usage(MODEL)), (hello.map(String::from).to_vec(), ONE_CALL));
    assert_eq!(
        (run.outcome.status, run.outcome.output.as_str()),
        (RunStatus::Completed, "Hello from the mock model.")
    );
    let session = run.outcome.session_id.clone().unwrap();
    assert!(run.messages.contains(&Message::running(Some(session))));
    assert_eq!(run.warnings(), [""; 0]);

    let run = recorded("thinking").await;
    assert_eq!(texts(&run)[0], "(thinking)Let me");
    assert_eq!(run.outcome.output, "Hello from the mock model.");

    let run = recorded("tool").await;
    let said = ["\n\nThe tool", " said: ", "hi"];
    let mut want = vec![r#"(use)terminal {"text":"$ echo hi"}"#, "(result false)hi"];
    want.extend(said);
    assert_eq!((texts(&run), run.usage(MODEL)), (want.into_iter().map(String::from).collect(), TWO_CALLS));
    assert_eq!(run.outcome.output, "The tool said: hi");

    let run = recorded("narrated-tool").await;
    assert_eq!(
        (texts(&run)[0].as_str(), run.outcome.output.as_str()),
        ("I will run it. ", "The tool said: hi")
    );

    let run = recorded("multi").await;
    let tools: Vec<String> = texts(&run).into_iter().take(4).collect();
    assert_eq!(
        tools,
        [
            r#"(use)terminal {"text":"$ echo one"}"#,
            r#"(use)terminal {"text":"$ echo two"}"#,
            "(result false)one",
            "(result false)two"
        ]
    );

    let run = recorded("tool-fail").await;
    assert_eq!(texts(&run)[1], "(result true)oops\nexit code: 3");
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn recorded_failures_that_end_like_a_good_turn() {
    for (scenario, kind, words) in [
        ("error-400", FailureKind::InvalidRequest, "HTTP 400: mock: bad request"),
        ("error-401", FailureKind::Auth, "HTTP 401: mock: invalid x-api-key"),
        ("error-429", FailureKind::RateLimit, "HTTP 429: mock: rate limited"),
        ("error-500", FailureKind::Provider, "HTTP 500: mock: internal server error"),
        ("cut", FailureKind::Network, "Connection error."),
        ("overflow", FailureKind::ContextOverflow, "maximum context length is 200000"),
        ("empty", FailureKind::Provider, "the model returned empty content"),
    ] {
        let run = recorded(scenario).await;
        assert_eq!(
            (run.outcome.status, run.kind()),
            (RunStatus::Failed, Some(kind)),
            "{scenario}: {}",
            run.error()
        );
        assert!(
            run.error().contains(words) && !run.error().contains("[INFO]"),
            "{scenario}: {}",
            run.error()
        );
        assert!(run.outcome.session_id.is_some());
        let silent = Setting::new(&PROFILE);
        let mut recording = Recording::load("hermes-0.19.0", scenario);
        recording.stderr.clear();
        let run = silent.play(async |a| recording.play(a, false).await).await;
        assert_eq!(
            run.outcome.status,
            RunStatus::Failed,
            "{scenario} without stderr: {}",
            run.outcome.output
        );
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_resumes() {
    let run =
        recorded_with(hermes().resume("b77d9e20-8980-49eb-9b0a-cb403148c574"), "resume-known", false).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, "Hello from the mock model."));
    assert_eq!((texts(&run).len(), o.resume_rejected), (4, Some(false)), "old history stays out");
    assert_eq!(run.usage(MODEL), ONE_CALL);

    let run =
        recorded_with(hermes().resume("00000000-0000-4000-8000-000000000000"), "resume-unknown", false).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
}

#[tokio::test(start_paused = true)]
async fn recorded_cancels() {
    for scenario in ["slow-cancel", "tool-slow-cancel"] {
        let run = recorded_with(hermes(), scenario, true).await;
        let o = &run.outcome;
        assert_eq!((o.status, &o.failure, &o.usage), (RunStatus::Aborted, &None, &None), "{scenario}");
        assert!(o.session_id.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_set_up() {
    let run = recorded_with(hermes().model("no-such-model-x"), "set-model-bad", false).await;
    assert_eq!(run.outcome.status, RunStatus::Completed, "it takes any model id");
    let run = recorded("new-nologin").await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Auth)));
    assert!(run.error().contains("No LLM provider configured"), "{}", run.error());
    assert!(run.outcome.failure.unwrap().hint.unwrap().contains("hermes setup"));
}
