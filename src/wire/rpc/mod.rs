//! One side of a JSON-RPC conversation over lines.
//!
//! A [`Peer`] has a single owner and no task of its own: [`Peer::next`] reads, writes and watches the
//! deadlines, and gives everything the other side said as one stream of events in wire order. A response is
//! an event like any other, so a notification that was written before a response is seen before it.
//! [`Peer::call`] waits for one response and hands what comes meanwhile to a [`Handler`], in order.
//!
//! Dropping the peer, or the future of `next` or `call`, is safe at any time: no frame is cut, no event lost.

mod frame;
mod outbox;
mod pending;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::lines::{LineReader, ReadError, normalize};
use crate::contract::duration;

use frame::Routed;
pub use frame::{ErrorObject, Payload};
use outbox::{Outbox, Writer};
pub use outbox::{ServerRequest, code};
pub use pending::Ticket;
use pending::{Expired, Pending};

pub type Source = Box<dyn AsyncRead + Send + Unpin>;
pub type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Answers waiting for a server that does not read its input. Above this the conversation ends: reading on
/// would cost memory without bound, and to stop reading could block both sides for ever.
const MAX_UNREAD_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// After a failed write the other side is mostly gone and its last words are still to be read. A request
/// that never left waits this long for the end of the stream before it fails.
const AFTER_WRITE_ERROR: Duration = Duration::from_secs(1);

/// How frames of ours are spelled.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Put `"jsonrpc":"2.0"` into each frame. It is never required on input.
    pub jsonrpc: bool,
    /// Longest line accepted, in bytes.
    pub max_line: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { jsonrpc: true, max_line: crate::contract::limits::MAX_LINE_BYTES }
    }
}

/// What the other side said, in wire order.
#[derive(Debug)]
pub enum Event {
    /// The end of a request of ours; each request gets exactly one.
    Response {
        ticket: Ticket,
        outcome: Result<Payload, RpcError>,
    },
    /// Wants exactly one answer; dropped unanswered, it is answered with an error.
    Request(ServerRequest),
    Notification {
        method: String,
        params: Payload,
    },
    /// A line that is no frame: a banner, a warning, a broken frame. Never answered.
    Foreign {
        text: String,
        terminated: bool,
    },
    /// Nothing more will come. Pending requests got their error before it.
    Closed(CloseReason),
}

/// Why the stream of events ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The other side closed its output, as a process does when it exits.
    #[error("process exited")]
    Eof,
    #[error("token too long: a line exceeds {0} bytes")]
    LineTooLong(usize),
    #[error("stdout read error: {0}")]
    Read(String),
    #[error("the process does not read its input: {0} bytes of answers are waiting")]
    Stuck(usize),
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RpcError {
    /// The other side answered with an error.
    #[error("{0}")]
    Remote(ErrorObject),
    #[error("{method} did not respond after {}", duration::format(*.after))]
    Timeout { method: String, after: Duration },
    /// The stream ended first.
    #[error("{reason}")]
    Closed { method: String, reason: CloseReason },
    /// The request never left.
    #[error("write {method}: {error}")]
    Write { method: String, error: String },
}

impl RpcError {
    /// The error object, where the other side gave one.
    pub fn remote(&self) -> Option<&ErrorObject> {
        match self {
            RpcError::Remote(object) => Some(object),
            _ => None,
        }
    }
}

/// Takes what arrives while [`Peer::call`] waits: everything but the awaited response.
pub trait Handler: Send {
    fn event(&mut self, event: Event) -> impl Future<Output = ()> + Send;
}

pub struct Peer {
    reader: LineReader<Source>,
    writer: Writer,
    outbox: Outbox,
    pending: Pending,
    /// Events made by ourselves: the failures of requests that could not be sent or answered.
    ready: VecDeque<Event>,
    closed: Option<CloseReason>,
}

impl Peer {
    pub fn new(source: Source, sink: Sink, config: Config) -> Self {
        let (outbox, writer) = outbox::pair(sink, config.jsonrpc);
        Peer {
            reader: LineReader::with_limit(source, config.max_line),
            writer,
            outbox,
            pending: Pending::default(),
            ready: VecDeque::new(),
            closed: None,
        }
    }

