//! Framing: lines, JSON and JSON-RPC. Knows no process and no CLI.

pub mod json;
pub mod lines;
pub mod rpc;
