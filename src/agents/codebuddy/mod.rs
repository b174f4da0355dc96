//! CodeBuddy, a fork of Claude Code: stream-json both ways, with answers of its own to permission requests.

mod args;
mod decoder;
#[cfg(test)]
mod tests;

use super::stream_json::mcp;
use super::{Agent, BoxFuture, Launch, LaunchContext, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities};

use decoder::{CodebuddyDecoder, Plan};

pub static AGENT: Agent = Agent {
    id: "codebuddy",
    name: "codebuddy",
    executables: &["codebuddy"],
    known_paths: &["~/.local/bin"],
    min_version: None,
    blocked: args::BLOCKED,
    launch_header: "codebuddy (stream-json)",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: false,
        max_turns: true,
        resume: true,
        resume_rejection: true,
        extra_args: true,
        custom_args: true,
        mcp_config: McpSupport::Merged,
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
        let mut args = args::build(ctx.options);
        args.extend(mcp::args(ctx)?);
        let decoder = CodebuddyDecoder::new(Plan {
            prompt: ctx.prompt.to_owned(),
            model: ctx.options.model.clone(),
            resume: ctx.options.resume_session_id.clone(),
            version: ctx.prober.cached_version(),
        });
        Ok(Launch::lines(args, decoder))
    })
}
