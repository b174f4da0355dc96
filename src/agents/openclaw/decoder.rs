//! stdout of one turn: a result document with logs around it, or the event lines of early builds.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};

use super::args::{Entry, State};
use super::block::{Block, Fed};
use super::document::{Document, Ending, Piece, Shape, classify, state_is_owned, text, usage};
use crate::agents::evidence::Retry;
use crate::agents::foreign::foreign;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{Failure, FailureKind, Limit, Message, ModelUsage, RawJson, Usage};

/// False beginnings of an object that are looked behind; a stream with more of them is no document.
const MAX_RESTARTS: usize = 32;
/// Plain text kept as a possible answer.
const MAX_PLAIN_BYTES: usize = 1024 * 1024;
/// Before the second try when another process owned the state.
const OWNED_PAUSE: Duration = Duration::from_secs(2);

/// How one start was asked for.
pub struct Plan {
    pub entry: Entry,
    /// `None`: the message is in a file or in the arguments.
    pub stdin: Option<String>,
    /// The requested model or agent: the key of the totals when the CLI names no model.
    pub model: Option<String>,
    /// The id passed on.
    pub session_id: String,
    pub resumed: bool,
    /// The caller's limit for the run, which the CLI got too.
    pub limit: Option<Duration>,
    pub attempt: u32,
}

pub struct OpenclawDecoder {
    plan: Plan,
    block: Option<Block>,
    restarts: usize,
    /// Bytes of a document that stdout ended within.
    cut: Option<usize>,
    plain: Vec<String>,
    plain_bytes: usize,
    announced: bool,
    session_id: Option<String>,
    model: Option<String>,
    output: String,
    usage: ModelUsage,
    /// The end as the last document tells it, and how long it took to get there.
    end: Option<Ending>,
    took: Option<Duration>,
    /// Event lines were read, and the error one of them told.
    events: bool,
    error: Option<String>,
}

impl OpenclawDecoder {
    pub fn new(plan: Plan) -> Self {
        OpenclawDecoder {
            plan,
            block: None,
            restarts: 0,
            cut: None,
            plain: Vec::new(),
            plain_bytes: 0,
            announced: false,
            session_id: None,
            model: None,
            output: String::new(),
            usage: ModelUsage::default(),
            end: None,
            took: None,
            events: false,
            error: None,
        }
    }

    fn keeps_session(&self) -> bool {
        self.plan.entry != Entry::Exec(State::Thrown)
    }

    fn announce(&mut self, id: Option<String>, out: &mut Output) {
        let id = id.filter(|_| self.keeps_session());
        if self.announced && (id.is_none() || self.session_id == id) {
            return;
        }
        self.announced = true;
        if id.is_some() {
            self.session_id.clone_from(&id);
        }
        out.emit(Message::running(id));
    }

    fn take(&mut self, line: &str, out: &mut Output) {
        let mut lines = VecDeque::from([line.to_owned()]);
        while let Some(line) = lines.pop_front() {
            if self.block.is_none() && !Block::begins(&line) {
                self.plain(&line, out);
                continue;
            }
            match self.block.get_or_insert_default().feed(&line) {
                Fed::More => {}
                Fed::Whole(object) => {
                    self.block = None;
                    self.object(&object, &line, out);
                }
                Fed::Broken => {
                    for line in self.restart(out).into_iter().rev() {
                        lines.push_front(line);
                    }
                }
            }
        }
    }

    /// Gives up the begun object: its first line was a false beginning, the others are to be read again.
    fn restart(&mut self, out: &mut Output) -> Vec<String> {
        let Some(block) = self.block.take() else { return Vec::new() };
        let mut lines = block.into_lines();
        self.restarts += 1;
        let keep = if self.restarts > MAX_RESTARTS { lines.len() } else { 1 };
        for line in lines.drain(..keep.min(lines.len())) {
            foreign(Line { text: &line, terminated: true }, out);
        }
        lines
    }

