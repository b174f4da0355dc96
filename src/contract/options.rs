//! The options of one run, after their types were checked at the edge.

use std::path::PathBuf;
use std::time::Duration;

use super::error::{AgentplugError, ErrorCode};
use super::limits;

/// A managed MCP set: JSON text of an object. Absent = the CLI uses the user's own servers.
#[derive(Clone, PartialEq, Eq)]
pub struct McpConfig(String);

impl McpConfig {
    /// `None` for blank text and JSON `null` (inherit); an error for anything that is no JSON object.
    pub fn parse(text: &str) -> Result<Option<McpConfig>, AgentplugError> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed == "null" {
            return Ok(None);
        }
        match serde_json::from_str::<serde_json::Value>(trimmed) {
            Ok(serde_json::Value::Object(_)) => Ok(Some(McpConfig(text.to_owned()))),
            Ok(other) => Err(Self::invalid(&format!("it is {}, not an object", json_type(&other)))),
            // serde_json's message holds a position, never the text itself.
            Err(e) => Err(Self::invalid(&format!("it is not JSON ({e})"))),
        }
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    fn invalid(what: &str) -> AgentplugError {
        AgentplugError::new(
            ErrorCode::InvalidMcpConfig,
            format!("option mcpConfig cannot be used: {what}; pass an object like {{\"mcpServers\": {{…}}}}"),
        )
        .about("mcpConfig")
    }
}

/// Never prints the text: it may hold headers and environment values.
impl std::fmt::Debug for McpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpConfig({} bytes)", self.0.len())
    }
}

pub fn json_type(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a string",
        serde_json::Value::Array(_) => "an array",
        serde_json::Value::Object(_) => "an object",
    }
}

/// Environment entries in order; a later one of the same name wins. Debug prints names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvList(pub Vec<(String, String)>);

impl std::fmt::Debug for EnvList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// `None` in a limit = no such limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    pub timeout: Option<Duration>,
    /// `None` = the provider's own default.
    pub idle: Option<Duration>,
    /// Zero = no limit while a tool runs.
    pub tool: Duration,
    pub semantic_inactivity: Option<Duration>,
    pub first_turn: Option<Duration>,
    pub handshake: Option<Duration>,
    pub cancel_grace: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        RunLimits {
            timeout: None,
            idle: None,
            tool: limits::TOOL_TIMEOUT,
            semantic_inactivity: None,
            first_turn: None,
            handshake: None,
            cancel_grace: limits::CANCEL_GRACE,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ExecuteOptions {
    /// Absolute; the host's working directory unless the caller named one.
    pub cwd: PathBuf,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub thread_name: Option<String>,
    pub max_turns: Option<u32>,
    pub resume_session_id: Option<String>,
    pub resume_expected: bool,
    pub resume_continuity_notice: Option<String>,
    pub extra_args: Vec<String>,
    pub custom_args: Vec<String>,
    pub mcp_config: Option<McpConfig>,
    /// Why the given MCP configuration cannot be used; the run ends with it before anything starts.
    pub mcp_error: Option<AgentplugError>,
    pub thinking_level: Option<String>,
    pub service_tier: Option<String>,
    pub openclaw_mode: Option<String>,
    pub claude_settings_path: Option<String>,
    pub executable_path: Option<PathBuf>,
    pub launch_prefix: Vec<String>,
    /// The caller's entries: they win over what is inherited and are never filtered.
    pub env: EnvList,
    /// The host's environment at the time of the call.
    pub host_env: EnvList,
    pub limits: RunLimits,
    pub message_buffer_bytes: usize,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        ExecuteOptions {
            cwd: PathBuf::new(),
            model: None,
            system_prompt: None,
            thread_name: None,
            max_turns: None,
            resume_session_id: None,
            resume_expected: false,
            resume_continuity_notice: None,
            extra_args: Vec::new(),
            custom_args: Vec::new(),
            mcp_config: None,
            mcp_error: None,
            thinking_level: None,
            service_tier: None,
            openclaw_mode: None,
            claude_settings_path: None,
            executable_path: None,
            launch_prefix: Vec::new(),
            env: EnvList::default(),
            host_env: EnvList::default(),
            limits: RunLimits::default(),
            message_buffer_bytes: limits::MESSAGE_BUFFER_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_config_has_three_states() {
        for inherit in ["", "  ", "null", " null\n"] {
            assert_eq!(McpConfig::parse(inherit), Ok(None));
        }
        for managed in ["{}", r#"{"mcpServers":{}}"#] {
            assert_eq!(McpConfig::parse(managed).unwrap().unwrap().text(), managed);
        }
        for (bad, says) in [("[1]", "an array"), ("{x", "not JSON"), ("\"secret\"", "a string")] {
            let e = McpConfig::parse(bad).unwrap_err();
            assert_eq!(e.code, ErrorCode::InvalidMcpConfig);
            assert!(e.message.contains(says), "{}", e.message);
            assert!(!e.message.contains("secret"));
        }
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let mut o =
            ExecuteOptions { env: EnvList(vec![("KEY".into(), "s3cret".into())]), ..Default::default() };
        o.mcp_config = McpConfig::parse(r#"{"a":"s3cret"}"#).unwrap();
        assert!(!format!("{o:?}").contains("s3cret"));
    }
}
