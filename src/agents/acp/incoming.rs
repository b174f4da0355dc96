//! What an agent sends by itself: requests, history, vendors' notifications, foreign lines.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::permission::{self, Choice};
use super::profile::AcpProfile;
use super::turn::is_update;
use crate::agents::foreign::foreign;
use crate::agents::{Emitter, Line, Output};
use crate::contract::Message;
use crate::wire::rpc::{Event, Handler, Peer, ServerRequest, code};

/// History may still flow after the answer to a resume. The prompt waits for this much silence …
const REPLAY_QUIET: Duration = Duration::from_millis(100);
/// … and no longer than this in all.
const REPLAY_LIMIT: Duration = Duration::from_secs(2);

/// The params of `initialize`.
pub fn hello() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "agentplug", "version": env!("CARGO_PKG_VERSION") },
        // None on purpose: the agent then uses its own file and terminal tools.
        "clientCapabilities": {},
    })
}

/// Everything that arrives before the prompt is sent. Updates are old history here: they go nowhere, so that
/// neither their text, their usage nor their tool ids reach the live turn.
pub struct StartUp<'a> {
    profile: &'static AcpProfile,
    emit: &'a Emitter,
    last_update: Instant,
}

impl<'a> StartUp<'a> {
    pub fn new(profile: &'static AcpProfile, emit: &'a Emitter) -> Self {
        StartUp { profile, emit, last_update: Instant::now() }
    }

    pub async fn warn(&self, text: String) {
        self.emit.send(Message::log("warn", text)).await;
    }

    pub async fn wait_for_silence(&mut self, peer: &mut Peer) {
        let until = Instant::now() + REPLAY_LIMIT;
        loop {
            let silent_at = until.min(self.last_update + REPLAY_QUIET);
            tokio::select! {
                biased;
                event = peer.next() => match event {
                    // The prompt will find out.
                    Event::Closed(_) => return,
                    other => self.event(other).await,
                },
                () = tokio::time::sleep_until(silent_at) => return,
            }
        }
    }
}

impl Handler for StartUp<'_> {
    async fn event(&mut self, event: Event) {
        match event {
            Event::Notification { method, .. } if is_update(&method) => self.last_update = Instant::now(),
            Event::Request(request) => answer(request, false),
            other => aside(other, self.profile, self.emit).await,
        }
    }
}

/// What is neither an update nor a request: a vendor's own notification, a foreign line.
pub async fn aside(event: Event, profile: &AcpProfile, emit: &Emitter) {
    match event {
        Event::Notification { method, params } => {
            if let Some(message) = profile.hooks.notification.and_then(|own| own(&method, params.text())) {
                emit.send(message).await;
            }
        }
        Event::Foreign { text, terminated } => {
            let mut out = Output::default();
            foreign(Line { text: &text, terminated }, &mut out);
            for message in out.messages {
                emit.send(message).await;
            }
        }
        Event::Response { .. } | Event::Request(_) | Event::Closed(_) => {}
    }
}

/// Every request gets exactly one answer; a silent client would make the agent wait for minutes.
pub fn answer(request: ServerRequest, cancelling: bool) {
    if request.method != "session/request_permission" {
        let text = format!("method not found: {}", request.method);
        return request.refuse(code::METHOD_NOT_FOUND, &text);
    }
    if cancelling {
        return request.answer(&json!({ "outcome": { "outcome": "cancelled" } }));
    }
    match permission::choose(request.params.text()) {
        Choice::Select(id) => {
            request.answer(&json!({ "outcome": { "outcome": "selected", "optionId": id } }))
        }
        Choice::Nothing => {
            request.refuse(code::INTERNAL_ERROR, "no auto-selectable permission option offered")
        }
    }
}
