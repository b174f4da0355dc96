//! One turn: the prompt, then everything up to its end.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::dialogue::Plan;
use super::ending::{Ending, jitter};
use super::talk::Talk;
use super::thread::{Server, overload_again};
use crate::agents::{Retry, StopSignal};
use crate::contract::limits::PROTOCOL_CANCEL;
use crate::contract::{Limit, duration};
use crate::process::stderr::StderrTail;
use crate::wire::rpc::{Event, Peer};

/// What the server prints when it cannot reach the service that lists its models: the turn hangs then.
const CATALOG_TROUBLE: &str = "failed to refresh available models";
const CATALOG_RETRY: Duration = Duration::from_secs(1);

/// Runs the turn. `None` = `talk.end` tells how it ended.
pub async fn run(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    server: &Server,
    stop: &mut StopSignal,
    stderr: &StderrTail,
) -> Option<Ending> {
    let thread = talk.thread.clone().unwrap_or_default();
    let mut params = json!({"threadId": thread, "input": [{"type": "text", "text": prompt(plan, talk)}]});
    for (key, value) in [("effort", &plan.effort), ("serviceTier", &plan.service_tier)] {
        if let Some(value) = value {
            params[key] = value.clone().into();
        }
    }
    talk.arm();
    let answer_by = Instant::now() + plan.handshake;
    let mut ticket = peer.request("turn/start", &params, Some(plan.handshake));
    let mut tries = 0;
    let mut again: Option<Instant> = None;
    let mut stop_by: Option<Instant> = None;
    let mut interrupted = false;
    while talk.end.is_none() {
        if stop_by.is_some()
            && !interrupted
            && let Some(turn) = &talk.turn
        {
            peer.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}), None);
            interrupted = true;
        }
        let expiry = talk.watch.next().filter(|_| stop_by.is_none());
        let wake = [stop_by, talk.settles_at(), again, expiry.map(|(at, ..)| at)].into_iter().flatten().min();
        let event = tokio::select! {
            biased;
            _ = stop.requested(), if stop_by.is_none() => {
                stop_by = Some(Instant::now() + PROTOCOL_CANCEL);
                talk.stopping = true;
                again = None;
                continue;
            }
            event = peer.next() => Some(event),
            () = sleep_until(wake) => None,
        };
        let Some(event) = event else {
            let now = Instant::now();
            let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if due(stop_by) {
                return Some(Ending::default());
            }
            if due(talk.settles_at()) {
                talk.settle();
            } else if due(again) {
                again = None;
                let left = answer_by.saturating_duration_since(now);
                ticket = peer.request("turn/start", &params, Some(left));
            } else if let Some((at, limit, length)) = expiry
                && due(Some(at))
            {
                return Some(expired(plan, talk, server, stderr, limit, length));
            }
            continue;
        };
        match event {
            Event::Response { ticket: t, outcome } if t == ticket => match outcome {
                Ok(result) => talk.accepted(result.value()["turn"]["id"].as_str().unwrap_or_default()),
                Err(error) => match overload_again(&error, tries) {
                    Some(pause) if stop_by.is_none() => {
                        tries += 1;
                        again = Some(Instant::now() + pause);
                    }
                    // The turn runs although nobody said so; or the end of the stream comes next.
                    _ if talk.started || talk.settles_at().is_some() => {}
                    _ => {
                        let mut ending = Ending::request("turn/start", &error, plan.handshake);
                        ending.with_stderr = true;
                        return Some(ending);
                    }
                },
            },
            // To the interrupt; only the end of the turn counts.
            Event::Response { .. } => {}
            Event::Closed(reason) => {
                if talk.settles_at().is_some() {
                    talk.settle();
                } else {
                    return Some(Ending::closed(&reason));
                }
            }
            other => {
                talk.handle(other);
                talk.flush().await;
            }
        }
    }
    None
}

/// A new thread does not know what was said before; the caller's notice tells it so.
fn prompt(plan: &Plan, talk: &Talk) -> String {
    match &plan.notice {
        Some(notice) if plan.resume_expected && !talk.resumed => format!("{notice}{}", plan.prompt),
        _ => plan.prompt.clone(),
    }
}

fn expired(
    plan: &Plan,
    talk: &Talk,
    server: &Server,
    stderr: &StderrTail,
    limit: Limit,
    length: Duration,
) -> Ending {
    let after = duration::format(length);
    let word = |w: Option<&str>| w.filter(|w| !w.trim().is_empty()).unwrap_or("unknown").to_owned();
    let model = plan.model.as_deref().filter(|m| !m.is_empty()).unwrap_or("default(empty)");
    let where_ = format!(
        "codex_version=\"{}\" thread_id=\"{}\" turn_id=\"{}\" model=\"{model}\"",
        word(server.version.as_deref()),
        word(talk.thread.as_deref()),
        word(talk.turn.as_deref()),
    );
    let mut text = if limit == Limit::FirstTurn {
        format!(
            "codex app-server no progress timeout after {after}: the turn began and nothing came of it ({where_})"
        )
    } else {
        format!(
            "codex semantic inactivity timeout after {after} without agent progress (last activity: {}; {where_})",
            word(Some(&talk.watch.label))
        )
    };
    let catalog = stderr.text().contains(CATALOG_TROUBLE);
    if catalog {
        text.push_str(
            "; diagnosis: codex could not load its model catalog, mostly because the network or a proxy is in \
             the way; try again once it is reachable",
        );
    }
    let mut ending = Ending::limit(limit, text);
    ending.with_stderr = true;
    if limit == Limit::FirstTurn && catalog && plan.attempt == 1 && !talk.watch.progressed() {
        ending.retry = Some(Retry { after: jitter(CATALOG_RETRY, 0.5), fresh_session: true });
    }
    ending
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
