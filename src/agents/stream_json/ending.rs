//! From the lines that were read and the end of the process to evidence and outcome.

use std::time::{SystemTime, UNIX_EPOCH};

use semver::Version;

use super::resume::Resume;
use super::transcript::Transcript;
use crate::agents::{End, Evidence, StopReason, Verdict};
use crate::contract::{Failure, FailureKind, Outcome, RunStatus, Usage};

/// What the line said that ended the run.
#[derive(Debug, Clone)]
pub struct Terminal {
    pub verdict: Verdict,
    /// The answer it carried; empty when it carried none.
    pub answer: String,
    /// Why, should the verdict be an error.
    pub failure: Option<Failure>,
}

impl Terminal {
    pub fn success(answer: String) -> Self {
        Terminal { verdict: Verdict::Success, answer, failure: None }
    }
    pub fn error(text: String, failure: Failure) -> Self {
        Terminal { verdict: Verdict::Error(text), answer: String::new(), failure: Some(failure) }
    }
}

pub fn evidence(transcript: &Transcript, terminal: Option<&Terminal>, usage: Usage, end: &End) -> Evidence {
    let (verdict, answer) = terminal.map(|t| (t.verdict.clone(), t.answer.as_str())).unzip();
    let answer = answer.unwrap_or_default();
    let or = |text: &str, otherwise: String| if text.is_empty() { otherwise } else { text.to_owned() };
    let mut evidence = Evidence {
        verdict,
        output: or(answer, transcript.final_text().to_owned()),
        partial: or(answer, transcript.partial()),
        session_id: transcript.session_id(),
        usage,
        ignore_write_error: transcript.session_id().is_some(),
        failure: terminal.and_then(|t| t.failure.clone()),
        ..Evidence::default()
    };
    let undisturbed = end.stop.is_none() && end.read_error.is_none();
    if terminal.is_none() && undisturbed {
        if let Some(error) = transcript.last_api_error() {
            evidence.fault = Some(error.text.clone()).filter(|t| !t.is_empty());
            evidence.failure = Some(error.failure(now()));
        } else if transcript.cut() && end.exit.error().is_none() {
            let lost = "stdout ended within a line: the CLI lost output at its exit";
            evidence.failure = Some(Failure::of(FailureKind::Protocol).hint(lost));
        }
    }
    evidence
}

/// Says why the CLI was silent when one of our limits ended the run.
pub fn explain_limit(evidence: &mut Evidence, end: &End, last_retry: Option<&str>) {
    let limited = matches!(end.stop.as_ref().map(|s| &s.reason), Some(StopReason::Limit(..)));
    if let Some(retry) = last_retry.filter(|_| limited && evidence.failure.is_none()) {
        evidence.failure = Some(Failure::of(FailureKind::Timeout).hint(retry));
    }
}

/// `version`: of the executable, where it is known without asking.
pub fn conclude(
    outcome: &mut Outcome,
    end: &End,
    transcript: &Transcript,
    resume: &Resume,
    (name, version): (&str, Option<&Version>),
) {
    resume.conclude(outcome, end);
    // It failed before it said anything of the protocol: the version is the first thing to look at.
    if outcome.status == RunStatus::Failed
        && !transcript.seen()
        && let (Some(failure), Some(version)) = (&mut outcome.failure, version)
    {
        failure.hint.get_or_insert_with(|| format!("this is {name} {version}"));
    }
}

/// Milliseconds since the epoch.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}
