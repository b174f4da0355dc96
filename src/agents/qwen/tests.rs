use std::time::Duration;

use super::decoder::{Plan, QwenDecoder};
use super::{AGENT, MAX_PROMPT_BYTES, check};
use crate::agents::stream_json::testing::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit};
use crate::agents::{Decoder, End, Exit, Retry, Stop};
use crate::contract::{
    ErrorCode, ExecuteOptions, FailureKind, Limit, McpConfig, ModelUsage, RunStatus, Usage,
};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1","model":"qm"}"#;

fn plan() -> Plan {
    Plan { prompt: "hi".into(), model: None, resume: None, before: None, version: None, attempt: 1 }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("qwen", "qwen", &mut QwenDecoder::new(plan), stdout, end)
}
fn run(events: &[&str]) -> Driven {
    feed(plan(), &lines(events), clean_exit())
}
fn assistant(blocks: &str, usage: &str) -> String {
    format!(
        r#"{{"type":"assistant","session_id":"s1","message":{{"model":"qm","content":[{blocks}]{usage}}}}}"#
    )
}
fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":{text:?}}}"#)
}
fn counts(input: u64, output: u64, read: u64) -> ModelUsage {
    ModelUsage { cache_write_tokens: None, ..ModelUsage::tokens(input, output, read, 0) }
}

#[test]
fn the_prompt_is_all_that_goes_to_stdin() {
    let d = feed(Plan { prompt: "/a \"b\"\nc ä".into(), ..plan() }, "", clean_exit());
    assert_eq!((d.writes, d.stdin_closed), (vec!["/a \"b\"\nc ä".to_owned()], true));
    let o = ExecuteOptions::default();
    assert_eq!(check(&"x".repeat(MAX_PROMPT_BYTES), &o), Ok(()));
    assert_eq!(check(&"x".repeat(MAX_PROMPT_BYTES + 1), &o).unwrap_err().code, ErrorCode::PromptTooLong);
    assert_eq!(check(" \n", &o).unwrap_err().code, ErrorCode::InvalidPrompt);
}

#[test]
fn a_turn_with_a_tool() {
    let thinking = assistant(r#"{"type":"thinking","thinking":"c"}"#, "");
    let call =
        assistant(r#"{"type":"tool_use","id":"c1","name":"list_directory","input":{"path":"/w"}}"#, "");
    let done = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"Listed 1"}]}}"#;
    let pong = assistant(
        &text("PONG"),
        r#","usage":{"input_tokens":10,"output_tokens":2,"cache_read_input_tokens":3}"#,
    );
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"PONG","usage":{"input_tokens":20,"output_tokens":4,"cache_read_input_tokens":6}}"#;
    let d = run(&[INIT, &thinking, &call, done, &pong, result]);
    let want = [
        "running S",
        "thinking c",
        r#"tool list_directory c1 {"path":"/w"}"#,
        "result c1 - Listed 1",
        "text PONG",
    ];
    assert_eq!(shown(&d), want);
    assert_eq!(ended(&d.outcome), (RunStatus::Completed, "PONG", "", Some("s1")));
    // The input includes the cached tokens.
    assert_eq!(d.outcome.usage, one("qm", counts(14, 4, 6)));
    assert!(d.terminal);
}

