//! The caller's own arguments, minus the flags an agent sets itself.

use crate::contract::BlockedFlag;
use crate::process::args;

/// What stays of `extraArgs` or `customArgs`. A dropped flag is logged by name, never with its value.
pub fn filter(list: &[String], blocked: &[BlockedFlag]) -> Vec<String> {
    logged(args::filter(list, blocked))
}

/// What stays of `launchPrefix`.
pub fn filter_prefix(list: &[String], blocked: &[BlockedFlag]) -> Vec<String> {
    logged(args::filter_prefix(list, blocked))
}

fn logged(filtered: args::Filtered) -> Vec<String> {
    for flag in &filtered.dropped {
        tracing::warn!(flag, "dropped an argument that the library sets itself");
    }
    filtered.kept
}
