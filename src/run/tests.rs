//! The run engine against real child processes: shell scripts that speak a tiny protocol.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::agents::{
    Agent, BoxFuture, Decoder, Dialogue, DialogueIo, End, Evidence, Launch, LaunchContext, Line, Output,
    Retry, Verdict, foreign::foreign, no_check,
};
use crate::contract::options::{EnvList, RunLimits};
use crate::contract::provider::{Capabilities, McpSupport, PromptVia};
use crate::contract::{Message, limits};

const CAPABILITIES: Capabilities = Capabilities {
    model: false,
    system_prompt: false,
    thread_name: false,
    max_turns: false,
    resume: false,
    resume_rejection: false,
    extra_args: false,
    custom_args: false,
    mcp_config: McpSupport::None,
    thinking_level: false,
    service_tier: false,
    streaming: true,
    thinking: false,
    usage: false,
    cost: false,
    prompt_via: PromptVia::Stdin,
};

const fn agent(
    id: &'static str,
    launch: for<'a> fn(&'a LaunchContext<'a>) -> BoxFuture<'a, Result<Launch, AgentplugError>>,
) -> Agent {
    Agent {
        id,
        name: id,
        executables: &["agentplug-test-cli"],
        known_paths: &[],
        min_version: None,
        blocked: &[],
        launch_header: "",
        capabilities: CAPABILITIES,
        idle_timeout: Duration::from_secs(60),
        drain: Duration::from_millis(300),
        check: no_check,
        launch,
    }
}

/// Lines: `text X`, `tool ID`, `done ID`, `again MS` (one more try after a pause), `settled X`, `result X`, `stop` (result, then stop at once); the prompt
/// on stdin.
static LINES: Agent = agent("lines", |ctx| {
    let decoder = TinyDecoder { prompt: ctx.prompt.to_owned(), ..Default::default() };
    Box::pin(async move { Ok(Launch::lines(Vec::new(), decoder)) })
});

/// Says `cancelled` on its own stdin when the run is stopped, and waits for the answer.
static TALK: Agent = agent("talk", |_| Box::pin(async { Ok(Launch::dialogue(Vec::new(), Talk::default())) }));

static PANICS: Agent = agent("panics", |_| Box::pin(async { Ok(Launch::lines(Vec::new(), Panicking)) }));

#[derive(Default)]
struct TinyDecoder {
    prompt: String,
    text: String,
    result: Option<String>,
    retry: Option<Retry>,
}

impl Decoder for TinyDecoder {
    fn open(&mut self, out: &mut Output) {
        out.write(std::mem::take(&mut self.prompt));
        out.close_stdin = true;
    }
    fn line(&mut self, line: Line<'_>, out: &mut Output) {
        match line.text.split_once(' ').unwrap_or((line.text, "")) {
            ("text", x) => {
                self.text = x.to_owned();
                out.emit(Message::text(x));
            }
            ("tool", id) => out.emit(Message::tool_use("t", id, None)),
            ("done", id) => out.emit(Message::tool_result(id, "")),
            ("again", ms) => {
                let after = Duration::from_millis(ms.parse().unwrap());
                self.retry = Some(Retry { after, fresh_session: false });
            }
            ("settled", x) => {
                self.result = Some(x.to_owned());
                out.settled = true;
            }
            (kind @ ("result" | "stop"), x) => {
                self.result = Some(x.to_owned());
                out.terminal = true;
                out.stop_now = kind == "stop";
            }
            _ => foreign(line, out),
        }
    }
    fn evidence(&mut self, _: &End) -> Evidence {
        Evidence {
            verdict: self.result.as_ref().map(|_| Verdict::Success),
            output: self.result.clone().unwrap_or_default(),
            partial: self.text.clone(),
            retry: self.retry,
            ..Default::default()
        }
    }
}

#[derive(Default)]
struct Talk {
    finished: bool,
    answer: String,
}

impl Dialogue for Talk {
    fn converse<'a>(&'a mut self, mut io: DialogueIo) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
            let mut lines = tokio::io::BufReader::new(io.stdout).lines();
            let mut asked = false;
            loop {
                tokio::select! {
                    line = lines.next_line() => match line {
                        Ok(Some(l)) if l == "end" => {
                            self.finished = true;
                            io.emit.terminal();
                            return;
                        }
                        Ok(Some(l)) => {
                            self.answer = l.clone();
                            io.emit.send(Message::text(l)).await;
                            if self.answer == "bye" { return; }
                        }
                        _ => return,
                    },
                    _ = io.stop.requested(), if !asked => {
                        asked = true;
                        io.stdin.write_all(b"cancel\n").await.unwrap();
                    }
                }
            }
        })
    }
    fn evidence(&mut self, _: &End) -> Evidence {
        Evidence {
            verdict: self.finished.then_some(Verdict::Success),
            output: self.answer.clone(),
            ..Default::default()
        }
    }
}

