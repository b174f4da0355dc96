//! The dialogue against a scripted server in memory.

mod argv;
mod clocks;
mod items;
mod recordings;
mod requests;
mod resume;
mod start;
mod turn;
mod usage;

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, watch};

use super::AGENT;
use super::dialogue::{Codex, Plan};
use crate::agents::{
    Dialogue, DialogueIo, Emitter, End, Exit, LaunchContext, Retry, Stop, StopSignal, converge,
};
use crate::contract::{AgentplugError, ExecuteOptions, Message, Os, Outcome, RawJson};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;
use crate::process::stderr::StderrTail;

/// One start, as the caller and the run ask for it.
pub struct Ask {
    pub prompt: String,
    pub options: ExecuteOptions,
    pub attempt: u32,
    /// What is known about the process when it is over.
    pub end: End,
}

pub fn ask() -> Ask {
    let options = ExecuteOptions { cwd: PathBuf::from("/proj"), ..Default::default() };
    let end = End { exit: Exit::code(0), ..Default::default() };
    Ask { prompt: "Hi".to_owned(), options, attempt: 1, end }
}

impl Ask {
    pub fn with(mut self, change: impl FnOnce(&mut ExecuteOptions)) -> Self {
        change(&mut self.options);
        self
    }
    pub fn resume(self) -> Self {
        self.with(|o| o.resume_session_id = Some("T1".to_owned()))
    }
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }
    pub fn exit(mut self, code: i32, stderr: &str) -> Self {
        self.end = End { exit: Exit::code(code), stderr: stderr.to_owned(), ..Default::default() };
        self
    }

    pub fn plan(&self) -> Result<Plan, AgentplugError> {
        let env = ChildEnv::new(&self.options.host_env, &self.options.env, Os::Linux);
        let program = PathBuf::from("/bin/codex");
        let prober = Prober::new(program.clone(), Vec::new(), env.clone());
        Plan::new(&LaunchContext {
            prompt: &self.prompt,
            options: &self.options,
            env: &env,
            program: &program,
            prober: &prober,
            files: &RunFiles::default(),
            os: Os::Linux,
            run_id: "run",
            attempt: self.attempt,
        })
    }

    /// Runs the dialogue against `script` until both are done.
    pub async fn run(self, script: impl AsyncFnOnce(&mut Fake)) -> Ran {
        let mut codex = Codex::new(self.plan().expect("usable options"));
        let (to_client, stdout) = tokio::io::duplex(1 << 20);
        let (stdin, from_client) = tokio::io::duplex(1 << 20);
        let (queue, mut received) = mpsc::channel(1 << 16);
        let emit = Emitter::new(queue);
        let (stop_now, stop) = StopSignal::pair();
        let stderr = StderrTail::default();
        let mut fake = Fake {
            from_client: BufReader::new(from_client),
            to_client: Some(to_client),
            stop: stop_now,
            stderr: stderr.clone(),
            heard: Vec::new(),
        };
        let io = DialogueIo {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            emit: emit.clone(),
            stop,
            stderr: stderr.clone(),
        };
        tokio::join!(codex.converse(io), script(&mut fake));
        fake.to_client = None;
        fake.drain().await;
        let mut messages = Vec::new();
        while let Ok(message) = received.try_recv() {
            messages.push(message);
        }
        let mut end = self.end;
        end.stop = fake.stop.borrow().clone();
        if end.stderr.is_empty() {
            end.stderr = stderr.text();
        }
        let evidence = codex.evidence(&end);
        let retry = evidence.retry;
        let mut outcome = converge(AGENT.name, AGENT.id, evidence, &end);
        codex.conclude(&mut outcome, &end);
        Ran { messages, outcome, heard: fake.heard, retry, terminal: emit.is_terminal() }
    }
}

#[derive(Debug)]
pub struct Ran {
    pub messages: Vec<Message>,
    pub outcome: Outcome,
    /// Every frame the client wrote.
    pub heard: Vec<Value>,
    pub retry: Option<Retry>,
    pub terminal: bool,
}

impl Ran {
    pub fn error(&self) -> &str {
        self.outcome.error.as_deref().unwrap_or_default()
    }
    /// Everything but logs.
    pub fn spoken(&self) -> Vec<Message> {
        self.messages.iter().filter(|m| !matches!(m, Message::Log { .. })).cloned().collect()
    }
    /// Everything but logs and status.
    pub fn said(&self) -> Vec<Message> {
        crate::agents::testing::spoken(&self.messages)
    }
    pub fn logs(&self, level: &str) -> Vec<&str> {
        let log = |m: &'_ Message| matches!(m, Message::Log { level: l, .. } if l == level);
        self.messages
            .iter()
            .filter(|m| log(m))
            .map(|m| match m {
                Message::Log { content, .. } => content.as_str(),
                _ => unreachable!("filtered"),
            })
            .collect()
    }
    pub fn methods(&self) -> Vec<&str> {
        self.heard.iter().filter_map(|f| f["method"].as_str()).collect()
    }
    pub fn asked(&self, method: &str) -> &Value {
        &self.heard.iter().find(|f| f["method"] == method).expect("asked")["params"]
    }
}

