//! One run from start to Result: preparation, pump, limits, cancel, convergence.

mod activity;
pub mod prepare;
mod pump;
pub mod queue;
pub mod runtime;
mod supervise;
#[cfg(all(test, unix))]
mod tests;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::agents::Agent;
use crate::contract::redact::redact_here;
use crate::contract::{
    AgentplugError, ErrorCode, ExecuteOptions, Failure, FailureKind, Limit, Outcome, RunResult, RunStatus,
    duration,
};
use crate::process::spawn::{Leader, SpawnPlan, Spawned};
use crate::process::tree::Tree;
use prepare::Prepared;
use queue::{Drained, Queue, Wake};
use supervise::{Supervision, supervise};

/// What `result` settles with.
pub type RunEnd = Result<RunResult, AgentplugError>;

/// A handle to one run. Dropping it does not stop the run; `cancel` does.
#[derive(Clone)]
pub struct Run {
    shared: Arc<Shared>,
}

struct Shared {
    agent: &'static Agent,
    run_id: String,
    queue: Queue,
    session_id: Mutex<Option<String>>,
    end: Mutex<Option<RunEnd>>,
    cancel: watch::Sender<bool>,
}

/// Trees of live runs, for the end of a host environment or of the process.
static LIVE: LazyLock<Mutex<HashMap<String, Live>>> = LazyLock::new(Mutex::default);

struct Live {
    owner: u64,
    run: Run,
    tree: Option<(Tree, Arc<Leader>)>,
}

/// Held for reading from the last look at the cancel to the entry of the tree in [`LIVE`], and for writing while
/// all trees are ended: a process that starts at that moment is either seen there or never started. Not LIVE
/// itself, which the host's thread takes for each call.
static STARTS: RwLock<()> = RwLock::new(());

fn live() -> MutexGuard<'static, HashMap<String, Live>> {
    LIVE.lock().unwrap_or_else(|e| e.into_inner())
}

impl Run {
    /// Checks the call and starts. `aborted`: the caller's signal has fired already, so nothing is started and
    /// the run ends as aborted. `wake` is called from any thread when a reader that found nothing should
    /// look again, and once at the end.
    pub fn start(
        agent: &'static Agent,
        prompt: String,
        options: ExecuteOptions,
        owner: u64,
        aborted: bool,
        wake: Wake,
    ) -> Result<Run, AgentplugError> {
        prepare::check_call(agent, &prompt, &options)?;
        let (cancel, cancelled) = watch::channel(aborted);
        let run = Run {
            shared: Arc::new(Shared {
                agent,
                run_id: uuid::Uuid::new_v4().to_string(),
                queue: Queue::new(options.message_buffer_bytes, wake),
                session_id: Mutex::default(),
                end: Mutex::default(),
                cancel,
            }),
        };
        live().insert(run.id().to_owned(), Live { owner, run: run.clone(), tree: None });
        let handle = run.clone();
        runtime::handle().spawn(async move {
            let started = Instant::now();
            let work = tokio::spawn(conduct(handle.clone(), prompt, options, started, cancelled));
            let end = work.await.unwrap_or_else(|panic| Ok(handle.panicked(&panic, started)));
            handle.finish(end);
        });
        Ok(run)
    }

    pub fn id(&self) -> &str {
        &self.shared.run_id
    }

