//! Qoder CLI (`qodercli --yolo --acp`). The binary of the China region is `qoderclicn`.

#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile};
use super::{Agent, no_check};
use crate::contract::BlockedFlag;
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::standalone;

const BLOCKED: &[BlockedFlag] = &[standalone("--acp"), standalone("acp"), standalone("--yolo")];

pub static AGENT: Agent = Agent {
    id: "qoder",
    name: PROFILE.name,
    executables: &["qodercli", "qoderclicn"],
    known_paths: &["~/.qoder/bin", "~/.local/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "qodercli --acp",
    capabilities: acp::CAPABILITIES,
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    head: &["--yolo", "--acp"],
    blocked: BLOCKED,
    login_hint: "log in with `qodercli` and its /login command",
    ..AcpProfile::new("qoder")
};
