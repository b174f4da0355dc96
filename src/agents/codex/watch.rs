//! The clocks of a turn: how long it may show no progress.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::contract::Limit;
use crate::contract::options::RunLimits;

const SEMANTIC_INACTIVITY: Duration = Duration::from_secs(10 * 60);
const FIRST_TURN: Duration = Duration::from_secs(60);

pub struct Watch {
    semantic: Duration,
    first_turn: Duration,
    /// While a tool runs; `None` = no limit then.
    tool: Option<Duration>,
    last: Instant,
    /// What happened last, for the error text.
    pub label: String,
    /// The turn began at this time and nothing came of it yet.
    waiting: Option<Instant>,
    progressed: bool,
    /// Tools that run. A silent command is silent on the wire, too.
    open: HashSet<String>,
}

impl Watch {
    pub fn new(limits: &RunLimits) -> Self {
        let given = |d: Option<Duration>| d.filter(|d| !d.is_zero());
        let semantic = given(limits.semantic_inactivity).unwrap_or(SEMANTIC_INACTIVITY);
        Watch {
            semantic,
            first_turn: given(limits.first_turn).unwrap_or_else(|| first_turn(semantic)),
            tool: (!limits.tool.is_zero()).then(|| limits.tool.max(semantic)),
            last: Instant::now(),
            label: String::new(),
            waiting: None,
            progressed: false,
            open: HashSet::new(),
        }
    }

    /// The prompt is on its way.
    pub fn begin(&mut self) {
        self.touch("turn/start".to_owned());
    }

    /// The CLI says that the turn runs. Says nothing about the model.
    pub fn started(&mut self) {
        self.touch("status:running".to_owned());
        if !self.progressed {
            self.waiting.get_or_insert(self.last);
        }
    }

    /// A sign of life.
    pub fn touch(&mut self, label: String) {
        self.last = Instant::now();
        self.label = label;
    }

    /// Something came of the turn.
    pub fn progress(&mut self, label: String) {
        self.touch(label);
        self.progressed = true;
        self.waiting = None;
    }

    pub fn progressed(&self) -> bool {
        self.progressed
    }

    pub fn tool_open(&mut self, id: &str) {
        self.open.insert(id.to_owned());
    }

    pub fn tool_closed(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Time in which nobody read what the CLI said is no silence of the CLI.
    pub fn pardon(&mut self, blocked: Duration) {
        self.last += blocked;
        if let Some(since) = &mut self.waiting {
            *since += blocked;
        }
    }

    /// The limit that comes next: when, which, and its length.
    pub fn next(&self) -> Option<(Instant, Limit, Duration)> {
        let quiet = if self.open.is_empty() { Some(self.semantic) } else { self.tool };
        let quiet = quiet.and_then(|d| Some((self.last.checked_add(d)?, Limit::SemanticInactivity, d)));
        let first = self
            .waiting
            .and_then(|since| Some((since.checked_add(self.first_turn)?, Limit::FirstTurn, self.first_turn)));
        [first, quiet].into_iter().flatten().min_by_key(|(at, ..)| *at)
    }
}

/// The default: 60 s, or less where the inactivity limit would come first.
fn first_turn(semantic: Duration) -> Duration {
    if semantic > FIRST_TURN { FIRST_TURN } else { semantic * 4 / 5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_turn_limit_stays_below_the_inactivity_limit() {
        let s = Duration::from_secs;
        for (semantic, given, want) in [
            (None, None, s(60)),
            (Some(s(0)), None, s(60)),
            (Some(s(600)), None, s(60)),
            (Some(s(60)), None, s(48)),
            (Some(s(30)), None, s(24)),
            (Some(s(5)), None, s(4)),
            (None, Some(s(120)), s(120)),
            (None, Some(s(0)), s(60)),
        ] {
            let limits = RunLimits { semantic_inactivity: semantic, first_turn: given, ..Default::default() };
            // The clock of a test runtime is not needed: only lengths are compared.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _guard = runtime.enter();
            assert_eq!(Watch::new(&limits).first_turn, want, "{semantic:?} {given:?}");
        }
    }
}
