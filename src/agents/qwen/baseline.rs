//! What a session had counted before this run. `usage` of the result line counts the whole session; its file
//! has a line for each answer of the model service, side requests included.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokio::sync::oneshot;

use crate::agents::stream_json::frame::{Count, Tokens, decode};
use crate::agents::stream_json::session_file;
use crate::agents::stream_json::usage::InputCount;
use crate::contract::{ModelUsage, Os};
use crate::process::env::ChildEnv;

/// Counts while the CLI starts and works: a long session takes a while to read.
pub fn count(env: &ChildEnv, os: Os, session_id: &str) -> Option<oneshot::Receiver<ModelUsage>> {
    let path = session_file::find(&runtime_folder(env, os)?.join("projects"), "chats", session_id)?;
    // The CLI appends to it from now on.
    let length = path.metadata().ok()?.len();
    let (send, receive) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        if let Ok(counts) = sum(&path, length) {
            // Nobody listens any more when the run is over already.
            let _ = send.send(counts);
        }
    });
    Some(receive)
}

fn runtime_folder(env: &ChildEnv, os: Os) -> Option<PathBuf> {
    let filled = |name| env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = if os == Os::Windows { "USERPROFILE" } else { "HOME" };
    filled("QWEN_RUNTIME_DIR").or_else(|| filled("QWEN_HOME")).or_else(|| Some(filled(home)?.join(".qwen")))
}

fn sum(path: &Path, length: u64) -> std::io::Result<ModelUsage> {
    let mut total = ModelUsage::default();
    let mut lines = BufReader::new(File::open(path)?.take(length));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if let Some(counts) = std::str::from_utf8(&line).ok().and_then(answer) {
            total.add(&counts);
        }
        line.clear();
    }
    Ok(total)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    system_payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    ui_event: Event,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event.name")]
    name: String,
    input_token_count: Option<Count>,
    output_token_count: Option<Count>,
    cached_content_token_count: Option<Count>,
}

fn answer(line: &str) -> Option<ModelUsage> {
    const NAME: &str = "qwen-code.api_response";
    if !line.contains(NAME) {
        return None;
    }
    let event = decode::<Line>(line)?.system_payload.ui_event;
    let tokens = Tokens {
        input_tokens: event.input_token_count,
        output_tokens: event.output_token_count,
        cache_read_input_tokens: event.cached_content_token_count,
        cache_creation_input_tokens: None,
    };
    (event.name == NAME).then(|| tokens.counts(InputCount::Inclusive))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::options::EnvList;

    fn env(pairs: &[(&str, &str)]) -> ChildEnv {
        let list = pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        ChildEnv::new(&EnvList(list), &EnvList::default(), Os::Linux)
    }

    const ANSWER: &str = r#"{"type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","model":"m","input_token_count":1234,"output_token_count":56,"cached_content_token_count":789,"thoughts_token_count":17}}}"#;

    #[tokio::test]
    async fn the_answers_before_this_run_are_summed() {
        let home = tempfile::tempdir().unwrap();
        let chats = home.path().join(".qwen/projects/p/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let quoted = r#"{"type":"user","text":"what is qwen-code.api_response?"}"#;
        let other = ANSWER.replace("api_response", "api_response_error");
        let text = format!("{quoted}\n{ANSWER}\n\n{other}\nnot json\n{ANSWER}\n");
        std::fs::write(chats.join("s.jsonl"), text).unwrap();
        let at = |pairs: &[(&str, &str)], os, id| count(&env(pairs), os, id);
        let root = home.path().to_str().unwrap();
        let (runtime, both) = (format!("{root}/.qwen"), ModelUsage::tokens(890, 112, 1578, 0));
        let both = ModelUsage { cache_write_tokens: None, ..both };
        for (pairs, os) in [
            (&[("HOME", root)][..], Os::Linux),
            (&[("USERPROFILE", root)], Os::Windows),
            (&[("HOME", "/nowhere"), ("QWEN_HOME", &runtime)], Os::MacOs),
            (&[("QWEN_HOME", "/nowhere"), ("QWEN_RUNTIME_DIR", &runtime)], Os::Linux),
        ] {
            assert_eq!(at(pairs, os, "s").expect("there is a file").await, Ok(both), "{pairs:?}");
        }
        assert!(at(&[("HOME", root)], Os::Linux, "other").is_none());
        assert!(at(&[], Os::Linux, "s").is_none());
    }

    #[test]
    fn what_came_later_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{ANSWER}\n{ANSWER}\n")).unwrap();
        let one = sum(file.path(), ANSWER.len() as u64 + 1).unwrap();
        assert_eq!((one.input_tokens, one.output_tokens), (Some(445), Some(56)));
    }
}
