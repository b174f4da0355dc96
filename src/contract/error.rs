//! Errors of a call that started nothing. Once a CLI runs, everything is a Result.

use serde::Serialize;

/// Stable codes callers may switch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    UnknownProvider,
    InvalidOption,
    InvalidPrompt,
    InvalidCwd,
    InvalidMcpConfig,
    ExecutableNotFound,
    /// A Windows launcher script that cannot be started without a shell re-reading its arguments.
    UnsupportedLauncher,
    VersionTooOld,
    PromptTooLong,
    /// The CLI refuses these privileges (claude with bypassed permissions as root).
    PermissionDenied,
    SpawnFailed,
    Io,
    Unsupported,
    Internal,
}

impl ErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::UnknownProvider => "unknown-provider",
            ErrorCode::InvalidOption => "invalid-option",
            ErrorCode::InvalidPrompt => "invalid-prompt",
            ErrorCode::InvalidCwd => "invalid-cwd",
            ErrorCode::InvalidMcpConfig => "invalid-mcp-config",
            ErrorCode::ExecutableNotFound => "executable-not-found",
            ErrorCode::UnsupportedLauncher => "unsupported-launcher",
            ErrorCode::VersionTooOld => "version-too-old",
            ErrorCode::PromptTooLong => "prompt-too-long",
            ErrorCode::PermissionDenied => "permission-denied",
            ErrorCode::SpawnFailed => "spawn-failed",
            ErrorCode::Io => "io",
            ErrorCode::Unsupported => "unsupported",
            ErrorCode::Internal => "internal",
        }
    }
}

/// What is wrong with the call, where, and what to do. Never holds the environment, a prompt or a secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct AgentplugError {
    pub code: ErrorCode,
    pub message: String,
    /// The option at fault, where one is.
    pub option: Option<String>,
}

impl AgentplugError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        AgentplugError { code, message: message.into(), option: None }
    }
    pub fn option(name: &str, message: impl Into<String>) -> Self {
        AgentplugError {
            code: ErrorCode::InvalidOption,
            message: message.into(),
            option: Some(name.to_owned()),
        }
    }
    pub fn about(mut self, option: &str) -> Self {
        self.option = Some(option.to_owned());
        self
    }
}
