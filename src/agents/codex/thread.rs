//! The start of a run up to its thread: handshake, MCP servers, resume or start, name.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::dialogue::Plan;
use super::ending::{Ending, OVERLOADED, cause, jitter};
use super::instructions;
use super::talk::Talk;
use crate::agents::Retry;
use crate::contract::{Failure, FailureKind};
use crate::wire::rpc::{CloseReason, Peer, RpcError};

/// Notifications nobody here reads, and that come often.
const OPT_OUT: &[&str] = &[
    "thread/settings/updated",
    "thread/readState/changed",
    "turn/diff/updated",
    "item/fileChange/outputDelta",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
];

const OVERLOAD_TRIES: u32 = 5;
const OVERLOAD_PAUSE: Duration = Duration::from_millis(100);
/// Another process may be about to let go of the thread.
const BUSY_PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_millis(1000), Duration::from_millis(2000)];
const INITIALIZE_RETRY: Duration = Duration::from_millis(100);

/// What the start found out about the server.
#[derive(Default)]
pub struct Server {
    pub version: Option<String>,
    /// The model that answers, as the server tells it.
    pub model: Option<String>,
    /// Where the server keeps the thread.
    pub rollout: Option<String>,
    /// The old thread could not be had.
    pub resume_rejected: bool,
}

pub async fn begin(plan: &Plan, peer: &mut Peer, talk: &mut Talk, server: &mut Server) -> Result<(), Ending> {
    initialize(plan, peer, talk, server).await?;
    let mut config = Map::new();
    if let Some(effort) = &plan.effort {
        config.insert("model_reasoning_effort".to_owned(), effort.clone().into());
    }
    if let Some(servers) = &plan.mcp {
        let user = user_servers(plan, peer, talk).await?;
        let (servers, warnings) = servers.exclusive(&user);
        for warning in warnings {
            talk.log("warn", warning);
        }
        config.insert("mcp_servers".to_owned(), servers);
    }
    let resumed = match &plan.resume {
        Some(id) => resume(plan, peer, talk, server, id, &config).await?,
        None => false,
    };
    if !resumed {
        start(plan, peer, talk, server, &config).await?;
    }
    if let Some(details) = &talk.config_ignored {
        // It would go on with its built-in provider: the prompt would be sent to a service nobody named.
        let text = format!("codex ignores its invalid configuration: {details}");
        return Err(Ending::fault(text, Failure::of(FailureKind::InvalidRequest)).hint(FIX_CONFIG));
    }
    let name = plan.thread_name.as_deref().map(str::trim).filter(|n| !n.is_empty());
    if let (false, Some(name), Some(thread)) = (resumed, name, talk.thread.clone()) {
        let params = json!({"threadId": thread, "name": name});
        if let Err(error) = ask(plan, peer, talk, "thread/name/set", &params).await {
            talk.log(
                "warn",
                format!("codex did not take the thread name: {}", cause(&error, plan.handshake)),
            );
        }
    }
    Ok(())
}

const FIX_CONFIG: &str = "correct the config.toml of codex";

async fn initialize(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    server: &mut Server,
) -> Result<(), Ending> {
    let params = json!({
        "clientInfo": {"name": "agentplug", "title": "agentplug", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {"experimentalApi": true, "optOutNotificationMethods": OPT_OUT},
    });
    match ask(plan, peer, talk, "initialize", &params).await {
        Ok(result) => {
            // `<client name>/<version of the CLI> (<system>) …`
            let agent = result["userAgent"].as_str().unwrap_or_default();
            let version = agent.split_once('/').map_or("", |(_, rest)| rest).split(' ').next();
            server.version = version.filter(|v| !v.is_empty()).map(str::to_owned);
            peer.notify("initialized", None);
            Ok(())
        }
        Err(error) => {
            let mut ending = Ending::request("initialize", &error, plan.handshake);
            if matches!(error, RpcError::Timeout { .. }) {
                // Nothing was asked of it yet, so a second start can do no harm. The words on stderr may be
                // anything at this point, secrets included.
                let silent = !talk.notified;
                ending.retry = (plan.attempt == 1 && silent)
                    .then(|| Retry { after: jitter(INITIALIZE_RETRY, 0.25), fresh_session: false });
            } else {
                ending.with_stderr = true;
            }
            Err(ending)
        }
    }
}

/// One request of the start, within the limit of the handshake; asked again while the server is overloaded.
async fn ask(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    method: &str,
    params: &Value,
) -> Result<Value, RpcError> {
    let deadline = Instant::now() + plan.handshake;
    let mut tries = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match peer.call(talk, method, params, Some(left)).await {
            Err(RpcError::Remote(object)) if object.code == OVERLOADED && tries < OVERLOAD_TRIES => {
                tokio::time::sleep(overload_pause(tries)).await;
                tries += 1;
            }
            other => return other.map(|payload| payload.value()),
        }
    }
}

