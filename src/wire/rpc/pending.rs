//! Requests of ours that wait for their response.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::RpcError;

/// Names one request of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

#[derive(Default)]
pub(super) struct Pending {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    method: String,
    limit: Option<Duration>,
    deadline: Option<Instant>,
    /// The deadline passed at the last look. It counts only at the next one: between the two, what had
    /// arrived is read, so a response that was in time is not lost to a busy consumer.
    overdue: bool,
    written: bool,
    write_error: Option<String>,
}

pub(super) struct Expired {
    pub ticket: Ticket,
    pub error: RpcError,
}

impl Pending {
    /// Counts up from 1.
    pub fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    pub fn insert(&mut self, ticket: Ticket, method: &str, limit: Option<Duration>) {
        let waiting = Waiting {
            method: method.to_owned(),
            limit,
            // A limit too far away to be a point in time is no limit.
            deadline: limit.and_then(|l| Instant::now().checked_add(l)),
            overdue: false,
            written: false,
            write_error: None,
        };
        self.waiting.insert(ticket.0, waiting);
    }

    pub fn take(&mut self, id: u64) -> Option<(Ticket, String)> {
        self.waiting.remove(&id).map(|w| (Ticket(id), w.method))
    }

    pub fn written(&mut self, ticket: Ticket) {
        if let Some(waiting) = self.waiting.get_mut(&ticket.0) {
            waiting.written = true;
        }
    }

    /// Requests that did not leave whole fail at `at`, or earlier by their own limit.
    pub fn write_failed(&mut self, error: &str, at: Instant) {
        for waiting in self.waiting.values_mut().filter(|w| !w.written) {
            waiting.write_error = Some(error.to_owned());
            waiting.deadline = Some(waiting.deadline.map_or(at, |d| d.min(at)));
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|w| w.deadline).min()
    }

    pub fn expired(&mut self, now: Instant) -> Option<Expired> {
        let mut expired = None;
        for (id, waiting) in &mut self.waiting {
            if waiting.deadline.is_some_and(|at| at <= now) {
                if waiting.overdue {
                    expired = Some(*id);
                    break;
                }
                waiting.overdue = true;
            }
        }
        let id = expired?;
        let Waiting { method, limit, write_error, .. } = self.waiting.remove(&id)?;
        let error = match write_error {
            Some(error) => RpcError::Write { method, error },
            None => RpcError::Timeout { method, after: limit.unwrap_or_default() },
        };
        Some(Expired { ticket: Ticket(id), error })
    }

    /// Everything that waits, in the order it was asked. Called on every way a conversation ends.
    pub fn drain(&mut self) -> Vec<(Ticket, String)> {
        std::mem::take(&mut self.waiting).into_iter().map(|(id, w)| (Ticket(id), w.method)).collect()
    }
}
