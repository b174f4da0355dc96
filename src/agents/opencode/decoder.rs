//! The event stream of `run --format json`, for opencode and its forks.
//!
//! No line says "the turn is over". The end is read from the steps: each is bracketed by `step_start` and
//! `step_finish`, and a step that called a tool must be followed by another one that uses its result.

use crate::agents::foreign::foreign;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{Failure, FailureKind, Message, ModelUsage, Outcome, RunStatus, Usage};

use super::event::{Event, Part, SessionError, StepUsage};

/// What stderr says when the session to resume is unknown.
const UNKNOWN_SESSION: &str = "Session not found";

/// How one start was asked for.
pub struct Plan {
    /// The name in error texts.
    pub name: &'static str,
    /// What goes to stdin; `None`: the prompt is in the arguments.
    pub stdin: Option<String>,
    /// The key of the usage totals.
    pub model: Option<String>,
    pub resume: Option<String>,
    /// This version counts reasoning apart from the output.
    pub output_lacks_reasoning: bool,
}

pub struct EventDecoder {
    plan: Plan,
    session_id: Option<String>,
    /// A status was sent before any session id was known.
    announced: bool,
    /// Any event of the protocol was read.
    seen: bool,
    steps: Steps,
    text: StepText,
    usage: ModelUsage,
    error: Option<SessionError>,
    /// Length of a frame that stdout ended within.
    cut: Option<usize>,
}

#[derive(Default)]
struct Steps {
    open: bool,
    /// The open step called a tool that runs here, not at the model service.
    local_tool: bool,
    /// The open step gave text, a call or a count.
    productive: bool,
    /// The last step needs a continuation.
    awaiting: bool,
    /// The last step gave nothing at all.
    void: bool,
    finished: bool,
}

/// The answer is the text of the last step that has any; earlier steps hold narration between tool calls.
#[derive(Default)]
struct StepText {
    current: String,
    last: String,
}

impl StepText {
    fn step(&mut self) {
        if !self.current.is_empty() {
            self.last = std::mem::take(&mut self.current);
        }
    }
    fn answer(&self) -> &str {
        if self.current.is_empty() { &self.last } else { &self.current }
    }
}

impl EventDecoder {
    pub fn new(plan: Plan) -> Self {
        EventDecoder {
            plan,
            session_id: None,
            announced: false,
            seen: false,
            steps: Steps::default(),
            text: StepText::default(),
            usage: ModelUsage::default(),
            error: None,
            cut: None,
        }
    }

    fn announce(&mut self, session_id: Option<String>, out: &mut Output) {
        match session_id.filter(|id| !id.is_empty()) {
            Some(id) if self.session_id.as_ref() != Some(&id) => {
                if self.session_id.is_none() && self.plan.resume.as_ref().is_some_and(|asked| *asked != id) {
                    let name = self.plan.name;
                    out.emit(Message::log("warn", format!("{name} went on in another session than asked")));
                }
                out.emit(Message::running(Some(id.clone())));
                self.session_id = Some(id);
                self.announced = true;
            }
            _ => {}
        }
    }

    fn event(&mut self, mut event: Event, out: &mut Output) {
        self.announce(event.session_id.take(), out);
        let part = event.part.take().unwrap_or_default();
        match event.kind.as_deref() {
            Some("step_start") => {
                if !self.announced {
                    out.emit(Message::running(None));
                    self.announced = true;
                }
                self.steps = Steps { open: true, finished: self.steps.finished, ..Steps::default() };
                self.text.step();
            }
            Some("text") => {
                if let Some(text) = part.text.filter(|t| !t.is_empty()) {
                    self.steps.productive = true;
                    self.text.current.push_str(&text);
                    out.emit(Message::text(text));
                }
            }
            Some("reasoning") => {
                if let Some(text) = part.text.filter(|t| !t.is_empty()) {
                    out.emit(Message::thinking(text));
                }
            }
            Some("tool_use") => self.tool(&part, out),
            Some("step_finish") => {
                self.step_finish(&part);
                out.settled = !self.steps.awaiting && !self.steps.void;
            }
            Some("error") => {
                let error = SessionError::of(&event, self.plan.name);
                // A failed prompt is reported by the session and once more by the command.
                if self.error.as_ref().is_none_or(|known| known.text != error.text) {
                    out.emit(Message::error(error.text.clone()));
                }
                self.error = Some(error);
            }
            _ => return,
        }
        self.seen = true;
    }

    fn tool(&mut self, part: &Part, out: &mut Output) {
        self.steps.productive = true;
        self.steps.local_tool |= !part.provider_executed();
        let tool = part.tool.as_deref().unwrap_or_default();
        let call_id = part.call_id.as_deref().unwrap_or_default();
        let state = part.state.as_ref();
        out.emit(Message::tool_use(tool, call_id, state.and_then(|s| s.input())));
        if let Some((output, is_error)) = state.and_then(|s| s.result()) {
            out.emit(Message::ToolResult {
                call_id: call_id.to_owned(),
                tool: Some(tool.to_owned()),
                output,
                is_error,
                parent_call_id: None,
            });
        }
    }

