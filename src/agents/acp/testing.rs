//! A scripted agent over an in-memory pipe.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::dialogue::{AcpDialogue, Plan};
use super::profile::AcpProfile;
use super::{mcp, plan as plan_of};
use crate::agents::{Dialogue, DialogueIo, Emitter, End, Exit, LaunchContext, Stop, StopSignal, converge};
use crate::contract::options::EnvList;
use crate::contract::{ExecuteOptions, McpConfig, Message, Os, Outcome};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;
use crate::process::stderr::StderrTail;
use crate::wire::rpc::{Sink, Source};

/// What one scripted run gave.
#[derive(Debug)]
pub struct Run {
    pub messages: Vec<Message>,
    pub outcome: Outcome,
    /// Every frame of the client, in order.
    pub sent: Vec<Value>,
    /// From the start to the end of the conversation.
    pub took: Duration,
}

impl Run {
    pub fn methods(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|f| f["method"].as_str()).collect()
    }
    pub fn params(&self, method: &str) -> &Value {
        &self.sent.iter().find(|f| f["method"] == method).unwrap_or_else(|| panic!("no {method} was sent"))["params"]
    }
    /// The text of the prompt block.
    pub fn prompt(&self) -> &str {
        self.params("session/prompt")["prompt"][0]["text"].as_str().expect("a text block")
    }
    /// The messages without logs and status.
    pub fn spoken(&self) -> Vec<Message> {
        crate::agents::testing::spoken(&self.messages)
    }
    pub fn warnings(&self) -> Vec<&str> {
        let warned = |m: &'_ Message| matches!(m, Message::Log { level, .. } if level == "warn");
        self.messages
            .iter()
            .filter(|m| warned(m))
            .map(|m| match m {
                Message::Log { content, .. } => content.as_str(),
                _ => unreachable!("filtered"),
            })
            .collect()
    }
    pub fn error(&self) -> &str {
        self.outcome.error.as_deref().unwrap_or_default()
    }
    pub fn kind(&self) -> Option<crate::contract::FailureKind> {
        self.outcome.failure.as_ref().map(|f| f.kind)
    }
    /// (input, output, cache read, cache write, cost) under `model`.
    pub fn usage(&self, model: &str) -> [Option<u64>; 5] {
        let usage = self.outcome.usage.as_ref().and_then(|u| u.get(model)).copied().unwrap_or_default();
        [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.cost_usd_ticks,
        ]
    }
}

/// Options with a prompt, as a run would hand them over.
pub struct Setting {
    pub profile: &'static AcpProfile,
    pub options: ExecuteOptions,
    pub prompt: String,
    pub exit: Exit,
}

impl Setting {
    pub fn new(profile: &'static AcpProfile) -> Self {
        let options = ExecuteOptions { cwd: "/w".into(), ..Default::default() };
        Setting { profile, options, prompt: "P".into(), exit: Exit::code(0) }
    }
    pub fn with(mut self, change: impl FnOnce(&mut ExecuteOptions)) -> Self {
        change(&mut self.options);
        self
    }
    pub fn resume(self, id: &str) -> Self {
        self.with(|o| o.resume_session_id = Some(id.into()))
    }
    pub fn model(self, model: &str) -> Self {
        self.with(|o| o.model = Some(model.into()))
    }
    pub fn level(self, level: &str) -> Self {
        self.with(|o| o.thinking_level = Some(level.into()))
    }
    pub fn mcp(self, config: &str) -> Self {
        self.with(|o| o.mcp_config = McpConfig::parse(config).expect("test config"))
    }
    pub fn env(self, entries: &[(&str, &str)]) -> Self {
        self.with(|o| o.env = EnvList(entries.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()))
    }
    /// Another executable than the vendor's own.
    pub fn custom_binary(self) -> Self {
        self.with(|o| o.executable_path = Some("/opt/other".into()))
    }

    fn plan(&self) -> Plan {
        let env = ChildEnv::new(&self.options.host_env, &self.options.env, Os::Linux);
        let program = "/opt/cli".into();
        let prober = Prober::new(std::path::PathBuf::from("/opt/cli"), Vec::new(), env.clone());
        let files = RunFiles::default();
        let context = LaunchContext {
            prompt: &self.prompt,
            options: &self.options,
            env: &env,
            program: &program,
            prober: &prober,
            files: &files,
            os: Os::Linux,
            run_id: "run",
            attempt: 1,
        };
        plan_of(&[self.profile.name], &context).expect("a plan")
    }

