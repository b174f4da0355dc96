//! One folder or file per CLI, and the seam they all share with the run.
//!
//! An agent is a static table plus `launch`, which plans one start and gives the protocol it speaks:
//! a [`Decoder`] (sans I/O: lines in, messages and stdin frames out) or a [`Dialogue`] (an async
//! conversation). Adding a CLI touches its own folder and one line of [`REGISTRY`].

pub mod acp;
pub mod antigravity;
pub mod args;
pub mod claude;
pub mod codebuddy;
pub mod codex;
pub mod copilot;
pub mod cursor;
pub mod deveco;
pub mod evidence;
pub mod foreign;
pub mod grok;
pub mod hermes;
pub mod kimi;
pub mod kiro;
pub mod native;
pub mod openclaw;
pub mod opencode;
pub mod pi;
pub mod prompt;
pub mod qoder;
pub mod qwen;
pub mod stream_json;
#[cfg(test)]
pub mod testing;
pub mod traecli;

use std::any::Any;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, watch};

use crate::contract::{AgentplugError, BlockedFlag, Capabilities, ExecuteOptions, Message, Os, Outcome};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;
use crate::process::stderr::StderrTail;

pub use evidence::{End, Evidence, Exit, Retry, Stop, StopReason, Verdict, converge};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Every provider, in the order `providers` lists them.
#[rustfmt::skip] // one line each
pub static REGISTRY: &[&Agent] = &[
    &claude::AGENT,
    &codebuddy::AGENT,
    &codex::AGENT,
    &copilot::AGENT,
    &opencode::AGENT,
    &deveco::AGENT,
    &openclaw::AGENT,
    &hermes::AGENT,
    &pi::AGENT,
    &cursor::AGENT,
    &kimi::AGENT,
    &kiro::AGENT,
    &antigravity::AGENT,
    &qoder::AGENT,
    &traecli::AGENT,
    &grok::AGENT,
    &qwen::AGENT,
];

pub fn find(id: &str) -> Option<&'static Agent> {
    REGISTRY.iter().copied().find(|a| a.id == id)
}

/// The static table of one CLI.
pub struct Agent {
    pub id: &'static str,
    /// The name in error texts ("cursor-agent timed out after 5s").
    pub name: &'static str,
    /// Default command names, tried in order.
    pub executables: &'static [&'static str],
    /// Folders where installers put it outside PATH, tried after PATH and the login shell. `~/` is the home.
    pub known_paths: &'static [&'static str],
    pub min_version: Option<&'static str>,
    /// Flags of ours that callers' arguments may not repeat.
    pub blocked: &'static [BlockedFlag],
    /// What customArgs get appended to, for people.
    pub launch_header: &'static str,
    pub capabilities: Capabilities,
    /// Default of `idleTimeoutMs`.
    pub idle_timeout: Duration,
    /// How long pipes may stay open after the leader's exit.
    pub drain: Duration,
    /// Checks that need no machine (a prompt the CLI cannot take). Runs inside `execute`, before anything starts.
    pub check: fn(prompt: &str, options: &ExecuteOptions) -> Result<(), AgentplugError>,
    /// Plans one start. Must not spawn anything but probes.
    pub launch: for<'a> fn(&'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>>,
}

pub fn no_check(_: &str, _: &ExecuteOptions) -> Result<(), AgentplugError> {
    Ok(())
}

/// What is known when a start is planned.
pub struct LaunchContext<'a> {
    pub prompt: &'a str,
    pub options: &'a ExecuteOptions,
    /// The environment the child will get, before `Launch::env`.
    pub env: &'a ChildEnv,
    /// The resolved executable, absolute.
    pub program: &'a PathBuf,
    /// Cached `--version` / `--help` of this executable.
    pub prober: &'a Prober,
    /// Private temp files of this run (0600 in a 0700 folder), removed when the run ends.
    pub files: &'a RunFiles,
    pub os: Os,
    pub run_id: &'a str,
    /// 1, or 2 after [`Evidence::retry`].
    pub attempt: u32,
}

/// One planned start.
pub struct Launch {
    /// Started instead of the resolved executable: the native binary behind its launcher.
    pub program: Option<PathBuf>,
    /// Arguments after the executable and the launch prefix.
    pub args: Vec<String>,
    /// Added last; wins over the caller's entries.
    pub env: Vec<(String, String)>,
    pub protocol: Protocol,
    /// Dropped when the run ends: files to restore, locks to release.
    pub guards: Vec<Box<dyn Any + Send>>,
}

impl Launch {
    pub fn lines(args: Vec<String>, decoder: impl Decoder + 'static) -> Self {
        Self::new(args, Protocol::Lines(Box::new(decoder)))
    }
    pub fn dialogue(args: Vec<String>, dialogue: impl Dialogue + 'static) -> Self {
        Self::new(args, Protocol::Dialogue(Box::new(dialogue)))
    }
    fn new(args: Vec<String>, protocol: Protocol) -> Self {
        Launch { program: None, args, env: Vec::new(), protocol, guards: Vec::new() }
    }
}

pub enum Protocol {
    Lines(Box<dyn Decoder>),
    Dialogue(Box<dyn Dialogue>),
}

/// A line of stdout without its line end: valid UTF-8, trimmed, never empty, no lone surrogate escapes,
/// terminal escape sequences before the frame cut off. As it stands where [`Decoder::verbatim`] says so.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub text: &'a str,
    /// false: stdout ended within this line.
    pub terminated: bool,
}

