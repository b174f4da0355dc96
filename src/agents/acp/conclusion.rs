//! What the turn and the end of the process come to. Many agents end a turn that failed as if it had not:
//! success needs the agent's word and nothing that speaks against it.

use std::sync::LazyLock;
use std::time::SystemTime;

use regex::Regex;

use super::dialogue::AcpDialogue;
use super::profile::{AfterExit, Findings};
use super::{errors, resume};
use crate::agents::{End, Evidence, StopReason, Verdict};
use crate::contract::{Failure, FailureKind, ModelUsage, Usage};

/// What the conversation left.
#[derive(Default)]
pub struct Seen {
    pub started: Option<SystemTime>,
    pub session_id: Option<String>,
    pub prompted: bool,
    /// We asked the agent to cancel.
    pub cancelling: bool,
    pub verdict: Option<Verdict>,
    pub failure: Option<Failure>,
    pub fault: Option<String>,
    /// The agent refused the resume, and with it the turn.
    pub rejected: bool,
    /// The session cannot be resumed any more, so its id is no pointer.
    pub gone: bool,
    /// The agent started a new session in place of the one asked for; the turn runs there.
    pub replaced: bool,
    pub current_model: Option<String>,
    pub by_model: Usage,
}

/// A reason against the agent's word that all went well.
struct Objection {
    text: String,
    failure: Failure,
    /// The model call was given up, so the session's history may be the cause.
    terminal: bool,
}

impl AcpDialogue {
    pub(super) fn weigh(&mut self, end: &End) -> Evidence {
        let stopped = end.stop.is_some();
        let by_caller = end.stop.as_ref().is_some_and(|stop| stop.reason == StopReason::Cancelled);
        if stopped {
            // A refused prompt after our cancel is the cancel's echo, and a stop is no word about the session.
            if matches!(self.seen.verdict, Some(Verdict::Error(_))) {
                self.seen.verdict = None;
            }
            self.seen.failure = None;
            (self.seen.rejected, self.seen.gone) = (false, false);
        }
        self.sniffer.lock().unwrap_or_else(|e| e.into_inner()).finish();
        let findings = self.findings();
        let usage = self.usage(&findings);
        let mut objection = None;
        if !stopped && self.seen.verdict == Some(Verdict::Success) {
            objection = self.objection(findings, usage.is_empty());
            self.judge_resume(&mut objection);
        }
        let mut verdict = self.seen.verdict.take();
        let mut telling = objection.is_some();
        if let Some(Verdict::Error(text)) = &mut verdict {
            telling = true;
            if let Some(reason) = self.stderr_message().filter(|reason| !text.contains(reason.as_str())) {
                text.push_str(&format!("; {} provider error: {reason}", self.profile.name));
            }
        }
        let (veto, objected) = match objection {
            Some(o) => (Some(o.text), Some(o.failure)),
            None => (None, None),
        };
        let mut failure = objected.or(self.seen.failure.take());
        if self.seen.rejected {
            failure = Some(Failure::of(FailureKind::ResumeRejected));
        }
        let answer = self.turn.answer.text().to_owned();
        Evidence {
            ignore_exit: verdict.is_some(),
            ignore_write_error: self.seen.prompted,
            // These logs are long. What matters of them is in the error already; and a stop has its own reason.
            omit_stderr: telling || by_caller || (stopped && self.stderr_message().is_none()),
            verdict,
            output: answer.clone(),
            partial: answer,
            session_id: self.seen.session_id.clone().filter(|_| !self.seen.gone),
            usage,
            fault: self.seen.fault.take(),
            veto,
            failure,
            retry: None,
        }
    }

    fn stderr_message(&self) -> Option<String> {
        self.sniffer.lock().unwrap_or_else(|e| e.into_inner()).message()
    }

    fn findings(&self) -> Findings {
        let (Some(look), Some(started)) = (self.profile.hooks.after_exit, self.seen.started) else {
            return Findings::default();
        };
        match &self.seen.session_id {
            Some(session_id) if self.seen.prompted => look(&AfterExit {
                env: &self.plan.env,
                session_id,
                resumed: self.plan.resume.is_some(),
                started,
                model: &self.model(),
            }),
            _ => Findings::default(),
        }
    }

    /// The model asked for, else the session's, else the one a result named.
    fn model(&self) -> String {
        [&self.plan.model, &self.seen.current_model, &self.turn.model]
            .into_iter()
            .flatten()
            .map(|name| name.trim())
            .find(|name| !name.is_empty())
            .unwrap_or("unknown")
            .to_owned()
    }

