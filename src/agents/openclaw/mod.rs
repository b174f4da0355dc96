//! OpenClaw (`openclaw agent …  --json`): silent until its end, then one JSON document on stdout.

mod args;
mod block;
mod config;
mod decoder;
mod document;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use uuid::Uuid;

use super::{Agent, BoxFuture, Launch, LaunchContext, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, TOOL_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ErrorCode};

use args::{Entry, Help, Start, State, Text};
use decoder::{OpenclawDecoder, Plan};

/// Before it, the result went to stderr.
const MIN_VERSION: &str = "2026.5.5";
/// What it reads of a message on stdin or in a file, in bytes.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
const INCLUDE_ROOTS: &str = "OPENCLAW_INCLUDE_ROOTS";

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
        mcp_config: McpSupport::Merged,
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

        let state_dir = config::state_dir(ctx.env, ctx.os);
        let has_state = state_dir.as_ref().is_some_and(|folder| folder.is_dir());
        // Only a state that somebody else owned leads to a second attempt.
        let entry = args::entry(options, &help, has_state, ctx.attempt > 1);
        let exec = matches!(entry, Entry::Exec(_));
        let mut guards: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
        if matches!(entry, Entry::Exec(State::Kept) | Entry::Local) {
            let state = state_dir.clone().unwrap_or_default();
            guards.push(Box::new(turn_on(state).lock_owned().await));
        }

        let resume = options.resume_session_id.clone().filter(|id| !id.is_empty());
        let session_id = resume.clone().unwrap_or_else(|| format!("agentplug-{}", Uuid::new_v4()));
        let message = args::message(ctx.prompt, options.system_prompt.as_deref());
        let (mut file, mut stdin) = (None, None);
        if exec {
            file = Some("-".to_owned());
            stdin = Some(message.clone());
        } else if help.agent.contains("--message-file") {
            let path = ctx.files.write("message.txt", message.as_bytes())?;
            file = Some(shown(&path));
        }
        if file.is_some() && message.len() > MAX_MESSAGE {
            let what = format!("the prompt has {} bytes; openclaw takes at most 4 MiB", message.len());
            return Err(AgentplugError::new(ErrorCode::PromptTooLong, what).about("prompt"));
        }

        let servers = options.mcp_config.as_ref().map(config::servers).transpose()?.unwrap_or_default();
        let user = config::config_file(ctx.env, ctx.os).filter(|file| file.is_file());
        // `agent exec` puts its cwd over the configuration by itself; the gateway has one of its own.
        let overlaid = match entry {
            Entry::Exec(_) => !servers.is_empty(),
            Entry::Local => !servers.is_empty() || user.is_some(),
            Entry::Gateway => false,
        };
        let mut env = Vec::new();
        let mut config_file = None;
        if overlaid {
            let workspace = (!exec).then_some(options.cwd.as_path());
            let text = config::overlay(user.as_deref(), workspace, &servers);
            let path = ctx.files.write("openclaw.json", text.as_bytes())?;
            if let Some(user) = &user {
                let roots = config::include_roots(user, ctx.env.get(INCLUDE_ROOTS), ctx.os);
                env.push((INCLUDE_ROOTS.to_owned(), roots));
            }
            if exec {
                config_file = Some(shown(&path));
            } else {
                env.push(("OPENCLAW_CONFIG_PATH".to_owned(), shown(&path)));
            }
        }
        // The folder it would make by itself stays behind when it is stopped.
        let state = match &entry {
            Entry::Exec(State::Thrown) => ctx.files.folder("state")?,
            _ => state_dir.unwrap_or_default(),
        };
        let args = args::build(
            options,
            &help,
            Start {
                entry: &entry,
                session_id: &session_id,
                state_dir: &shown(&state),
                config: config_file.as_deref(),
                text: file.as_deref().map_or(Text::Argument(&message), Text::File),
            },
        );
        let decoder = OpenclawDecoder::new(Plan {
            entry,
            stdin,
            model: options.model.clone(),
            session_id,
            resumed: resume.is_some(),
            limit: options.limits.timeout,
            attempt: ctx.attempt,
        });
        Ok(Launch { env, guards, ..Launch::lines(args, decoder) })
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

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Runs on one state folder take turns: a second one would wait for a while and then fail on the folder's lock.
/// Those of other processes are left to that lock.
fn turn_on(state: PathBuf) -> Arc<tokio::sync::Mutex<()>> {
    static TURNS: LazyLock<Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>> =
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
