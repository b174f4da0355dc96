use std::time::Duration;

use semver::Version;
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::agents::foreign::foreign;
use crate::agents::stream_json::ending::{self, Terminal, now};
use crate::agents::stream_json::failure::{Clues, ErrorFields};
use crate::agents::stream_json::frame::{Count, Frame, Tokens, decode};
use crate::agents::stream_json::resume::Resume;
use crate::agents::stream_json::transcript::{Dialect, Transcript};
use crate::agents::stream_json::usage::{InputCount, covers, sum};
use crate::agents::{Decoder, End, Evidence, Line, Output, Retry};
use crate::contract::{Message, ModelUsage, Outcome, Usage};

const NAME: &str = "qwen";

const DIALECT: Dialect = Dialect {
    input: InputCount::Inclusive,
    thinking_in_text: false,
    output_at_stop_only: false,
    session_on_every_line: true,
    anonymous_messages_add_up: false,
    is_notice: None,
    fatal_tool_result: None,
};

/// The CLI waits half a second for its piped prompt. On a machine that stood still that long it finds none.
const NO_PROMPT: &str = "No input provided via stdin";
const RETRY: Retry = Retry { after: Duration::from_millis(200), fresh_session: false };

/// How one start was asked for.
pub struct Plan {
    pub prompt: String,
    pub model: Option<String>,
    pub resume: Option<String>,
    /// What the session counted before; comes while the run goes on.
    pub before: Option<oneshot::Receiver<ModelUsage>>,
    pub version: Option<Version>,
    pub attempt: u32,
}

pub struct QwenDecoder {
    plan: Plan,
    resume: Resume,
    transcript: Transcript,
    terminal: Option<Terminal>,
    /// `usage` of the result line: side requests included, and the earlier runs of a resumed session.
    total: Option<ModelUsage>,
    last_retry: Option<String>,
}

impl QwenDecoder {
    pub fn new(plan: Plan) -> Self {
        QwenDecoder {
            resume: Resume::new(plan.resume.as_ref()),
            transcript: Transcript::new(DIALECT, plan.model.as_ref()),
            plan,
            terminal: None,
            total: None,
            last_retry: None,
        }
    }

    fn end(&mut self, line: Line<'_>, frame: &Frame<'_>, out: &mut Output) {
        let (Some(end), Some(errors)) = (decode::<ResultLine>(line.text), decode::<ErrorFields>(line.text))
        else {
            return foreign(line, out);
        };
        self.total = end.usage.map(|u| u.counts(DIALECT.input));
        let answer = errors.result_text();
        let clues = errors.clues();
        let is_error = end.is_error == Some(true)
            || &*frame.kind == "error"
            || matches!(&*frame.subtype, "error" | "failed")
            || (end.is_error.is_none() && frame.subtype.starts_with("error"));
        self.terminal = Some(if is_error {
            let text = if answer.is_empty() { clues.text.clone() } else { answer };
            failed(text, clues)
        } else if let Some(error) = self.error_in(&answer) {
            failed(error.to_owned(), clues)
        } else {
            Terminal::success(answer)
        });
        out.terminal = true;
    }

    /// 0.15 gives a failure of the model service as a success whose answer is "[API Error: …]", or ends with it
    /// when the answer broke off. The error is always a piece of its own.
    fn error_in<'a>(&mut self, answer: &'a str) -> Option<&'a str> {
        let answer = answer.trim_end();
        let at = answer.rfind(API_ERROR).filter(|_| answer.ends_with(']'))?;
        let error = &answer[at..];
        (at == 0 || self.transcript.last_piece().trim_end() == error).then_some(error)
    }

    fn retry(&mut self, line: &str, out: &mut Output) {
        let data = decode::<RetryLine>(line).and_then(|l| l.data).unwrap_or_default();
        // Text of the broken attempt was streamed; the message is written anew.
        if data.preserve_text == Some(false) {
            self.transcript.start_over("");
        }
        let number = |n: Option<Count>| n.map(|n| n.0.to_string());
        let attempt = match (number(data.attempt), number(data.max_retries)) {
            (Some(n), Some(of)) => format!(" (attempt {n} of {of})"),
            (Some(n), None) => format!(" (attempt {n})"),
            _ => String::new(),
        };
        let delay = number(data.delay_ms).map(|ms| format!(" in {ms} ms")).unwrap_or_default();
        let text = format!("qwen tries the model service again{delay}{attempt}");
        self.last_retry = Some(text.clone());
        out.emit(Message::log("warn", text));
    }

    fn usage(&mut self) -> Usage {
        let messages = self.transcript.ledger.totals();
        let total = self.total.filter(|t| !t.is_zero());
        let share = if self.resume.is_asked() { self.resumed_share(&sum(&messages)) } else { total };
        match share.filter(|_| !self.transcript.model().is_empty()) {
            Some(share) => Usage::from([(self.transcript.model().to_owned(), share)]),
            None => messages,
        }
    }

    /// The session's total without the earlier runs. `None` when these were not counted, or so that less is
    /// left than the messages of this run have.
    fn resumed_share(&mut self, messages: &ModelUsage) -> Option<ModelUsage> {
        let total = self.total?;
        let before = self.plan.before.as_mut()?.try_recv().ok()?;
        let share = covers(&total, &before).then(|| total.since(&before))?;
        (covers(&share, messages) && !share.is_zero()).then_some(share)
    }
}

const API_ERROR: &str = "[API Error: ";

fn failed(text: String, mut clues: Clues) -> Terminal {
    clues.text.clone_from(&text);
    Terminal::error(text, clues.failure(now()))
}

impl Decoder for QwenDecoder {
    fn open(&mut self, out: &mut Output) {
        out.write(std::mem::take(&mut self.plan.prompt));
        out.close_stdin = true;
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let Some(frame) = self.transcript.read(line, out) else { return };
        match &*frame.kind {
            "result" | "error" => self.end(line, &frame, out),
            "system" if &*frame.subtype == "retry" => self.retry(line.text, out),
            _ => {}
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let usage = self.usage();
        let mut evidence = ending::evidence(&self.transcript, self.terminal.as_ref(), usage, end);
        ending::explain_limit(&mut evidence, end, self.last_retry.as_deref());
        // The error of the model service is part of the streamed text.
        if let Some(at) = evidence.partial.rfind(API_ERROR).filter(|_| evidence.partial.ends_with(']')) {
            evidence.partial.truncate(at);
        }
        let unheard = !self.transcript.seen() && end.stderr.contains(NO_PROMPT);
        evidence.retry = (unheard && self.plan.attempt == 1).then_some(RETRY);
        evidence
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        ending::conclude(outcome, end, &self.transcript, &self.resume, (NAME, self.plan.version.as_ref()));
    }
}

#[derive(Deserialize)]
struct ResultLine {
    is_error: Option<bool>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct RetryLine {
    data: Option<RetryData>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryData {
    attempt: Option<Count>,
    max_retries: Option<Count>,
    delay_ms: Option<Count>,
    preserve_text: Option<bool>,
}
