//! Hermes Agent (`hermes acp`), and other binaries of the same family under its name.

#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile, Effort, Fields, Hooks, SystemPrompt, ToolOutput, ToolRules};
use super::{Agent, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::standalone;
use crate::contract::{BlockedFlag, Capabilities};

const BLOCKED: &[BlockedFlag] = &[standalone("acp")];

pub static AGENT: Agent = Agent {
    id: "hermes",
    name: PROFILE.name,
    executables: &["hermes"],
    known_paths: &["~/.local/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "hermes acp",
    capabilities: Capabilities { system_prompt: false, thinking_level: true, ..acp::CAPABILITIES },
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    blocked: BLOCKED,
    // Silences the questions about dangerous shell commands. Edits are still asked for over the protocol.
    env: &[("HERMES_YOLO_MODE", "1")],
    // It reads AGENTS.md and the like from its working directory: the same text again made requests large
    // and tripped upstream safety filters.
    system_prompt: SystemPrompt::Ignored,
    effort: Effort::Advertised,
    model_in_new: true,
    tools: ToolRules {
        shared_names: false,
        start_is_final: true,
        output: Some(tool_output),
        ..ToolRules::new()
    },
    undeclared_remote_mcp: true,
    refusal_rejects_resume: true,
    history_rejects_resume: true,
    login_phrases: &["no llm provider configured", "api key was rejected"],
    login_hint: "set a provider up with `hermes model` or `hermes setup`",
    hooks: Hooks {
        served_session: Some(served_session),
        same_model: Some(same_model),
        error_text: Some(is_error_text),
        ..Hooks::NONE
    },
    ..AcpProfile::new("hermes")
};

/// A resume of a session it no longer has starts a new one; only the provenance tells. The `current…` id beside
/// it is an internal one.
fn served_session(result: &Fields) -> Option<String> {
    result.object_at(&["_meta", "hermes", "sessionProvenance"])?.word(&["acpSessionId"])
}

/// Setting the model makes it detect the provider anew, which may pick a wrong one, so it is left out for the
/// model that is current already: `m1` and `p:m1` are the same when the current one is `p:m1`.
fn same_model(wanted: &str, current: &str) -> bool {
    fn split(id: &str) -> (Option<&str>, &str) {
        let id = id.trim();
        match id.split_once(':') {
            Some((provider, model)) if !provider.is_empty() => (Some(provider), model),
            _ => (None, id),
        }
    }
    let ((provider, model), (current_provider, current_model)) = (split(wanted), split(current));
    let same_provider = match (provider, current_provider) {
        (None, _) => true,
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (Some(_), None) => false,
    };
    same_provider && model.eq_ignore_ascii_case(current_model)
}

/// `terminal result`, then a list of fields: the output is what people want, and the exit code when it tells
/// something.
fn tool_output(update: &Fields) -> Option<ToolOutput> {
    let text = acp::content_text(update);
    let (fields, code) = text.strip_prefix("terminal result")?.rsplit_once("\n- **exit_code:** ")?;
    let output = match fields {
        "" => "",
        fields => fields.strip_prefix("\n- **output:** ")?,
    };
    let code: i64 = code.trim().parse().ok()?;
    let text = match (output, code) {
        (output, 0) => output.to_owned(),
        ("", code) => format!("exit code: {code}"),
        (output, code) => format!("{output}\nexit code: {code}"),
    };
    Some(ToolOutput { text, failed: code != 0 })
}

/// It puts the failure of a model call where the answer should be.
fn is_error_text(text: &str) -> bool {
    let failed_status = text.strip_prefix("HTTP ").is_some_and(|rest| {
        let (status, tail) = rest.split_at(rest.len().min(3));
        status.parse::<u16>().is_ok_and(|s| (400..600).contains(&s)) && tail.starts_with(':')
    });
    failed_status
        || text.starts_with("API call failed after ")
        || text.starts_with("Context length exceeded (")
        || text.starts_with("⚠️ No reply: ")
}
