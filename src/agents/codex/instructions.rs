//! The system prompt of a resumed thread. codex takes `developerInstructions` when a thread begins and ignores
//! them when it is resumed (0.171.0), so one that the thread does not hold yet is put into its history.

use std::fs::File;
use std::io::Read;

use serde_json::{Value, json};

const CHUNK: usize = 1024 * 1024;

/// Whether the file of the thread holds these instructions; `None` when it cannot be read.
pub fn known(path: &str, instructions: &str) -> Option<bool> {
    let mut file = File::open(path).ok()?;
    // The file is JSON lines, written by the same serializer.
    let needle = serde_json::to_vec(instructions).ok()?;
    let mut seen: Vec<u8> = Vec::new();
    loop {
        let overlap = seen.len().saturating_sub(needle.len());
        seen.drain(..overlap);
        let read = (&mut file).take(CHUNK as u64).read_to_end(&mut seen).ok()?;
        if memchr::memmem::find(&seen, &needle).is_some() {
            return Some(true);
        }
        if read == 0 {
            return Some(false);
        }
    }
}

/// Parameters of `thread/inject_items`.
pub fn injection(thread: &str, instructions: &str) -> Value {
    let content = json!([{"type": "input_text", "text": instructions}]);
    json!({"threadId": thread, "items": [{"type": "message", "role": "developer", "content": content}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_instructions_across_the_edges_of_its_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rollout.jsonl");
        let path = path.to_str().unwrap();
        let text = "be \"brief\"\nand ä";
        for before in [0, 10, CHUNK - 8, CHUNK, 2 * CHUNK - 20] {
            let line = format!("{}{}\n", "x".repeat(before), json!({ "text": text }));
            std::fs::write(path, &line).unwrap();
            assert_eq!(known(path, text), Some(true), "{before}");
            assert_eq!(known(path, "be brief"), Some(false));
        }
        assert_eq!(known("/no/such/file", text), None);
    }
}
