//! The shared client for CLIs that speak the Agent Client Protocol over stdio.
//!
//! A CLI is one [`AcpProfile`]: data, and hooks where it has a way of its own. The client reads what agents
//! send field by field and takes every dialect seen in the wild: official types would lose a frame for one
//! odd member.

mod answer;
mod conclusion;
mod content;
mod dialogue;
mod effort;
mod errors;
mod fields;
mod mcp;
mod names;
mod permission;
mod profile;
mod resume;
mod stderr;
mod tools;
mod turn;
mod usage;

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use content::text as content_text;
pub use dialogue::{AcpDialogue, Plan};
pub use fields::Fields;
pub use profile::{
    AcpProfile, AfterExit, Effort, Findings, Hooks, PromptContext, PromptError, Resume, SystemPrompt,
    ToolOutput, ToolRules, auth_methods,
};
pub use stderr::{OwnLine, detail};
pub use usage::Record;

use super::args::filter;
use super::{Launch, LaunchContext};
use crate::contract::limits::HANDSHAKE_TIMEOUT;
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ExecuteOptions};

/// What every CLI on this client can do; each states its own differences.
pub const CAPABILITIES: Capabilities = Capabilities {
    model: true,
    system_prompt: true,
    thread_name: false,
    max_turns: false,
    resume: true,
    resume_rejection: true,
    extra_args: false,
    custom_args: true,
    mcp_config: McpSupport::Merged,
    thinking_level: false,
    service_tier: false,
    streaming: true,
    thinking: true,
    usage: true,
    cost: false,
    prompt_via: PromptVia::Protocol,
};

/// Plans one start of the CLI that `profile` describes.
pub fn launch(profile: &'static AcpProfile, ctx: &LaunchContext<'_>) -> Result<Launch, AgentplugError> {
    let plan = plan(ctx)?;
    let mut launch = Launch::dialogue(arguments(profile, ctx.options), AcpDialogue::new(profile, plan));
    launch.env = profile.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ok(launch)
}

/// The arguments after the executable. Neither prompt, system prompt nor MCP servers are among them.
pub fn arguments(profile: &AcpProfile, options: &ExecuteOptions) -> Vec<String> {
    let mut args: Vec<String> = profile.head.iter().map(|a| (*a).to_owned()).collect();
    if let (Effort::Argument(flag), Some(level)) = (profile.effort, word(options.thinking_level.as_ref())) {
        args.extend([flag.to_owned(), level]);
    }
    args.extend(filter(&options.custom_args, profile.blocked));
    args.extend(profile.tail.iter().map(|a| (*a).to_owned()));
    args
}

fn plan(ctx: &LaunchContext<'_>) -> Result<Plan, AgentplugError> {
    let options = ctx.options;
    Ok(Plan {
        cwd: options.cwd.to_string_lossy().into_owned(),
        prompt: ctx.prompt.to_owned(),
        system_prompt: options.system_prompt.clone().filter(|s| !s.is_empty()),
        model: word(options.model.as_ref()),
        level: word(options.thinking_level.as_ref()),
        resume: word(options.resume_session_id.as_ref()),
        continuity_notice: options.resume_continuity_notice.clone().filter(|_| options.resume_expected),
        servers: mcp::convert(options.mcp_config.as_ref())?,
        env: ctx.env.clone(),
        handshake: options.limits.handshake.unwrap_or(HANDSHAKE_TIMEOUT),
        built_in: options.executable_path.is_none() && options.launch_prefix.is_empty(),
    })
}

fn word(option: Option<&String>) -> Option<String> {
    option.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
