use std::path::PathBuf;
use std::time::Duration;

use super::decoder::{AgyDecoder, Plan};
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

const ID: &str = "11111111-1111-4111-8111-111111111111";

fn plan(form: Form) -> Plan {
    Plan {
        form,
        prompt: "hi".into(),
        model: None,
        resume: None,
        log_file: PathBuf::from("/nowhere/agy.log"),
        print_timeout: Duration::from_secs(1200),
    }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("agy", "agy", &mut AgyDecoder::new(plan), stdout, end)
}
fn stream(events: &[&str]) -> Driven {
    let stdout: String = events.iter().map(|e| format!("{e}\n")).collect();
    feed(plan(Form::Stream), &stdout, clean_exit())
}
/// A run in the plain form with this log file.
fn with_log(stdout: &str, log: &str, end: End) -> Driven {
    let folder = tempfile::tempdir().unwrap();
    let log_file = folder.path().join("agy.log");
    std::fs::write(&log_file, log).unwrap();
    feed(Plan { log_file, ..plan(Form::Text) }, stdout, end)
}
fn texts(d: &Driven) -> String {
    let text = |m: &Message| match m {
        Message::Text { content, .. } => Some(content.clone()),
        _ => None,
    };
    d.messages.iter().filter_map(text).collect()
}
fn usage(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn io(input: u64, output: u64) -> ModelUsage {
    ModelUsage { input_tokens: Some(input), output_tokens: Some(output), ..Default::default() }
}

const INIT: &str = r#"{"event":"init","conversation_id":"S","init":{"model":"m"}}"#;
fn response(index: i64, state: &str, more: &str) -> String {
    format!(
        r#"{{"event":"step_update","step_update":{{"step_index":{index},"state":"{state}","step_type":"agent_response"{more}}}}}"#
    )
}
fn said(index: i64, text: &str) -> String {
    response(index, "ACTIVE", &format!(r#","text_delta":{text:?}"#))
}
fn tool(index: i64, state: &str, more: &str) -> String {
    format!(
        r#"{{"event":"step_update","step_update":{{"step_index":{index},"state":"{state}","step_type":"tool"{more}}}}}"#
    )
}
fn result(fields: &str) -> String {
    format!(r#"{{"event":"result","result":{{{fields}}}}}"#)
}

#[test]
fn plain_text_is_the_answer_line_by_line() {
    for (stdout, output) in
        [("A\n\nB\n", "A\n\nB"), ("\n\n  A \r\nB", "  A \nB"), ("{\"a\":1}\n", "{\"a\":1}"), ("", "")]
    {
        let d = feed(plan(Form::Text), stdout, clean_exit());
        assert_eq!(
            (d.outcome.status, d.outcome.output.as_str()),
            (RunStatus::Completed, output),
            "{stdout:?}"
        );
        assert_eq!(texts(&d), output, "{stdout:?}");
        assert_eq!(d.messages[0], Message::running(None));
    }
}

#[test]
fn the_log_tells_what_stdout_does_not() {
    let o = with_log("x", &format!("a conversation={ID} b"), clean_exit()).outcome;
    assert_eq!((o.status, o.session_id.as_deref()), (RunStatus::Completed, Some(ID)));
    assert_eq!(with_log("x", "", clean_exit()).outcome.session_id, None);

    let timed_out = "E Print mode: timed out after 2400 polls\n";
    let o = with_log("I will look.\nStill looking.\n", timed_out, clean_exit()).outcome;
    assert_eq!(o.status, RunStatus::Timeout);
    assert!(o.error.unwrap().starts_with("agy --print-timeout elapsed after 20m0s"));
    assert_eq!(o.partial_output.as_deref(), Some("I will look.\nStill looking."));

    let o = with_log("", "agent executor error: RESOURCE_EXHAUSTED: quota exceeded\n", clean_exit()).outcome;
    assert_eq!((o.status, o.output.as_str()), (RunStatus::Failed, ""));
    assert_eq!(o.error.as_deref(), Some("agy provider error: RESOURCE_EXHAUSTED: quota exceeded"));
    assert_eq!(o.failure.unwrap().kind, FailureKind::Quota);

    let o = with_log("ok", "You are not logged into Antigravity\n", clean_exit()).outcome;
    assert_eq!(o.status, RunStatus::Completed);
    let o = with_log("ok", timed_out, exit(2, "boom")).outcome;
    assert_eq!(o.error.as_deref(), Some("agy exited with error: exit status 2; agy stderr: boom"));
}

#[test]
fn an_answer_that_was_not_printed_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("brain").join(ID).join(".system_generated/logs");
    std::fs::create_dir_all(&logs).unwrap();
    let record = r#"{"type":"PLANNER_RESPONSE","source":"MODEL","status":"DONE","content":"a"}"#;
    std::fs::write(logs.join("transcript.jsonl"), format!("{{\"type\":\"USER_INPUT\"}}\n{record}\n"))
        .unwrap();
    let log = format!("CLI app data directory: {}\nconversation={ID}\n", folder.path().display());
    let d = with_log("", &log, clean_exit());
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "a"));
    assert_eq!(spoken(&d.messages), [Message::text("a")]);
    assert_eq!(with_log("printed", &log, clean_exit()).outcome.output, "printed");
}

#[test]
fn a_streamed_turn() {
    let think = response(1, "ACTIVE", r#","thinking_delta":"hm""#);
    let d = stream(&[INIT, &think, &said(1, "Hel"), &said(1, "lo"), &result(r#""status":"SUCCESS""#)]);
    let want = [
        Message::running(None),
        Message::running(Some("S".into())),
        Message::thinking("hm"),
        Message::text("Hel"),
        Message::text("lo"),
    ];
    assert_eq!(d.messages, want);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "Hello"));
    assert_eq!((d.outcome.session_id.as_deref(), d.outcome.usage), (Some("S"), None));
    assert!(d.terminal && d.stdin_closed && d.writes.is_empty());

    let d = stream(&[INIT, &said(1, "Look."), &said(3, "Done"), &said(3, "."), &result("")]);
    assert_eq!((d.outcome.output.as_str(), texts(&d).as_str()), ("Look.\n\nDone.", "Look.Done."));
    let d = stream(&[INIT, &said(1, "Look."), &result(r#""response":"The answer""#)]);
    assert_eq!((d.outcome.output.as_str(), texts(&d).as_str()), ("The answer", "Look."));
    let d = stream(&[INIT, &result(r#""status":"SUCCESS","response":"ok""#)]);
    assert_eq!((d.outcome.output.as_str(), spoken(&d.messages)), ("ok", vec![Message::text("ok")]));
}

#[test]
fn calls_are_snapshots() {
    let active =
        tool(2, "ACTIVE", r#","tool_name":"run_command","tool_info":{"parameters":{"CommandLine":"echo"}}"#);
    let done = tool(2, "DONE", r#","tool_name":"run_command","tool_info":{"output":"hello\n"}"#);
    let view = tool(3, "active", r#","tool_info":{"name":"view_file","parameters":{}}"#);
    let broken = tool(3, "ERROR", r#","tool_info":{"output":"part","error":{"message":"missing"}}"#);
    let other = r#"{"event":"step_update","step_update":{"conversation_id":"T","step_index":2,"state":"DONE","step_type":"tool","tool_name":"run_command","tool_info":{"output":{"exit_code":0}}}}"#;
    let d = stream(&[INIT, &active, &active, &view, &broken, &done, &done, &active, other]);
    let call = |id: &str, name: &str, input: Option<&str>| {
        Message::tool_use(name, id, input.map(|i| RawJson(i.into())))
    };
    let end = |id: &str, output: &str, is_error: Option<bool>| Message::ToolResult {
        call_id: id.into(),
        tool: None,
        output: output.into(),
        is_error,
        parent_call_id: None,
    };
    let want = [
        call("agy:S:2", "run_command", Some(r#"{"CommandLine":"echo"}"#)),
        call("agy:S:3", "view_file", Some("{}")),
        end("agy:S:3", "part\nTool error: missing", Some(true)),
        end("agy:S:2", "hello\n", None),
        call("agy:T:2", "run_command", None),
        end("agy:T:2", r#"{"exit_code":0}"#, None),
    ];
    assert_eq!(spoken(&d.messages), want);

    let nothing = [
        tool(1, "ACTIVE", ""),
        tool(1, "NEW_UNKNOWN", r#","tool_name":"x""#),
        response(1, "ACTIVE", r#","tool_name":"x""#),
    ];
    let events: Vec<&str> = nothing.iter().map(String::as_str).collect();
    assert_eq!(spoken(&stream(&events).messages), []);
    let d = stream(&[&tool(1, "CANCELLED", r#","tool_name":"x""#)]);
    assert_eq!(spoken(&d.messages)[1], end("agy::1", "Tool error: CANCELLED", Some(true)));
}

#[test]
fn usage_of_the_steps_beats_the_result() {
    let step = |index, input, output| {
        response(index, "DONE", &format!(r#","usage":{{"input_tokens":{input},"output_tokens":{output}}}"#))
    };
    let total = result(r#""usage":{"input_tokens":120,"output_tokens":30,"total_tokens":150}"#);
    assert_eq!(stream(&[INIT, &step(0, 1, 1), &step(0, 12, 3), &total]).outcome.usage, usage("m", io(12, 3)));
    assert_eq!(stream(&[INIT, &step(0, 12, 3), &step(2, 8, 1), &total]).outcome.usage, usage("m", io(20, 4)));
    assert_eq!(stream(&[INIT, &total]).outcome.usage, usage("m", io(120, 30)));
    let unfinished = response(0, "ACTIVE", r#","usage":{"input_tokens":5}"#);
    assert_eq!(stream(&[INIT, &unfinished, &result("")]).outcome.usage, None);
    let negative = result(r#""usage":{"input_tokens":-1,"output_tokens":2,"cache_read_tokens":3}"#);
    let counts = ModelUsage { cache_read_tokens: Some(3), ..io(0, 2) };
    assert_eq!(stream(&[&negative]).outcome.usage, usage("unknown", counts));
    // The total of a resumed conversation is not this run's.
    let resumed = Plan { resume: Some("S".into()), ..plan(Form::Stream) };
    assert_eq!(feed(resumed, &format!("{INIT}\n{total}\n"), clean_exit()).outcome.usage, None);

    let folder = tempfile::tempdir().unwrap();
    let log_file = folder.path().join("agy.log");
    std::fs::write(&log_file, "Propagating selected model override to backend: label=\"Gemini Z\"\n")
        .unwrap();
    let unnamed = r#"{"event":"init","conversation_id":"S","init":{"model":""}}"#;
    let stdout = format!("{unnamed}\n{total}\n");
    let asked = |log_file| Plan { log_file, model: Some("y".into()), ..plan(Form::Stream) };
    let o = feed(asked(log_file), &stdout, clean_exit()).outcome;
    assert_eq!(o.usage, usage("Gemini Z", io(120, 30)));
    let o = feed(asked("/nowhere".into()), &stdout, clean_exit()).outcome;
    assert_eq!(o.usage, usage("y", io(120, 30)));
}

#[test]
fn results_and_their_status() {
    let network = "there was a network issue connecting to the server, please try again.";
    let late = result(&format!(r#""status":"ERROR","error":{network:?},"response":"done""#));
    let step = |state| response(4, state, r#","text_delta":"done""#);
    let cases: &[(&[&str], RunStatus, Option<&str>)] = &[
        (&[&result(r#""status":" success ""#)], RunStatus::Completed, None),
        (&[&result(r#""status":"COMPLETED""#)], RunStatus::Completed, None),
        (&[&step("DONE"), &late], RunStatus::Completed, None),
        (&[&step("ACTIVE"), &late], RunStatus::Failed, Some(network)),
        (&[&result(r#""status":"ERROR","error":"""#)], RunStatus::Failed, Some("agy returned status ERROR")),
        (&[&result(r#""status":"ERROR","error":{"message":"no"}"#)], RunStatus::Failed, Some("no")),
        (&[&result(r#""status":"CANCELED""#)], RunStatus::Cancelled, Some("agy returned status CANCELED")),
        (&[&result(r#""status":"ABORTED","error":"stop""#)], RunStatus::Cancelled, Some("stop")),
        (&[&result(r#""status":"TIMED_OUT","error":"late""#)], RunStatus::Timeout, Some("late")),
        (&[INIT], RunStatus::Failed, Some("agy stream ended without a result")),
    ];
    for (events, status, error) in cases {
        for code in [0, 1] {
            let stdout: String = events.iter().map(|e| format!("{e}\n")).collect();
            let o = feed(plan(Form::Stream), &stdout, exit(code, "")).outcome;
            if code == 1 && (events.len() == 1 && *status == RunStatus::Completed || *events == [INIT]) {
                assert_eq!(o.error.as_deref(), Some("agy exited with error: exit status 1"), "{events:?}");
            } else {
                assert_eq!((o.status, o.error.as_deref()), (*status, *error), "{events:?} {code}");
            }
        }
    }
    let d = stream(&[&result(r#""status":"ERROR","error":"no""#)]);
    assert_eq!(spoken(&d.messages), [Message::error("no")]);
}

#[test]
fn lines_beside_the_events() {
    let d = stream(&["Loading…", INIT, "", &result(r#""response":"ok""#)]);
    assert_eq!((d.outcome.output.as_str(), texts(&d).as_str()), ("ok", "ok"));
    assert!(d.messages.contains(&Message::log("info", "Loading…")));
    // Text although events were asked for.
    let d = feed(plan(Form::Stream), "A\n\n B\n", clean_exit());
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "A\n\n B"));
    assert_eq!(texts(&d), "A\n\n B");
    for nothing in ["{\"event\":\"res", ""] {
        let d = feed(plan(Form::Stream), nothing, clean_exit());
        assert_eq!((texts(&d).as_str(), d.outcome.status), ("", RunStatus::Failed), "{nothing}");
    }
}

#[test]
fn a_prompt_on_stdin_arrives_as_it_is() {
    for prompt in ["x".repeat(34_000), "two\nlines \u{1F600} \"q\"\t".to_owned()] {
        let d = feed(Plan { prompt: prompt.clone(), ..plan(Form::StreamBothWays) }, "", clean_exit());
        assert_eq!(d.writes.len(), 1);
        assert_eq!(d.writes[0].matches('\n').count(), 1);
        let frame: serde_json::Value = serde_json::from_str(&d.writes[0]).unwrap();
        assert_eq!(frame, serde_json::json!({"event": "user", "message": {"content": prompt}}));
        assert!(d.stdin_closed);
    }
}

#[test]
fn our_own_stop_comes_first() {
    let stdout = format!("{INIT}\n{}\n{}\n", said(1, "part"), result(r#""status":"ERROR","error":"killed""#));
    let end =
        |stop| End { stop: Some(stop), exit: Exit { forced: true, ..Exit::default() }, ..End::default() };
    let o = feed(plan(Form::Stream), &stdout, end(Stop::cancelled())).outcome;
    assert_eq!((o.status, o.partial_output.as_deref()), (RunStatus::Aborted, Some("part")));
    let limit = Stop::limit(Limit::Run, Duration::from_secs(5));
    let o = feed(plan(Form::Stream), &stdout, end(limit)).outcome;
    assert_eq!((o.status, o.error.as_deref()), (RunStatus::Timeout, Some("agy timed out after 5s")));
    let limit = Stop::limit(Limit::Run, Duration::from_secs(5));
    let o = feed(plan(Form::Stream), &format!("{INIT}\n"), end(limit)).outcome;
    assert_eq!(o.failure.unwrap().kind, FailureKind::Timeout);
    let resumed = Plan { resume: Some("R".into()), ..plan(Form::Stream) };
    let d = feed(resumed, &format!("{INIT}\n"), clean_exit());
    assert!(matches!(&d.messages[1], Message::Log { level, .. } if level == "warn"));
    assert_eq!((d.outcome.session_id.as_deref(), d.outcome.resume_rejected), (Some("S"), None));
}

#[tokio::test]
async fn without_help_the_plain_form_is_used() {
    let program = PathBuf::from("/nowhere/agy");
    let env = ChildEnv::new(&EnvList::default(), &EnvList::default(), Os::Linux);
    let prober = Prober::new(program.clone(), Vec::new(), env.clone());
    let options = ExecuteOptions { cwd: "/w".into(), model: Some("M".into()), ..Default::default() };
    let files = RunFiles::default();
    let ctx = LaunchContext {
        prompt: "hi",
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
    let log = files.path("agy.log").unwrap();
    assert_eq!(launch.args[..5], ["-p", "hi", "--dangerously-skip-permissions", "--model", "M"]);
    let tail = ["--print-timeout", "24h0m0s", "--log-file", log.to_str().unwrap(), "--add-dir", "/w"];
    assert_eq!(launch.args[5..], tail);
    let Protocol::Lines(decoder) = &mut launch.protocol else { panic!("a line agent") };
    assert!(decoder.verbatim());
}
