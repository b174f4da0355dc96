//! One started process from its first byte to its outcome: conversation, limits, cancel, stop of the tree.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::pump::{Link, ReadEnd, pump_dialogue, pump_lines};
use super::queue::Queue;
use super::writer::Writer;
use crate::agents::{Agent, End, Exit, Protocol, Retry, Stop, StopSignal, converge};
use crate::contract::limits::{
    AFTER_DIALOGUE, AFTER_SETTLED, AFTER_TERMINAL, DRAIN_AFTER_END, PROTOCOL_CANCEL,
};
use crate::contract::options::RunLimits;
use crate::contract::{Limit, Outcome};
use crate::process::spawn::{LeaderExit, Spawned, signal_name};
use crate::process::stderr::StderrTail;
use crate::process::tree::Tree;

/// How long stdout and stderr may stay open once the tree is gone: only a process outside the tree can hold them.
const AFTER_TREE: Duration = Duration::from_secs(1);

pub struct Supervision<'a> {
    pub agent: &'static Agent,
    pub queue: &'a Queue,
    pub session_id: &'a Mutex<Option<String>>,
    pub limits: &'a RunLimits,
    /// When the run began: the hard limit counts from here, over all attempts.
    pub started: Instant,
    /// true = the caller asked to stop.
    pub cancel: watch::Receiver<bool>,
}

pub struct Supervised {
    pub outcome: Outcome,
    pub retry: Option<Retry>,
    /// The CLI gave at least one Message.
    pub spoke: bool,
}

