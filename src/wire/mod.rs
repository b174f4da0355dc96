//! Framing: lines and JSON. Knows no process and no CLI.

pub mod json;
pub mod lines;