    fn usage(&mut self, findings: &Findings) -> Usage {
        let told = self.turn.usage().unwrap_or_default();
        let mut usage = if told.is_zero() {
            findings.usage.clone()
        } else if self.seen.by_model.is_empty() {
            return Usage::from([(self.model(), told)]);
        } else {
            std::mem::take(&mut self.seen.by_model)
        };
        if told.cost_usd_ticks.is_some() && usage.values().all(|u| u.cost_usd_ticks.is_none()) {
            let model = match usage.keys().next() {
                Some(only) if usage.len() == 1 => only.clone(),
                _ => self.model(),
            };
            usage.entry(model).or_insert_with(ModelUsage::default).cost_usd_ticks = told.cost_usd_ticks;
        }
        usage
    }

    fn objection(&mut self, findings: Findings, no_usage: bool) -> Option<Objection> {
        let profile = self.profile;
        let object = |text: String, kind: FailureKind, terminal: bool| {
            Some(Objection { text, failure: errors::of_kind(profile, kind), terminal })
        };
        let prefixed = |reason: &str| format!("{} provider error: {reason}", profile.name);
        if let Some((reason, kind)) = findings.error {
            return object(prefixed(&reason), kind, true);
        }
        let reason = self.stderr_message();
        let terminal = self.sniffer.lock().unwrap_or_else(|e| e.into_inner()).is_terminal();
        let no_text = self.turn.answer.is_empty();
        let gave_up = self.turn.answer.gave_up().map(str::to_owned);
        if let Some(reason) = reason.as_ref().filter(|_| terminal || gave_up.is_some() || no_text) {
            return object(prefixed(reason), errors::kind_of(profile, reason), terminal);
        }
        if let Some(words) = gave_up {
            let kind = errors::kind_of(profile, self.turn.answer.text());
            return object(
                prefixed(&words),
                if kind == FailureKind::Unknown { FailureKind::Provider } else { kind },
                false,
            );
        }
        if let Some(text) = self.turn.answer.sole_text() {
            let own = profile.hooks.error_text.is_some_and(|own| own(text));
            if own || (no_usage && reads_as_error(text)) {
                let kind = errors::kind_of(profile, text);
                let kind = if kind == FailureKind::Unknown { FailureKind::Provider } else { kind };
                return object(prefixed(text), kind, false);
            }
        }
        if !self.turn.active && no_usage {
            return match self.turn.stop_reason.as_deref() {
                Some("refusal") => {
                    object(format!("{} refused the turn", profile.name), FailureKind::InvalidRequest, false)
                }
                _ => object(
                    format!("{} ended the turn without any text, tool call or token count", profile.name),
                    FailureKind::Provider,
                    false,
                ),
            };
        }
        None
    }

    /// A resume can be refused in a turn that looks well: by doing nothing, or by a history no provider takes.
    fn judge_resume(&mut self, objection: &mut Option<Objection>) {
        if self.plan.resume.is_none() {
            return;
        }
        let refusal = self.turn.stop_reason.as_deref() == Some("refusal");
        if self.profile.refusal_rejects_resume && refusal && !self.turn.active {
            (self.seen.rejected, self.seen.gone) = (true, true);
            let own = format!(
                "{} could not restore the resumed session; it refused the turn without running",
                self.profile.name
            );
            match objection {
                Some(o) if self.stderr_message().is_some() => {
                    o.failure = Failure::of(FailureKind::ResumeRejected)
                }
                _ => {
                    *objection = Some(Objection {
                        text: own,
                        failure: Failure::of(FailureKind::ResumeRejected),
                        terminal: false,
                    });
                }
            }
        } else if let Some(o) = objection
            && self.profile.history_rejects_resume
            && o.terminal
            && resume::unresumable_history(&o.text)
        {
            self.seen.rejected = true;
        }
    }
}

/// An answer that is nothing but the report of a failed request. Only trusted where no tokens were counted.
fn reads_as_error(text: &str) -> bool {
    static REPORT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:Error|Info): (?:Request failed|Authentication failed)|^Error: .*\(?HTTP [45]\d\d\)?")
            .expect("constant pattern")
    });
    REPORT.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_report_of_a_failed_request_reads_as_an_error() {
        for (text, error) in [
            ("Info: Request failed, retrying\nmore", true),
            ("Error: Authentication failed with provider at http://x (HTTP 401)", true),
            ("Error: upstream said HTTP 503", true),
            ("Error: none found in your code.", false),
            ("The server answers HTTP 401.", false),
        ] {
            assert_eq!(reads_as_error(text), error, "{text}");
        }
    }
}