/// The pause before the next try, or `None` when there is no next one.
pub fn overload_again(error: &RpcError, tries: u32) -> Option<Duration> {
    let overloaded = error.remote().is_some_and(|object| object.code == OVERLOADED);
    (overloaded && tries < OVERLOAD_TRIES).then(|| overload_pause(tries))
}

fn overload_pause(tries: u32) -> Duration {
    jitter(OVERLOAD_PAUSE * 2u32.pow(tries), 0.25)
}

/// The MCP servers of the user's own configuration. The answer holds their secrets: only names and keys are
/// looked at, and nothing of it is told.
async fn user_servers(plan: &Plan, peer: &mut Peer, talk: &mut Talk) -> Result<Map<String, Value>, Ending> {
    match ask(plan, peer, talk, "config/read", &json!({"cwd": plan.cwd})).await {
        Ok(mut result) => Ok(match result["config"]["mcp_servers"].take() {
            Value::Object(servers) => servers,
            _ => Map::new(),
        }),
        Err(RpcError::Remote(_)) => {
            let text =
                "this codex does not tell which MCP servers the user has; they stay on beside the given ones";
            talk.log("warn", text);
            Ok(Map::new())
        }
        Err(error) => Err(Ending::request("config/read", &error, plan.handshake)),
    }
}

/// Parameters that `thread/start` and `thread/resume` share. Only what was asked for: a null would be an
/// answer, too.
fn thread_params(plan: &Plan, config: &Map<String, Value>) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("cwd".to_owned(), plan.cwd.clone().into());
    // Nobody is there to answer. What may be done is up to the user's sandbox setting.
    params.insert("approvalPolicy".to_owned(), "never".into());
    let given = [
        ("model", &plan.model),
        ("developerInstructions", &plan.system_prompt),
        ("serviceTier", &plan.service_tier),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            params.insert(key.to_owned(), value.clone().into());
        }
    }
    if !config.is_empty() {
        params.insert("config".to_owned(), Value::Object(config.clone()));
    }
    params
}

async fn start(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    server: &mut Server,
    config: &Map<String, Value>,
) -> Result<(), Ending> {
    let params = Value::Object(thread_params(plan, config));
    let result = ask(plan, peer, talk, "thread/start", &params).await.map_err(|error| {
        let misconfigured = error.remote().is_some_and(|e| e.message.contains(CONFIG_BROKEN));
        let ending = Ending::request("thread/start", &error, plan.handshake);
        if misconfigured { misconfiguration(ending) } else { ending }
    })?;
    match enter(plan, talk, server, &result, false) {
        true => Ok(()),
        false => {
            Err(Ending::fault("codex thread/start returned no thread ID", Failure::of(FailureKind::Protocol)))
        }
    }
}

/// Takes the thread of a response; `false` when it names none.
fn enter(plan: &Plan, talk: &mut Talk, server: &mut Server, result: &Value, resumed: bool) -> bool {
    let id = result["thread"]["id"].as_str().unwrap_or_default();
    if id.is_empty() {
        return false;
    }
    let word = |value: &Value| value.as_str().filter(|w| !w.is_empty()).map(str::to_owned);
    server.model = word(&result["model"]);
    server.rollout = word(&result["thread"]["path"]);
    talk.meter.model = plan.model.clone().or_else(|| server.model.clone());
    talk.enter(id, resumed);
    true
}

const CONFIG_BROKEN: &str = "failed to load configuration";

fn misconfiguration(mut ending: Ending) -> Ending {
    ending.failure = Some(Failure::of(FailureKind::InvalidRequest));
    ending.hint(FIX_CONFIG)
}

