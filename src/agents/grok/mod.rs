//! Grok Build CLI (`grok agent stdio`).

#[cfg(test)]
mod tests;

use super::acp::{
    self, AcpProfile, Effort, Fields, Hooks, Record, Resume, ToolOutput, ToolRules, auth_methods,
};
use super::{Agent, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{optional, standalone, value};
use crate::contract::{BlockedFlag, Capabilities, Message, Usage};
use crate::process::env::ChildEnv;
use crate::wire::rpc::ErrorObject;

const BLOCKED: &[BlockedFlag] = &[
    standalone("agent"),
    standalone("stdio"),
    standalone("headless"),
    standalone("serve"),
    standalone("leader"),
    standalone("--always-approve"),
    standalone("--yolo"),
    standalone("--no-auto-update"),
    standalone("--no-alt-screen"),
    standalone("-p"),
    standalone("--print"),
    standalone("-c"),
    standalone("--continue"),
    standalone("--fork-session"),
    value("--single"),
    value("--output-format"),
    value("--permission-mode"),
    value("-m"),
    value("--model"),
    value("--reasoning-effort"),
    value("--effort"),
    value("-r"),
    value("--resume"),
    value("-s"),
    value("--session-id"),
    value("--system-prompt-override"),
    value("--cwd"),
    value("--ref"),
    optional("-w"),
    optional("--worktree"),
];

pub static AGENT: Agent = Agent {
    id: "grok",
    name: PROFILE.name,
    executables: &["grok"],
    known_paths: &["~/.grok/bin"],
    min_version: Some("0.2.89"),
    blocked: BLOCKED,
    launch_header: "grok agent stdio",
    capabilities: Capabilities { thinking_level: true, cost: true, ..acp::CAPABILITIES },
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    // Global flags come before `agent`, its own before `stdio`, and nothing after that.
    head: &["--no-auto-update", "agent", "--always-approve"],
    tail: &["stdio"],
    fallback_models: &["grok-4.5", "grok-composer-2.5-fast"],
    blocked: BLOCKED,
    resume: Resume::Load,
    effort: Effort::Argument("--effort"),
    tools: ToolRules {
        names: &[("run_terminal_command", "terminal"), ("search_replace", "edit_file")],
        output: Some(tool_output),
        ..ToolRules::new()
    },
    // Its session is on disk when the turn ends, and its way out takes two seconds.
    grace: None,
    login_phrases: &["authentication required"],
    login_hint: "set XAI_API_KEY or run `grok login`",
    hooks: Hooks {
        authenticate: Some(authenticate),
        resume_refused: Some(resume_refused),
        notification: Some(notification),
        usage_by_model: Some(usage_by_model),
        ..Hooks::NONE
    },
    ..AcpProfile::new("grok")
};

/// Session requests are refused without this step even when the user is logged in. `cached_token` is the login
/// of releases before 1.0; later ones name the method that is set up.
fn authenticate(initialize: &Fields, env: &ChildEnv) -> Result<String, String> {
    const KEY: &str = "xai.api_key";
    let offered = auth_methods(initialize);
    let takes = |id: &str| offered.iter().any(|o| o == id);
    let has_key = env.get("XAI_API_KEY").is_some_and(|key| !key.trim().is_empty());
    if has_key && takes(KEY) {
        return Ok(KEY.to_owned());
    }
    let set_up = initialize.object("_meta").and_then(|meta| meta.word(&["defaultAuthMethodId"]));
    let known = set_up
        .filter(|id| takes(id))
        .or_else(|| ["cached_token", "grok.com"].into_iter().find(|id| takes(id)).map(str::to_owned));
    known.ok_or_else(|| match offered.as_slice() {
        [] => "grok offers no way to authenticate: set XAI_API_KEY or run `grok login`".to_owned(),
        _ if takes(KEY) => "grok wants an API key: XAI_API_KEY is not set".to_owned(),
        _ => {
            let mut ids = offered.clone();
            ids.sort();
            format!("grok offers only unknown ways to authenticate: {}", ids.join(", "))
        }
    })
}

/// A session that is not on disk any more shows as a missing file.
fn resume_refused(error: &ErrorObject) -> bool {
    error.data.as_ref().and_then(|d| d.get("code")).and_then(|c| c.as_str()) == Some("FS_NOT_FOUND")
}

/// Shell results carry bytes, and the text the model gets: that one has the exit code in front.
fn tool_output(update: &Fields) -> Option<ToolOutput> {
    let raw = update.object("rawOutput")?;
    let code = raw.parse::<i64>("exit_code").unwrap_or(0);
    let for_model = raw.text("output_for_prompt").filter(|t| !t.is_empty());
    let bytes = raw.parse::<Vec<u8>>("output").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = match (code, bytes) {
        (0, Some(text)) => text,
        (_, bytes) => for_model.or(bytes)?,
    };
    Some(ToolOutput { text, failed: code != 0 })
}

/// It tries a failing model again up to 15 times and tells so beside the turn.
fn notification(method: &str, params: &str) -> Option<Message> {
    if method != "_x.ai/session_notification" {
        return None;
    }
    let update = Fields::read(params)?.object("update")?;
    if update.text("sessionUpdate")? != "retry_state" || update.text("type")? != "retrying" {
        return None;
    }
    let attempt = update.parse::<u64>("attempt")?;
    let reason = update.text("reason").unwrap_or_default();
    Some(Message::log("warn", format!("grok tries again (attempt {attempt}): {reason}")))
}

/// `_meta.usage` holds the whole turn, also by model; the counts beside it are those of the last call only.
fn usage_by_model(result: &Fields) -> Option<Usage> {
    let models = result.object_at(&["_meta", "usage", "modelUsage"])?;
    let counts = models.entries().filter_map(|(model, raw)| {
        let usage = Record::read(&Fields::read(raw)?).usage();
        (!usage.is_zero()).then(|| (model.to_owned(), usage))
    });
    Some(counts.collect())
}
