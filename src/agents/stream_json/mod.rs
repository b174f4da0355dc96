//! What the CLIs that speak stream-json share. One line per event: `system`, `assistant`, `user`, `result`, and
//! `stream_event` in partial mode. Each CLI's own folder decides on the rest.

pub mod answer;
pub mod control;
pub mod ending;
pub mod failure;
pub mod frame;
pub mod mcp;
pub mod partial;
pub mod prompt;
pub mod reset;
pub mod resume;
pub mod session_file;
#[cfg(test)]
pub mod testing;
pub mod tool_result;
pub mod transcript;
pub mod usage;
