use std::path::{Path, PathBuf};

use super::decoder::{EventDecoder, Plan};
use super::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit, spoken};
use crate::agents::{End, Exit, Stop};
use crate::contract::options::EnvList;
use crate::contract::{ErrorCode, ExecuteOptions, McpConfig};
use crate::contract::{Failure, FailureKind, Limit, Message, ModelUsage, Os, RawJson, RunStatus, Usage};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

const S: &str = r#"{"type":"step_start","sessionID":"ses_A","part":{"type":"step-start"}}"#;

fn t(text: &str) -> String {
    format!(r#"{{"type":"text","sessionID":"ses_A","part":{{"type":"text","text":{text:?}}}}}"#)
}
fn f(reason: &str, tokens: &str) -> String {
    format!(r#"{{"type":"step_finish","part":{{"reason":{reason:?},"tokens":{tokens}}}}}"#)
}
fn tool(state: &str, metadata: &str) -> String {
    format!(
        r#"{{"type":"tool_use","part":{{"tool":"bash","callID":"c1","metadata":{metadata},"state":{state}}}}}"#
    )
}
const DONE: &str = r#"{"status":"completed","input":{"command":"ls"},"output":"a\n"}"#;
const ZEROS: &str = r#"{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#;

fn plan() -> Plan {
    Plan {
        name: "opencode",
        stdin: Some("hi".into()),
        model: None,
        resume: None,
        output_lacks_reasoning: false,
    }
}
fn feed(plan: Plan, stdout: &str, end: End) -> Driven {
    drive("opencode", "opencode", &mut EventDecoder::new(plan), stdout, end)
}
fn lines(lines: &[&str]) -> String {
    lines.iter().map(|l| format!("{l}\n")).collect()
}
fn run(events: &[&str]) -> Driven {
    feed(plan(), &lines(events), clean_exit())
}
fn usage(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}
fn bash(id: &str, command: &str, output: &str) -> [Message; 2] {
    [
        Message::tool_use("bash", id, Some(RawJson(format!(r#"{{"command":{command:?}}}"#)))),
        Message::ToolResult {
            call_id: id.into(),
            tool: Some("bash".into()),
            output: output.into(),
            is_error: None,
            parent_call_id: None,
        },
    ]
}

/// The same result, said to have failed.
fn failed(mut result: Message) -> Message {
    if let Message::ToolResult { is_error, .. } = &mut result {
        *is_error = Some(true);
    }
    result
}

#[test]
fn the_prompt_goes_to_stdin_and_stdin_is_closed() {
    let d = feed(Plan { stdin: Some("line\n\"two\" ä".into()), ..plan() }, "", clean_exit());
    assert_eq!((d.writes, d.stdin_closed), (vec!["line\n\"two\" ä".to_owned()], true));
    let d = feed(Plan { stdin: None, ..plan() }, "", clean_exit());
    assert_eq!((d.writes, d.stdin_closed), (vec![], true));
}

#[test]
fn a_step_with_text_and_a_tool() {
    let d = run(&[S, &t("Hi "), &tool(DONE, "{}"), &t("end."), r#"{"type":"step_finish","part":{}}"#]);
    let mut want = vec![Message::running(Some("ses_A".into())), Message::text("Hi ")];
    want.extend(bash("c1", "ls", "a\n"));
    want.push(Message::text("end."));
    assert_eq!(d.messages, want);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Completed, "Hi end."));
    assert_eq!(d.outcome.session_id.as_deref(), Some("ses_A"));
    assert_eq!((d.outcome.usage, d.outcome.resume_rejected), (None, Some(false)));
}

#[test]
fn the_end_is_read_from_the_steps() {
    let done = tool(DONE, "{}");
    let remote = tool(DONE, r#"{"providerExecuted":true}"#);
    let thought = r#"{"type":"reasoning","part":{"text":"hm"}}"#;
    let first = f("tool-calls", r#"{"input":10,"output":2}"#);
    let last = |tokens: &str| f("unknown", tokens);
    let cost = r#"{"type":"step_finish","part":{"reason":"unknown","tokens":{"input":0},"cost":0.001}}"#;
    let continuation = Some("last step required a continuation that never started");
    let cases: &[(&str, &[&str], Option<&str>, &str)] = &[
        ("open", &[S, &t("plan")], Some("terminal signal (step still open at EOF)"), "plan"),
        ("tool-calls", &[S, &done, &f("tool-calls", "{}")], continuation, ""),
        ("stop after a local tool", &[S, &done, &f("stop", "{}")], continuation, ""),
        ("continued", &[S, &done, &f("stop", "{}"), S, &t("ok"), &f("stop", "{}")], None, "ok"),
        ("remote tool", &[S, &remote, &f("stop", ZEROS)], None, ""),
        ("void", &[S, &t("T"), &done, &first, S, thought, &last(ZEROS)], Some("on an empty step"), "T"),
        ("thought", &[S, &t("T"), &done, &first, S, thought, &last(r#"{"reasoning":5}"#)], None, "T"),
        ("total", &[S, &t("T"), &done, &first, S, thought, &last(r#"{"total":9}"#)], None, "T"),
        ("cost", &[S, &t("T"), &done, &first, S, thought, cost], None, "T"),
        ("cached", &[S, &t("T"), &done, &first, S, &last(r#"{"cache":{"read":7}}"#)], None, "T"),
        ("void first", &[S, &f("", ZEROS), S, &t("ok"), &f("stop", r#"{"input":5}"#)], None, "ok"),
        ("text alone", &["", "not json", &t("v")], None, "v"),
        ("no events", &["banner"], Some("terminal signal (no events)"), ""),
    ];
    for (name, events, error, text) in cases {
        let o = run(events).outcome;
        match error {
            None => {
                assert_eq!(
                    (o.status, o.output.as_str()),
                    (RunStatus::Completed, *text),
                    "{name} {:?}",
                    o.error
                )
            }
            Some(says) => {
                assert_eq!((o.status, o.output.as_str()), (RunStatus::Failed, ""), "{name}");
                let error = o.error.unwrap();
                assert!(
                    error.starts_with("opencode stream ended") && error.contains(says),
                    "{name}: {error}"
                );
                assert_eq!(o.partial_output.unwrap_or_default(), *text, "{name}");
            }
        }
    }
}

#[test]
fn usage_is_the_sum_of_the_steps() {
    let step = |tokens: &str, cost: &str| {
        format!(r#"{{"type":"step_finish","part":{{"reason":"stop","tokens":{tokens},"cost":{cost}}}}}"#)
    };
    let given = |tokens: &[(&str, &str)], apart: bool| {
        let text: String =
            tokens.iter().map(|(tokens, cost)| lines(&[S, &t("x"), &step(tokens, cost)])).collect();
        let plan = Plan { model: Some("p/m".into()), output_lacks_reasoning: apart, ..plan() };
        feed(plan, &text, clean_exit()).outcome.usage
    };
    let whole = r#"{"total":1290,"input":445,"output":39,"reasoning":17,"cache":{"write":0,"read":789}}"#;
    assert_eq!(given(&[(whole, "0")], false), usage("p/m", ModelUsage::tokens(445, 56, 789, 0)));
    let twice = ModelUsage { cost_usd_ticks: Some(35_000_000), ..ModelUsage::tokens(890, 112, 1578, 0) };
    assert_eq!(given(&[(whole, "0.0015"), (whole, "0.002")], false), usage("p/m", twice));

    // Without a total that settles it, the version does.
    let no_total = r#"{"input":1,"output":2,"reasoning":3}"#;
    let two =
        |output| ModelUsage { input_tokens: Some(1), output_tokens: Some(output), ..Default::default() };
    assert_eq!(given(&[(no_total, "0")], false), usage("p/m", two(2)));
    assert_eq!(given(&[(no_total, "0")], true), usage("p/m", two(5)));
    let inside = r#"{"total":6,"input":1,"output":5,"reasoning":3}"#;
    assert_eq!(given(&[(inside, "0")], true), usage("p/m", two(5)));
    assert_eq!(given(&[(ZEROS, "0")], true), None);

    let o = run(&[S, &t("x"), &step(r#"{"input":-4,"output":2.0}"#, "0")]).outcome;
    let counts = ModelUsage { input_tokens: Some(0), output_tokens: Some(2), ..Default::default() };
    assert_eq!(o.usage, usage("unknown", counts));
}

#[test]
fn session_errors_fail_the_run() {
    let d = run(&[r#"{"type":"error","sessionID":"s","error":{"name":"RateLimitError"}}"#, &t("later")]);
    assert_eq!((d.outcome.status, d.outcome.error.as_deref()), (RunStatus::Failed, Some("RateLimitError")));
    assert_eq!(d.outcome.failure, Some(Failure::of(FailureKind::RateLimit)));
    assert_eq!(spoken(&d.messages), [Message::error("RateLimitError"), Message::text("later")]);
    assert_eq!(run(&[r#"{"type":"error"}"#]).outcome.error.as_deref(), Some("unknown opencode error"));
    let d = run(&[
        r#"{"type":"error","error":{"name":"A","data":{"message":"one"}}}"#,
        r#"{"type":"error","error":"two"}"#,
    ]);
    assert_eq!(d.outcome.error.as_deref(), Some("two"));

    let aborted =
        run(&[S, r#"{"type":"error","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}}"#]);
    assert_eq!(aborted.outcome.status, RunStatus::Cancelled);

    // An error that came before the stop does not hide who stopped the run.
    let stopped = End { stop: Some(Stop::cancelled()), ..Default::default() };
    let o = feed(plan(), &lines(&[r#"{"type":"error","error":{"name":"APIError"}}"#]), stopped).outcome;
    assert_eq!(o.status, RunStatus::Aborted);
}

#[test]
fn tool_results_are_readable_text() {
    let cases = [
        (r#"{"status":"error","error":"File not found: /x"}"#, Some(("File not found: /x", Some(true)))),
        (r#"{"status":"error","error":"","output":"why"}"#, Some(("why", Some(true)))),
        (r#"{"status":"completed","output":{"files":["a"]}}"#, Some((r#"{"files":["a"]}"#, None))),
        (r#"{"status":"completed","output":null}"#, Some(("", None))),
        (r#"{"status":"completed","output":"\u00e4\""}"#, Some(("ä\"", None))),
        (r#"{"status":"completed","output":"x","metadata":{"exit":3}}"#, Some(("x", Some(true)))),
        (r#"{"status":"completed","output":"x","metadata":{"exit":0}}"#, Some(("x", None))),
        (r#"{"status":"pending"}"#, None),
        ("null", None),
    ];
    for (state, result) in cases {
        let d = run(&[S, &tool(state, "null"), &f("tool-calls", "{}"), S, &t("ok"), &f("stop", "{}")]);
        let mut want = vec![Message::tool_use("bash", "c1", None)];
        want.extend(result.map(|(output, is_error)| Message::ToolResult {
            call_id: "c1".into(),
            tool: Some("bash".into()),
            output: output.into(),
            is_error,
            parent_call_id: None,
        }));
        want.push(Message::text("ok"));
        assert_eq!(spoken(&d.messages), want, "{state}");
        assert_eq!(d.outcome.status, RunStatus::Completed, "{state}");
    }
}

#[test]
fn foreign_lines_are_passed_on_as_logs() {
    let d = run(&["", "not json", &t("v")]);
    assert_eq!(spoken(&d.messages), [Message::text("v")]);
    assert!(d.messages.contains(&Message::log("info", "not json")));
}

#[test]
fn the_last_session_id_wins() {
    let d = run(&[
        r#"{"type":"text","sessionID":"ses_1","part":{"text":"a"}}"#,
        r#"{"type":"text","sessionID":"ses_2","part":{"text":"b"}}"#,
    ]);
    assert_eq!(d.outcome.session_id.as_deref(), Some("ses_2"));
    let ids: Vec<_> = d.messages.iter().filter(|m| matches!(m, Message::Status { .. })).cloned().collect();
    assert_eq!(ids, [Message::running(Some("ses_1".into())), Message::running(Some("ses_2".into()))]);

    let other = Plan { resume: Some("ses_0".into()), ..plan() };
    let d = feed(other, &lines(&[S, &t("a"), &f("stop", "{}")]), clean_exit());
    assert!(matches!(&d.messages[0], Message::Log { level, .. } if level == "warn"));
    // Versions without an id still say that they started, once.
    let d = run(&[r#"{"type":"step_start"}"#, r#"{"type":"step_start"}"#]);
    assert_eq!(d.messages, [Message::running(None)]);
}

#[test]
fn exit_and_write_errors_are_added_to_a_gap() {
    let o = feed(plan(), &lines(&[S]), exit(1, "boom")).outcome;
    let error = o.error.unwrap();
    assert!(error.contains("terminal signal") && error.contains("exit status 1"), "{error}");
    assert!(error.ends_with("; opencode stderr: boom"), "{error}");

    let broken = || End { write_error: Some("broken pipe".into()), ..clean_exit() };
    let o = feed(plan(), "", broken()).outcome;
    assert!(o.error.unwrap().contains("prompt write failed: broken pipe"));
    let whole = lines(&[S, &t("ok"), &f("stop", "{}")]);
    assert_eq!(feed(plan(), &whole, broken()).outcome.status, RunStatus::Completed);

    let o = feed(plan(), &whole, exit(3, "")).outcome;
    assert_eq!(o.error.as_deref(), Some("opencode exited with error: exit status 3"));
    let o = feed(plan(), "", exit(1, "error: unknown option '--auto'")).outcome;
    assert_eq!(
        o.error.as_deref(),
        Some("opencode exited with error: exit status 1; opencode stderr: error: unknown option '--auto'")
    );
}

#[test]
fn a_last_line_that_is_cut_is_a_failure() {
    let cut = format!("{S}\n{}", &t("very long answer")[..40]);
    let o = feed(plan(), &cut, clean_exit()).outcome;
    assert_eq!(o.error.as_deref(), Some("opencode stdout ended within a line after 40 bytes of it"));
    assert_eq!(o.failure.unwrap().kind, FailureKind::Protocol);
    // A last line that only lacks its line end is whole.
    let whole = format!("{S}\n{}\n{}", t("ok"), f("stop", "{}"));
    assert_eq!(feed(plan(), &whole, clean_exit()).outcome.output, "ok");
}

#[test]
fn an_unknown_session_is_a_rejected_resume() {
    let resumed = || Plan { resume: Some("ses_9".into()), ..plan() };
    let stderr =
        include_str!("../../../__test__/recordings/opencode-1.18.33/resume-unknown.stderr.txt").trim();
    for code in [1, 0] {
        let o = feed(resumed(), "", exit(code, stderr)).outcome;
        assert_eq!((o.status, o.resume_rejected, o.session_id), (RunStatus::Failed, Some(true), None));
        let failure = o.failure.unwrap();
        assert_eq!((failure.kind, failure.retryable), (FailureKind::ResumeRejected, false));
        assert!(o.error.unwrap().contains("Session not found"));
    }
    for (plan, stdout, stderr) in [
        (plan(), String::new(), "Session not found"),
        (resumed(), lines(&[S]), "Session not found"),
        (resumed(), String::new(), "network is down"),
    ] {
        assert_eq!(feed(plan, &stdout, exit(1, stderr)).outcome.resume_rejected, Some(false));
    }
}

#[test]
fn stopped_runs_keep_their_session_and_text() {
    let killed = Exit { code: None, signal: Some("SIGTERM".into()), forced: true };
    let text = lines(&[S, &t("part")]);
    let end = End { stop: Some(Stop::cancelled()), exit: killed.clone(), ..Default::default() };
    let o = feed(plan(), &text, end).outcome;
    assert_eq!((o.status, o.partial_output.as_deref()), (RunStatus::Aborted, Some("part")));
    assert_eq!((o.session_id.as_deref(), o.failure), (Some("ses_A"), None));
    let stop = Some(Stop::limit(Limit::Idle, IDLE_TIMEOUT));
    let o = feed(plan(), &text, End { stop, exit: killed, ..Default::default() }).outcome;
    assert_eq!(o.error.as_deref(), Some("opencode timed out after 10m0s without a message"));
    assert_eq!(o.failure.unwrap().kind, FailureKind::Timeout);
}

#[test]
fn the_binary_behind_a_windows_launcher() {
    let find = |arch, present: &str| {
        native::beside_launcher(Os::Windows, Path::new(r"C:\n\opencode.CMD"), native_candidates(arch), |p| {
            p.to_str().unwrap().ends_with(present)
        })
        .map(|p| p.to_str().unwrap().to_owned())
    };
    let nested = |package: &str| {
        Some(format!(r"C:\n\node_modules\opencode-ai\node_modules\{package}\bin\opencode.exe"))
    };
    for (arch, present, want) in [
        ("x86_64", "opencode.exe", nested("opencode-windows-x64")),
        ("aarch64", "opencode.exe", nested("opencode-windows-arm64")),
        ("x86_64", r"-baseline\bin\opencode.exe", nested("opencode-windows-x64-baseline")),
        (
            "x86_64",
            r"n\node_modules\opencode-windows-x64\bin\opencode.exe",
            Some(r"C:\n\node_modules\opencode-windows-x64\bin\opencode.exe".to_owned()),
        ),
        (
            "aarch64",
            r"opencode-ai\bin\opencode.exe",
            Some(r"C:\n\node_modules\opencode-ai\bin\opencode.exe".to_owned()),
        ),
        ("x86_64", "nothing", None),
    ] {
        assert_eq!(find(arch, present), want, "{arch} {present}");
    }
}

#[tokio::test]
async fn the_environment_of_a_start() {
    let planned = async |inherited: &str, mcp: &str| {
        let program = PathBuf::from("/nowhere/opencode");
        let host = EnvList(vec![(CONFIG_VARIABLE.into(), inherited.into())]);
        let env = ChildEnv::new(&host, &EnvList::default(), Os::Linux);
        let prober = Prober::new(program.clone(), Vec::new(), env.clone());
        let options = ExecuteOptions {
            cwd: "/w".into(),
            mcp_config: McpConfig::parse(mcp).unwrap(),
            ..Default::default()
        };
        let ctx = LaunchContext {
            prompt: "p",
            options: &options,
            env: &env,
            program: &program,
            prober: &prober,
            files: &RunFiles::default(),
            os: Os::Linux,
            run_id: "r",
            attempt: 1,
        };
        (AGENT.launch)(&ctx).await.map(|launch| (launch.args, launch.env))
    };
    let pwd = ("PWD".to_owned(), "/w".to_owned());
    for inherit in ["null", "{}"] {
        let (args, env) = planned("X", inherit).await.unwrap();
        assert_eq!(env, std::slice::from_ref(&pwd), "{inherit}");
        assert_eq!(args, ["run", "--format", "json", "--dangerously-skip-permissions", "--dir", "/w"]);
    }
    let servers = r#"{"mcpServers":{"a":{"url":"https://h"}}}"#;
    let (_, env) = planned(r#"{"model":"p/m"}"#, servers).await.unwrap();
    let merged = r#"{"model":"p/m","mcp":{"a":{"type":"remote","url":"https://h"}}}"#;
    assert_eq!(env, [pwd, (CONFIG_VARIABLE.to_owned(), merged.to_owned())]);
    assert_eq!(planned("X", servers).await.map(|_| ()).unwrap_err().code, ErrorCode::InvalidMcpConfig);
}

mod recordings {
    use super::*;

    fn recording(name: &str) -> String {
        let path = format!(
            "{}/__test__/recordings/opencode-1.18.33/{name}.stdout.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read_to_string(&path).expect(&path)
    }
    fn decode(name: &str, end: End) -> Driven {
        let plan = Plan { model: Some("mock/mock-model".into()), ..plan() };
        feed(plan, &recording(name), end)
    }
    fn steps(n: u64) -> Option<Usage> {
        usage("mock/mock-model", ModelUsage::tokens(445 * n, 56 * n, 789 * n, 0))
    }

    #[test]
    fn finished_turns() {
        let said = || vec![Message::text("Hello from the mock model.")];
        let thought = vec![Message::thinking("Let me think about it.")];
        let tool_said = Message::text("The tool said: hi");
        let cases = [
            ("text", "ses_dd2948e57ffen0Cmm00NJH2xOX", 1, said()),
            ("resume", "ses_dd2948e57ffen0Cmm00NJH2xOX", 1, said()),
            ("thinking-flag", "ses_dd29080a5ffeMoUX9h1ZI7qrdE", 1, [thought, said()].concat()),
            (
                "tool",
                "ses_dd2945d67ffeXZlaF04d9mZO9L",
                2,
                [bash("mock_call_1_8", "echo hi", "hi\n").to_vec(), vec![tool_said.clone()]].concat(),
            ),
            (
                "narrated-tool",
                "ses_dd284fb57ffeRuaHIa53FUhXKR",
                2,
                [
                    vec![Message::text("I will run it. ")],
                    bash("mock_call_1_5", "echo hi", "hi\n").to_vec(),
                    vec![tool_said.clone()],
                ]
                .concat(),
            ),
            (
                "multi",
                "ses_dd2944b6cffeBZVT2fk8E8vp9P",
                2,
                [
                    bash("mock_call_1_11", "echo one", "one\n").to_vec(),
                    bash("mock_call_2_11", "echo two", "two\n").to_vec(),
                    vec![tool_said.clone()],
                ]
                .concat(),
            ),
            (
                "tool-fail",
                "ses_dd29425f5ffeuz7ORpV9OP3gTv",
                2,
                [
                    bash("mock_call_1_17", "echo oops >&2; exit 3", "oops\n").map(failed).to_vec(),
                    vec![tool_said.clone()],
                ]
                .concat(),
            ),
            ("empty", "ses_dd292a5cfffeYcj5a6RF5PRbgq", 1, vec![]),
        ];
        for (name, session, requests, mut messages) in cases {
            let d = decode(name, clean_exit());
            let o = d.outcome;
            assert_eq!((o.status, o.error), (RunStatus::Completed, None), "{name}");
            let answer = match messages.last() {
                Some(Message::Text { content, .. }) => content.as_str(),
                _ => "",
            };
            assert_eq!(o.output, answer, "{name}");
            assert_eq!(o.session_id.as_deref(), Some(session), "{name}");
            assert_eq!(o.usage, steps(requests), "{name}");
            messages.insert(0, Message::running(Some(session.into())));
            assert_eq!(d.messages, messages, "{name}");
        }
    }

    #[test]
    fn failures_of_the_model_service() {
        let overflow = "This model's maximum context length is 200000 tokens. However, your messages resulted in \
                        208310 tokens. Please reduce the length of the messages.";
        for (name, kind, retryable, reset_at, text) in [
            ("error-400", FailureKind::InvalidRequest, false, None, "mock: bad request"),
            ("error-401", FailureKind::Auth, false, None, "mock: invalid x-api-key"),
            ("error-403", FailureKind::Permission, false, None, "mock: not allowed"),
            ("error-429", FailureKind::RateLimit, true, Some(1_796_058_410_130), "mock: rate limited"),
            ("overflow", FailureKind::ContextOverflow, false, None, overflow),
        ] {
            let d = decode(name, exit(1, ""));
            assert_eq!(
                (d.outcome.status, d.outcome.error.as_deref()),
                (RunStatus::Failed, Some(text)),
                "{name}"
            );
            let failure = d.outcome.failure.unwrap();
            assert_eq!(
                (failure.kind, failure.retryable, failure.reset_at),
                (kind, retryable, reset_at),
                "{name}"
            );
            assert_eq!(failure.exit_code, Some(1), "{name}");
            let errors: Vec<_> = d.messages.iter().filter(|m| matches!(m, Message::Error { .. })).collect();
            assert_eq!(errors, [&Message::error(text)], "{name}");
        }
    }

    #[test]
    fn turns_that_never_ended() {
        for (name, steps) in [("cut", 5), ("slow-sigterm", 1)] {
            assert_eq!(recording(name).lines().count(), steps, "{name}");
            let killed = Exit { signal: Some("SIGTERM".into()), ..Exit::default() };
            let d = decode(name, End { exit: killed, ..Default::default() });
            assert_eq!(d.messages.len(), 1, "{name}: one status however many attempts");
            let o = d.outcome;
            assert_eq!(o.status, RunStatus::Failed, "{name}");
            assert_eq!(
                o.error.as_deref(),
                Some(
                    "opencode stream ended without a terminal signal (step still open at EOF); opencode exited \
                     with error: signal: SIGTERM"
                ),
                "{name}"
            );
            assert_eq!(o.failure.unwrap().kind, FailureKind::Crash, "{name}");
            assert!(o.session_id.is_some(), "{name}");
        }
    }
}
