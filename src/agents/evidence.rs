//! The one convergence: what a CLI said plus how its process ended gives exactly one Outcome.

use std::time::Duration;

use crate::contract::{Failure, FailureKind, Limit, Outcome, RunStatus, Usage, duration};

/// Why we stopped the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    pub reason: StopReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The caller asked.
    Cancelled,
    /// One of our limits, and its length.
    Limit(Limit, Duration),
}

impl Stop {
    pub fn cancelled() -> Self {
        Stop { reason: StopReason::Cancelled }
    }
    pub fn limit(limit: Limit, after: Duration) -> Self {
        Stop { reason: StopReason::Limit(limit, after) }
    }
}

/// How the leader process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    /// `SIGTERM`, `SIGSEGV` …; POSIX only.
    pub signal: Option<String>,
    /// We had signalled it before it ended, so the exit says nothing about the CLI.
    pub forced: bool,
}

impl Exit {
    pub fn code(code: i32) -> Self {
        Exit { code: Some(code), signal: None, forced: false }
    }
    /// `exit status 3`, `signal: SIGKILL`; `None` for a clean exit or one that we caused.
    pub fn error(&self) -> Option<String> {
        if self.forced || self.code == Some(0) {
            return None;
        }
        Some(match (&self.signal, self.code) {
            (Some(signal), _) => format!("signal: {signal}"),
            (None, Some(code)) => format!("exit status {code}"),
            (None, None) => "unknown exit status".to_owned(),
        })
    }
}

/// The end of the process, as the run saw it.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// Set only when the stop came before the terminal event.
    pub stop: Option<Stop>,
    pub exit: Exit,
    pub read_error: Option<String>,
    pub write_error: Option<String>,
    /// Last bytes of stderr, raw, trimmed.
    pub stderr: String,
    /// The last line of stdout had no line end.
    pub unterminated: bool,
}

/// The CLI's own terminal word.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Success,
    /// Its error text; empty = it gave none.
    Error(String),
    /// The agent reports its turn as cancelled although the caller did not ask.
    Cancelled(String),
    /// A limit that the dialogue itself watches (handshake, semantic inactivity, first turn).
    Limit(Limit, String),
}

/// What a decoder or dialogue saw.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub verdict: Option<Verdict>,
    /// The final answer, should the run be completed.
    pub output: String,
    /// The last answer text, should it not be.
    pub partial: String,
    pub session_id: Option<String>,
    pub usage: Usage,
    /// An error the CLI reported without a terminal event. Ranks behind stop and read error, before write and exit.
    pub fault: Option<String>,
    /// Turns an otherwise completed run into a failed one.
    pub veto: Option<String>,
    /// The exit code after a terminal event says nothing (the CLI is stopped by us, or exits oddly).
    pub ignore_exit: bool,
    /// A failed prompt write says nothing any more (the CLI was seen working on it).
    pub ignore_write_error: bool,
    /// Leave the stderr tail off the error (the agent adds it itself, or it would not help).
    pub omit_stderr: bool,
    /// Structured evidence for the failure; phrases decide only without it.
    pub failure: Option<Failure>,
    /// The start failed in a way that is safe to try once more.
    pub retry: Option<Retry>,
}

/// One more try after a start that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub after: Duration,
    /// The prompt may be in the resumed session already: the second attempt leaves that alone and starts a
    /// new one.
    pub fresh_session: bool,
}

