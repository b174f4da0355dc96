use std::path::{Path, PathBuf};

use super::decoder::{CopilotDecoder, Plan};
use super::usage::{Counts, of_run};
use super::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit, spoken};
use crate::agents::{End, Exit, Protocol, Stop};
use crate::contract::options::EnvList;
use crate::contract::{
    ExecuteOptions, FailureKind, Limit, Message, ModelUsage, Os, RawJson, RunStatus, Usage,
};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

fn plan() -> Plan {
    Plan {
        stdin: Some("hi".into()),
        model: None,
        session_id: None,
        resumed: false,
        before: Some(Counts::new()),
        read_usage: Box::new(|| None),
        notes: Vec::new(),
    }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("copilot", "copilot", &mut CopilotDecoder::new(plan), stdout, end)
}
fn lines(events: &[&str]) -> String {
    events.iter().map(|e| format!("{e}\n")).collect()
}
fn run(events: &[&str]) -> Driven {
    feed(plan(), &lines(events), clean_exit())
}
fn event(kind: &str, data: &str) -> String {
    format!(r#"{{"type":"{kind}","data":{data},"id":"x","ephemeral":true}}"#)
}
fn delta(text: &str) -> String {
    event("assistant.message_delta", &format!(r#"{{"messageId":"m","deltaContent":{text:?}}}"#))
}
fn message(content: &str, more: &str) -> String {
    event(
        "assistant.message",
        &format!(r#"{{"messageId":"m","content":{content:?},"toolRequests":[]{more}}}"#),
    )
}
fn with_tool(content: &str) -> String {
    let request = r#"[{"toolCallId":"c1","name":"bash","arguments":{"command":"ls"}}]"#;
    event(
        "assistant.message",
        &format!(r#"{{"messageId":"m","content":{content:?},"toolRequests":{request}}}"#),
    )
}
const TURN: &str = r#"{"type":"assistant.turn_start","data":{"turnId":"0"}}"#;
const OK: &str = r#"{"type":"result","sessionId":"S","exitCode":0,"usage":{"premiumRequests":7.5}}"#;

fn usage(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn bash_use(id: &str, input: &str) -> Message {
    Message::tool_use("bash", id, Some(RawJson(input.into())))
}
fn bash_result(id: &str, output: &str) -> Message {
    Message::ToolResult {
        call_id: id.into(),
        tool: Some("bash".into()),
        output: output.into(),
        is_error: None,
        parent_call_id: None,
    }
}
/// The same result, said to have failed.
fn failed(mut result: Message) -> Message {
    if let Message::ToolResult { is_error, .. } = &mut result {
        *is_error = Some(true);
    }
    result
}

#[test]
fn a_streamed_turn() {
    let d = run(&[TURN, &delta("po"), &delta("ng"), &message("pong", r#","outputTokens":5"#), OK]);
    assert_eq!(d.messages, [Message::running(None), Message::text("po"), Message::text("ng")]);
    let o = d.outcome;
    assert_eq!(
        (o.status, o.output.as_str(), o.session_id.as_deref()),
        (RunStatus::Completed, "pong", Some("S"))
    );
    let counts = ModelUsage { output_tokens: Some(5), ..Default::default() };
    assert_eq!((o.usage, o.resume_rejected), (usage("copilot", counts), Some(false)));
    assert!(d.terminal && d.stdin_closed);
    assert_eq!(d.writes, ["hi"]);
}

#[test]
fn tools_and_their_results() {
    let done = |more: &str| event("tool.execution_complete", &format!(r#"{{"toolCallId":"c1",{more}}}"#));
    for (result, output, is_error) in [
        (r#""success":true,"result":{"content":"a\n"}"#, "a\n", None),
        (r#""success":false,"error":{"message":"nope"}"#, "Error: nope", Some(true)),
        (r#""success":false,"result":{"content":"x"}"#, "x", Some(true)),
        (r#""success":true"#, "", None),
        (r#""success":true,"shellExecution":{"exitCode":3},"result":{"content":"y"}"#, "y", Some(true)),
        (r#""success":true,"shellExecution":{"exitCode":0},"result":{"content":"y"}"#, "y", None),
        (r#""success":true,"result":{"content":{"k":1}}"#, r#"{"k":1}"#, None),
    ] {
        let d = run(&[&with_tool(""), &done(result), &message("ok", ""), OK]);
        let result = Message::ToolResult {
            call_id: "c1".into(),
            tool: Some("bash".into()),
            output: output.into(),
            is_error,
            parent_call_id: None,
        };
        let want = [bash_use("c1", r#"{"command":"ls"}"#), result, Message::text("ok")];
        assert_eq!(spoken(&d.messages), want, "{output}");
        assert_eq!(d.outcome.status, RunStatus::Completed);
    }
}

#[test]
fn a_call_is_announced_once_however_it_arrives() {
    let start = event(
        "tool.execution_start",
        r#"{"toolCallId":"c1","toolName":"bash","arguments":{"command":"ls"},"parentToolCallId":null}"#,
    );
    let want = [bash_use("c1", r#"{"command":"ls"}"#)];
    assert_eq!(spoken(&run(&[&with_tool(""), &start]).messages), want);
    assert_eq!(spoken(&run(&[&start]).messages), want);
}

#[test]
fn sub_agents_do_not_change_the_answer() {
    let inner = r#","parentToolCallId":"p1""#;
    let d = run(&[
        &message("Answer.", ""),
        &event(
            "assistant.message_delta",
            r#"{"messageId":"s","deltaContent":"sub","parentToolCallId":"p1"}"#,
        ),
        &event(
            "assistant.message",
            &format!(r#"{{"messageId":"s","content":"sub","reasoningText":"r"{inner}}}"#),
        ),
        OK,
    ]);
    let from = |m: Message| m.with_parent(Some("p1".into()));
    let want = [Message::text("Answer."), from(Message::text("sub")), from(Message::thinking("r"))];
    assert_eq!(spoken(&d.messages), want);
    assert_eq!(d.outcome.output, "Answer.");
}

#[test]
fn the_answer_is_the_last_message() {
    let look = with_tool("Look.");
    let a = message("", "");
    let cases: &[(&[&str], &str)] = &[
        (&[&look, &message("Answer.", ""), OK], "Answer."),
        (&[&delta("A"), &a, &delta("B"), OK], "B"),
        (&[&delta("hello "), &delta("world"), OK], "hello world"),
        (
            &[
                &delta("lost "),
                &event("assistant.turn_retry", r#"{"reason":"rate_limit"}"#),
                &delta("kept"),
                OK,
            ],
            "kept",
        ),
        (&[&look, OK], "Look."),
    ];
    for (events, output) in cases {
        assert_eq!(run(events).outcome.output, *output, "{events:?}");
    }
    let o = run(&[&delta("hello "), &delta("world")]).outcome;
    assert_eq!(o.error.as_deref(), Some("copilot stream ended without terminal result"));
    assert_eq!(o.partial_output.as_deref(), Some("hello world"));
}

#[test]
fn session_ids() {
    let start = event("session.start", r#"{"sessionId":"S1","selectedModel":"gpt-x"}"#);
    let id = |events: &[&str]| run(events).outcome.session_id;
    assert_eq!(id(&[&start, r#"{"type":"result","sessionId":"S2","exitCode":0}"#]).as_deref(), Some("S2"));
    assert_eq!(id(&[&start, r#"{"type":"result","exitCode":0}"#]).as_deref(), Some("S1"));
    assert_eq!(id(&[&start]).as_deref(), Some("S1"));
    assert_eq!(run(&[&start, TURN]).messages, [Message::running(Some("S1".into()))]);
    assert_eq!(id(&[OK]).as_deref(), Some("S"), "a fractional premiumRequests hides nothing");

    // An id of ours counts once the CLI has stored the session.
    let ours = || Plan { session_id: Some("U".into()), ..plan() };
    let user = event("user.message", r#"{"content":"hi"}"#);
    let d = feed(ours(), &lines(&[&event("session.tools_updated", "{}"), &user, TURN, TURN]), clean_exit());
    assert_eq!(d.messages, [Message::running(Some("U".into()))]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("U"));
    let d = feed(ours(), &lines(&[&event("session.tools_updated", "{}")]), clean_exit());
    assert_eq!((d.messages.len(), d.outcome.session_id), (0, None));
}

#[test]
fn errors_name_their_cause() {
    let failed = r#"{"type":"result","sessionId":"S","exitCode":1}"#;
    let error = |kind: &str, text: &str, more: &str| {
        event("session.error", &format!(r#"{{"errorType":{kind:?},"message":{text:?}{more}}}"#))
    };
    let cases: &[(&[&str], &str, FailureKind)] = &[
        (&[failed], "copilot exited with code 1", FailureKind::Unknown),
        (
            &[&error("rate_limit", " Rate limit ", ""), failed],
            "Rate limit; copilot exited with code 1",
            FailureKind::RateLimit,
        ),
        (&[&error("query", "500 mock", r#","statusCode":500"#), OK], "500 mock", FailureKind::Provider),
        (&[&error("query", "bad", r#","statusCode":400"#)], "bad", FailureKind::InvalidRequest),
        (&[&error("quota", "no more", ""), &message("later", ""), OK], "no more", FailureKind::Quota),
        (&[&error("authorization", "x", "")], "x", FailureKind::Permission),
        (&[r#"{"type":"session.error","data":{}}"#], "unknown copilot error", FailureKind::Unknown),
    ];
    for (events, text, kind) in cases {
        let o = run(events).outcome;
        assert_eq!((o.status, o.error.as_deref()), (RunStatus::Failed, Some(*text)));
        assert_eq!(o.failure.unwrap().kind, *kind, "{text}");
    }
    let o = feed(plan(), "", exit(1, "refresh token expired")).outcome;
    assert_eq!(
        o.error.as_deref(),
        Some("copilot exited with error: exit status 1; copilot stderr: refresh token expired")
    );
    assert_eq!(o.failure.unwrap().kind, FailureKind::Auth);
    let cut = format!("{TURN}\n{}", &OK[..30]);
    let o = feed(plan(), &cut, clean_exit()).outcome;
    assert_eq!(o.error.as_deref(), Some("copilot stdout ended within a line"));
}

#[test]
fn warnings_are_logs_and_unknown_events_nothing() {
    let d = run(&[
        &event("session.warning", r#"{"warningType":"w","message":"careful"}"#),
        &event("session.background_tasks_changed", "{}"),
        r#"{"type":"some.new_event","data":[1]}"#,
        r#"{"type":"assistant.message","data":{"content":7}}"#,
        OK,
    ]);
    assert_eq!(d.messages, [Message::log("warn", "careful")]);
    assert_eq!(d.outcome.status, RunStatus::Completed);
    let noted = feed(Plan { notes: vec!["n".into()], ..plan() }, "", clean_exit());
    assert_eq!(noted.messages, [Message::log("warn", "n")]);
}

#[test]
fn a_stop_is_never_a_success() {
    let aborted = event("abort", r#"{"reason":"user_initiated"}"#);
    let text = lines(&[&delta("part"), &aborted, OK]);
    let killed = |forced| Exit { code: None, signal: Some("SIGTERM".into()), forced };
    let end = |stop| End { stop: Some(stop), exit: killed(true), ..Default::default() };
    let o = feed(plan(), &text, end(Stop::cancelled())).outcome;
    assert_eq!((o.status, o.partial_output.as_deref()), (RunStatus::Aborted, Some("part")));
    assert_eq!(o.session_id.as_deref(), Some("S"));
    let o = feed(plan(), &text, end(Stop::limit(Limit::Run, std::time::Duration::from_secs(5)))).outcome;
    assert_eq!((o.status, o.error.as_deref()), (RunStatus::Timeout, Some("copilot timed out after 5s")));
    // Somebody else stopped it.
    for text in [text, lines(&[&aborted])] {
        let o = feed(plan(), &text, End { exit: killed(false), ..Default::default() }).outcome;
        assert_eq!(
            (o.status, o.error.as_deref()),
            (RunStatus::Cancelled, Some("copilot aborted the turn (user_initiated)"))
        );
    }
}

#[test]
fn usage_comes_from_one_source() {
    let call = |counts: &str| event("assistant.usage", counts);
    let full = call(
        r#"{"model":"m","inputTokens":12000,"outputTokens":250,"cacheReadTokens":9000,"cacheWriteTokens":1500}"#,
    );
    let tokenless = call(r#"{"model":"m"}"#);
    let shutdown = event(
        "session.shutdown",
        r#"{"modelMetrics":{"m":{"usage":{"inputTokens":30000,"outputTokens":900,"cacheReadTokens":24000,"cacheWriteTokens":2000}}}}"#,
    );
    let file = r#"{"modelMetrics":{"f":{"usage":{"inputTokens":400,"outputTokens":28,"cacheReadTokens":160,"cacheWriteTokens":0}}}}"#;
    let spoke = message("x", r#","outputTokens":5"#);
    let m = |i, o, r, w| usage("m", ModelUsage::tokens(i, o, r, w));
    let of = |plan: Plan, events: &[&str]| feed(plan, &lines(events), clean_exit()).outcome.usage;
    let resumed = || Plan { resumed: true, before: None, ..plan() };
    let reading = |plan: Plan| Plan { read_usage: Box::new(|| Some(file.to_owned())), ..plan };

    assert_eq!(of(plan(), &[&full, &spoke, OK]), m(1500, 250, 9000, 1500));
    let over = call(r#"{"model":"unknown","inputTokens":100,"cacheReadTokens":9000}"#);
    let counts = ModelUsage { input_tokens: Some(0), cache_read_tokens: Some(9000), ..Default::default() };
    assert_eq!(of(Plan { model: Some("mine".into()), ..plan() }, &[&over, OK]), usage("mine", counts));
    assert_eq!(of(plan(), &[&shutdown, OK]), m(4000, 900, 24000, 2000));
    assert_eq!(of(resumed(), &[&shutdown, OK]), None);
    assert_eq!(of(resumed(), &[&shutdown, &full, OK]), m(1500, 250, 9000, 1500));
    assert_eq!(of(plan(), &[&tokenless, &shutdown, OK]), m(4000, 900, 24000, 2000));
    assert_eq!(of(reading(plan()), &[&full, OK]), usage("f", ModelUsage::tokens(240, 28, 160, 0)));
    assert_eq!(of(reading(resumed()), &[OK]), None);
    let half = file.replace("400", "200").replace("28", "14").replace("160", "80");
    let before = of_run(&half, &Counts::new(), "");
    assert_eq!(
        of(Plan { before, ..reading(resumed()) }, &[OK]),
        usage("f", ModelUsage::tokens(120, 14, 80, 0))
    );

    let claude = message("x", r#","model":"claude-x","outputTokens":42"#);
    let masked = message("x", r#","model":"******-1","outputTokens":42"#);
    let counts = ModelUsage { output_tokens: Some(42), ..Default::default() };
    assert_eq!(of(plan(), &[&claude, OK]), usage("claude-x", counts));
    assert_eq!(of(plan(), &[&masked, OK]), usage("copilot", counts));
}

#[test]
fn a_thought_is_passed_on_once() {
    let part = event("assistant.reasoning_delta", r#"{"reasoningId":"r","deltaContent":"h"}"#);
    let whole = event("assistant.reasoning", r#"{"reasoningId":"r","content":"h"}"#);
    let with_message = message("x", r#","reasoningText":"h""#);
    let h = Message::thinking("h");
    let x = Message::text("x");
    let cases: &[(&[&str], &[&Message])] = &[
        (&[&part, &with_message, &whole], &[&h, &x]),
        (&[&with_message, &whole], &[&h, &x]),
        (&[&whole, &with_message], &[&h, &x]),
        (&[&part, &part], &[&h, &h]),
        (&[&part, &whole, TURN, &whole], &[&h, &h]),
    ];
    for (events, want) in cases {
        assert_eq!(spoken(&run(events).messages).iter().collect::<Vec<_>>(), *want, "{events:?}");
    }
}

#[test]
fn an_unknown_session_is_a_rejected_resume() {
    let resumed = || Plan { resumed: true, session_id: Some("U".into()), before: None, ..plan() };
    let stderr =
        include_str!("../../../__test__/recordings/copilot-1.0.102/resume-unknown.stderr.txt").trim();
    let o = feed(resumed(), "", exit(1, stderr)).outcome;
    assert_eq!((o.status, o.resume_rejected, o.session_id), (RunStatus::Failed, Some(true), None));
    let failure = o.failure.unwrap();
    assert_eq!((failure.kind, failure.exit_code), (FailureKind::ResumeRejected, Some(1)));
    for (plan, stdout, stderr) in
        [(plan(), "", stderr), (resumed(), TURN, stderr), (resumed(), "", "Error: No session today")]
    {
        assert_eq!(feed(plan, stdout, exit(1, stderr)).outcome.resume_rejected, Some(false));
    }
}

#[test]
fn starts_that_failed_say_why() {
    for (stderr, kind) in [
        (include_str!("../../../__test__/recordings/copilot-1.0.102/nologin.stderr.txt"), FailureKind::Auth),
        (
            include_str!("../../../__test__/recordings/copilot-1.0.102/bad-flag.stderr.txt"),
            FailureKind::Crash,
        ),
    ] {
        let o = feed(plan(), "", exit(1, stderr.trim())).outcome;
        assert_eq!(o.failure.unwrap().kind, kind, "{stderr}");
        assert!(o.error.unwrap().contains(stderr.trim()));
    }
}

#[test]
fn the_binary_behind_a_windows_launcher() {
    let find = |arch, launcher: &str, present: &str| {
        native::beside_launcher(Os::Windows, Path::new(launcher), native_candidates(arch), |p| {
            p.to_str().unwrap().contains(present)
        })
        .map(|p| p.to_str().unwrap().to_owned())
    };
    let nested = r"C:\n\node_modules\@github\copilot\node_modules\@github";
    let hoisted = r"C:\n\node_modules\@github";
    for (arch, launcher, present, want) in [
        ("x86_64", r"C:\n\copilot.CMD", "", Some(format!(r"{nested}\copilot-win32-x64\copilot.exe"))),
        ("aarch64", r"C:\n\copilot.cmd", "", Some(format!(r"{nested}\copilot-win32-arm64\copilot.exe"))),
        (
            "x86_64",
            r"C:\n\copilot.cmd",
            r"n\node_modules\@github\copilot-win32-arm64",
            Some(format!(r"{hoisted}\copilot-win32-arm64\copilot.exe")),
        ),
        ("x86_64", r"C:\n\copilot.cmd", "nothing", None),
        ("x86_64", r"C:\n\copilot.exe", "", None),
    ] {
        assert_eq!(find(arch, launcher, present), want, "{launcher} {present}");
    }
}

#[test]
fn servers_keep_their_shape() {
    let given = |text: &str| mcp_servers(&McpConfig::parse(text).unwrap().unwrap());
    for none in ["{}", r#"{"mcpServers":{}}"#, r#"{"mcpServers":null}"#] {
        assert_eq!(given(none).unwrap(), None);
    }
    let e = given(r#"{"mcpServers":["s3cret"]}"#).unwrap_err();
    assert_eq!(e.code, ErrorCode::InvalidMcpConfig);
    assert!(!e.message.contains("s3cret"));
    let local = r#"{"mcpServers":{"a":{"args":["x"],"command":"node","env":{"K":"v"}}}}"#;
    assert_eq!(given(local).unwrap().as_deref(), Some(local));
    assert_eq!(
        given(r#"{"mcpServers":{"r":{"url":"https://h"},"s":{"url":"https://s","type":"sse"}}}"#)
            .unwrap()
            .as_deref(),
        Some(
            r#"{"mcpServers":{"r":{"type":"http","url":"https://h"},"s":{"type":"sse","url":"https://s"}}}"#
        )
    );
}

#[tokio::test]
async fn without_a_help_text_the_prompt_is_an_argument() {
    let program = PathBuf::from("/nowhere/copilot");
    let env = ChildEnv::new(&EnvList::default(), &EnvList::default(), Os::Linux);
    let prober = Prober::new(program.clone(), Vec::new(), env.clone());
    let mcp_config = McpConfig::parse(r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
    let options = ExecuteOptions { mcp_config, ..Default::default() };
    let ctx = LaunchContext {
        prompt: "hi",
        options: &options,
        env: &env,
        program: &program,
        prober: &prober,
        files: &RunFiles::default(),
        os: Os::Linux,
        run_id: "r",
        attempt: 1,
    };
    let mut launch = (AGENT.launch)(&ctx).await.unwrap();
    assert_eq!(launch.args, ["-p", "hi", "--output-format", "json", "--allow-all", "--no-ask-user"]);
    let Protocol::Lines(decoder) = &mut launch.protocol else { panic!("a line agent") };
    let d = drive("copilot", "copilot", decoder.as_mut(), "", clean_exit());
    assert!(d.writes.is_empty() && d.stdin_closed);
    assert!(
        matches!(&d.messages[..], [Message::Log { level, .. }] if level == "warn"),
        "mcpConfig was ignored"
    );
}

mod recordings {
    use super::*;

    fn recording(name: &str) -> String {
        let path = format!("{}/__test__/recordings/copilot-1.0.102/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).expect(&path)
    }
    fn decode(name: &str, end: End) -> Driven {
        let plan = Plan { session_id: Some("U".into()), ..plan() };
        feed(plan, &recording(&format!("{name}.stdout.jsonl")), end)
    }
    fn text(parts: &[&str]) -> Vec<Message> {
        parts.iter().map(|p| Message::text(*p)).collect()
    }
    fn hello() -> Vec<Message> {
        text(&["Hello", " from the", " mock model", "."])
    }
    fn tool_said() -> Vec<Message> {
        text(&["The tool", " said: ", "hi"])
    }
    fn thought() -> Vec<Message> {
        ["Let me", " think about", " it."].map(Message::thinking).into()
    }
    fn input(command: &str) -> String {
        format!(r#"{{"command":{command:?},"description":"Run a mock command"}}"#)
    }

    #[test]
    fn finished_turns() {
        let whole =
            vec![Message::thinking("Let me think about it."), Message::text("Hello from the mock model.")];
        let hi = "hi\n<shellId: 0 completed with exit code 0>";
        let cases: [(&str, &str, Vec<Message>, &str); 11] = [
            ("text", "", hello(), "Hello from the mock model."),
            ("session-id-new", "11111111-2222-4333-8444-555555555555", hello(), "Hello from the mock model."),
            ("resume-known", "73a661fe-d2bc-438c-8a66-f731812811e4", hello(), "Hello from the mock model."),
            ("thinking", "", [thought(), hello()].concat(), "Hello from the mock model."),
            ("anthropic-thinking", "", [thought(), hello()].concat(), "Hello from the mock model."),
            ("responses-thinking", "", [thought(), hello()].concat(), "Hello from the mock model."),
            ("stream-off", "", whole, "Hello from the mock model."),
            (
                "tool",
                "",
                [
                    vec![bash_use("mock_call_1_3", &input("echo hi")), bash_result("mock_call_1_3", hi)],
                    tool_said(),
                ]
                .concat(),
                "The tool said: hi",
            ),
            (
                "narrated-tool",
                "",
                [
                    text(&["I will run it. "]),
                    vec![bash_use("mock_call_1_5", &input("echo hi")), bash_result("mock_call_1_5", hi)],
                    tool_said(),
                ]
                .concat(),
                "The tool said: hi",
            ),
            (
                "multi",
                "",
                [
                    vec![
                        bash_use("mock_call_1_7", &input("echo one")),
                        bash_use("mock_call_2_7", &input("echo two")),
                        bash_result("mock_call_2_7", "two\n<shellId: 0 completed with exit code 0>"),
                        bash_result("mock_call_1_7", "one\n<shellId: 1 completed with exit code 0>"),
                    ],
                    tool_said(),
                ]
                .concat(),
                "The tool said: hi",
            ),
            (
                "tool-fail",
                "",
                [
                    vec![
                        bash_use("mock_call_1_9", &input("echo oops >&2; exit 3")),
                        failed(bash_result("mock_call_1_9", "oops\n<shellId: 0 completed with exit code 3>")),
                    ],
                    tool_said(),
                ]
                .concat(),
                "The tool said: hi",
            ),
        ];
        for (name, session, messages, output) in cases {
            let d = decode(name, clean_exit());
            assert!(d.messages.contains(&Message::running(Some("U".into()))), "{name}");
            assert_eq!(spoken(&d.messages), messages, "{name}");
            let o = d.outcome;
            assert_eq!((o.status, o.error), (RunStatus::Completed, None), "{name}");
            assert_eq!(o.output, output, "{name}");
            let id = o.session_id.unwrap();
            assert!(if session.is_empty() { id.len() == 36 } else { id == session }, "{name}: {id}");
            assert_eq!(o.usage, None, "{name}: nothing on stdout tells it");
        }
    }

    #[test]
    fn failures_of_the_model_service() {
        for (name, kind, retries, says) in [
            ("error-400", FailureKind::InvalidRequest, 0, "400 mock: bad request"),
            ("error-401", FailureKind::Auth, 2, "Authentication failed with provider"),
            ("error-403", FailureKind::Permission, 0, "403"),
            ("error-429", FailureKind::RateLimit, 5, "429 mock: rate limited"),
            ("error-500", FailureKind::Provider, 5, "500"),
            ("overflow", FailureKind::ContextOverflow, 0, "maximum context length"),
            ("cut", FailureKind::Network, 5, "connection closed"),
            ("empty", FailureKind::Provider, 0, "No response was returned."),
        ] {
            let d = decode(name, exit(1, ""));
            let o = d.outcome;
            assert_eq!(o.status, RunStatus::Failed, "{name}");
            let error = o.error.unwrap();
            assert!(
                error.contains(says) && error.ends_with("; copilot exited with code 1"),
                "{name}: {error}"
            );
            assert_eq!(o.failure.unwrap().kind, kind, "{name}: {error}");
            let warnings = d.messages.iter().filter(|m| matches!(m, Message::Log { .. })).count();
            assert_eq!(warnings, retries, "{name}");
            assert_eq!(d.messages.iter().filter(|m| matches!(m, Message::Error { .. })).count(), 1, "{name}");
        }
    }

    #[test]
    fn stopped_turns() {
        for (name, partial, session) in [
            ("slow-sigterm", true, "U"),
            ("hang-sigterm", false, "6a28c27e-06dd-490b-86ce-1b6462ca9040"),
            ("tool-slow-sigterm", false, "15c9e560-12e8-4b37-8289-58a970f2230f"),
        ] {
            let exit = Exit { code: None, signal: Some("SIGTERM".into()), forced: true };
            let o = decode(name, End { stop: Some(Stop::cancelled()), exit, ..Default::default() }).outcome;
            assert_eq!((o.status, o.partial_output.is_some()), (RunStatus::Aborted, partial), "{name}");
            assert_eq!(o.session_id.as_deref(), Some(session), "{name}");
        }
    }

    #[test]
    fn usage_files() {
        let first = of_run(&recording("tool.usage.json"), &Counts::new(), "").unwrap();
        let second = of_run(&recording("resume-known.usage.json"), &first, "").unwrap();
        assert_eq!(
            super::usage::to_usage(&first),
            usage("mock-model", ModelUsage::tokens(890, 112, 1578, 0))
        );
        assert_eq!(super::usage::to_usage(&second), usage("mock-model", ModelUsage::tokens(445, 56, 789, 0)));
    }
}
