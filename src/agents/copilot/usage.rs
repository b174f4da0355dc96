//! Token counts: the usage file of one run, and what a session had used before it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::contract::{ModelUsage, Os, Usage};
use crate::process::env::ChildEnv;

/// Counters as copilot writes them: the input includes what was cached, the output includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    cache_read_tokens: Option<f64>,
    cache_write_tokens: Option<f64>,
}

impl Counters {
    fn pairs<'a>(&'a mut self, other: &'a Counters) -> [(&'a mut Option<f64>, Option<f64>); 4] {
        [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
        ]
    }

    pub fn add(&mut self, other: &Counters) {
        for (mine, theirs) in self.pairs(other) {
            if let Some(n) = theirs {
                *mine = Some(mine.unwrap_or(0.0) + n);
            }
        }
    }

    fn subtract(&mut self, other: &Counters) {
        for (mine, theirs) in self.pairs(other) {
            if let Some(n) = mine {
                *n -= theirs.unwrap_or(0.0);
            }
        }
    }

    pub fn output(tokens: f64) -> Counters {
        Counters { output_tokens: Some(tokens), ..Counters::default() }
    }

    fn usage(&self) -> ModelUsage {
        let count = |n: Option<f64>| n.map(|n| n.max(0.0) as u64);
        let cached = self.cache_read_tokens.unwrap_or(0.0) + self.cache_write_tokens.unwrap_or(0.0);
        ModelUsage {
            input_tokens: count(self.input_tokens.map(|n| n - cached)),
            output_tokens: count(self.output_tokens),
            cache_read_tokens: count(self.cache_read_tokens),
            cache_write_tokens: count(self.cache_write_tokens),
            cost_usd_ticks: None,
        }
    }
}

/// model -> counters.
pub type Counts = BTreeMap<String, Counters>;

/// `None` when nothing was counted at all.
pub fn to_usage(counts: &Counts) -> Option<Usage> {
    let usage: Usage = counts
        .iter()
        .map(|(model, counters)| (model.clone(), counters.usage()))
        .filter(|(_, usage)| !usage.is_zero())
        .collect();
    (!usage.is_empty()).then_some(usage)
}

/// The `modelMetrics` object of a usage file or a shutdown event.
pub fn metrics(value: &Value, unnamed: &str) -> Option<Counts> {
    let models = value.get("modelMetrics")?.as_object()?;
    let counters = |v: &Value| Counters::deserialize(v.get("usage")?).ok();
    let named = |model: &String| if model.is_empty() { unnamed.to_owned() } else { model.clone() };
    Some(models.iter().filter_map(|(model, v)| Some((named(model), counters(v)?))).collect())
}

/// What a run used, from the usage file's text: the whole session's counts minus what it had `before`.
pub fn of_run(file: &str, before: &Counts, unnamed: &str) -> Option<Counts> {
    let mut counts = metrics(&serde_json::from_str(file).ok()?, unnamed)?;
    for (model, counters) in &mut counts {
        if let Some(before) = before.get(model) {
            counters.subtract(before);
        }
    }
    Some(counts)
}

/// Where a session keeps its events. `None` for an id that is no plain file name.
pub fn session_events(env: &ChildEnv, os: Os, session_id: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if session_id.is_empty() || !session_id.chars().all(plain) {
        return None;
    }
    let home = match env.get("COPILOT_HOME").filter(|h| !h.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => {
            let name = if os == Os::Windows { "USERPROFILE" } else { "HOME" };
            Path::new(env.get(name).filter(|h| !h.is_empty())?).join(".copilot")
        }
    };
    Some(home.join("session-state").join(session_id).join("events.jsonl"))
}

