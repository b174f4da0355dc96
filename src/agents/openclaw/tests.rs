use std::path::PathBuf;
use std::time::Duration;

use super::decoder::{OpenclawDecoder, Plan};
use super::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit, spoken};
use crate::agents::{End, Exit, Protocol, Stop};
use crate::contract::Os;
use crate::contract::options::EnvList;
use crate::contract::{ExecuteOptions, FailureKind, Limit, Message, ModelUsage, RawJson, RunStatus, Usage};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

fn plan() -> Plan {
    Plan {
        entry: Entry::Local,
        stdin: None,
        model: None,
        session_id: "passed".into(),
        resumed: false,
        limit: None,
        attempt: 1,
    }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("openclaw", "openclaw", &mut OpenclawDecoder::new(plan), stdout, end)
}
fn run(stdout: &str) -> Driven {
    feed(plan(), stdout, clean_exit())
}
fn usage(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn pretty(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

const RESULT: &str = r#"{"payloads":[{"text":"hi"}],"meta":{"durationMs":5,"agentMeta":{"sessionId":"s1","model":"m1","usage":{"input":10,"output":2,"cacheWrite":4},"lastCallUsage":{"input":9}}}}"#;

#[test]
fn a_result_document_however_it_is_printed() {
    let logs = "[plugins] loading {\"a\":\n[tools] x raw={\"a\":1}\n";
    let log_object = "{\"level\":\"info\",\"msg\":\"brace } in text\"}\n";
    for stdout in [
        RESULT.to_owned(),
        format!("{RESULT}\n"),
        format!("{logs}{}\n", pretty(RESULT)),
        format!("{RESULT}\ntrailing log\n"),
        format!("{}\n[agents] ended\n", pretty(RESULT)),
        format!("{RESULT} trailing\n"),
        format!("{log_object}{}\n", pretty(RESULT)),
        format!("{{ not json\n{}\n", pretty(RESULT)),
        format!("{{\"a string that ends nowhere\n{{ x\n{}\n", pretty(RESULT)),
    ] {
        let d = run(&stdout);
        let want = [Message::running(Some("s1".into())), Message::text("hi")];
        let said: Vec<_> = d.messages.iter().filter(|m| !matches!(m, Message::Log { .. })).cloned().collect();
        assert_eq!(said, want, "{stdout}");
        let o = d.outcome;
        assert_eq!(
            (o.status, o.output.as_str(), o.session_id.as_deref()),
            (RunStatus::Completed, "hi", Some("s1"))
        );
        let counts = ModelUsage { cache_read_tokens: None, ..ModelUsage::tokens(10, 2, 0, 4) };
        assert_eq!(o.usage, usage("m1", counts), "{stdout}");
        assert!(d.terminal && d.stdin_closed && o.resume_rejected.is_none());
    }
}

#[test]
fn answers_and_what_is_none() {
    let prefixed = format!("prefix {RESULT}");
    for (stdout, output, texts) in [
        (r#"{"payloads":[{"text":"A"},{"text":"B","mediaUrl":"x"},{"mediaUrl":"y"}]}"#, "AB", 2),
        (r#"{"payloads":[]}"#, "", 0),
        (prefixed.as_str(), prefixed.as_str(), 1),
        ("not json", "not json", 1),
        ("two\nlines", "two\nlines", 1),
    ] {
        let d = run(stdout);
        assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, output), "{stdout}");
        assert_eq!(spoken(&d.messages).len(), texts, "{stdout}");
    }
    for stdout in ["", "[info] nothing\n", "{\"level\":\"info\"}\n"] {
        let o = run(stdout).outcome;
        assert_eq!(o.error.as_deref(), Some("openclaw returned no parseable output"), "{stdout}");
    }
    let o = feed(plan(), "", exit(1, "boom")).outcome;
    assert_eq!(
        o.error.as_deref(),
        Some(
            "openclaw returned no parseable output; openclaw exited with error: exit status 1; openclaw stderr: boom"
        )
    );
    // Half a document is no answer.
    let half: String = pretty(RESULT).lines().take(4).map(|l| format!("{l}\n")).collect();
    let o = run(&half).outcome;
    assert!(o.error.unwrap().starts_with("openclaw stdout ended within its result"), "{half}");
    assert_eq!(o.failure.unwrap().kind, FailureKind::Protocol);
}

#[test]
fn a_stream_of_false_beginnings_ends() {
    let garbage = "{\"x\n".repeat(5000);
    assert_eq!(run(&garbage).outcome.status, RunStatus::Failed);
    let open = "{\n".repeat(5000);
    assert_eq!(run(&open).outcome.status, RunStatus::Failed);
}

#[test]
fn event_lines_of_early_builds() {
    let d = run(concat!(
        "{\"type\":\"step_start\"}\n",
        "{\"type\":\"text\",\"text\":\"Hello \",\"sessionId\":\"s\"}\n[info] between\n",
        "{\"type\":\"text\",\"text\":\" world\"}\n{\"type\":\"unknown\"}\n",
        "{\"type\":\"step_finish\",\"usage\":{\"inputTokens\":100,\"outputTokens\":50}}\n",
        "{\"type\":\"step_finish\",\"inputTokens\":200,\"outputTokens\":80,\"cachedInputTokens\":60}\n"
    ));
    assert_eq!(spoken(&d.messages), [Message::text("Hello "), Message::text(" world")]);
    assert_eq!((d.outcome.output.as_str(), d.outcome.session_id.as_deref()), ("Hello  world", Some("s")));
    let counts = ModelUsage { cache_write_tokens: None, ..ModelUsage::tokens(300, 130, 60, 0) };
    assert_eq!(d.outcome.usage, usage("unknown", counts));

    let d = run(concat!(
        "{\"type\":\"tool_use\",\"tool\":\"bash\",\"callId\":\"c1\",\"input\":{\"command\": \"ls\"}}\n",
        "{\"type\":\"tool_result\",\"tool\":\"bash\",\"callId\":\"c1\",\"text\":\"x\"}\n"
    ));
    let result = Message::ToolResult {
        call_id: "c1".into(),
        tool: Some("bash".into()),
        output: "x".into(),
        is_error: None,
        parent_call_id: None,
    };
    let call = Message::tool_use("bash", "c1", Some(RawJson("{\"command\": \"ls\"}".into())));
    assert_eq!(spoken(&d.messages), [call, result]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("passed"));

    for (event, error) in [
        (r#"{"type":"error","error":{"name":"E","data":{"message":"m"}}}"#, Some("m")),
        (r#"{"type":"error","error":{"name":"E","message":"n"}}"#, Some("n")),
        (r#"{"type":"error","error":{"name":"E"}}"#, Some("E")),
        (r#"{"type":"lifecycle","phase":"failed","message":"t"}"#, Some("t")),
        (r#"{"type":"lifecycle","phase":"cancelled"}"#, Some("unknown openclaw error")),
        (r#"{"type":"lifecycle","phase":"running"}"#, None),
    ] {
        let d = run(event);
        assert_eq!(d.outcome.error.as_deref(), error, "{event}");
        assert_eq!(spoken(&d.messages), error.map(Message::error).as_slice(), "{event}");
    }
}

#[test]
fn the_model_that_usage_is_counted_for() {
    let named = r#"{"payloads":[],"meta":{"agentMeta":{"usage":{"input_tokens":1}}}}"#;
    let counts = ModelUsage { input_tokens: Some(1), ..Default::default() };
    let asked = feed(Plan { model: Some(" ops ".into()), ..plan() }, named, clean_exit());
    assert_eq!(asked.outcome.usage, usage("ops", counts));
    assert_eq!(run(named).outcome.usage, usage("unknown", counts));
    assert_eq!(
        run(r#"{"payloads":[],"meta":{"agentMeta":{"usage":{"input":0,"total":9}}}}"#).outcome.usage,
        None
    );
    let first = r#"{"payloads":[],"meta":{"agentMeta":{"usage":{"input":0,"inputTokens":7,"output":"x"}}}}"#;
    let counts = ModelUsage { input_tokens: Some(7), ..Default::default() };
    assert_eq!(run(first).outcome.usage, usage("unknown", counts));
}

#[test]
fn the_answer_of_a_gateway_is_unwrapped() {
    let inner = r#""result":{"payloads":[{"text":"g"}],"meta":{"agentMeta":{"sessionId":"s"}}}"#;
    let of = |head: &str, tail: &str| run(&format!("{{\"runId\":\"r\",{head}{tail}}}")).outcome;
    for status in ["\"status\":\"ok\",", "\"status\":\"completed\",", ""] {
        let o = of(status, inner);
        assert_eq!((o.output.as_str(), o.session_id.as_deref()), ("g", Some("s")), "{status}");
    }
    for (head, error, kind) in [
        (r#""status":"error","summary":"why","#, "why", FailureKind::Unknown),
        (r#""status":"strange","#, "openclaw returned status strange", FailureKind::Unknown),
        (r#""status":"in_flight","#, "run already in flight", FailureKind::Overloaded),
        (r#""status":"timeout","summary":"late","#, "late", FailureKind::Timeout),
    ] {
        let o = of(head, inner);
        assert_eq!((o.status, o.error.as_deref()), (RunStatus::Failed, Some(error)));
        assert_eq!((o.failure.unwrap().kind, o.partial_output.as_deref()), (kind, Some("g")), "{error}");
    }
    assert_eq!(of(r#""status":"error","summary":"no result""#, "").error.as_deref(), Some("no result"));
}

#[test]
fn failure_documents() {
    let of = |message: &str| {
        let document = serde_json::json!({"ok": false, "error": {"type": "cli_error", "message": message}});
        feed(Plan { attempt: 2, ..plan() }, &pretty(&document.to_string()), exit(1, "[openclaw] Reason: …"))
            .outcome
    };
    for (message, kind, retryable) in [
        ("no auth", FailureKind::Auth, false),
        ("⚠️ mock: rate limited; Retry-After: 1 seconds", FailureKind::RateLimit, true),
        ("failed to acquire gateway state ownership", FailureKind::Overloaded, true),
        (
            "Inline API key for provider \"mock\" is temporarily disabled after a provider auth/billing failure.",
            FailureKind::Auth,
            true,
        ),
        ("gateway agent requires credentials before opening a websocket", FailureKind::Auth, false),
        ("Unknown agent id \"nosuch\".", FailureKind::ModelNotFound, false),
    ] {
        let o = of(message);
        assert_eq!((o.status, o.error.as_deref()), (RunStatus::Failed, Some(message)));
        let failure = o.failure.unwrap();
        assert_eq!(
            (failure.kind, failure.retryable, failure.exit_code),
            (kind, retryable, Some(1)),
            "{message}"
        );
        assert_eq!(o.session_id, None);
    }
    let spoken_of = |stdout: &str| spoken(&run(stdout).messages);
    let failed = r#"{"payloads":[{"text":"part"},{"text":"bad","isError":true}],"meta":{"error":{"kind":"incomplete_turn","message":"why"}}}"#;
    assert_eq!(spoken_of(failed), [Message::text("part"), Message::error("why")]);
    let o = run(failed).outcome;
    assert_eq!((o.error.as_deref(), o.partial_output.as_deref()), (Some("why"), Some("part")));
    assert_eq!(o.failure.unwrap().kind, FailureKind::Provider);
    assert_eq!(run(r#"{"payloads":[{"text":"bad","isError":true}]}"#).outcome.error.as_deref(), Some("bad"));
    let o = run(r#"{"payloads":[],"meta":{"aborted":true}}"#).outcome;
    assert_eq!((o.status, o.error.as_deref()), (RunStatus::Cancelled, Some("openclaw aborted the turn")));
    let o = run(r#"{"ok":false,"status":"error","payloads":[]}"#).outcome;
    assert_eq!(o.error.as_deref(), Some("openclaw returned an error result without details"));
}

#[test]
fn its_own_deadline_is_a_timeout_where_it_is_the_callers() {
    let limit = |seconds| Plan { limit: Some(Duration::from_secs(seconds)), ..plan() };
    let local =
        r#"{"payloads":[{"text":"late","isError":true}],"meta":{"durationMs":8001,"timeoutPhase":"x"}}"#;
    let o = feed(limit(8), local, exit(1, "")).outcome;
    assert_eq!((o.status, o.error.as_deref()), (RunStatus::Timeout, Some("late")));
    assert_eq!(o.failure.unwrap().limit, Some(Limit::Run));
    let exec = |said: &str| {
        format!(
            r#"{{"ok":false,"status":"timeout","payloads":[],"error":{{"message":{said:?},"kind":"timeout"}}}}"#
        )
    };
    for (plan, document, kind) in [
        (limit(60), local.to_owned(), FailureKind::Timeout),
        (plan(), local.to_owned(), FailureKind::Timeout),
        (limit(8), exec("late"), FailureKind::Timeout),
        (limit(8), exec("LLM request timed out."), FailureKind::Network),
    ] {
        let o = feed(plan, &document, exit(2, "")).outcome;
        assert_eq!((o.status, o.failure.unwrap().kind), (RunStatus::Failed, kind), "{document}");
    }
}

#[test]
fn a_state_that_is_owned_is_tried_once_more() {
    let document =
        r#"{"ok":false,"error":{"type":"cli_error","message":"failed to acquire gateway state ownership"}}"#;
    let retry = |attempt| {
        let mut decoder = OpenclawDecoder::new(Plan { attempt, ..plan() });
        let d = drive("openclaw", "openclaw", &mut decoder, document, exit(1, ""));
        let retry = crate::agents::Decoder::evidence(&mut decoder, &exit(1, "")).retry;
        (retry.is_some(), spoken(&d.messages).len())
    };
    assert_eq!((retry(1), retry(2)), ((true, 0), (false, 1)));
}

#[test]
fn only_sessions_that_last_are_reported() {
    let document = r#"{"ok":true,"status":"ok","final":"f","payloads":[],"sessionId":"x"}"#;
    let exec = |state| {
        let entry = Entry::Exec(state);
        feed(Plan { entry, stdin: Some("p".into()), ..plan() }, document, clean_exit())
    };
    let isolated = exec(State::Thrown);
    assert_eq!((isolated.outcome.output.as_str(), isolated.outcome.session_id), ("f", None));
    assert!(isolated.messages.contains(&Message::running(None)));
    assert_eq!(isolated.writes, ["p"]);
    assert_eq!(exec(State::Kept).outcome.session_id.as_deref(), Some("x"));
    // A resumed session is there whatever happens to this run; a new one may not be.
    let stop = || End {
        stop: Some(Stop::cancelled()),
        exit: Exit { forced: true, ..Exit::default() },
        ..End::default()
    };
    let resumed = feed(Plan { resumed: true, ..plan() }, "", stop()).outcome;
    assert_eq!((resumed.status, resumed.session_id.as_deref()), (RunStatus::Aborted, Some("passed")));
    assert_eq!(feed(plan(), "", stop()).outcome.session_id, None);
}

#[test]
fn versions() {
    let check = |v: &str| check_version(&semver::Version::parse(v).unwrap()).map_err(|e| (e.code, e.message));
    assert_eq!(check("2026.5.5"), Ok(()));
    assert_eq!(check("2027.0.0"), Ok(()));
    assert_eq!(check("2026.5.5-beta.1"), Ok(()));
    let (code, message) = check("2026.4.9").unwrap_err();
    assert_eq!(code, ErrorCode::VersionTooOld);
    for part in ["2026.4.9", "2026.5.5", "openclaw update"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn runs_on_one_state_take_turns() {
    let first = turn_on("/turns".into()).lock_owned().await;
    assert!(turn_on("/turns".into()).try_lock_owned().is_err());
    assert!(turn_on("/turns/other".into()).try_lock_owned().is_ok());
    drop(first);
    assert!(turn_on("/turns".into()).try_lock_owned().is_ok());
}

#[test]
fn payloads_that_are_no_answer() {
    let payloads = r#"[{"text":"hm","isReasoning":true},{"text":"On it.","isCommentary":true},{"text":"A"}]"#;
    let want = [Message::thinking("hm"), Message::text("On it."), Message::text("A")];
    for document in [
        format!(r#"{{"payloads":{payloads}}}"#),
        format!(r#"{{"ok":true,"status":"ok","final":"A","payloads":{payloads}}}"#),
    ] {
        let d = run(&document);
        assert_eq!((d.outcome.output.as_str(), spoken(&d.messages)), ("A", want.to_vec()), "{document}");
    }
    let o = run(r#"{"ok":false,"status":"error","payloads":[],"error":{"kind":"aborted","message":"m"}}"#)
        .outcome;
    assert_eq!(o.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn without_help_texts_the_message_is_an_argument() {
    let program = PathBuf::from("/nowhere/openclaw");
    let home = tempfile::tempdir().unwrap();
    let list = EnvList(vec![("HOME".into(), home.path().to_str().unwrap().into())]);
    let env = ChildEnv::new(&list, &EnvList::default(), Os::Linux);
    let prober = Prober::new(program.clone(), Vec::new(), env.clone());
    let options =
        ExecuteOptions { cwd: "/w".into(), resume_session_id: Some("s".into()), ..Default::default() };
    let files = RunFiles::default();
    let ctx = LaunchContext {
        prompt: "do",
        options: &options,
        env: &env,
        program: &program,
        prober: &prober,
        files: &files,
        os: Os::Linux,
        run_id: "r",
        attempt: 1,
    };
    let mut launch = (AGENT.launch)(&ctx).await.unwrap();
    assert_eq!(launch.args, ["agent", "--local", "--json", "--session-id", "s", "--message", "do"]);
    assert_eq!((launch.guards.len(), launch.env.len()), (1, 0));
    let Protocol::Lines(decoder) = &mut launch.protocol else { panic!("a line agent") };
    let d = drive("openclaw", "openclaw", decoder.as_mut(), "", clean_exit());
    assert!(d.writes.is_empty() && d.stdin_closed);

    // The cwd reaches it through a configuration laid over the user's.
    let folder = home.path().join(".openclaw");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("openclaw.json"), "{}").unwrap();
    drop(launch);
    let launch = (AGENT.launch)(&ctx).await.unwrap();
    let value = |name: &str| launch.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap();
    assert_eq!(value("OPENCLAW_INCLUDE_ROOTS"), folder.to_str().unwrap());
    let overlay = std::fs::read_to_string(value("OPENCLAW_CONFIG_PATH")).unwrap();
    assert!(overlay.contains(r#""workspace":"/w""#) && overlay.contains("$include"), "{overlay}");
}

mod recordings {
    use super::*;

    fn decode(name: &str, plan: Plan, end: End) -> Driven {
        let path = format!(
            "{}/__test__/recordings/openclaw-2026.9.6/{name}.stdout.json",
            env!("CARGO_MANIFEST_DIR")
        );
        feed(plan, &std::fs::read_to_string(&path).expect(&path), end)
    }
    fn counted(requests: u64, ticks: u64) -> Option<Usage> {
        let counts = ModelUsage::tokens(445 * requests, 56 * requests, 789 * requests, 0);
        usage("mock-model", ModelUsage { cost_usd_ticks: Some(ticks), ..counts })
    }
    fn exec() -> Plan {
        Plan { entry: Entry::Exec(State::Thrown), ..plan() }
    }

    #[test]
    fn finished_turns() {
        for (name, plan, text, session, counts) in [
            ("text", plan(), "Hello from the mock model.", Some("lab-1796058549695"), counted(1, 6_359_000)),
            ("narrated-tool", plan(), "The tool said: hi", Some("lab-1796059339447"), counted(2, 12_718_000)),
            ("multi", plan(), "The tool said: hi", Some("lab-1796059733558"), counted(2, 12_718_000)),
            ("tool-fail", plan(), "The tool said: hi", Some("lab-1796059762340"), counted(2, 12_718_000)),
            ("exec-text", exec(), "Hello from the mock model.", None, counted(1, 6_359_000)),
            ("exec-tool", exec(), "The tool said: hi", None, counted(2, 12_718_000)),
        ] {
            let d = decode(name, plan, clean_exit());
            let said: Vec<_> = d.messages.into_iter().filter(|m| !matches!(m, Message::Log { .. })).collect();
            assert_eq!(said, [Message::running(session.map(str::to_owned)), Message::text(text)], "{name}");
            let o = d.outcome;
            assert_eq!((o.status, o.error, o.output.as_str()), (RunStatus::Completed, None, text), "{name}");
            assert_eq!((o.session_id.as_deref(), o.usage), (session, counts), "{name}");
        }
    }

    #[test]
    fn failed_turns() {
        for (name, plan, kind, says) in [
            ("error-401", plan(), FailureKind::Auth, "authentication failed, HTTP 401"),
            ("error-429", plan(), FailureKind::RateLimit, "rate limited"),
            ("error-500", plan(), FailureKind::Provider, "HTTP 500"),
            ("overflow", plan(), FailureKind::ContextOverflow, "maximum context length is 200000 tokens"),
            ("empty", plan(), FailureKind::Provider, "Agent couldn't generate a response."),
            ("timeout-flag", plan(), FailureKind::Network, "Request timed out"),
            ("concurrent", Plan { attempt: 2, ..plan() }, FailureKind::Overloaded, "state ownership"),
            ("no-local", plan(), FailureKind::Auth, "gateway agent requires credentials"),
            ("nologin", plan(), FailureKind::Auth, "authentication source"),
            ("resume-known", plan(), FailureKind::Auth, "temporarily disabled"),
            ("bad-agent", plan(), FailureKind::ModelNotFound, "Unknown agent id"),
            ("exec-401", exec(), FailureKind::Auth, "authentication failed, HTTP 401"),
        ] {
            let d = decode(name, plan, exit(1, "[openclaw] Help: openclaw --help"));
            let o = d.outcome;
            assert_eq!(
                (o.status, o.output.as_str(), o.partial_output),
                (RunStatus::Failed, "", None),
                "{name}"
            );
            let error = o.error.unwrap();
            assert!(error.contains(says) && !error.contains("stderr"), "{name}: {error}");
            assert_eq!(o.failure.unwrap().kind, kind, "{name}");
            assert_eq!(spoken(&d.messages), [Message::error(error)], "{name}");
        }
        let o = decode("timeout-flag", Plan { limit: Some(Duration::from_secs(8)), ..plan() }, exit(1, ""))
            .outcome;
        assert_eq!(o.status, RunStatus::Timeout);
    }
}
