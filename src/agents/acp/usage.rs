//! Token counts as agents report them over ACP: several spellings, cumulative snapshots that may repeat, and
//! an input count that may or may not include what came from a cache.

use super::fields::Fields;
use crate::contract::ModelUsage;

/// One report. `None` = not told, which is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cost: Option<u64>,
    total: Option<u64>,
    thought: Option<u64>,
}

impl Record {
    pub fn read(fields: &Fields) -> Record {
        let first = |names: &[&str]| names.iter().find_map(|name| number(fields.raw(name)?));
        Record {
            input: first(&["inputTokens", "input_tokens"]),
            output: first(&["outputTokens", "output_tokens"]),
            cache_read: first(&[
                "cachedReadTokens",
                "cacheReadTokens",
                "cached_input_tokens",
                "cache_read_tokens",
                "cache_read_input_tokens",
            ]),
            cache_write: first(&[
                "cachedWriteTokens",
                "cacheWriteTokens",
                "cache_write_tokens",
                "cache_creation_input_tokens",
                "cacheCreationTokens",
            ]),
            cost: first(&["costUsdTicks", "cost_usd_ticks"]),
            total: first(&["totalTokens", "total_tokens"]),
            thought: first(&["thoughtTokens", "thought_tokens"]),
        }
    }

    /// The report of a prompt result: its own `usage`, completed from `_meta.usage`, completed from `_meta`.
    pub fn of_result(result: &Fields) -> Record {
        let read = |path: &[&str]| result.object_at(path).map(|f| Record::read(&f)).unwrap_or_default();
        read(&["usage"]).or(read(&["_meta", "usage"]).or(read(&["_meta"])))
    }

    /// A field that is absent or zero here comes from `other`; of two costs the larger counts.
    fn or(self, other: Record) -> Record {
        let pick = |a: Option<u64>, b: Option<u64>| a.filter(|n| *n > 0).or(b).or(a);
        let input = pick(self.input, other.input);
        // A total belongs to the input it was added up from.
        let total = if input != self.input && other.cached_within().is_some() {
            other.total
        } else {
            self.total.or(other.total)
        };
        Record {
            input,
            output: pick(self.output, other.output),
            cache_read: pick(self.cache_read, other.cache_read),
            cache_write: pick(self.cache_write, other.cache_write),
            cost: self.cost.max(other.cost),
            total,
            thought: pick(self.thought, other.thought),
        }
    }

    /// The cached part of `input`, when the total proves that it is inside: total = input + output.
    fn cached_within(&self) -> Option<u64> {
        let (input, output, total) = (self.input?, self.output?, self.total?);
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        (total > 0 && total == input.saturating_add(output) && (1..=input).contains(&cached))
            .then_some(cached)
    }

    /// The counts of this report alone.
    pub fn usage(&self) -> ModelUsage {
        let mut tally = Tally::default();
        tally.add(self);
        tally.usage().unwrap_or_default()
    }

    /// Output with reasoning. It is inside already unless the total proves that each bucket stands apart.
    fn output_with_thought(&self) -> Option<u64> {
        let (output, thought) = (self.output?, self.thought.unwrap_or(0));
        let apart = [self.input, self.output, self.thought, self.cache_read, self.cache_write]
            .into_iter()
            .flatten()
            .fold(0u64, u64::saturating_add);
        Some(if thought > 0 && self.total == Some(apart) { output.saturating_add(thought) } else { output })
    }
}

/// A non-negative number, whole or not, or one written as a string.
fn number(raw: &str) -> Option<u64> {
    let text = raw.trim_matches('"').trim();
    text.parse::<u64>().ok().or_else(|| {
        let n = text.parse::<f64>().ok()?;
        (n.is_finite() && n >= 0.0).then_some(n as u64)
    })
}

/// What all reports of one turn come to, whatever their order.
#[derive(Debug, Default)]
pub struct Tally {
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cost: Option<u64>,
    /// The largest input of a report that does not say whether it includes the cached part.
    ambiguous: Option<u64>,
    /// Of the report with the largest total: that total, and its input without the cached part.
    exclusive: Option<(u64, u64)>,
}

impl Tally {
    pub fn add(&mut self, record: &Record) {
        self.output = self.output.max(record.output_with_thought());
        self.cache_read = self.cache_read.max(record.cache_read);
        self.cache_write = self.cache_write.max(record.cache_write);
        self.cost = self.cost.max(record.cost.filter(|c| *c > 0));
        match (record.input, record.cached_within()) {
            (Some(input), Some(cached)) => {
                self.exclusive = self.exclusive.max(record.total.map(|total| (total, input - cached)));
            }
            (input, _) => self.ambiguous = self.ambiguous.max(input),
        }
    }

