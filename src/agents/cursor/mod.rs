//! Cursor's agent (`cursor-agent -p --output-format stream-json`): one prompt on stdin, events as JSON lines.
//!
//! - Not verified on a real cursor-agent, which no package registry carries: built from the shapes that releases up
//!   to 2026.10 are known to print.
//! - `--stream-partial-output` is not passed: with it every text comes a second time as a whole.
//! - A managed `mcpConfig` stands in the project's `.cursor/mcp.json` for the time of the run (see [`project`]), with
//!   approvals in a private data folder (see [`mcp`]). While it is there, the agent and its tools can read it.

mod decoder;
mod event;
mod mcp;
mod project;
#[cfg(test)]
mod tests;
mod tool;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::Duration;

use decoder::CursorDecoder;

use crate::agents::args;
use crate::agents::{Agent, BoxFuture, Launch, LaunchContext, no_check};
use crate::contract::limits::IDLE_TIMEOUT;
use crate::contract::provider::{McpSupport, PromptVia, standalone, value};
use crate::contract::utc::Utc;
use crate::contract::{AgentplugError, BlockedFlag, Capabilities, ErrorCode, ExecuteOptions, Os};

const BLOCKED: &[BlockedFlag] = &[value("--output-format"), standalone("-p"), standalone("--yolo")];

pub static AGENT: Agent = Agent {
    id: "cursor",
    name: "cursor-agent",
    executables: &["cursor-agent"],
    known_paths: &["~/.local/bin", "~/AppData/Local/cursor-agent"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "cursor-agent (stream-json)",
    capabilities: Capabilities {
        model: true,
        // Instructions come from AGENTS.md.
        system_prompt: false,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: false,
        extra_args: false,
        custom_args: true,
        mcp_config: McpSupport::Exclusive,
        thinking_level: false,
        service_tier: false,
        streaming: false,
        thinking: true,
        usage: true,
        cost: false,
        prompt_via: PromptVia::Stdin,
    },
    idle_timeout: IDLE_TIMEOUT,
    drain: Duration::from_millis(500),
    check: no_check,
    launch,
};

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move { plan(ctx) })
}

fn plan(ctx: &LaunchContext<'_>) -> Result<Launch, AgentplugError> {
    let options = ctx.options;
    let mut decoder = CursorDecoder::new(ctx.prompt, given(&options.model));
    let mut env = Vec::new();
    let mut guards: Vec<Box<dyn Any + Send>> = Vec::new();
    let root =
        mcp::project_root(&options.cwd).map_err(|e| cannot("find the project of the working directory", e));
    match &options.mcp_config {
        Some(config) => {
            let servers = mcp::Servers::parse(config)?;
            let root = root?;
            guards.push(Box::new(project::lease(&root, &servers.file())?));
            let data = ctx.files.path("cursor-data")?;
            mcp::write_data(
                &data,
                &root.to_string_lossy(),
                &servers,
                &Utc::now().iso(),
                own_chats(|name| ctx.env.get(name), ctx.os).as_deref(),
            )
            .map_err(|e| cannot("write the approvals", e))?;
            env.push((mcp::DATA_DIR.to_owned(), data.to_string_lossy().into_owned()));
        }
        // A folder that cannot be resolved has no project to repair.
        None => {
            let managed = root.ok().is_some_and(|root| leftover_in_use(&root));
            decoder = decoder.managed_by_another_run(managed);
        }
    }
    Ok(Launch { env, guards, ..Launch::lines(arguments(options), decoder) })
}

fn arguments(options: &ExecuteOptions) -> Vec<String> {
    let mut argv: Vec<String> =
        ["-p", "--output-format", "stream-json", "--yolo"].map(str::to_owned).to_vec();
    let cwd = options.cwd.to_string_lossy();
    let flags = [
        ("--workspace", Some(&*cwd).filter(|cwd| !cwd.is_empty())),
        ("--model", given(&options.model)),
        ("--resume", given(&options.resume_session_id)),
    ];
    for (name, value) in flags {
        argv.extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_owned()]));
    }
    argv.extend(args::filter(&options.custom_args, BLOCKED));
    argv
}

fn given(option: &Option<String>) -> Option<&str> {
    option.as_deref().map(str::trim).filter(|value| !value.is_empty())
}

fn leftover_in_use(root: &Path) -> bool {
    project::recover(root).unwrap_or_else(|e| {
        tracing::warn!(root = %root.display(), error = %e, "cannot tell whether .cursor/mcp.json is the user's own");
        false
    })
}

/// Where the CLI keeps the user's conversations when its data folder is not ours.
fn own_chats<'e>(env: impl Fn(&str) -> Option<&'e str>, os: Os) -> Option<PathBuf> {
    let get = |name| env(name).filter(|value| !value.is_empty());
    let data = match get(mcp::DATA_DIR) {
        Some(data) => PathBuf::from(data),
        None => Path::new(get(if os == Os::Windows { "USERPROFILE" } else { "HOME" })?).join(".cursor"),
    };
    Some(data.join("chats"))
}

fn cannot(what: &str, e: std::io::Error) -> AgentplugError {
    AgentplugError::new(ErrorCode::Io, format!("cannot {what}: {e}")).about("mcpConfig")
}
