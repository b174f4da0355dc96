use jiff::Timestamp;
use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::{Baseline, Totals};
use crate::agents::foreign::foreign;
use crate::agents::stream_json::control::{self, Approval};
use crate::agents::stream_json::ending::{self, Terminal, now};
use crate::agents::stream_json::failure::{Clues, ErrorFields, is_error_answer};
use crate::agents::stream_json::frame::{Count, Frame, Str, Tokens, decode};
use crate::agents::stream_json::prompt;
use crate::agents::stream_json::reset::epoch_ms;
use crate::agents::stream_json::resume::Resume;
use crate::agents::stream_json::transcript::{Dialect, Transcript};
use crate::agents::stream_json::usage::{InputCount, cost, model_usage};
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{Message, Outcome};

const NAME: &str = "claude";

const DIALECT: Dialect = Dialect {
    input: InputCount::Exclusive,
    thinking_in_text: true,
    output_at_stop_only: true,
    session_on_every_line: false,
    anonymous_messages_add_up: true,
    is_notice: None,
    fatal_tool_result: Some(is_async_launch),
};

/// How one start was asked for.
pub struct Plan {
    pub prompt: String,
    pub model: Option<String>,
    pub resume: Option<String>,
    pub baseline: Baseline,
    pub version: Option<Version>,
}

pub struct ClaudeDecoder {
    plan: Plan,
    resume: Resume,
    transcript: Transcript,
    terminal: Option<Terminal>,
    totals: Totals,
    /// End of the usage limit that is reached, in ms since the epoch.
    limit_end: Option<u64>,
    last_retry: Option<String>,
}

impl ClaudeDecoder {
    pub fn new(plan: Plan) -> Self {
        ClaudeDecoder {
            resume: Resume::new(plan.resume.as_ref()),
            transcript: Transcript::new(DIALECT, plan.model.as_ref()),
            plan,
            terminal: None,
            totals: Totals::default(),
            limit_end: None,
            last_retry: None,
        }
    }

    fn result(&mut self, line: Line<'_>, frame: &Frame<'_>, out: &mut Output) {
        let (Some(end), Some(errors)) = (decode::<ResultLine>(line.text), decode::<ErrorFields>(line.text))
        else {
            // Nothing in a line of the wrong shape can be trusted to be the end.
            return foreign(line, out);
        };
        self.count(&end);
        self.terminal = Some(self.verdict(frame, &end, &errors));
        out.close_stdin = true;
        out.terminal = true;
    }

    fn verdict(&self, frame: &Frame<'_>, end: &ResultLine<'_>, errors: &ErrorFields<'_>) -> Terminal {
        let answer = errors.result_text();
        let mut clues = errors.clues();
        let reason = end.terminal_reason.trim();
        if reason == "prompt_too_long" {
            let detail = answer.trim();
            let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
            clues.names.insert(0, reason.to_owned());
            return self.error(
                format!(
                    "claude ended the turn with terminal_reason=prompt_too_long: the context window is exhausted and \
                     compaction could not recover{detail}"
                ),
                clues,
            );
        }
        // `subtype` does not tell: it is "success" for errors of the model service as well.
        let is_error = end.is_error.unwrap_or_else(|| frame.subtype.starts_with("error"));
        if matches!(reason, "aborted_streaming" | "aborted_tools") {
            let verdict = Verdict::Cancelled(if answer.is_empty() { clues.text } else { answer });
            return Terminal { verdict, answer: String::new(), failure: None };
        }
        if is_error {
            if matches!(reason, "blocking_limit" | "rapid_refill_breaker") {
                clues.names.insert(0, reason.to_owned());
            }
            let text = if answer.is_empty() { clues.text.clone() } else { answer };
            return self.error(text, clues);
        }
        if is_error_answer(&answer, self.transcript.is_synthetic_answer()) {
            return self.error(answer, clues);
        }
        Terminal::success(answer)
    }

    fn error(&self, text: String, mut clues: Clues) -> Terminal {
        clues.text.clone_from(&text);
        if let Some(seen) = self.transcript.last_api_error() {
            clues.status = clues.status.or(seen.status);
            clues.names.extend(seen.names.iter().cloned());
        }
        clues.reset_at = self.limit_end;
        Terminal::error(text, clues.failure(now()))
    }

    fn count(&mut self, end: &ResultLine<'_>) {
        let map = |json: Option<&RawValue>| json.map(|j| model_usage(j.get()));
        self.totals.models = map(end.model_usage).unwrap_or_default();
        if let Some(own) = map(end.model_usage_since_last_result) {
            self.totals.add_own(own);
        }
        self.totals.main_loop = end.usage.map(|u| u.counts(DIALECT.input));
        self.totals.cost_usd_ticks = end.total_cost_usd.and_then(|j| decode(j.get())).and_then(cost);
    }