    /// Plays `script` against the client. The agent's stdout ends with the script.
    pub async fn play(self, script: impl AsyncFnOnce(&mut FakeAgent)) -> Run {
        let began = Instant::now();
        let mut dialogue = AcpDialogue::new(self.profile, self.plan());
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (stdout, stdin) = tokio::io::split(ours);
        let (sender, mut receiver) = mpsc::channel(100_000);
        let emit = Emitter::new(sender);
        let (stop, signal) = StopSignal::pair();
        let stderr = StderrTail::default();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let (reader, writer) = tokio::io::split(theirs);
        let mut agent = FakeAgent {
            frames: BufReader::new(reader).lines(),
            writer: Some(writer),
            sent: sent.clone(),
            stderr: stderr.clone(),
            stop,
            emit: emit.clone(),
            stopped: None,
            last: Value::Null,
        };
        let io = DialogueIo {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            emit: emit.clone(),
            stop: signal,
            stderr: stderr.clone(),
        };
        let conversation = dialogue.converse(io);
        let scripted = async {
            script(&mut agent).await;
            agent.hang_up().await;
            agent.rest().await;
        };
        // A client that hangs must fail the test, not hold it; time is paused, so this costs nothing.
        let timed = async {
            conversation.await;
            began.elapsed()
        };
        let both = async { tokio::join!(timed, scripted) };
        let (took, ()) =
            tokio::time::timeout(Duration::from_secs(600), both).await.expect("the conversation ends");
        let mut messages = Vec::new();
        while let Ok(message) = receiver.try_recv() {
            messages.push(message);
        }
        let end =
            End { stop: agent.stopped.take(), exit: self.exit, stderr: stderr.text(), ..Default::default() };
        let evidence = dialogue.evidence(&end);
        let mut outcome = converge(self.profile.name, self.profile.name, evidence, &end);
        dialogue.conclude(&mut outcome, &end);
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        for frame in &sent {
            check(frame);
        }
        Run { messages, outcome, sent, took }
    }

    /// The session answers `initialize` with `{}` and opens `s1` (or the asked one); then `turn` runs with the
    /// prompt request taken.
    pub async fn turn(self, turn: impl AsyncFnOnce(&mut FakeAgent)) -> Run {
        let resume = self.options.resume_session_id.is_some().then(|| self.profile.resume.method());
        let auth = self.profile.hooks.authenticate.is_some();
        let model = self.options.model.is_some();
        self.play(async |a| {
            let methods = if auth { json!([{"id":"cached_token"}]) } else { json!([]) };
            a.take("initialize").await;
            a.reply(json!({ "authMethods": methods })).await;
            if auth {
                a.take("authenticate").await;
                a.reply(json!({})).await;
            }
            match resume {
                Some(method) => {
                    a.take(method).await;
                    a.reply(json!({})).await;
                }
                None => {
                    a.take("session/new").await;
                    a.reply(json!({ "sessionId": "s1" })).await;
                }
            }
            if model {
                a.take("session/set_model").await;
                a.reply(json!({})).await;
            }
            a.take("session/prompt").await;
            turn(a).await;
        })
        .await
    }
}

pub struct FakeAgent {
    frames: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: Option<WriteHalf<DuplexStream>>,
    sent: Arc<Mutex<Vec<Value>>>,
    stderr: StderrTail,
    stop: watch::Sender<Option<Stop>>,
    emit: Emitter,
    stopped: Option<Stop>,
    /// The request taken last.
    pub last: Value,
}