#[test]
fn the_session_may_come_on_any_line() {
    let d = run(&[&assistant(&text("A"), ""), INIT, r#"{"type":"result","result":"A","session_id":"s2"}"#]);
    assert_eq!(shown(&d), ["running S", "text A"]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("s2"));
    let d = run(&[r#"{"type":"user","session_id":"s1"}"#, r#"{"type":"system","session_id":null}"#]);
    assert_eq!(shown(&d), ["running S"]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("s1"));
}

#[test]
fn messages_count_while_there_is_no_total() {
    let usage = |u: &str| format!(r#","usage":{{{u}}}"#);
    let first = assistant("", &usage(r#""input_tokens":10,"output_tokens":2"#));
    let second = assistant("", &usage(r#""input_tokens":30,"output_tokens":5"#));
    let want = ModelUsage { cache_read_tokens: None, ..counts(30, 5, 0) };
    let d = feed(plan(), &lines(&[&first, &second]), exit(1, ""));
    assert_eq!(d.outcome.usage, one("qm", want));
    // With ids they are different messages, and the last report of one counts.
    let id = |line: &str, id: &str| line.replace(r#""model""#, &format!(r#""id":"{id}","model""#));
    let events = [id(&first, "a"), id(&second, "b"), id(&first, "b")];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let want = ModelUsage { cache_read_tokens: None, ..counts(20, 4, 0) };
    assert_eq!(feed(plan(), &lines(&events), exit(1, "")).outcome.usage, one("qm", want));
    // A resumed session's total holds the earlier runs.
    let total = r#"{"type":"result","result":"","usage":{"input_tokens":900,"output_tokens":90}}"#;
    let all: Vec<&str> = events.into_iter().chain([total]).collect();
    let resumed = Plan { resume: Some("s1".into()), ..plan() };
    assert_eq!(feed(resumed, &lines(&all), clean_exit()).outcome.usage, one("qm", want));
    // Errors count too, under the requested model should no line name one.
    let asked = Plan { model: Some("asked".into()), ..plan() };
    let error = total.replace(r#""result":"""#, r#""is_error":true,"result":"x""#);
    let want = ModelUsage { cache_read_tokens: None, ..counts(900, 90, 0) };
    assert_eq!(feed(asked, &error, exit(1, "")).outcome.usage, one("asked", want));
}

#[test]
fn a_resumed_session_counts_this_run_only() {
    let stdout = recording("qwen-0.24.4/resume-partial");
    let share = |before: ModelUsage| {
        let (send, receive) = tokio::sync::oneshot::channel();
        send.send(before).unwrap();
        let resumed = Plan { resume: Some("s".into()), before: Some(receive), ..plan() };
        feed(resumed, &stdout, clean_exit()).outcome.usage
    };
    // Four in all: two earlier ones, the message of this run, and its side request.
    let calls_before = |n: u64| counts(n * 445, n * 56, n * 789);
    let total = 4;
    assert_eq!(share(calls_before(2)), calls(total - 2));
    // Before this run there cannot have been as many, or more than there are in all.
    assert_eq!(share(calls_before(total)), calls(1));
    assert_eq!(share(calls_before(total + 1)), calls(1));
}

#[test]
fn errors_of_all_shapes() {
    let unsaid = "qwen returned an error result without details";
    for (line, error, kind) in [
        (
            r#""subtype":"error_during_execution","is_error":true,"error":{"type":"authentication_error","message":"bad key"}"#,
            "bad key",
            FailureKind::Auth,
        ),
        (r#""subtype":"failed","is_error":false,"result":"r""#, "r", FailureKind::Unknown),
        (
            r#""subtype":"error","error":{"status":429,"message":"slow down"}"#,
            "slow down",
            FailureKind::RateLimit,
        ),
        (r#""is_error":true,"result":"","error":{"message":""}"#, r#"{"message":""}"#, FailureKind::Unknown),
    ] {
        let d = run(&[INIT, &format!(r#"{{"type":"result",{line}}}"#)]);
        assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", error, Some("s1")), "{line}");
        assert_eq!(failure_kind(&d.outcome), Some(kind), "{line}");
    }
    for (line, error) in
        [(r#"{"type":"error","error":{"code":7}}"#, r#"{"code":7}"#), (r#"{"type":"error"}"#, unsaid)]
    {
        let d = run(&[line]);
        assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", error, None), "{line}");
        assert!(d.terminal);
    }
}

#[test]
fn blocks_of_other_kinds() {
    let ok = r#"{"type":"result","result":""}"#;
    // Thinking has one field here; in the other it is nothing, but readable.
    let d = run(&[&assistant(&text("A"), ""), &assistant(r#"{"type":"thinking","text":"no"}"#, ""), ok]);
    assert_eq!(shown(&d), ["running S", "text A"]);
    assert_eq!(d.outcome.output, "A");
    let d = run(&[&assistant(&format!(r#"{},{{"type":"image"}}"#, text("A")), ""), ok]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, ""));
    let parts = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}]}]}}"#;
    assert_eq!(shown(&run(&[parts])), ["result c - a"]);
}

#[test]
fn failures_of_the_process() {
    let d = feed(plan(), "", exit(7, "x-err"));
    let want = "qwen exited with error: exit status 7; qwen stderr: x-err";
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", want, None));
    let stderr = include_str!("../../../__test__/recordings/qwen-0.24.4/resume-unknown.stderr.txt").trim();
    let asked = || Plan { resume: Some("00000000-0000-4000-8000-000000000000".into()), ..plan() };
    let d = feed(asked(), "", exit(1, stderr));
    assert_eq!((d.outcome.status, d.outcome.session_id), (RunStatus::Failed, None));
    assert_eq!(
        (d.outcome.resume_rejected, d.outcome.failure.unwrap().kind),
        (Some(true), FailureKind::ResumeRejected)
    );
    let r = Plan { resume: Some("s1".into()), ..plan() };
    let d = feed(r, &lines(&[INIT, r#"{"type":"result","result":"x"}"#]), clean_exit());
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some("s1")));
    // The last line is cut at exit when the answer is long.
    let cut = format!("{INIT}\n{}\n{{\"type\":\"result\",\"result\":\"A", assistant(&text("A"), ""));
    let d = feed(plan(), &cut, clean_exit());
    assert_eq!(
        (d.outcome.status, failure_kind(&d.outcome)),
        (RunStatus::Failed, Some(FailureKind::Protocol))
    );
    assert_eq!(d.outcome.partial_output.as_deref(), Some("A"));
}

#[test]
fn a_start_that_missed_its_prompt_is_tried_again_once() {
    let stderr = "Ripgrep not available\nNo input provided via stdin. Input can be provided by piping data";
    let retry = |attempt, stdout: &str, stderr: &str| {
        let mut decoder = QwenDecoder::new(Plan { attempt, ..plan() });
        let mut out = Default::default();
        for text in stdout.lines() {
            decoder.line(crate::agents::Line { text, terminated: true }, &mut out);
        }
        decoder.evidence(&exit(1, stderr)).retry
    };
    assert_eq!(retry(1, "", stderr), Some(Retry { after: Duration::from_millis(200), fresh_session: false }));
    assert_eq!(retry(2, "", stderr), None);
    assert_eq!(retry(1, INIT, stderr), None);
    assert_eq!(retry(1, "", "something else"), None);
}

#[test]
fn retries_are_logged_and_explain_a_limit_of_ours() {
    let stop = Stop::limit(Limit::Idle, Duration::from_secs(1));
    let (got, d) = replay("qwen-0.24.4/error-429", false, End { stop: Some(stop), ..End::default() });
    let text = "qwen tries the model service again in 60000 ms (attempt 1 of 10)";
    assert_eq!(got, ["running S", &format!("log warn {text}")]);
    assert_eq!(d.outcome.status, RunStatus::Timeout);
    assert_eq!(d.outcome.failure.unwrap().hint.as_deref(), Some(text));
}

#[test]
fn a_retry_that_drops_its_text_starts_over() {
    let delta = |t: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{t:?}}}}}}}"#
        )
    };
    let start =
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"a","model":"qm"}}}"#;
    let retry =
        |keep: bool| format!(r#"{{"type":"system","subtype":"retry","data":{{"preserveText":{keep}}}}}"#);
    let printed = |t: &str| assistant(&text(t), "").replace(r#""model""#, r#""id":"a","model""#);
    let heard = |keep, t| {
        let d = run(&[start, &delta("old"), &retry(keep), &delta("new"), &printed(t)]);
        shown(&d).into_iter().filter(|l| l.starts_with("text")).collect::<Vec<_>>()
    };
    assert_eq!(heard(false, "new"), ["text old", "text new"]);
    assert_eq!(heard(true, "oldnew"), ["text old", "text new"]);
}

const HELLO: [&str; 4] = ["text Hello", "text  from the", "text  mock model", "text ."];
const SAID: [&str; 3] = ["text The tool", "text  said: ", "text hi"];
const HELLO_TEXT: &str = "Hello from the mock model.";
const SAID_TEXT: &str = "The tool said: hi";
const SHELL: &str = r#"tool run_shell_command mock_call_1 {"command":"echo hi"}"#;

/// `n` model calls of the recording server: 1234 input tokens each, 789 of them cached.
fn calls(n: u64) -> Option<Usage> {
    one("mock-model", counts(n * 445, n * 56, n * 789))
}

fn replay(name: &str, resume: bool, end: End) -> (Vec<String>, Driven) {
    let stdout = recording(name);
    let id = stdout.split(r#""session_id":""#).nth(1).and_then(|s| s.split('"').next()).map(str::to_owned);
    let d = feed(Plan { resume: id.clone().filter(|_| resume), ..plan() }, &stdout, end);
    let counter = regex::Regex::new(r"mock_call_(\d)_\d+").unwrap();
    assert_eq!(d.outcome.session_id, id, "{name}");
    (shown(&d).iter().map(|l| counter.replace_all(l, "mock_call_$1").into_owned()).collect(), d)
}

/// Recording, resumed, messages, answer, usage.
type Completed<'a> = (&'a str, bool, Vec<&'a str>, &'a str, Option<Usage>);

#[test]
fn recorded_runs_that_complete() {
    let hi = "result mock_call_1 false hi";
    let thinking = ["thinking Let me", "thinking  think about", "thinking  it."];
    let multi = [
        r#"tool run_shell_command mock_call_1 {"command":"echo one"}"#,
        r#"tool run_shell_command mock_call_2 {"command":"echo two"}"#,
        "result mock_call_1 false one",
        "result mock_call_2 false two",
    ];
    let fail = [
        r#"tool run_shell_command mock_call_1 {"command":"echo oops >&2; exit 3"}"#,
        "result mock_call_1 true Command: echo oops >&2; exit 3⏎Directory: (root)⏎Output: oops⏎Error: (none)⏎Exit Code: 3⏎Signal: (none)⏎Process Group PGID: (none)",
        "text The tool said: hi",
    ];
    // A side request runs beside the prompt, so a turn of one message counts two calls.
    let cases: Vec<Completed> = vec![
        ("text-partial", false, HELLO.to_vec(), HELLO_TEXT, calls(2)),
        // The text is printed under another id than it was streamed with.
        ("thinking-partial", false, [&thinking[..], &HELLO].concat(), HELLO_TEXT, calls(2)),
        ("tool-partial", false, [&[SHELL, hi][..], &SAID].concat(), SAID_TEXT, calls(2)),
        (
            "narrated-tool-partial",
            false,
            [&["text I will run it. ", SHELL, hi][..], &SAID].concat(),
            SAID_TEXT,
            calls(2),
        ),
        ("multi-partial", false, [&multi[..], &SAID].concat(), SAID_TEXT, calls(2)),
        ("multi", false, [&multi[..], &["text The tool said: hi"]].concat(), SAID_TEXT, calls(2)),
        ("tool-fail", false, fail.to_vec(), SAID_TEXT, calls(2)),
        ("resume-partial", true, HELLO.to_vec(), HELLO_TEXT, calls(1)),
    ];
    for (name, resume, messages, answer, usage) in cases {
        let (got, d) = replay(&format!("qwen-0.24.4/{name}"), resume, clean_exit());
        let want: Vec<&str> = std::iter::once("running S").chain(messages).collect();
        assert_eq!(got, want, "{name}");
        let o = &d.outcome;
        assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, answer), "{name}");
        assert_eq!((&o.error, &o.failure, &o.partial_output), (&None, &None, &None), "{name}");
        assert_eq!((&o.usage, o.resume_rejected), (&usage, Some(false)), "{name}");
    }
}

#[test]
fn recorded_runs_that_fail_even_where_they_say_success() {
    let key = "[API Error: 401 mock: invalid x-api-key]";
    let empty = "[API Error: Model stream ended with empty response text.]";
    let gone = "[API Error: terminated (cause: UND_ERR_SOCKET: other side closed)]";
    let gone_old = "[API Error: terminated (cause: other side closed)]";
    let again = "log warn qwen tries the model service again";
    let error = |text: &str| format!("text {text}");
    let broken = [&[again][..], &HELLO].concat();
    let overflow = "[API Error: 400 This model's maximum context length is 200000 tokens. However, your messages resulted \
                    in 208310 tokens. Please reduce the length of the messages.]";
    let hello_four_times = HELLO_TEXT.repeat(4);
    type Case<'a> = (&'a str, i32, Vec<&'a str>, &'a str, FailureKind, Option<&'a str>, Option<Usage>);
    let cases: Vec<Case> = vec![
        ("0.24.4/error-401-partial", 1, vec![], key, FailureKind::Auth, None, None),
        ("0.24.4/overflow-partial", 1, vec![], overflow, FailureKind::ContextOverflow, None, None),
        ("0.24.4/empty", 1, vec![again; 8], empty, FailureKind::Provider, None, calls(5)),
        (
            "0.24.4/cut-partial",
            1,
            [&HELLO[..], &broken, &broken, &broken].concat(),
            gone,
            FailureKind::Network,
            Some(&hello_four_times),
            None,
        ),
        // Exit code 0, subtype success, is_error false.
        ("0.15.10/error-401-partial", 0, vec![], key, FailureKind::Auth, None, None),
        ("0.15.10/empty-partial", 0, vec![], empty, FailureKind::Provider, None, calls(3)),
        ("0.15.10/cut-partial", 0, HELLO.to_vec(), gone_old, FailureKind::Network, Some(HELLO_TEXT), None),
    ];
    for (name, code, messages, text, kind, partial, usage) in cases {
        let (got, d) = replay(&format!("qwen-{name}"), false, exit(code, ""));
        let live = error(text);
        let want: Vec<&str> = std::iter::once("running S").chain(messages).chain([live.as_str()]).collect();
        assert_eq!(got, want, "{name}");
        let o = &d.outcome;
        assert_eq!(ended(o), (RunStatus::Failed, "", text, o.session_id.as_deref()), "{name}");
        assert_eq!((failure_kind(o), o.partial_output.as_deref()), (Some(kind), partial), "{name}");
        assert_eq!((&o.usage, o.resume_rejected), (&usage, Some(false)), "{name}");
    }
}

#[test]
fn an_answer_that_only_quotes_an_error_is_an_answer() {
    for answer in ["The log ends with [API Error: 401 x]", "[API Error: 401 x] is what it says"] {
        let result = format!(r#"{{"type":"result","is_error":false,"result":{answer:?}}}"#);
        let d = run(&[INIT, &assistant(&text(answer), ""), &result]);
        assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, answer));
    }
}

#[test]
fn a_recorded_run_that_was_stopped() {
    let exit = Exit { code: None, signal: Some("SIGTERM".into()), forced: true };
    let end =
        End { stop: Some(Stop::cancelled()), exit, stderr: "Operation cancelled.".into(), ..End::default() };
    let (got, d) = replay("qwen-0.24.4/slow-sigterm-partial", false, end);
    let ticks: String = (0..40).map(|n| format!("tick {n} ")).collect();
    // The unfinished answer is printed at the stop: it was streamed already.
    assert_eq!(got[1..].iter().map(|l| l.strip_prefix("text ").unwrap()).collect::<String>(), ticks);
    assert_eq!(got.len(), 41);
    assert_eq!((d.outcome.status, d.outcome.partial_output), (RunStatus::Aborted, Some(ticks)));
}

#[tokio::test]
async fn the_start_brings_the_managed_servers_as_a_private_file() {
    let config = r#"{ "mcpServers" : {"d":{"command":"echo","env":{"KEY":"s3cret"}}} }"#;
    let options = ExecuteOptions { mcp_config: McpConfig::parse(config).unwrap(), ..Default::default() };
    let started = start(&AGENT, &options, &[]).await.unwrap();
    let (flag, path) = started.last_two();
    assert_eq!(flag, "--mcp-config");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), config);
    assert!(!started.args.iter().any(|a| a.contains("strict") || a.contains("s3cret") || a.contains(PROMPT)));
    drop(started);
    assert!(!std::path::Path::new(&path).exists());
}
