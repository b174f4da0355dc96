use std::path::PathBuf;

use super::decoder::CursorDecoder;
use super::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit, spoken};
use crate::agents::{End, Exit, Protocol, Stop};
use crate::contract::options::EnvList;
use crate::contract::{FailureKind, Limit, McpConfig, Message, ModelUsage, RawJson, RunStatus, Usage};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s"}"#;

fn feed(model: Option<&str>, events: &[&str], end: End) -> Driven {
    let stdout: String = events.iter().map(|e| format!("{e}\n")).collect();
    drive("cursor-agent", "cursor", &mut CursorDecoder::new("hi", model), &stdout, end)
}
fn run(events: &[&str]) -> Driven {
    feed(None, events, clean_exit())
}
fn said(text: &str) -> String {
    format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":{text:?}}}]}}}}"#)
}
fn result(rest: &str) -> String {
    format!(r#"{{"type":"result",{rest}}}"#)
}
fn thinking(text: &str) -> String {
    format!(r#"{{"type":"thinking","subtype":"delta","text":{text:?}}}"#)
}
fn usage(model: &str, counts: [Option<u64>; 4]) -> Option<Usage> {
    let [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] = counts;
    let counts = ModelUsage {
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        cost_usd_ticks: None,
    };
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn error(d: &Driven) -> &str {
    d.outcome.error.as_deref().unwrap_or_default()
}
fn options(change: impl FnOnce(&mut ExecuteOptions)) -> ExecuteOptions {
    let mut options = ExecuteOptions::default();
    change(&mut options);
    options
}
fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|a| a.to_string()).collect()
}

#[test]
fn the_command_line_in_order() {
    let base = ["-p", "--output-format", "stream-json", "--yolo"];
    let want = |more: &[&str]| strings(&[&base[..], more].concat());
    assert_eq!(arguments(&options(|_| {})), want(&[]));
    let all = options(|o| {
        o.cwd = PathBuf::from("/w");
        o.model = Some("m".into());
        o.resume_session_id = Some("id".into());
        o.extra_args = strings(&["--ignored"]);
        o.custom_args = strings(&["--extra", "val", "--yolo", "-p", "--output-format", "text"]);
    });
    assert_eq!(
        arguments(&all),
        want(&["--workspace", "/w", "--model", "m", "--resume", "id", "--extra", "val"])
    );
    let blank = options(|o| (o.model, o.resume_session_id) = (Some(" ".into()), Some(String::new())));
    assert_eq!(arguments(&blank), want(&[]));
}

#[test]
fn the_prompt_goes_to_stdin_and_stdin_is_closed() {
    let prompt = "a \"quoted\"\n-X line\n";
    let mut decoder = CursorDecoder::new(prompt, None);
    let d = drive("cursor-agent", "cursor", &mut decoder, "", clean_exit());
    assert_eq!((d.writes, d.stdin_closed), (vec![prompt.to_owned()], true));
}

#[test]
fn the_result_ends_the_run_whatever_comes_after() {
    let done = result(r#""subtype":"success","result":"done","session_id":"s""#);
    let killed = End {
        exit: Exit { code: None, signal: Some("SIGKILL".into()), forced: false },
        ..Default::default()
    };
    for end in [clean_exit(), exit(1, "late"), killed] {
        let d = feed(None, &[INIT, &done], end);
        assert_eq!(d.messages, [Message::running(Some("s".into())), Message::text("done")]);
        assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "done"));
        assert_eq!((d.outcome.session_id.as_deref(), d.outcome.resume_rejected), (Some("s"), None));
        assert!(d.terminal && d.stop_now);
    }
}

