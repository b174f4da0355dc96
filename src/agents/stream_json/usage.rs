//! Token counts: per message while the run goes on, totals from the result line where it has them.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::frame::{Count, Tokens, decode};
use crate::contract::result::usd_to_ticks;
use crate::contract::{ModelUsage, Usage};

/// How a CLI counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputCount {
    /// Input, cache reads and cache writes are apart.
    Exclusive,
    /// The input includes what came from or went to the cache.
    Inclusive,
}

impl Tokens {
    pub fn counts(&self, input: InputCount) -> ModelUsage {
        let n = |count: Option<Count>| count.map(|c| c.0);
        let (read, write) = (n(self.cache_read_input_tokens), n(self.cache_creation_input_tokens));
        let cached = read.unwrap_or(0) + write.unwrap_or(0);
        let own = n(self.input_tokens).map(|total| match input {
            // Less input than cached tokens cannot include them.
            InputCount::Inclusive if total >= cached => total - cached,
            _ => total,
        });
        ModelUsage {
            input_tokens: own,
            output_tokens: n(self.output_tokens),
            cache_read_tokens: read,
            cache_write_tokens: write,
            cost_usd_ticks: None,
        }
    }
}

/// The counts of each message of this run; the last report for a message counts.
#[derive(Debug, Default)]
pub struct Ledger {
    messages: HashMap<String, (String, ModelUsage)>,
    anonymous: usize,
}

impl Ledger {
    /// false: it says nothing. A report with no input at all is a placeholder, or of a message the CLI made up.
    pub fn report(&mut self, message: &str, model: &str, counts: ModelUsage) -> bool {
        let input = [counts.input_tokens, counts.cache_read_tokens, counts.cache_write_tokens];
        if model.is_empty() || input.iter().all(|n| n.unwrap_or(0) == 0) {
            return false;
        }
        let key = if message.is_empty() {
            self.anonymous += 1;
            format!("\0{}", self.anonymous)
        } else {
            message.to_owned()
        };
        let (known_model, known) = self.messages.entry(key).or_default();
        model.clone_into(known_model);
        let or = |new: Option<u64>, old: Option<u64>| new.or(old);
        *known = ModelUsage {
            input_tokens: or(counts.input_tokens, known.input_tokens),
            output_tokens: or(counts.output_tokens, known.output_tokens),
            cache_read_tokens: or(counts.cache_read_tokens, known.cache_read_tokens),
            cache_write_tokens: or(counts.cache_write_tokens, known.cache_write_tokens),
            cost_usd_ticks: None,
        };
        true
    }

    /// The final output of a message that was reported before.
    pub fn output(&mut self, message: &str, tokens: u64) {
        if let Some((_, counts)) = self.messages.get_mut(message) {
            counts.output_tokens = Some(tokens);
        }
    }

    pub fn totals(&self) -> Usage {
        let mut usage = Usage::new();
        for (model, counts) in self.messages.values() {
            usage.entry(model.clone()).or_default().add(counts);
        }
        usage
    }
}

/// One entry of `modelUsage`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelCounts {
    input_tokens: Option<Count>,
    output_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    #[serde(rename = "costUSD")]
    cost_usd: Option<f64>,
}

/// `modelUsage`: model -> counts. Models without any count are left out; so is a map in an unknown shape.
pub fn model_usage(json: &str) -> Usage {
    let Some(models) = decode::<BTreeMap<String, ModelCounts>>(json) else { return Usage::new() };
    let entry = |c: ModelCounts| ModelUsage {
        input_tokens: c.input_tokens.map(|n| n.0),
        output_tokens: c.output_tokens.map(|n| n.0),
        cache_read_tokens: c.cache_read_input_tokens.map(|n| n.0),
        cache_write_tokens: c.cache_creation_input_tokens.map(|n| n.0),
        cost_usd_ticks: c.cost_usd.and_then(cost),
    };
    let known = models.into_iter().filter(|(model, _)| !model.is_empty());
    known.map(|(model, c)| (model, entry(c))).filter(|(_, u)| !u.is_zero()).collect()
}

/// USD -> ticks. A price of zero means that the CLI knows no price of this model.
pub fn cost(usd: f64) -> Option<u64> {
    usd_to_ticks(usd).filter(|ticks| *ticks > 0)
}

/// The sum over all models.
pub fn sum(usage: &Usage) -> ModelUsage {
    let mut total = ModelUsage::default();
    usage.values().for_each(|u| total.add(u));
    total
}

