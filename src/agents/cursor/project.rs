//! `.cursor/mcp.json` of a project, ours for the time of a run.
//!
//! The user's own file is moved aside to [`BACKUP`] and moved back at the end; an empty [`BACKUP`] stands for "there
//! was none". Both steps are renames, so a host that dies in between leaves a state that the next run repairs. A
//! lock tells such a leftover from a run that is still going on in another process.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use super::mcp::write_private;
use crate::contract::{AgentplugError, ErrorCode};

const FOLDER: &str = ".cursor";
const CONFIG: &str = "mcp.json";
/// The user's own file while ours is in place.
const BACKUP: &str = "mcp.json.agentplug-backup";
/// Held while ours is in place.
const LOCK: &str = "mcp.json.agentplug-lock";

/// The projects of this process with a file of ours, by root.
static HELD: Mutex<BTreeMap<PathBuf, Held>> = Mutex::new(BTreeMap::new());

struct Held {
    content: Vec<u8>,
    /// Runs that use it.
    holders: usize,
    had_file: bool,
    made_folder: bool,
    lock: Lock,
}

/// Keeps the file in place; the last one to be dropped gives the user's own back.
#[derive(Debug)]
pub struct Lease {
    root: PathBuf,
}

/// Puts `content` in place as the project's MCP file. Runs with the same content share it; another content, or
/// another process, has to wait for its end.
pub fn lease(root: &Path, content: &[u8]) -> Result<Lease, AgentplugError> {
    let mut held = held();
    if let Some(entry) = held.get_mut(root) {
        if entry.content != content {
            return Err(busy(root, "another run of this process uses a different mcpConfig"));
        }
        entry.holders += 1;
        return Ok(Lease { root: root.to_owned() });
    }
    let entry = put(root, content)?;
    held.insert(root.to_owned(), entry);
    Ok(Lease { root: root.to_owned() })
}

/// Repairs what a host that died left behind. true: a managed file is in place, of a run that goes on.
pub fn recover(root: &Path) -> io::Result<bool> {
    let held = held();
    if held.contains_key(root) {
        return Ok(true);
    }
    let folder = root.join(FOLDER);
    if !exists(&folder.join(BACKUP))? {
        return Ok(false);
    }
    let Some(lock) = Lock::take(&folder.join(LOCK))? else { return Ok(true) };
    let repaired = repair(&folder);
    lock.release();
    repaired.map(|()| false)
}

fn put(root: &Path, content: &[u8]) -> Result<Held, AgentplugError> {
    let folder = root.join(FOLDER);
    let io = |e: io::Error| {
        AgentplugError::new(ErrorCode::Io, format!("cannot write {}: {e}", folder.join(CONFIG).display()))
            .about("mcpConfig")
    };
    let made_folder = match fs::create_dir(&folder) {
        Ok(()) => true,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
        Err(e) => return Err(io(e)),
    };
    let lock = match Lock::take(&folder.join(LOCK)) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Err(busy(root, "a run of another process uses an mcpConfig")),
        Err(e) => return Err(io(e)),
    };
    let (config, backup) = (folder.join(CONFIG), folder.join(BACKUP));
    let placed = repair(&folder).and_then(|()| {
        let had_file = exists(&config)?;
        if had_file {
            fs::rename(&config, &backup)?;
        } else {
            write_private(&backup, b"")?;
        }
        if let Err(e) = write_private(&config, content) {
            restore(&folder, had_file)?;
            return Err(e);
        }
        Ok(had_file)
    });
    match placed {
        Ok(had_file) => Ok(Held { content: content.to_owned(), holders: 1, had_file, made_folder, lock }),
        Err(e) => {
            lock.release();
            Err(io(e))
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = held();
        let Some(entry) = held.get_mut(&self.root) else { return };
        entry.holders -= 1;
        if entry.holders > 0 {
            return;
        }
        let Some(Held { had_file, made_folder, lock, .. }) = held.remove(&self.root) else { return };
        let folder = self.root.join(FOLDER);
        if let Err(e) = restore(&folder, had_file) {
            // The backup stays, so the next run in this project repairs it.
            tracing::error!(folder = %folder.display(), error = %e, "the project's own mcp.json is not back yet");
        }
        lock.release();
        if made_folder {
            // Fails, as it should, when the agent put something in.
            let _ = fs::remove_dir(&folder);
        }
    }
}

