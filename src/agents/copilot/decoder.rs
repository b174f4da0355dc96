//! The event lines, ended by one `result` line.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::usage::{self, Counters, Counts};
use crate::agents::foreign::foreign;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{Failure, FailureKind, Message, Outcome, RawJson, RunStatus};

/// How one start was asked for.
pub struct Plan {
    /// `None`: the prompt is in the arguments.
    pub stdin: Option<String>,
    pub model: Option<String>,
    /// Chosen by us for a new session, or the one to resume.
    pub session_id: Option<String>,
    pub resumed: bool,
    /// What the session had used before this run; `None`: unknown, so its totals tell nothing of this run.
    pub before: Option<Counts>,
    /// The text of the usage file, once the process is gone.
    pub read_usage: Box<dyn FnOnce() -> Option<String> + Send>,
    /// Warnings of the planning, for the log.
    pub notes: Vec<String>,
}

pub struct CopilotDecoder {
    stdin: Option<String>,
    notes: Vec<String>,
    resumed: bool,
    before: Option<Counts>,
    read_usage: Option<Box<dyn FnOnce() -> Option<String> + Send>>,

    /// The id the session will have once its first message is stored.
    planned_id: Option<String>,
    session_id: Option<String>,
    announced: bool,
    /// Any event was read.
    seen: bool,
    active_model: String,
    /// The text of the last whole message.
    answer: String,
    /// The text streamed since.
    pending: String,
    /// Messages whose text was streamed.
    streamed: HashSet<String>,
    /// Where the reasoning of the current turn came from; the key is the sub-agent's call.
    thought: HashMap<Option<String>, Thought>,
    /// Calls that were announced, and their tools.
    tools: HashMap<String, String>,
    calls: Counts,
    messages: Counts,
    shutdown: Counts,
    error: Option<(String, Option<Failure>)>,
    aborted: Option<String>,
    result: Option<i64>,
}

/// One thought arrives as deltas, with its message and as an event of its own. The first form is passed on.
#[derive(Clone, Copy, PartialEq)]
enum Thought {
    Deltas,
    WithMessage,
    Whole,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    data: Option<Box<RawValue>>,
    session_id: Option<String>,
    exit_code: Option<Value>,
}

