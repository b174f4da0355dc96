//! stdout in both forms: event lines, or the answer as plain text.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::args::Form;
use super::log::Facts;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{Failure, FailureKind, Limit, Message, ModelUsage, RawJson, Usage, duration};

/// The words of a failure that comes after a whole answer.
const NETWORK_ISSUE: &str = "There was a network issue connecting to the server, please try again.";

/// How one start was asked for.
pub struct Plan {
    pub form: Form,
    pub prompt: String,
    pub model: Option<String>,
    pub resume: Option<String>,
    pub log_file: PathBuf,
    pub print_timeout: std::time::Duration,
}

pub struct AgyDecoder {
    plan: Plan,
    session_id: Option<String>,
    model: Option<String>,
    output: String,
    /// Any text was passed on.
    spoke: bool,
    /// The last response step: its index, and whether it is done.
    response_step: Option<(i64, bool)>,
    tools: HashMap<String, Call>,
    step_usage: BTreeMap<i64, ModelUsage>,
    /// Lines that are no events, while events are expected.
    plain: Vec<String>,
    events: bool,
    result: Option<TurnResult>,
}

#[derive(Default)]
struct Call {
    announced: bool,
    ended: bool,
}

#[derive(Deserialize)]
struct Event {
    event: String,
    conversation_id: Option<String>,
    init: Option<Init>,
    step_update: Option<Step>,
    result: Option<TurnResult>,
}

#[derive(Deserialize)]
struct Init {
    conversation_id: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Step {
    conversation_id: Option<String>,
    step_index: Option<i64>,
    state: Option<String>,
    step_type: Option<String>,
    text_delta: Option<String>,
    thinking_delta: Option<String>,
    usage: Option<Counts>,
    tool_name: Option<String>,
    tool_info: Option<ToolInfo>,
}

#[derive(Default, Deserialize)]
struct ToolInfo {
    name: Option<String>,
    parameters: Option<Box<RawValue>>,
    output: Option<Value>,
    error: Option<Value>,
}

#[derive(Clone, Deserialize)]
struct TurnResult {
    conversation_id: Option<String>,
    status: Option<String>,
    response: Option<String>,
    error: Option<Value>,
    usage: Option<Counts>,
}

/// Input and cached input are told apart already; thinking is inside the output.
#[derive(Clone, Copy, Deserialize)]
struct Counts {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cache_read_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
}

impl Counts {
    fn usage(self) -> ModelUsage {
        let count = |n: Option<i64>| n.map(|n| n.max(0) as u64);
        ModelUsage {
            input_tokens: count(self.input_tokens),
            output_tokens: count(self.output_tokens),
            cache_read_tokens: count(self.cache_read_tokens),
            cache_write_tokens: count(self.cache_write_tokens),
            cost_usd_ticks: None,
        }
    }
}

/// What the status of a result stands for.
enum Status {
    Good,
    Cancelled,
    TimedOut,
    Bad,
}

impl TurnResult {
    fn status(&self) -> Status {
        let status = self.status.as_deref().unwrap_or_default().trim();
        match status.to_uppercase().as_str() {
            "" | "SUCCESS" | "COMPLETED" => Status::Good,
            "CANCELLED" | "CANCELED" | "ABORTED" => Status::Cancelled,
            "TIMEOUT" | "TIMED_OUT" => Status::TimedOut,
            _ => Status::Bad,
        }
    }

    fn error_text(&self) -> String {
        let said = self.error.as_ref().map(text_of).unwrap_or_default();
        if said.is_empty() {
            format!("agy returned status {}", self.status.as_deref().unwrap_or_default().trim())
        } else {
            said
        }
    }
}

/// A string as it is, an object's message or its JSON, nothing for null.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("message").and_then(Value::as_str) {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|t| !t.is_empty())
}

impl AgyDecoder {
    pub fn new(plan: Plan) -> Self {
        AgyDecoder {
            plan,
            session_id: None,
            model: None,
            output: String::new(),
            spoke: false,
            response_step: None,
            tools: HashMap::new(),
            step_usage: BTreeMap::new(),
            plain: Vec::new(),
            events: false,
            result: None,
        }
    }

