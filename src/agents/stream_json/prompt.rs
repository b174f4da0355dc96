//! The prompt as a frame for stdin.

use serde_json::json;

use crate::agents::Output;

/// stdin stays open behind it: the CLI asks for permissions there.
pub fn send(prompt: &str, out: &mut Output) {
    let content = json!([{"type": "text", "text": prompt}]);
    out.write_json(&json!({"type": "user", "message": {"role": "user", "content": content}}));
}
