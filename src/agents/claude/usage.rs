//! This run's share of what the result line counts.

use crate::agents::stream_json::usage::{covers, since, sum};
use crate::contract::{ModelUsage, Usage};

/// What the session had counted before this run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Baseline {
    Known(Usage),
    /// The session keeps no counts: its totals begin with each run.
    Absent,
    #[default]
    Unknown,
}

/// The counts of the result lines seen so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// `modelUsage` of the last one. Per run up to 2.1.197 or so, over the whole session since.
    pub models: Usage,
    /// `model_usage_since_last_result`, summed over all of them. `None`: this version does not tell.
    pub own: Option<Usage>,
    /// `usage` of the last one: this turn, main loop only.
    pub main_loop: Option<ModelUsage>,
    /// `total_cost_usd` of the last one.
    pub cost_usd_ticks: Option<u64>,
}

impl Totals {
    pub fn add_own(&mut self, share: Usage) {
        let own = self.own.get_or_insert_default();
        for (model, counts) in share {
            own.entry(model).or_default().add(&counts);
        }
    }

    /// `model`: whom to book counts on that name no model. `messages`: what the messages of this run counted.
    pub fn share(&self, resumed: bool, baseline: &Baseline, model: &str, messages: Usage) -> Usage {
        if let Some(own) = self.own.as_ref().filter(|_| resumed) {
            return own.clone();
        }
        let main_loop = self.main_loop.filter(|u| !u.is_zero());
        if !self.models.is_empty() {
            if !resumed {
                return self.with_total_cost();
            }
            if let Some(share) = self.resumed_share(baseline, main_loop.as_ref()) {
                return share;
            }
        }
        let Some(turn) = main_loop.filter(|_| !model.is_empty()) else {
            let untold = resumed && messages.is_empty() && *baseline == Baseline::Unknown;
            return if untold { self.models.clone() } else { messages };
        };
        // The messages name their models and include those of sub-agents, unless some were missed.
        if resumed && covers(&sum(&messages), &turn) {
            return messages;
        }
        let cost_usd_ticks = self.cost_usd_ticks.filter(|_| !resumed);
        Usage::from([(model.to_owned(), ModelUsage { cost_usd_ticks, ..turn })])
    }

    /// Old versions name no cost per model; with one model, it is that one's.
    fn with_total_cost(&self) -> Usage {
        let mut models = self.models.clone();
        if models.len() == 1
            && let Some(counts) = models.values_mut().next()
        {
            counts.cost_usd_ticks = counts.cost_usd_ticks.or(self.cost_usd_ticks);
        }
        models
    }

    /// `modelUsage` of a resumed session without the earlier runs. Whether it contains them depends on the
    /// version, so the turn's own count decides: a share below it is wrong. `None`: cannot be told.
    fn resumed_share(&self, baseline: &Baseline, main_loop: Option<&ModelUsage>) -> Option<Usage> {
        let turn = main_loop.copied().unwrap_or_default();
        match baseline {
            Baseline::Absent => Some(self.models.clone()),
            Baseline::Known(before) => {
                since(&self.models, before).filter(|share| !share.is_empty() && covers(&sum(share), &turn))
            }
            Baseline::Unknown => {
                let total = sum(&self.models);
                (covers(&total, &turn) && covers(&turn, &total)).then(|| self.models.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(n: u64) -> ModelUsage {
        ModelUsage::tokens(n, n, n, n)
    }
    fn priced(n: u64) -> ModelUsage {
        ModelUsage { cost_usd_ticks: Some(n), ..counts(n) }
    }
    fn of(pairs: &[(&str, ModelUsage)]) -> Usage {
        pairs.iter().map(|(m, u)| (m.to_string(), *u)).collect()
    }

    #[test]
    fn a_fresh_session_takes_the_totals_per_model() {
        let totals = Totals {
            models: of(&[("a", priced(5)), ("b", counts(2))]),
            main_loop: Some(counts(5)),
            cost_usd_ticks: Some(9),
            own: Some(of(&[("a", counts(1))])),
        };
        let share = |t: &Totals| t.share(false, &Baseline::Absent, "m", Usage::new());
        assert_eq!(share(&totals), totals.models);
        let one = Totals { models: of(&[("a", counts(5))]), ..totals.clone() };
        assert_eq!(share(&one), of(&[("a", ModelUsage { cost_usd_ticks: Some(9), ..counts(5) })]));
        let none = Totals { models: Usage::new(), ..totals };
        assert_eq!(share(&none), of(&[("m", ModelUsage { cost_usd_ticks: Some(9), ..counts(5) })]));
    }

    #[test]
    fn a_resumed_session_leaves_the_earlier_runs_out() {
        let resumed = |t: &Totals, b: &Baseline| t.share(true, b, "m", of(&[("x", counts(1))]));
        let mut totals = Totals {
            models: of(&[("a", priced(5)), ("b", counts(2))]),
            main_loop: Some(counts(3)),
            cost_usd_ticks: Some(9),
            own: None,
        };
        let before = Baseline::Known(of(&[("a", priced(2))]));
        assert_eq!(resumed(&totals, &before), of(&[("a", priced(3)), ("b", counts(2))]));
        // The baseline is not in the totals, or leaves too little: the totals are this run's already.
        for before in
            [of(&[("a", counts(9))]), of(&[("z", counts(1))]), of(&[("a", counts(5)), ("b", counts(1))])]
        {
            assert_eq!(resumed(&totals, &Baseline::Known(before)), of(&[("m", counts(3))]));
        }
        assert_eq!(resumed(&totals, &Baseline::Unknown), of(&[("m", counts(3))]));
        assert_eq!(resumed(&totals, &Baseline::Absent), totals.models);
        totals.main_loop = Some(counts(7));
        assert_eq!(resumed(&totals, &Baseline::Unknown), totals.models);
        totals.add_own(of(&[("a", counts(1))]));
        totals.add_own(of(&[("a", counts(2)), ("c", counts(1))]));
        assert_eq!(resumed(&totals, &before), of(&[("a", counts(3)), ("c", counts(1))]));
        // It says that this run cost nothing.
        totals.own = Some(Usage::new());
        assert_eq!(resumed(&totals, &before), Usage::new());
    }

    #[test]
    fn a_resumed_session_that_nobody_counts_takes_its_messages() {
        let messages = of(&[("x", counts(3)), ("y", counts(1))]);
        let mut totals =
            Totals { models: of(&[("a", counts(9))]), main_loop: Some(counts(3)), ..Totals::default() };
        let share = |t: &Totals, m: &Usage| t.share(true, &Baseline::Unknown, "m", m.clone());
        assert_eq!(share(&totals, &messages), messages);
        totals.main_loop = None;
        assert_eq!(share(&totals, &messages), messages);
        assert_eq!(share(&totals, &Usage::new()), totals.models);
    }

    #[test]
    fn without_totals_the_messages_count() {
        let messages = of(&[("x", counts(1))]);
        for totals in [Totals::default(), Totals { main_loop: Some(counts(0)), ..Totals::default() }] {
            for resumed in [true, false] {
                assert_eq!(totals.share(resumed, &Baseline::Unknown, "m", messages.clone()), messages);
            }
        }
        let nameless = Totals { main_loop: Some(counts(3)), ..Totals::default() };
        assert_eq!(nameless.share(false, &Baseline::Absent, "", messages.clone()), messages);
    }
}
