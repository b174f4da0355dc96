//! What the limits look at: when something last happened, and which tool calls are open.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use crate::contract::Message;

pub struct Activity {
    state: Mutex<State>,
    /// The pump waits for a slow reader; silence is then ours, not the CLI's.
    blocked: AtomicBool,
}

struct State {
    last: Instant,
    open_tools: HashSet<String>,
}

impl Activity {
    pub fn new() -> Self {
        Activity {
            state: Mutex::new(State { last: Instant::now(), open_tools: HashSet::new() }),
            blocked: AtomicBool::new(false),
        }
    }

    /// Logs are no progress: a CLI that only reports retries must still run into the idle limit. `true` = tool
    /// calls are open now and were not before, or the other way round, so another limit counts.
    pub fn note(&self, messages: &[Message]) -> bool {
        if messages.iter().all(|m| matches!(m, Message::Log { .. })) {
            return false;
        }
        let mut state = self.lock();
        let was_open = !state.open_tools.is_empty();
        state.last = Instant::now();
        for message in messages {
            match message {
                Message::ToolUse { call_id, .. } => {
                    state.open_tools.insert(call_id.clone());
                }
                Message::ToolResult { call_id, .. } => {
                    state.open_tools.remove(call_id);
                }
                _ => {}
            }
        }
        was_open == state.open_tools.is_empty()
    }

    pub fn touch(&self) {
        self.lock().last = Instant::now();
    }

    pub fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::SeqCst);
        if !blocked {
            self.touch();
        }
    }

    pub fn blocked(&self) -> bool {
        self.blocked.load(Ordering::SeqCst)
    }

    /// Since when nothing happened, and whether a tool call is open.
    pub fn look(&self) -> (Instant, bool) {
        let state = self.lock();
        (state.last, !state.open_tools.is_empty())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn logs_are_no_progress_and_open_tools_are_known() {
        let a = Activity::new();
        let start = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        a.note(&[Message::log("warn", "retrying")]);
        assert_eq!(a.look(), (start, false));
        a.note(&[Message::tool_use("Bash", "c1", None), Message::tool_use("Bash", "c2", None)]);
        assert_eq!(a.look(), (start + Duration::from_secs(1), true));
        a.note(&[Message::tool_result("c1", "")]);
        assert!(a.look().1);
        a.note(&[Message::tool_result("c2", "")]);
        assert!(!a.look().1);
    }
}
