//! DevEco Code (`deveco run --format json`): opencode's engine and event stream, with the prompt as an argument.

#[cfg(test)]
mod tests;

use super::opencode::decoder::{EventDecoder, Plan};
use super::opencode::{self, Dialect, mcp};
use super::{Agent, BoxFuture, Launch, LaunchContext, native, no_check, prompt};
use crate::contract::limits::DRAIN_AFTER_EXIT;
use crate::contract::provider::{Capabilities, McpSupport, PromptVia};
use crate::contract::{AgentplugError, ExecuteOptions};

/// Named after the engine's own variable; no public build was at hand to see it read.
const CONFIG_VARIABLE: &str = "DEVECO_CONFIG_CONTENT";

/// npm's folders, seen from the launcher. There is no package for arm64.
const NATIVE: &[&str] = &[
    r"node_modules\@deveco\deveco-code\bin\deveco.exe",
    r"node_modules\@deveco\deveco-code-windows-x64\bin\deveco.exe",
    r"node_modules\@deveco\deveco-code-windows-x64-baseline\bin\deveco.exe",
];

pub static AGENT: Agent = Agent {
    id: "deveco",
    name: "deveco",
    executables: &["deveco"],
    known_paths: &[],
    min_version: None,
    blocked: opencode::BLOCKED,
    launch_header: "deveco run (json)",
    capabilities: Capabilities {
        model: true,
        system_prompt: false,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: true,
        extra_args: false,
        custom_args: true,
        mcp_config: McpSupport::Merged,
        thinking_level: true,
        service_tier: false,
        streaming: false,
        thinking: true,
        usage: true,
        cost: true,
        prompt_via: PromptVia::Argument,
    },
    idle_timeout: opencode::IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch,
};

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move {
        let options = ctx.options;
        let mut env = vec![("PWD".to_owned(), options.cwd.to_string_lossy().into_owned())];
        if let Some(config) = &options.mcp_config {
            let existing = ctx.env.get(CONFIG_VARIABLE);
            if let Some(content) = mcp::config_content(AGENT.name, CONFIG_VARIABLE, config, existing)? {
                env.push((CONFIG_VARIABLE.to_owned(), content));
            }
        }
        let program = native::beside_launcher(ctx.os, ctx.program, NATIVE, |path| path.is_file());
        let mut args = run_args(options);
        let stdin = if prompt::fits_argv(ctx.os, program.as_ref().unwrap_or(ctx.program), &args, ctx.prompt) {
            push_prompt(&mut args, ctx.prompt);
            None
        } else {
            Some(ctx.prompt.to_owned())
        };
        let decoder = EventDecoder::new(Plan {
            name: AGENT.name,
            stdin,
            model: options.model.clone(),
            resume: options.resume_session_id.clone(),
            output_lacks_reasoning: false,
        });
        Ok(Launch { program, env, ..Launch::lines(args, decoder) })
    })
}

fn run_args(options: &ExecuteOptions) -> Vec<String> {
    opencode::run_args(options, Dialect::OLD)
}

/// The engine reads a first word with a dash as a flag.
fn push_prompt(args: &mut Vec<String>, prompt: &str) {
    if prompt.starts_with('-') {
        args.push("--".to_owned());
    }
    args.push(prompt.to_owned());
}