pub async fn supervise(
    ctx: Supervision<'_>,
    spawned: Spawned,
    tree: &Tree,
    protocol: &mut Protocol,
) -> Supervised {
    let Spawned { stdin, stdout, stderr, leader, .. } = spawned;
    let link = Link::new(ctx.queue, ctx.session_id);
    let tail = StderrTail::default();
    let mut copier = tokio::spawn(copy_stderr(stderr, tail.clone()));
    let (stop_tx, stop_signal) = StopSignal::pair();
    let is_dialogue = matches!(protocol, Protocol::Dialogue(_));
    // Only line agents write through the writer; a dialogue owns its stdin.
    let mut writer = None;
    let mut conversation: Pin<Box<dyn Future<Output = ReadEnd> + Send + '_>> = match protocol {
        Protocol::Lines(decoder) => {
            let started = Arc::new(Mutex::new(Writer::start(stdin)));
            writer = Some(started.clone());
            Box::pin(pump_lines(decoder.as_mut(), stdout, started, &link))
        }
        Protocol::Dialogue(dialogue) => {
            Box::pin(pump_dialogue(dialogue.as_mut(), stdin, stdout, tail.clone(), stop_signal, &link))
        }
    };
    let close_stdin = || {
        if let Some(w) = &writer {
            w.lock().unwrap_or_else(|e| e.into_inner()).abort();
        }
    };

    let mut cancel = ctx.cancel.clone();
    let mut exit_watch = leader.watch();
    let mut exit: Option<LeaderExit> = None;
    let mut read: Option<ReadEnd> = None;
    let mut stop: Option<Stop> = None;
    let mut cancelled = false;
    let mut forced = false;
    let mut stopping: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
    let mut stopped = false;
    // When the process must be gone, when the conversation is given up, when a polite cancel is over.
    let mut exit_by: Option<Instant> = None;
    let mut read_by: Option<Instant> = None;
    let mut polite_until: Option<Instant> = None;
    // When a turn that looks over counts as over.
    let mut settled_by: Option<Instant> = None;

    while read.is_none() || exit.is_none() {
        let terminal = link.terminal.load(Ordering::SeqCst);
        let limit =
            if stop.is_none() && !terminal && read.is_none() { next_limit(&ctx, &link) } else { None };
        let wake_at = [limit.as_ref().map(|(at, _)| *at), exit_by, read_by, polite_until, settled_by]
            .into_iter()
            .flatten()
            .min();
        tokio::select! {
            end = &mut conversation, if read.is_none() => {
                read = Some(end);
                polite_until = None;
            }
            _ = exit_watch.wait_for(Option::is_some), if exit.is_none() => {
                exit = leader.exited();
                let over = link.terminal.load(Ordering::SeqCst) || link.settled.load(Ordering::SeqCst);
                read_by = Some(Instant::now() + if over { DRAIN_AFTER_END } else { ctx.agent.drain });
            }
            _ = cancel.wait_for(|c| *c), if !cancelled => {
                cancelled = true;
                if !link.terminal.load(Ordering::SeqCst) && stop.is_none() {
                    stop = Some(Stop::cancelled());
                }
                ctx.queue.stop_waiting();
                close_stdin();
                stop_tx.send_replace(Some(Stop::cancelled()));
                if is_dialogue && read.is_none() && exit.is_none() {
                    polite_until = Some(Instant::now() + PROTOCOL_CANCEL);
                } else {
                    exit_by = Some(Instant::now());
                }
            }
            () = async { stopping.as_mut().expect("guarded").await }, if stopping.is_some() => {
                stopping = None;
                stopped = true;
                // Nobody writes any more: what is still in the pipe is little, and need not wait for a slow reader.
                ctx.queue.stop_waiting();
                let soon = Instant::now() + AFTER_TREE;
                read_by = Some(read_by.map_or(soon, |t| t.min(soon)));
            }
            () = link.nudge.notified() => {}
            () = sleep_until(wake_at) => {}
        }
        let now = Instant::now();
        // While the pump waits for a slow reader, the line that takes it back may be in the pipe.
        if !link.settled.load(Ordering::SeqCst) || link.activity.blocked() {
            settled_by = None;
        } else if settled_by.is_none() {
            settled_by = Some(now + AFTER_SETTLED);
        } else if settled_by.is_some_and(|t| t <= now) && stop.is_none() {
            // From here on it is an end like any other.
            link.terminal.store(true, Ordering::SeqCst);
            link.stop_now.store(true, Ordering::SeqCst);
            settled_by = None;
            link.settled.store(false, Ordering::SeqCst);
        }
        let terminal = link.terminal.load(Ordering::SeqCst);
        // The idle window may have moved while we slept, so the limit is looked up again.
        if stop.is_none()
            && !cancelled
            && !terminal
            && read.is_none()
            && let Some((at, which)) = next_limit(&ctx, &link)
            && at <= now
        {
            stop = Some(which.clone());
            ctx.queue.stop_waiting();
            close_stdin();
            stop_tx.send_replace(Some(which));
            if is_dialogue {
                polite_until = Some(now + PROTOCOL_CANCEL);
            } else {
                exit_by = Some(now);
            }
        }
        if polite_until.is_some_and(|t| t <= now) || (stop.is_some() && read.is_some()) {
            polite_until = None;
            exit_by = Some(now);
        }
        if read.as_ref().is_some_and(|r| r.error.is_some()) {
            exit_by = Some(now);
        } else if link.stop_now.load(Ordering::SeqCst) {
            // Without a terminal event the stream broke off: the exit code that says why is on its way.
            let soon = if terminal { now } else { now + DRAIN_AFTER_END };
            exit_by = Some(exit_by.map_or(soon, |t| t.min(soon)));
        }
        if exit_by.is_none() && exit.is_none() && (terminal || read.is_some()) {
            exit_by = Some(now + if is_dialogue { AFTER_DIALOGUE } else { AFTER_TERMINAL });
        }
        if !stopped && stopping.is_none() && exit_by.is_some_and(|t| t <= now) {
            exit_by = None;
            forced |= exit.is_none();
            stopping = Some(Box::pin(tree.stop(&leader, ctx.limits.cancel_grace)));
        } else if stopped || stopping.is_some() {
            exit_by = None;
        }
        if read.is_none() && read_by.is_some_and(|t| t <= now) {
            if stopping.is_none() && !stopped {
                // Somebody holds the pipe after the leader's exit: end the tree, then look once more.
                tracing::debug!(provider = ctx.agent.id, "a descendant holds the pipes; stopping the tree");
                read_by = None;
                stopping = Some(Box::pin(tree.stop(&leader, ctx.limits.cancel_grace)));
            } else if stopping.is_none() {
                read = Some(ReadEnd::default());
            } else {
                read_by = None;
            }
        }
        if stopped && exit.is_none() && read.is_some() {
            break;
        }
    }
    drop(conversation);
    drop(stopping);
    close_stdin();
    if tree.alive(&leader) {
        tree.stop(&leader, ctx.limits.cancel_grace.min(AFTER_TREE)).await;
    }
    if tokio::time::timeout(AFTER_TREE, &mut copier).await.is_err() {
        copier.abort();
    }

    let read = read.unwrap_or_default();
    let end = End {
        stop,
        exit: Exit {
            code: exit.as_ref().and_then(|e| e.code),
            signal: exit.as_ref().and_then(|e| e.signal).map(signal_name),
            forced: forced || exit.is_none(),
        },
        read_error: read.error,
        write_error: writer.as_ref().and_then(|w| w.lock().unwrap_or_else(|e| e.into_inner()).error()),
        stderr: tail.text(),
        unterminated: read.unterminated,
    };
    let evidence = match protocol {
        Protocol::Lines(d) => d.evidence(&end),
        Protocol::Dialogue(d) => d.evidence(&end),
    };
    let retry = evidence.retry.filter(|_| end.stop.is_none());
    let mut outcome = converge(ctx.agent.name, ctx.agent.id, evidence, &end);
    match protocol {
        Protocol::Lines(d) => d.conclude(&mut outcome, &end),
        Protocol::Dialogue(d) => d.conclude(&mut outcome, &end),
    }
    Supervised { outcome, retry, spoke: link.spoke.load(Ordering::Relaxed) }
}

/// The limit that comes next, and when.
fn next_limit(ctx: &Supervision<'_>, link: &Link<'_>) -> Option<(Instant, Stop)> {
    let hard = ctx.limits.timeout.map(|t| (ctx.started + t, Stop::limit(Limit::Run, t)));
    let (last, tool_open) = link.activity.look();
    let (which, window) = if tool_open {
        (Limit::Tool, ctx.limits.tool)
    } else {
        (Limit::Idle, ctx.limits.idle.unwrap_or(ctx.agent.idle_timeout))
    };
    let quiet = (!window.is_zero()).then(|| {
        // Waiting for a slow reader is no silence of the CLI: look again a window later.
        let from = if link.activity.blocked() { Instant::now() } else { last };
        (from + window, Stop::limit(which, window))
    });
    [hard, quiet].into_iter().flatten().min_by_key(|(at, _)| *at)
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn copy_stderr(mut stderr: ChildStderr, tail: StderrTail) {
    let mut chunk = vec![0; 8 * 1024];
    // An error of the pipe is its end.
    while let Ok(n) = stderr.read(&mut chunk).await {
        if n == 0 {
            break;
        }
        tail.push(&chunk[..n]);
    }
}