    pub fn agent(&self) -> &'static Agent {
        self.shared.agent
    }

    /// As soon as the CLI tells it.
    pub fn session_id(&self) -> Option<String> {
        self.shared.session_id.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Stops the run in whatever state it is: grace, then force, the whole tree. The end says when it is done.
    pub fn cancel(&self) {
        self.shared.cancel.send_replace(true);
    }

    pub fn attach_reader(&self) {
        self.shared.queue.attach_reader();
    }

    pub fn drain(&self, max: usize, max_bytes: usize) -> Drained {
        self.shared.queue.drain(max, max_bytes)
    }

    /// The end, once there is one. It is set before the last wake.
    pub fn end(&self) -> Option<RunEnd> {
        self.shared.end.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn finish(&self, end: RunEnd) {
        if let Ok(result) = &end {
            *self.shared.session_id.lock().unwrap_or_else(|e| e.into_inner()) = result.session_id.clone();
        }
        *self.shared.end.lock().unwrap_or_else(|e| e.into_inner()) = Some(end);
        live().remove(self.id());
        self.shared.queue.finish();
    }

    fn panicked(&self, panic: &tokio::task::JoinError, started: Instant) -> RunResult {
        tracing::error!(provider = self.agent().id, "a run panicked");
        if let Some((tree, leader)) = live().get(self.id()).and_then(|l| l.tree.as_ref()) {
            tree.kill_now(leader.exited().is_some());
        }
        // The panic text may hold anything, so only the fact goes out.
        let what =
            if panic.is_panic() { "internal error: a panic" } else { "internal error: the run was dropped" };
        RunResult {
            status: RunStatus::Failed,
            output: String::new(),
            partial_output: None,
            error: Some(format!("{} {what}; please report it", self.agent().name)),
            failure: Some(Failure::of(FailureKind::Unknown)),
            duration_ms: started.elapsed().as_millis() as u64,
            session_id: None,
            usage: None,
            resume_rejected: None,
        }
    }
}

/// Asks every run of a host environment to stop (it ends while the process lives on).
pub fn cancel_all(owner: u64) {
    let runs: Vec<Run> = live().values().filter(|l| l.owner == owner).map(|l| l.run.clone()).collect();
    for run in runs {
        run.cancel();
    }
}

/// Ends every tree of a host environment at once, without waiting: the process is about to exit.
pub fn kill_all(owner: u64) {
    let _no_start = STARTS.write().unwrap_or_else(|e| e.into_inner());
    // First all of them: ending a tree takes a while, in which others would go on.
    cancel_all(owner);
    for live in live().values().filter(|l| l.owner == owner) {
        if let Some((tree, leader)) = &live.tree {
            tree.kill_now(leader.exited().is_some());
        }
    }
}

/// A started process and its tree, or `None` when the run was cancelled before.
fn begin(
    run: &Run,
    plan: &SpawnPlan,
    cancelled: &watch::Receiver<bool>,
) -> Result<Option<(Spawned, Tree)>, AgentplugError> {
    let _start = STARTS.read().unwrap_or_else(|e| e.into_inner());
    if *cancelled.borrow() {
        return Ok(None);
    }
    let spawned = prepare::spawn(run.agent(), plan)?;
    let tree = Tree::new(spawned.pid, run.id());
    if let Some(live) = live().get_mut(run.id()) {
        live.tree = Some((tree.clone(), spawned.leader.clone()));
    }
    Ok(Some((spawned, tree)))
}

/// Attempts until one counts.
async fn conduct(
    run: Run,
    prompt: String,
    mut options: ExecuteOptions,
    started: Instant,
    cancelled: watch::Receiver<bool>,
) -> RunEnd {
    let agent = run.agent();
    let mut attempt = 1;
    // The first attempt and the pause it asked for, while there is a second one.
    let mut first: Option<(Outcome, Duration)> = None;
    let outcome = loop {
        let ready = {
            let mut asked = cancelled.clone();
            let pause = first.as_ref().map_or(Duration::ZERO, |(_, after)| *after);
            tokio::select! {
                biased;
                _ = asked.wait_for(|c| *c) => break stopped_early(None),
                () = until(options.limits.timeout.map(|t| started + t)) => break stopped_early(options.limits.timeout),
                prepared = async {
                    tokio::time::sleep(pause).await;
                    prepare::prepare(agent, &prompt, &options, run.id(), attempt).await
                } => prepared.and_then(|p| Ok((begin(&run, &p.plan, &cancelled)?, p))),
            }
        };
        let (begun, prepared) = match (ready, first.take()) {
            (Ok(ready), _) => ready,
            (Err(error), None) => return Err(error),
            // A run that was started once has a Result.
            (Err(error), Some((outcome, _))) => {
                tracing::warn!(provider = agent.id, error = %error.message, "the second attempt could not start");
                break outcome;
            }
        };
        let Some((spawned, tree)) = begun else { break stopped_early(None) };
        let Prepared { mut launch, files, version, program, .. } = prepared;
        tracing::debug!(provider = agent.id, pid = spawned.pid, attempt, "started");
        let supervision = Supervision {
            agent,
            queue: &run.shared.queue,
            session_id: &run.shared.session_id,
            limits: &options.limits,
            started,
            cancel: cancelled.clone(),
        };
        let supervised = supervise(supervision, spawned, &tree, &mut launch.protocol).await;
        if let Some(live) = live().get_mut(run.id()) {
            live.tree = None;
        }
        drop(launch);
        drop(files);
        let mut outcome = supervised.outcome;
        if outcome.status == RunStatus::Failed
            && !supervised.spoke
            && let Some(failure) = &mut outcome.failure
            && failure.hint.is_none()
        {
            let version = version.map_or("version unknown".to_owned(), |v| format!("version {v}"));
            failure.hint = Some(format!("{} ({version}) failed before its first message", program.display()));
        }
        match supervised.retry {
            Some(retry) if attempt == 1 => {
                tracing::info!(provider = agent.id, "the start failed in a way that is safe to repeat");
                attempt += 1;
                if retry.fresh_session && options.resume_session_id.take().is_some() {
                    options.resume_expected = true;
                }
                first = Some((outcome, retry.after));
            }
            _ => break outcome,
        }
    };
    Ok(result(outcome, started.elapsed()))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The outcome of a run that was stopped before its CLI was started, or between two attempts.
fn stopped_early(limit: Option<Duration>) -> Outcome {
    let (status, error, failure) = match limit {
        None => (RunStatus::Aborted, "execution cancelled".to_owned(), None),
        Some(after) => (
            RunStatus::Timeout,
            format!("timed out after {} before the CLI was started", duration::format(after)),
            Some(Failure { limit: Some(Limit::Run), ..Failure::of(FailureKind::Timeout) }),
        ),
    };
    Outcome {
        status,
        output: String::new(),
        partial_output: None,
        error: Some(error),
        failure,
        session_id: None,
        usage: None,
        resume_rejected: None,
    }
}

fn result(outcome: Outcome, elapsed: Duration) -> RunResult {
    let Outcome { status, output, partial_output, error, mut failure, session_id, usage, resume_rejected } =
        outcome;
    if let Some(hint) = failure.as_mut().and_then(|f| f.hint.as_mut()) {
        *hint = redact_here(hint);
    }
    RunResult {
        status,
        output,
        partial_output,
        error: error.map(|e| redact_here(&e)),
        failure,
        duration_ms: elapsed.as_millis() as u64,
        session_id,
        usage,
        resume_rejected,
    }
}

/// The error for an unknown provider id, naming the known ones.
pub fn provider(id: &str) -> Result<&'static Agent, AgentplugError> {
    crate::agents::find(id).ok_or_else(|| {
        let known: Vec<&str> = crate::agents::REGISTRY.iter().map(|a| a.id).collect();
        AgentplugError::new(
            ErrorCode::UnknownProvider,
            format!("unknown provider \"{id}\"; known providers: {}", known.join(", ")),
        )
    })
}
