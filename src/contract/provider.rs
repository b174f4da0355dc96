//! The table every provider fills in: data only.

use serde::Serialize;

/// How a blocked flag takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagShape {
    /// The next token is its value, whatever it looks like.
    Value,
    Standalone,
    /// The next token is its value unless it starts with `-`.
    Optional,
}

/// A flag the library sets itself (or that would break the protocol): dropped from the caller's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedFlag {
    pub name: &'static str,
    pub shape: FlagShape,
}

pub const fn value(name: &'static str) -> BlockedFlag {
    BlockedFlag { name, shape: FlagShape::Value }
}
pub const fn standalone(name: &'static str) -> BlockedFlag {
    BlockedFlag { name, shape: FlagShape::Standalone }
}
pub const fn optional(name: &'static str) -> BlockedFlag {
    BlockedFlag { name, shape: FlagShape::Optional }
}

/// What a provider does with each option and what its CLI tells. `false` = accepted and ignored, or not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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
    pub thinking: bool,
    pub usage: bool,
    pub cost: bool,
    /// How the prompt reaches the CLI.
    pub prompt_via: PromptVia,
}

/// What a managed `mcpConfig` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpSupport {
    /// Ignored.
    None,
    /// The given servers are the only ones.
    Exclusive,
    /// The given servers are added to the user's own; on a name clash the given one wins.
    Merged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptVia {
    Stdin,
    Argument,
    Protocol,
}