/// The server's side.
pub struct Fake {
    from_client: BufReader<DuplexStream>,
    to_client: Option<DuplexStream>,
    pub stop: watch::Sender<Option<Stop>>,
    pub stderr: StderrTail,
    heard: Vec<Value>,
}

impl Fake {
    /// The next frame; `None` once the client has closed our stdin.
    pub async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.from_client.read_line(&mut line).await.expect("readable") == 0 {
            return None;
        }
        let frame: Value = serde_json::from_str(&line).expect("a whole JSON frame");
        self.heard.push(frame.clone());
        Some(frame)
    }
    async fn drain(&mut self) {
        while self.hear().await.is_some() {}
    }
    pub async fn expect(&mut self, method: &str) -> Value {
        let frame = self.hear().await.unwrap_or_else(|| panic!("stdin ended before {method}"));
        assert_eq!(frame["method"], method, "{frame}");
        frame
    }
    pub async fn raw(&mut self, text: &str) {
        // The client may have left already.
        let _ = self.to_client.as_mut().expect("open").write_all(text.as_bytes()).await;
    }
    pub async fn frame(&mut self, frame: Value) {
        self.raw(&format!("{frame}\n")).await;
    }
    pub async fn say(&mut self, method: &str, params: Value) {
        self.frame(json!({"method": method, "params": params, "emittedAtMs": 1})).await;
    }
    pub async fn reply(&mut self, to: &Value, result: Value) {
        self.frame(json!({"id": to["id"], "result": result})).await;
    }
    pub async fn refuse(&mut self, to: &Value, code: i64, message: &str) {
        self.frame(json!({"id": to["id"], "error": {"code": code, "message": message}})).await;
    }
    /// Answers the next request, which must be this one.
    pub async fn serve(&mut self, method: &str, result: Value) -> Value {
        let frame = self.expect(method).await;
        self.reply(&frame, result).await;
        frame
    }
    pub fn exit(&mut self) {
        self.to_client = None;
    }
    pub async fn initialize(&mut self) {
        self.serve("initialize", json!({"userAgent": "agentplug/0.171.0 (Debian 12) x (agentplug; 1)"}))
            .await;
        self.expect("initialized").await;
    }
    /// Up to a thread that is there.
    pub async fn begin(&mut self) {
        self.initialize().await;
        self.serve("thread/start", json!({"thread": {"id": "T1"}, "model": "m"})).await;
    }
    /// Up to a turn that runs.
    pub async fn turn(&mut self) {
        self.begin().await;
        self.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
        self.started().await;
    }
    pub async fn started(&mut self) {
        self.say("turn/started", json!({"threadId": "T1", "turn": {"id": "U1"}})).await;
    }
    pub async fn item(&mut self, what: &str, item: Value) {
        let params = json!({"threadId": "T1", "turnId": "U1", "item": item});
        self.say(&format!("item/{what}"), params).await;
    }
    pub async fn message(&mut self, text: &str, phase: Option<&str>) {
        let id = format!("m{}", text.len());
        self.item("completed", json!({"type": "agentMessage", "id": id, "text": text, "phase": phase})).await;
    }
    pub async fn completed(&mut self, status: &str, error: Value) {
        let turn = json!({"id": "U1", "status": status, "error": error});
        self.say("turn/completed", json!({"threadId": "T1", "turn": turn})).await;
    }
    pub async fn done(&mut self) {
        self.completed("completed", Value::Null).await;
    }
    pub async fn status(&mut self, kind: &str) {
        self.say("thread/status/changed", json!({"threadId": "T1", "status": {"type": kind}})).await;
    }
    pub async fn usage(&mut self, turn: &str, total: Value, last: Value) {
        let usage = json!({"total": total, "last": last});
        self.say("thread/tokenUsage/updated", json!({"threadId": "T1", "turnId": turn, "tokenUsage": usage}))
            .await;
    }
    pub async fn error(&mut self, error: Value, will_retry: bool) {
        let params = json!({"threadId": "T1", "turnId": "U1", "error": error, "willRetry": will_retry});
        self.say("error", params).await;
    }
    pub async fn pause(&self, ms: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
    }
}

pub fn raw(value: Value) -> Option<RawJson> {
    Some(RawJson(value.to_string()))
}

pub fn tool_result(tool: &str, call_id: &str, output: &str, is_error: Option<bool>) -> Message {
    Message::ToolResult {
        call_id: call_id.into(),
        tool: Some(tool.into()),
        output: output.into(),
        is_error,
        parent_call_id: None,
    }
}
