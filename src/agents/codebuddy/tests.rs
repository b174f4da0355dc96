use std::time::Duration;

use super::AGENT;
use super::decoder::{CodebuddyDecoder, Plan};
use crate::agents::stream_json::testing::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit};
use crate::agents::{End, Exit, Stop};
use crate::contract::{ExecuteOptions, FailureKind, Limit, McpConfig, ModelUsage, RunStatus, Usage};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1"}"#;
const OK: &str = r#"{"type":"result","is_error":false,"session_id":"s1","result":""}"#;

fn plan() -> Plan {
    Plan { prompt: "hi".into(), model: None, resume: None, version: None }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("codebuddy", "codebuddy", &mut CodebuddyDecoder::new(plan), stdout, end)
}
fn run(events: &[&str]) -> Driven {
    feed(plan(), &lines(events), clean_exit())
}
fn assistant(blocks: &str) -> String {
    format!(r#"{{"type":"assistant","message":{{"content":[{blocks}]}}}}"#)
}
fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":{text:?}}}"#)
}
const CALL: &str = r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#;
const DONE: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"out"}]},"parent_tool_use_id":"c1"}"#;

#[test]
fn a_plain_turn() {
    let result = r#"{"type":"result","is_error":false,"session_id":"s1","result":"hey","modelUsage":{"m":{"inputTokens":100,"outputTokens":50,"cacheReadInputTokens":10,"cacheCreationInputTokens":5}}}"#;
    let d = run(&[INIT, &assistant(&text("hey")), result]);
    assert_eq!(shown(&d), ["running S", "text hey"]);
    assert_eq!(ended(&d.outcome), (RunStatus::Completed, "hey", "", Some("s1")));
    // `modelUsage` is exclusive as it is.
    assert_eq!(d.outcome.usage, one("m", ModelUsage::tokens(100, 50, 10, 5)));
    assert!(d.stdin_closed && d.terminal);
    let prompt = r#"{"message":{"content":[{"text":"hi","type":"text"}],"role":"user"},"type":"user"}"#;
    assert_eq!(d.writes, [format!("{prompt}\n")]);
}

#[test]
fn the_answer_without_a_result_text() {
    let (a, b) = (assistant(&text("A")), assistant(&text("B")));
    let d = run(&[INIT, &a, &assistant(CALL), DONE, &b, OK]);
    // A result names its own call as its parent: that is no sub-agent.
    assert_eq!(shown(&d), ["running S", "text A", "tool Bash c1 {}", "result c1 - out", "text B"]);
    assert_eq!(d.outcome.output, "B");
    let d = run(&[INIT, &a, &assistant(&format!("{},{CALL}", text("B"))), DONE, OK]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, ""));
}

#[test]
fn permissions_are_answered_in_both_spellings() {
    for (input, updated) in [(r#","input":{"command":"ls"}"#, r#"{"command":"ls"}"#), ("", "{}")] {
        let ask = format!(
            r#"{{"type":"control_request","request_id":"perm_1","request":{{"subtype":"can_use_tool"{input}}}}}"#
        );
        let reply = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"perm_1","response":{{"allowed":true,"behavior":"allow","updatedInput":{updated}}}}}}}"#
        );
        let d = run(&[INIT, &ask]);
        assert_eq!(d.writes[1..], [format!("{reply}\n")]);
        assert!(!d.stdin_closed);
    }
}

#[test]
fn failures_of_the_process() {
    let d = run(&[]);
    assert_eq!(
        ended(&d.outcome),
        (RunStatus::Failed, "", "codebuddy stream ended without terminal result", None)
    );
    let d = feed(plan(), "", exit(1, "FATAL ERROR: x"));
    let want = "codebuddy exited with error: exit status 1; codebuddy stderr: FATAL ERROR: x";
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", want, None));
    let long = End { read_error: Some("token too long: a line exceeds 32 MiB".into()), ..End::default() };
    let d = feed(plan(), &lines(&[INIT]), long);
    assert!(d.outcome.error.unwrap().starts_with("codebuddy stdout read error: token too long"));
    let boom = r#"{"type":"result","is_error":true,"result":"boom"}"#;
    let d = feed(plan(), boom, End { stop: Some(Stop::cancelled()), ..clean_exit() });
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "boom", None));
}

