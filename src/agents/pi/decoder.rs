//! Turns pi's events into Messages and evidence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::frames::{self, Frame, TurnMessage};
use super::sanitize::Sanitizer;
use super::session::Session;
use crate::agents::foreign::foreign;
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::duration;
use crate::contract::{Failure, FailureKind, Message, Outcome, RunStatus, Usage};

/// What pi prints on stderr, before its first event, when it does not take up the session asked for: an id that
/// matches nothing, a file that holds something else, a session whose folder is gone.
const RESUME_REFUSED: &[&str] = &[
    "No session found matching",
    "Session file is not a valid pi session",
    "Stored session working directory does not exist",
];
/// Start-up errors of a pi that nobody logged in.
const NOT_LOGGED_IN: &[&str] = &["No API key found", "No models available"];
/// How pi 1.x fails under Node.js 20.
const OLD_NODE: &[&str] = &["does not provide an export named"];

pub struct PiDecoder {
    prompt: Vec<u8>,
    /// The model asked for.
    model: Option<String>,
    session: Session,
    resuming: bool,
    history_missing: bool,
    /// The id given out last.
    announced: Option<String>,
    /// Any event was seen: pi has taken up the session.
    started: Arc<AtomicBool>,
    filter: Sanitizer,
    /// Text of the current turn.
    answer: String,
    /// Text of the last turn before it that had any.
    earlier: String,
    turn: Turn,
    /// A turn_end was seen at all.
    any_turn: bool,
    /// agent_end came after the last turn and announces no retry.
    ended: bool,
    /// The agent's last word: it will not go on by itself. From 0.80.4 on.
    settled: bool,
    /// An `error` event.
    fault: Option<String>,
    usage: Usage,
}

/// How the last turn stands.
#[derive(Debug, Default, PartialEq)]
enum Turn {
    /// Running, or not begun.
    #[default]
    Open,
    Done,
    /// It ended with tool calls, so another turn is due.
    ToolUse,
    Aborted,
    Failed(String),
}

impl PiDecoder {
    pub fn new(
        prompt: &str,
        model: Option<&str>,
        session: Session,
        resuming: bool,
        history_missing: bool,
    ) -> Self {
        PiDecoder {
            prompt: prompt.as_bytes().to_vec(),
            model: model.map(str::to_owned),
            session,
            resuming,
            history_missing,
            announced: None,
            started: Arc::default(),
            filter: Sanitizer::default(),
            answer: String::new(),
            earlier: String::new(),
            turn: Turn::Open,
            any_turn: false,
            ended: false,
            settled: false,
            fault: None,
            usage: Usage::new(),
        }
    }

    /// Becomes true with pi's first event.
    pub fn tell_start(mut self, started: Arc<AtomicBool>) -> Self {
        self.started = started;
        self
    }

    fn started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    fn announce(&mut self, out: &mut Output) {
        let id = self.session.argument();
        if self.announced.as_deref() != Some(id) {
            self.announced = Some(id.to_owned());
            out.emit(Message::running(self.announced.clone()));
        }
    }

    fn text(&mut self, text: String, out: &mut Output) {
        if !text.is_empty() {
            self.answer.push_str(&text);
            out.emit(Message::text(text));
        }
    }

    fn flush_text(&mut self, out: &mut Output) {
        let rest = self.filter.flush();
        self.text(rest, out);
    }

    fn update(&mut self, frame: Frame<'_>, out: &mut Output) {
        let Some(update) = frame.assistant_message_event else { return };
        match &*update.kind {
            "text_delta" => {
                let text = self.filter.feed(update.delta.unwrap_or_default());
                self.text(text, out);
            }
            "text_end" => self.flush_text(out),
            "thinking_delta" => {
                if let Some(delta) = update.delta.filter(|delta| !delta.is_empty()) {
                    out.emit(Message::thinking(delta));
                }
            }
            _ => {}
        }
    }

    fn turn_start(&mut self) {
        self.filter = Sanitizer::default();
        let answer = std::mem::take(&mut self.answer);
        if !answer.is_empty() {
            self.earlier = answer;
        }
        self.turn = Turn::Open;
        self.ended = false;
    }

