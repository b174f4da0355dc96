//! Claude Code in stream-json both ways: the prompt goes to stdin, which stays open for control requests until
//! the result line.

mod args;
mod baseline;
mod decoder;
#[cfg(test)]
mod tests;
mod usage;

use super::stream_json::mcp;
use super::{Agent, BoxFuture, Launch, LaunchContext, native, no_check, prompt};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities};

use args::SystemPrompt;
use decoder::{ClaudeDecoder, Plan};

pub static AGENT: Agent = Agent {
    id: "claude",
    name: "claude",
    executables: &["claude"],
    known_paths: &["~/.local/bin", "~/.claude/local"],
    min_version: Some("2.0.0"),
    blocked: args::BLOCKED,
    launch_header: "claude (stream-json)",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: false,
        max_turns: true,
        resume: true,
        resume_rejection: true,
        extra_args: true,
        custom_args: true,
        mcp_config: McpSupport::Exclusive,
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
    check: no_check,
    launch,
};

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move {
        let options = ctx.options;
        let program =
            native::beside_launcher(ctx.os, ctx.program, native_candidates(std::env::consts::ARCH), |path| {
                path.is_file()
            });
        let mut system = SystemPrompt::argument(options);
        let args = args::build(options, system.as_ref());
        if let Some(refusal) = args::root_refusal(&args, effective_uid(), ctx.env.get("IS_SANDBOX")) {
            return Err(refusal);
        }
        if let Some(SystemPrompt::Text(text)) = &system
            && !prompt::fits_argv(ctx.os, program.as_ref().unwrap_or(ctx.program), &args, "")
        {
            system = Some(SystemPrompt::File(ctx.files.write("system-prompt.txt", text.as_bytes())?));
        }
        let mut args = args::build(options, system.as_ref());
        args.extend(mcp::args(ctx)?);
        let baseline = match &options.resume_session_id {
            Some(id) => baseline::read(ctx.env, ctx.os, id).await,
            None => usage::Baseline::Absent,
        };
        let decoder = ClaudeDecoder::new(Plan {
            prompt: ctx.prompt.to_owned(),
            model: options.model.clone(),
            resume: options.resume_session_id.clone(),
            baseline,
            version: ctx.prober.cached_version(),
        });
        Ok(Launch { program, ..Launch::lines(args, decoder) })
    })
}

fn effective_uid() -> Option<u32> {
    #[cfg(unix)]
    return Some(rustix::process::geteuid().as_raw());
    #[cfg(not(unix))]
    None
}

/// Where npm puts the binary of the platform package: nested, hoisted, or copied by the install script. That
/// copy comes last: it is a text file as long as the script did not run.
fn native_candidates(arch: &str) -> &'static [&'static str] {
    const X64: &[&str] = &[
        r"node_modules\@anthropic-ai\claude-code\node_modules\@anthropic-ai\claude-code-win32-x64\claude.exe",
        r"node_modules\@anthropic-ai\claude-code-win32-x64\claude.exe",
        r"node_modules\@anthropic-ai\claude-code\bin\claude.exe",
    ];
    const ARM64: &[&str] = &[
        r"node_modules\@anthropic-ai\claude-code\node_modules\@anthropic-ai\claude-code-win32-arm64\claude.exe",
        r"node_modules\@anthropic-ai\claude-code-win32-arm64\claude.exe",
        r"node_modules\@anthropic-ai\claude-code\bin\claude.exe",
    ];
    if arch == "aarch64" { ARM64 } else { X64 }
}