    fn step_finish(&mut self, part: &Part) {
        let step = StepUsage::of(part, self.plan.output_lacks_reasoning);
        self.usage.add(&step.counts);
        let reason = part.reason.as_deref().unwrap_or_default();
        self.steps.open = false;
        self.steps.finished = true;
        // Versions without a reason close the turn with any step.
        self.steps.awaiting = reason == "tool-calls" || (!reason.is_empty() && self.steps.local_tool);
        self.steps.local_tool = false;
        self.steps.void = !(self.steps.productive || step.reported);
    }

    /// Why the stream is no finished turn.
    fn gap(&self, end: &End) -> Option<(String, FailureKind)> {
        let name = self.plan.name;
        let ended = |why: &str| format!("{name} stream ended without a terminal signal ({why})");
        if let Some(bytes) = self.cut {
            let why = format!("{name} stdout ended within a line after {bytes} bytes of it");
            return Some((why, FailureKind::Protocol));
        }
        if !self.seen {
            // A start that failed says so on stderr and by its exit.
            if let Some(exit) = end.exit.error() {
                return Some((format!("{name} exited with error: {exit}"), FailureKind::Crash));
            }
            return Some((ended("no events"), FailureKind::Crash));
        }
        if self.steps.open {
            return Some((ended("step still open at EOF"), FailureKind::Crash));
        }
        if self.steps.awaiting {
            let why = ended("last step required a continuation that never started");
            return Some((why, FailureKind::Crash));
        }
        self.steps.void.then(|| {
            let why = format!(
                "{name} stream ended on an empty step (no text, no tool call, no reported usage) — the provider \
                 produced nothing"
            );
            (why, FailureKind::Provider)
        })
    }

    fn usage(&self) -> Usage {
        if self.usage.is_zero() && self.usage.cost_usd_ticks.is_none() {
            return Usage::new();
        }
        let model = self.plan.model.as_deref().filter(|m| !m.is_empty()).unwrap_or("unknown");
        Usage::from([(model.to_owned(), self.usage)])
    }
}

impl Decoder for EventDecoder {
    fn open(&mut self, out: &mut Output) {
        if let Some(prompt) = self.plan.stdin.take() {
            out.write(prompt);
        }
        // The CLI reads stdin to its end before it does anything.
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        match serde_json::from_str::<Event>(line.text) {
            Ok(event) => self.event(event, out),
            Err(_) => {
                if !line.terminated && line.text.starts_with('{') {
                    self.cut = Some(line.text.len());
                }
                foreign(line, out);
            }
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let mut evidence = Evidence {
            output: self.text.answer().to_owned(),
            partial: self.text.answer().to_owned(),
            session_id: self.session_id.clone(),
            usage: self.usage(),
            ..Evidence::default()
        };
        if let Some(error) = &self.error {
            if error.aborted {
                evidence.verdict = Some(Verdict::Cancelled(error.text.clone()));
            }
            evidence.fault = Some(error.text.clone());
            evidence.failure = error.failure.clone().filter(|_| end.stop.is_none());
        } else if let Some((mut why, kind)) = self.gap(end) {
            if self.seen
                && let Some(exit) = end.exit.error()
            {
                why += &format!("; {} exited with error: {exit}", self.plan.name);
            }
            if let Some(e) = &end.write_error {
                why += &format!("; {} prompt write failed: {e}", self.plan.name);
            }
            evidence.fault = Some(why);
            evidence.failure = self.gap_failure(kind, end);
        } else {
            evidence.verdict = Some(Verdict::Success);
        }
        evidence
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        let refused = self.plan.resume.is_some()
            && outcome.status == RunStatus::Failed
            && !self.seen
            && end.stderr.contains(UNKNOWN_SESSION);
        outcome.resume_rejected = Some(refused);
        if refused {
            outcome.session_id = None;
            let mut failure = Failure::of(FailureKind::ResumeRejected);
            if let Some(known) = &outcome.failure {
                failure.exit_code = known.exit_code;
            }
            outcome.failure = Some(failure);
        }
    }
}

impl EventDecoder {
    /// `None` where stderr may name the cause better than the shape of the stream does.
    fn gap_failure(&self, kind: FailureKind, end: &End) -> Option<Failure> {
        if end.stop.is_some() || (!self.seen && !end.stderr.is_empty()) {
            return None;
        }
        let failure = Failure::of(kind);
        Some(if self.cut.is_some() {
            failure.hint(format!(
                "{} exits before a line of more than about a megabyte has left its pipe; ask for a shorter answer",
                self.plan.name
            ))
        } else {
            failure
        })
    }
}
