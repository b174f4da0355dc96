mod failures;
mod recorded;
mod usage;

use std::time::Duration;

use semver::Version;

use super::AGENT;
use super::decoder::{ClaudeDecoder, Plan};
use super::usage::Baseline;
use crate::agents::stream_json::testing::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit};
use crate::agents::{Decoder, End, Exit, Output, Stop};
use crate::contract::{ExecuteOptions, FailureKind, Limit, McpConfig, ModelUsage, RunStatus, Usage};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1"}"#;

fn plan() -> Plan {
    Plan { prompt: "hi".into(), model: None, resume: None, baseline: Baseline::Unknown, version: None }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("claude", "claude", &mut ClaudeDecoder::new(plan), stdout, end)
}
fn run(events: &[&str]) -> Driven {
    feed(plan(), &lines(events), clean_exit())
}
fn resumed(id: &str, events: &[&str]) -> Driven {
    feed(Plan { resume: Some(id.into()), ..plan() }, &lines(events), clean_exit())
}
fn assistant(blocks: &str) -> String {
    format!(r#"{{"type":"assistant","message":{{"content":[{blocks}]}}}}"#)
}
fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":{text:?}}}"#)
}
fn result(fields: &str) -> String {
    format!(r#"{{"type":"result",{fields}}}"#)
}
fn counted(id: &str, parent: &str, tokens: [u64; 4]) -> String {
    let [input, output, read, write] = tokens;
    format!(
        r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{id}","model":"m","content":[],
        "usage":{{"input_tokens":{input},"output_tokens":{output},"cache_read_input_tokens":{read},"cache_creation_input_tokens":{write}}}}}}}"#
    )
    .replace('\n', "")
}
/// Input, cache read, cache write; the output is not known.
fn unfinished(input: u64, read: u64, write: u64) -> ModelUsage {
    ModelUsage { output_tokens: None, ..ModelUsage::tokens(input, 0, read, write) }
}
const OK: &str = r#"{"type":"result","is_error":false,"session_id":"s1","result":""}"#;

#[test]
fn the_prompt_goes_to_stdin_which_stays_open_until_the_result() {
    let mut decoder = ClaudeDecoder::new(Plan { prompt: "a\n\"b\" ä".into(), ..plan() });
    let mut out = Output::default();
    decoder.open(&mut out);
    let frame = String::from_utf8(out.writes.remove(0)).unwrap();
    let frame: serde_json::Value = serde_json::from_str(frame.strip_suffix('\n').unwrap()).unwrap();
    let content = serde_json::json!([{"type": "text", "text": "a\n\"b\" ä"}]);
    assert_eq!(frame, serde_json::json!({"type": "user", "message": {"role": "user", "content": content}}));
    assert!(!out.close_stdin && !out.terminal);
    let d = run(&[INIT, &assistant(&text("x"))]);
    assert!(!d.stdin_closed && !d.terminal);
    let d = run(&[INIT, OK]);
    assert!(d.stdin_closed && d.terminal && !d.stop_now);
}

