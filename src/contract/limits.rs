//! Every limit of the library in one table: name, default, meaning.

use std::time::Duration;

use serde::Serialize;

/// Which limit ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// `timeoutMs`: wall clock of the whole run.
    Run,
    /// `idleTimeoutMs`: no Message but logs for this long.
    Idle,
    /// `toolTimeoutMs`: like idle, while a tool call is open.
    Tool,
    /// `handshakeTimeoutMs`: each start-up request of a protocol.
    Handshake,
    /// `semanticInactivityTimeoutMs`
    SemanticInactivity,
    /// `firstTurnTimeoutMs`
    FirstTurn,
}

pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// From the polite stop to the forced one.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// How long a process may go on after its terminal event before its tree is stopped.
pub const AFTER_TERMINAL: Duration = Duration::from_secs(5);
/// The same for an agent that lives until its stdin ends.
pub const AFTER_DIALOGUE: Duration = Duration::from_secs(3);
/// How long a CLI without a terminal event may stay silent after its turn looked over.
pub const AFTER_SETTLED: Duration = Duration::from_secs(8);
/// After the exit of a CLI whose turn is over: what is in the pipe by then is read, and nothing more can come
/// but from somebody else who holds it.
pub const DRAIN_AFTER_END: Duration = Duration::from_millis(300);
/// How long pipes may stay open after the leader's exit before they are closed on our side.
pub const DRAIN_AFTER_EXIT: Duration = Duration::from_secs(10);
/// How long the protocol's own cancel may take before signals follow.
pub const PROTOCOL_CANCEL: Duration = Duration::from_secs(2);
/// Longest line of a CLI's stdout, in bytes.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;
/// stderr bytes kept for the error text.
pub const STDERR_TAIL_BYTES: usize = 2048;
/// Unread messages kept while nobody reads.
pub const MESSAGE_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// Above this the reading of stdout stops while a reader is attached …
pub const QUEUE_HIGH_BYTES: usize = 1024 * 1024;
/// … and below this it goes on.
pub const QUEUE_LOW_BYTES: usize = 512 * 1024;
/// Bound on one `--version` or `--help` probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes kept of each stream of a probe.
pub const PROBE_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// How long a probe's pipes may stay open after its exit.
pub const PROBE_DRAIN: Duration = Duration::from_secs(2);
/// Bound on asking the login shell for its PATH.
pub const LOGIN_SHELL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a login shell's answer is used again.
pub const LOGIN_SHELL_CACHE: Duration = Duration::from_secs(30 * 60);
