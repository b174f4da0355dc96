//! The conversation of one run, and what it proves.

use std::time::{Duration, SystemTime};

use super::ending::Ending;
use super::mcp::Servers;
use super::talk::{Talk, TurnEnd};
use super::thread::{self, Server};
use super::watch::Watch;
use super::{rollout, turn};
use crate::agents::{BoxFuture, Dialogue, DialogueIo, End, Evidence, LaunchContext, Verdict};
use crate::contract::limits::HANDSHAKE_TIMEOUT;
use crate::contract::options::RunLimits;
use crate::contract::{AgentplugError, Failure, FailureKind, Outcome};
use crate::wire::rpc::{Config, Peer};

/// What the caller wants, in the words of the protocol.
pub struct Plan {
    pub prompt: String,
    pub cwd: String,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub thread_name: Option<String>,
    pub resume: Option<String>,
    pub resume_expected: bool,
    pub notice: Option<String>,
    pub effort: Option<String>,
    pub service_tier: Option<String>,
    pub mcp: Option<Servers>,
    pub handshake: Duration,
    pub limits: RunLimits,
    /// Sessions of this run's environment, should the server not say where it keeps them.
    pub codex_home: Option<String>,
    pub attempt: u32,
    /// A resume was asked for, so its fate is told.
    pub resume_asked: bool,
}

impl Plan {
    pub fn new(ctx: &LaunchContext<'_>) -> Result<Self, AgentplugError> {
        let options = ctx.options;
        let given = |text: &Option<String>| text.clone().filter(|t| !t.trim().is_empty());
        let resume = given(&options.resume_session_id);
        let home = || {
            let home = ctx.env.get("HOME").or_else(|| ctx.env.get("USERPROFILE"))?;
            Some(format!("{home}/.codex"))
        };
        Ok(Plan {
            prompt: ctx.prompt.to_owned(),
            cwd: options.cwd.to_string_lossy().into_owned(),
            model: given(&options.model),
            system_prompt: given(&options.system_prompt),
            thread_name: given(&options.thread_name),
            resume_asked: resume.is_some(),
            resume,
            resume_expected: options.resume_expected,
            notice: options.resume_continuity_notice.clone(),
            effort: given(&options.thinking_level),
            service_tier: given(&options.service_tier),
            mcp: options.mcp_config.as_ref().map(Servers::parse).transpose()?,
            handshake: options.limits.handshake.filter(|d| !d.is_zero()).unwrap_or(HANDSHAKE_TIMEOUT),
            limits: options.limits,
            codex_home: ctx.env.get("CODEX_HOME").map(str::to_owned).filter(|h| !h.is_empty()).or_else(home),
            attempt: ctx.attempt,
        })
    }
}

pub struct Codex {
    plan: Plan,
    talk: Talk,
    server: Server,
    ending: Ending,
}

impl Codex {
    pub fn new(plan: Plan) -> Self {
        let talk = Talk::new(Watch::new(&plan.limits));
        Codex { plan, talk, server: Server::default(), ending: Ending::default() }
    }

    async fn talk_it_through(&mut self, io: DialogueIo) {
        let DialogueIo { stdin, stdout, emit, mut stop, stderr } = io;
        let Codex { plan, talk, server, .. } = self;
        let mut peer = Peer::new(stdout, stdin, Config::default());
        talk.connect(emit);
        for warning in plan.mcp.iter().flat_map(|mcp| &mcp.warnings) {
            talk.log("warn", warning);
        }
        let mut stop_early = stop.clone();
        let begun = tokio::select! {
            biased;
            // Nothing runs yet: there is nothing to interrupt.
            _ = stop_early.requested() => return,
            begun = thread::begin(plan, &mut peer, talk, server) => begun,
        };
        talk.flush().await;
        let ending = match begun {
            Ok(()) => turn::run(plan, &mut peer, talk, server, &mut stop, &stderr).await,
            Err(ending) => Some(ending),
        };
        self.ending = ending.unwrap_or_default();
    }

    /// Counts that the server never told: it died early, or is an old one.
    async fn usage_from_file(&mut self, began: SystemTime) {
        let Some(thread) = self.talk.thread.clone().filter(|_| self.talk.started) else { return };
        if !self.talk.meter.is_empty() {
            return;
        }
        let (path, home) = (self.server.rollout.clone(), self.plan.codex_home.clone());
        let resumed = self.talk.resumed;
        let found = tokio::task::spawn_blocking(move || {
            rollout::usage(path.as_deref(), home.as_deref(), &thread, began, resumed)
        });
        if let Ok(Some(found)) = found.await {
            if self.talk.meter.model.is_none() {
                self.talk.meter.model = found.model;
            }
            self.talk.meter.add(found.totals);
        }
    }
}

impl Dialogue for Codex {
    fn converse<'a>(&'a mut self, io: DialogueIo) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let began = SystemTime::now();
            self.talk_it_through(io).await;
            self.usage_from_file(began).await;
            if self.ending.retry.is_none() && self.talk.started {
                self.talk.release_status();
            }
            self.talk.flush().await;
        })
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        let Codex { talk, server, ending, .. } = self;
        let verdict = match talk.end {
            Some(TurnEnd::Completed) => Some(Verdict::Success),
            Some(TurnEnd::Failed) => Some(Verdict::Error(turn_error(talk).unwrap_or_else(|| {
                talk.unsupported.clone().unwrap_or_else(|| "codex turn failed".to_owned())
            }))),
            Some(TurnEnd::Interrupted) => Some(Verdict::Cancelled(
                turn_error(talk)
                    .or_else(|| talk.unsupported.clone())
                    .unwrap_or_else(|| "turn was aborted".to_owned()),
            )),
            None => ending.verdict.take(),
        };
        let failure = match (&talk.end, &talk.error) {
            (Some(TurnEnd::Failed), Some(error)) => Some(error.failure(&talk.rate_limits)),
            _ => ending.failure.take().map(|failure| refused_arguments(failure, &end.stderr)),
        };
        let begun = talk.resumed || talk.started || talk.turn.is_some();
        // A thread without a turn cannot be resumed. One that was refused for now can be, later.
        let session_id = match &talk.thread {
            Some(thread) => Some(thread.clone()).filter(|_| begun),
            None => self.plan.resume.clone().filter(|_| !server.resume_rejected),
        };
        Evidence {
            output: talk.items.answer.text().to_owned(),
            partial: talk.items.partial().to_owned(),
            session_id,
            usage: talk.meter.usage(),
            fault: ending.fault.take(),
            // It exits with 0 whatever happened, and we close its pipes.
            ignore_exit: verdict.is_some(),
            omit_stderr: !ending.with_stderr || end.stop.is_some(),
            failure,
            retry: ending.retry,
            verdict,
            ..Evidence::default()
        }
    }

    fn conclude(&mut self, outcome: &mut Outcome, _end: &End) {
        outcome.resume_rejected = self.plan.resume_asked.then_some(self.server.resume_rejected);
    }
}

/// A process that ended over its arguments ends over them every time.
fn refused_arguments(failure: Failure, stderr: &str) -> Failure {
    let refused = ["error: unexpected argument", "error: invalid value", "Error: Unknown feature flag"];
    if failure.kind == FailureKind::Crash && refused.iter().any(|words| stderr.contains(words)) {
        return Failure::of(FailureKind::InvalidRequest);
    }
    failure
}

fn turn_error(talk: &Talk) -> Option<String> {
    talk.error.as_ref().map(|e| e.message.clone()).filter(|m| !m.is_empty())
}