    fn announce(&mut self, id: Option<String>, out: &mut Output) {
        let Some(id) = filled(id).filter(|id| self.session_id.as_ref() != Some(id)) else { return };
        if self.session_id.is_none() && self.plan.resume.as_ref().is_some_and(|asked| *asked != id) {
            out.emit(Message::log("warn", "agy went on in another conversation than asked"));
        }
        out.emit(Message::running(Some(id.clone())));
        self.session_id = Some(id);
    }

    fn say(&mut self, text: String, out: &mut Output) {
        self.spoke = true;
        out.emit(Message::text(text));
    }

    /// The Messages of the plain form, one after the other, are the output.
    fn plain_line(&mut self, line: &str, out: &mut Output) {
        let chunk = if self.output.is_empty() { line.to_owned() } else { format!("\n{line}") };
        if !chunk.is_empty() {
            self.output.push_str(&chunk);
            self.say(chunk, out);
        }
    }

    fn event(&mut self, event: Event, out: &mut Output) {
        self.events = true;
        self.announce(event.conversation_id, out);
        match event.event.as_str() {
            "init" => {
                if let Some(init) = event.init {
                    self.announce(init.conversation_id, out);
                    self.model = filled(init.model).or(self.model.take());
                }
            }
            "step_update" => {
                if let Some(step) = event.step_update {
                    self.step(step, out);
                }
            }
            "result" => {
                if let Some(result) = event.result {
                    self.announce(result.conversation_id.clone(), out);
                    if let Some(response) = filled(result.response.clone()) {
                        if !self.spoke {
                            self.say(response.clone(), out);
                        }
                        self.output = response;
                    }
                    if matches!(result.status(), Status::Bad) && !self.is_late_network_issue(&result) {
                        out.emit(Message::error(result.error_text()));
                    }
                    self.result = Some(result);
                    out.terminal = true;
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, step: Step, out: &mut Output) {
        self.announce(step.conversation_id.clone(), out);
        let index = step.step_index.unwrap_or_default();
        let state = step.state.as_deref().unwrap_or_default().to_uppercase();
        if let Some(counts) = step.usage.filter(|_| state == "DONE").map(Counts::usage)
            && !counts.is_zero()
        {
            self.step_usage.insert(index, counts);
        }
        match step.step_type.as_deref() {
            Some("agent_response") => {
                if let Some(thought) = filled(step.thinking_delta) {
                    out.emit(Message::thinking(thought));
                }
                if let Some(text) = filled(step.text_delta) {
                    // Narration and answer do not stick together.
                    if self.response_step.is_some_and(|(last, _)| last != index) && !self.output.is_empty() {
                        self.output.push_str("\n\n");
                    }
                    self.output.push_str(&text);
                    self.say(text, out);
                }
                if self.response_step.is_none_or(|(last, _)| index >= last) {
                    self.response_step = Some((index, state == "DONE"));
                }
            }
            Some("tool") => self.tool(step.tool_name, step.tool_info.unwrap_or_default(), index, &state, out),
            _ => {}
        }
    }

    /// Snapshots of a call: the first with a name announces it, the first with an end ends it.
    fn tool(&mut self, name: Option<String>, info: ToolInfo, index: i64, state: &str, out: &mut Output) {
        let ends = matches!(state, "DONE" | "ERROR" | "FAILED" | "CANCELLED" | "CANCELED" | "ABORTED");
        if !ends && state != "ACTIVE" {
            return;
        }
        let id = format!("agy:{}:{index}", self.session_id.as_deref().unwrap_or_default());
        let call = self.tools.entry(id.clone()).or_default();
        if call.ended {
            return;
        }
        if !call.announced {
            let Some(name) = filled(name).or_else(|| filled(info.name.clone())) else { return };
            let input = info.parameters.as_ref().filter(|p| p.get().starts_with('{'));
            out.emit(Message::tool_use(name, &*id, input.map(|p| RawJson(p.get().to_owned()))));
            call.announced = true;
        }
        if ends {
            call.ended = true;
            let mut output = match &info.output {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            let error = info.error.as_ref().map(text_of).unwrap_or_default();
            let failed = state != "DONE" || !error.is_empty();
            if failed {
                if !output.is_empty() && !output.ends_with('\n') {
                    output.push('\n');
                }
                output += &format!("Tool error: {}", if error.is_empty() { state } else { &error });
            }
            out.emit(Message::ToolResult {
                call_id: id,
                tool: None,
                output,
                is_error: failed.then_some(true),
                parent_call_id: None,
            });
        }
    }

    /// The connection broke after the answer was whole.
    fn is_late_network_issue(&self, result: &TurnResult) -> bool {
        let error = result.error.as_ref().map(text_of).unwrap_or_default();
        error.trim().eq_ignore_ascii_case(NETWORK_ISSUE)
            && result.response.as_ref().is_some_and(|r| !r.trim().is_empty())
            && self.response_step.is_some_and(|(_, done)| done)
    }

    fn usage(&self, facts: &Facts) -> Usage {
        let mut total = ModelUsage::default();
        for counts in self.step_usage.values() {
            total.add(counts);
        }
        if self.step_usage.is_empty() {
            // In a resumed conversation this counts the earlier turns too.
            let whole = self.result.as_ref().and_then(|r| r.usage).filter(|_| self.plan.resume.is_none());
            total = whole.map(Counts::usage).unwrap_or_default();
        }
        if total.is_zero() {
            return Usage::new();
        }
        let model =
            self.model.clone().or_else(|| facts.model.clone()).or_else(|| filled(self.plan.model.clone()));
        Usage::from([(model.unwrap_or_else(|| "unknown".to_owned()), total)])
    }
}

impl Decoder for AgyDecoder {
    fn open(&mut self, out: &mut Output) {
        out.emit(Message::running(None));
        if self.plan.form == Form::StreamBothWays {
            out.write_json(&json!({"event": "user", "message": {"content": self.plan.prompt}}));
        }
        out.close_stdin = true;
    }

    fn verbatim(&self) -> bool {
        true
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let frame = line.text.trim();
        if frame.starts_with('{')
            && let Ok(event) = serde_json::from_str::<Event>(frame)
            && !event.event.is_empty()
        {
            return self.event(event, out);
        }
        if self.plan.form == Form::Text {
            return self.plain_line(line.text, out);
        }
        if !frame.is_empty() {
            crate::agents::foreign::foreign(Line { text: frame, terminated: line.terminated }, out);
        }
        if !frame.starts_with('{') {
            self.plain.push(line.text.to_owned());
        }
    }

    fn end_of_stdout(&mut self, out: &mut Output) {
        if !self.events && !self.plain.is_empty() {
            for line in std::mem::take(&mut self.plain) {
                self.plain_line(&line, out);
            }
        }
        if self.output.trim().is_empty()
            && let Some(answer) = Facts::read(&self.plan.log_file).recovered_answer()
        {
            self.output = answer.clone();
            self.say(answer, out);
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let facts = Facts::read(&self.plan.log_file);
        let mut evidence = Evidence {
            output: self.output.clone(),
            partial: self.output.clone(),
            session_id: self.session_id.clone().or_else(|| facts.conversation.clone()),
            usage: self.usage(&facts),
            ..Evidence::default()
        };
        if let Some(result) = &self.result {
            match result.status() {
                Status::Good => evidence.verdict = Some(Verdict::Success),
                Status::Cancelled => evidence.verdict = Some(Verdict::Cancelled(result.error_text())),
                Status::TimedOut => evidence.verdict = Some(Verdict::Limit(Limit::Run, result.error_text())),
                Status::Bad if self.is_late_network_issue(result) => {
                    evidence.verdict = Some(Verdict::Success);
                    evidence.ignore_exit = true;
                }
                Status::Bad => evidence.fault = Some(result.error_text()),
            }
        } else if end.exit.error().is_none() {
            let after = duration::format(self.plan.print_timeout);
            if facts.timed_out {
                let text =
                    format!("agy --print-timeout elapsed after {after} waiting for the agent response");
                evidence.verdict = Some(Verdict::Limit(Limit::Run, text));
            } else if let Some(error) = &facts.provider_error {
                evidence.fault = Some(format!("agy provider error: {error}"));
                let kind = match FailureKind::from_text(error) {
                    FailureKind::Unknown => FailureKind::Provider,
                    kind => kind,
                };
                evidence.failure = end.stop.is_none().then(|| Failure::of(kind));
            } else if self.events || (self.plan.form != Form::Text && !self.spoke) {
                evidence.fault = Some("agy stream ended without a result".to_owned());
                evidence.failure =
                    (end.stderr.is_empty() && end.stop.is_none()).then(|| Failure::of(FailureKind::Crash));
            } else {
                evidence.verdict = Some(Verdict::Success);
            }
        }
        evidence
    }
}