    /// Logs, and in old builds the answer itself.
    fn plain(&mut self, line: &str, out: &mut Output) {
        foreign(Line { text: line, terminated: true }, out);
        // "[agents/…] …" is the look of its own log lines.
        if !line.starts_with('[') && self.plain_bytes + line.len() <= MAX_PLAIN_BYTES {
            self.plain_bytes += line.len();
            self.plain.push(line.to_owned());
        }
    }

    fn object(&mut self, object: &str, line: &str, out: &mut Output) {
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(object) else {
            return foreign(Line { text: line, terminated: true }, out);
        };
        match classify(&fields) {
            Shape::Document(document) => self.document(*document, out),
            // Within a document that was cut, it is a part of it.
            Shape::Event(kind) if self.cut.is_none() => {
                self.events = true;
                self.event(&kind, &fields, object, out);
            }
            // A log line in JSON.
            Shape::Event(_) | Shape::Other => {}
        }
    }

    fn document(&mut self, document: Document, out: &mut Output) {
        self.announce(document.session_id, out);
        self.model = document.model.or(self.model.take());
        for piece in document.pieces {
            match piece {
                Piece::Text(text) => {
                    self.output.push_str(&text);
                    out.emit(Message::text(text));
                }
                Piece::Comment(text) => out.emit(Message::text(text)),
                Piece::Thought(text) => out.emit(Message::thinking(text)),
            }
        }
        if let Some(answer) = document.answer {
            self.output = answer;
        }
        if !document.usage.is_zero() || document.usage.cost_usd_ticks.is_some() {
            self.usage = document.usage;
        }
        if let Ending::Failed(said, _) | Ending::TimedOut(said) | Ending::Aborted(said) = &document.end {
            if self.tries_again(&document.end) {
                out.emit(Message::log("warn", format!("openclaw is started once more: {said}")));
            } else {
                out.emit(Message::error(said.clone()));
            }
        }
        (self.end, self.took) = (Some(document.end), document.took);
        out.terminal = true;
    }

    fn tries_again(&self, end: &Ending) -> bool {
        self.plan.attempt == 1 && matches!(end, Ending::Failed(said, _) if state_is_owned(said))
    }

    fn event(&mut self, kind: &str, fields: &Map<String, Value>, object: &str, out: &mut Output) {
        let field = |name: &str| text(fields.get(name));
        if let Some(id) = field("sessionId") {
            self.announce(Some(id), out);
        }
        match kind {
            "text" => {
                if let Some(text) = fields.get("text").and_then(Value::as_str).filter(|t| !t.is_empty()) {
                    self.output.push_str(text);
                    out.emit(Message::text(text));
                }
            }
            "tool_use" => {
                #[derive(serde::Deserialize)]
                struct Call {
                    input: Option<Box<serde_json::value::RawValue>>,
                }
                let input = serde_json::from_str::<Call>(object).ok().and_then(|call| call.input);
                let input = input.filter(|i| i.get().starts_with('{')).map(|i| RawJson(i.get().to_owned()));
                let (tool, id) = (field("tool").unwrap_or_default(), field("callId").unwrap_or_default());
                out.emit(Message::tool_use(tool, id, input));
            }
            "tool_result" => out.emit(Message::ToolResult {
                call_id: field("callId").unwrap_or_default(),
                tool: field("tool"),
                output: fields.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
                is_error: None,
                parent_call_id: None,
            }),
            "error" => self.fail(fields, out),
            "lifecycle" => {
                if matches!(field("phase").as_deref(), Some("error" | "failed" | "cancelled")) {
                    self.fail(fields, out);
                }
            }
            "step_start" => self.announce(None, out),
            "step_finish" => {
                let counts = fields.get("usage").filter(|u| u.is_object()).map(usage);
                self.usage.add(&counts.unwrap_or_else(|| usage(&Value::Object(fields.clone()))));
            }
            _ => {}
        }
    }

    fn fail(&mut self, fields: &Map<String, Value>, out: &mut Output) {
        let error = fields.get("error").cloned().unwrap_or_default();
        let said = [error.pointer("/data/message"), error.get("message"), error.get("name"), Some(&error)]
            .into_iter()
            .chain([fields.get("text"), fields.get("message")])
            .find_map(text)
            .unwrap_or_else(|| "unknown openclaw error".to_owned());
        out.emit(Message::error(said.clone()));
        self.error = Some(said);
    }