    /// `None` when nobody reported a count above 0.
    pub fn usage(&self) -> Option<ModelUsage> {
        let input = match (self.exclusive, self.ambiguous) {
            (Some((total, input)), Some(ambiguous)) => {
                let other_total = ambiguous.saturating_add(self.output.unwrap_or(0));
                Some(if total >= other_total { input } else { ambiguous })
            }
            (Some((_, input)), None) => Some(input),
            (None, ambiguous) => ambiguous,
        };
        let usage = ModelUsage {
            input_tokens: input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            cost_usd_ticks: self.cost,
        };
        (!usage.is_zero() || usage.cost_usd_ticks.is_some()).then_some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(usage: Option<ModelUsage>) -> [Option<u64>; 5] {
        let u = usage.unwrap_or_default();
        [u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.cost_usd_ticks]
    }

    fn tally(records: &[&str]) -> [Option<u64>; 5] {
        let mut tally = Tally::default();
        for r in records {
            tally.add(&Record::read(&Fields::read(r).unwrap()));
        }
        counts(tally.usage())
    }

    fn result(json: &str) -> [Option<u64>; 5] {
        let mut tally = Tally::default();
        tally.add(&Record::of_result(&Fields::read(json).unwrap()));
        counts(tally.usage())
    }

    #[test]
    fn cached_input_is_taken_out_once_the_total_proves_it_is_in() {
        let base = r#""inputTokens":90,"outputTokens":10,"cachedReadTokens":60"#;
        for (total, input) in [(r#","totalTokens":100"#, 30), ("", 90), (r#","totalTokens":160"#, 90)] {
            let got = tally(&[&format!("{{{base}{total}}}")]);
            assert_eq!(got, [Some(input), Some(10), Some(60), None, None], "{total}");
        }
        let both = r#"{"inputTokens":90,"outputTokens":10,"totalTokens":100,"cachedReadTokens":50,"cacheWriteTokens":7}"#;
        assert_eq!(tally(&[both]), [Some(33), Some(10), Some(50), Some(7), None]);
        let more = r#"{"inputTokens":5,"outputTokens":1,"totalTokens":6,"cachedReadTokens":9}"#;
        assert_eq!(tally(&[more]), [Some(5), Some(1), Some(9), None, None]);
    }

    #[test]
    fn reasoning_is_part_of_the_output() {
        let inside = r#"{"inputTokens":9,"outputTokens":10,"thoughtTokens":4,"totalTokens":19}"#;
        let apart = r#"{"inputTokens":9,"outputTokens":10,"thoughtTokens":4,"totalTokens":23}"#;
        assert_eq!((tally(&[inside])[1], tally(&[apart])[1]), (Some(10), Some(14)));
    }

    #[test]
    fn a_result_is_completed_from_its_meta() {
        let zero = r#"{"usage":{"inputTokens":0,"outputTokens":0},"_meta":{"usage":{"inputTokens":50,"outputTokens":5}}}"#;
        assert_eq!(result(zero), [Some(50), Some(5), None, None, None]);
        let told = r#"{"usage":{"inputTokens":1},"_meta":{"usage":{"inputTokens":99}}}"#;
        assert_eq!(result(told), [Some(1), None, None, None, None]);
        let flat = r#"{"_meta":{"inputTokens":50,"outputTokens":10,"cachedReadTokens":5}}"#;
        assert_eq!(result(flat), [Some(50), Some(10), Some(5), None, None]);
        let turn = r#"{"_meta":{"inputTokens":90,"outputTokens":10,"cachedReadTokens":60,"usage":{"inputTokens":180,
            "outputTokens":20,"totalTokens":200,"cachedReadTokens":120,"costUsdTicks":1234}}}"#;
        assert_eq!(result(turn), [Some(60), Some(20), Some(120), None, Some(1234)]);
        let lent = r#"{"usage":{"inputTokens":0,"totalTokens":7},"_meta":{"usage":{"inputTokens":90,"outputTokens":10,
            "totalTokens":100,"cachedReadTokens":60}}}"#;
        assert_eq!(result(lent), [Some(30), Some(10), Some(60), None, None]);
        assert_eq!(result("{}"), [None; 5]);
    }

    #[test]
    fn snapshots_count_the_same_in_either_order() {
        let a = r#"{"inputTokens":200,"outputTokens":80,"cacheReadTokens":40}"#;
        let b = r#"{"inputTokens":100,"outputTokens":20,"totalTokens":120,"cacheReadTokens":10,"cacheWriteTokens":3}"#;
        let want = [Some(200), Some(80), Some(40), Some(3), None];
        assert_eq!((tally(&[a, b]), tally(&[b, a]), tally(&[a, b, b, a])), (want, want, want));
        let late = r#"{"inputTokens":60,"outputTokens":20}"#;
        assert_eq!(tally(&[late, b])[0], Some(87), "the larger total decides");
    }

    #[test]
    fn numbers_come_in_several_spellings() {
        let got = tally(&[r#"{"input_tokens":5,"output_tokens":"7","costUsdTicks":null}"#]);
        assert_eq!(got, [Some(5), Some(7), None, None, None]);
        let got = tally(&[
            r#"{"inputTokens":-1,"input_tokens":2.9,"outputTokens":[],"prompt_tokens":9,"costUsdTicks":0}"#,
        ]);
        assert_eq!(got, [Some(2), None, None, None, None]);
        assert_eq!(tally(&[r#"{"used":5,"size":9,"cost":{"amount":1}}"#]), [None; 5]);
        assert_eq!(tally(&[r#"{"inputTokens":0,"outputTokens":0}"#]), [None; 5], "all zero is no report");
        assert_eq!(tally(&[r#"{"inputTokens":0,"outputTokens":3}"#])[0], Some(0), "a told 0 stays");
    }
}
