//! Messages between a run and whoever reads it: bounded, lossless while somebody reads, one wake at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::contract::Message;
use crate::contract::limits::{MESSAGE_BUFFER_BYTES, QUEUE_HIGH_BYTES, QUEUE_LOW_BYTES};

/// Called when there is something for a reader that found nothing, and once (with `true`) at the end; dropped
/// then. Must not block.
pub type Wake = Arc<dyn Fn(bool) + Send + Sync>;

pub struct Queue {
    state: Mutex<State>,
    room: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Bytes kept while nobody reads; beyond it the oldest go.
    keep: usize,
    /// Messages that went that way since the reader was last told.
    dropped: u64,
    reader: bool,
    /// The reader found nothing and wants to be woken.
    armed: bool,
    /// The run is being stopped: pushes no longer wait for a slow reader.
    stopping: bool,
    finished: bool,
    wake: Option<Wake>,
}

/// What a drain gave.
#[derive(Debug, PartialEq)]
pub enum Drained {
    Messages(Vec<Message>),
    /// Nothing now; the wake function will be called.
    Empty,
    /// Nothing any more.
    Finished,
}

impl Queue {
    pub fn new(keep: usize, wake: Wake) -> Self {
        Queue { state: Mutex::new(State { keep, wake: Some(wake), ..State::default() }), room: Notify::new() }
    }

    /// Adds `messages` (emptied). `false` = the queue is full and a reader is attached: wait for [`Queue::room`].
    pub fn push(&self, messages: &mut Vec<Message>) -> bool {
        if messages.is_empty() {
            return self.lock().has_room();
        }
        let mut state = self.lock();
        for message in messages.drain(..) {
            state.bytes += message.weight();
            state.messages.push_back(message);
        }
        if !state.reader || state.stopping {
            state.forget_oldest();
        }
        let has_room = state.has_room();
        let wake = if std::mem::take(&mut state.armed) { state.wake.clone() } else { None };
        drop(state);
        if let Some(wake) = wake {
            wake(false);
        }
        has_room
    }

    /// Waits until a slow reader has made room (or none is attached, or the run is being stopped).
    pub async fn room(&self) {
        loop {
            let notified = self.room.notified();
            tokio::pin!(notified);
            // Registered before the look, so that a drain in between is not missed.
            notified.as_mut().enable();
            {
                let state = self.lock();
                if !state.reader || state.stopping || state.bytes <= QUEUE_LOW_BYTES {
                    return;
                }
            }
            notified.await;
        }
    }

    /// From now on a full queue stops the reading of stdout instead of forgetting messages.
    pub fn attach_reader(&self) {
        self.lock().reader = true;
    }

    /// Pushes no longer wait: the run must be able to end whatever the reader does.
    pub fn stop_waiting(&self) {
        self.lock().stopping = true;
        self.room.notify_waiters();
    }

