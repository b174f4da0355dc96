//! The seven kinds of live event.

use serde::{Deserialize, Serialize};

/// JSON text exactly as the CLI wrote it. Kept raw so that number spelling and deep nesting survive;
/// JavaScript parses it at the edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawJson(pub String);

/// One event of a run. What a CLI does not tell stays `None`; nothing is invented.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Text {
        content: String,
        parent_call_id: Option<String>,
    },
    Thinking {
        content: String,
        parent_call_id: Option<String>,
    },
    ToolUse {
        tool: String,
        call_id: String,
        input: Option<RawJson>,
        parent_call_id: Option<String>,
    },
    ToolResult {
        call_id: String,
        tool: Option<String>,
        output: String,
        is_error: Option<bool>,
        parent_call_id: Option<String>,
    },
    Status {
        status: &'static str,
        session_id: Option<String>,
    },
    Error {
        content: String,
    },
    Log {
        level: String,
        content: String,
    },
}

/// The only status the CLIs give today.
pub const RUNNING: &str = "running";

impl Message {
    pub fn text(content: impl Into<String>) -> Self {
        Message::Text { content: content.into(), parent_call_id: None }
    }
    pub fn thinking(content: impl Into<String>) -> Self {
        Message::Thinking { content: content.into(), parent_call_id: None }
    }
    pub fn tool_use(tool: impl Into<String>, call_id: impl Into<String>, input: Option<RawJson>) -> Self {
        Message::ToolUse { tool: tool.into(), call_id: call_id.into(), input, parent_call_id: None }
    }
    pub fn tool_result(call_id: impl Into<String>, output: impl Into<String>) -> Self {
        Message::ToolResult {
            call_id: call_id.into(),
            tool: None,
            output: output.into(),
            is_error: None,
            parent_call_id: None,
        }
    }
    pub fn running(session_id: Option<String>) -> Self {
        Message::Status { status: RUNNING, session_id }
    }
    pub fn error(content: impl Into<String>) -> Self {
        Message::Error { content: content.into() }
    }
    pub fn log(level: impl Into<String>, content: impl Into<String>) -> Self {
        Message::Log { level: level.into(), content: content.into() }
    }

    /// The same message as coming from the sub-agent that the tool call `id` started.
    pub fn with_parent(mut self, id: Option<String>) -> Self {
        match &mut self {
            Message::Text { parent_call_id, .. }
            | Message::Thinking { parent_call_id, .. }
            | Message::ToolUse { parent_call_id, .. }
            | Message::ToolResult { parent_call_id, .. } => *parent_call_id = id,
            Message::Status { .. } | Message::Error { .. } | Message::Log { .. } => {}
        }
        self
    }

    /// Bytes this message counts for in the queue: its strings plus a fixed share for the rest.
    pub fn weight(&self) -> usize {
        const OVERHEAD: usize = 64;
        let opt = |s: &Option<String>| s.as_ref().map_or(0, String::len);
        OVERHEAD
            + match self {
                Message::Text { content, parent_call_id } | Message::Thinking { content, parent_call_id } => {
                    content.len() + opt(parent_call_id)
                }
                Message::ToolUse { tool, call_id, input, parent_call_id } => {
                    tool.len() + call_id.len() + input.as_ref().map_or(0, |i| i.0.len()) + opt(parent_call_id)
                }
                Message::ToolResult { call_id, tool, output, parent_call_id, .. } => {
                    call_id.len() + opt(tool) + output.len() + opt(parent_call_id)
                }
                Message::Status { session_id, .. } => opt(session_id),
                Message::Error { content } => content.len(),
                Message::Log { level, content } => level.len() + content.len(),
            }
    }
}