    fn turn_end(&mut self, frame: &Frame<'_>, out: &mut Output) {
        self.flush_text(out);
        self.any_turn = true;
        let message: TurnMessage =
            frame.message.and_then(|m| serde_json::from_str(m.get()).ok()).unwrap_or_default();
        if let Some(usage) = frames::usage(message.usage) {
            let model = [message.model.as_deref(), self.model.as_deref()].into_iter().flatten();
            let model = model.map(str::trim).find(|m| !m.is_empty()).unwrap_or("unknown");
            self.usage.entry(model.to_owned()).or_default().add(&usage);
        }
        self.turn = match message.stop_reason.as_deref() {
            Some("error") => {
                let text = message.error_message.filter(|text| !text.trim().is_empty());
                Turn::Failed(text.unwrap_or_else(|| "pi ended the turn with an error".to_owned()))
            }
            Some("aborted") => Turn::Aborted,
            Some("toolUse") => Turn::ToolUse,
            Some("deferred") => Turn::Failed("pi left the answer to a deferred response".to_owned()),
            Some("length") => {
                out.emit(Message::log("warn", "the answer was cut at the model's output limit"));
                Turn::Done
            }
            _ => Turn::Done,
        };
    }

    fn tool_end(&mut self, frame: &Frame<'_>, out: &mut Output) {
        out.emit(Message::ToolResult {
            call_id: frames::text(frame.tool_call_id),
            tool: frames::string(frame.tool_name),
            output: frames::tool_output(frame.result),
            is_error: frames::boolean(frame.is_error),
            parent_call_id: None,
        });
    }

    fn error(&mut self, frame: &Frame<'_>, out: &mut Output) {
        let text = frames::text(frame.message);
        let text = if text.is_empty() { frames::text(frame.error_message) } else { text };
        out.emit(Message::error(text.clone()));
        if self.fault.is_none() && !text.is_empty() {
            self.fault = Some(text);
        }
    }

    fn retries_exhausted(&mut self, frame: &Frame<'_>) {
        if frames::boolean(frame.success) == Some(true) {
            return;
        }
        let told = frames::string(frame.final_error).filter(|text| !text.trim().is_empty());
        if told.is_some() || !matches!(self.turn, Turn::Failed(_) | Turn::Aborted) {
            self.turn = Turn::Failed(told.unwrap_or_else(|| "pi exhausted automatic retries".to_owned()));
        }
    }
}

impl Decoder for PiDecoder {
    fn open(&mut self, out: &mut Output) {
        if self.history_missing {
            out.emit(Message::log("warn", "session file missing, starting fresh"));
        }
        // pi reads its prompt up to the end of stdin; without that end it waits for ever.
        out.write(std::mem::take(&mut self.prompt));
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let Ok(frame) = serde_json::from_str::<Frame>(line.text) else {
            foreign(line, out);
            return;
        };
        self.started.store(true, Ordering::SeqCst);
        match &*frame.kind {
            "message_update" => self.update(frame, out),
            "session" => {
                if let (Session::Id(_), Some(id)) = (&self.session, frames::string(frame.id)) {
                    self.session = Session::Id(id);
                }
                self.announce(out);
            }
            "agent_start" => {
                self.announce(out);
                (self.ended, self.settled) = (false, false);
            }
            "turn_start" => self.turn_start(),
            "turn_end" => self.turn_end(&frame, out),
            "tool_execution_start" => {
                self.flush_text(out);
                let (tool, id) = (frames::text(frame.tool_name), frames::text(frame.tool_call_id));
                out.emit(Message::tool_use(tool, id, frames::object(frame.args)));
            }
            "tool_execution_end" => self.tool_end(&frame, out),
            "agent_end" => {
                self.ended = frames::boolean(frame.will_retry) != Some(true);
                // 0.7x has no later event; newer ones may still retry after it.
                out.settled = self.ended;
            }
            "agent_settled" => {
                self.settled = true;
                if frames::boolean(frame.aborted) == Some(true) {
                    self.turn = Turn::Aborted;
                }
                out.terminal = true;
            }
            "error" => self.error(&frame, out),
            "auto_retry_start" => {
                self.ended = false;
                out.emit(retry_notice("pi retries", &frame));
            }
            "auto_retry_end" => self.retries_exhausted(&frame),
            "summarization_retry_scheduled" => out.emit(retry_notice("pi retries the summary", &frame)),
            "compaction_start" => {
                let reason = frames::string(frame.reason).unwrap_or_default();
                out.emit(Message::log("info", format!("pi compacts the context ({reason})")));
            }
            "compaction_end" => out.emit(match frames::string(frame.error_message) {
                Some(error) => Message::log("warn", format!("pi could not compact the context: {error}")),
                None => Message::log("info", "pi has compacted the context"),
            }),
            _ => {}
        }
    }

