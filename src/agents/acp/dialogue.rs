//! The conversation: handshake, session, prompt, and the quiet end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::conclusion::Seen;
use super::effort;
use super::fields::Fields;
use super::incoming::{StartUp, answer, aside, hello};
use super::mcp::{self, Declared, Servers};
use super::profile::{AcpProfile, Effort, PromptContext, PromptError, SystemPrompt};
use super::stderr::Sniffer;
use super::turn::{Turn, is_replay, is_update};
use super::{errors, resume};
use crate::agents::{BoxFuture, Dialogue, DialogueIo, Emitter, End, Evidence, StopSignal, Verdict};
use crate::contract::limits::PROTOCOL_CANCEL;
use crate::contract::{FailureKind, Limit, Message, Outcome, duration};
use crate::process::env::ChildEnv;
use crate::wire::rpc::{CloseReason, Config, ErrorObject, Event, Payload, Peer, RpcError};

/// The last chunk, or the usage, may come just after the answer to the prompt. This much silence ends a turn …
const TURN_QUIET: Duration = Duration::from_millis(250);
/// … and this much time does in any case.
const TURN_LIMIT: Duration = Duration::from_secs(2);

/// What to do, fixed before the start.
pub struct Plan {
    pub cwd: String,
    pub prompt: String,
    pub system_prompt: Option<String>,
    pub model: Option<String>,
    pub level: Option<String>,
    pub resume: Option<String>,
    /// Goes in front of the prompt when the agent reopened another session than the one asked for.
    pub continuity_notice: Option<String>,
    pub servers: Servers,
    pub env: ChildEnv,
    /// Bound on each start-up request.
    pub handshake: Duration,
    /// The vendor's own binary, found under its default name.
    pub built_in: bool,
}

pub struct AcpDialogue {
    pub(super) profile: &'static AcpProfile,
    pub(super) plan: Plan,
    pub(super) turn: Turn,
    pub(super) sniffer: Arc<Mutex<Sniffer>>,
    pub(super) seen: Seen,
}

/// Why the start did not reach the prompt.
enum Fault {
    Request { method: &'static str, error: RpcError },
    Own { text: String, kind: FailureKind },
}

/// The session the turn runs in.
struct Session {
    id: String,
    /// The session that was asked for was reopened, or a new one was wanted.
    landed: bool,
}

impl AcpDialogue {
    pub fn new(profile: &'static AcpProfile, plan: Plan) -> Self {
        AcpDialogue {
            profile,
            turn: Turn::new(&profile.tools, plan.built_in),
            sniffer: Arc::new(Mutex::new(Sniffer::new(profile.hooks.stderr_line))),
            seen: Seen::default(),
            plan,
        }
    }

    async fn set_up(&mut self, peer: &mut Peer, emit: &Emitter) -> Result<Session, Fault> {
        let mut start = StartUp::new(self.profile, emit);
        for warning in std::mem::take(&mut self.plan.servers.warnings) {
            start.warn(warning).await;
        }
        let initialize = self.call(peer, &mut start, "initialize", &hello()).await?;
        self.authenticate(peer, &mut start, &initialize).await?;

        let all = self.profile.undeclared_remote_mcp && self.plan.built_in;
        let declared = mcp::declared(&initialize.value());
        let servers = mcp::gate(std::mem::take(&mut self.plan.servers), declared, all, self.profile.name);
        if all && declared == Declared::Omitted && servers.entries.iter().any(|s| s.get("url").is_some()) {
            let text = format!(
                "{} declares nothing about remote MCP servers; they are sent all the same",
                self.profile.name
            );
            emit.send(Message::log("info", text)).await;
        }
        for warning in servers.warnings {
            start.warn(warning).await;
        }
        let (session, result) = self.open(peer, &mut start, servers.entries).await?;
        self.set_model(peer, &mut start, &session).await?;
        self.set_effort(peer, &mut start, &session, &result).await;
        if self.plan.resume.is_some() {
            start.wait_for_silence(peer).await;
        }
        Ok(session)
    }

    async fn call(
        &self,
        peer: &mut Peer,
        start: &mut StartUp<'_>,
        method: &'static str,
        params: &Value,
    ) -> Result<Payload, Fault> {
        let limit = Some(self.plan.handshake);
        peer.call(start, method, params, limit).await.map_err(|error| Fault::Request { method, error })
    }

