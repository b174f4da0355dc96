//! Google Antigravity CLI (`agy`): events on stdout where the version has them, else plain text.

mod args;
mod decoder;
mod log;
pub mod models;
#[cfg(test)]
mod tests;

use super::{Agent, BoxFuture, Launch, LaunchContext, no_check};
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT, PROBE_TIMEOUT};
use crate::contract::provider::{McpSupport, PromptVia};
use crate::contract::{AgentplugError, Capabilities};
use crate::process::probe::Probe;

use args::Form;
use decoder::{AgyDecoder, Plan};

pub static AGENT: Agent = Agent {
    id: "antigravity",
    name: "agy",
    executables: &["agy"],
    known_paths: &["~/.local/bin"],
    min_version: None,
    blocked: args::BLOCKED,
    launch_header: "agy -p (non-interactive)",
    capabilities: Capabilities {
        model: true,
        system_prompt: false,
        thread_name: false,
        max_turns: false,
        resume: true,
        resume_rejection: false,
        extra_args: true,
        custom_args: true,
        mcp_config: McpSupport::None,
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
    check: no_check,
    launch,
};

fn launch<'a>(ctx: &'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>> {
    Box::pin(async move {
        let options = ctx.options;
        if let Some(model) = options.model.as_deref().filter(|m| !m.is_empty()) {
            // A list that cannot be read proves nothing, and a remembered one may be another account's.
            let listed =
                |probe: Result<Probe, String>| probe.map(|p| models::parse(&p.stdout)).unwrap_or_default();
            if models::check(model, &listed(ctx.prober.run(&["models"]).await)).is_err() {
                models::check(model, &listed(ctx.prober.run_anew(&["models"], PROBE_TIMEOUT).await))?;
            }
        }
        let (help, version) = tokio::join!(ctx.prober.run(&["--help"]), ctx.prober.version());
        let help = help.map(|h| format!("{}\n{}", h.stdout, h.stderr));
        let form = Form::of(help.as_deref().ok(), version.as_ref().ok());
        let log_file = ctx.files.path("agy.log")?;
        let print_timeout = args::print_timeout(options.limits.timeout);
        let args = args::build(ctx.prompt, options, form, &log_file.to_string_lossy(), print_timeout);
        let decoder = AgyDecoder::new(Plan {
            form,
            prompt: ctx.prompt.to_owned(),
            model: options.model.clone(),
            resume: options.resume_session_id.clone().filter(|id| !id.is_empty()),
            log_file,
            print_timeout,
        });
        Ok(Launch::lines(args, decoder))
    })
}
