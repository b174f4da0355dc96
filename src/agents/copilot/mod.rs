//! GitHub Copilot CLI (`copilot --output-format json`): prompt on stdin, dotted event names on stdout.

mod args;
mod decoder;
#[cfg(test)]
mod tests;
mod usage;

use serde_json::Value;
use uuid::Uuid;

use super::{Agent, BoxFuture, Launch, LaunchContext, native, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities, ErrorCode, McpConfig};

use args::{Features, Start};
use decoder::{CopilotDecoder, Plan};

pub static AGENT: Agent = Agent {
    id: "copilot",
    name: "copilot",
    executables: &["copilot"],
    known_paths: &["~/.local/bin"],
    min_version: Some("1.0.0"),
    blocked: args::BLOCKED,
    launch_header: "copilot (json)",
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
        streaming: true,
        thinking: true,
        usage: true,
        cost: false,
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
        let mut notes = Vec::new();
        let features = match ctx.prober.run(&["--help"]).await {
            Ok(help) => Features::of(&help),
            Err(e) => {
                tracing::warn!("copilot --help failed, so the flags of an old version are used: {e}");
                Features::default()
            }
        };
        let resume = options.resume_session_id.clone().filter(|id| !id.is_empty());
        let mut start = Start { reasoning_effort: features.reasoning_effort, ..Start::default() };
        if !features.prompt_on_stdin {
            start.prompt = Some(ctx.prompt.to_owned());
        }
        if features.session_id && resume.is_none() {
            start.session_id = Some(Uuid::new_v4().to_string());
        }
        let usage_file = if features.usage_file { Some(ctx.files.path("usage.json")?) } else { None };
        start.usage_file = usage_file.as_ref().map(|path| path.to_string_lossy().into_owned());
        if let Some(servers) = options.mcp_config.as_ref().map(mcp_servers).transpose()?.flatten() {
            if features.mcp_config {
                let path = ctx.files.write("mcp-config.json", servers.as_bytes())?;
                start.mcp_file = Some(path.to_string_lossy().into_owned());
            } else {
                notes.push(
                    "this version of copilot takes no MCP servers for one run; mcpConfig is ignored"
                        .to_owned(),
                );
            }
        }
        let before = match &resume {
            None => Some(usage::Counts::new()),
            Some(id) => match usage::session_events(ctx.env, ctx.os, id).filter(|_| features.usage_file) {
                None => None,
                Some(events) => {
                    tokio::task::spawn_blocking(move || usage::before(&events)).await.unwrap_or_default()
                }
            },
        };
        let decoder = CopilotDecoder::new(Plan {
            stdin: features.prompt_on_stdin.then(|| ctx.prompt.to_owned()),
            model: options.model.clone(),
            session_id: resume.clone().or_else(|| start.session_id.clone()),
            resumed: resume.is_some(),
            before,
            read_usage: Box::new(move || std::fs::read_to_string(usage_file?).ok()),
            notes,
        });
        let program =
            native::beside_launcher(ctx.os, ctx.program, native_candidates(std::env::consts::ARCH), |path| {
                path.is_file()
            });
        Ok(Launch { program, ..Launch::lines(args::build(options, &start), decoder) })
    })
}

/// The document for `--additional-mcp-config`, or `None` when it names no server. The CLI adds its servers to
/// the user's own.
fn mcp_servers(config: &McpConfig) -> Result<Option<String>, AgentplugError> {
    let refuse = |what: &str| {
        AgentplugError::new(ErrorCode::InvalidMcpConfig, format!("copilot mcp_config: {what}"))
            .about("mcpConfig")
    };
    let mut document: Value =
        serde_json::from_str(config.text()).map_err(|e| refuse(&format!("it is not JSON ({e})")))?;
    let servers = match document.get_mut("mcpServers") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(servers)) if servers.is_empty() => return Ok(None),
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(refuse("`mcpServers` must be an object")),
    };
    for entry in servers.values_mut().filter_map(Value::as_object_mut) {
        // Without a type an entry is taken for a local program.
        if entry.get("url").is_some_and(Value::is_string) && !entry.contains_key("type") {
            entry.insert("type".to_owned(), "http".into());
        }
    }
    Ok(Some(document.to_string()))
}

/// Where npm puts the platform package: nested, then hoisted.
fn native_candidates(arch: &str) -> &'static [&'static str] {
    const X64: &[&str] = &[
        r"node_modules\@github\copilot\node_modules\@github\copilot-win32-x64\copilot.exe",
        r"node_modules\@github\copilot-win32-x64\copilot.exe",
        r"node_modules\@github\copilot\node_modules\@github\copilot-win32-arm64\copilot.exe",
        r"node_modules\@github\copilot-win32-arm64\copilot.exe",
    ];
    const ARM64: &[&str] = &[
        r"node_modules\@github\copilot\node_modules\@github\copilot-win32-arm64\copilot.exe",
        r"node_modules\@github\copilot-win32-arm64\copilot.exe",
        r"node_modules\@github\copilot\node_modules\@github\copilot-win32-x64\copilot.exe",
        r"node_modules\@github\copilot-win32-x64\copilot.exe",
    ];
    if arch == "aarch64" { ARM64 } else { X64 }
}
