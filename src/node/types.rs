//! The public types that live in Rust: `index.d.ts` is generated from them with their doc comments.

// The structs exist for their declarations; values cross in other forms (see `options` and `encode`).
#![allow(dead_code)]

use std::collections::HashMap;

use napi_derive::napi;
use serde::Serialize;

use crate::contract::AgentplugError;

/// How {@link execute} runs a CLI. Every provider accepts all of them; what a CLI cannot use is ignored, and
/// `capabilities(provider)` says which.
#[napi(object, object_to_js = false)]
pub struct ExecuteOptions {
    /// The CLI's working directory, which for most CLIs is the project it works on. A relative path counts from
    /// the host's own. A folder inside an `.asar` archive is refused.
    /// @default the host's working directory
    pub cwd: Option<String>,
    /// The model, in the CLI's own spelling.
    /// @default the CLI's own choice
    pub model: Option<String>,
    /// Instructions added to the CLI's own system prompt.
    pub system_prompt: Option<String>,
    /// A title for the session, where the CLI keeps one.
    pub thread_name: Option<String>,
    /// At most this many turns of the agent. 0 = no limit.
    /// @default the CLI's own limit
    pub max_turns: Option<f64>,
    /// The `sessionId` of an earlier Result: the conversation goes on. Use the same `cwd` as then.
    pub resume_session_id: Option<String>,
    /// The caller counts on the resumed history: when the CLI starts afresh instead, the prompt is preceded by
    /// `resumeContinuityNotice`.
    /// @default false
    pub resume_expected: Option<bool>,
    /// What to tell the model when a history it was expected to have is gone.
    pub resume_continuity_notice: Option<String>,
    /// Arguments for the CLI that a host sets for everybody. Flags that agentplug sets itself are left out.
    pub extra_args: Option<Vec<String>>,
    /// Arguments for the CLI that come after `extraArgs`. Flags that agentplug sets itself are left out.
    pub custom_args: Option<Vec<String>>,
    /// MCP servers for this run, as `{"mcpServers": {…}}` or its JSON text. `null` or absent: the CLI uses the
    /// user's own. An object, even an empty one: these servers (see `capabilities` for exclusive or merged).
    /// Never passed as an argument, since it may hold secrets.
    #[napi(ts_type = "object | string | null")]
    pub mcp_config: Option<String>,
    /// How hard the model thinks, in the CLI's own words (`low`, `high`, …).
    pub thinking_level: Option<String>,
    /// The service tier, where the CLI has one.
    pub service_tier: Option<String>,
    /// How openclaw runs a turn. `exec`: in a state folder of its own that goes away, independent of other runs;
    /// cannot be resumed. `local`: on the user's state, one run at a time. `gateway`: by a gateway that runs
    /// already. Absent: as a coding turn on the user's state where the version can, else `local`.
    #[napi(ts_type = "'exec' | 'local' | 'gateway'")]
    pub openclaw_mode: Option<String>,
    /// A settings file for claude.
    pub claude_settings_path: Option<String>,
    /// The CLI's executable, absolute.
    /// @default looked up on PATH, on the login shell's PATH, then in the CLI's known install folders
    pub executable_path: Option<String>,
    /// Arguments between the executable and everything else, for a wrapper command.
    pub launch_prefix: Option<Vec<String>>,
    /// Entries added to the inherited environment; they win. Session markers of other CLIs and Node debugging
    /// variables are not inherited.
    #[napi(ts_type = "Readonly<Record<string, string | undefined>>")]
    pub env: Option<HashMap<String, String>>,
    /// Stops the run when it is aborted. Already aborted: nothing is started, and the Result is `aborted`.
    #[napi(ts_type = "AbortSignal")]
    pub signal: Option<String>,
    /// Wall-clock limit of the whole run, in ms. 0 = none.
    /// @default 0
    pub timeout_ms: Option<f64>,
    /// Limit of silence, in ms: no Message other than a log. While a tool runs, `toolTimeoutMs` counts instead.
    /// 0 = none.
    /// @default 1800000 (opencode: 600000)
    pub idle_timeout_ms: Option<f64>,
    /// Limit of silence while a tool call is open, in ms. 0 = none.
    /// @default 7200000
    pub tool_timeout_ms: Option<f64>,
    /// codex: limit of time without anything that moves the turn on, in ms. 0 = the default.
    /// @default 600000
    pub semantic_inactivity_timeout_ms: Option<f64>,
    /// codex: limit of time without progress in the first turn, in ms. 0 = the default.
    /// @default 60000
    pub first_turn_timeout_ms: Option<f64>,
    /// Limit of each start-up request of a protocol, in ms. 0 = the default.
    /// @default 60000
    pub handshake_timeout_ms: Option<f64>,
    /// Time between the polite stop and the forced one, in ms.
    /// @default 5000
    pub cancel_grace_ms: Option<f64>,
    /// How much of unread Messages is kept while nobody reads, in bytes.
    /// @default 67108864
    pub message_buffer_bytes: Option<f64>,
}

/// How a run ended. `completed`: the CLI's own terminal event said so. `failed`. `timeout`: one of the limits.
/// `aborted`: the caller stopped it. `cancelled`: the agent itself says that the turn was cancelled.
#[napi(string_enum = "lowercase")]
pub enum RunStatus {
    Completed,
    Failed,
    Timeout,
    Aborted,
    Cancelled,
}