    async fn authenticate(
        &self,
        peer: &mut Peer,
        start: &mut StartUp<'_>,
        initialize: &Payload,
    ) -> Result<(), Fault> {
        let Some(choose) = self.profile.hooks.authenticate else { return Ok(()) };
        let answer = Fields::read(initialize.text()).unwrap_or_default();
        let method =
            choose(&answer, &self.plan.env).map_err(|text| Fault::Own { text, kind: FailureKind::Auth })?;
        let params = json!({ "methodId": method, "_meta": { "headless": true } });
        self.call(peer, start, "authenticate", &params).await.map(drop)
    }

    /// A new session, or the old one again.
    async fn open(
        &mut self,
        peer: &mut Peer,
        start: &mut StartUp<'_>,
        servers: Vec<Value>,
    ) -> Result<(Session, Payload), Fault> {
        let mut params = json!({ "cwd": self.plan.cwd, "mcpServers": servers });
        let (result, session) = match self.plan.resume.clone() {
            None => {
                if let Some(model) = self.plan.model.as_ref().filter(|_| self.profile.model_in_new) {
                    params["model"] = json!(model);
                }
                let result = self.call(peer, start, "session/new", &params).await?;
                let id = Fields::read(result.text()).and_then(|f| f.word(&["sessionId"]));
                let id = id.ok_or_else(|| Fault::Own {
                    text: format!("{} session/new answered without a session id", self.profile.name),
                    kind: FailureKind::Protocol,
                })?;
                (result, Session { id, landed: true })
            }
            Some(requested) => {
                // The servers go along: without them a resumed session would lose its tools.
                params["sessionId"] = json!(requested);
                let result = self.call(peer, start, self.profile.resume.method(), &params).await?;
                let fields = Fields::read(result.text()).unwrap_or_default();
                let named = fields.word(&["sessionId"]);
                let started_new = named.is_none();
                let own = || self.profile.hooks.served_session.and_then(|own| own(&fields));
                let served = named.or_else(own);
                let landed = served.as_ref().is_none_or(|id| *id == requested);
                self.seen.replaced = !landed && started_new;
                let id = served.unwrap_or(requested);
                if !landed {
                    start.warn(format!("{} went on with another session: {id}", self.profile.name)).await;
                }
                self.seen.session_id = Some(id.clone());
                (result, Session { id, landed })
            }
        };
        self.seen.current_model = Fields::read(result.text()).and_then(|f| effort::current_model(&f));
        Ok((session, result))
    }

    async fn set_model(
        &self,
        peer: &mut Peer,
        start: &mut StartUp<'_>,
        session: &Session,
    ) -> Result<(), Fault> {
        let Some(wanted) = &self.plan.model else { return Ok(()) };
        if let (Some(same), Some(current)) = (self.profile.hooks.same_model, &self.seen.current_model)
            && same(wanted, current)
        {
            return Ok(());
        }
        let params = json!({ "sessionId": session.id, "modelId": wanted });
        self.call(peer, start, "session/set_model", &params).await.map(drop)
    }

    /// Best effort: a level that cannot be set never fails the run.
    async fn set_effort(
        &self,
        peer: &mut Peer,
        start: &mut StartUp<'_>,
        session: &Session,
        result: &Payload,
    ) {
        let Some(level) = &self.plan.level else { return };
        let id = match self.profile.effort {
            Effort::Ignored | Effort::Argument(_) => return,
            Effort::Option(id) => id.to_owned(),
            Effort::Advertised => {
                let option = Fields::read(result.text()).and_then(|f| effort::advertised(&f));
                let Some(option) = option.filter(|o| !o.choices.is_empty()) else {
                    return start
                        .warn("thinkingLevel was not set: the session offers no such option".into())
                        .await;
                };
                // After a model switch the list may be stale; then the agent decides.
                if self.plan.model.is_none() && !option.choices.iter().any(|c| c.value == *level) {
                    let text = format!("thinkingLevel was not set: the session does not offer \"{level}\"");
                    return start.warn(text).await;
                }
                option.id
            }
        };
        let params = json!({ "sessionId": session.id, "configId": id, "value": level });
        let problem = match self.call(peer, start, "session/set_config_option", &params).await {
            Err(Fault::Request { error: RpcError::Remote(error), .. }) => errors::words(&error),
            Err(_) => "no answer".to_owned(),
            Ok(answer) => match Fields::read(answer.text()).and_then(|f| effort::current(&f, &id)) {
                Some(now) if now == *level => return,
                Some(now) => format!("the session says \"{now}\""),
                None => "the session does not confirm it".to_owned(),
            },
        };
        start.warn(format!("thinkingLevel \"{level}\" may not be in use: {problem}")).await;
    }

