//! pi (`pi -p --mode json`): one prompt on stdin, events as JSON lines on stdout, the session in a file of ours.
//! Checked against 0.74.2 and 1.6.0.
//!
//! - A system prompt goes through a private file with `--append-system-prompt`; pi then does not read the user's
//!   `APPEND_SYSTEM.md`.
//! - A resumed session runs in the folder it was begun in, whatever `cwd` says: pi keeps it in the session.

mod args;
mod decoder;
mod frames;
#[cfg(test)]
mod recordings;
mod sanitize;
mod session;
#[cfg(test)]
mod tests;

use std::any::Any;

use decoder::PiDecoder;

use crate::agents::{Agent, BoxFuture, Launch, LaunchContext};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ErrorCode, ExecuteOptions};

pub static AGENT: Agent = Agent {
    id: "pi",
    name: "pi",
    executables: &["pi"],
    known_paths: &["~/.local/bin", "~/.npm-global/bin", "~/.bun/bin"],
    min_version: None,
    blocked: args::BLOCKED,
    launch_header: "pi (json mode)",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: true,
        extra_args: false,
        custom_args: true,
        // Servers come from pi's own mcp.json files; no flag replaces them for one run.
        mcp_config: McpSupport::None,
        thinking_level: true,
        service_tier: false,
        streaming: true,
        thinking: true,
        usage: true,
        cost: true,
        prompt_via: PromptVia::Stdin,
    },
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check,
    launch,
};

fn check(prompt: &str, _: &ExecuteOptions) -> Result<(), AgentplugError> {
    if prompt.trim().is_empty() {
        return Err(AgentplugError::new(
            ErrorCode::InvalidPrompt,
            "pi prompt must not be empty: pi takes blank input on stdin for none and waits",
        ));
    }
    Ok(())
}

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move { plan(ctx) })
}

fn plan(ctx: &LaunchContext<'_>) -> Result<Launch, AgentplugError> {
    let options = ctx.options;
    let env = |name: &str| ctx.env.get(name);
    let resume = options.resume_session_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
    let prepared = match resume {
        Some(value) => {
            let host_cwd = std::env::current_dir().unwrap_or_else(|_| options.cwd.clone());
            session::resume(value, &host_cwd, env, ctx.os)?
        }
        None => session::fresh(env, ctx.os)?,
    };
    // A file, not the text: arguments are visible to every user of the machine.
    let system_prompt = match options.system_prompt.as_deref().filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(ctx.files.write("system-prompt.md", text.as_bytes())?),
        None => None,
    };
    let system_prompt = system_prompt.as_ref().map(|path| path.to_string_lossy());
    let argv = args::build(options, prepared.session.argument(), system_prompt.as_deref());
    let model = options.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let history_missing = prepared.history_missing;
    let mut decoder = PiDecoder::new(ctx.prompt, model, prepared.session, resume.is_some(), history_missing);
    let mut guards: Vec<Box<dyn Any + Send>> = Vec::new();
    if let Some(created) = prepared.created {
        decoder = decoder.tell_start(created.used.clone());
        guards.push(Box::new(created));
    }
    Ok(Launch { guards, ..Launch::lines(argv, decoder) })
}
