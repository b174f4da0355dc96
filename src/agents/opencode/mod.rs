//! opencode (`opencode run --format json`): prompt on stdin, one JSON event per line on stdout.

mod args;
pub mod decoder;
mod event;
pub mod mcp;
#[cfg(test)]
mod tests;

use std::time::Duration;

use semver::Version;

use super::{Agent, BoxFuture, Launch, LaunchContext, native, no_check};
use crate::contract::limits::DRAIN_AFTER_EXIT;
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities};

pub use args::{BLOCKED, Dialect, build as run_args};
use decoder::{EventDecoder, Plan};

/// It prints nothing while it retries a failing model service, for as long as it takes.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

const CONFIG_VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";

/// Since this version `tokens.output` leaves the reasoning out.
const REASONING_APART: Version = Version::new(1, 3, 16);

pub static AGENT: Agent = Agent {
    id: "opencode",
    name: "opencode",
    executables: &["opencode"],
    known_paths: &["~/.opencode/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "opencode run (json)",
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
        let mut env = vec![("PWD".to_owned(), options.cwd.to_string_lossy().into_owned())];
        if let Some(config) = &options.mcp_config {
            let existing = ctx.env.get(CONFIG_VARIABLE);
            if let Some(content) = mcp::config_content(AGENT.name, CONFIG_VARIABLE, config, existing)? {
                env.push((CONFIG_VARIABLE.to_owned(), content));
            }
        }
        let help = ctx.prober.run(&["run", "--help"]).await;
        if let Err(e) = &help {
            tracing::warn!("opencode run --help failed, so the flags of an old version are used: {e}");
        }
        let args = run_args(options, Dialect::of(help.as_ref().ok()));
        let version = ctx.prober.cached_version();
        let decoder = EventDecoder::new(Plan {
            name: AGENT.name,
            stdin: Some(ctx.prompt.to_owned()),
            model: options.model.clone(),
            resume: options.resume_session_id.clone(),
            output_lacks_reasoning: version.is_some_and(|v| v.pre.is_empty() && v >= REASONING_APART),
        });
        let program =
            native::beside_launcher(ctx.os, ctx.program, native_candidates(std::env::consts::ARCH), |path| {
                path.is_file()
            });
        Ok(Launch { program, env, ..Launch::lines(args, decoder) })
    })
}

/// Where npm puts the binary of the platform package: nested, hoisted, or copied by the install script.
fn native_candidates(arch: &str) -> &'static [&'static str] {
    const X64: &[&str] = &[
        r"node_modules\opencode-ai\node_modules\opencode-windows-x64\bin\opencode.exe",
        r"node_modules\opencode-ai\node_modules\opencode-windows-x64-baseline\bin\opencode.exe",
        r"node_modules\opencode-ai\node_modules\opencode-windows-arm64\bin\opencode.exe",
        r"node_modules\opencode-windows-x64\bin\opencode.exe",
        r"node_modules\opencode-windows-x64-baseline\bin\opencode.exe",
        r"node_modules\opencode-windows-arm64\bin\opencode.exe",
        r"node_modules\opencode-ai\bin\opencode.exe",
    ];
    const ARM64: &[&str] = &[
        r"node_modules\opencode-ai\node_modules\opencode-windows-arm64\bin\opencode.exe",
        r"node_modules\opencode-ai\node_modules\opencode-windows-x64\bin\opencode.exe",
        r"node_modules\opencode-ai\node_modules\opencode-windows-x64-baseline\bin\opencode.exe",
        r"node_modules\opencode-windows-arm64\bin\opencode.exe",
        r"node_modules\opencode-windows-x64\bin\opencode.exe",
        r"node_modules\opencode-windows-x64-baseline\bin\opencode.exe",
        r"node_modules\opencode-ai\bin\opencode.exe",
    ];
    if arch == "aarch64" { ARM64 } else { X64 }
}
