//! The PATH of the user's login shell: an app started from a dock or a desktop file does not have it.
//!
//! The shell is asked for its PATH as a whole, once for every PATH, SHELL and HOME, and never for a command
//! by name: aliases and functions of the user cannot get in the way, and no text of ours is read by the
//! shell but a constant script.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use tokio::sync::OnceCell;

use crate::contract::limits::{LOGIN_SHELL_CACHE, LOGIN_SHELL_TIMEOUT};
use crate::process::capture::{Apart, Bounds, capture};
use crate::process::env::ChildEnv;

/// Shells that take `-ilc` and the script's syntax.
const SHELLS: &[&str] = &["bash", "zsh", "sh", "dash", "ksh"];

/// How many environments are remembered; hosts that change PATH for every run must not grow this for ever.
const CACHE_ENTRIES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The shell that was asked, as SHELL names it.
    pub shell: String,
    /// Existing folders of its PATH in order, absolute and with links resolved (version managers put links
    /// there that only live as long as the shell), or why there are none.
    pub folders: Result<Vec<PathBuf>, String>,
}

/// Asks the login shell that `env` names, or remembers what it said within the last half hour (also that it
/// did not answer: a start-up file that hangs must not cost seconds at every call). `None`: there is none to
/// ask, or one whose options are not known. POSIX only.
pub async fn ask(env: &ChildEnv) -> Option<Answer> {
    let shell = env.get("SHELL").filter(|s| is_known(s))?;
    let cell = CACHE.cell(&key(env, shell), Instant::now());
    let (_, folders) = cell
        .get_or_init(|| async {
            (Instant::now(), query(shell, env, Bounds::within(LOGIN_SHELL_TIMEOUT)).await)
        })
        .await;
    Some(Answer { shell: shell.to_owned(), folders: folders.clone() })
}

fn is_known(shell: &str) -> bool {
    shell.starts_with('/') && shell.rsplit('/').next().is_some_and(|base| SHELLS.contains(&base))
}

async fn query(shell: &str, env: &ChildEnv, bounds: Bounds) -> Result<Vec<PathBuf>, String> {
    let mark = format!("agentplug-{}", uuid::Uuid::new_v4());
    let mut env = env.clone();
    // Interactive start-up files may start tmux or ask about updates.
    for (name, value) in
        [("DISABLE_AUTO_UPDATE", "true"), ("ZSH_TMUX_AUTOSTART", "false"), ("ZSH_TMUX_AUTOSTARTED", "true")]
    {
        env.set(name, value);
    }
    let args = ["-ilc".to_owned(), script(&mark)];
    let captured = capture(shell.as_ref(), &args, &env, bounds, Apart::Session).await;
    let output = captured.map_err(|e| e.to_string())?.stdout;
    let Some(path) = between(&output, &mark) else { return Err("it did not tell its PATH".to_owned()) };
    let folders: Vec<PathBuf> = path.split(':').filter(|f| f.starts_with('/')).map(PathBuf::from).collect();
    let real = tokio::task::spawn_blocking(move || {
        let mut real: Vec<PathBuf> = Vec::new();
        for folder in folders.iter().filter_map(|f| f.canonicalize().ok()) {
            if !real.contains(&folder) {
                real.push(folder);
            }
        }
        real
    });
    real.await.map_err(|e| e.to_string())
}

/// A shell of its own prints, since aliases and functions of the interactive one do not reach it; functions
/// that bash exported do, until unset.
fn script(mark: &str) -> String {
    format!(r#"/bin/sh -c 'unset -f printf; printf "\n%s%s%s\n" "{mark}" "$PATH" "{mark}"'"#)
}

/// Start-up files print what they like, before and after.
fn between<'a>(output: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = output.split_once(mark)?;
    rest.split_once(mark).map(|(path, _)| path)
}

type Key = [String; 3];
type Cell = Arc<OnceCell<(Instant, Result<Vec<PathBuf>, String>)>>;

fn key(env: &ChildEnv, shell: &str) -> Key {
    let var = |name| env.get(name).unwrap_or_default().to_owned();
    [var("PATH"), shell.to_owned(), var("HOME")]
}

static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

#[derive(Default)]
struct Cache(Mutex<HashMap<Key, Cell>>);

impl Cache {
    /// The cell of this key: empty, being filled, or filled not too long ago.
    fn cell(&self, key: &Key, now: Instant) -> Cell {
        let mut cells = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let fresh = |cell: &Cell| {
            cell.get().is_none_or(|(at, _)| now.saturating_duration_since(*at) < LOGIN_SHELL_CACHE)
        };
        cells.retain(|_, cell| fresh(cell));
        if cells.len() >= CACHE_ENTRIES && !cells.contains_key(key) {
            cells.clear();
        }
        cells.entry(key.clone()).or_default().clone()
    }
}

#[cfg(test)]
#[path = "login_shell_tests.rs"]
mod tests;