/// Gives a resumed thread the system prompt it does not have yet.
async fn instruct(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    server: &Server,
    thread: &str,
) -> Result<(), Ending> {
    let (Some(text), Some(path)) = (plan.system_prompt.clone(), server.rollout.clone()) else {
        return Ok(());
    };
    let injection = instructions::injection(thread, &text);
    let known = tokio::task::spawn_blocking(move || instructions::known(&path, &text)).await;
    if !matches!(known, Ok(Some(false))) {
        return Ok(());
    }
    match ask(plan, peer, talk, "thread/inject_items", &injection).await {
        Ok(_) => Ok(()),
        Err(RpcError::Remote(object)) => {
            talk.log("warn", format!("the resumed thread did not take the system prompt: {object}"));
            Ok(())
        }
        Err(error) => Err(Ending::request("thread/inject_items", &error, plan.handshake)),
    }
}

/// What a refused resume means.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The thread cannot be had; a new one can.
    Gone,
    /// Another process has it.
    Busy,
    Archived,
    /// A new thread would fail the same way.
    Misconfigured,
}

impl Refusal {
    pub fn of(message: &str) -> Self {
        if message.contains("already has an active writer") {
            Refusal::Busy
        } else if message.contains(CONFIG_BROKEN) {
            Refusal::Misconfigured
        } else if message.starts_with("session ") && message.contains("is archived") {
            Refusal::Archived
        } else {
            Refusal::Gone
        }
    }
}

/// `true` = the old thread goes on, `false` = a new one is wanted instead.
async fn resume(
    plan: &Plan,
    peer: &mut Peer,
    talk: &mut Talk,
    server: &mut Server,
    id: &str,
    config: &Map<String, Value>,
) -> Result<bool, Ending> {
    let mut params = thread_params(plan, config);
    params.insert("threadId".to_owned(), id.into());
    // The whole history on one line is what makes a long thread impossible to resume.
    params.insert("excludeTurns".to_owned(), true.into());
    let params = Value::Object(params);
    let mut pauses = BUSY_PAUSES.into_iter();
    let mut unarchived = false;
    loop {
        let error = match ask(plan, peer, talk, "thread/resume", &params).await {
            Ok(result) => {
                let same = enter(plan, talk, server, &result, true);
                if !same {
                    talk.log("warn", "codex resumed without naming the thread; a new one is started");
                    server.resume_rejected = true;
                }
                if same {
                    instruct(plan, peer, talk, server, id).await?;
                }
                return Ok(same);
            }
            Err(error) => error,
        };
        let ending = Ending::request("thread/resume", &error, plan.handshake);
        let Some(object) = error.remote() else {
            if let RpcError::Closed { reason: CloseReason::LineTooLong(_), .. } = &error {
                server.resume_rejected = true;
                let hint = "the history of this thread is too long to be loaded; start a new one";
                let failure = Failure::of(FailureKind::ResumeRejected).hint(hint);
                return Err(Ending { failure: Some(failure), ..ending });
            }
            return Err(ending);
        };
        if object.code == OVERLOADED {
            return Err(ending);
        }
        match Refusal::of(&object.message) {
            Refusal::Busy => match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    let hint = "another process has this thread open; end it, or start a new session";
                    let failure = Failure { retryable: true, ..Failure::of(FailureKind::Unknown).hint(hint) };
                    return Err(Ending { failure: Some(failure), ..ending });
                }
            },
            Refusal::Archived if !unarchived => {
                unarchived = true;
                talk.log("info", "the thread was archived; taken out of the archive");
                let thread = json!({"threadId": id});
                if let Err(error) = ask(plan, peer, talk, "thread/unarchive", &thread).await {
                    return Err(Ending::request("thread/unarchive", &error, plan.handshake));
                }
            }
            Refusal::Archived => {
                let hint = format!("run `codex unarchive {id}`");
                return Err(ending.hint(hint));
            }
            Refusal::Misconfigured => return Err(misconfiguration(ending)),
            Refusal::Gone => {
                talk.log("warn", format!("the thread cannot be resumed, a new one is started: {object}"));
                server.resume_rejected = true;
                return Ok(false);
            }
        }
    }
}