    fn prompt_params(&self, session: &Session) -> Value {
        let mut text = self.plan.prompt.clone();
        if let Some(system) = &self.plan.system_prompt
            && self.profile.system_prompt == SystemPrompt::Prefixed
        {
            text = format!("{system}\n\n---\n\n{text}");
        }
        if let Some(notice) = self.plan.continuity_notice.as_ref().filter(|_| !session.landed) {
            text.insert_str(0, notice);
        }
        let blocks = json!([{ "type": "text", "text": text }]);
        let mut params = Map::new();
        params.insert("sessionId".into(), json!(session.id));
        if self.profile.prompt_twice {
            params.insert("content".into(), blocks.clone());
        }
        params.insert("prompt".into(), blocks);
        Value::Object(params)
    }

    /// Sends the prompt and waits for its answer. `false` = the stream of events is over.
    async fn take_turn(
        &mut self,
        peer: &mut Peer,
        emit: &Emitter,
        stop: &mut StopSignal,
        session: &Session,
    ) -> bool {
        let ticket = peer.request("session/prompt", &self.prompt_params(session), None);
        let mut give_up: Option<Instant> = None;
        let outcome = loop {
            tokio::select! {
                biased;
                _ = stop.requested(), if give_up.is_none() => {
                    peer.notify("session/cancel", Some(&json!({ "sessionId": session.id })));
                    self.seen.cancelling = true;
                    give_up = Some(Instant::now() + PROTOCOL_CANCEL);
                }
                () = sleep_until(give_up) => return false,
                event = peer.next() => match event {
                    Event::Response { ticket: t, outcome } if t == ticket => break outcome,
                    Event::Closed(reason) => {
                        break Err(RpcError::Closed { method: "session/prompt".into(), reason });
                    }
                    other => self.event(other, emit).await,
                }
            }
        };
        let open = !matches!(outcome, Err(RpcError::Closed { .. }));
        if open {
            emit.terminal();
        }
        match outcome {
            Ok(result) => self.answered(&result, emit).await,
            Err(error) => self.prompt_failed(error),
        }
        open
    }

    async fn answered(&mut self, result: &Payload, emit: &Emitter) {
        let fields = Fields::read(result.text()).unwrap_or_default();
        self.turn.result(&fields);
        if let Some(by_model) = self.profile.hooks.usage_by_model {
            self.seen.by_model = by_model(&fields).unwrap_or_default();
        }
        let name = self.profile.name;
        self.seen.verdict = Some(match self.turn.stop_reason.as_deref() {
            Some("cancelled") => Verdict::Cancelled(format!("{name} cancelled the prompt")),
            Some("end_turn") | None => Verdict::Success,
            Some(reason) => {
                emit.send(Message::log("warn", format!("{name} ended the turn with {reason}"))).await;
                Verdict::Success
            }
        });
    }

    fn prompt_failed(&mut self, error: RpcError) {
        if let (Some(look), Some(object)) = (self.profile.hooks.prompt_error, error.remote()) {
            let context =
                PromptContext { resumed: self.plan.resume.is_some(), finishing: self.turn.finishing() };
            match look(object, &context) {
                PromptError::Finished => {
                    self.seen.verdict = Some(Verdict::Success);
                    return;
                }
                PromptError::SessionUseless => self.seen.rejected = true,
                PromptError::Failed => {}
            }
        }
        self.fail(Fault::Request { method: "session/prompt", error });
    }

    fn fail(&mut self, fault: Fault) {
        let seen = &mut self.seen;
        let (method, error) = match fault {
            Fault::Own { text, kind } => {
                seen.failure = Some(errors::of_kind(self.profile, kind));
                seen.verdict = Some(Verdict::Error(text));
                return;
            }
            Fault::Request { method, error } => (method, error),
        };
        let name = self.profile.name;
        match error {
            RpcError::Remote(object) => self.refused(&object),
            RpcError::Timeout { after, .. } => {
                let text = format!(
                    "{name} timed out after {} in the handshake, waiting for the answer to {method}",
                    duration::format(after)
                );
                seen.verdict = Some(Verdict::Limit(Limit::Handshake, text));
            }
            // The exit status and stderr tell more than a closed pipe.
            RpcError::Closed { reason: CloseReason::Eof, .. } | RpcError::Write { .. } => {}
            RpcError::Closed { reason, .. } => {
                seen.fault = Some(format!("{name} stdout read error: {reason}"));
                seen.failure = Some(errors::of_kind(self.profile, FailureKind::Protocol));
            }
        }
    }

