//! The single outcome of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::failure::Failure;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The CLI's own terminal event said so.
    Completed,
    Failed,
    /// One of our limits ended it.
    Timeout,
    /// The caller stopped it.
    Aborted,
    /// The agent itself says the turn was cancelled, without the caller asking.
    Cancelled,
}

/// Token counts of one model. `None` = the CLI did not tell; never 0 for unknown.
/// `input_tokens` excludes cache reads and writes; reasoning is part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// 1 tick = 1e-10 USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd_ticks: Option<u64>,
}

impl ModelUsage {
    pub fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        ModelUsage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_tokens: Some(cache_read),
            cache_write_tokens: Some(cache_write),
            cost_usd_ticks: None,
        }
    }

    pub fn is_zero(&self) -> bool {
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
            .iter()
            .all(|n| n.unwrap_or(0) == 0)
    }

    /// Adds counter by counter; a counter nobody told stays unknown.
    pub fn add(&mut self, other: &ModelUsage) {
        fn plus(a: &mut Option<u64>, b: Option<u64>) {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        }
        plus(&mut self.input_tokens, other.input_tokens);
        plus(&mut self.output_tokens, other.output_tokens);
        plus(&mut self.cache_read_tokens, other.cache_read_tokens);
        plus(&mut self.cache_write_tokens, other.cache_write_tokens);
        plus(&mut self.cost_usd_ticks, other.cost_usd_ticks);
    }

    /// This minus a baseline, floor 0: the share of one run in a cumulative count.
    pub fn since(&self, baseline: &ModelUsage) -> ModelUsage {
        let minus = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or(0)));
        ModelUsage {
            input_tokens: minus(self.input_tokens, baseline.input_tokens),
            output_tokens: minus(self.output_tokens, baseline.output_tokens),
            cache_read_tokens: minus(self.cache_read_tokens, baseline.cache_read_tokens),
            cache_write_tokens: minus(self.cache_write_tokens, baseline.cache_write_tokens),
            cost_usd_ticks: minus(self.cost_usd_ticks, baseline.cost_usd_ticks),
        }
    }
}

/// USD as a CLI states it -> ticks of 1e-10 USD. `None` for negative or non-finite numbers.
pub fn usd_to_ticks(usd: f64) -> Option<u64> {
    (usd.is_finite() && usd >= 0.0).then(|| (usd * 1e10).round() as u64)
}

/// model -> counts.
pub type Usage = BTreeMap<String, ModelUsage>;

/// What the convergence of evidence and process end gives; the run adds time and redaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: RunStatus,
    /// The final answer; empty unless completed.
    pub output: String,
    /// The last answer text of a run that did not complete.
    pub partial_output: Option<String>,
    pub error: Option<String>,
    pub failure: Option<Failure>,
    /// Absent when the session cannot be resumed.
    pub session_id: Option<String>,
    pub usage: Option<Usage>,
    /// true: the CLI itself refused this resume. false: checked, not so. None: this CLI cannot tell.
    pub resume_rejected: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub status: RunStatus,
    pub output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_rejected: Option<bool>,
}
