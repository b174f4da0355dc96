//! OpenClaw (`openclaw agent …  --json`): silent until its end, then one JSON document on stdout.

mod args;
mod block;
mod decoder;
mod document;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use uuid::Uuid;

use super::{Agent, BoxFuture, Launch, LaunchContext, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, TOOL_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ErrorCode, Os};
use crate::process::env::ChildEnv;

use args::{Entry, Help, Text};
use decoder::{OpenclawDecoder, Plan};

/// Before it, the result went to stderr.
const MIN_VERSION: &str = "2026.5.5";
/// What it reads of a message file.
const MAX_MESSAGE_FILE: usize = 4 * 1024 * 1024;

pub static AGENT: Agent = Agent {
    id: "openclaw",
    name: "openclaw",
    executables: &["openclaw"],
    known_paths: &["~/.openclaw/bin"],
    min_version: Some(MIN_VERSION),
    blocked: args::BLOCKED,
    launch_header: "openclaw agent (json)",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: false,
        extra_args: false,
        custom_args: true,
        mcp_config: McpSupport::None,
        thinking_level: true,
        service_tier: false,
        streaming: false,
        thinking: false,
        usage: true,
        cost: true,
        prompt_via: PromptVia::Stdin,
    },
    // The whole turn is one silence, tools included.
    idle_timeout: TOOL_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch,
};

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move {
        let options = ctx.options;
        let (version, agent_help, exec_help) = tokio::join!(
            ctx.prober.version(),
            ctx.prober.run(&["agent", "--help"]),
            ctx.prober.run(&["agent", "exec", "--help"]),
        );
        match version {
            Ok(version) => check_version(&version)?,
            Err(e) => tracing::warn!("the version of openclaw could not be read: {e}"),
        }
        let text = |help: Result<crate::process::probe::Probe, String>| {
            help.map(|h| format!("{}\n{}", h.stdout, h.stderr)).unwrap_or_default()
        };
        let help = Help { agent: text(agent_help), exec: text(exec_help) };

        let entry = args::entry(options, &help, ctx.env.get("OPENCLAW_STATE_DIR"));
        let resume = options.resume_session_id.clone().filter(|id| !id.is_empty());
        let session_id = resume.clone().unwrap_or_else(|| format!("agentplug-{}", Uuid::new_v4()));
        let message = args::message(ctx.prompt, options.system_prompt.as_deref());
        let (mut file, mut stdin) = (None, None);
        if matches!(entry, Entry::Exec { .. }) {
            file = Some("-".to_owned());
            stdin = Some(message.clone());
        } else if help.agent.contains("--message-file") {
            if message.len() > MAX_MESSAGE_FILE {
                let what = format!("the prompt has {} bytes; openclaw takes at most 4 MiB", message.len());
                return Err(AgentplugError::new(ErrorCode::PromptTooLong, what).about("prompt"));
            }
            let path = ctx.files.write("message.txt", message.as_bytes())?;
            file = Some(path.to_string_lossy().into_owned());
        }
        let text = file.as_deref().map_or(Text::Argument(&message), Text::File);
        let args = args::build(options, &entry, &help, &session_id, text);

        let mut guards: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
        let state = match &entry {
            Entry::Exec { state_dir } => state_dir.clone(),
            Entry::Local => Some(state_dir(ctx.env, ctx.os)),
            Entry::Gateway => None,
        };
        if let Some(state) = state {
            guards.push(Box::new(turn_of(state).lock_owned().await));
        }
        let decoder = OpenclawDecoder::new(Plan {
            entry,
            stdin,
            model: options.model.clone(),
            session_id,
            resumed: resume.is_some(),
            has_limit: options.limits.timeout.is_some(),
            attempt: ctx.attempt,
        });
        Ok(Launch { guards, ..Launch::lines(args, decoder) })
    })
}

fn check_version(version: &semver::Version) -> Result<(), AgentplugError> {
    let min = semver::Version::parse(MIN_VERSION).expect("constant version");
    let found = semver::Version::new(version.major, version.minor, version.patch);
    if found >= min {
        return Ok(());
    }
    Err(AgentplugError::new(
        ErrorCode::VersionTooOld,
        format!(
            "openclaw {found} is below the minimum supported version {MIN_VERSION}. Run `openclaw update` to upgrade \
             and try again."
        ),
    ))
}

/// The state folder a local turn will own: the same folder for the same variables, which is all that is asked.
fn state_dir(env: &ChildEnv, os: Os) -> String {
    let home = if os == Os::Windows { "USERPROFILE" } else { "HOME" };
    ["OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR", "OPENCLAW_HOME", home]
        .iter()
        .find_map(|name| env.get(name).filter(|v| !v.is_empty()).map(|v| format!("{name}={v}")))
        .unwrap_or_default()
}

/// Local turns on one state folder take turns: a second one would wait for a while and then fail on the
/// folder's lock. Turns of other processes are left to that lock.
fn turn_of(state: String) -> Arc<tokio::sync::Mutex<()>> {
    static TURNS: LazyLock<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>> =
        LazyLock::new(Mutex::default);
    let mut turns = TURNS.lock().unwrap_or_else(|e| e.into_inner());
    turns.retain(|_, turn| turn.strong_count() > 0);
    if let Some(turn) = turns.get(&state).and_then(Weak::upgrade) {
        return turn;
    }
    let turn = Arc::default();
    turns.insert(state, Arc::downgrade(&turn));
    turn
}
