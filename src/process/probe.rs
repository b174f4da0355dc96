//! `--version` and `--help` of an executable, run at most once per executable and process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use semver::Version;
use tokio::sync::watch;

use crate::contract::limits::PROBE_TIMEOUT;
use crate::contract::redact::redact_here;
use crate::contract::version::{extract_line, parse_semver};
use crate::process::capture::{Apart, Bounds, CaptureError, Captured, capture};
use crate::process::env::ChildEnv;
use crate::process::exec_format;

/// What a probe printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    pub stdout: String,
    pub stderr: String,
    pub success: bool,
    /// A descendant still held a pipe after the exit, so that the output may lack its end.
    pub pipes_held: bool,
    /// How it ended, for error texts: `exit status: 1`.
    pub status: String,
}

/// Runs probes of one resolved command (executable plus launch prefix) and remembers them for the life of the
/// process by path, size, modification time and prefix. A probe that fails is not remembered.
pub struct Prober {
    program: PathBuf,
    prefix: Vec<String>,
    env: ChildEnv,
}

const VERSION: &str = "--version";

impl Prober {
    /// `program` is absolute and can be started as it is (see `shim::plan`).
    pub fn new(program: PathBuf, prefix: Vec<String>, env: ChildEnv) -> Self {
        Prober { program, prefix, env }
    }

    /// `<program> <prefix…> <args…>`, from the cache where it ran before; calls at the same time share one
    /// process. The error says what went wrong.
    pub async fn run(&self, args: &[&str]) -> Result<Probe, String> {
        self.cached(args, Bounds::within(PROBE_TIMEOUT)).await
    }

    /// Like [`Prober::run`], but never from the cache: for output that changes while the executable stays.
    pub async fn run_anew(&self, args: &[&str], timeout: Duration) -> Result<Probe, String> {
        probe(self.program.clone(), self.all_args(args), self.env.clone(), Bounds::within(timeout)).await
    }

    /// The version that an earlier `--version` probe of this executable gave; never starts a process.
    pub fn cached_version(&self) -> Option<Version> {
        let slots = CACHE.lock().unwrap_or_else(|e| e.into_inner());
        match slots.get(&self.key(&[VERSION]))? {
            Slot::Done(probe) => parse_semver(extract_line(&probe.stdout)),
            Slot::Running(_) => None,
        }
    }

    /// Probes `--version` and gives the line that holds it.
    pub async fn version_line(&self) -> Result<String, String> {
        self.version_within(Bounds::within(PROBE_TIMEOUT)).await
    }

    /// Probes `--version`.
    pub async fn version(&self) -> Result<Version, String> {
        let line = self.version_line().await?;
        parse_semver(&line).ok_or_else(|| self.version_error("no version is in what it printed"))
    }

    async fn version_within(&self, bounds: Bounds) -> Result<String, String> {
        let probe = self.cached(&[VERSION], bounds).await.map_err(|e| self.version_error(&e))?;
        let line = extract_line(&probe.stdout);
        if !probe.success {
            return Err(self.version_error(&failure(&probe)));
        }
        // A launcher that leaves its output open may not have printed all of it; a whole version is enough.
        if probe.pipes_held && parse_semver(line).is_none() {
            return Err(self.version_error("its output stayed open after its exit and holds no version"));
        }
        Ok(line.to_owned())
    }

    fn version_error(&self, why: &str) -> String {
        format!("detect version for {}: {why}", self.program.display())
    }

    fn all_args(&self, args: &[&str]) -> Vec<String> {
        self.prefix.iter().cloned().chain(args.iter().map(|a| a.to_string())).collect()
    }

    fn key(&self, args: &[&str]) -> Key {
        // Behind an interpreter the script is what an update replaces.
        let scripts = self.prefix.iter().map(Path::new).filter(|p| p.is_absolute());
        let files = std::iter::once(&*self.program).chain(scripts).map(stamp).collect();
        Key { files, args: self.all_args(args) }
    }

    async fn cached(&self, args: &[&str], bounds: Bounds) -> Result<Probe, String> {
        let key = self.key(args);
        let mut answer = {
            let mut slots = CACHE.lock().unwrap_or_else(|e| e.into_inner());
            match slots.get(&key) {
                Some(Slot::Done(probe)) => return Ok(probe.clone()),
                Some(Slot::Running(answer)) => answer.clone(),
                None => {
                    let (sender, answer) = watch::channel(None);
                    slots.insert(key.clone(), Slot::Running(answer.clone()));
                    let (program, args, env) = (self.program.clone(), key.args.clone(), self.env.clone());
                    // Made here: a task that is dropped before its first poll settles the slot as well.
                    let mut running = Running { key, done: None };
                    // A task of its own: a caller that gives up must not end the probe others wait for.
                    tokio::spawn(async move {
                        let result = probe(program, args, env, bounds).await;
                        running.done = result.as_ref().ok().filter(|p| p.success).cloned();
                        // First the cache, so that whoever asks after the answer finds it there.
                        drop(running);
                        sender.send_replace(Some(result));
                    });
                    answer
                }
            }
        };
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().expect("waited for"),
            Err(_) => Err("it was given up, because the runtime shut down".to_owned()),
        }
    }
}

async fn probe(program: PathBuf, args: Vec<String>, env: ChildEnv, bounds: Bounds) -> Result<Probe, String> {
    match capture(program.as_os_str(), &args, &env, bounds, Apart::Group).await {
        Ok(Captured { status, stdout, stderr, pipes_held }) => {
            Ok(Probe { stdout, stderr, success: status.success(), pipes_held, status: status.to_string() })
        }
        Err(CaptureError::Spawn(e)) => {
            Err(format!("it cannot be started: {}", exec_format::explain(&e, &program)))
        }
        Err(e) => Err(e.to_string()),
    }
}

/// The exit and the last words of a failed probe.
fn failure(probe: &Probe) -> String {
    const LONGEST: usize = 300;
    let said = redact_here(probe.stderr.trim());
    let said = said.lines().last().unwrap_or_default();
    let said: String = said.chars().take(LONGEST).collect();
    if said.is_empty() { probe.status.clone() } else { format!("{}: {said}", probe.status) }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    files: Vec<Stamp>,
    /// Prefix included.
    args: Vec<String>,
}

/// Path, size and modification time; no size and time for a file that cannot be read.
type Stamp = (PathBuf, Option<(u64, Option<SystemTime>)>);

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok();
    (path.to_owned(), meta.map(|m| (m.len(), m.modified().ok())))
}

enum Slot {
    Running(watch::Receiver<Option<Result<Probe, String>>>),
    Done(Probe),
}

static CACHE: LazyLock<Mutex<HashMap<Key, Slot>>> = LazyLock::new(Mutex::default);

/// Settles the slot however its task ends: a runtime that shuts down drops it in the middle.
struct Running {
    key: Key,
    done: Option<Probe>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut slots = CACHE.lock().unwrap_or_else(|e| e.into_inner());
        match self.done.take() {
            Some(probe) => slots.insert(self.key.clone(), Slot::Done(probe)),
            None => slots.remove(&self.key),
        };
    }
}

#[cfg(all(test, unix))]
#[path = "probe_tests.rs"]
mod tests;