struct Panicking;

impl Decoder for Panicking {
    fn open(&mut self, out: &mut Output) {
        out.close_stdin = true;
    }
    fn line(&mut self, _: Line<'_>, _: &mut Output) {
        panic!("a bug with s3cret in it");
    }
    fn evidence(&mut self, _: &End) -> Evidence {
        Evidence::default()
    }
}

/// A run of a shell script, read to its end.
struct Bench {
    run: Run,
    woken: mpsc::Receiver<()>,
    folder: tempfile::TempDir,
}

/// A bound on hangs, not an expectation.
const PATIENCE: Duration = Duration::from_secs(30);

fn begin(agent: &'static Agent, script: &str, tune: impl FnOnce(&mut ExecuteOptions)) -> Bench {
    begin_aborted(agent, script, false, tune)
}

fn begin_aborted(
    agent: &'static Agent,
    script: &str,
    aborted: bool,
    tune: impl FnOnce(&mut ExecuteOptions),
) -> Bench {
    begin_owned(agent, script, aborted, 1, tune)
}

fn begin_owned(
    agent: &'static Agent,
    script: &str,
    aborted: bool,
    owner: u64,
    tune: impl FnOnce(&mut ExecuteOptions),
) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cli");
    // Written under another name first: a file open for writing in a forked child cannot be executed.
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = ExecuteOptions {
        cwd: folder.path().to_owned(),
        executable_path: Some(path),
        host_env: EnvList(std::env::vars().collect()),
        limits: RunLimits { cancel_grace: Duration::from_millis(200), ..Default::default() },
        ..Default::default()
    };
    tune(&mut options);
    let (tx, woken) = mpsc::channel();
    let tx = Mutex::new(tx);
    let wake = Arc::new(move |_| {
        let _ = tx.lock().unwrap().send(());
    });
    let run = Run::start(agent, "the prompt".into(), options, owner, aborted, wake).unwrap();
    Bench { run, woken, folder }
}

impl Bench {
    /// Waits for the next message, or for the end.
    fn next(&self) -> Option<Message> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.run.drain(1, 1) {
                Drained::Messages(mut m) => return m.pop(),
                Drained::Finished => return None,
                Drained::Empty => {
                    self.woken.recv_timeout(until - Instant::now()).expect("a wake before patience ends");
                }
            }
        }
    }

    fn rest(&self) -> Vec<Message> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn end(&self) -> RunResult {
        self.rest();
        self.run.end().expect("set before the last wake").expect("the CLI was started")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_env_is_gone(&self) -> bool {
        Tree::marked(self.run.id()).members().is_empty()
    }
}

#[test]
fn messages_come_before_the_result_and_the_prompt_arrives() {
    let b = begin(&LINES, "p=$(cat); echo banner; echo text $p; echo result ok", |_| {});
    assert_eq!(b.rest(), [Message::log("info", "banner"), Message::text("the prompt")]);
    let r = b.run.end().unwrap().unwrap();
    assert_eq!((r.status, r.output.as_str(), r.error), (RunStatus::Completed, "ok", None));
}

#[test]
fn nobody_has_to_read() {
    let b = begin(&LINES, "echo text a; echo result ok", |_| {});
    b.woken.recv_timeout(PATIENCE).unwrap();
    assert_eq!(b.run.end().unwrap().unwrap().status, RunStatus::Completed);
}

#[test]
fn an_exit_without_a_result_fails_with_the_stderr_tail() {
    let b = begin(&LINES, "cat >/dev/null; echo text part; echo boom token=abc >&2; exit 3", |_| {});
    let r = b.end();
    assert_eq!((r.status, r.partial_output.as_deref()), (RunStatus::Failed, Some("part")));
    let error = r.error.unwrap();
    assert!(error.starts_with("lines exited with error: exit status 3; lines stderr: boom"), "{error}");
    assert!(!error.contains("abc"), "redacted: {error}");
    assert_eq!(r.failure.unwrap().exit_code, Some(3));
}

