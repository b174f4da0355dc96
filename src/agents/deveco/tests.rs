use std::path::{Path, PathBuf};

use super::*;
use crate::agents::testing::{Driven, clean_exit, drive, exit};
use crate::agents::{End, Protocol};
use crate::contract::options::EnvList;
use crate::contract::{McpConfig, Message, ModelUsage, Os, RunStatus, Usage};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

const STEP: &str = r#"{"type":"step_start","sessionID":"ses_1","part":{}}"#;
const OK: &str = r#"{"type":"text","sessionID":"ses_1","part":{"text":"ok"}}"#;
const FINISH: &str = r#"{"type":"step_finish","sessionID":"ses_1","part":{}}"#;
const TOOL: &str = r#"{"type":"tool_use","part":{"tool":"read","callID":"c1","state":{"status":"completed","input":{},"output":"x"}}}"#;

fn run(events: &[&str], end: End) -> Driven {
    let plan = Plan {
        name: "deveco",
        stdin: None,
        model: Some("deveco/GLM-X".into()),
        resume: None,
        output_lacks_reasoning: false,
    };
    let stdout: String = events.iter().map(|e| format!("{e}\n")).collect();
    drive("deveco", "deveco", &mut EventDecoder::new(plan), &stdout, end)
}

/// Arguments, stdin frames and added environment of one planned start.
async fn planned(os: Os, program: &str, prompt: &str, options: ExecuteOptions) -> (Launch, Vec<String>) {
    let program = PathBuf::from(program);
    let env = ChildEnv::new(&EnvList::default(), &EnvList::default(), os);
    let prober = Prober::new(program.clone(), Vec::new(), env.clone());
    let ctx = LaunchContext {
        prompt,
        options: &options,
        env: &env,
        program: &program,
        prober: &prober,
        files: &RunFiles::default(),
        os,
        run_id: "r",
        attempt: 1,
    };
    let mut launch = (AGENT.launch)(&ctx).await.unwrap();
    let Protocol::Lines(decoder) = &mut launch.protocol else { panic!("a line agent") };
    let writes = drive("deveco", "deveco", decoder.as_mut(), "", clean_exit()).writes;
    (launch, writes)
}

fn options() -> ExecuteOptions {
    ExecuteOptions { cwd: "/w".into(), ..Default::default() }
}

#[tokio::test]
async fn the_prompt_is_the_last_argument() {
    let options = ExecuteOptions {
        model: Some("deveco/GLM-X".into()),
        system_prompt: Some("sys".into()),
        custom_args: ["--format", "text", "--x"].map(str::to_owned).into(),
        ..options()
    };
    let (launch, writes) = planned(Os::Linux, "/b/deveco", "do it", options).await;
    let want = [
        "run",
        "--format",
        "json",
        "--dangerously-skip-permissions",
        "--dir",
        "/w",
        "--model",
        "deveco/GLM-X",
        "--x",
        "do it",
    ];
    assert_eq!(launch.args, want);
    assert_eq!(launch.env, [("PWD".to_owned(), "/w".to_owned())]);
    assert!(writes.is_empty());

    let (launch, _) = planned(Os::Linux, "/b/deveco", "--help me", self::options()).await;
    assert_eq!(launch.args[6..], ["--", "--help me"]);
}

#[tokio::test]
async fn a_prompt_no_command_line_can_hold_goes_to_stdin() {
    let long = "ä\n\"".repeat(15_000);
    for (os, program) in [(Os::Windows, r"C:\n\deveco.exe"), (Os::Windows, r"C:\n\deveco.cmd")] {
        let prompt = if program.ends_with("cmd") { "short" } else { &long };
        let (launch, writes) = planned(os, program, prompt, options()).await;
        assert_eq!(launch.args.last().map(String::as_str), Some("/w"), "{program}");
        assert_eq!(writes, [prompt], "{program}");
    }
}