/// The fields of all the events that matter; which ones come depends on the event.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Data {
    session_id: Option<String>,
    selected_model: Option<String>,
    message_id: Option<String>,
    delta_content: Option<String>,
    content: Option<String>,
    reasoning_text: Option<String>,
    tool_requests: Option<Vec<ToolRequest>>,
    parent_tool_call_id: Option<String>,
    model: Option<String>,
    output_tokens: Option<f64>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    arguments: Option<Box<RawValue>>,
    success: Option<bool>,
    /// Of a shell command that ran: `success` is true whatever its exit code.
    shell_execution: Option<ShellExecution>,
    result: Option<Value>,
    error: Option<Value>,
    error_type: Option<String>,
    message: Option<String>,
    status_code: Option<u16>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellExecution {
    exit_code: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolRequest {
    tool_call_id: Option<String>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl CopilotDecoder {
    pub fn new(plan: Plan) -> Self {
        CopilotDecoder {
            stdin: plan.stdin,
            notes: plan.notes,
            resumed: plan.resumed,
            before: plan.before,
            read_usage: Some(plan.read_usage),
            planned_id: plan.session_id,
            session_id: None,
            announced: false,
            seen: false,
            active_model: plan.model.filter(|m| !m.is_empty()).unwrap_or_else(|| "copilot".to_owned()),
            answer: String::new(),
            pending: String::new(),
            streamed: HashSet::new(),
            thought: HashMap::new(),
            tools: HashMap::new(),
            calls: Counts::new(),
            messages: Counts::new(),
            shutdown: Counts::new(),
            error: None,
            aborted: None,
            result: None,
        }
    }

    fn announce(&mut self, id: Option<String>, out: &mut Output) {
        let id = id.filter(|id| !id.is_empty());
        if self.announced && (id.is_none() || self.session_id == id) {
            return;
        }
        self.announced = true;
        if id.is_some() {
            self.session_id.clone_from(&id);
        }
        out.emit(Message::running(id));
    }

    /// A model name with a part the CLI takes for a secret arrives masked.
    fn use_model(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|m| !m.is_empty() && *m != "unknown" && !m.contains("***")) {
            self.active_model = model.to_owned();
        }
    }

    fn event(&mut self, event: Event, out: &mut Output) {
        self.seen = true;
        if event.kind == "result" {
            self.result = Some(event.exit_code.as_ref().and_then(Value::as_i64).unwrap_or(0));
            if let Some(id) = event.session_id.filter(|id| !id.is_empty()) {
                self.session_id = Some(id);
            }
            out.terminal = true;
            return;
        }
        let raw = event.data.as_ref().map_or("{}", |d| d.get());
        let Ok(data) = serde_json::from_str::<Data>(raw) else { return };
        match event.kind.as_str() {
            "session.start" => {
                self.use_model(data.selected_model.as_deref());
                self.announce(data.session_id, out);
            }
            // From here on the session is stored and can be resumed.
            "user.message" => {
                if let Some(id) = self.planned_id.clone() {
                    self.announce(Some(id), out);
                }
            }
            "assistant.turn_start" => {
                self.thought.remove(&data.parent_tool_call_id);
                self.announce(self.planned_id.clone().filter(|_| self.session_id.is_none()), out);
            }
            "assistant.turn_retry" => {
                self.pending.clear();
                self.thought.remove(&data.parent_tool_call_id);
                let why = data.reason.as_deref().unwrap_or("an error");
                out.emit(Message::log("warn", format!("copilot tries the model again after {why}")));
            }
            "assistant.message_delta" => self.text_delta(data, out),
            "assistant.message" => self.message(data, out),
            "assistant.reasoning_delta" => {
                self.thinking(data.delta_content, data.parent_tool_call_id, Thought::Deltas, out)
            }
            "assistant.reasoning" => {
                let form = if data.content.is_some() { Thought::Whole } else { Thought::Deltas };
                self.thinking(data.content.or(data.delta_content), data.parent_tool_call_id, form, out);
            }
            "tool.execution_start" => {
                let (id, name) = (data.tool_call_id.unwrap_or_default(), data.tool_name.unwrap_or_default());
                if !self.tools.contains_key(&id) {
                    self.call(id, name, data.arguments.as_deref(), data.parent_tool_call_id, out);
                }
            }
            "tool.execution_complete" => self.tool_result(data, out),
            "assistant.usage" => {
                self.use_model(data.model.as_deref());
                if let Ok(counters) = serde_json::from_str::<Counters>(raw) {
                    self.calls.entry(self.active_model.clone()).or_default().add(&counters);
                }
            }
            "session.shutdown" => {
                let metrics =
                    serde_json::from_str(raw).ok().and_then(|v| usage::metrics(&v, &self.active_model));
                self.shutdown = metrics.unwrap_or_default();
            }
            "session.error" => self.session_error(data, out),
            "session.warning" => {
                if let Some(text) = data.message.filter(|t| !t.is_empty()) {
                    out.emit(Message::log("warn", text));
                }
            }
            "abort" => self.aborted = Some(data.reason.unwrap_or_default()),
            _ => {}
        }
    }

    fn text_delta(&mut self, data: Data, out: &mut Output) {
        let Some(text) = data.delta_content.filter(|t| !t.is_empty()) else { return };
        self.streamed.extend(data.message_id);
        if data.parent_tool_call_id.is_none() {
            self.pending.push_str(&text);
        }
        out.emit(Message::text(text).with_parent(data.parent_tool_call_id));
    }

    fn message(&mut self, data: Data, out: &mut Output) {
        self.use_model(data.model.as_deref());
        let parent = data.parent_tool_call_id;
        self.thinking(data.reasoning_text, parent.clone(), Thought::WithMessage, out);
        let content = data.content.unwrap_or_default();
        let streamed = match &data.message_id {
            Some(id) => self.streamed.remove(id),
            None => !self.pending.is_empty(),
        };
        if !streamed && !content.is_empty() {
            out.emit(Message::text(content.clone()).with_parent(parent.clone()));
        }
        if parent.is_none() {
            self.pending.clear();
            if !content.is_empty() {
                self.answer = content;
            }
        }
        for request in data.tool_requests.unwrap_or_default() {
            let (id, name) = (request.tool_call_id.unwrap_or_default(), request.name.unwrap_or_default());
            self.call(id, name, request.arguments.as_deref(), parent.clone(), out);
        }
        if let Some(tokens) = data.output_tokens.filter(|n| *n > 0.0) {
            self.messages.entry(self.active_model.clone()).or_default().add(&Counters::output(tokens));
        }
    }

    fn thinking(&mut self, text: Option<String>, parent: Option<String>, form: Thought, out: &mut Output) {
        let Some(text) = text.filter(|t| !t.is_empty()) else { return };
        if *self.thought.entry(parent.clone()).or_insert(form) == form {
            out.emit(Message::thinking(text).with_parent(parent));
        }
    }

    fn call(
        &mut self,
        id: String,
        name: String,
        input: Option<&RawValue>,
        parent: Option<String>,
        out: &mut Output,
    ) {
        let input = input.filter(|i| i.get().starts_with('{')).map(|i| RawJson(i.get().to_owned()));
        out.emit(Message::tool_use(&*name, &*id, input).with_parent(parent));
        self.tools.insert(id, name);
    }

    fn tool_result(&mut self, data: Data, out: &mut Output) {
        self.use_model(data.model.as_deref());
        let call_id = data.tool_call_id.unwrap_or_default();
        let content = data.result.as_ref().and_then(|r| r.get("content")).map(text_of).unwrap_or_default();
        let failed = data.success == Some(false);
        let error = data.error.as_ref().filter(|_| failed).map(|e| match e.get("message") {
            Some(message) => format!("Error: {}", text_of(message)),
            None => format!("Error: {}", text_of(e)),
        });
        let exit_code = data.shell_execution.and_then(|shell| shell.exit_code);
        out.emit(Message::ToolResult {
            tool: self.tools.get(&call_id).filter(|name| !name.is_empty()).cloned(),
            call_id,
            output: error.unwrap_or(content),
            is_error: (failed || exit_code.is_some_and(|code| code != 0)).then_some(true),
            parent_call_id: data.parent_tool_call_id,
        });
    }

    fn session_error(&mut self, data: Data, out: &mut Output) {
        let text = data.message.filter(|t| !t.trim().is_empty()).or_else(|| data.error_type.clone());
        let text = text.unwrap_or_else(|| "unknown copilot error".to_owned());
        out.emit(Message::error(text.clone()));
        let kind = failure_kind(data.error_type.as_deref(), data.status_code, &text);
        self.error = Some((text, kind.map(Failure::of)));
    }

    /// The sources are never added to each other: the later ones are parts of the earlier ones.
    fn usage(&mut self) -> crate::contract::Usage {
        let file = self.read_usage.take().and_then(|read| read());
        let of_file = file
            .zip(self.before.as_ref())
            .and_then(|(text, before)| usage::of_run(&text, before, &self.active_model));
        // In a resumed session this event counts the earlier runs as well.
        let shutdown = Some(&self.shutdown).filter(|_| !self.resumed);
        [of_file.as_ref(), shutdown, Some(&self.calls), Some(&self.messages)]
            .into_iter()
            .flatten()
            .find_map(usage::to_usage)
            .unwrap_or_default()
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn failure_kind(error_type: Option<&str>, status: Option<u16>, text: &str) -> Option<FailureKind> {
    let named = || match error_type? {
        "authentication" => Some(FailureKind::Auth),
        "authorization" => Some(FailureKind::Permission),
        "rate_limit" => Some(FailureKind::RateLimit),
        "quota" => Some(FailureKind::Quota),
        "context_limit" => Some(FailureKind::ContextOverflow),
        _ => None,
    };
    status.and_then(FailureKind::from_http_status).or_else(named).or_else(|| {
        match FailureKind::from_text(text) {
            FailureKind::Unknown if status == Some(400) => Some(FailureKind::InvalidRequest),
            FailureKind::Unknown if text.starts_with("No response was returned") => {
                Some(FailureKind::Provider)
            }
            FailureKind::Unknown => None,
            worded => Some(worded),
        }
    })
}

impl Decoder for CopilotDecoder {
    fn open(&mut self, out: &mut Output) {
        for note in self.notes.drain(..) {
            out.emit(Message::log("warn", note));
        }
        if let Some(prompt) = self.stdin.take() {
            out.write(prompt);
        }
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        match serde_json::from_str::<Event>(line.text) {
            Ok(event) => self.event(event, out),
            Err(_) => foreign(line, out),
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let output = if self.pending.is_empty() { self.answer.clone() } else { self.pending.clone() };
        let mut evidence = Evidence {
            partial: output.clone(),
            output,
            session_id: self.session_id.clone(),
            usage: self.usage(),
            ..Evidence::default()
        };
        let (text, failure) = self.error.clone().unzip();
        let exit =
            self.result.filter(|code| *code != 0).map(|code| format!("copilot exited with code {code}"));
        evidence.fault = match (text.map(|t| t.trim().to_owned()), exit) {
            (Some(text), Some(exit)) if !text.contains(&exit) => Some(format!("{text}; {exit}")),
            (text, exit) => text.or(exit),
        };
        evidence.failure = failure.flatten().filter(|_| end.stop.is_none());
        // After SIGTERM it reports success with exit code 0: only our own stop or the abort tells the truth.
        evidence.verdict = match (&evidence.fault, self.result, &self.aborted) {
            (None, _, Some(reason)) => Some(Verdict::Cancelled(match reason.as_str() {
                "" => "copilot aborted the turn".to_owned(),
                reason => format!("copilot aborted the turn ({reason})"),
            })),
            (None, Some(_), None) => Some(Verdict::Success),
            _ => None,
        };
        if evidence.verdict.is_none()
            && evidence.fault.is_none()
            && end.unterminated
            && end.exit.error().is_none()
        {
            evidence.fault = Some("copilot stdout ended within a line".to_owned());
            evidence.failure = Some(Failure::of(FailureKind::Protocol));
        }
        evidence
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        // "Error: No session, task, or name matched '<id>'."
        let unknown =
            || end.stderr.lines().any(|line| line.contains("No session") && line.contains("matched"));
        let refused = self.resumed && !self.seen && outcome.status == RunStatus::Failed && unknown();
        outcome.resume_rejected = Some(refused);
        if refused {
            outcome.session_id = None;
            let exit_code = outcome.failure.as_ref().and_then(|f| f.exit_code);
            outcome.failure = Some(Failure { exit_code, ..Failure::of(FailureKind::ResumeRejected) });
        }
    }
}
