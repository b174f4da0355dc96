//! The log that Kimi keeps of a session: one JSON record a line, per agent that worked in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agents::acp::{AfterExit, Fields};
use crate::contract::limits::MAX_LINE_BYTES;
use crate::contract::{ModelUsage, Usage};
use crate::process::env::ChildEnv;

/// What the log says about one turn.
#[derive(Debug, Default, PartialEq)]
pub struct TurnLog {
    pub usage: Usage,
    /// Why the main agent's turn ended, should it have failed.
    pub error: Option<TurnError>,
}

#[derive(Debug, PartialEq)]
pub struct TurnError {
    pub code: String,
    pub message: String,
    pub status: Option<u16>,
}

/// The folder of all sessions: of the configured home, else of the user's own.
fn root(env: &ChildEnv) -> Option<PathBuf> {
    let configured = env.get("KIMI_CODE_HOME").map(str::trim).filter(|h| !h.is_empty()).map(PathBuf::from);
    let home = env.get("HOME").or_else(|| env.get("USERPROFILE"));
    let own = home.filter(|h| !h.is_empty()).map(|h| Path::new(h).join(".kimi-code"));
    [configured, own]
        .into_iter()
        .flatten()
        .map(|base| base.join("sessions"))
        .find(|sessions| sessions.is_dir())
}

/// An id becomes one folder name, so it must not be able to be more.
fn is_plain(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && !id.contains(['/', '\\', '\0'])
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Reads `<sessions>/<workspace>/<session>/agents/<agent>/wire.jsonl` of every workspace and agent: sub-agents
/// do billed work too.
pub fn read(exit: &AfterExit) -> TurnLog {
    let mut turn = TurnLog::default();
    let Some(root) = root(exit.env).filter(|_| is_plain(exit.session_id)) else { return turn };
    for workspace in folders(&root) {
        for agent in folders(&workspace.join(exit.session_id).join("agents")) {
            let is_main = agent.file_name().is_some_and(|name| name == "main");
            // A log that cannot be read tells nothing, like one that is not there.
            if let Ok(file) = File::open(agent.join("wire.jsonl"))
                && changed_since(&file, exit.started)
            {
                scan(BufReader::new(file), exit, is_main, &mut turn);
            }
        }
    }
    turn
}

/// File systems may keep whole seconds only.
fn changed_since(file: &File, start: SystemTime) -> bool {
    let seconds = |t: SystemTime| t.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    file.metadata().and_then(|m| m.modified()).is_ok_and(|at| seconds(at) >= seconds(start))
}

fn scan(mut log: impl BufRead, exit: &AfterExit, is_main: bool, turn: &mut TurnLog) {
    let start_ms = exit.started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    let mut by_model: BTreeMap<String, ModelUsage> = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match log.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        // Most records are model requests and content; only two kinds matter here.
        let text = String::from_utf8_lossy(&line);
        if !text.contains("\"usage.record\"") && !text.contains("\"turn.ended\"") {
            continue;
        }
        let Some(record) = Fields::read(text.trim()) else { continue };
        let time = record.parse::<u128>("time").filter(|t| *t > 0);
        // A resumed session goes on in the same file: what came before this run was counted by another.
        if time.map_or(exit.resumed, |t| t < start_ms) {
            continue;
        }
        match record.text("type").as_deref() {
            Some("usage.record") => {
                let Some(counts) = record.object("usage") else { continue };
                let count = |name: &str| counts.parse::<u64>(name);
                let model = record.word(&["model"]).unwrap_or_else(|| exit.model.to_owned());
                by_model.entry(model).or_default().add(&ModelUsage {
                    input_tokens: count("inputOther"),
                    output_tokens: count("output"),
                    cache_read_tokens: count("inputCacheRead"),
                    cache_write_tokens: count("inputCacheCreation"),
                    cost_usd_ticks: None,
                });
            }
            Some("turn.ended") if is_main => turn.error = turn_error(&record),
            _ => {}
        }
    }
    // A call that was cancelled is recorded with nothing in it.
    for (model, usage) in by_model.into_iter().filter(|(_, usage)| !usage.is_zero()) {
        turn.usage.entry(model).or_default().add(&usage);
    }
}

fn turn_error(record: &Fields) -> Option<TurnError> {
    if record.text("reason")? != "failed" {
        return None;
    }
    let error = record.object("error").unwrap_or_default();
    let mut message = error.word(&["message"]).or_else(|| error.word(&["code"]));
    if let (Some(message), Some(cause)) =
        (&mut message, error.object("cause").and_then(|c| c.word(&["message"])))
    {
        message.push_str(&format!(" ({cause})"));
    }
    Some(TurnError {
        code: error.text("code").unwrap_or_default(),
        message: message.unwrap_or_else(|| "the turn failed, no reason given".to_owned()),
        status: error.object("details").and_then(|d| d.parse("statusCode")),
    })
}
