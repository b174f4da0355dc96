use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agents::foreign::foreign;
use crate::agents::stream_json::control::{self, Approval};
use crate::agents::stream_json::ending::{self, Terminal, now};
use crate::agents::stream_json::failure::{Clues, ErrorFields, is_error_answer};
use crate::agents::stream_json::frame::{Frame, Tokens, decode};
use crate::agents::stream_json::prompt;
use crate::agents::stream_json::resume::Resume;
use crate::agents::stream_json::transcript::{Dialect, Transcript};
use crate::agents::stream_json::usage::{InputCount, cost, model_usage};
use crate::agents::{Decoder, End, Evidence, Line, Output, Verdict};
use crate::contract::{ModelUsage, Outcome, Usage};

const NAME: &str = "codebuddy";

const DIALECT: Dialect = Dialect {
    // Against a model service that counts 1234 input tokens of which 789 were cached, 2.117 and 2.163 print
    // `input_tokens` 1234 on messages and on the result. `modelUsage`, new in 2.163, has 445: it is exclusive.
    input: InputCount::Inclusive,
    thinking_in_text: true,
    output_at_stop_only: false,
    session_on_every_line: false,
    anonymous_messages_add_up: true,
    is_notice: Some(is_notice),
    fatal_tool_result: None,
};

/// How one start was asked for.
pub struct Plan {
    pub prompt: String,
    pub model: Option<String>,
    pub resume: Option<String>,
    pub version: Option<Version>,
}

pub struct CodebuddyDecoder {
    plan: Plan,
    resume: Resume,
    transcript: Transcript,
    terminal: Option<Terminal>,
    /// `modelUsage`: this run's share, even of a resumed session.
    models: Usage,
    /// `usage` of the result line: the whole session's.
    total: Option<ModelUsage>,
}

impl CodebuddyDecoder {
    pub fn new(plan: Plan) -> Self {
        CodebuddyDecoder {
            resume: Resume::new(plan.resume.as_ref()),
            transcript: Transcript::new(DIALECT, plan.model.as_ref()),
            plan,
            terminal: None,
            models: Usage::new(),
            total: None,
        }
    }

    fn end(&mut self, line: Line<'_>, frame: &Frame<'_>, out: &mut Output) {
        let (Some(end), Some(errors)) = (decode::<ResultLine>(line.text), decode::<ErrorFields>(line.text))
        else {
            return foreign(line, out);
        };
        self.models = end.model_usage.map(|j| model_usage(j.get())).unwrap_or_default();
        let usd = end.total_cost_usd.and_then(|j| decode(j.get())).and_then(cost);
        self.total = end.usage.map(|u| ModelUsage { cost_usd_ticks: usd, ..u.counts(DIALECT.input) });
        let answer = errors.result_text();
        let clues = errors.clues();
        let is_error =
            &*frame.kind == "error" || end.is_error.unwrap_or_else(|| frame.subtype.starts_with("error"));
        self.terminal = Some(if is_error {
            let text = if answer.is_empty() { clues.text.clone() } else { answer };
            failed(text, clues)
        } else if is_error_answer(&answer, self.transcript.is_synthetic_answer()) {
            failed(answer, clues)
        } else {
            // 2.163 gives an answer that follows thinking on this line only, unless it streamed it.
            self.transcript.say_unsaid(&answer, out);
            Terminal::success(answer)
        });
        out.close_stdin = true;
        out.terminal = true;
    }

    fn usage(&self) -> Usage {
        if !self.models.is_empty() {
            return self.models.clone();
        }
        let model = self.transcript.model();
        match self.total.filter(|t| !t.is_zero() && !model.is_empty() && !self.resume.is_asked()) {
            Some(total) => Usage::from([(model.to_owned(), total)]),
            None => self.transcript.ledger.totals(),
        }
    }
}

/// "502 …", "401 Unauthorized", and "aborted" for a stream that broke off. A broken connection is tried again
/// without end, with one of these for each attempt.
fn is_notice(text: &str) -> bool {
    let status = text.get(..3).is_some_and(|s| s.parse::<u16>().is_ok_and(|n| (400..600).contains(&n)));
    text == "aborted" || (status && matches!(text.as_bytes().get(3), None | Some(b' ')))
}

fn failed(text: String, mut clues: Clues) -> Terminal {
    clues.text.clone_from(&text);
    Terminal::error(text, clues.failure(now()))
}

impl Decoder for CodebuddyDecoder {
    fn open(&mut self, out: &mut Output) {
        prompt::send(&self.plan.prompt, out);
        self.plan.prompt = String::new();
    }

    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        let Some(frame) = self.transcript.read(line, out) else { return };
        match &*frame.kind {
            // `error` is all that comes for a session that does not exist, with exit code 0.
            "result" | "error" => self.end(line, &frame, out),
            "control_request" if self.terminal.is_none() => {
                if let Some(reply) = control::answer(line.text, Approval { allowed: true, foreground: false })
                {
                    out.write(reply);
                }
            }
            _ => {}
        }
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let mut evidence = ending::evidence(&self.transcript, self.terminal.as_ref(), self.usage(), end);
        ending::explain_limit(&mut evidence, end, self.transcript.last_notice());
        // An error may come as a text first, and nothing on that line says so.
        if matches!(evidence.verdict, Some(Verdict::Error(_))) && self.transcript.is_bare_answer() {
            evidence.partial.clear();
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
    usage: Option<Tokens>,
    #[serde(rename = "modelUsage", borrow)]
    model_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    total_cost_usd: Option<&'a RawValue>,
}