#[test]
fn messages_count_while_there_is_no_total() {
    let message = |id: &str, input: u64, output: u64, read: u64| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[],"usage":{{"input_tokens":{input},"output_tokens":{output},"cache_read_input_tokens":{read},"cache_creation_input_tokens":0}}}}}}"#
        )
    };
    let events = [message("a", 0, 0, 0), message("a", 100, 5, 40), message("b", 10, 1, 0)];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let want = one("m", ModelUsage::tokens(70, 6, 40, 0));
    assert_eq!(feed(plan(), &lines(&events), exit(1, "")).outcome.usage, want);
    // The result's own count is the whole session's.
    let total = r#"{"type":"result","result":"","usage":{"input_tokens":500,"output_tokens":50,"cache_read_input_tokens":200},"total_cost_usd":0.5}"#;
    let all: Vec<&str> = events.into_iter().chain([total]).collect();
    let resumed = Plan { resume: Some("s1".into()), ..plan() };
    assert_eq!(feed(resumed, &lines(&all), clean_exit()).outcome.usage, want);
    let fresh = ModelUsage {
        input_tokens: Some(300),
        output_tokens: Some(50),
        cache_read_tokens: Some(200),
        cache_write_tokens: None,
        cost_usd_ticks: Some(5_000_000_000),
    };
    assert_eq!(run(&all).outcome.usage, one("m", fresh));
}

const HELLO: [&str; 4] = ["text Hello", "text  from the", "text  mock model", "text ."];
const SAID: [&str; 3] = ["text The tool", "text  said: ", "text hi"];
const HELLO_TEXT: &str = "Hello from the mock model.";
const SAID_TEXT: &str = "The tool said: hi";
const BASH: &str = r#"tool Bash mock_call_1 {"command":"echo hi"}"#;

fn output(call: u8, command: &str, out: &str, err: &str, code: u8) -> String {
    let failed = code != 0;
    format!(
        "result mock_call_{call} {failed} Command: {command}⏎Stdout: {out}⏎Stderr: {err}⏎Exit Code: {code}⏎Signal: (none)"
    )
}

/// `n` model calls of the recording server: 1234 input tokens each, 789 of them cached.
fn calls(model: &str, n: u64) -> Option<Usage> {
    one(model, ModelUsage::tokens(n * 445, n * 56, n * 789, 0))
}

fn replay(name: &str, resume: bool, end: End) -> (Vec<String>, Driven) {
    let stdout = recording(name);
    let id = stdout.split(r#""session_id":""#).nth(1).and_then(|s| s.split('"').next()).map(str::to_owned);
    let d = feed(Plan { resume: id.clone().filter(|_| resume), ..plan() }, &stdout, end);
    let counter = regex::Regex::new(r"mock_call_(\d)_\d+").unwrap();
    let request = regex::Regex::new(r" \([0-9a-f]{32}/S\)").unwrap();
    let tidy = |l: &String| request.replace_all(&counter.replace_all(l, "mock_call_$1"), "").into_owned();
    assert_eq!(d.outcome.session_id, id, "{name}");
    (shown(&d).iter().map(tidy).collect(), d)
}

/// Recording, resumed, messages, answer, usage.
type Completed<'a> = (&'a str, bool, Vec<&'a str>, &'a str, Option<Usage>);