impl FakeAgent {
    /// The next frame of the client; `None` at the end of its input.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.frames.next_line().await.ok().flatten()?;
        let frame: Value = serde_json::from_str(&line).expect("the client sends JSON");
        self.sent.lock().unwrap().push(frame.clone());
        Some(frame)
    }

    /// The next frame, which must be this request or notification.
    pub async fn take(&mut self, method: &str) -> Value {
        let frame =
            self.next().await.unwrap_or_else(|| panic!("the client left instead of sending {method}"));
        assert_eq!(frame["method"], method, "{frame}");
        self.last = frame.clone();
        frame
    }

    pub async fn reply(&mut self, result: Value) {
        let id = self.last["id"].clone();
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    pub async fn fail(&mut self, code: i64, message: &str, data: Value) {
        let mut error = json!({ "code": code, "message": message });
        if !data.is_null() {
            error["data"] = data;
        }
        let id = self.last["id"].clone();
        self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    pub async fn end_turn(&mut self) {
        self.reply(json!({ "stopReason": "end_turn" })).await;
    }

    pub async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    pub async fn text(&mut self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content })).await;
    }

    /// Asks the client something and gives its answer.
    pub async fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.next().await.expect("an answer")
    }

    pub async fn send(&mut self, frame: Value) {
        self.line(&frame.to_string()).await;
    }

    pub async fn line(&mut self, line: &str) {
        // The client may be gone already; what it missed shows in the outcome.
        if let Some(writer) = &mut self.writer {
            let _ = writer.write_all(format!("{line}\n").as_bytes()).await;
        }
    }

    /// Ends the agent's stdout.
    async fn hang_up(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            // The client may be gone already.
            let _ = writer.shutdown().await;
        }
    }

    pub fn stderr(&self, text: &str) {
        self.stderr.push(text.as_bytes());
    }

    pub async fn wait(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// The run is being stopped, as the supervisor does it.
    pub fn stop(&mut self, stop: Stop) {
        if self.stopped.is_none() && !self.emit.is_terminal() {
            self.stopped = Some(stop.clone());
        }
        self.stop.send_replace(Some(stop));
    }

    /// Reads on until the client closes our input.
    pub async fn rest(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Connects a script with something else than a whole dialogue.
pub async fn connect<T>(
    script: impl AsyncFnOnce(&mut FakeAgent),
    client: impl AsyncFnOnce(Source, Sink) -> T,
) -> T {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (source, sink) = tokio::io::split(ours);
    let (reader, writer) = tokio::io::split(theirs);
    let mut agent = FakeAgent {
        frames: BufReader::new(reader).lines(),
        writer: Some(writer),
        sent: Arc::default(),
        stderr: StderrTail::default(),
        stop: StopSignal::pair().0,
        emit: Emitter::new(mpsc::channel(1).0),
        stopped: None,
        last: Value::Null,
    };
    let scripted = async {
        script(&mut agent).await;
        agent.hang_up().await;
        agent.rest().await;
    };
    tokio::join!(client(Box::new(source), Box::new(sink)), scripted).0
}

/// The shape every frame of ours has.
fn check(frame: &Value) {
    assert_eq!(frame["jsonrpc"], "2.0", "{frame}");
    let answers = frame.get("result").is_some() != frame.get("error").is_some();
    let requests = frame["method"].is_string() && frame["params"].is_object();
    assert!(requests != answers, "{frame}");
}

/// A recording: what a real CLI wrote to its stdout and stderr, and what its driver had asked.
pub struct Recording {
    pub stdin: String,
    pub stdout: String,
    pub stderr: String,
}

impl Recording {
    /// `__test__/recordings/<cli>/<scenario>.*`
    pub fn load(cli: &str, scenario: &str) -> Self {
        let base = format!("{}/__test__/recordings/{cli}/{scenario}", env!("CARGO_MANIFEST_DIR"));
        let read = |end: &str| std::fs::read_to_string(format!("{base}.{end}"));
        Recording {
            stdin: read("stdin.jsonl").expect("a recorded stdin"),
            stdout: read("stdout.jsonl").expect("a recorded stdout"),
            stderr: read("stderr.txt").unwrap_or_default(),
        }
    }

    /// Plays the agent's side. Answers are matched to requests by method, so the ids of the recording do not
    /// matter. What follows the last answer before the prompt's waits for the prompt. `cancel`: the run is
    /// stopped before the prompt's answer.
    pub async fn play(&self, agent: &mut FakeAgent, cancel: bool) {
        agent.stderr(&self.stderr);
        let asked: Vec<Value> = self.stdin.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        let method_of = |frame: &Value| -> Option<String> {
            if frame.get("method").is_some() {
                return None;
            }
            let request =
                asked.iter().find(|a| a.get("method").is_some() && a.get("id") == frame.get("id"))?;
            Some(request["method"].as_str()?.to_owned())
        };
        let lines: Vec<(&str, Option<Value>)> =
            self.stdout.lines().map(|l| (l, serde_json::from_str(l).ok())).collect();
        let set_up =
            |frame: &Option<Value>| frame.as_ref().and_then(method_of).is_some_and(|m| m != "session/prompt");
        let last_set_up = lines.iter().rposition(|(_, frame)| set_up(frame));
        for (at, (line, frame)) in lines.iter().enumerate() {
            if Some(at) == last_set_up.map(|i| i + 1) && agent.take_any("session/prompt").await.is_none() {
                return;
            }
            let Some(frame) = frame else {
                agent.line(line).await;
                continue;
            };
            match method_of(frame) {
                Some(method) if method == "session/prompt" => {
                    if cancel {
                        let prompt = agent.last.clone();
                        agent.stop(Stop::cancelled());
                        agent.take("session/cancel").await;
                        agent.last = prompt;
                    }
                    agent.answer_with(frame).await;
                }
                Some(method) => {
                    // The recorded driver went on after an error; the client may not.
                    if agent.take_any(&method).await.is_none() {
                        return;
                    }
                    agent.answer_with(frame).await;
                }
                None => {
                    agent.line(line).await;
                    if frame.get("id").is_some() && frame.get("method").is_some() {
                        let answer = agent.next().await.expect("an answer");
                        assert_eq!(answer["id"], frame["id"]);
                    }
                }
            }
        }
    }
}

impl FakeAgent {
    /// Like `take`, for a request that may not come: the client may have ended.
    async fn take_any(&mut self, method: &str) -> Option<()> {
        let frame = self.next().await?;
        assert_eq!(frame["method"], method, "{frame}");
        self.last = frame;
        Some(())
    }

    async fn answer_with(&mut self, recorded: &Value) {
        let mut frame = recorded.clone();
        frame["id"] = self.last["id"].clone();
        self.send(frame).await;
    }
}

/// Servers that pass every gate, for a look at what `session/new` carries.
pub fn servers(config: &str) -> Vec<Value> {
    mcp::convert(McpConfig::parse(config).expect("test config").as_ref()).expect("servers").entries
}