#[test]
fn a_run_that_said_nothing_names_its_program_in_the_hint() {
    let r = begin(&LINES, "cat >/dev/null; exit 2", |_| {}).end();
    assert!(r.failure.unwrap().hint.unwrap().contains("failed before its first message"));
}

#[test]
fn a_result_that_never_exits_stays_completed() {
    let b = begin(&LINES, "echo stop ok; exec sleep 600", |_| {});
    assert_eq!(b.end().status, RunStatus::Completed);
    assert!(b.run_env_is_gone());
}

#[test]
fn a_grandchild_that_holds_stdout_does_not_hold_the_run() {
    let b = begin(&LINES, "sleep 600 & echo result ok", |_| {});
    assert_eq!(b.end().status, RunStatus::Completed);
    assert!(b.run_env_is_gone());
}

#[test]
fn a_descendant_in_a_session_of_its_own_is_stopped_too() {
    let b = begin(&LINES, "setsid sleep 600 & echo text up; wait", |_| {});
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
    assert!(b.run_env_is_gone());
}

#[test]
fn a_descendant_that_nothing_leads_to_once_its_parent_is_dead_is_stopped_too() {
    let b = begin(
        &LINES,
        "env -i setsid sh -c \"trap '' TERM; echo \\$\\$ > pid; echo text up; exec >&- 2>&-; while :; do sleep 0.2; done\" & wait",
        |_| {},
    );
    assert_eq!(b.next(), Some(Message::text("up")));
    let pid = std::fs::read_to_string(b.path("pid")).unwrap();
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
    assert!(!std::path::Path::new("/proc").join(pid.trim()).join("exe").exists());
}

#[test]
fn a_tree_that_ignores_sigterm_is_killed() {
    let b = begin(
        &LINES,
        "trap '' TERM; sh -c \"trap '' TERM; sleep 600; sleep 600\" & echo text up; while :; do sleep 600; done",
        |_| {},
    );
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    let r = b.end();
    assert_eq!((r.status, r.error.as_deref()), (RunStatus::Aborted, Some("execution cancelled")));
    assert!(b.run_env_is_gone());
}

#[test]
fn the_polite_stop_lets_a_child_clean_up() {
    let b = begin(
        &LINES,
        "trap 'echo clean > cleaned; exit 0' TERM; echo text up; while :; do sleep 0.05; done",
        |o| {
            o.limits.cancel_grace = Duration::from_secs(20);
        },
    );
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
    assert!(b.path("cleaned").exists());
}

#[test]
fn limits_end_a_silent_run_and_say_which() {
    let b = begin(&LINES, "exec sleep 600", |o| o.limits.timeout = Some(Duration::from_millis(50)));
    let r = b.end();
    assert_eq!((r.status, r.error.as_deref()), (RunStatus::Timeout, Some("lines timed out after 50ms")));
    let b = begin(&LINES, "echo text a; exec sleep 600", |o| o.limits.idle = Some(Duration::from_millis(50)));
    assert_eq!(b.end().failure.unwrap().limit, Some(Limit::Idle));
    let b = begin(&LINES, "echo tool c; exec sleep 600", |o| {
        o.limits.idle = Some(Duration::from_secs(600));
        o.limits.tool = Duration::from_millis(50);
    });
    assert_eq!(b.end().failure.unwrap().limit, Some(Limit::Tool));
}

#[test]
fn a_quiet_tool_is_no_idle_run_and_logs_are_no_progress() {
    let b = begin(&LINES, "echo tool c; sleep 1; echo done c; echo result ok", |o| {
        o.limits.idle = Some(Duration::from_millis(400));
    });
    assert_eq!(b.end().status, RunStatus::Completed);
    let b = begin(&LINES, "while :; do echo still trying; sleep 0.05; done", |o| {
        o.limits.idle = Some(Duration::from_millis(300));
    });
    assert_eq!(b.end().status, RunStatus::Timeout);
}

#[test]
fn a_limit_that_fires_after_the_result_changes_nothing() {
    let b = begin(&LINES, "echo result ok; exec sleep 600", |o| {
        o.limits.timeout = Some(Duration::from_millis(400))
    });
    assert_eq!(b.end().status, RunStatus::Completed);
}

#[test]
fn a_second_attempt_that_cannot_start_leaves_the_result_of_the_first() {
    let r = begin(&LINES, "rm -- \"$0\"; echo again 0; echo why >&2; exit 3", |_| {}).end();
    assert_eq!((r.status, r.failure.unwrap().exit_code), (RunStatus::Failed, Some(3)));
    assert!(r.error.unwrap().ends_with("stderr: why"));
}

