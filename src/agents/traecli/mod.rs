//! TRAE CLI (`traecli acp serve`).

#[cfg(test)]
mod tests;

use super::acp::{self, AcpProfile, Resume};
use super::{Agent, no_check};
use crate::contract::BlockedFlag;
use crate::contract::limits::{DRAIN_AFTER_EXIT, IDLE_TIMEOUT};
use crate::contract::provider::{standalone, value};

const BLOCKED: &[BlockedFlag] = &[
    standalone("acp"),
    standalone("serve"),
    standalone("-y"),
    standalone("--yolo"),
    standalone("-p"),
    standalone("--print"),
    value("--output-format"),
    value("--permission-mode"),
];

pub static AGENT: Agent = Agent {
    id: "traecli",
    name: PROFILE.name,
    executables: &["traecli"],
    known_paths: &["~/.local/bin"],
    min_version: None,
    blocked: BLOCKED,
    launch_header: "traecli acp serve",
    capabilities: acp::CAPABILITIES,
    idle_timeout: IDLE_TIMEOUT,
    drain: DRAIN_AFTER_EXIT,
    check: no_check,
    launch: |ctx| Box::pin(async move { acp::launch(&AGENT, &PROFILE, ctx) }),
};

static PROFILE: AcpProfile = AcpProfile {
    // Without --yolo every tool but reading waits for a question.
    head: &["acp", "serve", "--yolo"],
    blocked: BLOCKED,
    resume: Resume::Load,
    login_hint: "log in with `traecli`",
    ..AcpProfile::new("traecli")
};