    fn system(&mut self, line: &str, subtype: &str, out: &mut Output) {
        if subtype != "api_retry" {
            return;
        }
        let Some(retry) = decode::<RetryLine>(line) else { return };
        let number = |n: Option<Count>| n.map_or_else(|| "?".to_owned(), |n| n.0.to_string());
        let status = retry.error_status.map(|s| format!(", HTTP {}", s.0)).unwrap_or_default();
        let text = format!(
            "claude tries the model service again in {} ms (attempt {} of {}): {}{status}",
            number(retry.retry_delay_ms),
            number(retry.attempt),
            number(retry.max_retries),
            if retry.error.is_empty() { "unknown" } else { &retry.error },
        );
        self.last_retry = Some(text.clone());
        out.emit(Message::log("warn", text));
    }

    fn rate_limit(&mut self, line: &str, out: &mut Output) {
        let Some(info) = decode::<RateLimitLine>(line).and_then(|l| l.rate_limit_info) else { return };
        let end = info.resets_at.map(|n| epoch_ms(n.0));
        let reached = &*info.status == "rejected";
        self.limit_end = end.filter(|_| reached);
        if !reached && !info.status.ends_with("warning") {
            return;
        }
        let which = if info.rate_limit_type.is_empty() { "usage" } else { &info.rate_limit_type };
        let end = end.and_then(|ms| Timestamp::from_millisecond(ms.try_into().ok()?).ok());
        let end = end.map(|t| format!(", resets at {t}")).unwrap_or_default();
        out.emit(Message::log("warn", format!("claude {which} limit: {}{end}", &*info.status)));
    }
}

impl Decoder for ClaudeDecoder {
    fn open(&mut self, out: &mut Output) {
        prompt::send(&self.plan.prompt, out);
        self.plan.prompt = String::new();
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let Some(frame) = self.transcript.read(line, out) else { return };
        match &*frame.kind {
            "result" => self.result(line, &frame, out),
            "system" => self.system(line.text, &frame.subtype, out),
            "rate_limit_event" => self.rate_limit(line.text, out),
            // stdin is closed behind the result.
            "control_request" if self.terminal.is_none() => {
                if let Some(reply) = control::answer(line.text, Approval { allowed: false, foreground: true })
                {
                    out.write(reply);
                }
            }
            _ => {}
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let usage = self.totals.share(
            self.resume.is_asked(),
            &self.plan.baseline,
            self.transcript.model(),
            self.transcript.ledger.totals(),
        );
        let mut evidence = ending::evidence(&self.transcript, self.terminal.as_ref(), usage, end);
        ending::explain_limit(&mut evidence, end, self.last_retry.as_deref());
        if self.transcript.had_fatal_tool_result() {
            evidence.veto = Some(
                "claude launched an asynchronous background task; its work would be lost, a run needs foreground execution"
                    .to_owned(),
            );
        }
        evidence
    }

    fn conclude(&mut self, outcome: &mut Outcome, end: &End) {
        ending::conclude(outcome, end, &self.transcript, &self.resume, (NAME, self.plan.version.as_ref()));
    }
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    is_error: Option<bool>,
    #[serde(borrow, default)]
    terminal_reason: Str<'a>,
    usage: Option<Tokens>,
    #[serde(rename = "modelUsage", borrow)]
    model_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    model_usage_since_last_result: Option<&'a RawValue>,
    #[serde(borrow)]
    total_cost_usd: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RetryLine<'a> {
    attempt: Option<Count>,
    max_retries: Option<Count>,
    retry_delay_ms: Option<Count>,
    error_status: Option<Count>,
    #[serde(borrow, default)]
    error: Str<'a>,
}

#[derive(Deserialize)]
struct RateLimitLine<'a> {
    #[serde(borrow)]
    rate_limit_info: Option<RateLimit<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RateLimit<'a> {
    #[serde(borrow, default)]
    status: Str<'a>,
    resets_at: Option<Count>,
    #[serde(borrow, default)]
    rate_limit_type: Str<'a>,
}

/// A task that goes on behind the turn: an object that says so, or a list with such an object, at the top or
/// under `content`. Text that quotes one does not count.
fn is_async_launch(content: &RawValue) -> bool {
    use serde_json::Value;
    // Almost every tool result ends here.
    if !content.get().contains("async_launched") {
        return false;
    }
    let launched = |v: &Value| v["status"] == "async_launched";
    let listed = |v: &Value| v.as_array().is_some_and(|list| list.iter().any(launched));
    decode::<Value>(content.get()).is_some_and(|v| launched(&v) || listed(&v) || listed(&v["content"]))
}