#[test]
fn the_pause_before_a_second_attempt_ends_with_the_run() {
    const HOURS: &str = "echo text up; echo again 9999999; exit 3";
    let b = begin(&LINES, HOURS, |_| {});
    assert_eq!(b.next(), Some(Message::text("up")));
    while live().get(b.run.id()).is_some_and(|l| l.tree.is_some()) {
        std::thread::yield_now();
    }
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
    let b = begin(&LINES, HOURS, |o| o.limits.timeout = Some(Duration::from_secs(2)));
    assert_eq!(b.end().failure.unwrap().limit, Some(Limit::Run));
}

#[test]
fn an_aborted_signal_starts_nothing() {
    let b = begin_aborted(&LINES, "echo x > started; echo result ok", true, |_| {});
    let r = b.end();
    assert_eq!(r.status, RunStatus::Aborted);
    assert!(!b.path("started").exists());
}

#[test]
fn cancel_after_the_end_is_harmless() {
    let b = begin(&LINES, "echo result ok", |_| {});
    assert_eq!(b.end().status, RunStatus::Completed);
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Completed);
}

#[test]
fn an_over_long_line_fails_the_run() {
    let b = begin(
        &LINES,
        "echo text before; head -c 34000000 /dev/zero | tr '\\0' x; echo; exec sleep 600",
        |_| {},
    );
    let r = b.end();
    assert!(r.error.unwrap().contains("stdout read error: token too long"));
    assert_eq!(r.failure.unwrap().kind, FailureKind::Protocol);
}

#[test]
fn a_prompt_nobody_reads_is_released_by_cancel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cli");
    std::fs::write(&path, "#!/bin/sh\necho text up\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let (tx, woken) = mpsc::channel();
    let tx = Mutex::new(tx);
    let options = ExecuteOptions {
        cwd: folder.path().to_owned(),
        executable_path: Some(path),
        host_env: EnvList(std::env::vars().collect()),
        ..Default::default()
    };
    let wake: Wake = Arc::new(move |_| {
        let _ = tx.lock().unwrap().send(());
    });
    let run = Run::start(&LINES, "x".repeat(512 * 1024), options, 1, false, wake).unwrap();
    let b = Bench { run, woken, folder };
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
}

#[test]
fn a_slow_reader_holds_the_child_back_and_loses_nothing() {
    let line = "x".repeat(1000);
    let script = format!("i=0; while [ $i -lt 8000 ]; do echo text {line}; i=$((i+1)); done; echo result ok");
    let b = begin(&LINES, &script, |o| o.limits.idle = Some(Duration::from_millis(500)));
    b.run.attach_reader();
    let mut n = 0;
    let mut paused = false;
    while let Some(m) = b.next() {
        n += usize::from(matches!(m, Message::Text { .. }));
        if n == 100 && !paused {
            paused = true;
            // Longer than the idle limit: waiting for us is no silence of the CLI.
            std::thread::sleep(Duration::from_millis(800));
            assert!(b.run.shared.queue.bytes() < 2 * limits::QUEUE_HIGH_BYTES);
        }
    }
    assert_eq!(n, 8000);
    assert_eq!(b.run.end().unwrap().unwrap().status, RunStatus::Completed);
}

#[test]
fn a_reader_that_is_slow_after_the_exit_loses_nothing_and_the_result_does_not_wait_for_it() {
    // The queue is full before the last of it, which is in the pipe when the CLI ends.
    let line = "x".repeat(1000);
    let n = limits::QUEUE_HIGH_BYTES / Message::text(line.as_str()).weight() + 40;
    let script = format!("i=0; while [ $i -lt {n} ]; do echo text {line}; i=$((i+1)); done; echo result ok");
    let b = begin(&LINES, &script, |o| o.message_buffer_bytes = 1000);
    b.run.attach_reader();
    b.woken.recv_timeout(PATIENCE).expect("the end comes without a reader");
    assert_eq!(b.run.end().unwrap().unwrap().status, RunStatus::Completed);
    assert_eq!(b.rest().len(), n);
}

