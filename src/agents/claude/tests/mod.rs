mod recorded;

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
fn is_error_decides_and_not_the_subtype() {
    let overloaded = r#""is_error":true,"session_id":"s","result":"API Error: 529 overloaded","terminal_reason":"api_error""#;
    for (fields, status, error, kind) in [
        (overloaded, RunStatus::Failed, "API Error: 529 overloaded", Some(FailureKind::Overloaded)),
        (
            r#""is_error":true,"result":"""#,
            RunStatus::Failed,
            "claude returned an error result without details",
            Some(FailureKind::Unknown),
        ),
        (
            r#""is_error":true,"subtype":"success","errors":["a","b"]"#,
            RunStatus::Failed,
            "a; b",
            Some(FailureKind::Unknown),
        ),
        (r#""is_error":false,"subtype":"error_max_turns""#, RunStatus::Completed, "", None),
        (
            r#""subtype":"error_during_execution","errors":["a"]"#,
            RunStatus::Failed,
            "a",
            Some(FailureKind::Unknown),
        ),
        (r#""is_error":null,"subtype":"success""#, RunStatus::Completed, "", None),
    ] {
        let d = run(&[&result(fields)]);
        let session = fields.contains("\"s\"").then_some("s");
        assert_eq!(ended(&d.outcome), (status, "", error, session), "{fields}");
        assert_eq!(failure_kind(&d.outcome), kind, "{fields}");
    }
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
fn a_used_up_context_window_is_no_rejection() {
    for (fields, says) in [
        (
            r#""subtype":"success","is_error":true,"terminal_reason":"prompt_too_long","session_id":"s","result":"""#,
            "recover",
        ),
        (
            r#""terminal_reason":" prompt_too_long ","is_error":false,"session_id":"s","result":"too big""#,
            "(too big)",
        ),
    ] {
        let d = resumed("s", &[&result(fields)]);
        let (status, output, error, session) = ended(&d.outcome);
        assert_eq!((status, output, session), (RunStatus::Failed, "", Some("s")));
        assert!(error.contains("prompt_too_long") && error.ends_with(says), "{error}");
        assert_eq!(d.outcome.resume_rejected, Some(false));
        assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ContextOverflow));
    }
    let d = run(&[&result(r#""is_error":true,"terminal_reason":"rapid_refill_breaker","result":"x""#)]);
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ContextOverflow));
}

#[test]
fn a_turn_that_the_agent_calls_aborted_is_cancelled() {
    let aborted =
        result(r#""subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools""#);
    let d = run(&[INIT, &assistant(&text("A")), &aborted]);
    assert_eq!(ended(&d.outcome), (RunStatus::Cancelled, "", "claude cancelled the turn", Some("s1")));
    assert_eq!(d.outcome.partial_output.as_deref(), Some("A"));
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
fn messages_count_once_while_there_is_no_result() {
    let null = "null";
    let m1 = counted("m1", null, [100, 1, 200, 10]);
    let m2 = counted("m2", null, [30, 1, 60, 5]);
    let usage = |events: &[&str]| feed(plan(), &lines(events), exit(1, "")).outcome.usage;
    assert_eq!(usage(&[&m1, &m1]), one("m", unfinished(100, 200, 10)));
    assert_eq!(usage(&[&m1, &m2, &m1]), one("m", unfinished(130, 260, 15)));
    let sub = counted("m1", "\"t9\"", [100, 1, 200, 10]);
    assert_eq!(usage(&[&sub, &m1]), one("m", unfinished(100, 200, 10)));
    // Only a message with a stop reason says how long it is.
    let done =
        m2.replace(r#""content":[]"#, r#""content":[],"stop_reason":"end_turn""#).replace(":1,", ":9,");
    let want = ModelUsage { output_tokens: Some(9), ..unfinished(130, 260, 15) };
    assert_eq!(usage(&[&m1, &done]), one("m", want));
    // Messages of sub-agents with ids of their own are calls of this run.
    assert_eq!(usage(&[&m1, &counted("m7", "\"t9\"", [1, 1, 0, 0])]), one("m", unfinished(101, 200, 10)));
}

#[test]
fn the_result_has_the_last_word_on_usage() {
    let m1 = counted("m1", "null", [100, 1, 200, 10]);
    let models = r#""modelUsage":{"zz/plan":{"inputTokens":123,"outputTokens":45,"cacheReadInputTokens":7,"cacheCreationInputTokens":11}}"#;
    let zeros = r#""modelUsage":{"m":{}},"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}"#;
    let turn = r#""usage":{"input_tokens":5,"output_tokens":6,"cache_read_input_tokens":7,"cache_creation_input_tokens":8},"total_cost_usd":0.25"#;
    let usage = |fields: &str| run(&[&m1, &result(fields)]).outcome.usage;
    assert_eq!(usage(models), one("zz/plan", ModelUsage::tokens(123, 45, 7, 11)));
    assert_eq!(
        usage(&format!(r#""is_error":true,{models}"#)),
        one("zz/plan", ModelUsage::tokens(123, 45, 7, 11))
    );
    assert_eq!(usage(zeros), one("m", unfinished(100, 200, 10)));
    let priced = ModelUsage { cost_usd_ticks: Some(2_500_000_000), ..ModelUsage::tokens(5, 6, 7, 8) };
    assert_eq!(usage(turn), one("m", priced));
    // Nobody wrote, so the requested model has to do.
    let asked = Plan { model: Some("asked".into()), ..plan() };
    let d = feed(asked, &lines(&[&result(turn)]), clean_exit());
    assert_eq!(d.outcome.usage, one("asked", priced));
    assert_eq!(run(&[&result(turn)]).outcome.usage, None);
}

#[test]
fn a_refused_resume_is_told_apart_from_a_failure() {
    let old = r#"{"type":"system","session_id":"s-old"}"#;
    let d =
        resumed("s-old", &[old, &result(r#""is_error":true,"result":"400 此 session 已绑定另外的ai账号""#)]);
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "400 此 session 已绑定另外的ai账号", None));
    assert_eq!(d.outcome.resume_rejected, Some(true));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ResumeRejected));
    let closed =
        r#""is_error":true,"session_id":"s-old","result":"API Error: Connection closed mid-response""#;
    let d = resumed("s-old", &[old, &result(closed)]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some("s-old")));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::Network));
    // It went on elsewhere, and failed there.
    let d = resumed("s-old", &[INIT, &result(r#""is_error":true,"result":"x""#)]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id), (Some(true), None));
    let d = resumed("s-old", &[INIT, OK]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some("s1")));
}

#[test]
fn an_error_that_came_as_an_answer_fails_the_run() {
    let synthetic = |t: &str| {
        format!(r#"{{"type":"assistant","message":{{"model":"<synthetic>","content":[{}]}}}}"#, text(t))
    };
    let ok = |t: &str| result(&format!(r#""is_error":false,"result":{t:?}"#));
    for (t, kind) in [
        ("API Error: 529 overloaded", FailureKind::Overloaded),
        ("Credit balance is too low", FailureKind::Quota),
        ("Claude AI usage limit reached|1749924000", FailureKind::RateLimit),
    ] {
        let d = run(&[INIT, &synthetic(t), &ok(t)]);
        assert_eq!(shown(&d), ["running S", &format!("text {t}")]);
        assert_eq!((d.outcome.status, d.outcome.error.as_deref()), (RunStatus::Failed, Some(t)));
        assert_eq!(failure_kind(&d.outcome), Some(kind), "{t}");
    }
    let t = "API Error: 529 means the service is overloaded.";
    let by_model = assistant(&text(t)).replace(r#""content""#, r#""model":"m","content""#);
    assert_eq!(run(&[&by_model, &ok(t)]).outcome.status, RunStatus::Completed);
    assert_eq!(run(&[&synthetic("No response requested."), &ok("")]).outcome.status, RunStatus::Completed);
}

#[test]
fn the_end_of_a_usage_limit_is_told() {
    let event = |status: &str, at: u64| {
        format!(
            r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":{at},"rateLimitType":"five_hour"}},"session_id":"s1"}}"#
        )
    };
    let limit = result(
        r#""is_error":true,"api_error_status":429,"result":"You've hit your session limit · resets 3pm""#,
    );
    let d = run(&[
        INIT,
        &event("allowed", 1),
        &event("allowed_warning", 2),
        &event("rejected", 1_780_000_000),
        &limit,
    ]);
    assert_eq!(
        shown(&d),
        [
            "running S",
            "log warn claude five_hour limit: allowed_warning, resets at 1970-01-01T00:00:02Z",
            "log warn claude five_hour limit: rejected, resets at 2026-05-28T20:26:40Z",
        ]
    );
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.retryable), (FailureKind::RateLimit, true));
    assert_eq!(failure.reset_at, Some(1_780_000_000_000));
    // Without the event, and without a zone, the phrase is all there is.
    let failure = run(&[&limit]).outcome.failure.unwrap();
    assert_eq!((failure.reset_at, failure.hint.as_deref()), (None, Some("resets 3pm")));
    let zoned = limit.replace("3pm", "3pm (Asia/Tokyo)");
    assert!(run(&[&zoned]).outcome.failure.unwrap().reset_at.is_some());
    // The limit is over again.
    let d = run(&[
        &event("rejected", 9),
        &event("allowed", 9),
        &result(r#""is_error":true,"result":"429 rate_limit_error""#),
    ]);
    assert_eq!(d.outcome.failure.unwrap().reset_at, None);
}

#[test]
fn retries_are_logged_and_explain_a_limit_of_ours() {
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":1151.5,"error_status":null,"error":"unknown","session_id":"s1"}"#;
    let idle = End { stop: Some(Stop::limit(Limit::Idle, Duration::from_secs(1))), ..End::default() };
    let d = feed(plan(), &lines(&[INIT, retry]), idle);
    let text = "claude tries the model service again in 1151 ms (attempt 2 of 10): unknown";
    assert_eq!(shown(&d), ["running S", &format!("log warn {text}")]);
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.limit), (FailureKind::Timeout, Some(Limit::Idle)));
    assert_eq!(failure.hint.as_deref(), Some(text));
}

#[test]
fn an_api_error_without_a_result_is_the_error() {
    let error = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"Not logged in"}]},"error":"authentication_failed"}"#;
    let d = feed(plan(), &lines(&[INIT, error]), exit(1, "bye"));
    assert_eq!(shown(&d), ["running S", "error Not logged in"]);
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "Not logged in; claude stderr: bye", Some("s1")));
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.exit_code), (FailureKind::Auth, Some(1)));
    // It went on from it.
    let d = feed(plan(), &lines(&[INIT, error, &assistant(&text("A"))]), exit(1, ""));
    assert_eq!(d.outcome.error.as_deref(), Some("claude exited with error: exit status 1"));
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