    /// No message comes after this.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.finished = true;
        state.armed = false;
        let wake = state.wake.take();
        drop(state);
        if let Some(wake) = wake {
            wake(true);
        }
    }

    /// At most `max` messages of at most about `max_bytes`, at least one if there is any.
    pub fn drain(&self, max: usize, max_bytes: usize) -> Drained {
        let mut state = self.lock();
        state.reader = true;
        let mut taken = Vec::new();
        let mut bytes = 0;
        if state.dropped > 0 {
            let n = std::mem::take(&mut state.dropped);
            taken.push(Message::log(
                "warn",
                format!(
                    "{n} earlier messages were dropped: nobody read them and messageBufferBytes was reached"
                ),
            ));
        }
        while taken.len() < max && bytes < max_bytes {
            let Some(message) = state.messages.pop_front() else { break };
            bytes += message.weight();
            taken.push(message);
        }
        state.bytes -= bytes;
        let room = state.bytes <= QUEUE_LOW_BYTES;
        let result = match (taken.is_empty(), state.finished) {
            (false, _) => Drained::Messages(taken),
            (true, true) => Drained::Finished,
            (true, false) => {
                state.armed = true;
                Drained::Empty
            }
        };
        drop(state);
        if room {
            self.room.notify_waiters();
        }
        result
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    fn has_room(&self) -> bool {
        !self.reader || self.stopping || self.bytes <= QUEUE_HIGH_BYTES
    }

    fn forget_oldest(&mut self) {
        // `messageBufferBytes` is for runs that nobody reads: a small one must not cost a reader what waits for it.
        let keep = if self.reader { self.keep.max(MESSAGE_BUFFER_BYTES) } else { self.keep };
        while self.bytes > keep && self.messages.len() > 1 {
            if let Some(oldest) = self.messages.pop_front() {
                self.bytes -= oldest.weight();
                self.dropped += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn queue(keep: usize) -> (Arc<Queue>, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let w = woken.clone();
        let wake: Wake = Arc::new(move |_| {
            w.fetch_add(1, Ordering::SeqCst);
        });
        (Arc::new(Queue::new(keep, wake)), woken)
    }

    fn push(q: &Queue, texts: &[&str]) -> bool {
        q.push(&mut texts.iter().map(|t| Message::text(*t)).collect())
    }

    fn texts(drained: Drained) -> Vec<String> {
        let Drained::Messages(messages) = drained else { panic!("{drained:?}") };
        messages
            .into_iter()
            .map(|m| match m {
                Message::Text { content, .. } | Message::Log { content, .. } => content,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn wakes_only_an_armed_reader_and_always_at_the_end() {
        let (q, woken) = queue(1 << 20);
        push(&q, &["a"]);
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        assert_eq!(texts(q.drain(10, 1000)), ["a"]);
        assert_eq!(q.drain(10, 1000), Drained::Empty);
        push(&q, &["b", "c"]);
        push(&q, &["d"]);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert_eq!(texts(q.drain(2, 1000)), ["b", "c"]);
        q.finish();
        assert_eq!(woken.load(Ordering::SeqCst), 2);
        assert_eq!(texts(q.drain(2, 1000)), ["d"]);
        assert_eq!(q.drain(2, 1000), Drained::Finished);
        assert_eq!(q.drain(2, 1000), Drained::Finished);
    }

    #[test]
    fn without_a_reader_the_oldest_go_and_the_first_message_read_says_how_many() {
        let (q, _) = queue(3 * (64 + 1));
        for t in ["1", "2", "3", "4", "5"] {
            assert!(push(&q, &[t]), "never back-pressure without a reader");
        }
        let got = texts(q.drain(10, 10_000));
        assert!(got[0].starts_with("2 earlier messages were dropped"), "{}", got[0]);
        assert_eq!(got[1..], ["3", "4", "5"]);
    }

    #[test]
    fn one_message_above_the_bound_is_still_kept() {
        let (q, _) = queue(10);
        push(&q, &["much longer than ten bytes"]);
        assert_eq!(texts(q.drain(1, 1)), ["much longer than ten bytes"]);
    }

    #[tokio::test]
    async fn a_full_queue_waits_for_its_reader_and_loses_nothing() {
        let (q, _) = queue(1 << 20);
        q.attach_reader();
        let big = "x".repeat(QUEUE_HIGH_BYTES / 4);
        let mut pushed = 1;
        while push(&q, &[&big]) {
            pushed += 1;
        }
        assert_eq!(pushed, 4);
        let waiter = tokio::spawn({
            let q = q.clone();
            async move { q.room().await }
        });
        let mut read = 0;
        while q.bytes() > 0 {
            read += texts(q.drain(1, 1)).len();
        }
        waiter.await.unwrap();
        assert_eq!(read, pushed);
    }

    #[test]
    fn a_stopping_run_forgets_nothing_of_what_its_reader_was_to_get() {
        let (q, _) = queue(1);
        q.attach_reader();
        push(&q, &["a"]);
        push(&q, &["b"]);
        q.stop_waiting();
        push(&q, &["c"]);
        assert_eq!(texts(q.drain(10, 1000)), ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_stopping_run_never_waits() {
        let (q, _) = queue(1 << 20);
        q.attach_reader();
        let waiter = tokio::spawn({
            let q = q.clone();
            async move {
                q.push(&mut vec![Message::text("x".repeat(2 * QUEUE_HIGH_BYTES))]);
                q.room().await
            }
        });
        q.stop_waiting();
        waiter.await.unwrap();
    }
}
