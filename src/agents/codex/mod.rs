//! codex: one `codex app-server` per run, spoken to in JSON-RPC over its stdin and stdout.

mod approvals;
mod argv;
mod dialogue;
mod ending;
mod failure;
mod instructions;
mod items;
mod mcp;
mod patch;
mod rollout;
mod talk;
#[cfg(test)]
mod tests;
mod thread;
mod turn;
mod usage;
mod watch;

use crate::agents::{Agent, Launch, LaunchContext, native, no_check};
use crate::contract::provider::{McpSupport, PromptVia, standalone, value};
use crate::contract::{AgentplugError, Capabilities, limits};

use dialogue::{Codex, Plan};

pub static AGENT: Agent = Agent {
    id: "codex",
    name: "codex",
    executables: &["codex"],
    known_paths: &[
        "/Applications/ChatGPT.app/Contents/Resources",
        "/Applications/Codex.app/Contents/Resources",
        "~/Applications/ChatGPT.app/Contents/Resources",
        "~/Applications/Codex.app/Contents/Resources",
    ],
    // The first one with `app-server --listen stdio://`.
    min_version: Some("0.100.0"),
    blocked: &[value("--listen"), standalone("--stdio")],
    launch_header: "codex app-server",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: true,
        max_turns: false,
        resume: true,
        resume_rejection: true,
        extra_args: true,
        custom_args: true,
        mcp_config: McpSupport::Exclusive,
        thinking_level: true,
        service_tier: true,
        streaming: true,
        thinking: true,
        usage: true,
        cost: false,
        prompt_via: PromptVia::Protocol,
    },
    idle_timeout: limits::IDLE_TIMEOUT,
    drain: limits::DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(launch(ctx)),
};

/// The native binary behind the npm launcher of Windows, relative to the folder of `codex.cmd`.
const WINDOWS_BINARIES: &[&str] = &[
    r"node_modules\@openai\codex\node_modules\@openai\codex-win32-x64\vendor\x86_64-pc-windows-msvc\bin\codex.exe",
    r"node_modules\@openai\codex-win32-x64\vendor\x86_64-pc-windows-msvc\bin\codex.exe",
    r"node_modules\@openai\codex\node_modules\@openai\codex-win32-arm64\vendor\aarch64-pc-windows-msvc\bin\codex.exe",
    r"node_modules\@openai\codex-win32-arm64\vendor\aarch64-pc-windows-msvc\bin\codex.exe",
];

async fn launch(ctx: &LaunchContext<'_>) -> Result<Launch, AgentplugError> {
    let plan = Plan::new(ctx)?;
    let mut launch = Launch::dialogue(argv::build(ctx.options, AGENT.blocked), Codex::new(plan));
    launch.program = native::beside_launcher(ctx.os, ctx.program, WINDOWS_BINARIES, |path| path.is_file());
    Ok(launch)
}
