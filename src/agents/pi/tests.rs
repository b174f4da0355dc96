use super::decoder::PiDecoder;
use super::session::Session;
use crate::agents::testing::{Driven, clean_exit, drive, exit, spoken};
use crate::agents::{End, Exit, LaunchContext, Protocol, Stop};
use crate::contract::options::EnvList;
use crate::contract::{
    ExecuteOptions, FailureKind, Limit, Message, ModelUsage, Os, RawJson, RunStatus, Usage,
};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

const FILE: &str = "/s/one.jsonl";

fn decoder(model: Option<&str>) -> PiDecoder {
    PiDecoder::new("hi", model, Session::File(FILE.into()), false, false)
}
fn feed(decoder: PiDecoder, events: &[&str], end: End) -> Driven {
    let mut decoder = decoder;
    drive("pi", "pi", &mut decoder, &events.iter().map(|e| format!("{e}\n")).collect::<String>(), end)
}
fn run(events: &[&str]) -> Driven {
    feed(decoder(None), events, clean_exit())
}
fn delta(kind: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(r#"{{"type":"message_update","assistantMessageEvent":{{"type":"{kind}","delta":{text}}}}}"#)
}
fn text(text: &str) -> String {
    delta("text_delta", text)
}
fn turn_end(message: &str) -> String {
    format!(r#"{{"type":"turn_end","message":{message},"toolResults":[]}}"#)
}
fn counts(n: u64) -> String {
    turn_end(&format!(
        r#"{{"model":"test","usage":{{"input":{n},"output":{n},"cacheRead":0,"cacheWrite":0}}}}"#
    ))
}
fn failed_turn(error: &str) -> String {
    turn_end(&format!(r#"{{"model":"test","stopReason":"error","errorMessage":{error:?}}}"#))
}
fn usage(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn running() -> Message {
    Message::running(Some(FILE.into()))
}
fn kind(d: &Driven) -> Option<FailureKind> {
    d.outcome.failure.as_ref().map(|f| f.kind)
}

const START: &str = r#"{"type":"agent_start"}"#;
const TURN: &str = r#"{"type":"turn_start"}"#;
const STOP: &str = r#"{"type":"turn_end","message":{"stopReason":"stop"}}"#;
const TOOL_USE: &str = r#"{"type":"turn_end","message":{"stopReason":"toolUse"}}"#;
const END: &str = r#"{"type":"agent_end","messages":[],"willRetry":false}"#;
const RETRY: &str = r#"{"type":"agent_end","messages":[],"willRetry":true}"#;
const SETTLED: &str = r#"{"type":"agent_settled","aborted":false}"#;

#[test]
fn the_prompt_goes_to_stdin_and_stdin_is_closed() {
    let prompt = " line\n\"two\" ä -X\n";
    let d = feed(PiDecoder::new(prompt, None, Session::Id("x".into()), true, false), &[], clean_exit());
    assert_eq!((d.writes, d.stdin_closed), (vec![prompt.to_owned()], true));
}

#[test]
fn the_answer_is_the_text_of_the_last_turn() {
    let d = run(&[
        START,
        TURN,
        &text("mid"),
        r#"{"type":"tool_execution_start","toolCallId":"c1","toolName":"bash","args":{"command":"x"}}"#,
        r#"{"type":"tool_execution_end","toolCallId":"c1","result":{"content":[{"type":"text","text":"hi"}]}}"#,
        &counts(1),
        TURN,
        &text("final"),
        &text(" "),
        &text("answer"),
        &counts(2),
    ]);
    assert_eq!(
        d.messages,
        [
            running(),
            Message::text("mid"),
            Message::tool_use("bash", "c1", Some(RawJson(r#"{"command":"x"}"#.into()))),
            Message::tool_result("c1", "hi"),
            Message::text("final"),
            Message::text(" "),
            Message::text("answer"),
        ]
    );
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "final answer"));
    assert_eq!(d.outcome.usage, usage("test", ModelUsage::tokens(3, 3, 0, 0)));
    assert_eq!((d.outcome.session_id.as_deref(), d.outcome.resume_rejected), (Some(FILE), Some(false)));
}

#[test]
fn a_turn_that_ends_in_tool_calls_leaves_no_answer() {
    let d = run(&[START, TURN, &text("I look"), TOOL_USE, END, SETTLED]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "I look"));
    let d = run(&[START, TURN, &text("I look"), TOOL_USE, TURN, TOOL_USE, END, SETTLED]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, ""));
}

#[test]
fn an_error_of_the_model_service_fails_in_spite_of_exit_code_0() {
    for (error, want) in [
        ("API error (401): invalid token", FailureKind::Auth),
        ("401 mock: invalid x-api-key", FailureKind::Auth),
        ("403 mock: not allowed", FailureKind::Permission),
        ("429 mock: rate limited", FailureKind::RateLimit),
        ("503 Service Unavailable", FailureKind::Overloaded),
        ("529 overloaded_error", FailureKind::Overloaded),
        ("500: {\"type\":\"api_error\"}", FailureKind::Provider),
        ("terminated", FailureKind::Network),
        ("nobody knows", FailureKind::Unknown),
    ] {
        let settled = run(&[START, TURN, &failed_turn(error), END, SETTLED]);
        let without = run(&[START, TURN, &failed_turn(error), END]);
        for d in [settled, without] {
            assert_eq!((d.outcome.status, d.outcome.error.as_deref()), (RunStatus::Failed, Some(error)));
            assert_eq!((kind(&d), d.outcome.output.as_str()), (Some(want), ""), "{error}");
        }
    }
    let d = run(&[START, TURN, &turn_end(r#"{"stopReason":"error"}"#)]);
    assert_eq!(d.outcome.error.as_deref(), Some("pi ended the turn with an error"));
}

#[test]
fn a_retry_that_works_clears_the_error() {
    let d = run(&[
        START,
        TURN,
        &text("lost"),
        &failed_turn("503 overloaded"),
        RETRY,
        r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"503 overloaded"}"#,
        TURN,
        &text("ok"),
        STOP,
    ]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "ok"));
    assert!(d.messages.contains(&Message::log("warn", "pi retries (attempt 1 of 3) in 2s: 503 overloaded")));
}

#[test]
fn an_error_event_decides() {
    let d = run(&[START, r#"{"type":"error","message":"boom"}"#, r#"{"type":"error","message":{"code":7}}"#]);
    assert_eq!(d.messages, [running(), Message::error("boom"), Message::error(r#"{"code":7}"#)]);
    assert_eq!((d.outcome.status, d.outcome.error.as_deref()), (RunStatus::Failed, Some("boom")));
    let d = run(&[START, r#"{"type":"error","message":"boom"}"#, TURN, STOP, SETTLED]);
    assert_eq!(d.outcome.error.as_deref(), Some("boom"));
}

#[test]
fn exhausted_retries_fail() {
    let error = |d: &Driven| d.outcome.error.clone().unwrap_or_default();
    assert_eq!(
        error(&run(&[START, r#"{"type":"auto_retry_end","success":false}"#])),
        "pi exhausted automatic retries"
    );
    assert_eq!(error(&run(&[r#"{"type":"auto_retry_end"}"#])), "pi exhausted automatic retries");
    let last = r#"{"type":"auto_retry_end","success":false,"finalError":"429 slow down"}"#;
    assert_eq!(error(&run(&[START, TURN, &failed_turn("429"), END, last])), "429 slow down");
    let bare = r#"{"type":"auto_retry_end","success":false}"#;
    assert_eq!(error(&run(&[START, TURN, &failed_turn("429 why"), END, bare])), "429 why");
    let d = run(&[START, TURN, r#"{"type":"auto_retry_end","success":true}"#, STOP]);
    assert_eq!(d.outcome.status, RunStatus::Completed);
}

#[test]
fn leaked_tool_syntax_is_filtered_per_turn() {
    let d = run(&[
        START,
        TURN,
        &text("before ca"),
        &text("ll:bash{command:<|\"|>ls"),
        &text("/x<|\"|>}"),
        &text(" after"),
        STOP,
        TURN,
        &text("ends with call:bash{"),
        STOP,
    ]);
    let texts: String = d
        .messages
        .iter()
        .filter_map(|m| match m {
            Message::Text { content, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, "before  afterends with call:bash{");
    assert_eq!(d.outcome.output, "ends with call:bash{");
}

#[test]
fn held_text_comes_before_the_tool() {
    let d = run(&[
        START,
        TURN,
        &text("see call"),
        r#"{"type":"tool_execution_start","toolCallId":"c1","toolName":"ls","args":null}"#,
    ]);
    assert_eq!(
        spoken(&d.messages),
        [Message::text("see "), Message::text("call"), Message::tool_use("ls", "c1", None)]
    );
}

#[test]
fn thinking_is_passed_on_and_empty_pieces_are_not() {
    let d = run(&[
        START,
        TURN,
        &delta("thinking_delta", ""),
        &delta("thinking_delta", "call: x"),
        &text(""),
        STOP,
    ]);
    assert_eq!(spoken(&d.messages), [Message::thinking("call: x")]);
}

#[test]
fn tool_output_is_text() {
    for (result, want) in [
        (r#""plain""#, "plain"),
        (
            r#"{"content":[{"type":"text","text":"a\n"},{"type":"image","data":"x"},{"type":"text","text":"b"}]}"#,
            "a\n\nb",
        ),
        (r#"{"content":[],"details":{}}"#, ""),
        (r#"{"content":[{"type":"image","data":"x"}]}"#, r#"{"content":[{"type":"image","data":"x"}]}"#),
        (r#"{"ok":1.50}"#, r#"{"ok":1.50}"#),
        ("[1]", "[1]"),
        ("null", ""),
    ] {
        let event = format!(
            r#"{{"type":"tool_execution_end","toolCallId":"c","toolName":"t","result":{result},"isError":true}}"#
        );
        let want = Message::ToolResult {
            call_id: "c".into(),
            tool: Some("t".into()),
            output: want.into(),
            is_error: Some(true),
            parent_call_id: None,
        };
        assert_eq!(run(&[&event]).messages, [want]);
    }
}

#[test]
fn usage_goes_to_the_model_that_was_named() {
    let tokens = r#""usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4}"#;
    let unnamed = turn_end(&format!("{{{tokens}}}"));
    let want = ModelUsage::tokens(1, 2, 3, 4);
    assert_eq!(feed(decoder(Some("m")), &[&unnamed], clean_exit()).outcome.usage, usage("m", want));
    assert_eq!(run(&[&unnamed]).outcome.usage, usage("unknown", want));
    let blank = turn_end(&format!(r#"{{"model":" ",{tokens}}}"#));
    assert_eq!(feed(decoder(Some("m")), &[&blank], clean_exit()).outcome.usage, usage("m", want));
}

#[test]
fn usage_is_what_pi_tells() {
    let turn = |usage: &str| turn_end(&format!(r#"{{"model":"m","usage":{usage}}}"#));
    let zeros = turn(r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"cost":{"total":0}}"#);
    assert_eq!(run(&[&zeros]).outcome.usage, None);
    assert_eq!(run(&[&turn("\"broken\"")]).outcome.status, RunStatus::Completed);
    let priced = turn(r#"{"input":10,"output":5,"totalTokens":15,"cost":{"input":0.1,"total":0.0125}}"#);
    let want = ModelUsage {
        input_tokens: Some(20),
        output_tokens: Some(10),
        cost_usd_ticks: Some(250_000_000),
        ..Default::default()
    };
    assert_eq!(run(&[&priced, TURN, &priced]).outcome.usage, usage("m", want));
}

#[test]
fn no_success_without_an_end() {
    let ended_early = "pi stream ended without a completed turn";
    for events in [
        &[][..],
        &[START],
        &[START, TURN, r#"{"type":"message_end"}"#],
        &[START, TURN, TOOL_USE],
        &[START, TURN, STOP, TURN],
        &[START, TURN, TOOL_USE, RETRY],
        &[START, END, SETTLED],
    ] {
        let d = run(events);
        assert_eq!(
            (d.outcome.status, d.outcome.error.as_deref()),
            (RunStatus::Failed, Some(ended_early)),
            "{events:?}"
        );
        assert_eq!(kind(&d), Some(FailureKind::Crash));
    }
}

#[test]
fn a_killed_pi_has_not_completed() {
    let killed = || End {
        exit: Exit { code: None, signal: Some("SIGKILL".into()), forced: false },
        ..Default::default()
    };
    for events in [&[START, TURN, STOP][..], &[START, TURN, STOP, END], &[START, TURN, TOOL_USE]] {
        for end in [exit(143, ""), killed()] {
            let d = feed(decoder(None), events, end);
            assert_eq!(d.outcome.status, RunStatus::Failed, "{events:?}");
            assert!(d.outcome.error.unwrap().starts_with("pi exited with error: "));
        }
    }
}

#[test]
fn our_own_stop_wins_over_an_error_that_was_not_final() {
    let end = |stop: Stop| End {
        stop: Some(stop),
        exit: Exit { code: Some(143), signal: None, forced: true },
        ..Default::default()
    };
    let waiting = [START, TURN, &text("part"), &failed_turn("429 wait"), RETRY];
    let d = feed(decoder(None), &waiting, end(Stop::cancelled()));
    assert_eq!(
        (d.outcome.status, d.outcome.error.as_deref()),
        (RunStatus::Aborted, Some("execution cancelled"))
    );
    assert_eq!(d.outcome.partial_output.as_deref(), Some("part"));
    let limit = Stop::limit(Limit::Run, std::time::Duration::from_secs(5));
    let d = feed(decoder(None), &waiting, end(limit.clone()));
    assert_eq!(
        (d.outcome.status, d.outcome.error.as_deref()),
        (RunStatus::Timeout, Some("pi timed out after 5s"))
    );
    assert_eq!(d.outcome.session_id.as_deref(), Some(FILE));
    let d = feed(decoder(None), &[START, TURN, &failed_turn("400 bad request"), END, SETTLED], end(limit));
    assert_eq!(d.outcome.status, RunStatus::Failed);
}

#[test]
fn a_turn_that_the_agent_aborted_is_cancelled() {
    let aborted = turn_end(r#"{"stopReason":"aborted"}"#);
    for events in [
        &[START, TURN, &text("part"), &aborted, END][..],
        &[START, TURN, &text("part"), STOP, END, r#"{"type":"agent_settled","aborted":true}"#],
    ] {
        let d = run(events);
        assert_eq!(
            (d.outcome.status, d.outcome.error.as_deref()),
            (RunStatus::Cancelled, Some("pi aborted the turn"))
        );
        assert_eq!(d.outcome.partial_output.as_deref(), Some("part"));
    }
}

#[test]
fn an_answer_cut_at_the_output_limit_completes_with_a_warning() {
    let d = run(&[START, TURN, &text("long"), &turn_end(r#"{"stopReason":"length"}"#), END, SETTLED]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "long"));
    assert!(d.messages.contains(&Message::log("warn", "the answer was cut at the model's output limit")));
}

#[test]
fn compaction_is_logged() {
    let d = run(&[
        r#"{"type":"compaction_start","reason":"threshold"}"#,
        r#"{"type":"compaction_end","reason":"threshold","result":{},"aborted":false,"willRetry":false}"#,
        r#"{"type":"compaction_end","reason":"overflow","aborted":false,"errorMessage":"no"}"#,
        r#"{"type":"summarization_retry_scheduled","attempt":1,"maxAttempts":3,"delayMs":500,"errorMessage":"cut"}"#,
    ]);
    assert_eq!(
        d.messages,
        [
            Message::log("info", "pi compacts the context (threshold)"),
            Message::log("info", "pi has compacted the context"),
            Message::log("warn", "pi could not compact the context: no"),
            Message::log("warn", "pi retries the summary (attempt 1 of 3) in 500ms: cut"),
        ]
    );
}

#[test]
fn the_terminal_event_is_agent_settled_alone() {
    assert!(!run(&[START, TURN, STOP, END]).terminal);
    assert!(run(&[START, TURN, STOP, END, SETTLED]).terminal);
}

#[test]
fn a_failed_prompt_write_counts_until_a_turn_ended() {
    let broken = || End { write_error: Some("broken pipe".into()), ..clean_exit() };
    let d = feed(decoder(None), &[START], broken());
    assert_eq!(d.outcome.error.as_deref(), Some("pi prompt write failed: broken pipe"));
    assert_eq!(feed(decoder(None), &[START, TURN, STOP, END], broken()).outcome.status, RunStatus::Completed);
}

#[test]
fn a_read_error_fails() {
    let end = End { read_error: Some("token too long".into()), ..clean_exit() };
    let d = feed(decoder(None), &[START, TURN, STOP, END], end);
    assert_eq!(d.outcome.error.as_deref(), Some("pi stdout read error: token too long"));
}

#[test]
fn start_up_errors_are_on_stderr_only() {
    let not_found = "Model \"x/y\" not found. Use --list-models to see available models.";
    let d = feed(decoder(None), &[], exit(1, not_found));
    assert_eq!(
        d.outcome.error.as_deref(),
        Some(format!("pi exited with error: exit status 1; pi stderr: {not_found}").as_str())
    );
    assert_eq!((kind(&d), d.outcome.session_id), (Some(FailureKind::ModelNotFound), None));
    let d = feed(decoder(None), &[], exit(1, "No API key found for anthropic."));
    assert_eq!(kind(&d), Some(FailureKind::Auth));
    assert!(d.outcome.failure.unwrap().hint.is_some());
    let old = "SyntaxError: The requested module 'node:module' does not provide an export named 'enableCompileCache'";
    let failure = feed(decoder(None), &[], exit(1, old)).outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.retryable), (FailureKind::Crash, false));
    assert!(failure.hint.unwrap().contains("Node.js"));
}

#[test]
fn a_refused_resume_is_told_from_other_failures() {
    let resume = |session: Session, events: &[&str], end: End| {
        feed(PiDecoder::new("hi", None, session, true, false), events, end)
    };
    let file = || Session::File(FILE.into());
    for text in [
        "No session found matching 'abc'",
        "Error: Session file is not a valid pi session: /s/one.jsonl",
        "Stored session working directory does not exist: /gone",
    ] {
        let d = resume(file(), &[], exit(1, text));
        assert_eq!((d.outcome.status, d.outcome.resume_rejected), (RunStatus::Failed, Some(true)), "{text}");
        assert_eq!((kind(&d), d.outcome.session_id), (Some(FailureKind::ResumeRejected), None));
        let fresh = feed(decoder(None), &[], exit(1, text));
        assert_eq!(fresh.outcome.resume_rejected, Some(false));
    }
    let d = resume(file(), &[], exit(1, "429 rate limit"));
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some(FILE)));
    let d = resume(file(), &[START, TURN, &failed_turn("No session found matching"), SETTLED], clean_exit());
    assert_eq!(d.outcome.resume_rejected, Some(false));
}

#[test]
fn the_session_header_completes_an_id() {
    let d = feed(
        PiDecoder::new("hi", None, Session::Id("01a2".into()), true, false),
        &[r#"{"type":"session","version":3,"id":"01a22d7e-f5be","cwd":"/p"}"#, START, TURN, STOP, SETTLED],
        clean_exit(),
    );
    assert_eq!(d.messages, [Message::running(Some("01a22d7e-f5be".into()))]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("01a22d7e-f5be"));
}

#[test]
fn a_session_without_its_history_is_reported() {
    let d = feed(
        PiDecoder::new("hi", None, Session::File(FILE.into()), true, true),
        &[START, TURN, STOP],
        clean_exit(),
    );
    assert_eq!(d.messages[0], Message::log("warn", "session file missing, starting fresh"));
    assert_eq!((d.outcome.status, d.outcome.resume_rejected), (RunStatus::Completed, Some(false)));
}

#[test]
fn lines_that_are_no_events_are_logged_or_counted() {
    let d = run(&["Warning: banner", "{\"secret\":", "{\"no\":\"type\"}", r#"{"type":"queue_update"}"#]);
    assert_eq!(
        d.messages,
        [
            Message::log("info", "Warning: banner"),
            Message::log("warn", "skipped a malformed frame of 10 bytes on stdout"),
            Message::log("warn", "skipped a malformed frame of 13 bytes on stdout"),
        ]
    );
}

#[test]
fn line_separators_inside_strings_are_data() {
    let d = run(&[START, TURN, &text("a\u{2028}b\u{2029}c"), STOP]);
    assert_eq!(d.outcome.output, "a\u{2028}b\u{2029}c");
}

#[test]
fn snapshots_of_a_long_answer_are_not_its_text() {
    // The shape of releases before 0.84: each delta comes with the whole message so far, twice, and the snapshot
    // is ahead of its delta. Then pi dies of its own output (write ENOBUFS, exit 1).
    let piece = "0123456789abcdef".repeat(512);
    let mut stdout = format!("{START}\n{TURN}\n");
    for n in 1..=10 {
        let snapshot = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"{}"}}]}}"#,
            piece.repeat(n + 2)
        );
        stdout += &format!(
            r#"{{"type":"message_update","assistantMessageEvent":{{"type":"text_delta","contentIndex":0,"delta":"{piece}","partial":{snapshot}}},"message":{snapshot}}}"#
        );
        stdout.push('\n');
    }
    let d = drive("pi", "pi", &mut decoder(None), &stdout, exit(1, "write ENOBUFS"));
    assert_eq!(d.messages.len(), 11);
    assert_eq!(d.outcome.partial_output.as_deref(), Some(piece.repeat(10).as_str()));
    assert_eq!(
        d.outcome.error.as_deref(),
        Some("pi exited with error: exit status 1; pi stderr: write ENOBUFS")
    );
}

#[tokio::test]
async fn a_launch_makes_the_session_file_and_keeps_prompts_out_of_the_arguments() {
    let data = tempfile::tempdir().unwrap();
    let home = data.path().to_str().unwrap().to_owned();
    let caller = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"].map(|name| (name.to_owned(), home.clone()));
    let env = ChildEnv::new(&EnvList::default(), &EnvList(caller.to_vec()), Os::current());
    let options = ExecuteOptions {
        model: Some(" m ".into()),
        system_prompt: Some("SECRET RULES".into()),
        ..Default::default()
    };
    let program = std::path::PathBuf::from("pi");
    let (prober, files) = (Prober::new(program.clone(), vec![], env.clone()), RunFiles::default());
    let ctx = LaunchContext {
        prompt: "SECRET PROMPT",
        options: &options,
        env: &env,
        program: &program,
        prober: &prober,
        files: &files,
        os: Os::current(),
        run_id: "r",
        attempt: 1,
    };
    let launch = (super::AGENT.launch)(&ctx).await.unwrap();
    let (session, prompt_file) = (launch.args[4].clone(), launch.args[8].clone());
    assert_eq!(
        launch.args,
        [
            "-p",
            "--mode",
            "json",
            "--session",
            &session,
            "--model",
            "m",
            "--append-system-prompt",
            &prompt_file
        ]
    );
    assert!(std::path::Path::new(&session).starts_with(data.path()), "{session}");
    assert_eq!(std::fs::read_to_string(&session).unwrap(), "");
    assert_eq!(std::fs::read_to_string(&prompt_file).unwrap(), "SECRET RULES");

    let Protocol::Lines(mut decoder) = launch.protocol else { panic!("pi speaks in lines") };
    let used = drive("pi", "pi", &mut *decoder, &format!("{START}\n"), clean_exit());
    assert_eq!(
        (used.writes, used.outcome.session_id),
        (vec!["SECRET PROMPT".to_owned()], Some(session.clone()))
    );
    drop(launch.guards);
    assert!(std::path::Path::new(&session).exists());

    let unused = (super::AGENT.launch)(&LaunchContext { files: &RunFiles::default(), ..ctx }).await.unwrap();
    assert!(std::path::Path::new(&unused.args[4]).exists());
    drop(unused.guards);
    assert!(!std::path::Path::new(&unused.args[4]).exists());
}

#[test]
fn a_blank_prompt_is_refused_before_anything_else() {
    for prompt in ["", " \n\t "] {
        let e = (super::AGENT.check)(prompt, &Default::default()).unwrap_err();
        assert!(e.message.contains("prompt must not be empty"), "{}", e.message);
    }
    assert!((super::AGENT.check)(" x ", &Default::default()).is_ok());
}