    fn refused(&mut self, object: &ErrorObject) {
        let profile = self.profile;
        let mut text = errors::describe(profile, object);
        if let (Some(model), "session/set_model") = (&self.plan.model, object.method.as_str()) {
            text = format!("{} could not use the model \"{model}\": {}", profile.name, errors::words(object));
        }
        let mut failure = errors::failure(profile, object);
        if object.method == "session/set_model" && failure.kind == FailureKind::Unknown {
            failure = errors::of_kind(profile, FailureKind::ModelNotFound);
        }
        if let Some(requested) = &self.plan.resume {
            let at_resume = object.method == profile.resume.method();
            let later = matches!(object.method.as_str(), "session/set_model" | "session/prompt");
            let own = || profile.hooks.resume_refused.is_some_and(|own| own(object));
            let gone = (at_resume || later) && resume::session_gone(object, requested);
            if gone || (at_resume && (resume::refused(object) || own())) {
                self.seen.rejected = true;
                self.seen.gone = true;
            }
        }
        self.seen.failure = Some(failure);
        self.seen.verdict = Some(Verdict::Error(text));
    }

    /// Something of the live turn.
    async fn event(&mut self, event: Event, emit: &Emitter) {
        match event {
            Event::Notification { method, params } if is_update(&method) => {
                if is_replay(params.text()) {
                    return;
                }
                for message in self.turn.update(params.text()) {
                    emit.send(message).await;
                }
            }
            Event::Request(request) => answer(request, self.seen.cancelling),
            other => aside(other, self.profile, emit).await,
        }
    }

    /// Takes what comes for as long as `quiet` is not reached, at most until `limit`. `false` = nothing more
    /// will come, or nobody wants it.
    async fn linger(
        &mut self,
        peer: &mut Peer,
        emit: &Emitter,
        stop: &mut StopSignal,
        quiet: Option<Duration>,
        limit: Duration,
    ) -> bool {
        let until = Instant::now() + limit;
        let mut silent_at = quiet.map_or(until, |q| until.min(Instant::now() + q));
        loop {
            tokio::select! {
                biased;
                _ = stop.requested(), if !self.seen.cancelling => return false,
                event = peer.next() => match event {
                    Event::Closed(_) => return false,
                    other => {
                        let update = matches!(&other, Event::Notification { method, .. } if is_update(method));
                        self.event(other, emit).await;
                        if let Some(q) = quiet.filter(|_| update) {
                            silent_at = until.min(Instant::now() + q);
                        }
                    }
                },
                () = tokio::time::sleep_until(silent_at) => return true,
            }
        }
    }
}

impl Dialogue for AcpDialogue {
    fn converse<'a>(&'a mut self, io: DialogueIo) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let DialogueIo { stdin, stdout, emit, mut stop, stderr } = io;
            self.seen.started = Some(SystemTime::now());
            let sniffer = self.sniffer.clone();
            stderr.tap(move |chunk| sniffer.lock().unwrap_or_else(|e| e.into_inner()).push(chunk));
            let mut peer = Peer::new(stdout, stdin, Config::default());
            let ready = tokio::select! {
                biased;
                _ = stop.requested() => return,
                ready = self.set_up(&mut peer, &emit) => ready,
            };
            let session = match ready {
                Ok(session) => session,
                Err(fault) => {
                    self.fail(fault);
                    if self.seen.verdict.is_some() {
                        emit.terminal();
                        emit.stop_now();
                    }
                    return;
                }
            };
            if stop.now().is_some() {
                return;
            }
            // Not earlier: an id told before the set-up is over could not be taken back.
            self.seen.session_id = Some(session.id.clone());
            self.seen.prompted = true;
            if self.profile.system_prompt == SystemPrompt::Ignored && self.plan.system_prompt.is_some() {
                let text =
                    format!("systemPrompt is not sent: {} reads its context files itself", self.profile.name);
                emit.send(Message::log("warn", text)).await;
            }
            emit.send(Message::running(Some(session.id.clone()))).await;
            let open = self.take_turn(&mut peer, &emit, &mut stop, &session).await
                && (self.seen.cancelling
                    || self.linger(&mut peer, &emit, &mut stop, Some(TURN_QUIET), TURN_LIMIT).await);
            match self.profile.grace {
                Some(grace) if open => {
                    peer.close_input();
                    // After a cancel there is little left to say, and somebody waits for the end.
                    let limit = if self.seen.cancelling { TURN_QUIET } else { grace };
                    self.linger(&mut peer, &emit, &mut stop, None, limit).await;
                }
                Some(_) => {}
                None => emit.stop_now(),
            }
        })
    }

    fn evidence(&mut self, end: &End) -> Evidence {
        self.weigh(end)
    }

    fn conclude(&mut self, outcome: &mut Outcome, _end: &End) {
        outcome.resume_rejected = Some(self.seen.rejected || self.seen.replaced);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