#[test]
fn recorded_runs_that_complete() {
    let hi = output(1, "echo hi", "hi⏎", "(empty)", 0);
    let thinking = ["thinking Let me", "thinking  think about", "thinking  it."];
    let (one, two) =
        (output(1, "echo one", "one⏎", "(empty)", 0), output(2, "echo two", "two⏎", "(empty)", 0));
    let fail = output(1, "echo oops >&2; exit 3", "(empty)", "oops⏎", 3);
    let multi = [
        r#"tool Bash mock_call_1 {"command":"echo one"}"#,
        r#"tool Bash mock_call_2 {"command":"echo two"}"#,
    ];
    let (local, custom) = ("mock-model", "custom-local:mock-model");
    let cases: Vec<Completed> = vec![
        ("2.117.0/text-partial", false, HELLO.to_vec(), HELLO_TEXT, calls(local, 1)),
        // The thinking is printed under an id of its own.
        ("2.117.0/thinking-partial", false, [&thinking[..], &HELLO].concat(), HELLO_TEXT, calls(local, 1)),
        (
            "2.117.0/thinking",
            false,
            vec!["thinking Let me think about it.", "text Hello from the mock model."],
            HELLO_TEXT,
            calls(local, 1),
        ),
        ("2.117.0/tool-partial", false, [&[BASH, &hi][..], &SAID].concat(), SAID_TEXT, calls(local, 2)),
        (
            "2.117.0/narrated-tool-partial",
            false,
            [&["text I will run it. ", BASH, &hi][..], &SAID].concat(),
            SAID_TEXT,
            calls(local, 2),
        ),
        (
            "2.117.0/multi-partial",
            false,
            [&multi[..], &[&one, &two], &SAID].concat(),
            SAID_TEXT,
            calls(local, 2),
        ),
        (
            "2.117.0/tool-fail",
            false,
            vec![
                r#"tool Bash mock_call_1 {"command":"echo oops >&2; exit 3"}"#,
                &fail,
                "text The tool said: hi",
            ],
            SAID_TEXT,
            calls(local, 2),
        ),
        ("2.117.0/resume-partial", true, HELLO.to_vec(), HELLO_TEXT, calls(local, 1)),
        ("2.117.0/resume-known", true, vec!["text Hello from the mock model."], HELLO_TEXT, calls(local, 1)),
        ("2.163.0/thinking-partial", false, [&thinking[..], &HELLO].concat(), HELLO_TEXT, calls(custom, 1)),
        // Without partial messages the text is on the result line alone.
        (
            "2.163.0/thinking",
            false,
            vec!["thinking Let me think about it.", "text Hello from the mock model."],
            HELLO_TEXT,
            calls(custom, 1),
        ),
        (
            "2.163.0/narrated-tool-partial",
            false,
            [&["text I will run it. ", BASH, &hi][..], &SAID].concat(),
            SAID_TEXT,
            calls(custom, 2),
        ),
        ("2.163.0/resume-partial", true, HELLO.to_vec(), HELLO_TEXT, calls(custom, 1)),
    ];
    for (name, resume, messages, answer, usage) in cases {
        let (got, d) = replay(&format!("codebuddy-{name}"), resume, clean_exit());
        let want: Vec<&str> = std::iter::once("running S").chain(messages).collect();
        assert_eq!(got, want, "{name}");
        let o = &d.outcome;
        assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, answer), "{name}");
        assert_eq!((&o.error, &o.failure, &o.partial_output), (&None, &None, &None), "{name}");
        assert_eq!((&o.usage, o.resume_rejected), (&usage, Some(false)), "{name}");
    }
}

#[test]
fn recorded_runs_that_fail_with_exit_code_0() {
    let key = "401 mock: invalid x-api-key";
    for (name, live, error, kind) in [
        ("2.117.0/error-401", Some("401 Unauthorized"), key, FailureKind::Auth),
        (
            "2.117.0/error-429",
            Some("429 mock: rate limited"),
            "429 mock: rate limited",
            FailureKind::RateLimit,
        ),
        (
            "2.117.0/overflow",
            Some("400 This model's maximum context length"),
            "400 This model's maximum",
            FailureKind::ContextOverflow,
        ),
        ("2.117.0/empty", None, "No response received from model", FailureKind::Provider),
        ("2.163.0/error-401-partial", Some("401 Unauthorized"), key, FailureKind::Auth),
    ] {
        let (got, d) = replay(&format!("codebuddy-{name}"), false, clean_exit());
        assert_eq!(got[0], "running S", "{name}");
        let texts: Vec<bool> =
            got[1..].iter().map(|l| l.starts_with(&format!("log warn {}", live.unwrap_or("?")))).collect();
        assert_eq!(texts, live.map(|_| true).into_iter().collect::<Vec<_>>(), "{name}: {got:?}");
        let o = &d.outcome;
        assert_eq!((o.status, failure_kind(o)), (RunStatus::Failed, Some(kind)), "{name}");
        assert!(o.error.as_deref().unwrap().starts_with(error), "{name}: {:?}", o.error);
        assert_eq!((&o.usage, &o.partial_output), (&None, &None), "{name}");
    }
}

