use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::session_log::{self, TurnError, TurnLog};
use super::{PROFILE, stderr_line};
use crate::agents::acp::testing::{Recording, Run, Setting};
use crate::agents::acp::{AfterExit, arguments};
use crate::contract::options::EnvList;
use crate::contract::{ExecuteOptions, FailureKind, Message, ModelUsage, Os, RunStatus};
use crate::process::env::ChildEnv;

fn kimi() -> Setting {
    Setting::new(&PROFILE)
}

#[test]
fn arguments_hold_no_approval_flag() {
    let custom = ["acp", "--foo", "1"].map(String::from).to_vec();
    let options = ExecuteOptions { custom_args: custom, ..Default::default() };
    assert_eq!(arguments(&PROFILE, &options), ["acp", "--foo", "1"]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_before_the_answer_stays_out() {
    let run = kimi()
        .resume("k1")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/resume").await;
            a.text("old").await;
            a.reply(json!({})).await;
            a.take("session/prompt").await;
            a.text("new").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(run.spoken(), [Message::text("new")]);
    assert_eq!((run.outcome.output.as_str(), run.outcome.session_id.as_deref()), ("new", Some("k1")));
}

#[tokio::test(start_paused = true)]
async fn model_and_level_are_set_in_order() {
    let run = kimi()
        .model("k3")
        .level("max")
        .with(|o| o.system_prompt = Some("S".into()))
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/set_model").await;
            a.reply(json!({})).await;
            a.take("session/set_config_option").await;
            a.reply(json!({"configOptions":[{"id":"thinking","currentValue":"max"}]})).await;
            a.take("session/prompt").await;
            a.text("x").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!(
        run.params("session/set_config_option"),
        &json!({"sessionId":"s1","configId":"thinking","value":"max"})
    );
    assert_eq!((run.prompt(), run.warnings().len()), ("S\n\n---\n\nP", 0));
}

/// `answer`: the result, or an error code.
async fn with_level(answer: Result<Value, i64>) -> Run {
    kimi()
        .level("max")
        .play(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.reply(json!({"sessionId":"s1"})).await;
            a.take("session/set_config_option").await;
            match answer {
                Ok(result) => a.reply(result).await,
                Err(code) => a.fail(code, "no", Value::Null).await,
            }
            a.take("session/prompt").await;
            a.text("x").await;
            a.end_turn().await;
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_level_is_a_warning() {
    for answer in
        [Err(-32603), Ok(json!({})), Ok(json!({"configOptions":[{"id":"thinking","currentValue":"on"}]}))]
    {
        let run = with_level(answer).await;
        let o = &run.outcome;
        assert_eq!(
            (o.status, o.resume_rejected, run.warnings().len()),
            (RunStatus::Completed, Some(false), 1)
        );
    }
    for setting in [kimi(), kimi().resume("s1")] {
        let run = setting
            .turn(async |a| {
                a.text("x").await;
                a.end_turn().await;
            })
            .await;
        assert!(!run.methods().contains(&"session/set_config_option"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_error_is_no_rejection_but_a_missing_session_is() {
    for (message, data, rejected) in [
        ("model not available: zz", Value::Null, false),
        ("Invalid params", json!({"session_id":"Session not found"}), true),
    ] {
        let run = kimi()
            .resume("k1")
            .model("zz")
            .play(async |a| {
                a.take("initialize").await;
                a.reply(json!({})).await;
                a.take("session/resume").await;
                a.reply(json!({})).await;
                a.take("session/set_model").await;
                a.fail(-32602, message, data).await;
            })
            .await;
        let o = &run.outcome;
        assert_eq!((o.status, o.resume_rejected), (RunStatus::Failed, Some(rejected)));
        assert_eq!(o.session_id.as_deref(), (!rejected).then_some("k1"));
        assert!(run.error().contains("zz"), "{}", run.error());
    }
}

#[tokio::test(start_paused = true)]
async fn counts_over_the_protocol_need_no_log() {
    let run = kimi()
        .turn(async |a| {
            a.text("x").await;
            a.reply(json!({"stopReason":"end_turn","usage":{"inputTokens":17,"outputTokens":5,"cachedReadTokens":3,
                "cachedWriteTokens":2,"costUsdTicks":900}}))
                .await;
        })
        .await;
    assert_eq!(run.usage("unknown"), [Some(17), Some(5), Some(3), Some(2), Some(900)]);
}

#[tokio::test(start_paused = true)]
async fn streamed_arguments_are_told_whole() {
    let run = kimi()
        .turn(async |a| {
            let frame = |kind: &str, more: Value| {
                let mut f = json!({"sessionUpdate":kind,"toolCallId":"c1"});
                f.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                f
            };
            let text = |t: &str| json!([{"type":"content","content":{"type":"text","text":t}}]);
            a.update(frame("tool_call", json!({"title":"Shell","content":text("")}))).await;
            a.update(frame("tool_call_update", json!({"status":"in_progress","content":text("{\"co")})))
                .await;
            a.update(frame("tool_call_update", json!({"content":text("{\"command\":\"ls\"}")}))).await;
            a.update(frame("tool_call_update", json!({"status":"completed","content":text("x")}))).await;
            a.end_turn().await;
        })
        .await;
    let Message::ToolUse { tool, input, .. } = &run.spoken()[0] else { panic!("{:?}", run.messages) };
    assert_eq!(
        (tool.as_str(), input.as_ref().map(|i| i.0.as_str())),
        ("terminal", Some(r#"{"command":"ls"}"#))
    );
}

#[tokio::test(start_paused = true)]
async fn its_own_stderr_lines_tell_which_error_ended_the_turn() {
    let stderr = "provider.api_error: 429 slow down\nprovider.api_error: 400 the message at position 7 with role \
        'assistant' must not be empty\n";
    let run = kimi()
        .resume("k1")
        .turn(async |a| {
            a.stderr(stderr);
            a.end_turn().await;
        })
        .await;
    let o = &run.outcome;
    assert_eq!(
        (o.status, o.resume_rejected, o.session_id.as_deref()),
        (RunStatus::Failed, Some(true), Some("k1"))
    );
    assert!(
        run.error().contains("provider.api_error: 400") && run.error().contains("position 7"),
        "{}",
        run.error()
    );
    let run = kimi()
        .resume("k1")
        .turn(async |a| {
            a.stderr("provider.api_error: 429 slow down\n");
            a.text("ok").await;
            a.end_turn().await;
        })
        .await;
    assert_eq!((run.outcome.status, run.outcome.output.as_str()), (RunStatus::Completed, "ok"));
}

#[test]
fn a_line_of_its_own_is_tagged() {
    for (line, terminal, tag) in [
        ("x provider.api_error: 400 Error: bad", true, "provider.api_error: 400 bad"),
        ("provider.api_error: 401 no key", true, "provider.api_error: 401 no key"),
        ("provider.api_error: 429 slow", false, "provider.api_error: 429 slow"),
        ("provider.api_error", false, "provider.api_error"),
    ] {
        let got = stderr_line(line).unwrap();
        assert_eq!((got.terminal, got.tag.as_str()), (terminal, tag), "{line}");
    }
    assert!(stderr_line("all well").is_none());
}

// ---- the session log -------------------------------------------------------------------------

struct Home {
    folder: tempfile::TempDir,
    started: SystemTime,
    resumed: bool,
}

impl Home {
    fn new() -> Self {
        let started = SystemTime::now() - Duration::from_secs(5);
        Home { folder: tempfile::tempdir().unwrap(), started, resumed: false }
    }

    fn resumed() -> Self {
        Home { resumed: true, ..Home::new() }
    }

    fn log(&self, session: &str, agent: &str) -> PathBuf {
        self.folder.path().join("sessions/wd_x").join(session).join("agents").join(agent).join("wire.jsonl")
    }

    fn write(&self, session: &str, agent: &str, records: &[String]) -> PathBuf {
        let path = self.log(session, agent);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, records.join("\n")).unwrap();
        path
    }

    /// A record of this age in seconds (negative = after the start); `None` = without a time.
    fn record(&self, model: &str, counts: [u64; 4], age: Option<i64>) -> String {
        let [input, output, read, write] = counts;
        let mut record = json!({"type":"usage.record","model":model,"usage":{"inputOther":input,"output":output,
            "inputCacheRead":read,"inputCacheCreation":write}});
        if let Some(age) = age {
            let start = self.started.duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
            record["time"] = json!(start - age * 1000);
        }
        record.to_string()
    }

    fn env(&self) -> ChildEnv {
        env(&[("KIMI_CODE_HOME", self.folder.path())])
    }

    fn read(&self, session: &str) -> TurnLog {
        self.read_with(session, &self.env())
    }

    fn read_with(&self, session: &str, env: &ChildEnv) -> TurnLog {
        let (resumed, started) = (self.resumed, self.started);
        session_log::read(&AfterExit { env, session_id: session, resumed, started, model: "m9" })
    }
}

fn env(entries: &[(&str, &Path)]) -> ChildEnv {
    let list = entries.iter().map(|(n, v)| ((*n).to_owned(), v.to_str().unwrap().to_owned())).collect();
    ChildEnv::new(&EnvList(list), &EnvList::default(), Os::Linux)
}

fn counts(log: &TurnLog, model: &str) -> Option<ModelUsage> {
    log.usage.get(model).copied()
}

#[test]
fn calls_are_summed_and_steps_not_counted_again() {
    let home = Home::new();
    let step = json!({"type":"context.append_loop_event","event":{"type":"step.end","usage":{"inputOther":100,"output":10}}});
    home.write(
        "k1",
        "main",
        &[
            home.record("a", [100, 10, 300, 0], Some(-1)),
            step.to_string(),
            home.record("a", [7, 2, 400, 5], Some(-1)),
            r#"{"type":"usage.record","model":"a","usage":{"inputOth"#.into(),
        ],
    );
    home.write("k1", "sub-1", &[home.record("b", [3, 0, 0, 0], Some(-1))]);
    home.write("other", "main", &[home.record("a", [9, 9, 9, 9], Some(-1))]);
    let log = home.read("k1");
    assert_eq!(counts(&log, "a"), Some(ModelUsage::tokens(107, 12, 700, 5)));
    assert_eq!(counts(&log, "b"), Some(ModelUsage::tokens(3, 0, 0, 0)));
    assert_eq!((log.usage.len(), log.error), (2, None));
}

#[test]
fn a_resumed_session_counts_from_its_start() {
    let home = Home::resumed();
    let path = home.write(
        "k1",
        "main",
        &[home.record("a", [50, 5, 0, 0], Some(3600)), home.record("a", [3, 1, 0, 0], Some(-1))],
    );
    // A file system may keep whole seconds only.
    let whole = UNIX_EPOCH + Duration::from_secs(home.started.duration_since(UNIX_EPOCH).unwrap().as_secs());
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(whole).unwrap();
    assert_eq!(counts(&home.read("k1"), "a"), Some(ModelUsage::tokens(3, 1, 0, 0)));
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(whole - Duration::from_secs(2))
        .unwrap();
    assert_eq!(home.read("k1"), TurnLog::default(), "an untouched file is not of this run");
}

#[test]
fn a_record_without_a_time_or_a_model() {
    for (home, counted) in [(Home::new(), true), (Home::resumed(), false)] {
        home.write("k1", "main", &[home.record("", [1, 1, 0, 0], None)]);
        assert_eq!(counts(&home.read("k1"), "m9").is_some(), counted);
    }
}

#[test]
fn an_id_cannot_name_another_folder() {
    let home = Home::new();
    for id in ["", ".", "..", "a/b", "../x", "a\\b", "a\0b"] {
        assert_eq!(home.read(id), TurnLog::default(), "{id:?}");
    }
    // A workspace's own `agents` folder would be found under these.
    let stray = home.folder.path().join("sessions/wd_x/agents/main");
    std::fs::create_dir_all(&stray).unwrap();
    std::fs::write(stray.join("wire.jsonl"), home.record("a", [1, 1, 1, 1], Some(-1))).unwrap();
    assert_eq!((home.read(""), home.read(".")), (TurnLog::default(), TurnLog::default()));
}

#[test]
fn the_home_of_the_child_counts() {
    let (host, caller, user) = (Home::new(), Home::new(), Home::new());
    for (home, n) in [(&host, 1), (&caller, 2)] {
        home.write("k1", "main", &[home.record("a", [n, 0, 0, 0], Some(-1))]);
    }
    let own = user.folder.path().join(".kimi-code");
    std::fs::create_dir_all(&own).unwrap();
    user.write("k1", "main", &[user.record("a", [3, 0, 0, 0], Some(-1))]);
    std::fs::rename(user.folder.path().join("sessions"), own.join("sessions")).unwrap();

    let entry = |h: &Home| ("KIMI_CODE_HOME".to_owned(), h.folder.path().to_str().unwrap().to_owned());
    let both = ChildEnv::new(&EnvList(vec![entry(&host)]), &EnvList(vec![entry(&caller)]), Os::Linux);
    let input = |env: &ChildEnv| counts(&host.read_with("k1", env), "a").and_then(|u| u.input_tokens);
    assert_eq!((input(&both), input(&host.env())), (Some(2), Some(1)));
    let empty = tempfile::tempdir().unwrap();
    let fallback = env(&[("KIMI_CODE_HOME", empty.path()), ("HOME", user.folder.path())]);
    assert_eq!(input(&fallback), Some(3), "a configured home without sessions falls through");
    assert_eq!((input(&env(&[("HOME", user.folder.path())])), input(&env(&[]))), (Some(3), None));
}

#[test]
fn a_cancelled_call_counts_nothing() {
    let home = Home::new();
    home.write("k1", "main", &[home.record("a", [0, 0, 0, 0], Some(-1))]);
    assert_eq!(home.read("k1"), TurnLog::default());
}

#[test]
fn the_code_of_an_error_gives_its_kind() {
    use FailureKind::*;
    for (code, status, message, want) in [
        ("context.overflow", None, "Compaction failed", ContextOverflow),
        ("provider.rate_limit", Some(429), "slow", RateLimit),
        ("provider.connection_error", None, "x", Network),
        ("auth.token_missing", None, "x", Auth),
        ("provider.api_error", Some(400), "400 mock: bad request", InvalidRequest),
        ("provider.api_error", Some(400), "maximum context length is 5", ContextOverflow),
        ("provider.api_error", Some(400), "400 Invalid request: no.", InvalidRequest),
        ("provider.api_error", Some(418), "teapot", InvalidRequest),
        ("provider.api_error", None, "oops", Provider),
        ("provider.api_error", Some(500), "x", Provider),
        ("odd", None, "odd", Unknown),
    ] {
        let error = TurnError { code: code.into(), message: message.into(), status };
        assert_eq!(super::kind(&error), want, "{code} {message}");
    }
}

#[test]
fn the_end_of_the_turn_tells_why_it_failed() {
    let home = Home::new();
    let ended = |more: Value| {
        let mut record = json!({"type":"turn.ended","time":9999999999999u64});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record.to_string()
    };
    let failed = ended(json!({"reason":"failed","error":{"code":"provider.rate_limit","message":"429 slow",
        "details":{"statusCode":429},"cause":{"message":"why"}}}));
    home.write("k1", "main", std::slice::from_ref(&failed));
    let error = home.read("k1").error.unwrap();
    assert_eq!((error.message.as_str(), error.status), ("429 slow (why)", Some(429)));
    home.write("k1", "main", &[failed.clone(), ended(json!({"reason":"completed"}))]);
    assert_eq!(home.read("k1").error, None, "the last turn counts");
    home.write("k1", "main", &[ended(json!({"reason":"failed"}))]);
    assert!(home.read("k1").error.unwrap().message.contains("no reason given"));
    home.write("k1", "main", &[]);
    home.write("k1", "sub-1", &[failed]);
    assert_eq!(home.read("k1").error, None, "a sub-agent's failure is the main agent's to judge");
}

// ---- recordings of kimi-code 2.1.0 -----------------------------------------------------------

async fn recorded_with(setting: Setting, scenario: &str, cancel: bool) -> Run {
    let recording = Recording::load("kimi-code-2.1.0", scenario);
    setting.play(async |a| recording.play(a, cancel).await).await
}

/// Plays `scenario` with the recorded session log in place.
async fn with_log(scenario: &str, log: &str) -> Run {
    let recording = Recording::load("kimi-code-2.1.0", scenario);
    let home = Home::new();
    let log = format!("{}/__test__/recordings/kimi-code-2.1.0/{log}.wire.jsonl", env!("CARGO_MANIFEST_DIR"));
    let records = std::fs::read_to_string(log).unwrap();
    let session = recording.stdin.lines().rev().find_map(|l| {
        let frame: Value = serde_json::from_str(l).ok()?;
        Some(frame["params"]["sessionId"].as_str()?.to_owned())
    });
    // The records are older than this test's run: as in a fresh session, only their times would tell.
    let records: Vec<String> = records
        .lines()
        .map(|l| {
            let mut record: Value = serde_json::from_str(l).unwrap();
            record.as_object_mut().unwrap().remove("time");
            record.to_string()
        })
        .collect();
    home.write(&session.unwrap(), "main", &records);
    let path = home.folder.path().to_str().unwrap().to_owned();
    let setting = kimi().env(&[("KIMI_CODE_HOME", path.as_str())]);
    setting.play(async |a| recording.play(a, false).await).await
}

fn texts(run: &Run) -> Vec<String> {
    run.spoken()
        .into_iter()
        .map(|m| match m {
            Message::Text { content, .. } => content,
            Message::Thinking { content, .. } => format!("(thinking){content}"),
            Message::ToolUse { tool, input, .. } => {
                format!("(use){tool} {}", input.map_or(String::new(), |i| i.0))
            }
            Message::ToolResult { output, is_error, .. } => format!("(result {}){output}", is_error.unwrap()),
            other => format!("{other:?}"),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn recorded_turns() {
    let run = recorded_with(kimi(), "text", false).await;
    assert_eq!(texts(&run), ["Hello", " from the", " mock model", "."]);
    assert_eq!(
        (run.outcome.status, run.outcome.output.as_str()),
        (RunStatus::Completed, "Hello from the mock model.")
    );
    assert_eq!(run.outcome.usage, None, "no log, no counts");

    let run = recorded_with(kimi(), "thinking", false).await;
    assert_eq!(texts(&run)[..3], ["(thinking)Let me", "(thinking) think about", "(thinking) it."]);

    let run = with_log("narrated-tool", "wire-narrated-tool").await;
    assert_eq!(
        texts(&run),
        [
            "I will run it. ",
            r#"(use)terminal {"command":"echo hi"}"#,
            "(result false)hi\n",
            "The tool",
            " said: ",
            "hi"
        ]
    );
    assert_eq!(run.usage("__kimi_env_model__"), [Some(890), Some(112), Some(1578), Some(0), None]);
    assert_eq!(run.outcome.output, "The tool said: hi");

    let run = recorded_with(kimi(), "multi", false).await;
    let uses: Vec<String> = texts(&run).into_iter().filter(|t| t.starts_with('(')).collect();
    assert_eq!(
        uses,
        [
            r#"(use)terminal {"command":"echo one"}"#,
            r#"(use)terminal {"command":"echo two"}"#,
            "(result false)one\n",
            "(result false)two\n"
        ]
    );
    for (scenario, words) in [("tool-fail", "exit code: 3"), ("tool-reject", "rejected the approval request")]
    {
        let run = recorded_with(kimi(), scenario, false).await;
        let result = texts(&run).into_iter().find(|t| t.starts_with("(result true)")).unwrap();
        assert!(result.contains(words), "{result}");
        assert_eq!(run.outcome.status, RunStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_failures() {
    let run = recorded_with(kimi(), "error-401", false).await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Auth)));
    assert!(run.error().contains("invalid x-api-key"), "{}", run.error());

    let run = with_log("error-429", "wire-error-429").await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::RateLimit)));
    assert_eq!(run.error(), "kimi provider error: 429 mock: rate limited");
    assert!(run.outcome.failure.unwrap().retryable);

    for scenario in ["error-400", "error-429"] {
        let run = recorded_with(kimi(), scenario, false).await;
        assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Provider)));
    }
    let run = recorded_with(kimi(), "new-nologin", false).await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::Auth)));
    assert_eq!(run.outcome.failure.unwrap().hint.as_deref(), Some("log in with `kimi login`"));
}

#[tokio::test(start_paused = true)]
async fn recorded_sessions() {
    let run =
        recorded_with(kimi().resume("00000000-0000-4000-8000-000000000000"), "resume-unknown", false).await;
    let o = &run.outcome;
    assert_eq!((o.status, o.resume_rejected, &o.session_id), (RunStatus::Failed, Some(true), &None));
    let run =
        recorded_with(kimi().resume("session_4c0c9410-e286-4152-8f04-2a2e9c88c8b0"), "resume-known", false)
            .await;
    assert_eq!(
        (run.outcome.output.as_str(), run.outcome.resume_rejected),
        ("Hello from the mock model.", Some(false))
    );

    let run = recorded_with(kimi().model("no-such-model-x"), "set-model-bad", false).await;
    assert_eq!((run.outcome.status, run.kind()), (RunStatus::Failed, Some(FailureKind::ModelNotFound)));
    assert!(
        run.error().contains("no-such-model-x") && run.error().contains("config.toml"),
        "{}",
        run.error()
    );
    let run = recorded_with(kimi().model("__kimi_env_model__"), "set-model-good", false).await;
    assert_eq!(run.outcome.status, RunStatus::Completed);
    let run = recorded_with(kimi().level("off"), "thinking-off", false).await;
    assert_eq!((run.outcome.status, run.warnings()), (RunStatus::Completed, vec![]));
}

#[tokio::test(start_paused = true)]
async fn recorded_cancels() {
    for scenario in ["slow-cancel", "tool-slow-cancel"] {
        let run = recorded_with(kimi(), scenario, true).await;
        assert_eq!((run.outcome.status, &run.outcome.failure), (RunStatus::Aborted, &None), "{scenario}");
    }
}
