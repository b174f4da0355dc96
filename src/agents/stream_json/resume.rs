//! Whether the CLI itself refused to resume this session.

use crate::agents::End;
use crate::contract::{Failure, FailureKind, Outcome, RunStatus};

/// Lower case. The last three come from accounts sharing a machine: the session belongs to another one.
const PHRASES: &[&str] = &[
    "no conversation found",
    "no saved session found",
    "已绑定另外",
    "bound to another account",
    "bound to a different account",
];

/// What a run was asked to resume.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    pub requested: Option<String>,
}

impl Resume {
    pub fn new(requested: Option<&String>) -> Self {
        Resume { requested: requested.filter(|id| !id.is_empty()).cloned() }
    }

    pub fn is_asked(&self) -> bool {
        self.requested.is_some()
    }

    /// Only a failed run can have been refused: by its words, or because it went on under another id.
    pub fn is_rejected(&self, emitted: &str, failed: bool, texts: &[&str]) -> bool {
        let Some(requested) = self.requested.as_deref().filter(|_| failed) else { return false };
        let says = |text: &&str| {
            let text = text.to_lowercase();
            PHRASES.iter().any(|p| text.contains(p))
        };
        texts.iter().any(says) || (!emitted.is_empty() && emitted != requested)
    }

    /// Puts the verdict into the outcome. Runs before redaction, on the raw words.
    pub fn conclude(&self, outcome: &mut Outcome, end: &End) {
        let emitted = outcome.session_id.as_deref().unwrap_or_default();
        let error = outcome.error.as_deref().unwrap_or_default();
        let failed = outcome.status == RunStatus::Failed;
        let rejected = self.is_rejected(emitted, failed, &[error, &end.stderr]);
        outcome.resume_rejected = Some(rejected);
        if rejected {
            outcome.session_id = None;
            let known = outcome.failure.take().unwrap_or_else(|| Failure::of(FailureKind::ResumeRejected));
            let kind = FailureKind::ResumeRejected;
            outcome.failure = Some(Failure { kind, retryable: kind.retryable(), ..known });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_or_another_id_of_a_failed_run_count() {
        for (requested, emitted, failed, text, rejected) in [
            ("S", "S", true, "400 此 session 已绑定另外的ai账号，请新建会话", true),
            ("S", "S", true, "No conversation found with session ID: S", true),
            ("S", "", true, "No saved session found with ID S. Run `x --resume`", true),
            ("S", "S", true, "this session is BOUND TO ANOTHER ACCOUNT", true),
            ("S", "S", true, "bound to a different account", true),
            ("S", "T", true, "", true),
            ("S", "S", true, "API Error: Connection closed mid-response", false),
            ("S", "S", true, "API Error: 429 rate_limit_error", false),
            ("S", "S", true, "API Error: 529 overloaded_error", false),
            ("S", "S", true, "402 credit balance is too low", false),
            ("S", "S", true, "401 Your OAuth access token has been revoked", false),
            ("S", "T", false, "No conversation found", false),
            ("", "T", true, "No conversation found", false),
            ("S", "", true, "exit status 1", false),
        ] {
            let resume = Resume::new(Some(&requested.to_owned()));
            assert_eq!(
                resume.is_rejected(emitted, failed, &["", text]),
                rejected,
                "{requested} {emitted} {text}"
            );
        }
    }

    #[test]
    fn a_rejected_session_is_not_reported() {
        let outcome = |status, session: &str| Outcome {
            status,
            output: String::new(),
            partial_output: None,
            error: Some("x exited with error: exit status 1".into()),
            failure: Some(Failure { exit_code: Some(1), ..Failure::of(FailureKind::Crash) }),
            session_id: (!session.is_empty()).then(|| session.to_owned()),
            usage: None,
            resume_rejected: None,
        };
        let resume = Resume::new(Some(&"S".to_owned()));
        let end = End { stderr: "No conversation found with session ID: S".into(), ..End::default() };
        let mut o = outcome(RunStatus::Failed, "S");
        resume.conclude(&mut o, &end);
        let f = o.failure.unwrap();
        assert_eq!((o.resume_rejected, o.session_id), (Some(true), None));
        assert_eq!((f.kind, f.retryable, f.exit_code), (FailureKind::ResumeRejected, false, Some(1)));

        for status in [RunStatus::Timeout, RunStatus::Aborted, RunStatus::Completed] {
            let mut o = outcome(status, "T");
            resume.conclude(&mut o, &end);
            assert_eq!((o.resume_rejected, o.session_id.as_deref()), (Some(false), Some("T")));
        }
        let mut o = outcome(RunStatus::Failed, "T");
        Resume::new(None).conclude(&mut o, &end);
        assert_eq!((o.resume_rejected, o.session_id.as_deref()), (Some(false), Some("T")));
    }
}