    fn ran_into_limit(&self) -> bool {
        self.plan.limit.zip(self.took).is_some_and(|(limit, took)| took >= limit)
    }

    fn totals(&self) -> Usage {
        if self.usage.is_zero() && self.usage.cost_usd_ticks.is_none() {
            return Usage::new();
        }
        let model =
            self.model.as_deref().or(self.plan.model.as_deref()).map(str::trim).filter(|m| !m.is_empty());
        Usage::from([(model.unwrap_or("unknown").to_owned(), self.usage)])
    }

    /// The id under which the session can be taken up again.
    fn resumable(&self) -> Option<String> {
        if !self.keeps_session() {
            return None;
        }
        let passed = (self.plan.resumed || self.events).then(|| self.plan.session_id.clone());
        self.session_id.clone().or(passed)
    }
}

impl Decoder for OpenclawDecoder {
    fn open(&mut self, out: &mut Output) {
        if !self.keeps_session() {
            out.emit(Message::log(
                "info",
                "this openclaw session goes away with the run and cannot be resumed",
            ));
        }
        if let Some(message) = self.plan.stdin.take() {
            out.write(message);
        }
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        self.take(line.text, out);
    }

    fn end_of_stdout(&mut self, out: &mut Output) {
        while let Some(block) = &self.block {
            if block.is_document() {
                self.cut = self.cut.or(Some(block.len()));
            }
            for line in self.restart(out) {
                self.take(&line, out);
            }
        }
        if self.end.is_none() && !self.events && self.cut.is_none() && !self.plain.is_empty() {
            self.output = self.plain.join("\n");
            out.emit(Message::text(self.output.clone()));
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let mut evidence = Evidence {
            output: self.output.clone(),
            partial: self.output.clone(),
            session_id: self.resumable(),
            usage: self.totals(),
            ..Evidence::default()
        };
        let unspoken = || match end.exit.error() {
            Some(exit) => {
                format!("openclaw returned no parseable output; openclaw exited with error: {exit}")
            }
            None => "openclaw returned no parseable output".to_owned(),
        };
        match &self.end {
            Some(Ending::Success) => evidence.verdict = Some(Verdict::Success),
            Some(ending @ Ending::Failed(said, failure)) => {
                evidence.fault = Some(said.clone());
                evidence.failure = failure.clone();
                evidence.omit_stderr = true;
                evidence.retry =
                    self.tries_again(ending).then_some(Retry { after: OWNED_PAUSE, fresh_session: false });
            }
            Some(Ending::TimedOut(said)) if self.ran_into_limit() => {
                evidence.verdict = Some(Verdict::Limit(Limit::Run, said.clone()));
                evidence.omit_stderr = true;
            }
            Some(Ending::TimedOut(said)) => {
                // "LLM request timed out.": the model service did not answer, or broke off.
                let of_request = said.to_lowercase().contains("request timed out");
                let kind = if of_request { FailureKind::Network } else { FailureKind::Timeout };
                evidence.fault = Some(said.clone());
                evidence.failure = Some(Failure::of(kind));
                evidence.omit_stderr = true;
            }
            Some(Ending::Aborted(said)) => evidence.verdict = Some(Verdict::Cancelled(said.clone())),
            None if self.error.is_some() => evidence.fault = self.error.clone(),
            None if self.cut.is_some() => {
                let bytes = self.cut.unwrap_or_default();
                evidence.fault =
                    Some(format!("openclaw stdout ended within its result after {bytes} bytes of it"));
                evidence.failure = Some(Failure::of(FailureKind::Protocol));
            }
            None if self.events || !self.output.is_empty() => evidence.verdict = Some(Verdict::Success),
            None => evidence.fault = Some(unspoken()),
        }
        evidence.failure = evidence.failure.filter(|_| end.stop.is_none());
        evidence
    }
}