    /// Queues a request; its response is an [`Event::Response`] of [`Peer::next`]. `None` = no time limit.
    /// The limit counts from here, so it covers a slow write too.
    pub fn request(&mut self, method: &str, params: &impl Serialize, limit: Option<Duration>) -> Ticket {
        let ticket = self.pending.ticket();
        let failed = match (&self.closed, self.writer.error()) {
            (Some(reason), _) => Some(RpcError::Closed { method: method.to_owned(), reason: reason.clone() }),
            (None, Some(error)) => {
                Some(RpcError::Write { method: method.to_owned(), error: error.to_owned() })
            }
            (None, None) => None,
        };
        match failed {
            Some(error) => self.ready.push_back(Event::Response { ticket, outcome: Err(error) }),
            None => {
                self.pending.insert(ticket, method, limit);
                self.outbox.request(ticket, method, params);
            }
        }
        ticket
    }

    /// Queues a notification. `None` = without a `params` member.
    pub fn notify(&mut self, method: &str, params: Option<&serde_json::Value>) {
        self.outbox.notification(method, params);
    }

    /// Closes the other side's input once everything queued is written.
    pub fn close_input(&mut self) {
        self.writer.close();
    }

    /// Sends a request and waits for its response; everything else goes to `handler` as it comes.
    pub async fn call(
        &mut self,
        handler: &mut impl Handler,
        method: &str,
        params: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<Payload, RpcError> {
        let ticket = self.request(method, params, limit);
        self.wait(handler, ticket).await
    }

    /// Waits for the response of a request already sent.
    pub async fn wait(&mut self, handler: &mut impl Handler, ticket: Ticket) -> Result<Payload, RpcError> {
        loop {
            match self.next().await {
                Event::Response { ticket: t, outcome } if t == ticket => return outcome,
                // Its response was taken by somebody else: nothing will ever come.
                Event::Closed(reason) => return Err(RpcError::Closed { method: String::new(), reason }),
                other => handler.event(other).await,
            }
        }
    }

    /// The next event. After [`Event::Closed`] it gives that again, at once.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if let Some(reason) = &self.closed {
                return Event::Closed(reason.clone());
            }
            if let Some(raw) = self.reader.take_line() {
                let routed = normalize(raw).and_then(|line| frame::route(&line, true));
                if let Some(event) = self.admit(routed) {
                    return event;
                }
                continue;
            }
            let unread = self.outbox.unread_answers();
            if unread > MAX_UNREAD_ANSWER_BYTES {
                self.close(CloseReason::Stuck(unread));
                continue;
            }
            match self.pending.expired(Instant::now()) {
                Some(Expired { ticket, error }) => return Event::Response { ticket, outcome: Err(error) },
                None => self.work().await,
            }
        }
    }

    /// One step of whatever can go on. Writing comes first, but it is pending as soon as the other side
    /// stops reading, so neither direction starves the other.
    async fn work(&mut self) {
        let deadline = self.pending.next_deadline();
        let overdue = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            written = self.writer.step() => match written {
                Ok(Some(ticket)) => self.pending.written(ticket),
                Ok(None) => {}
                Err(error) => self.pending.write_failed(&error.to_string(), Instant::now() + AFTER_WRITE_ERROR),
            },
            read = self.reader.fill() => match read {
                Ok(true) => {}
                Ok(false) => {
                    let rest = self.reader.take_rest();
                    let routed = rest.as_deref().and_then(normalize).and_then(|line| frame::route(&line, false));
                    let last = self.admit(routed);
                    self.close(CloseReason::Eof);
                    if let Some(event) = last {
                        self.ready.push_front(event);
                    }
                }
                Err(ReadError::LineTooLong(max)) => self.close(CloseReason::LineTooLong(max)),
                Err(ReadError::Io(e)) => self.close(CloseReason::Read(e.to_string())),
            },
            () = overdue => {}
        }
    }

    fn admit(&mut self, routed: Option<Routed>) -> Option<Event> {
        Some(match routed? {
            Routed::Response { id, outcome } => {
                let Some((ticket, method)) = id.and_then(|id| self.pending.take(id)) else {
                    tracing::debug!("ignored a response to no open request");
                    return None;
                };
                let outcome = outcome.map_err(|mut object| {
                    object.method = method;
                    RpcError::Remote(object)
                });
                Event::Response { ticket, outcome }
            }
            Routed::Request { id, method, params } => {
                Event::Request(ServerRequest::new(self.outbox.clone(), id, method, params))
            }
            Routed::Notification { method, params } => Event::Notification { method, params },
            Routed::Foreign { text, terminated } => Event::Foreign { text, terminated },
        })
    }

    fn close(&mut self, reason: CloseReason) {
        for (ticket, method) in self.pending.drain() {
            let error = RpcError::Closed { method, reason: reason.clone() };
            self.ready.push_back(Event::Response { ticket, outcome: Err(error) });
        }
        self.closed = Some(reason);
    }
}