/// `total` minus `baseline`, model by model; `None` when the baseline is not contained in it.
pub fn since(total: &Usage, baseline: &Usage) -> Option<Usage> {
    let contained = baseline.iter().all(|(model, old)| total.get(model).is_some_and(|new| covers(new, old)));
    contained.then(|| {
        let share = total.iter().map(|(model, new)| {
            (model.clone(), baseline.get(model).map_or(*new, |old| without_zero_cost(new.since(old))))
        });
        share.filter(|(_, u)| !u.is_zero()).collect()
    })
}

fn without_zero_cost(mut usage: ModelUsage) -> ModelUsage {
    usage.cost_usd_ticks = usage.cost_usd_ticks.filter(|ticks| *ticks > 0);
    usage
}

/// Every token count of `a` is at least that of `b`.
pub fn covers(a: &ModelUsage, b: &ModelUsage) -> bool {
    let pairs = [
        (a.input_tokens, b.input_tokens),
        (a.output_tokens, b.output_tokens),
        (a.cache_read_tokens, b.cache_read_tokens),
        (a.cache_write_tokens, b.cache_write_tokens),
    ];
    pairs.iter().all(|(a, b)| a.unwrap_or(0) >= b.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(n: u64, read: u64, write: u64) -> ModelUsage {
        ModelUsage { output_tokens: None, ..ModelUsage::tokens(n, 0, read, write) }
    }

    #[test]
    fn each_message_counts_once_by_its_last_report() {
        let mut ledger = Ledger::default();
        ledger.report("m1", "a", input(100, 200, 10));
        ledger.report("m1", "a", input(100, 200, 10));
        ledger.report("m2", "a", input(30, 60, 5));
        ledger.report("m1", "a", input(0, 0, 0));
        assert_eq!(ledger.totals(), Usage::from([("a".into(), input(130, 260, 15))]));
        ledger.output("m1", 7);
        ledger.output("unknown", 9);
        ledger.report("m1", "a", input(101, 200, 10));
        let total = ModelUsage { output_tokens: Some(7), ..input(131, 260, 15) };
        assert_eq!(ledger.totals(), Usage::from([("a".into(), total)]));
        // Messages without an id are all different.
        ledger.report("", "b", input(1, 0, 0));
        ledger.report("", "b", input(1, 0, 0));
        ledger.report("m9", "", input(1, 0, 0));
        assert_eq!(ledger.totals()["b"], input(2, 0, 0));
    }

    #[test]
    fn cached_tokens_are_taken_out_of_an_inclusive_input() {
        let tokens = |n, read| Tokens {
            input_tokens: Some(Count(n)),
            cache_read_input_tokens: Some(Count(read)),
            ..Tokens::default()
        };
        let own = |t: Tokens, i| t.counts(i).input_tokens;
        assert_eq!(own(tokens(1234, 789), InputCount::Inclusive), Some(445));
        assert_eq!(own(tokens(1234, 789), InputCount::Exclusive), Some(1234));
        assert_eq!(own(tokens(10, 789), InputCount::Inclusive), Some(10));
        assert_eq!(Tokens::default().counts(InputCount::Inclusive), ModelUsage::default());
    }

    #[test]
    fn model_usage_is_read_leniently() {
        let usage = model_usage(
            r#"{"a":{"inputTokens":1.0,"outputTokens":-2,"cacheReadInputTokens":null,"costUSD":0.5,"x":[]},
                "":{"inputTokens":5},"b":{},"c":{"inputTokens":3,"costUSD":0}}"#,
        );
        let a = ModelUsage {
            input_tokens: Some(1),
            output_tokens: Some(0),
            cost_usd_ticks: Some(5_000_000_000),
            ..Default::default()
        };
        let c = ModelUsage { input_tokens: Some(3), ..Default::default() };
        assert_eq!(usage, Usage::from([("a".into(), a), ("c".into(), c)]));
        for odd in ["[]", "1", r#"{"a":1}"#, "null"] {
            assert!(model_usage(odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn a_share_needs_a_baseline_that_is_contained() {
        let of = |n| Usage::from([("a".to_owned(), ModelUsage::tokens(n, n, n, n))]);
        assert_eq!(since(&of(5), &of(2)), Some(of(3)));
        assert_eq!(since(&of(5), &of(6)), None);
        assert_eq!(since(&of(5), &of(5)), Some(Usage::new()));
        assert_eq!(since(&Usage::new(), &of(5)), None);
        assert_eq!(since(&of(5), &Usage::new()), Some(of(5)));
    }
}
