//! The one way out: whole frames, in order, by one writer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::frame::Payload;
use super::{Sink, Ticket};

/// Error codes of answers.
pub mod code {
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
}

struct Frame {
    bytes: Vec<u8>,
    ticket: Option<Ticket>,
    /// It answers a request of the other side.
    answer: bool,
}

#[derive(Clone)]
pub(super) struct Outbox {
    frames: mpsc::UnboundedSender<Frame>,
    unread_answers: Arc<AtomicUsize>,
    jsonrpc: Option<&'static str>,
}

#[derive(Serialize)]
struct Wire<'a, P: Serialize, R: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Id<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<WireError<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Ours(u64),
    /// Echoed byte for byte: number, string or null.
    Theirs(&'a RawValue),
}

#[derive(Serialize)]
struct WireError<'a> {
    code: i64,
    message: &'a str,
}

impl Outbox {
    pub fn request(&self, ticket: Ticket, method: &str, params: &impl Serialize) {
        let wire = Wire::<_, ()> {
            jsonrpc: self.jsonrpc,
            id: Some(Id::Ours(ticket.0)),
            method: Some(method),
            params: Some(params),
            result: None,
            error: None,
        };
        self.send(&wire, Some(ticket), false);
    }

    pub fn notification(&self, method: &str, params: Option<&Value>) {
        let wire = Wire::<_, ()> {
            jsonrpc: self.jsonrpc,
            id: None,
            method: Some(method),
            params,
            result: None,
            error: None,
        };
        self.send(&wire, None, false);
    }

    fn answer(&self, id: &RawValue, outcome: Result<&impl Serialize, WireError<'_>>) {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        let wire = Wire::<(), _> {
            jsonrpc: self.jsonrpc,
            id: Some(Id::Theirs(id)),
            method: None,
            params: None,
            result,
            error,
        };
        self.send(&wire, None, true);
    }

    fn send(&self, wire: &impl Serialize, ticket: Option<Ticket>, answer: bool) {
        let mut bytes = serde_json::to_vec(wire).expect("our own frames serialize");
        bytes.push(b'\n');
        if answer {
            self.unread_answers.fetch_add(bytes.len(), Ordering::Relaxed);
        }
        // The writer lives as long as the peer; after it nobody can send a frame any more.
        let _ = self.frames.send(Frame { bytes, ticket, answer });
    }

    pub fn unread_answers(&self) -> usize {
        self.unread_answers.load(Ordering::Relaxed)
    }
}

pub(super) fn pair(sink: Sink, jsonrpc: bool) -> (Outbox, Writer) {
    let (frames, queue) = mpsc::unbounded_channel();
    let outbox = Outbox { frames, unread_answers: Arc::default(), jsonrpc: jsonrpc.then_some("2.0") };
    let unread_answers = outbox.unread_answers.clone();
    let writer = Writer {
        sink: Some(sink),
        queue,
        unread_answers,
        current: None,
        unflushed: false,
        closing: false,
        error: None,
    };
    (outbox, writer)
}

pub(super) struct Writer {
    /// `None` after an error and after `close`.
    sink: Option<Sink>,
    queue: mpsc::UnboundedReceiver<Frame>,
    unread_answers: Arc<AtomicUsize>,
    /// The frame being written, and how much of it is.
    current: Option<(Frame, usize)>,
    unflushed: bool,
    closing: bool,
    error: Option<String>,
}

impl Writer {
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Why nothing can be written any more.
    pub fn error(&self) -> Option<&str> {
        match (&self.error, self.closing) {
            (Some(error), _) => Some(error),
            (None, true) => Some("the input was closed"),
            (None, false) => None,
        }
    }

    /// Writes a part of what waits; cancel-safe. Gives the ticket of a request that has left whole.
    /// Pending while there is nothing to do, and for ever after an error or the close.
    pub async fn step(&mut self) -> io::Result<Option<Ticket>> {
        let done = self.advance().await;
        if let Err(error) = &done {
            self.sink = None;
            self.current = None;
            self.error = Some(error.to_string());
        }
        done
    }

    async fn advance(&mut self) -> io::Result<Option<Ticket>> {
        let Some(sink) = &mut self.sink else { return std::future::pending().await };
        if self.current.is_none() {
            let frame = match self.queue.try_recv() {
                Ok(frame) => Some(frame),
                Err(_) if self.unflushed => {
                    sink.flush().await?;
                    self.unflushed = false;
                    return Ok(None);
                }
                Err(_) if self.closing => {
                    let closed = sink.shutdown().await;
                    self.sink = None;
                    return closed.map(|()| None);
                }
                Err(_) => self.queue.recv().await,
            };
            self.current = frame.map(|frame| (frame, 0));
        }
        // The queue cannot end: the peer that owns this writer also owns a sender.
        let Some((frame, done)) = &mut self.current else { return std::future::pending().await };
        let written = sink.write(&frame.bytes[*done..]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        *done += written;
        self.unflushed = true;
        if *done < frame.bytes.len() {
            return Ok(None);
        }
        let ticket = frame.ticket;
        if frame.answer {
            self.unread_answers.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
        }
        self.current = None;
        Ok(ticket)
    }
}

/// A request of the other side. It is answered exactly once: by `answer`, by `refuse`, or by an error when
/// it is dropped, so that the other side never waits in vain. May be answered from another task.
pub struct ServerRequest {
    pub method: String,
    pub params: Payload,
    id: Box<RawValue>,
    outbox: Option<Outbox>,
}

impl ServerRequest {
    pub(super) fn new(outbox: Outbox, id: Box<RawValue>, method: String, params: Payload) -> Self {
        ServerRequest { method, params, id, outbox: Some(outbox) }
    }

    /// The id as the other side wrote it.
    pub fn id(&self) -> &str {
        self.id.get()
    }

    pub fn answer(mut self, result: &impl Serialize) {
        if let Some(outbox) = self.outbox.take() {
            outbox.answer(&self.id, Ok(result));
        }
    }

    pub fn refuse(mut self, code: i64, message: &str) {
        self.error(code, message);
    }

    fn error(&mut self, code: i64, message: &str) {
        if let Some(outbox) = self.outbox.take() {
            outbox.answer(&self.id, Err::<&(), _>(WireError { code, message }));
        }
    }
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        let message = format!("no answer to {}", self.method);
        self.error(code::INTERNAL_ERROR, &message);
    }
}

impl std::fmt::Debug for ServerRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerRequest({} id {})", self.method, self.id.get())
    }
}