#[tokio::test]
async fn servers_go_into_the_environment() {
    let mcp_config = McpConfig::parse(r#"{"mcpServers":{"r":{"url":"https://h"}}}"#).unwrap();
    let (launch, _) = planned(Os::Linux, "/d", "p", ExecuteOptions { mcp_config, ..options() }).await;
    let want = r#"{"mcp":{"r":{"type":"remote","url":"https://h"}}}"#;
    assert_eq!(launch.env[1], (CONFIG_VARIABLE.to_owned(), want.to_owned()));
}

#[test]
fn events_decode_like_those_of_the_engine() {
    let finish = r#"{"type":"step_finish","part":{"tokens":{"total":10,"input":7,"output":3}}}"#;
    let o = run(&[STEP, OK, finish], clean_exit()).outcome;
    let counts = ModelUsage { input_tokens: Some(7), output_tokens: Some(3), ..Default::default() };
    assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, "ok"));
    assert_eq!(o.usage, Some(Usage::from([("deveco/GLM-X".to_owned(), counts)])));

    let d = run(&[STEP, OK, TOOL, FINISH], clean_exit());
    assert!(matches!(
        &d.messages[..],
        [Message::Status { .. }, Message::Text { .. }, Message::ToolUse { .. }, Message::ToolResult { .. }]
    ));
    assert_eq!(d.outcome.status, RunStatus::Completed);

    let missing = r#"{"type":"tool_use","part":{"tool":"read","callID":"c","state":{"status":"error","error":"File not found: /m"}}}"#;
    let d = run(&[STEP, missing, FINISH], clean_exit());
    assert!(
        matches!(d.messages.last(), Some(Message::ToolResult { output, .. }) if output == "File not found: /m")
    );
    assert_eq!(d.outcome.status, RunStatus::Completed);
}

#[test]
fn failures_speak_with_its_name() {
    let bad_model =
        r#"{"type":"error","error":{"name":"UnknownError","data":{"message":"Model not found: bad/m"}}}"#;
    let cases: &[(&[&str], End, &str)] = &[
        (&[bad_model, STEP, FINISH], clean_exit(), "Model not found: bad/m"),
        (&[r#"{"type":"error"}"#], clean_exit(), "unknown deveco error"),
        (&[STEP, OK], clean_exit(), "deveco stream ended without a terminal signal (step still open at EOF)"),
        (&[], exit(3, ""), "deveco exited with error: exit status 3"),
        (&[STEP, OK, FINISH], exit(3, ""), "deveco exited with error: exit status 3"),
        (&[bad_model], exit(1, ""), "Model not found: bad/m"),
        (&[], clean_exit(), "deveco stream ended without a terminal signal (no events)"),
    ];
    for (events, end, error) in cases {
        let o = run(events, end.clone()).outcome;
        assert_eq!((o.status, o.error.as_deref()), (RunStatus::Failed, Some(*error)));
    }
    // A build without step events stays usable.
    assert_eq!(run(&[OK], clean_exit()).outcome.output, "ok");
}

#[test]
fn the_binary_behind_a_windows_launcher() {
    let find = |launcher: &str, present: &str| {
        native::beside_launcher(Os::Windows, Path::new(launcher), NATIVE, |p| {
            p.to_str().unwrap().contains(present)
        })
        .map(|p| p.to_str().unwrap().to_owned())
    };
    for (launcher, present, want) in [
        (r"C:\n\deveco.CMD", "", Some(r"C:\n\node_modules\@deveco\deveco-code\bin\deveco.exe")),
        (
            r"C:\n\deveco.CMD",
            "baseline",
            Some(r"C:\n\node_modules\@deveco\deveco-code-windows-x64-baseline\bin\deveco.exe"),
        ),
        (r"C:\n\deveco.CMD", "nothing", None),
        (r"C:\n\deveco.exe", "", None),
    ] {
        assert_eq!(find(launcher, present).as_deref(), want, "{launcher} {present}");
    }
}
