//! Turns cursor-agent's events into Messages and evidence.

use std::collections::BTreeMap;

use super::event::{Event, object, text};
use super::tool::ToolCall;
use crate::agents::foreign::foreign;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{FailureKind, Message, ModelUsage, Outcome, RunStatus, Usage};

/// Names of unknown event types counted one by one.
const MAX_UNKNOWN_TYPES: usize = 16;
const MAX_TYPE_BYTES: usize = 64;

pub struct CursorDecoder {
    prompt: Vec<u8>,
    /// The model asked for.
    model: Option<String>,
    /// The model the CLI named at its start.
    told_model: Option<String>,
    session_id: Option<String>,
    announced: bool,
    answer: String,
    thinking: Thinking,
    verdict: Option<Verdict>,
    /// Error text of an event that is no result.
    fault: Option<String>,
    usage: Usage,
    /// Counts of `step_finish` events, for a CLI whose result carries none.
    step_usage: Usage,
    result_usage_seen: bool,
    events: u64,
    invalid: u64,
    last_type: String,
    unknown: BTreeMap<String, u64>,
    unknown_subtypes: u64,
    managed_by_another: bool,
}

/// Blocks of thinking follow each other without anything between them.
#[derive(Default)]
struct Thinking {
    sent: bool,
    open: bool,
}

impl CursorDecoder {
    pub fn new(prompt: &str, model: Option<&str>) -> Self {
        CursorDecoder {
            prompt: prompt.as_bytes().to_vec(),
            model: model.map(str::to_owned),
            told_model: None,
            session_id: None,
            announced: false,
            answer: String::new(),
            thinking: Thinking::default(),
            verdict: None,
            fault: None,
            usage: Usage::new(),
            step_usage: Usage::new(),
            result_usage_seen: false,
            events: 0,
            invalid: 0,
            last_type: "none".to_owned(),
            unknown: BTreeMap::new(),
            unknown_subtypes: 0,
            managed_by_another: false,
        }
    }

    /// The project's MCP file is the managed one of a run that goes on.
    pub fn managed_by_another_run(mut self, managed: bool) -> Self {
        self.managed_by_another = managed;
        self
    }

    fn note_session(&mut self, event: &Event<'_>, out: &mut Output) {
        let id = event.session_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
        if let Some(id) = id.filter(|id| self.session_id.as_deref() != Some(id)) {
            self.session_id = Some(id.to_owned());
            self.announced = true;
            out.emit(Message::running(self.session_id.clone()));
        }
    }

