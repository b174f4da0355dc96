//! Qwen Code, headless: the prompt on stdin, stream-json on stdout.

mod args;
mod baseline;
mod decoder;
#[cfg(test)]
mod tests;

use super::stream_json::mcp;
use super::{Agent, BoxFuture, Launch, LaunchContext};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ErrorCode, ExecuteOptions};

use decoder::{Plan, QwenDecoder};

/// The CLI cuts longer input off, with a warning on stderr only.
const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;

pub static AGENT: Agent = Agent {
    id: "qwen",
    name: "qwen",
    executables: &["qwen"],
    known_paths: &[],
    min_version: Some("0.20.0"),
    blocked: args::BLOCKED,
    launch_header: "qwen -p (stream-json)",
    capabilities: Capabilities {
        model: true,
        system_prompt: true,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: true,
        extra_args: true,
        custom_args: true,
        mcp_config: McpSupport::Merged,
        thinking_level: false,
        service_tier: false,
        streaming: true,
        thinking: true,
        usage: true,
        cost: false,
        prompt_via: PromptVia::Stdin,
    },
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check,
    launch,
};

fn check(prompt: &str, _: &ExecuteOptions) -> Result<(), AgentplugError> {
    if prompt.trim().is_empty() {
        return Err(AgentplugError::new(ErrorCode::InvalidPrompt, "the prompt is blank"));
    }
    if prompt.len() > MAX_PROMPT_BYTES {
        let text = format!("qwen reads {} MiB of a prompt at most", MAX_PROMPT_BYTES / (1024 * 1024));
        return Err(AgentplugError::new(ErrorCode::PromptTooLong, text));
    }
    Ok(())
}

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move {
        let mut args = args::build(ctx.options);
        args.extend(mcp::args(ctx)?);
        let resume = ctx.options.resume_session_id.clone();
        let before = resume.as_deref().and_then(|id| baseline::count(ctx.env, ctx.os, id));
        let decoder = QwenDecoder::new(Plan {
            prompt: ctx.prompt.to_owned(),
            model: ctx.options.model.clone(),
            resume,
            before,
            version: ctx.prober.cached_version(),
            attempt: ctx.attempt,
        });
        Ok(Launch::lines(args, decoder))
    })
}
