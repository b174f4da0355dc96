//! Arguments of `codex app-server`.

use crate::agents::args;
use crate::contract::{BlockedFlag, ExecuteOptions};

/// The tier that stands for "Fast"; it hangs on a feature flag.
const FAST_TIER: &str = "priority";

pub fn build(options: &ExecuteOptions, blocked: &[BlockedFlag]) -> Vec<String> {
    let fast = options.service_tier.as_deref() == Some(FAST_TIER);
    let mut argv: Vec<String> = ["app-server", "--listen", "stdio://"].map(str::to_owned).into();
    for given in [&options.extra_args, &options.custom_args] {
        argv.extend(without_overrides(args::filter(given, blocked), options.mcp_config.is_some(), fast));
    }
    if fast {
        argv.extend(["--enable", "fast_mode"].map(str::to_owned));
    }
    argv
}

/// Drops `-c` overrides that would undo what we set ourselves: MCP servers while they are managed, and the
/// switches of the fast mode while it is asked for.
fn without_overrides(tokens: Vec<String>, managed_mcp: bool, fast: bool) -> Vec<String> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let (flag, inline) = match token.split_once('=') {
            Some((flag, value)) if !flag.is_empty() => (flag, Some(value)),
            _ => (token.as_str(), None),
        };
        let value = inline.or_else(|| tokens.peek().map(String::as_str));
        let ours = match (flag, value) {
            ("-c" | "--config", Some(value)) => {
                let path = key_path(value);
                (managed_mcp && path.first() == Some(&"mcp_servers"))
                    || (fast && path == ["features", "fast_mode"])
            }
            ("--disable", Some(feature)) => fast && feature.trim() == "fast_mode",
            _ => false,
        };
        if !ours {
            kept.push(token);
            continue;
        }
        tracing::debug!(flag, "dropped an override of what the library sets itself");
        if inline.is_none() {
            tokens.next();
        }
    }
    kept
}

/// `a."b" . c = value` -> a, b, c.
fn key_path(assignment: &str) -> Vec<&str> {
    let key = assignment.split_once('=').map_or(assignment, |(key, _)| key);
    key.split('.').map(|segment| segment.trim().trim_matches(['"', '\''])).collect()
}