#[test]
fn the_answer_is_the_result_or_the_last_text_that_stands_alone() {
    let bye = result(r#""is_error":false,"session_id":"s1","result":"bye""#);
    let read = r#"{"type":"tool_use","id":"t1","name":"Read","input":{"path":"a"}}"#;
    let done =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}"#;
    let a = assistant(&text("A"));
    let cases: Vec<(Vec<String>, Vec<&str>, &str)> = vec![
        (vec![assistant(&text("hi")), bye], vec!["text hi"], "bye"),
        (vec![assistant(&text("hi")), OK.into()], vec!["text hi"], "hi"),
        (
            vec![
                assistant(&text("plan")),
                assistant(&format!("{},{read}", text("now"))),
                done.into(),
                OK.into(),
            ],
            vec!["text plan", "text now", r#"tool Read t1 {"path":"a"}"#, "result t1 - x"],
            "",
        ),
        (
            vec![a.clone(), assistant(r#"{"type":"thinking","thinking":"hm"}"#), OK.into()],
            vec!["text A", "thinking hm"],
            "A",
        ),
        (
            vec![a.clone(), assistant(r#"{"type":"thinking","thinking":"","text":"old"}"#), OK.into()],
            vec!["text A", "thinking old"],
            "A",
        ),
        (
            vec![
                a.clone(),
                assistant(r#"{"type":"server_tool_use","id":"q","name":"web_search"}"#),
                OK.into(),
            ],
            vec!["text A"],
            "",
        ),
        // Silent, and readable.
        (vec![a.clone(), r#"{"type":"assistant","message":null}"#.into(), OK.into()], vec!["text A"], "A"),
        (
            vec![a.clone(), r#"{"type":"assistant","message":{"content":null}}"#.into(), OK.into()],
            vec!["text A"],
            "A",
        ),
        // The last of two results counts.
        (
            vec![a, result(r#""is_error":true,"result":"no""#), result(r#""result":"yes""#)],
            vec!["text A"],
            "yes",
        ),
    ];
    for (events, messages, answer) in cases {
        let mut all = vec![INIT];
        all.extend(events.iter().map(String::as_str));
        let d = run(&all);
        let want: Vec<&str> = std::iter::once("running S").chain(messages).collect();
        assert_eq!(shown(&d), want, "{events:?}");
        let session = d.outcome.session_id.as_deref();
        assert_eq!(ended(&d.outcome), (RunStatus::Completed, answer, "", session), "{events:?}");
    }
}

#[test]
fn an_unreadable_message_clears_the_answer() {
    for body in [
        r#","message":"oops""#,
        "",
        r#","message":[]"#,
        r#","message":{"content":"plain"}"#,
        r#","message":{"content":["x"]}"#,
        r#","message":{"content":[{"type":"text","text":7}]}"#,
        r#","message":{"id":7}"#,
    ] {
        let odd = format!(r#"{{"type":"assistant"{body}}}"#);
        let d = run(&[&assistant(&text("A")), &odd, OK]);
        assert_eq!(shown(&d), ["text A"], "{body}");
        assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, ""), "{body}");
        // A sub-agent's does not touch it.
        let odd = format!(r#"{{"type":"assistant","parent_tool_use_id":"t1"{body}}}"#);
        assert_eq!(run(&[&assistant(&text("A")), &odd, OK]).outcome.output, "A", "{body}");
    }
}

#[test]
fn a_stream_without_a_result_failed() {
    let d = run(&[INIT, &assistant(&text("A"))]);
    let want = (RunStatus::Failed, "", "claude stream ended without terminal result", Some("s1"));
    assert_eq!(ended(&d.outcome), want);
    assert_eq!(d.outcome.partial_output.as_deref(), Some("A"));

    let d = feed(plan(), "", exit(3, "FATAL no way"));
    let want = "claude exited with error: exit status 3; claude stderr: FATAL no way";
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", want, None));
    assert_eq!(d.outcome.failure.as_ref().and_then(|f| f.hint.as_deref()), None);
    let old = Plan { version: Some(Version::new(2, 0, 5)), ..plan() };
    let d = feed(old, "banner\n", exit(1, "error: unknown option '--x'"));
    assert_eq!(shown(&d), ["log info banner"]);
    assert_eq!(d.outcome.failure.unwrap().hint.as_deref(), Some("this is claude 2.0.5"));
}

#[test]
fn a_line_that_stdout_ended_within_is_a_failure() {
    let cut = format!("{INIT}\n{}\n{}", assistant(&text("A")), &OK[..40]);
    let d = feed(plan(), &cut, clean_exit());
    assert_eq!(shown(&d), ["running S", "text A", "log warn skipped a cut frame of 40 bytes on stdout"]);
    assert_eq!(
        (d.outcome.status, failure_kind(&d.outcome)),
        (RunStatus::Failed, Some(FailureKind::Protocol))
    );
    assert!(d.outcome.failure.unwrap().hint.unwrap().contains("within a line"));
    // Whole in spite of the missing line end, or not needed any more.
    assert_eq!(feed(plan(), OK, clean_exit()).outcome.status, RunStatus::Completed);
    let late = format!("{OK}\n{{\"type\":\"sys");
    assert_eq!(feed(plan(), &late, clean_exit()).outcome.status, RunStatus::Completed);
}

#[test]
fn a_result_of_the_wrong_shape_is_no_result() {
    for odd in [r#""is_error":"true""#, r#""subtype":7"#, r#""session_id":[]"#, r#""terminal_reason":1"#] {
        let d = run(&[&result(odd)]);
        assert!(!d.terminal && !d.stdin_closed, "{odd}");
        assert_eq!(d.outcome.error.as_deref(), Some("claude stream ended without terminal result"), "{odd}");
    }
    let d = run(&[&result(r#""result":{"a": 1.50},"session_id":null,"parent_tool_use_id":null"#)]);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, r#"{"a": 1.50}"#));
}

#[test]
fn an_error_beats_our_stop_and_our_stop_beats_a_success() {
    let no = result(r#""is_error":true,"result":"provider said no""#);
    let stopped = |stop| End { stop: Some(stop), ..clean_exit() };
    let d = feed(plan(), &lines(&[INIT, &no]), stopped(Stop::cancelled()));
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "provider said no", Some("s1")));
    let yes = result(r#""result":"yes""#);
    let d = feed(plan(), &lines(&[INIT, &yes]), stopped(Stop::cancelled()));
    assert_eq!(ended(&d.outcome), (RunStatus::Aborted, "", "execution cancelled", Some("s1")));
    assert_eq!(d.outcome.partial_output.as_deref(), Some("yes"));
    let limit = Stop::limit(Limit::Run, Duration::from_millis(20));
    let d = feed(plan(), &lines(&[INIT, &yes]), stopped(limit));
    assert_eq!(ended(&d.outcome), (RunStatus::Timeout, "", "claude timed out after 20ms", Some("s1")));
    // Write errors count only while the CLI was not seen working.
    let deaf = || End { write_error: Some("broken pipe".into()), exit: Exit::code(1), ..End::default() };
    assert_eq!(
        feed(plan(), "", deaf()).outcome.error.as_deref(),
        Some("claude prompt write failed: broken pipe")
    );
    let d = feed(plan(), &lines(&[INIT]), deaf());
    assert_eq!(d.outcome.error.as_deref(), Some("claude exited with error: exit status 1"));
    let d = feed(plan(), &lines(&[INIT, &yes]), exit(3, ""));
    assert_eq!(
        ended(&d.outcome),
        (RunStatus::Failed, "", "claude exited with error: exit status 3", Some("s1"))
    );
    let unread = End { read_error: Some("token too long".into()), ..End::default() };
    let d = feed(plan(), &lines(&[INIT]), unread);
    assert_eq!(d.outcome.error.as_deref(), Some("claude stdout read error: token too long"));
}

#[test]
fn control_requests_get_one_answer_each_until_the_result() {
    let ask = |id: &str, request: &str| {
        format!(r#"{{"type":"control_request","request_id":"{id}","request":{request}}}"#)
    };
    let bash =
        r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"pwd","run_in_background":true}}"#;
    let plain =
        r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"pwd","n":9007199254740993}}"#;
    let d = run(&[
        INIT,
        &ask("r1", bash),
        &ask("r2", plain),
        &ask("r3", r#"{"subtype":"hook_callback"}"#),
        &ask("r4", r#"{"subtype":"mcp_message"}"#),
        r#"{"type":"control_cancel_request","request_id":"r4"}"#,
        r#"{"type":"control_response","response":{"request_id":"r9"}}"#,
        OK,
        &ask("r5", plain),
    ]);
    let allow = |id, input: &str| {
        format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{id}","response":{{"behavior":"allow","updatedInput":{input}}}}}}}"#
        )
    };
    let replies: Vec<&str> = d.writes[1..].iter().map(|w| w.trim_end()).collect();
    assert_eq!(
        replies,
        [
            &allow("r1", r#"{"command":"pwd","run_in_background":false}"#),
            &allow("r2", r#"{"command":"pwd","n":9007199254740993}"#),
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"r3","response":{}}}"#,
            r#"{"type":"control_response","response":{"subtype":"error","request_id":"r4","error":"unsupported"}}"#,
        ]
    );
    assert_eq!(shown(&d), ["running S"]);
}

#[test]
fn a_background_launch_fails_the_run() {
    let tool = |content: &str| {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":{content}}}]}}}}"#
        )
    };
    for (content, vetoed) in [
        (r#"{"status":"async_launched"}"#, true),
        (r#"{"content":[{"type":"text"},{"status":"async_launched"}]}"#, true),
        (r#"[{"status":"async_launched"}]"#, true),
        (r#"{"stdout":"… {\"status\":\"async_launched\"} …"}"#, false),
        (r#""{\"status\":\"async_launched\"}""#, false),
        (r#"{"a":{"status":"async_launched"}}"#, false),
        (r#"{"content":{"status":"async_launched"}}"#, false),
    ] {
        let d = run(&[INIT, &tool(content), &result(r#""result":"done""#)]);
        assert_eq!(d.messages.len(), 2, "the tool result is sent: {content}");
        assert_eq!(
            d.outcome.status,
            if vetoed { RunStatus::Failed } else { RunStatus::Completed },
            "{content}"
        );
        if vetoed {
            let (_, output, error, session) = ended(&d.outcome);
            assert!(error.contains("background task"), "{error}");
            assert_eq!((output, session), ("", Some("s1")));
        }
    }
}

#[test]
fn logs_and_unused_lines() {
    let d = run(&[
        r#"{"type":"log","log":{"level":"warn","message":"m"}}"#,
        r#"{"type":"log"}"#,
        r#"{"type":"keep_alive"}"#,
        r#"{"type":"tool_progress","message":"text","event":7}"#,
        r#"{"type":"stream_event","event":"odd"}"#,
        r#"{"type":"user","message":{"content":"a replayed prompt"}}"#,
        r#"{"type":"user","message":{"content":[{"type":"text","text":"t"}]}}"#,
        r#"{"session_id":"s1","message":"not a message","subtype":"init","type":"system"}"#,
        r#"{"type":"system","subtype":"status","session_id":"s1"}"#,
        r#"{"type":"system","subtype":"init","session_id":"s2"}"#,
        "A banner",
        r#"{"type":"system", broken"#,
    ]);
    let want = [
        "log warn m",
        "running S",
        "running s2",
        "log info A banner",
        "log warn skipped a malformed frame of 24 bytes on stdout",
    ];
    assert_eq!(shown(&d), want);
}

#[test]
fn tool_input_is_an_object_or_absent() {
    for (input, want) in [
        (r#","input":{"n":1.0,"a" : [ ]}"#, r#"{"n":1.0,"a" : [ ]}"#),
        (r#","input":[1]"#, "-"),
        (r#","input":null"#, "-"),
        (r#","input":"x""#, "-"),
        ("", "-"),
    ] {
        let d = run(&[&assistant(&format!(r#"{{"type":"tool_use","id":"t","name":"N"{input}}}"#))]);
        assert_eq!(shown(&d), [format!("tool N t {want}")], "{input}");
    }
}

#[test]
fn sub_agents_interleave_with_the_main_loop() {
    let event = |parent: &str, event: &str| {
        format!(r#"{{"type":"stream_event","event":{event},"parent_tool_use_id":{parent}}}"#)
    };
    let start = |id| format!(r#"{{"type":"message_start","message":{{"id":"{id}","model":"m"}}}}"#);
    let delta = |t: &str| {
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{t:?}}}}}"#)
    };
    let printed = |parent: &str, id: &str, t: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{}]}},"parent_tool_use_id":{parent}}}"#,
            text(t)
        )
    };
    let (main, sub) = ("null", "\"t1\"");
    let call = r#"{"type":"tool_use","id":"t2","name":"Read","input":{}}"#;
    let call = assistant(call).replace("\"message\"", "\"parent_tool_use_id\":\"t1\",\"message\"");
    let done = r#"{"type":"user","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"no"}]}]}}"#;
    let d = run(&[
        INIT,
        &event(main, &start("a")),
        &event(main, &delta("ma")),
        &event(sub, &start("b")),
        &event(sub, &delta("su")),
        &event(main, &delta("in")),
        &event(sub, &delta("b")),
        // A missing tail on one side, nothing missing on the other.
        &printed(sub, "b", "sub!"),
        &printed(main, "a", "main"),
        &call,
        done,
        &printed(sub, "c", "bye"),
        OK,
    ]);
    let want = [
        "running S",
        "text ma",
        "text@t1 su",
        "text in",
        "text@t1 b",
        "text@t1 !",
        "tool@t1 Read t2 {}",
        "result@t1 t2 true no",
        "text@t1 bye",
    ];
    assert_eq!(shown(&d), want);
    assert_eq!(d.outcome.output, "main");
}

#[tokio::test]
async fn the_start_brings_the_managed_servers_as_a_private_file() {
    let config = r#"{ "mcpServers" : {"d":{"command":"echo","env":{"KEY":"s3cret"}}} }"#;
    let options = ExecuteOptions { mcp_config: McpConfig::parse(config).unwrap(), ..Default::default() };
    let sandbox = [("IS_SANDBOX", "1")];
    let started = start(&AGENT, &options, &sandbox).await.unwrap();
    let (flag, path) = started.last_two();
    assert_eq!(flag, "--mcp-config");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), config);
    assert!(started.args.contains(&"--strict-mcp-config".to_owned()));
    assert!(!started.args.iter().any(|a| a.contains("s3cret") || a.contains(PROMPT)));
    drop(started);
    assert!(!std::path::Path::new(&path).exists());

    let inherit = start(&AGENT, &ExecuteOptions::default(), &sandbox).await.unwrap();
    assert!(!inherit.args.iter().any(|a| a.contains("mcp")));
}

#[tokio::test]
async fn a_system_prompt_that_fits_no_command_line_goes_into_a_file() {
    let prompt = "x".repeat(200 * 1024);
    let options = ExecuteOptions { system_prompt: Some(prompt.clone()), ..Default::default() };
    let started = start(&AGENT, &options, &[("IS_SANDBOX", "1")]).await.unwrap();
    let (flag, path) = started.last_two();
    assert_eq!(flag, "--append-system-prompt-file");
    assert_eq!(std::fs::read_to_string(path).unwrap(), prompt);
}

#[cfg(unix)]
#[tokio::test]
async fn root_is_refused_before_anything_is_started() {
    let refused = start(&AGENT, &ExecuteOptions::default(), &[]).await.err();
    let root = rustix::process::geteuid().is_root();
    assert_eq!(refused.map(|e| e.code), root.then_some(crate::contract::ErrorCode::PermissionDenied));
}