/// First match wins: an error result, our stop, a success, a limit or cancel the agent reports, read error,
/// reported fault, write error, exit status, missing terminal event.
pub fn converge(name: &str, label: &str, evidence: Evidence, end: &End) -> Outcome {
    let Evidence { verdict, output, partial, session_id, usage, fault, veto, mut failure, .. } = evidence;
    let exit_error = end.exit.error();
    let mut kind = None;
    let mut limit = None;
    let (status, error) = match (&verdict, &end.stop) {
        (Some(Verdict::Error(text)), _) => (RunStatus::Failed, Some(detail(name, text))),
        (_, Some(Stop { reason: StopReason::Limit(which, after) })) => {
            limit = Some(*which);
            (
                RunStatus::Timeout,
                Some(format!("{name} timed out after {}{}", duration::format(*after), limit_note(*which))),
            )
        }
        (_, Some(Stop { reason: StopReason::Cancelled })) => {
            (RunStatus::Aborted, Some("execution cancelled".to_owned()))
        }
        (Some(Verdict::Limit(which, text)), None) => {
            limit = Some(*which);
            (RunStatus::Timeout, Some(text.clone()))
        }
        (Some(Verdict::Cancelled(text)), None) => (
            RunStatus::Cancelled,
            Some(if text.is_empty() { format!("{name} cancelled the turn") } else { text.clone() }),
        ),
        (verdict, None) => {
            let succeeded = verdict.is_some();
            if let Some(e) = &end.read_error {
                // Whatever the agent made of the torn stream, this is what happened.
                failure = None;
                kind = Some(FailureKind::Protocol);
                (RunStatus::Failed, Some(format!("{name} stdout read error: {e}")))
            } else if let Some(fault) = fault.filter(|f| !f.is_empty() && !succeeded) {
                (RunStatus::Failed, Some(fault))
            } else if let Some(e) =
                end.write_error.as_ref().filter(|_| !evidence.ignore_write_error && !succeeded)
            {
                kind = Some(FailureKind::Crash);
                (RunStatus::Failed, Some(format!("{name} prompt write failed: {e}")))
            } else if let Some(e) = exit_error.as_ref().filter(|_| !(succeeded && evidence.ignore_exit)) {
                (RunStatus::Failed, Some(format!("{name} exited with error: {e}")))
            } else if !succeeded {
                kind = end.stderr.is_empty().then_some(FailureKind::Crash);
                (RunStatus::Failed, Some(format!("{name} stream ended without terminal result")))
            } else if let Some(veto) = veto.filter(|v| !v.is_empty()) {
                (RunStatus::Failed, Some(veto))
            } else {
                (RunStatus::Completed, None)
            }
        }
    };
    let error = error.map(|e| {
        let tail = end.stderr.trim();
        if evidence.omit_stderr || tail.is_empty() { e } else { format!("{e}; {label} stderr: {tail}") }
    });
    let failure = match status {
        RunStatus::Completed | RunStatus::Aborted | RunStatus::Cancelled => None,
        RunStatus::Timeout => {
            Some(Failure { limit, ..failure.unwrap_or_else(|| Failure::of(FailureKind::Timeout)) })
        }
        RunStatus::Failed => {
            let text = error.as_deref().unwrap_or_default();
            let mut f = failure.unwrap_or_else(|| {
                Failure::of(kind.unwrap_or_else(|| match FailureKind::from_text(text) {
                    FailureKind::Unknown if verdict.is_none() && exit_error.is_some() => FailureKind::Crash,
                    known => known,
                }))
            });
            if exit_error.is_some() {
                f.exit_code = f.exit_code.or(end.exit.code);
                f.signal = f.signal.or_else(|| end.exit.signal.clone());
            }
            Some(f)
        }
    };
    let completed = status == RunStatus::Completed;
    Outcome {
        status,
        output: if completed { output } else { String::new() },
        partial_output: (!completed && !partial.is_empty()).then_some(partial),
        error,
        failure,
        session_id: session_id.filter(|s| !s.is_empty()),
        usage: (!usage.is_empty()).then_some(usage),
        resume_rejected: None,
    }
}

fn detail(name: &str, text: &str) -> String {
    if text.trim().is_empty() {
        format!("{name} returned an error result without details")
    } else {
        text.to_owned()
    }
}

fn limit_note(limit: Limit) -> &'static str {
    match limit {
        Limit::Run => "",
        Limit::Idle => " without a message",
        Limit::Tool => " while a tool was running",
        Limit::Handshake => " in the handshake",
        Limit::SemanticInactivity => " without progress",
        Limit::FirstTurn => " without progress in the first turn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(verdict: Option<Verdict>, end: End) -> Outcome {
        let e = Evidence { verdict, output: "answer".into(), partial: "part".into(), ..Default::default() };
        converge("x", "x", e, &end)
    }

    #[test]
    fn first_match_wins() {
        let clean = || End { exit: Exit::code(0), ..Default::default() };
        let ok = Some(Verdict::Success);
        let o = run(ok.clone(), clean());
        assert_eq!((o.status, o.output.as_str(), o.partial_output), (RunStatus::Completed, "answer", None));

        let cancelled = End { stop: Some(Stop::cancelled()), ..clean() };
        assert_eq!(run(ok.clone(), cancelled.clone()).status, RunStatus::Aborted);
        let o = run(Some(Verdict::Error("boom".into())), cancelled);
        assert_eq!((o.status, o.error.as_deref(), o.output.as_str()), (RunStatus::Failed, Some("boom"), ""));

        let late = End { stop: Some(Stop::limit(Limit::Run, Duration::from_millis(20))), ..clean() };
        let o = run(None, late);
        assert_eq!((o.status, o.error.as_deref()), (RunStatus::Timeout, Some("x timed out after 20ms")));
        assert_eq!(o.failure.unwrap().limit, Some(Limit::Run));

        let o = run(ok.clone(), End { exit: Exit::code(3), stderr: "why".into(), ..Default::default() });
        assert_eq!(o.error.as_deref(), Some("x exited with error: exit status 3; x stderr: why"));
        assert_eq!(o.failure.unwrap().exit_code, Some(3));

        let forced = End {
            exit: Exit { signal: Some("SIGKILL".into()), forced: true, code: None },
            ..Default::default()
        };
        assert_eq!(run(ok, forced).status, RunStatus::Completed);

        let o = run(None, clean());
        assert_eq!(o.error.as_deref(), Some("x stream ended without terminal result"));
        assert_eq!(
            (o.failure.unwrap().kind, o.partial_output.as_deref()),
            (FailureKind::Crash, Some("part"))
        );

        let o = run(Some(Verdict::Error(String::new())), clean());
        assert_eq!(o.error.as_deref(), Some("x returned an error result without details"));
    }
}
