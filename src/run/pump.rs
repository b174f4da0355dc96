//! Carries a conversation: a decoder's lines, or a dialogue's messages, into the queue.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::AsyncRead;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, mpsc};

use super::activity::Activity;
use super::queue::Queue;
use super::writer::Writer;
use crate::agents::{Decoder, Dialogue, DialogueIo, Emitter, Line, Output, StopSignal};
use crate::contract::Message;
use crate::process::stderr::StderrTail;
use crate::wire::lines::{LineReader, normalize, verbatim};

/// Messages of a dialogue on their way to the queue.
const DIALOGUE_CHANNEL: usize = 64;

/// What the pump and the supervisor tell each other.
pub struct Link<'a> {
    pub queue: &'a Queue,
    pub activity: Activity,
    pub session_id: &'a Mutex<Option<String>>,
    pub terminal: AtomicBool,
    /// The turn looks over and no line has come since.
    pub settled: AtomicBool,
    pub stop_now: AtomicBool,
    /// Any message was produced.
    pub spoke: AtomicBool,
    pub nudge: Notify,
}

impl<'a> Link<'a> {
    pub fn new(queue: &'a Queue, session_id: &'a Mutex<Option<String>>) -> Self {
        Link {
            queue,
            activity: Activity::new(),
            session_id,
            terminal: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            stop_now: AtomicBool::new(false),
            spoke: AtomicBool::new(false),
            nudge: Notify::new(),
        }
    }

    /// Into the queue; waits while a slow reader holds it full.
    async fn push(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        self.spoke.store(true, Ordering::Relaxed);
        if self.activity.note(messages) {
            self.nudge.notify_one();
        }
        if let Some(id) = messages.iter().rev().find_map(|m| match m {
            Message::Status { session_id: Some(id), .. } => Some(id),
            _ => None,
        }) {
            *self.session_id.lock().unwrap_or_else(|e| e.into_inner()) = Some(id.clone());
        }
        if !self.queue.push(messages) {
            self.activity.set_blocked(true);
            self.queue.room().await;
            self.activity.set_blocked(false);
            self.nudge.notify_one();
        }
    }

    fn mark_terminal(&self) {
        if !self.terminal.swap(true, Ordering::SeqCst) {
            self.nudge.notify_one();
        }
    }
}

/// How the reading of stdout ended.
#[derive(Debug, Default)]
pub struct ReadEnd {
    pub error: Option<String>,
    pub unterminated: bool,
}

pub async fn pump_lines(
    decoder: &mut dyn Decoder,
    stdout: impl AsyncRead + Unpin,
    writer: Arc<Mutex<Writer>>,
    link: &Link<'_>,
) -> ReadEnd {
    let writer = &*writer;
    let mut reader = LineReader::new(stdout);
    let mut out = Output::default();
    let mut end = ReadEnd::default();
    let read: fn(&[u8]) -> Option<Cow<'_, str>> =
        if decoder.verbatim() { |raw| Some(verbatim(raw)) } else { normalize };
    decoder.open(&mut out);
    apply(&mut out, writer, link).await;
    loop {
        while let Some(raw) = reader.take_line() {
            if let Some(text) = read(raw) {
                decoder.line(Line { text: &text, terminated: true }, &mut out);
                obey(&mut out, writer, link);
            }
        }
        link.push(&mut out.messages).await;
        match reader.fill().await {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => {
                end.error = Some(e.to_string());
                break;
            }
        }
    }
    if end.error.is_none()
        && let Some(rest) = reader.take_rest()
        && let Some(text) = read(&rest)
    {
        end.unterminated = true;
        decoder.line(Line { text: &text, terminated: false }, &mut out);
    }
    decoder.end_of_stdout(&mut out);
    apply(&mut out, writer, link).await;
    end
}

async fn apply(out: &mut Output, writer: &Mutex<Writer>, link: &Link<'_>) {
    obey(out, writer, link);
    link.push(&mut out.messages).await;
}

/// Does everything of an output that never waits.
fn obey(out: &mut Output, writer: &Mutex<Writer>, link: &Link<'_>) {
    if !out.writes.is_empty() || out.close_stdin {
        let mut writer = writer.lock().unwrap_or_else(|e| e.into_inner());
        for frame in out.writes.drain(..) {
            writer.write(frame);
        }
        if std::mem::take(&mut out.close_stdin) {
            writer.close();
        }
    }
    if std::mem::take(&mut out.stop_now) {
        link.stop_now.store(true, Ordering::SeqCst);
        link.nudge.notify_one();
    }
    let settled = std::mem::take(&mut out.settled);
    if link.settled.swap(settled, Ordering::SeqCst) != settled {
        link.nudge.notify_one();
    }
    if std::mem::take(&mut out.terminal) {
        link.mark_terminal();
    }
}

pub async fn pump_dialogue(
    dialogue: &mut dyn Dialogue,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: StderrTail,
    stop: StopSignal,
    link: &Link<'_>,
) -> ReadEnd {
    let (sender, mut messages) = mpsc::channel(DIALOGUE_CHANNEL);
    let emit = Emitter::new(sender);
    let watched = emit.clone();
    let io = DialogueIo { stdin: Box::new(stdin), stdout: Box::new(stdout), emit, stop, stderr };
    let mut conversation = dialogue.converse(io);
    let mut batch = Vec::new();
    loop {
        let over = tokio::select! {
            () = &mut conversation => true,
            _ = messages.recv_many(&mut batch, DIALOGUE_CHANNEL) => false,
            () = watched.marked() => false,
        };
        if over {
            while let Ok(message) = messages.try_recv() {
                batch.push(message);
            }
        }
        if watched.is_terminal() {
            link.mark_terminal();
        }
        link.push(&mut batch).await;
        if over && watched.wants_stop() {
            link.stop_now.store(true, Ordering::SeqCst);
            link.nudge.notify_one();
        }
        if over {
            return ReadEnd::default();
        }
    }
}
