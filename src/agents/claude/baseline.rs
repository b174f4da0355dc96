//! The totals a session had before this run. Newer versions keep counting over a resumed session and save the
//! counts as a `cost-state` line in the session file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Baseline;
use crate::agents::stream_json::frame::{Str, decode};
use crate::agents::stream_json::session_file;
use crate::agents::stream_json::usage::model_usage;
use crate::contract::{Os, Usage};
use crate::process::env::ChildEnv;

/// The line is among the last ones; single lines before it reach 100 KB.
const TAIL_BYTES: u64 = 1024 * 1024;

pub async fn read(env: &ChildEnv, os: Os, session_id: &str) -> Baseline {
    let Some(root) = config_folder(env, os) else { return Baseline::Unknown };
    let session_id = session_id.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        session_file::find(&root.join("projects"), "", &session_id).and_then(|path| tail(&path).ok())
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

    #[tokio::test]
    async fn the_session_file_is_read_from_its_end() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/p");
        std::fs::create_dir_all(&project).unwrap();
        let padding = "x".repeat(2 * TAIL_BYTES as usize);
        std::fs::write(project.join("s.jsonl"), format!("{padding}\n{STATE}\n")).unwrap();
        let home = home.path().to_str().unwrap();
        assert_eq!(read(&env(&[("HOME", home)]), Os::Linux, "s").await, known());
        assert_eq!(read(&env(&[("USERPROFILE", home)]), Os::Windows, "s").await, known());
        let elsewhere = format!("{home}/.claude");
        let moved = env(&[("HOME", "/nowhere"), ("CLAUDE_CONFIG_DIR", &elsewhere)]);
        assert_eq!(read(&moved, Os::Linux, "s").await, known());
        assert_eq!(read(&env(&[("HOME", home)]), Os::Linux, "other").await, Baseline::Unknown);
        assert_eq!(read(&env(&[]), Os::Linux, "s").await, Baseline::Unknown);
    }
}