#[test]
fn a_recorded_resume_of_an_unknown_session() {
    let stdout = recording("codebuddy-2.117.0/resume-unknown");
    let asked = Plan { resume: Some("00000000-0000-4000-8000-000000000000".into()), ..plan() };
    let d = feed(asked, &stdout, clean_exit());
    assert!(d.messages.is_empty() && d.stdin_closed && d.terminal);
    let error = "No conversation found with session ID: 00000000-0000-4000-8000-000000000000";
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", error, None));
    assert_eq!(d.outcome.resume_rejected, Some(true));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ResumeRejected));
}

#[test]
fn recorded_runs_that_were_stopped() {
    let stopped = || End {
        stop: Some(Stop::cancelled()),
        exit: Exit { forced: true, ..Exit::code(0) },
        ..End::default()
    };
    let (got, d) = replay("codebuddy-2.117.0/slow-sigterm-partial", false, stopped());
    let ticks: String = (0..44).map(|n| format!("tick {n} ")).collect();
    assert_eq!(got[1..].iter().map(|l| l.strip_prefix("text ").unwrap()).collect::<String>(), ticks);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Aborted, ""));
    assert_eq!((d.outcome.partial_output, d.outcome.usage), (Some(ticks), None));
    // Without our asking, exit code 0 is no success either.
    let (got, d) = replay("codebuddy-2.117.0/cut", false, clean_exit());
    assert_eq!(got.len(), 3);
    assert!(got[1].starts_with("log warn 502 网络连接被中断"), "{}", got[1]);
    assert_eq!(d.outcome.error.as_deref(), Some("codebuddy stream ended without terminal result"));
}

#[test]
fn a_broken_connection_is_tried_again_and_each_attempt_is_live() {
    let stop = Stop::limit(Limit::Run, Duration::from_secs(25));
    let end = End { stop: Some(stop), exit: Exit { forced: true, ..Exit::code(0) }, ..End::default() };
    let (got, d) = replay("codebuddy-2.117.0/cut-partial", false, end);
    let attempt = [&HELLO[..], &["log warn aborted"]].concat();
    assert_eq!(got, [&["running S"][..], &attempt, &attempt].concat());
    assert_eq!((d.outcome.status, d.outcome.usage), (RunStatus::Timeout, None));
    assert_eq!(d.outcome.failure.unwrap().hint.as_deref(), Some("aborted"));
}

#[test]
fn words_of_the_cli_itself_are_told_from_an_answer() {
    let printed = |t: &str, usage: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"a","model":"m","content":[{}],"usage":{{{usage}}}}}}}"#,
            text(t)
        )
    };
    let (none, some) = (r#""input_tokens":0"#, r#""input_tokens":9"#);
    let delta = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"404"}}}"#;
    for (events, want) in [
        (vec![printed("404 Not Found", none)], vec!["log warn 404 Not Found"]),
        (vec![printed("404 Not Found", some)], vec!["text 404 Not Found"]),
        (vec![delta.to_owned(), printed("404", none)], vec!["text 404"]),
        (vec![printed("404s are fine", none)], vec!["text 404s are fine"]),
        (vec![printed("200 OK", none)], vec!["text 200 OK"]),
        (vec![printed("aborted it", none)], vec!["text aborted it"]),
    ] {
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        assert_eq!(shown(&run(&events)), want, "{events:?}");
    }
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
