//! The shared client for CLIs that speak the Agent Client Protocol over stdio.
//!
//! A CLI is one [`AcpProfile`]: data, and hooks where it has a way of its own. The client reads what agents
//! send field by field and takes every dialect seen in the wild: official types would lose a frame for one
//! odd member.

mod answer;
mod conclusion;
mod content;
mod dialogue;
pub mod discovery;
mod effort;
mod errors;
mod fields;
mod incoming;
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

use std::path::PathBuf;

use super::args::filter;
use super::{Agent, Launch, LaunchContext};
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
pub fn launch(
    agent: &Agent,
    profile: &'static AcpProfile,
    ctx: &LaunchContext<'_>,
) -> Result<Launch, AgentplugError> {
    let plan = plan(agent.executables, ctx)?;
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

/// The vendor's own binary: found under one of its default names, wherever, and not behind a wrapper.
fn is_built_in(executables: &[&str], options: &ExecuteOptions) -> bool {
    let named = |path: &PathBuf| {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
        executables.iter().any(|name| stem.as_deref() == Some(*name))
    };
    options.launch_prefix.is_empty() && options.executable_path.as_ref().is_none_or(named)
}

fn plan(executables: &[&str], ctx: &LaunchContext<'_>) -> Result<Plan, AgentplugError> {
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
        built_in: is_built_in(executables, options),
    })
}

fn word(option: Option<&String>) -> Option<String> {
    option.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod built_in {
    use super::*;

    #[test]
    fn a_default_name_anywhere_without_a_wrapper() {
        for (path, prefix, own) in [
            (None, &[][..], true),
            (Some("/opt/x/agent"), &[], true),
            (Some("/opt/x/Agent.exe"), &[], true),
            (Some("/opt/x/agent.cmd"), &[], true),
            (Some("/opt/x/other"), &[], false),
            (Some("/opt/x/agent-2"), &[], false),
            (None, &["run"], false),
            (Some("/opt/x/agent"), &["run"], false),
        ] {
            let options = ExecuteOptions {
                executable_path: path.map(PathBuf::from),
                launch_prefix: prefix.iter().map(|p| (*p).to_owned()).collect(),
                ..Default::default()
            };
            assert_eq!(is_built_in(&["agent"], &options), own, "{path:?} {prefix:?}");
        }
    }
}
