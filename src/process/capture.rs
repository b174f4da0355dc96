//! A helper process run to its end: probes and the login shell. Bounded in time and memory, and its process
//! group (job on Windows) is gone when the call returns or its future is dropped.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contract::duration;
use crate::contract::limits::{PROBE_DRAIN, PROBE_OUTPUT_BYTES};
use crate::process::env::ChildEnv;

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// From the spawn to the exit.
    pub timeout: Duration,
    /// From the exit to the end of both pipes, which a descendant may hold open.
    pub drain: Duration,
    /// Bytes kept of each stream. What comes after is read and thrown away, so that the process never blocks.
    pub bytes: usize,
}

impl Bounds {
    pub fn within(timeout: Duration) -> Self {
        Bounds { timeout, drain: PROBE_DRAIN, bytes: PROBE_OUTPUT_BYTES }
    }
}

/// What sets the process apart from the host (POSIX).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    Group,
    /// No controlling terminal either. An interactive shell needs this: in a mere group of its own, bash stops
    /// itself when the host was started from a terminal, and zsh takes the terminal away from the host.
    Session,
}

#[derive(Debug)]
pub struct Captured {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// A descendant still held a pipe when the drain limit ended: the output may lack its end.
    pub pipes_held: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("it cannot be started: {0}")]
    Spawn(io::Error),
    #[error("it did not end within {}", duration::format(*.0))]
    TimedOut(Duration),
    #[error("its exit status cannot be read: {0}")]
    Wait(io::Error),
}

/// Runs `program` with stdin at its end. Invalid UTF-8 is replaced.
pub async fn capture(
    program: &OsStr,
    args: &[String],
    env: &ChildEnv,
    bounds: Bounds,
    apart: Apart,
) -> Result<Captured, CaptureError> {
    let mut child = spawn(program, args, env, apart).map_err(CaptureError::Spawn)?;
    // Tasks and not futures polled here: on Windows a pipe is read on a blocking thread that only ends with
    // the pipe, so reading must not be part of what is awaited before the job is ended.
    let mut readers = JoinSet::new();
    let stdout = read(&mut readers, child.0.stdout().take(), bounds.bytes);
    let stderr = read(&mut readers, child.0.stderr().take(), bounds.bytes);

    let status = match timeout(bounds.timeout, child.leader_exit()).await {
        Ok(status) => status.map_err(CaptureError::Wait)?,
        Err(_) => {
            child.end_tree();
            // Reaps; SIGKILL cannot be refused, but a process in an uninterruptible wait may linger: then
            // dropping the child leaves the reaping to the runtime.
            let _ = timeout(bounds.drain, child.leader_exit()).await;
            return Err(CaptureError::TimedOut(bounds.timeout));
        }
    };
    let drained = timeout(bounds.drain, async { while readers.join_next().await.is_some() {} }).await;
    child.end_tree();
    let text = |bytes: &Mutex<Vec<u8>>| {
        String::from_utf8_lossy(&bytes.lock().unwrap_or_else(|e| e.into_inner())).into_owned()
    };
    Ok(Captured { status, stdout: text(&stdout), stderr: text(&stderr), pipes_held: drained.is_err() })
}

fn spawn(program: &OsStr, args: &[String], env: &ChildEnv, apart: Apart) -> io::Result<Tree> {
    let mut command = CommandWrap::with_new(program, |command| {
        command
            .args(args)
            .env_clear()
            .envs(env.iter())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    match apart {
        Apart::Group => command.wrap(process_wrap::tokio::ProcessGroup::leader()),
        Apart::Session => command.wrap(process_wrap::tokio::ProcessSession),
    };
    #[cfg(windows)]
    {
        let _ = apart;
        // A console program started by a desktop app opens a window otherwise.
        let flags = windows::Win32::System::Threading::CREATE_NO_WINDOW;
        command.wrap(process_wrap::tokio::CreationFlags(flags)).wrap(process_wrap::tokio::JobObject);
    }
    command.spawn().map(Tree)
}

/// Ends the whole tree on drop, whatever way the call went.
struct Tree(Box<dyn ChildWrapper>);

impl Tree {
    /// The leader's exit alone: the wrapper itself would wait for the whole group or job.
    async fn leader_exit(&mut self) -> io::Result<ExitStatus> {
        self.0.inner_mut().wait().await
    }

    fn end_tree(&mut self) {
        // ESRCH: nobody is left, which is the aim.
        let _ = self.0.start_kill();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.end_tree();
    }
}

fn read(
    readers: &mut JoinSet<()>,
    pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    keep: usize,
) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::<Mutex<Vec<u8>>>::default();
    let mine = kept.clone();
    if let Some(mut pipe) = pipe {
        readers.spawn(async move {
            let mut chunk = vec![0; 16 * 1024];
            // A read error means the same as the end: there is no more to read.
            while let Ok(n @ 1..) = pipe.read(&mut chunk).await {
                let mut kept = mine.lock().unwrap_or_else(|e| e.into_inner());
                let room = keep.saturating_sub(kept.len()).min(n);
                kept.extend_from_slice(&chunk[..room]);
            }
        });
    }
    kept
}

#[cfg(test)]
#[path = "capture_tests.rs"]
pub mod testing;
