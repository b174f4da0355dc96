//! The session of a run: pi keeps each in a JSONL file, and the path of that file is what resumes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::utc::Utc;
use crate::contract::{AgentplugError, ErrorCode, Os};

/// Bytes of an existing file that are looked at to tell whether it is a session at all.
const HEAD_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A session file.
    File(String),
    /// An id or the beginning of one, which pi looks up in its own folder.
    Id(String),
}

impl Session {
    /// The value of `--session`.
    pub fn argument(&self) -> &str {
        match self {
            Session::File(text) | Session::Id(text) => text,
        }
    }
}

/// A session made ready for a run.
#[derive(Debug)]
pub struct Prepared {
    pub session: Session,
    /// The run should have gone on with a session whose file is missing or empty.
    pub history_missing: bool,
    /// Takes the file away again when pi came to no event.
    pub created: Option<Created>,
}

/// A fresh session file in our data folder.
pub fn fresh<'e>(env: impl Fn(&str) -> Option<&'e str>, os: Os) -> Result<Prepared, AgentplugError> {
    let folder = sessions_folder(env, os).ok_or_else(|| {
        error("pi session path", "no data folder is known; set HOME (LOCALAPPDATA on Windows)")
    })?;
    let random = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("{}-{}.jsonl", Utc::now().compact(), &random[..8]);
    let separator = if os == Os::Windows { '\\' } else { '/' };
    let path = format!("{folder}{separator}{name}");
    let created = Some(create(Path::new(&path))?);
    Ok(Prepared { session: Session::File(path), history_missing: false, created })
}

/// The session that `value` names. `host_cwd` is what a relative path starts from.
pub fn resume<'e>(
    value: &str,
    host_cwd: &Path,
    env: impl Fn(&str) -> Option<&'e str>,
    os: Os,
) -> Result<Prepared, AgentplugError> {
    if !is_path(value) {
        let session = Session::Id(value.to_owned());
        return Ok(Prepared { session, history_missing: false, created: None });
    }
    let text = absolute(value, host_cwd, env, os);
    let path = Path::new(&text);
    let (history_missing, created) = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(not_a_session(value, "it is a folder")),
        Ok(found) if found.len() == 0 => (true, None),
        Ok(_) => {
            if is_foreign(path).map_err(|e| error("pi session file", &e.to_string()))? {
                // Releases before 0.80.3 empty such a file and start over.
                return Err(not_a_session(value, "it holds something else, which pi could overwrite"));
            }
            (false, None)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => (true, Some(create(path)?)),
        Err(e) => return Err(error("pi session file", &e.to_string())),
    };
    Ok(Prepared { session: Session::File(text), history_missing, created })
}

/// `<data folder>/agentplug/pi-sessions`.
pub fn sessions_folder<'e>(env: impl Fn(&str) -> Option<&'e str>, os: Os) -> Option<String> {
    let get = |name| env(name).filter(|value| !value.is_empty());
    Some(match os {
        Os::Windows => {
            let local = match get("LOCALAPPDATA") {
                Some(local) => local.to_owned(),
                None => format!("{}\\AppData\\Local", get("USERPROFILE")?),
            };
            format!("{local}\\agentplug\\pi-sessions")
        }
        Os::MacOs => format!("{}/Library/Application Support/agentplug/pi-sessions", get("HOME")?),
        // A relative XDG_DATA_HOME is to be ignored, says its specification.
        Os::Linux => match get("XDG_DATA_HOME").filter(|path| path.starts_with('/')) {
            Some(data) => format!("{data}/agentplug/pi-sessions"),
            None => format!("{}/.local/share/agentplug/pi-sessions", get("HOME")?),
        },
    })
}

/// How pi itself tells a path from an id.
fn is_path(value: &str) -> bool {
    value.contains(['/', '\\']) || value.ends_with(".jsonl")
}

/// Made absolute here: pi takes a relative path from its own working directory, which need not be the host's.
fn absolute<'e>(value: &str, host_cwd: &Path, env: impl Fn(&str) -> Option<&'e str>, os: Os) -> String {
    let home = if os == Os::Windows { env("USERPROFILE") } else { env("HOME") };
    if let (Some(rest), Some(home)) = (value.strip_prefix("~/"), home) {
        return format!("{home}/{rest}");
    }
    if Path::new(value).is_absolute() {
        return value.to_owned();
    }
    host_cwd.join(value).to_string_lossy().into_owned()
}

/// Whether the file certainly is no session: its first JSON line is something else than a session header, or it
/// has none. A file whose first line does not fit into the part looked at is left to pi.
fn is_foreign(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let whole = (head.len() as u64) < HEAD_BYTES;
    let mut lines: Vec<&[u8]> = head.split(|b| *b == b'\n').collect();
    if !whole {
        lines.pop();
    }
    let first = lines.iter().find_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    Ok(match first {
        Some(entry) => entry["type"] != "session",
        None => whole,
    })
}

fn create(path: &Path) -> Result<Created, AgentplugError> {
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|e| error("pi session path", &e.to_string()))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|e| error("pi session file", &e.to_string()))?;
    Ok(Created { path: path.to_owned(), used: Arc::default() })
}

/// A session file made for this run. It goes with the run unless marked as used: a pi that fails to start (no
/// such model, no login) has written a header into it, but there is no conversation to go on with.
#[derive(Debug)]
pub struct Created {
    path: PathBuf,
    pub used: Arc<AtomicBool>,
}

impl Drop for Created {
    fn drop(&mut self) {
        if !self.used.load(Ordering::SeqCst)
            && let Err(e) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), error = %e, "an unused pi session file stays behind");
        }
    }
}

