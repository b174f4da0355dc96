//! The totals a session had before this run. Newer versions keep counting over a resumed session and save the
//! counts as a `cost-state` line in the session file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Baseline;
use crate::agents::stream_json::frame::{Str, decode};
use crate::agents::stream_json::usage::model_usage;
use crate::contract::{Os, Usage};
use crate::process::env::ChildEnv;

/// The line is among the last ones; single lines before it reach 100 KB.
const TAIL_BYTES: u64 = 1024 * 1024;

pub async fn read(env: &ChildEnv, os: Os, session_id: &str) -> Baseline {
    let Some(root) = config_folder(env, os).filter(|_| is_file_name(session_id)) else {
        return Baseline::Unknown;
    };
    let file = format!("{session_id}.jsonl");
    let found = tokio::task::spawn_blocking(move || {
        newest(&root.join("projects"), &file).and_then(|path| tail(&path).ok())
    });
    match found.await {
        Ok(Some((text, whole))) => of_text(&text, whole),
        _ => Baseline::Unknown,
    }
}

fn config_folder(env: &ChildEnv, os: Os) -> Option<PathBuf> {
    let filled = |name| env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = if os == Os::Windows { "USERPROFILE" } else { "HOME" };
    filled("CLAUDE_CONFIG_DIR").or_else(|| Some(filled(home)?.join(".claude")))
}

/// A session id comes from the caller: it must not lead out of the folder.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && !id.contains(['/', '\\', ':', '\0']) && id != "." && id != ".."
}

/// The CLI files sessions by working directory; a moved project leaves an older copy behind.
fn newest(projects: &Path, file: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(projects).ok()?.flatten();
    let candidates = folders.filter_map(|folder| {
        let path = folder.path().join(file);
        Some((path.metadata().ok()?.modified().ok()?, path))
    });
    candidates.max().map(|(_, path)| path)
}

/// The last lines, and whether they are all there are.
fn tail(path: &Path) -> std::io::Result<(String, bool)> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), start == 0))
}

fn of_text(text: &str, whole: bool) -> Baseline {
    let states = text.lines().rev().filter(|line| line.contains(r#""cost-state""#)).find_map(cost_state);
    match states {
        Some(usage) => Baseline::Known(usage),
        None if whole => Baseline::Absent,
        None => Baseline::Unknown,
    }
}

fn cost_state(line: &str) -> Option<Usage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CostState<'a> {
        #[serde(rename = "type", borrow)]
        kind: Str<'a>,
        #[serde(borrow)]
        model_usage: &'a RawValue,
    }
    let state = decode::<CostState>(line).filter(|s| &*s.kind == "cost-state")?;
    Some(model_usage(state.model_usage.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ModelUsage;
    use crate::contract::options::EnvList;

    const STATE: &str = r#"{"type":"cost-state","sessionId":"s","modelUsage":{"m":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4}}}"#;

    fn known() -> Baseline {
        Baseline::Known(Usage::from([("m".into(), ModelUsage::tokens(1, 2, 3, 4))]))
    }
    fn env(pairs: &[(&str, &str)]) -> ChildEnv {
        let list = pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        ChildEnv::new(&EnvList(list), &EnvList::default(), Os::Linux)
    }

    #[test]
    fn the_last_cost_state_counts() {
        let older = STATE.replace("\"inputTokens\":1", "\"inputTokens\":9");
        let quoted = r#"{"type":"user","text":"the \"cost-state\" line"}"#;
        let text = format!("{older}\n{STATE}\n{quoted}\n{{\"type\":\"cost-state\"\n");
        assert_eq!(of_text(&text, true), known());
        assert_eq!(of_text("{}\n", true), Baseline::Absent);
        assert_eq!(of_text("{}\n", false), Baseline::Unknown);
    }

    #[test]
    fn session_ids_stay_in_the_folder() {
        for (id, fine) in [
            ("a-1", true),
            ("..", false),
            (".", false),
            ("a/b", false),
            ("a\\b", false),
            ("c:d", false),
            ("", false),
        ] {
            assert_eq!(is_file_name(id), fine, "{id}");
        }
    }

    #[tokio::test]
    async fn the_newest_file_of_the_session_is_read() {
        let home = tempfile::tempdir().unwrap();
        let put = |folder: &str, text: &str, age: u64| {
            let folder = home.path().join(".claude/projects").join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let path = folder.join("s.jsonl");
            std::fs::write(&path, text).unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        put("old", "{}\n", 100);
        put("new", &format!("{}\n{STATE}\n", "x".repeat(2 * TAIL_BYTES as usize)), 1);
        let home = home.path().to_str().unwrap();
        assert_eq!(read(&env(&[("HOME", home)]), Os::Linux, "s").await, known());
        let elsewhere = format!("{home}/.claude");
        let moved = env(&[("HOME", "/nowhere"), ("CLAUDE_CONFIG_DIR", &elsewhere)]);
        assert_eq!(read(&moved, Os::Linux, "s").await, known());
        assert_eq!(read(&env(&[("HOME", home)]), Os::Linux, "other").await, Baseline::Unknown);
        assert_eq!(read(&env(&[]), Os::Linux, "s").await, Baseline::Unknown);
    }
}