#[test]
fn a_turn_that_looks_over_is_not_over_while_a_slow_reader_holds_back_what_follows() {
    let script = format!(
        "x=$(head -c {} /dev/zero | tr '\\0' x); printf 'text %s\\nsettled early\\n' $x; \
         while [ ! -e go ]; do sleep 0.05; done; echo result ok",
        limits::QUEUE_HIGH_BYTES
    );
    let b = begin(&LINES, &script, |_| {});
    b.run.attach_reader();
    // The pause itself is what is tested.
    assert!(b.woken.recv_timeout(limits::AFTER_SETTLED + Duration::from_secs(2)).is_err());
    std::fs::write(b.path("go"), "").unwrap();
    assert_eq!(b.rest().len(), 1);
    assert_eq!(b.run.end().unwrap().unwrap().output, "ok");
}

#[test]
fn a_dialogue_gets_to_say_cancel_before_any_signal() {
    let b = begin(&TALK, "trap '' TERM; echo up; read l; echo got $l; echo bye", |_| {});
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    assert_eq!(b.rest(), [Message::text("got cancel"), Message::text("bye")]);
    assert_eq!(b.run.end().unwrap().unwrap().status, RunStatus::Aborted);
}

#[test]
fn a_dialogue_that_ignores_cancel_is_stopped() {
    let b = begin(&TALK, "echo up; exec sleep 600", |_| {});
    assert_eq!(b.next(), Some(Message::text("up")));
    b.run.cancel();
    assert_eq!(b.end().status, RunStatus::Aborted);
    assert!(b.run_env_is_gone());
}

#[test]
fn a_dialogue_ends_on_its_terminal_event() {
    let b = begin(&TALK, "echo hello; echo end; cat > /dev/null", |_| {});
    let r = b.end();
    assert_eq!((r.status, r.output.as_str()), (RunStatus::Completed, "hello"));
}

#[test]
fn a_panic_becomes_a_failed_result_without_its_text() {
    let b = begin(&PANICS, "echo x; exec sleep 600", |_| {});
    let r = b.end();
    assert_eq!(r.status, RunStatus::Failed);
    let error = r.error.unwrap();
    assert!(error.contains("internal error") && !error.contains("s3cret"), "{error}");
}

#[test]
fn the_environment_ends_and_its_runs_are_stopped() {
    let b = begin_owned(&LINES, "echo text up; exec sleep 600", false, 7, |_| {});
    assert_eq!(b.next(), Some(Message::text("up")));
    super::cancel_all(99);
    assert!(b.run.end().is_none(), "another environment's end is none of its business");
    super::kill_all(7);
    assert_eq!(b.end().status, RunStatus::Aborted);
}

#[test]
fn a_wrong_call_is_refused_before_anything_starts() {
    let start = |prompt: &str, cwd: &str| {
        let o = ExecuteOptions { cwd: cwd.into(), ..Default::default() };
        Run::start(&LINES, prompt.into(), o, 1, false, Arc::new(|_| {})).err().map(|e| (e.code, e.message))
    };
    let (code, message) = start("x", "/definitely/not/there").unwrap();
    assert_eq!(code, ErrorCode::InvalidCwd);
    assert!(message.contains("/definitely/not/there"));
    assert_eq!(start("x", "/etc/passwd").unwrap().0, ErrorCode::InvalidCwd);
    assert_eq!(start("x", "/opt/app.asar/sub").unwrap().0, ErrorCode::InvalidCwd);
    assert_eq!(start(" \n", "/").unwrap().0, ErrorCode::InvalidPrompt);
    assert_eq!(start("a\0b", "/").unwrap().0, ErrorCode::InvalidPrompt);
}

#[test]
fn many_runs_leave_no_zombie_and_no_descriptor() {
    let count = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    begin(&LINES, "echo result ok", |_| {}).end();
    let before = count();
    for i in 0..60 {
        let script = match i % 3 {
            0 => "echo result ok",
            1 => "cat >/dev/null; exit 1",
            _ => "echo text up; exec sleep 600",
        };
        let b = begin(&LINES, script, |_| {});
        if i % 3 == 2 {
            assert_eq!(b.next(), Some(Message::text("up")));
            b.run.cancel();
        }
        b.end();
        assert!(b.run_env_is_gone());
    }
    let zombies = std::fs::read_dir("/proc").unwrap().flatten().filter(|e| {
        let stat = std::fs::read_to_string(e.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, f)| f).split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&std::process::id().to_string().as_str())
    });
    assert!(zombies.count() < 5, "a leader of a test that runs right now may be a zombie for a moment");
    // Other tests of this process run at the same time, so only a leak per run would show.
    assert!(count() < before + 40, "{before} -> {}", count());
}