#[test]
fn the_result_does_not_replace_what_was_said() {
    let d = run(&[&said("abc"), &said("de"), &result(r#""result":"0123""#)]);
    assert_eq!(d.messages, [Message::text("abc"), Message::text("de")]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "abcde"));
    let d = run(&[&result(r#""result":{"answer":1}"#)]);
    assert_eq!(d.outcome.output, r#"{"answer":1}"#);
    let d = run(&[&result(r#""result":null"#)]);
    assert_eq!((d.outcome.status, d.messages.len()), (RunStatus::Completed, 0));
}

#[test]
fn an_error_result_fails_without_diagnostics() {
    for (rest, want) in [
        (r#""subtype":"error","is_error":true,"result":"failed hard""#, "failed hard"),
        (r#""subtype":"error","error":"short","result":"long""#, "short"),
        (r#""is_error":true,"error":{"message":"inside"}"#, "inside"),
        (r#""is_error":true,"error":{"code":5}"#, r#"{"code":5}"#),
        (r#""is_error":true,"detail":"why""#, "why"),
        (r#""is_error":true"#, "cursor-agent returned an error result without details"),
    ] {
        let d = feed(None, &[INIT, &said("part"), &result(rest)], exit(1, "noise"));
        assert_eq!((d.outcome.status, error(&d), d.outcome.output.as_str()), (RunStatus::Failed, want, ""));
        assert_eq!(d.outcome.partial_output.as_deref(), Some("part"));
    }
    let d = run(&[&result(r#""is_error":"yes""#)]);
    assert!(
        error(&d).contains("without terminal result"),
        "a result of the wrong type is none: {}",
        error(&d)
    );
}

#[test]
fn an_end_without_result_fails_with_diagnostics() {
    let d = run(&[INIT, &said("partial")]);
    assert_eq!(
        error(&d),
        "cursor-agent stream ended without terminal result (result_seen=false, exit_code=0, scanner_error=false, \
         event_count=2, invalid_event_count=0, last_event_type=assistant); actions completed before finalization may \
         already have taken effect"
    );
    assert_eq!((d.outcome.output.as_str(), d.outcome.partial_output.as_deref()), ("", Some("partial")));

    let d = feed(None, &[INIT, r#"{"type":"result","result":"do"#], exit(1, ""));
    assert!(error(&d).starts_with("cursor-agent exited with error: exit status 1 ("), "{}", error(&d));
    assert!(error(&d).contains("invalid_event_count=1, last_event_type=system"), "{}", error(&d));

    let d = feed(None, &[r#"{"type":"error","error":"rejected"}"#], exit(1, ""));
    assert_eq!(d.messages, [Message::error("rejected")]);
    assert!(error(&d).starts_with("rejected ("), "{}", error(&d));
    assert!(
        error(&d).contains("exit_code=1") && error(&d).contains("last_event_type=error"),
        "{}",
        error(&d)
    );

    let d = run(&[]);
    assert!(error(&d).contains("last_event_type=none"), "{}", error(&d));
    let d = run(&[r#"{"type":" "}"#, r#"{"type":"we ird"}"#]);
    assert!(error(&d).contains("last_event_type=invalid"), "{}", error(&d));
    let d = run(&["{}"]);
    assert!(error(&d).contains("last_event_type=unknown"), "{}", error(&d));

    let signal = End {
        exit: Exit { code: None, signal: Some("SIGSEGV".into()), forced: false },
        ..Default::default()
    };
    assert!(error(&feed(None, &[], signal)).contains("exit_code=-1"));
}

#[test]
fn stderr_comes_last_and_tells_the_kind() {
    let d = feed(None, &[], exit(1, "Error: Authentication required. Please run 'agent login' first"));
    assert!(
        error(&d).ends_with(
            "taken effect; cursor stderr: Error: Authentication required. Please run 'agent login' first"
        ),
        "{}",
        error(&d)
    );
    assert_eq!(error(&d).matches("cursor stderr").count(), 1);
    assert_eq!(d.outcome.failure.unwrap().kind, FailureKind::Auth);
}

#[test]
fn faults_rank_behind_stop_and_read_error() {
    let rejected = r#"{"type":"error","error":"rejected"}"#;
    let cancelled = End {
        stop: Some(Stop::cancelled()),
        exit: Exit { code: None, signal: Some("SIGTERM".into()), forced: true },
        stderr: "noise".into(),
        ..Default::default()
    };
    let d = feed(None, &[rejected], cancelled);
    assert_eq!((d.outcome.status, error(&d)), (RunStatus::Aborted, "execution cancelled"));
    let late = End { stop: Some(Stop::limit(Limit::Run, Duration::from_secs(60))), ..clean_exit() };
    let d = feed(None, &[INIT], late);
    assert_eq!((d.outcome.status, error(&d)), (RunStatus::Timeout, "cursor-agent timed out after 1m0s"));

    let broken = End { read_error: Some("token too long: a line exceeds 32 MiB".into()), ..clean_exit() };
    let d = feed(None, &[rejected], broken);
    assert!(error(&d).starts_with("cursor-agent stdout read error: token too long"), "{}", error(&d));
    assert!(error(&d).contains("scanner_error=true"));
    let unread = || End { write_error: Some("broken pipe".into()), ..exit(1, "") };
    let d = feed(None, &[], unread());
    assert!(error(&d).starts_with("cursor-agent prompt write failed: broken pipe"), "{}", error(&d));
    assert!(error(&feed(None, &[rejected], unread())).starts_with("rejected"));
}

#[test]
fn errors_that_are_no_result() {
    let d = run(&[r#"{"type":"error"}"#, r#"{"type":"system","subtype":"error","error":""}"#]);
    assert_eq!(d.messages, [Message::error("")]);
    assert!(error(&d).contains("without terminal result"));
    let d = run(&[
        r#"{"type":"system","subtype":"error","detail":"setup"}"#,
        r#"{"type":"system","subtype":"other"}"#,
    ]);
    assert_eq!(d.messages, [Message::error("setup")]);
    assert!(error(&d).starts_with("setup"));
    let d = run(&[r#"{"type":"error","error":"x"}"#, &result(r#""result":"fine""#)]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "fine"));
}

#[test]
fn thinking_blocks_are_set_apart() {
    let completed = r#"{"type":"thinking","subtype":"completed"}"#;
    let d = run(&[
        &thinking(""),
        completed,
        &thinking("a "),
        &thinking("b"),
        completed,
        &thinking(""),
        &thinking("c"),
    ]);
    assert_eq!(spoken(&d.messages), ["a ", "b", "\n\nc"].map(Message::thinking));
    let d = run(&[r#"{"type":"thinking","text":"x"}"#, r#"{"type":"thinking","subtype":"new","text":"x"}"#]);
    assert_eq!(
        d.messages,
        [Message::log("warn", "cursor-agent sent events that were not read: 2 of unknown subtype")]
    );
}

#[test]
fn content_blocks_of_an_assistant() {
    let d = run(&[
        r#"{"type":"assistant","message":{"usage":{"input_tokens":9},"content":[
            {"type":"output_text","text":"a"},{"type":"thinking","text":"t"},{"type":"text","text":""},
            {"type":"tool_use","id":"c","name":"grep","input":{"q":1}},{"type":"image"}]}}"#
            .replace('\n', " ")
            .as_str(),
        r#"{"type":"assistant","message":7}"#,
        r#"{"type":"assistant"}"#,
    ]);
    assert_eq!(
        d.messages,
        [
            Message::text("a"),
            Message::thinking("t"),
            Message::tool_use("grep", "c", Some(RawJson(r#"{"q":1}"#.into()))),
        ]
    );
    assert_eq!(d.outcome.usage, None);
}

#[test]
fn tool_calls_start_and_end() {
    let d = run(&[
        r#"{"type":"tool_call","subtype":"started","call_id":"k1\nfc_2","tool_call":{"readToolCall":{"args":{"path":"/a"}}}}"#,
        r#"{"type":"tool_call","subtype":"completed","call_id":"k1\nfc_2","tool_call":{"readToolCall":{"args":{"path":"/a"},"result":{"ok":1}}}}"#,
        r#"{"type":"tool_call","subtype":"started","tool_call":{"toolCallId":"k4"}}"#,
        r#"{"type":"tool_call","subtype":"completed","tool_call":{"toolCallId":"k4"}}"#,
        r#"{"type":"tool_call","subtype":"completed","call_id":"k5","tool_call":{"shellToolCall":{"result":{"failure":{"stdout":"","stderr":"no","exitCode":2}}}}}"#,
        r#"{"type":"tool_call","subtype":"progress","call_id":"k1"}"#,
    ]);
    let ended = |id: &str, tool: Option<&str>, output: &str, is_error: Option<bool>| Message::ToolResult {
        call_id: id.into(),
        tool: tool.map(str::to_owned),
        output: output.into(),
        is_error,
        parent_call_id: None,
    };
    assert_eq!(
        d.messages,
        [
            Message::tool_use("read", "k1", Some(RawJson(r#"{"path":"/a"}"#.into()))),
            ended("k1", Some("read"), r#"{"ok":1}"#, None),
            Message::tool_use("", "k4", None),
            ended("k4", None, "", None),
            ended("k5", Some("shell"), "no", Some(true)),
            Message::log("warn", "cursor-agent sent events that were not read: 1 of unknown subtype"),
        ]
    );
}

#[test]
fn the_older_events() {
    let d = run(&[
        r#"{"type":"text","part":{"text":"old "}}"#,
        r#"{"type":"text","part":{"text":""}}"#,
        r#"{"type":"tool_use","tool_name":"ls","tool_id":"t1","parameters":{"p":"."}}"#,
        r#"{"type":"tool_result","tool_id":"t1","output":"a b"}"#,
        &result(r#""result":"other""#),
    ]);
    assert_eq!(
        d.messages,
        [
            Message::text("old "),
            Message::tool_use("ls", "t1", Some(RawJson(r#"{"p":"."}"#.into()))),
            Message::tool_result("t1", "a b"),
        ]
    );
    assert_eq!(d.outcome.output, "old ");
}

#[test]
fn unknown_events_are_counted_and_never_guessed() {
    let done = result(r#""result":"x""#);
    let d = run(&[
        r#"{"type":"tool_calls"}"#,
        r#"{"type":"reasoning","text":"hm"}"#,
        r#"{"type":"toolCall"}"#,
        r#"{"type":"tool_calls"}"#,
        &done,
    ]);
    assert_eq!(
        d.messages,
        [
            Message::text("x"),
            Message::log(
                "warn",
                "cursor-agent sent events that were not read: 4 of unknown type (reasoning=1,toolCall=1,tool_calls=2)"
            ),
        ]
    );
    let d = run(&[r#"{"type":"user"}"#, r#"{"type":"connection"}"#, r#"{"type":"retry"}"#, &done]);
    assert_eq!(d.messages, [Message::text("x")]);
    let many: Vec<String> = (0..40).map(|n| format!(r#"{{"type":"t{n:02}"}}"#)).collect();
    let d = run(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let Message::Log { content, .. } = &d.messages[0] else { panic!("{:?}", d.messages) };
    assert!(
        content.contains("40 of unknown type ((overflow)=24,t00=1,") && content.ends_with(",t15=1)"),
        "{content}"
    );
}

#[test]
fn the_name_of_the_stream_before_a_line_goes() {
    for start in ["stdout: ", "STDERR=", "stdout", "Stdout \t= "] {
        let d = run(&[&format!("{start}{INIT}"), &result(r#""result":"x""#)]);
        assert_eq!(d.messages, [Message::running(Some("s".into())), Message::text("x")], "{start}");
    }
    let d = run(&["plain text", "stdout:", "stdoutä"]);
    assert_eq!(d.messages, [Message::log("info", "plain text"), Message::log("info", "stdoutä")]);
    assert!(error(&d).contains("event_count=0, invalid_event_count=2"));
}

#[test]
fn the_session_id_is_the_last_one_told() {
    let d = run(&[
        r#"{"type":"system","subtype":"init"}"#,
        r#"{"type":"user","session_id":" a "}"#,
        r#"{"type":"user","session_id":"a"}"#,
        r#"{"type":"user","session_id":" "}"#,
        r#"{"type":"user","session_id":null}"#,
        r#"{"type":"user","session_id":"b"}"#,
    ]);
    let ids = [None, Some("a".into()), Some("b".into())];
    assert_eq!(d.messages, ids.map(Message::running));
    assert_eq!((d.outcome.status, d.outcome.session_id.as_deref()), (RunStatus::Failed, Some("b")));
}

#[test]
fn usage_of_the_result() {
    let counts = |model: Option<&str>, event: &str| feed(model, &[event], clean_exit()).outcome.usage;
    let step = |input: u64, output: u64, read: u64| {
        format!(
            r#"{{"type":"step_finish","model":"gpt","part":{{"tokens":{{"input":{input},"output":{output},"cache":{{"read":{read}}}}}}}}}"#
        )
    };
    let steps = [step(300, 100, 50), step(200, 80, 30)];
    let bare = result(r#""result":"x""#);
    let d = run(&[&steps[0], &steps[1], &bare]);
    assert_eq!(d.outcome.usage, usage("gpt", [Some(500), Some(180), Some(80), None]));

    let told =
        result(r#""model":"gpt","usage":{"input_tokens":500,"output_tokens":180,"cached_input_tokens":80}"#);
    let d = run(&[&steps[0], &steps[1], &told]);
    assert_eq!(d.outcome.usage, usage("gpt", [Some(500), Some(180), Some(80), None]));
    let zeros = result(r#""usage":{"input_tokens":0,"output_tokens":0}"#);
    assert_eq!(run(&[&steps[0], &zeros]).outcome.usage, None, "zeros are told too");

    assert_eq!(
        counts(None, &result(r#""inputTokens":300,"outputTokens":150,"usage":{"input_tokens":999}"#)),
        usage("cursor", [Some(300), Some(150), None, None])
    );
    assert_eq!(
        counts(
            Some("mm"),
            &result(
                r#""usage":{"inputTokens":26,"outputTokens":4,"cacheReadTokens":7,"cacheWriteTokens":1}"#
            )
        ),
        usage("mm", [Some(26), Some(4), Some(7), Some(1)])
    );
    assert_eq!(
        counts(
            None,
            &result(r#""inputTokens":0,"usage":{"input_tokens":0,"inputTokens":5,"output_tokens":0}"#)
        ),
        usage("cursor", [Some(5), Some(0), None, None])
    );
    let twice = result(r#""inputTokens":1,"outputTokens":2"#);
    assert_eq!(run(&[&twice, &twice]).outcome.usage, usage("cursor", [Some(2), Some(4), None, None]));
    let init = r#"{"type":"system","subtype":"init","model":"Claude 4"}"#;
    assert_eq!(run(&[init, &twice]).outcome.usage, usage("Claude 4", [Some(1), Some(2), None, None]));
}

struct Setup {
    dir: tempfile::TempDir,
    env: ChildEnv,
    program: PathBuf,
    files: RunFiles,
}

impl Setup {
    fn new() -> Setup {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("repo/sub")).unwrap();
        std::fs::create_dir(dir.path().join("repo/.git")).unwrap();
        let home = dir.path().join("home").to_str().unwrap().to_owned();
        let caller = ["HOME", "USERPROFILE"].map(|name| (name.to_owned(), home.clone()));
        let env = ChildEnv::new(&EnvList::default(), &EnvList(caller.to_vec()), Os::current());
        Setup { dir, env, program: "cursor-agent".into(), files: RunFiles::default() }
    }
    fn config(&self) -> PathBuf {
        self.dir.path().join("repo/.cursor/mcp.json")
    }
    async fn launch(&self, mcp: Option<&str>) -> Result<Launch, AgentplugError> {
        let options = options(|o| {
            o.cwd = self.dir.path().join("repo/sub");
            o.mcp_config = mcp.and_then(|text| McpConfig::parse(text).unwrap());
        });
        let prober = Prober::new(self.program.clone(), vec![], self.env.clone());
        let ctx = LaunchContext {
            prompt: "SECRET PROMPT",
            options: &options,
            env: &self.env,
            program: &self.program,
            prober: &prober,
            files: &self.files,
            os: Os::current(),
            run_id: "r",
            attempt: 1,
        };
        (AGENT.launch)(&ctx).await
    }
}

#[tokio::test]
async fn without_a_managed_set_nothing_is_written() {
    let setup = Setup::new();
    for inherit in [None, Some("null"), Some(" ")] {
        let launch = setup.launch(inherit).await.unwrap();
        assert_eq!((launch.env.len(), launch.guards.len()), (0, 0));
        assert!(launch.args.iter().all(|arg| !arg.contains("SECRET")));
        assert!(!setup.config().exists());
    }
}

#[tokio::test]
async fn a_managed_set_is_in_place_for_the_run_only() {
    let setup = Setup::new();
    let launch =
        setup.launch(Some(r#"{"mcpServers":{"a":{"command":"c","env":{"K":"s3cret"}}}}"#)).await.unwrap();
    assert!(std::fs::read_to_string(setup.config()).unwrap().contains("s3cret"));
    assert!(launch.args.iter().all(|arg| !arg.contains("s3cret")));
    let [(name, data)] = &launch.env[..] else { panic!("{:?}", launch.env) };
    assert_eq!(name, "CURSOR_DATA_DIR");
    let root = mcp::project_root(&setup.dir.path().join("repo/sub")).unwrap();
    let project = Path::new(data).join("projects").join(mcp::slug(root.to_str().unwrap()));
    assert!(project.join("mcp-approvals.json").exists() && project.join(".workspace-trusted").exists());

    let other = Setup { files: RunFiles::default(), ..setup };
    let e = other.launch(Some(r#"{"mcpServers":{}}"#)).await.err().expect("another set is refused");
    assert_eq!(e.option.as_deref(), Some("mcpConfig"));
    let Protocol::Lines(mut unmanaged) = other.launch(None).await.unwrap().protocol else { panic!("lines") };
    let d = drive("cursor-agent", "cursor", &mut *unmanaged, "", clean_exit());
    assert!(matches!(&d.messages[..], [Message::Log { level, .. }] if level == "warn"), "{:?}", d.messages);

    drop(launch.guards);
    assert!(!other.config().exists());
    assert!(other.launch(Some(r#"{"mcpServers":{}}"#)).await.is_ok());
}

#[tokio::test]
async fn a_set_that_cannot_be_used_writes_nothing() {
    let setup = Setup::new();
    let e = setup.launch(Some(r#"{"mcpServers":{"a":{}}}"#)).await.err().expect("refused");
    assert_eq!(e.code, ErrorCode::InvalidMcpConfig);
    assert!(!setup.config().exists());
}

#[test]
fn conversations_stay_where_the_user_has_them() {
    let at = |entries: &'static [(&str, &str)], os| {
        own_chats(move |name| entries.iter().find(|(n, _)| *n == name).map(|(_, v)| *v), os)
    };
    assert_eq!(at(&[("HOME", "/h")], Os::Linux), Some(PathBuf::from("/h/.cursor/chats")));
    assert_eq!(at(&[("HOME", "/h"), ("CURSOR_DATA_DIR", "/d")], Os::MacOs), Some(PathBuf::from("/d/chats")));
    assert_eq!(at(&[("USERPROFILE", "/u")], Os::Windows), Some(PathBuf::from("/u/.cursor/chats")));
    assert_eq!(at(&[("HOME", "")], Os::Linux), None);
}