/// The single outcome of a run.
#[napi(object, js_name = "Result", object_from_js = false)]
pub struct RunResult {
    pub status: RunStatus,
    /// The final answer. Empty unless completed; a completed run without text has an empty one too.
    pub output: String,
    /// The last answer text of a run that did not complete.
    pub partial_output: Option<String>,
    /// What went wrong, in words, with the end of the CLI's stderr where that helps. Secrets are redacted.
    pub error: Option<String>,
    /// What went wrong, as data. Absent when completed, aborted or cancelled.
    pub failure: Option<Failure>,
    /// From the call to the end, in ms.
    pub duration_ms: f64,
    /// For `resumeSessionId`. Absent when the session cannot be resumed.
    pub session_id: Option<String>,
    /// Tokens of this run by model. Absent = the CLI did not tell.
    #[napi(ts_type = "Record<string, ModelUsage>")]
    pub usage: Option<HashMap<String, ModelUsage>>,
    /// true: the CLI itself refused to resume. false: checked, not so. Absent: this CLI cannot tell.
    pub resume_rejected: Option<bool>,
}

/// What kind of failure it was.
#[napi(string_enum = "kebab-case")]
pub enum FailureKind {
    Auth,
    RateLimit,
    Quota,
    Overloaded,
    ContextOverflow,
    ModelNotFound,
    InvalidRequest,
    Network,
    Provider,
    ResumeRejected,
    Timeout,
    Crash,
    Protocol,
    Permission,
    Unknown,
}

/// The limit that ended a run.
#[napi(string_enum = "kebab-case")]
pub enum LimitKind {
    Run,
    Idle,
    Tool,
    Handshake,
    SemanticInactivity,
    FirstTurn,
}

/// Why a run failed or timed out, as data.
#[napi(object, object_from_js = false)]
pub struct Failure {
    pub kind: FailureKind,
    /// The same call may succeed later without a change.
    pub retryable: bool,
    /// When a rate or usage limit ends, in ms since the epoch.
    pub reset_at: Option<f64>,
    /// What to do or where to look.
    pub hint: Option<String>,
    /// The CLI's exit code, where it was not 0.
    pub exit_code: Option<f64>,
    /// The signal that ended the CLI (`SIGSEGV`), where agentplug did not send it.
    pub signal: Option<String>,
    pub limit: Option<LimitKind>,
}

/// Token counts of one model in one run. Absent = the CLI did not tell.
#[napi(object, object_from_js = false)]
pub struct ModelUsage {
    /// Without cache reads and writes.
    pub input_tokens: Option<f64>,
    /// With reasoning.
    pub output_tokens: Option<f64>,
    pub cache_read_tokens: Option<f64>,
    pub cache_write_tokens: Option<f64>,
    /// What the CLI itself says it cost, in units of 1e-10 USD.
    pub cost_usd_ticks: Option<f64>,
}

/// What a managed `mcpConfig` does: ignored, the only servers of the run, or added to the user's own.
#[napi(string_enum = "kebab-case")]
pub enum McpSupport {
    None,
    Exclusive,
    Merged,
}

/// How the prompt reaches the CLI. `argument` is subject to the system's command-line limits.
#[napi(string_enum = "kebab-case")]
pub enum PromptVia {
    Stdin,
    Argument,
    Protocol,
}

/// Which options a provider uses and what its CLI tells.
#[napi(object, object_from_js = false)]
pub struct Capabilities {
    pub model: bool,
    pub system_prompt: bool,
    pub thread_name: bool,
    pub max_turns: bool,
    pub resume: bool,
    /// `resumeRejected` can be true or false; else it is always absent.
    pub resume_rejection: bool,
    pub extra_args: bool,
    pub custom_args: bool,
    pub mcp_config: McpSupport,
    pub thinking_level: bool,
    pub service_tier: bool,
    /// Text arrives while the model writes it, not block by block.
    pub streaming: bool,
    /// The CLI shows the model's reasoning.
    pub thinking: bool,
    pub usage: bool,
    /// The CLI states a cost.
    pub cost: bool,
    pub prompt_via: PromptVia,
}

/// Where an executable was found: as given, on PATH, on the login shell's PATH, or in a folder where the CLI's
/// installer puts it.
#[napi(string_enum = "kebab-case")]
pub enum FoundVia {
    ExecutablePath,
    Path,
    LoginShell,
    KnownPath,
}

/// What {@link detect} found out about one provider.
#[napi(object, object_from_js = false)]
pub struct Detection {
    #[napi(ts_type = "Provider")]
    pub provider: String,
    /// Whether an executable was found; it may still fail to tell its version.
    pub found: bool,
    /// The executable, absolute.
    pub path: Option<String>,
    pub via: Option<FoundVia>,
    /// `1.2.3`, or the first line the CLI printed where no such version is in it.
    pub version: Option<String>,
    /// Whether the version is at least the provider's minimum. Absent where no version could be read and there
    /// is a minimum.
    pub version_ok: Option<bool>,
    /// Why it was not found, cannot be started, did not tell its version, or is too old.
    pub error: Option<String>,
}

/// An error on its way to JavaScript, where it becomes an `AgentplugError`.
#[derive(Serialize)]
pub struct ErrorData {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
}

impl From<AgentplugError> for ErrorData {
    fn from(error: AgentplugError) -> Self {
        let AgentplugError { code, message, option } = error;
        ErrorData { code: code.as_str().to_owned(), message, option }
    }
}