/// What the session had used so far: the last total it wrote plus the calls after it (a run that was killed
/// writes no total). `None` when that cannot be known.
pub fn before(events: &Path) -> Option<Counts> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
        data: Value,
    }
    let mut counts = Counts::new();
    let mut reader = BufReader::new(std::fs::File::open(events).ok()?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            return Some(counts);
        }
        let has = |text: &str| memchr::memmem::find(&line, text.as_bytes()).is_some();
        if !has("\"session.usage_record\"") && !has("\"session.shutdown\"") {
            continue;
        }
        let Ok(event) = serde_json::from_slice::<Event>(&line) else { continue };
        match event.kind.as_str() {
            "session.usage_record" => {
                let usage = &event.data["usage"];
                if let (Some(model), Ok(counters)) = (usage["model"].as_str(), Counters::deserialize(usage)) {
                    counts.entry(model.to_owned()).or_default().add(&counters);
                }
            }
            "session.shutdown" => {
                let total =
                    metrics(&event.data["accountingSnapshot"], "").or_else(|| metrics(&event.data, ""));
                if let Some(total) = total {
                    counts = total;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::options::EnvList;

    fn env(entries: &[(&str, &str)]) -> ChildEnv {
        let list = entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        ChildEnv::new(&EnvList::default(), &EnvList(list), Os::Linux)
    }

    #[test]
    fn a_fresh_run_is_the_whole_file_and_a_resumed_one_the_difference() {
        let file = |input, output, read| {
            format!(
                r#"{{"modelMetrics":{{"f":{{"usage":{{"inputTokens":{input},"outputTokens":{output},"cacheReadTokens":{read},"cacheWriteTokens":0,"reasoningTokens":3}}}},"idle":{{"requests":{{}}}}}}}}"#
            )
        };
        let want = Some(Usage::from([("f".to_owned(), ModelUsage::tokens(120, 14, 80, 0))]));
        let first = of_run(&file(200, 14, 80), &Counts::new(), "").unwrap();
        assert_eq!(to_usage(&first), want);
        let second = of_run(&file(400, 28, 160), &first, "").unwrap();
        assert_eq!(to_usage(&second), want);
        assert_eq!(to_usage(&of_run(&file(200, 14, 80), &first, "").unwrap()), None);
        assert_eq!(of_run("{", &first, ""), None);
        assert_eq!(of_run("{}", &first, ""), None);
    }

    #[test]
    fn cached_input_is_never_more_than_the_input() {
        let counters =
            Counters { input_tokens: Some(100.0), cache_read_tokens: Some(9000.0), ..Counters::default() };
        let usage = counters.usage();
        assert_eq!(
            (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens),
            (Some(0), Some(9000), None)
        );
    }

    #[test]
    fn the_events_of_a_session_lie_in_its_home() {
        let at = |env: &ChildEnv, os, id| {
            session_events(env, os, id).map(|p| p.to_string_lossy().replace('\\', "/"))
        };
        let home = env(&[("HOME", "/h"), ("USERPROFILE", "/u")]);
        assert_eq!(
            at(&home, Os::Linux, "a-1").as_deref(),
            Some("/h/.copilot/session-state/a-1/events.jsonl")
        );
        assert_eq!(
            at(&home, Os::Windows, "a-1").as_deref(),
            Some("/u/.copilot/session-state/a-1/events.jsonl")
        );
        let own = env(&[("HOME", "/h"), ("COPILOT_HOME", "/c")]);
        assert_eq!(at(&own, Os::MacOs, "a").as_deref(), Some("/c/session-state/a/events.jsonl"));
        for id in ["", "..", "a/b", "my name"] {
            assert_eq!(at(&home, Os::Linux, id), None, "{id}");
        }
        assert_eq!(at(&env(&[]), Os::Linux, "a"), None);
    }

    #[test]
    fn totals_before_a_run_come_from_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let record = r#"{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":10,"outputTokens":2,"cacheReadTokens":4,"cacheWriteTokens":0}}}"#;
        let shutdown = r#"{"type":"session.shutdown","data":{"accountingSnapshot":{"modelMetrics":{"m":{"usage":{"inputTokens":30,"outputTokens":6,"cacheReadTokens":12,"cacheWriteTokens":0}}}}}}"#;
        let noise = r#"{"type":"user.message","data":{"content":"\"session.shutdown\""}}"#;
        let given = |lines: &[&str]| {
            std::fs::write(&path, lines.join("\n")).unwrap();
            to_usage(&before(&path).unwrap())
        };
        let m = |input, output, read| {
            Some(Usage::from([("m".into(), ModelUsage::tokens(input, output, read, 0))]))
        };
        assert_eq!(given(&[record, noise, record, "{ broken \"session.shutdown\""]), m(12, 4, 8));
        assert_eq!(given(&[record, shutdown]), m(18, 6, 12));
        assert_eq!(given(&[shutdown, record]), m(24, 8, 16));
        assert_eq!(given(&[noise]), None);
        assert_eq!(before(&folder.path().join("none")), None);
    }
}
