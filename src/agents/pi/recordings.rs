//! What real releases printed, decoded to the last Message.

use super::decoder::PiDecoder;
use super::session::Session;
use crate::agents::testing::{Driven, drive, exit};
use crate::contract::{Failure, FailureKind, Message, ModelUsage, Outcome, RawJson, RunStatus, Usage};

const FILE: &str = "/s/one.jsonl";
const VERSIONS: [&str; 2] = ["0.74.2", "1.6.0"];

fn play(version: &str, scenario: &str, resuming: bool, code: i32) -> Driven {
    let base = format!("{}/__test__/recordings/pi-{version}/{scenario}", env!("CARGO_MANIFEST_DIR"));
    let read = |end: &str| std::fs::read_to_string(format!("{base}.{end}"));
    let stdout = if scenario == "resume-unknown" { String::new() } else { read("stdout.jsonl").unwrap() };
    let stderr = if scenario == "resume-unknown" { read("stderr.txt").unwrap() } else { String::new() };
    let mut decoder = PiDecoder::new("hi", None, Session::File(FILE.into()), resuming, false);
    drive("pi", "pi", &mut decoder, &stdout, exit(code, stderr.trim()))
}

fn running() -> Message {
    Message::running(Some(FILE.into()))
}
fn texts(pieces: &[&str]) -> Vec<Message> {
    pieces.iter().map(|piece| Message::text(*piece)).collect()
}
fn hello() -> Vec<Message> {
    texts(&["Hello", " from the", " mock model", "."])
}
fn tool_use(id: &str, command: &str) -> Message {
    Message::tool_use("bash", id, Some(RawJson(format!(r#"{{"command":"{command}"}}"#))))
}
fn tool_result(id: &str, output: &str, is_error: bool) -> Message {
    Message::ToolResult {
        call_id: id.into(),
        tool: Some("bash".into()),
        output: output.into(),
        is_error: Some(is_error),
        parent_call_id: None,
    }
}
/// The recorded model service answers each request with the same counts: 1234 in, 789 of them cached, 56 out.
fn requests(n: u64) -> Option<Usage> {
    Some(Usage::from([("mock-model".to_owned(), ModelUsage::tokens(445 * n, 56 * n, 789 * n, 0))]))
}
fn completed(output: &str, usage: Option<Usage>) -> Outcome {
    Outcome {
        status: RunStatus::Completed,
        output: output.into(),
        partial_output: None,
        error: None,
        failure: None,
        session_id: Some(FILE.into()),
        usage,
        resume_rejected: Some(false),
    }
}
fn failed(kind: FailureKind, error: &str) -> Outcome {
    Outcome {
        status: RunStatus::Failed,
        error: Some(error.into()),
        failure: Some(Failure::of(kind)),
        ..completed("", None)
    }
}

/// Plays one scenario of every version and compares everything. pi ends with exit code 0 here.
fn check(scenario: &str, want: impl Fn(&str) -> (Vec<Message>, Outcome)) {
    for version in VERSIONS {
        let d = play(version, scenario, false, 0);
        let (messages, outcome) = want(version);
        let messages: Vec<Message> = [running()].into_iter().chain(messages).collect();
        assert_eq!(d.messages, messages, "{version} {scenario}");
        assert_eq!(d.outcome, outcome, "{version} {scenario}");
        assert_eq!(d.terminal, version == "1.6.0", "{version} {scenario}");
    }
}

#[test]
fn answers() {
    for scenario in ["text", "resume", "resume-missing-file"] {
        check(scenario, |_| (hello(), completed("Hello from the mock model.", requests(1))));
    }
    check("thinking", |_| {
        let thinking = ["Let me", " think about", " it."].map(Message::thinking);
        let all = thinking.into_iter().chain(hello()).collect();
        (all, completed("Hello from the mock model.", requests(1)))
    });
    check("empty", |_| (vec![], completed("", requests(1))));
}

#[test]
fn tools() {
    let said = || texts(&["The tool", " said: ", "hi"]);
    let outcome = || completed("The tool said: hi", requests(2));
    check("tool", |_| {
        let tool = vec![tool_use("mock_call_1_4", "echo hi"), tool_result("mock_call_1_4", "hi\n", false)];
        ([tool, said()].concat(), outcome())
    });
    check("narrated-tool", |_| {
        let tool = vec![
            Message::text("I will run it. "),
            tool_use("mock_call_1_8", "echo hi"),
            tool_result("mock_call_1_8", "hi\n", false),
        ];
        ([tool, said()].concat(), outcome())
    });
    check("multi", |_| {
        let tools = vec![
            tool_use("mock_call_1_6", "echo one"),
            tool_use("mock_call_2_6", "echo two"),
            tool_result("mock_call_1_6", "one\n", false),
            tool_result("mock_call_2_6", "two\n", false),
        ];
        ([tools, said()].concat(), outcome())
    });
    check("tool-fail", |_| {
        let tool = vec![
            tool_use("mock_call_1_10", "echo oops >&2; exit 3"),
            tool_result("mock_call_1_10", "oops\n\n\nCommand exited with code 3", true),
        ];
        ([tool, said()].concat(), outcome())
    });
}

/// 0.74.2 gives the message of the model service, 1.6.0 its whole error object.
fn error_text(version: &str, status: u16, old: &str, new: &str) -> String {
    if version == "1.6.0" { format!("{status}: {new}") } else { format!("{status} {old}") }
}

#[test]
fn errors_of_the_model_service() {
    type Case = (u16, FailureKind, &'static str, &'static str);
    let plain: [Case; 3] = [
        (
            400,
            FailureKind::InvalidRequest,
            "mock: bad request",
            r#"{"message":"mock: bad request","type":"invalid_request_error","param":null,"code":null}"#,
        ),
        (
            401,
            FailureKind::Auth,
            "mock: invalid x-api-key",
            r#"{"message":"mock: invalid x-api-key","type":"authentication_error","param":null,"code":"invalid_api_key"}"#,
        ),
        (
            403,
            FailureKind::Permission,
            "mock: not allowed",
            r#"{"message":"mock: not allowed","type":"permission_error","param":null,"code":null}"#,
        ),
    ];
    for (status, kind, old, new) in plain {
        check(&format!("error-{status}"), |version| {
            (vec![], failed(kind, &error_text(version, status, old, new)))
        });
    }
    let retried: [Case; 2] = [
        (
            429,
            FailureKind::RateLimit,
            "mock: rate limited",
            r#"{"message":"mock: rate limited","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}"#,
        ),
        (
            500,
            FailureKind::Provider,
            "mock: internal server error",
            r#"{"message":"mock: internal server error","type":"api_error","param":null,"code":null}"#,
        ),
    ];
    for (status, kind, old, new) in retried {
        check(&format!("error-{status}"), |version| {
            let error = error_text(version, status, old, new);
            (retries(&error).to_vec(), failed(kind, &error))
        });
    }
}

fn retries(error: &str) -> [Message; 3] {
    [(1, 2), (2, 4), (3, 8)]
        .map(|(n, s)| Message::log("warn", format!("pi retries (attempt {n} of 3) in {s}s: {error}")))
}

#[test]
fn a_context_overflow() {
    let message = "This model's maximum context length is 200000 tokens. However, your messages resulted in 208310 \
                   tokens. Please reduce the length of the messages.";
    check("overflow", |version| {
        let new = format!(
            r#"{{"message":"{message}","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#
        );
        let error = error_text(version, 400, message, &new);
        // 0.74.2 announces a compaction and ends with exit code 0 instead.
        let messages = if version == "1.6.0" {
            vec![]
        } else {
            vec![Message::log("info", "pi compacts the context (overflow)")]
        };
        (messages, failed(FailureKind::ContextOverflow, &error))
    });
}

#[test]
fn a_connection_cut_in_every_attempt() {
    check("cut", |version| {
        let error = match version {
            "1.6.0" => "terminated: other side closed (UND_ERR_SOCKET)",
            _ => "terminated",
        };
        let mut messages = hello();
        for retry in retries(error) {
            messages.push(retry);
            messages.extend(hello());
        }
        let outcome = Outcome {
            partial_output: Some("Hello from the mock model.".into()),
            ..failed(FailureKind::Network, error)
        };
        (messages, outcome)
    });
}

#[test]
fn a_resume_that_pi_refuses() {
    for version in VERSIONS {
        let d = play(version, "resume-unknown", true, 1);
        assert_eq!(d.messages, []);
        let error = "pi exited with error: exit status 1; pi stderr: No session found matching \
                     '00000000-0000-4000-8000-000000000000'";
        let want = Outcome {
            session_id: None,
            failure: Some(Failure { exit_code: Some(1), ..Failure::of(FailureKind::ResumeRejected) }),
            resume_rejected: Some(true),
            ..failed(FailureKind::ResumeRejected, error)
        };
        assert_eq!(d.outcome, want, "{version}");
    }
}

#[test]
fn a_pi_ended_by_somebody_has_not_completed() {
    for version in VERSIONS {
        let ticks: Vec<String> =
            (0..if version == "1.6.0" { 12 } else { 10 }).map(|n| format!("tick {n} ")).collect();
        let call = if version == "1.6.0" { "mock_call_1_31" } else { "mock_call_1_49" };
        let cases = [
            ("hang", vec![]),
            ("slow-sigterm", ticks.iter().map(Message::text).collect()),
            ("tool-slow-sigterm", vec![tool_use(call, "timeout 41 tail -f /dev/null")]),
        ];
        for (scenario, messages) in cases {
            let d = play(version, scenario, false, 143);
            assert_eq!(d.messages, [vec![running()], messages].concat(), "{version} {scenario}");
            let want = Outcome {
                partial_output: (scenario == "slow-sigterm").then(|| ticks.concat()),
                failure: Some(Failure { exit_code: Some(143), ..Failure::of(FailureKind::Crash) }),
                ..failed(FailureKind::Crash, "pi exited with error: exit status 143")
            };
            assert_eq!(d.outcome, want, "{version} {scenario}");
            assert!(!d.terminal);
        }
    }
}

#[test]
fn cut_anywhere_before_its_end_no_recording_completes() {
    for version in VERSIONS {
        for scenario in ["text", "tool", "multi"] {
            let path = format!(
                "{}/__test__/recordings/pi-{version}/{scenario}.stdout.jsonl",
                env!("CARGO_MANIFEST_DIR")
            );
            let all = std::fs::read_to_string(path).unwrap();
            let lines: Vec<&str> = all.split_inclusive('\n').collect();
            let last_turn = lines.iter().rposition(|line| line.contains(r#""type":"turn_end""#)).unwrap();
            // Even with exit code 0: only the end of the last turn is the evidence.
            for kept in 0..=last_turn {
                let mut decoder = PiDecoder::new("hi", None, Session::File(FILE.into()), false, false);
                let d = drive("pi", "pi", &mut decoder, &lines[..kept].concat(), exit(0, ""));
                assert_eq!(d.outcome.status, RunStatus::Failed, "{version} {scenario} after {kept} lines");
            }
        }
    }
}