/// Gives the user's file back, or takes ours away.
fn restore(folder: &Path, had_file: bool) -> io::Result<()> {
    let (config, backup) = (folder.join(CONFIG), folder.join(BACKUP));
    if had_file {
        return fs::rename(&backup, &config);
    }
    remove(&config)?;
    remove(&backup)
}

/// Undoes what a run that never came to its end left, if anything.
fn repair(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder.join(BACKUP)) {
        Ok(found) => restore(folder, !(found.is_file() && found.len() == 0)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

fn held() -> MutexGuard<'static, BTreeMap<PathBuf, Held>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}

fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn busy(root: &Path, why: &str) -> AgentplugError {
    AgentplugError::option(
        "mcpConfig",
        format!(
            "option mcpConfig cannot be used in {} now: {why}, and cursor reads one file per project; \
             run them one after the other or in separate worktrees",
            root.display()
        ),
    )
}

/// A file that one process at a time can hold; it goes with its holder, even one that is killed.
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// `None`: another process holds it.
    #[cfg(unix)]
    fn take(path: &Path) -> io::Result<Option<Lock>> {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

        use rustix::fs::{FlockOperation, flock};
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
            // The last holder may have removed the file between our opening and locking it.
            match fs::metadata(path) {
                Ok(found) if found.ino() == file.metadata()?.ino() => {
                    return Ok(Some(Lock { path: path.to_owned(), file }));
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }

    #[cfg(windows)]
    fn take(path: &Path) -> io::Result<Option<Lock>> {
        use std::os::windows::fs::OpenOptionsExt;

        const SHARING_VIOLATION: i32 = 32;
        match OpenOptions::new().write(true).create(true).truncate(false).share_mode(0).open(path) {
            Ok(file) => Ok(Some(Lock { path: path.to_owned(), file })),
            Err(e) if e.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn release(self) {
        // On POSIX the name goes while the lock is still held; Windows refuses that.
        #[cfg(windows)]
        drop(self.file);
        if let Err(e) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), error = %e, "a lock file stays behind");
        }
        #[cfg(unix)]
        drop(self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Project {
        dir: tempfile::TempDir,
    }

    impl Project {
        fn new(own: Option<&str>) -> Project {
            let dir = tempfile::tempdir().unwrap();
            if let Some(own) = own {
                fs::create_dir(dir.path().join(FOLDER)).unwrap();
                fs::write(dir.path().join(FOLDER).join(CONFIG), own).unwrap();
            }
            Project { dir }
        }
        fn root(&self) -> &Path {
            self.dir.path()
        }
        fn path(&self, name: &str) -> PathBuf {
            self.root().join(FOLDER).join(name)
        }
        fn config(&self) -> Option<String> {
            fs::read_to_string(self.path(CONFIG)).ok()
        }
        fn names(&self) -> Vec<String> {
            let Ok(entries) = fs::read_dir(self.root().join(FOLDER)) else { return Vec::new() };
            let mut names: Vec<String> =
                entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
        /// What a host that was killed leaves: everything but the lock's holder.
        fn abandon(&self, lease: Lease) {
            let entry = held().remove(&lease.root).unwrap();
            drop(entry.lock.file);
        }
    }

    #[test]
    fn the_users_own_file_comes_back() {
        let project = Project::new(Some("own"));
        let lease = lease(project.root(), b"managed").unwrap();
        assert_eq!(project.config().as_deref(), Some("managed"));
        assert_eq!(fs::read_to_string(project.path(BACKUP)).unwrap(), "own");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(project.path(CONFIG)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(lease);
        assert_eq!((project.config().as_deref(), project.names()), (Some("own"), vec![CONFIG.to_owned()]));
    }

    #[test]
    fn nothing_stays_where_nothing_was() {
        let project = Project::new(None);
        drop(lease(project.root(), b"managed").unwrap());
        assert_eq!(fs::read_dir(project.root()).unwrap().count(), 0);

        let lease = lease(project.root(), b"managed").unwrap();
        fs::write(project.path("cli.json"), "{}").unwrap();
        drop(lease);
        assert_eq!(project.names(), ["cli.json"]);
    }

    #[test]
    fn an_empty_file_of_the_user_stays_empty() {
        let project = Project::new(Some(""));
        drop(lease(project.root(), b"managed").unwrap());
        assert_eq!(project.config().as_deref(), Some(""));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_the_user_stays_a_link() {
        let project = Project::new(Some("own"));
        fs::rename(project.path(CONFIG), project.root().join("elsewhere.json")).unwrap();
        std::os::unix::fs::symlink("../elsewhere.json", project.path(CONFIG)).unwrap();
        let lease = lease(project.root(), b"managed").unwrap();
        assert_eq!(fs::read_to_string(project.root().join("elsewhere.json")).unwrap(), "own");
        drop(lease);
        assert_eq!(fs::read_link(project.path(CONFIG)).unwrap(), Path::new("../elsewhere.json"));
    }

    #[test]
    fn runs_with_the_same_set_share_it_and_others_are_refused() {
        let project = Project::new(Some("own"));
        let first = lease(project.root(), b"managed").unwrap();
        let second = lease(project.root(), b"managed").unwrap();
        let e = lease(project.root(), b"other").unwrap_err();
        assert_eq!((e.code, e.option.as_deref()), (ErrorCode::InvalidOption, Some("mcpConfig")));
        assert!(recover(project.root()).unwrap(), "in use");
        drop(first);
        assert_eq!(project.config().as_deref(), Some("managed"));
        drop(second);
        assert_eq!(project.config().as_deref(), Some("own"));
        let third = lease(project.root(), b"other").unwrap();
        assert_eq!(project.config().as_deref(), Some("other"));
        drop(third);
        assert_eq!(project.config().as_deref(), Some("own"));
    }

    #[test]
    fn another_process_is_respected() {
        let project = Project::new(Some("own"));
        fs::write(project.path(BACKUP), "theirs").unwrap();
        let lock = Lock::take(&project.path(LOCK)).unwrap().unwrap();
        let e = lease(project.root(), b"managed").unwrap_err();
        assert!(e.message.contains("another process"), "{}", e.message);
        assert!(recover(project.root()).unwrap());
        assert_eq!(project.config().as_deref(), Some("own"), "nothing was touched");
        lock.release();
    }

    #[test]
    fn what_a_killed_host_left_is_repaired() {
        for own in [Some("own"), None] {
            // By a run without a managed set …
            let project = Project::new(own);
            project.abandon(lease(project.root(), b"managed").unwrap());
            assert_eq!(project.config().as_deref(), Some("managed"));
            assert!(!recover(project.root()).unwrap());
            assert_eq!(project.config().as_deref(), own);
            assert_eq!(project.names().len(), usize::from(own.is_some()));
            // … and by one with another set.
            project.abandon(lease(project.root(), b"managed").unwrap());
            let next = lease(project.root(), b"other").unwrap();
            assert_eq!(project.config().as_deref(), Some("other"));
            drop(next);
            assert_eq!(project.config().as_deref(), own);
        }
    }

    #[test]
    fn a_host_killed_between_its_steps_is_repaired() {
        let project = Project::new(Some("own"));
        fs::rename(project.path(CONFIG), project.path(BACKUP)).unwrap();
        assert!(!recover(project.root()).unwrap());
        assert_eq!((project.config().as_deref(), project.names().len()), (Some("own"), 1));
    }

    #[test]
    fn a_project_that_cannot_be_written_gives_an_error() {
        let project = Project::new(None);
        fs::write(project.root().join(FOLDER), "a file").unwrap();
        let e = lease(project.root(), b"managed").unwrap_err();
        assert_eq!((e.code, e.option.as_deref()), (ErrorCode::Io, Some("mcpConfig")));
        assert!(!recover(project.root()).unwrap_or(false));
    }
}
