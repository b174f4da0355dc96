//! Token counts of this run out of counters that run on over the life of a thread.

use std::collections::HashMap;

use serde_json::Value;

use crate::contract::{ModelUsage, Usage};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    input: u64,
    cached: Option<u64>,
    cache_write: Option<u64>,
    output: u64,
}

impl Totals {
    /// A breakdown of `thread/tokenUsage/updated`. Reasoning tokens are part of the output there.
    pub fn read(breakdown: &Value) -> Option<Self> {
        let count = |key: &str| breakdown[key].as_u64();
        Some(Totals {
            input: count("inputTokens")?,
            cached: count("cachedInputTokens"),
            cache_write: count("cacheWriteInputTokens"),
            output: count("outputTokens").unwrap_or(0),
        })
    }

    /// What the older servers put into the end of a turn, and what the session files hold.
    pub fn read_any_spelling(counts: &Value) -> Option<Self> {
        let first = |keys: &[&str]| keys.iter().find_map(|k| counts[k].as_u64().filter(|n| *n > 0));
        let totals = Totals {
            input: first(&["input_tokens", "input", "prompt_tokens"]).unwrap_or(0),
            cached: first(&["cached_input_tokens", "cache_read_tokens", "cache_read_input_tokens"]),
            cache_write: first(&["cache_write_tokens", "cache_creation_input_tokens"]),
            output: first(&["output_tokens", "output", "completion_tokens"]).unwrap_or(0),
        };
        (totals != Totals::default()).then_some(totals)
    }

    /// Counter by counter, floor 0.
    fn minus(self, earlier: Totals) -> Totals {
        let minus = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or(0)));
        Totals {
            input: self.input.saturating_sub(earlier.input),
            cached: minus(self.cached, earlier.cached),
            cache_write: minus(self.cache_write, earlier.cache_write),
            output: self.output.saturating_sub(earlier.output),
        }
    }

    /// Counter by counter; one that shrank was reset, so all of it is new.
    pub fn since(self, earlier: Totals) -> Totals {
        let grown = |a: u64, b: u64| if a >= b { a - b } else { a };
        let grown_option = |a: Option<u64>, b: Option<u64>| a.map(|a| grown(a, b.unwrap_or(0)));
        Totals {
            input: grown(self.input, earlier.input),
            cached: grown_option(self.cached, earlier.cached),
            cache_write: grown_option(self.cache_write, earlier.cache_write),
            output: grown(self.output, earlier.output),
        }
    }

    pub fn plus(self, other: Totals) -> Totals {
        let plus = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        Totals {
            input: self.input + other.input,
            cached: plus(self.cached, other.cached),
            cache_write: plus(self.cache_write, other.cache_write),
            output: self.output + other.output,
        }
    }

    /// The CLI counts cached tokens within its input.
    fn exclusive(self) -> ModelUsage {
        let cached = self.cached.unwrap_or(0) + self.cache_write.unwrap_or(0);
        ModelUsage {
            input_tokens: Some(self.input.saturating_sub(cached)),
            output_tokens: Some(self.output),
            cache_read_tokens: self.cached,
            cache_write_tokens: self.cache_write,
            cost_usd_ticks: None,
        }
    }
}

/// Adds up what each thread of this run used.
#[derive(Default)]
pub struct Meter {
    /// The last total of each thread.
    threads: HashMap<String, Totals>,
    /// The model that answers now.
    pub model: Option<String>,
    used: Usage,
}

impl Meter {
    /// A thread that began in this run: nothing of its total is older.
    pub fn born(&mut self, thread: &str) {
        self.threads.entry(thread.to_owned()).or_default();
    }

    /// A total of before this run's turn.
    pub fn baseline(&mut self, thread: &str, total: Totals) {
        self.threads.insert(thread.to_owned(), total);
    }

    /// A total within the turn. Compaction repeats an unchanged total, so only the difference counts.
    pub fn count(&mut self, thread: &str, total: Totals, last: Option<Totals>) {
        let earlier = match self.threads.get(thread) {
            Some(earlier) => *earlier,
            None => total.minus(last.unwrap_or(total)),
        };
        self.threads.insert(thread.to_owned(), total);
        self.add(total.minus(earlier));
    }

    pub fn add(&mut self, share: Totals) {
        let share = share.exclusive();
        if share.is_zero() {
            return;
        }
        let model = self.model.clone().filter(|m| !m.is_empty()).unwrap_or_else(|| "unknown".to_owned());
        self.used.entry(model).or_default().add(&share);
    }

    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    pub fn usage(&self) -> Usage {
        self.used.clone()
    }
}
