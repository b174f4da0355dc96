//! Starts a child as the leader of its own process group (POSIX) or job object (Windows).

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};

use super::env::ChildEnv;

/// Everything about one start. Arguments are final: prefix and adapter arguments in order.
pub struct SpawnPlan {
    /// Absolute: a relative path would be looked up in `cwd`.
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: ChildEnv,
    pub cwd: PathBuf,
}

/// How the leader ended, as the operating system tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

pub struct Spawned {
    pub pid: u32,
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    pub leader: Arc<Leader>,
}

/// The leader process. It is reaped by a task of its own on every path; dropping this closes the job object
/// on Windows, which ends whatever is left in it.
pub struct Leader {
    exit: watch::Receiver<Option<LeaderExit>>,
    // Only the job object takes orders; POSIX trees are signalled by `tree`.
    #[cfg_attr(not(windows), allow(dead_code))]
    kill: mpsc::Sender<()>,
}

impl Leader {
    pub fn exited(&self) -> Option<LeaderExit> {
        self.exit.borrow().clone()
    }

    pub fn watch(&self) -> watch::Receiver<Option<LeaderExit>> {
        self.exit.clone()
    }

    /// Ends the job object with all its processes.
    #[cfg(windows)]
    pub fn kill_job(&self) {
        // A full channel means the order is already under way.
        let _ = self.kill.try_send(());
    }
}

/// Needs a tokio runtime. Never uses `pre_exec`: it would turn the cheap vfork into a fork that copies the
/// page tables of a big host.
pub fn spawn(plan: &SpawnPlan) -> std::io::Result<Spawned> {
    let mut command = CommandWrap::with_new(&plan.program, |c| {
        c.args(&plan.args)
            .env_clear()
            .envs(plan.env.iter())
            .current_dir(&plan.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    own_tree(&mut command);
    let mut child = command.spawn()?;
    let pid = child.id().unwrap_or_default();
    let missing = || std::io::Error::other("a standard stream of the child is missing");
    let stdin = child.stdin().take().ok_or_else(missing)?;
    let stdout = child.stdout().take().ok_or_else(missing)?;
    let stderr = child.stderr().take().ok_or_else(missing)?;
    let (exit_tx, exit) = watch::channel(None);
    let (kill, orders) = mpsc::channel(1);
    tokio::spawn(own(child, orders, exit_tx));
    Ok(Spawned { pid, stdin, stdout, stderr, leader: Arc::new(Leader { exit, kill }) })
}

#[cfg(unix)]
fn own_tree(command: &mut CommandWrap) {
    command.wrap(process_wrap::tokio::ProcessGroup::leader());
}

#[cfg(windows)]
fn own_tree(command: &mut CommandWrap) {
    use process_wrap::tokio::{CreationFlags, JobObject, KillOnDrop};
    use windows::Win32::System::Threading::CREATE_NO_WINDOW;
    // A console without a window, shared by the console programs the child starts. KillOnDrop makes the job
    // end its processes when the last handle goes, also when the host is killed.
    command.wrap(CreationFlags(CREATE_NO_WINDOW));
    command.wrap(KillOnDrop);
    command.wrap(JobObject);
}

async fn own(
    mut child: Box<dyn ChildWrapper>,
    mut orders: mpsc::Receiver<()>,
    exit: watch::Sender<Option<LeaderExit>>,
) {
    let mut running = true;
    loop {
        tokio::select! {
            // The inner child: the wrappers wait for the whole group or job, the leader's end is what counts here.
            status = child.inner_mut().wait(), if running => {
                running = false;
                exit.send_replace(Some(match status {
                    Ok(status) => LeaderExit { code: status.code(), signal: signal_of(&status) },
                    Err(_) => LeaderExit { code: None, signal: None },
                }));
            }
            order = orders.recv() => match order {
                Some(()) => {
                    if let Err(e) = child.start_kill() {
                        tracing::debug!(error = %e, "could not end the job object");
                    }
                }
                None if running => {
                    // The run is gone without having seen the exit: reap all the same.
                    let _ = child.inner_mut().wait().await;
                    return;
                }
                None => return,
            },
        }
    }
}

#[cfg(unix)]
fn signal_of(status: &std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(status)
}

#[cfg(not(unix))]
fn signal_of(_: &std::process::ExitStatus) -> Option<i32> {
    None
}

/// `SIGKILL` for 9 and so on; the number where it has no common name.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        // 7 and 10 differ between Linux and macOS.
        7 if cfg!(target_os = "linux") => "SIGBUS",
        10 if cfg!(target_os = "macos") => "SIGBUS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