    fn system(&mut self, event: &Event<'_>, out: &mut Output) {
        match event.subtype.as_deref() {
            Some("init") => {
                self.told_model = event.model.clone().filter(|model| !model.trim().is_empty());
                if !self.announced {
                    self.announced = true;
                    out.emit(Message::running(None));
                }
            }
            Some("error") => {
                let error = event.error_text();
                if !error.is_empty() {
                    out.emit(Message::error(error.clone()));
                    self.fault = Some(error);
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, text: Option<String>, out: &mut Output) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.answer.push_str(&text);
            out.emit(Message::text(text));
        }
    }

    fn assistant(&mut self, event: &Event<'_>, out: &mut Output) {
        for block in event.blocks() {
            match block.kind.as_deref() {
                Some("text" | "output_text") => self.answer(block.text, out),
                Some("thinking") => {
                    if let Some(text) = block.text.filter(|text| !text.is_empty()) {
                        out.emit(Message::thinking(text));
                    }
                }
                Some("tool_use") => {
                    let (name, id) = (block.name.unwrap_or_default(), block.id.unwrap_or_default());
                    out.emit(Message::tool_use(name, id, object(block.input)));
                }
                _ => {}
            }
        }
    }

    fn thinking(&mut self, event: Event<'_>, out: &mut Output) {
        match event.subtype.as_deref() {
            Some("delta") => {
                let Some(text) = event.text.filter(|text| !text.is_empty()) else { return };
                let gap = if self.thinking.sent && !self.thinking.open { "\n\n" } else { "" };
                self.thinking = Thinking { sent: true, open: true };
                out.emit(Message::thinking(format!("{gap}{text}")));
            }
            Some("completed") => self.thinking.open = false,
            _ => self.unknown_subtypes += 1,
        }
    }

    fn tool_call(&mut self, event: &Event<'_>, out: &mut Output) {
        let call = || ToolCall::read(event);
        match event.subtype.as_deref() {
            Some("started") => {
                let ToolCall { call_id, tool, input, .. } = call();
                out.emit(Message::tool_use(tool, call_id, input));
            }
            Some("completed") => {
                let ToolCall { call_id, tool, output, is_error, .. } = call();
                let tool = Some(tool).filter(|tool| !tool.is_empty());
                out.emit(Message::ToolResult { call_id, tool, output, is_error, parent_call_id: None });
            }
            _ => self.unknown_subtypes += 1,
        }
    }

    fn result(&mut self, event: &Event<'_>, out: &mut Output) {
        if let Some(usage) = event.result_usage() {
            self.result_usage_seen = true;
            let model = self.model_of(event);
            add(&mut self.usage, model, &usage);
        }
        if event.is_error == Some(true) || event.subtype.as_deref() == Some("error") {
            self.verdict = Some(Verdict::Error(event.error_text()));
        } else {
            // The result repeats the whole text; it counts only when nothing came before it.
            if self.answer.is_empty() {
                self.answer(Some(text(event.result)), out);
            }
            if !matches!(self.verdict, Some(Verdict::Error(_))) {
                self.verdict = Some(Verdict::Success);
            }
        }
        // The CLI may leave a worker running that holds its pipes open, so the end of stdout may never be seen.
        self.end_of_stdout(out);
        (out.terminal, out.stop_now) = (true, true);
    }

    fn model_of(&self, event: &Event<'_>) -> String {
        [&event.model, &self.model, &self.told_model]
            .into_iter()
            .filter_map(|model| model.as_deref().map(str::trim))
            .find(|model| !model.is_empty())
            .unwrap_or("cursor")
            .to_owned()
    }

    fn note_unknown(&mut self, kind: String) {
        let full = self.unknown.len() >= MAX_UNKNOWN_TYPES && !self.unknown.contains_key(&kind);
        *self.unknown.entry(if full { "(overflow)".to_owned() } else { kind }).or_default() += 1;
    }

    /// What was not read since the last notice.
    fn unknown_notice(&mut self) -> Option<String> {
        let (unknown, subtypes) =
            (std::mem::take(&mut self.unknown), std::mem::take(&mut self.unknown_subtypes));
        let count: u64 = unknown.values().sum();
        let mut notices = Vec::new();
        if count > 0 {
            let names: Vec<String> = unknown.iter().map(|(name, n)| format!("{name}={n}")).collect();
            notices.push(format!("{count} of unknown type ({})", names.join(",")));
        }
        if subtypes > 0 {
            notices.push(format!("{subtypes} of unknown subtype"));
        }
        (!notices.is_empty())
            .then(|| format!("cursor-agent sent events that were not read: {}", notices.join(", ")))
    }
}

impl Decoder for CursorDecoder {
    fn open(&mut self, out: &mut Output) {
        if self.managed_by_another {
            let notice = "another run has a managed mcpConfig in this project: the project's own MCP servers are missing";
            out.emit(Message::log("warn", notice));
        }
        out.write(std::mem::take(&mut self.prompt));
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let text = without_stream_name(line.text);
        if text.is_empty() {
            return;
        }
        let Ok(event) = serde_json::from_str::<Event>(text) else {
            self.invalid += 1;
            foreign(line, out);
            return;
        };
        self.events += 1;
        let kind = type_name(event.kind.as_deref());
        self.last_type.clone_from(&kind);
        self.note_session(&event, out);
        match kind.as_str() {
            "system" => self.system(&event, out),
            "assistant" => self.assistant(&event, out),
            "thinking" => self.thinking(event, out),
            "tool_call" => self.tool_call(&event, out),
            "tool_use" => {
                let input = object(event.parameters);
                let (tool, id) = (event.tool_name.unwrap_or_default(), event.tool_id.unwrap_or_default());
                out.emit(Message::tool_use(tool, id, input));
            }
            "tool_result" => {
                let output = super::event::text(event.output);
                out.emit(Message::tool_result(event.tool_id.unwrap_or_default(), output));
            }
            "text" => self.answer(event.part_text(), out),
            "step_finish" => {
                if let Some(usage) = event.step_usage() {
                    let model = self.model_of(&event);
                    add(&mut self.step_usage, model, &usage);
                }
            }
            "error" => {
                let error = event.error_text();
                out.emit(Message::error(error.clone()));
                if !error.is_empty() {
                    self.fault = Some(error);
                }
            }
            "result" => self.result(&event, out),
            "user" | "connection" | "retry" => {}
            _ => self.note_unknown(kind),
        }
    }