/// What a decoder gives back for one input.
#[derive(Debug, Default)]
pub struct Output {
    pub messages: Vec<Message>,
    /// Whole frames for stdin, written in order by one writer.
    pub writes: Vec<Vec<u8>>,
    /// Close stdin once everything before is written.
    pub close_stdin: bool,
    /// The CLI's terminal event was seen: the process gets a bounded time to exit.
    pub terminal: bool,
    /// The turn looks over, but this CLI has no event that says so for certain: should nothing follow for a
    /// while, that counts as its end. Any later line takes it back.
    pub settled: bool,
    /// Do not wait for the exit: stop the tree now (CLIs that leave a worker behind).
    pub stop_now: bool,
}

impl Output {
    pub fn emit(&mut self, message: Message) {
        self.messages.push(message);
    }
    /// Queues one JSON value as a line.
    pub fn write_json(&mut self, value: &impl serde::Serialize) {
        let mut bytes = serde_json::to_vec(value).expect("our own frames serialize");
        bytes.push(b'\n');
        self.writes.push(bytes);
    }
    pub fn write(&mut self, bytes: impl Into<Vec<u8>>) {
        self.writes.push(bytes.into());
    }
}

/// Turns one CLI's stdout lines into Messages and evidence. Does no I/O.
pub trait Decoder: Send {
    /// Once, right after the spawn: the prompt on stdin, or nothing (then stdin must be closed here).
    fn open(&mut self, out: &mut Output);
    fn line(&mut self, line: Line<'_>, out: &mut Output);
    /// Lines come with their white space, blank ones too: stdout may be the answer itself.
    fn verbatim(&self) -> bool {
        false
    }
    /// stdout has ended: flush what was held back.
    fn end_of_stdout(&mut self, _out: &mut Output) {}
    /// What was seen, once the process is gone.
    fn evidence(&mut self, end: &End) -> Evidence;
    /// Last word on the outcome (resume phrases are matched here, on raw text). Redaction follows after it.
    fn conclude(&mut self, _outcome: &mut Outcome, _end: &End) {}
}

/// A conversation over the child's stdin and stdout.
pub trait Dialogue: Send {
    /// Ends when the turn is over, on a protocol fault, at the end of stdout, or soon after `io.stop` fired
    /// (the protocol's own cancel is sent from here). Dropping the future must be safe at any await.
    fn converse<'a>(&'a mut self, io: DialogueIo) -> BoxFuture<'a, ()>;
    fn evidence(&mut self, end: &End) -> Evidence;
    fn conclude(&mut self, _outcome: &mut Outcome, _end: &End) {}
}

pub struct DialogueIo {
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub emit: Emitter,
    pub stop: StopSignal,
    /// Live view of the last bytes of stderr.
    pub stderr: StderrTail,
}

/// Where a dialogue sends its Messages; waits while a slow reader holds the queue full.
#[derive(Clone)]
pub struct Emitter {
    messages: mpsc::Sender<Message>,
    marks: Arc<Marks>,
}

#[derive(Default)]
struct Marks {
    terminal: AtomicBool,
    stop_now: AtomicBool,
    changed: Notify,
}

impl Emitter {
    pub fn new(messages: mpsc::Sender<Message>) -> Self {
        Emitter { messages, marks: Arc::default() }
    }
    pub async fn send(&self, message: Message) {
        // The receiver lives as long as the run; after its end nobody can read the message any more.
        let _ = self.messages.send(message).await;
    }
    /// Marks the CLI's terminal event: a stop or limit that fires later does not change the outcome.
    pub fn terminal(&self) {
        self.marks.terminal.store(true, Ordering::SeqCst);
        self.marks.changed.notify_one();
    }
    pub fn is_terminal(&self) -> bool {
        self.marks.terminal.load(Ordering::SeqCst)
    }
    /// Once the conversation is over, stop the tree without waiting for its exit: this CLI has nothing left to
    /// save, and leaves slowly or not at all.
    pub fn stop_now(&self) {
        self.marks.stop_now.store(true, Ordering::SeqCst);
    }
    pub fn wants_stop(&self) -> bool {
        self.marks.stop_now.load(Ordering::SeqCst)
    }
    /// Waits until the terminal event is marked, so that the run need not wait for a Message to learn of it.
    pub async fn marked(&self) {
        self.marks.changed.notified().await;
    }
}

/// Tells a dialogue that the run is being stopped.
#[derive(Clone)]
pub struct StopSignal(pub watch::Receiver<Option<Stop>>);

impl StopSignal {
    pub fn pair() -> (watch::Sender<Option<Stop>>, StopSignal) {
        let (tx, rx) = watch::channel(None);
        (tx, StopSignal(rx))
    }
    pub fn now(&self) -> Option<Stop> {
        self.0.borrow().clone()
    }
    /// Waits for the stop; never returns while the run goes on.
    pub async fn requested(&mut self) -> Stop {
        loop {
            if let Some(stop) = self.0.borrow_and_update().clone() {
                return stop;
            }
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_terminal_mark_wakes_whoever_waits_for_it() {
        let emit = Emitter::new(mpsc::channel(1).0);
        let marked = emit.marked();
        tokio::pin!(marked);
        assert!(futures_pending(&mut marked).await && !emit.is_terminal());
        emit.clone().terminal();
        marked.await;
        assert!(emit.is_terminal() && !emit.wants_stop());
        // A mark that comes before anybody waits is not lost.
        emit.terminal();
        emit.marked().await;
    }

    async fn futures_pending(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
    }
}
