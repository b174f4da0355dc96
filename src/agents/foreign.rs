//! Lines on stdout that are no frame of the protocol.

use super::{Line, Output};
use crate::contract::Message;

/// Longest foreign line passed on, in bytes; the rest is cut with a mark.
const MAX_FOREIGN_BYTES: usize = 4096;

/// A banner or warning becomes a `log` Message. A broken frame is only counted: it may hold the prompt or a
/// secret, so its content goes nowhere.
pub fn foreign(line: Line<'_>, out: &mut Output) {
    let text = line.text;
    if text.starts_with(['{', '[']) {
        let what = if line.terminated { "malformed" } else { "cut" };
        out.emit(Message::log("warn", format!("skipped a {what} frame of {} bytes on stdout", text.len())));
        return;
    }
    let mut end = text.len().min(MAX_FOREIGN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mark = if end < text.len() { "…" } else { "" };
    out.emit(Message::log("info", format!("{}{mark}", &text[..end])));
}