    fn end_of_stdout(&mut self, out: &mut Output) {
        self.flush_text(out);
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        // After a stop the end of stdout may not have been seen.
        self.answer += &self.filter.flush();
        let clean_exit = end.exit.code == Some(0) && !end.exit.forced && end.write_error.is_none();
        let error = match &self.turn {
            _ if self.fault.is_some() => self.fault.clone(),
            Turn::Failed(text) => Some(text.clone()),
            _ => None,
        };
        let mut evidence = Evidence {
            // pi ends with exit code 0 after every error of the model service; what failed says the turn.
            verdict: match (&error, &self.turn) {
                (Some(text), _) => self.settled.then(|| Verdict::Error(text.clone())),
                (None, Turn::Aborted) => Some(Verdict::Cancelled("pi aborted the turn".to_owned())),
                (None, _) if !self.any_turn => None,
                (None, Turn::Done) if self.settled || self.ended || clean_exit => Some(Verdict::Success),
                (None, Turn::ToolUse) if self.settled || self.ended => Some(Verdict::Success),
                (None, _) => None,
            },
            output: self.answer.clone(),
            partial: if self.answer.is_empty() { self.earlier.clone() } else { self.answer.clone() },
            // A fresh session that pi never came to take up does not exist.
            session_id: (self.started() || self.resuming).then(|| self.session.argument().to_owned()),
            usage: std::mem::take(&mut self.usage),
            ignore_write_error: self.any_turn,
            ..Default::default()
        };
        if let Some(text) = &error {
            let kind = FailureKind::from_text(text);
            evidence.failure = (kind != FailureKind::Unknown).then(|| Failure::of(kind));
        }
        evidence.fault = match error {
            None if evidence.verdict.is_none() && clean_exit => {
                evidence.failure = Some(Failure::of(FailureKind::Crash));
                Some("pi stream ended without a completed turn".to_owned())
            }
            error => error,
        };
        evidence
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        let failed_to_start = outcome.status == RunStatus::Failed && !self.started();
        let says = |phrases: &[&str]| failed_to_start && phrases.iter().any(|p| end.stderr.contains(p));
        let rejected = self.resuming && says(RESUME_REFUSED);
        outcome.resume_rejected = Some(rejected);
        let Some(failure) = &mut outcome.failure else { return };
        let (kind, retryable, hint) = if rejected {
            outcome.session_id = None;
            (FailureKind::ResumeRejected, false, None)
        } else if says(NOT_LOGGED_IN) {
            let hint = "run pi and use its /login, or give the provider's API key in env";
            (FailureKind::Auth, false, Some(hint))
        } else if says(OLD_NODE) {
            let hint = "this pi needs a newer Node.js than it was started with: 1.x needs 22.19";
            (FailureKind::Crash, false, Some(hint))
        } else {
            return;
        };
        (failure.kind, failure.retryable, failure.hint) = (kind, retryable, hint.map(str::to_owned));
    }
}

fn retry_notice(what: &str, frame: &Frame<'_>) -> Message {
    let mut text = what.to_owned();
    if let (Some(attempt), Some(max)) = (frames::number(frame.attempt), frames::number(frame.max_attempts)) {
        text += &format!(" (attempt {attempt} of {max})");
    }
    if let Some(ms) = frames::number(frame.delay_ms) {
        text += &format!(" in {}", duration::format(std::time::Duration::from_millis(ms)));
    }
    if let Some(error) = frames::string(frame.error_message) {
        text += &format!(": {error}");
    }
    Message::log("warn", text)
}
