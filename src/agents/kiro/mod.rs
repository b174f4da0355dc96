//! Kiro CLI (`kiro-cli acp`).

#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile, Fields, Hooks, PromptContext, PromptError, Resume, ToolRules};
use super::{Agent, no_check};
use crate::contract::BlockedFlag;
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{standalone, value};
use crate::wire::rpc::{ErrorObject, code};

const BLOCKED: &[BlockedFlag] =
    &[standalone("acp"), standalone("-a"), standalone("--trust-all-tools"), value("--trust-tools")];

pub static AGENT: Agent = Agent {
    id: "kiro",
    name: PROFILE.name,
    executables: &["kiro-cli"],
    known_paths: &["~/.local/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "kiro-cli acp",
    capabilities: acp::CAPABILITIES,
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    head: &["acp", "--trust-all-tools"],
    discovery: Some(&["acp"]),
    blocked: BLOCKED,
    resume: Resume::Load,
    // Its documentation says `content`, its 2.1 releases still require `prompt`.
    prompt_twice: true,
    tools: ToolRules {
        names: &[("code", "code"), ("todo list", "todo_write"), ("todo_list", "todo_write")],
        finishing: &["goal_complete"],
        name: Some(tool_name),
        ..ToolRules::new()
    },
    login_hint: "log in with `kiro-cli login`",
    hooks: Hooks { prompt_error: Some(prompt_error), ..Hooks::NONE },
    ..AcpProfile::new("kiro")
};

/// Newer builds title the shell tool "Running: <command>"; the tool's own name is beside it.
fn tool_name(frame: &Fields) -> Option<String> {
    frame.object_at(&["_meta", "kiro"])?.word(&["toolName"])
}

fn prompt_error(error: &ErrorObject, context: &PromptContext) -> PromptError {
    let data = error.data_text().unwrap_or_default().to_lowercase();
    if error.code != code::INTERNAL_ERROR {
        return PromptError::Failed;
    }
    // The last, closing answer of the model failed after the work itself was reported as done.
    let closing = error.message.trim().eq_ignore_ascii_case("internal error")
        && data.contains("failed to generate a response");
    if closing && context.finishing == Some(true) {
        return PromptError::Finished;
    }
    // The history replays an image that the provider refuses each time.
    let poisoned = data.contains("image.source.base64.data")
        && data.contains("image dimensions exceed max allowed size");
    if poisoned && context.resumed { PromptError::SessionUseless } else { PromptError::Failed }
}