fn error(what: &str, detail: &str) -> AgentplugError {
    AgentplugError::new(ErrorCode::Io, format!("{what}: {detail}"))
}

fn not_a_session(value: &str, why: &str) -> AgentplugError {
    AgentplugError::option(
        "resumeSessionId",
        format!(
            "option resumeSessionId is no pi session: {value}: {why}; pass the sessionId of an earlier pi run"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'e>(entries: &'e [(&'e str, &'e str)]) -> impl Fn(&str) -> Option<&'e str> + 'e {
        move |name| entries.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    #[test]
    fn each_system_has_its_data_folder() {
        let at = |entries: &[(&str, &str)], os| sessions_folder(env(entries), os);
        let tail = "agentplug/pi-sessions";
        assert_eq!(at(&[("HOME", "/h")], Os::Linux).unwrap(), format!("/h/.local/share/{tail}"));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], Os::Linux).unwrap(), format!("/d/{tail}"));
        assert_eq!(
            at(&[("HOME", "/h"), ("XDG_DATA_HOME", "rel")], Os::Linux).unwrap(),
            format!("/h/.local/share/{tail}")
        );
        assert_eq!(
            at(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], Os::MacOs).unwrap(),
            format!("/h/Library/Application Support/{tail}")
        );
        assert_eq!(at(&[("LOCALAPPDATA", r"C:\L")], Os::Windows).unwrap(), r"C:\L\agentplug\pi-sessions");
        assert_eq!(
            at(&[("USERPROFILE", r"C:\U")], Os::Windows).unwrap(),
            r"C:\U\AppData\Local\agentplug\pi-sessions"
        );
        for os in [Os::Linux, Os::MacOs, Os::Windows] {
            assert_eq!(at(&[("HOME", ""), ("LOCALAPPDATA", "")], os), None);
        }
    }

    #[test]
    fn a_fresh_file_is_private_and_goes_when_unused() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().to_str().unwrap().to_owned();
        let vars =
            [("HOME", data.as_str()), ("LOCALAPPDATA", data.as_str()), ("XDG_DATA_HOME", data.as_str())];
        let os = Os::current();
        let one = fresh(env(&vars), os).unwrap();
        let two = fresh(env(&vars), os).unwrap();
        let path = |p: &Prepared| PathBuf::from(p.session.argument());
        assert_ne!(one.session, two.session);
        assert!(!one.history_missing);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path(&one)), mode(path(&one).parent().unwrap())), (0o600, 0o700));
        }
        let (used, unused) = (path(&one), path(&two));
        for file in [&used, &unused] {
            fs::write(file, "{\"type\":\"session\"}\n").unwrap();
        }
        one.created.as_ref().unwrap().used.store(true, Ordering::SeqCst);
        drop((one, two));
        assert!(used.exists());
        assert!(!unused.exists());
    }

    #[test]
    fn a_resume_value_is_a_path_or_an_id() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap().to_owned();
        let vars = [("HOME", home.as_str()), ("USERPROFILE", home.as_str())];
        let go = |value: &str| resume(value, dir.path(), env(&vars), Os::current());
        let id = go("01a22d7e-f5be").unwrap();
        assert_eq!((id.session, id.history_missing), (Session::Id("01a22d7e-f5be".into()), false));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "an id creates no file");

        let file = dir.path().join("s.jsonl");
        let body = "{\"type\":\"session\",\"version\":3,\"id\":\"x\"}\n";
        fs::write(&file, body).unwrap();
        for value in [file.to_str().unwrap(), "s.jsonl", "~/s.jsonl"] {
            let found = go(value).unwrap();
            assert_eq!(Path::new(found.session.argument()), file, "{value}");
            assert!(!found.history_missing && found.created.is_none());
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), body);
    }

    #[test]
    fn a_missing_or_empty_file_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let go = |value: &Path| resume(value.to_str().unwrap(), dir.path(), env(&[]), Os::current());
        let missing = dir.path().join("deep/er/s.jsonl");
        let made = go(&missing).unwrap();
        assert!(made.history_missing && missing.exists());
        drop(made);
        assert!(!missing.exists());
        let empty = dir.path().join("e.jsonl");
        fs::write(&empty, "").unwrap();
        assert!(go(&empty).unwrap().history_missing);
        assert!(empty.exists(), "the caller's own file stays");
    }

    #[test]
    fn a_file_that_is_no_session_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.jsonl");
        let header = "{\"type\":\"session\",\"id\":\"x\"}";
        let long = "x".repeat(HEAD_BYTES as usize + 10);
        for (body, refused) in [
            ("plain text".to_owned(), true),
            ("{\"type\":\"user\"}\n".to_owned(), true),
            ("\n \n{broken\n".to_owned(), true),
            (format!("\n{{broken\n{header}\n"), false),
            (format!("{header}\n{long}"), false),
            (format!("{{\"type\":\"session\",\"pad\":\"{long}\"}}\n"), false),
        ] {
            fs::write(&file, &body).unwrap();
            let got = resume(file.to_str().unwrap(), dir.path(), env(&[]), Os::current());
            match got {
                Ok(_) => assert!(!refused, "{body:.40}"),
                Err(e) => {
                    assert!(refused, "{body:.40}");
                    assert_eq!(
                        (e.code, e.option.as_deref()),
                        (ErrorCode::InvalidOption, Some("resumeSessionId"))
                    );
                }
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), body);
        }
        let e =
            resume(&format!("{}/", dir.path().display()), dir.path(), env(&[]), Os::current()).unwrap_err();
        assert!(e.message.contains("folder"), "{}", e.message);
    }
}