    fn end_of_stdout(&mut self, out: &mut Output) {
        if let Some(notice) = self.unknown_notice() {
            out.emit(Message::log("warn", notice));
        }
    }

    fn evidence(&mut self, _: &End) -> Evidence {
        Evidence {
            verdict: self.verdict.clone(),
            output: self.answer.clone(),
            partial: self.answer.clone(),
            session_id: self.session_id.clone(),
            usage: std::mem::take(if self.result_usage_seen {
                &mut self.usage
            } else {
                &mut self.step_usage
            }),
            fault: self.fault.clone(),
            ignore_exit: self.verdict.is_some(),
            // It comes behind the diagnostics, see `conclude`.
            omit_stderr: true,
            ..Default::default()
        }
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        if outcome.status != RunStatus::Failed || self.verdict.is_some() {
            return;
        }
        let stderr = end.stderr.trim();
        if let Some(error) = &mut outcome.error {
            *error += &format!(
                " (result_seen=false, exit_code={}, scanner_error={}, event_count={}, invalid_event_count={}, \
                 last_event_type={}); actions completed before finalization may already have taken effect",
                end.exit.code.unwrap_or(-1),
                end.read_error.is_some(),
                self.events,
                self.invalid,
                self.last_type,
            );
            if !stderr.is_empty() {
                *error += &format!("; cursor stderr: {stderr}");
            }
        }
        // Start-up errors (not logged in, no such model) are on stderr alone.
        if let Some(failure) = &mut outcome.failure
            && matches!(failure.kind, FailureKind::Crash | FailureKind::Unknown)
        {
            let kind = FailureKind::from_text(stderr);
            if kind != FailureKind::Unknown {
                (failure.kind, failure.retryable) = (kind, kind.retryable());
            }
        }
    }
}

fn add(usage: &mut Usage, model: String, counts: &ModelUsage) {
    if !counts.is_zero() {
        usage.entry(model).or_default().add(counts);
    }
}

/// Some launchers put the name of the stream before each line: `stdout: {…}`.
fn without_stream_name(line: &str) -> &str {
    let named = ["stdout", "stderr"]
        .iter()
        .find(|name| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
    let Some(name) = named else { return line };
    let rest = line[name.len()..].trim_start();
    rest.strip_prefix([':', '=']).unwrap_or(rest).trim_start()
}

/// The event's type as it may appear in a diagnostic.
fn type_name(kind: Option<&str>) -> String {
    let kind = kind.unwrap_or_default().trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    match kind {
        "" => "unknown".to_owned(),
        _ if kind.len() > MAX_TYPE_BYTES || !kind.bytes().all(plain) => "invalid".to_owned(),
        _ => kind.to_owned(),
    }
}
