//! Where the executable of a CLI is looked for, in this order:
//!
//! 1. `executablePath`, where the caller gave one: an absolute path is taken or refused as it is; a bare name
//!    replaces the CLI's own names in what follows.
//! 2. The folders of PATH in the child's environment. Relative ones are passed over: the CLI runs in another
//!    working directory than the one they were meant for.
//! 3. The folders of the login shell's PATH (POSIX).
//! 4. The folders where the CLI's installers are known to put it.
//!
//! On Windows a file counts as executable by its extension alone, so that the extensionless script that npm
//! puts beside `x.cmd` for POSIX shells never wins.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::contract::{AgentplugError, ErrorCode, Os};
use crate::process::env::ChildEnv;
use crate::process::login_shell;

#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The name in error texts.
    pub name: &'a str,
    /// Command names, the preferred one first.
    pub executables: &'a [&'a str],
    /// Folders to try last. `~/` is the home folder.
    pub known_paths: &'a [&'a str],
    /// `executablePath`
    pub explicit: Option<&'a Path>,
    /// The environment the CLI will get.
    pub env: &'a ChildEnv,
    pub os: Os,
}

/// Where an executable was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    ExecutablePath,
    Path,
    LoginShell,
    KnownPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Absolute.
    pub path: PathBuf,
    pub via: Via,
    /// The PATH to give the child instead of its own, where the executable's folder is not on that one: a
    /// script that begins with `#!/usr/bin/env node` needs the node beside it.
    pub path_env: Option<String>,
}

pub async fn find(query: Query<'_>) -> Result<Found, AgentplugError> {
    let Query { env, os, .. } = query;
    let path = env.get("PATH").unwrap_or_default();
    let mut only: [&str; 1] = [""];
    let mut names = query.executables;
    if let Some(explicit) = query.explicit {
        let text = text_of(explicit)?;
        if let Some(candidates) = explicit_candidates(text, os)? {
            let found = explicit_path(query.name, text, candidates).await?;
            let path_env = extended_path(path, &[], &found, os);
            return Ok(Found { path: found, via: Via::ExecutablePath, path_env });
        }
        only[0] = text;
        names = &only;
    }
    let all = |folders: &[String]| -> Vec<String> {
        names.iter().flat_map(|name| candidates(name, folders, env.get("PATHEXT"), os)).collect()
    };

    let folders = path_folders(path, os);
    if let Some(found) = first_usable(all(&folders)).await {
        return Ok(Found { path: found, via: Via::Path, path_env: None });
    }

    let shell = if os == Os::Windows { None } else { login_shell::ask(env).await };
    let shell_folders: Vec<String> = match &shell {
        Some(login_shell::Answer { folders: Ok(folders), .. }) => {
            folders.iter().filter_map(|f| f.to_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let known: Vec<String> = query.known_paths.iter().filter_map(|f| known_folder(f, env, os)).collect();
    for (via, folders) in [(Via::LoginShell, &shell_folders), (Via::KnownPath, &known)] {
        if let Some(found) = first_usable(all(folders)).await {
            let path_env = extended_path(path, &shell_folders, &found, os);
            return Ok(Found { path: found, via, path_env });
        }
    }
    Err(not_found(&query, names, folders.len(), shell.as_ref()))
}

fn not_found(
    query: &Query<'_>,
    names: &[&str],
    path_folders: usize,
    shell: Option<&login_shell::Answer>,
) -> AgentplugError {
    let mut looked = match path_folders {
        0 => "PATH (which is empty)".to_owned(),
        1 => "the one folder of PATH".to_owned(),
        n => format!("the {n} folders of PATH"),
    };
    if let Some(answer) = shell {
        looked += &match &answer.folders {
            Ok(_) => format!(", the PATH of the login shell {}", answer.shell),
            Err(why) => format!(", the PATH of the login shell {} (not known: {why})", answer.shell),
        };
    }
    for folder in query.known_paths.iter().filter(|f| known_folder(f, query.env, query.os).is_some()) {
        looked += ", ";
        looked += folder;
    }
    let error = AgentplugError::new(
        ErrorCode::ExecutableNotFound,
        format!(
            "{} executable not found at \"{}\": looked in {looked}; install it, or pass its absolute path as \
             option executablePath",
            query.name,
            names.join("\" or \"")
        ),
    );
    if query.explicit.is_some() { error.about("executablePath") } else { error }
}

/// Names go into command lines and error texts as text.
fn text_of(path: &Path) -> Result<&str, AgentplugError> {
    let bad = |why: &str| {
        Err(AgentplugError::option("executablePath", format!("option executablePath cannot be used: {why}")))
    };
    match path.to_str() {
        None => bad("it is not valid Unicode"),
        Some(text) if text.trim().is_empty() => bad("it is empty"),
        Some(text) if text.contains('\0') => bad("it holds a NUL character"),
        Some(text) => Ok(text),
    }
}

/// The files an explicit path may stand for; `None` for a bare name, which is looked up like the default one.
fn explicit_candidates(path: &str, os: Os) -> Result<Option<Vec<String>>, AgentplugError> {
    let is_name = !path.contains('/') && (os != Os::Windows || !path.contains(['\\', ':']));
    if is_name && path != "." && path != ".." {
        return Ok(None);
    }
    if !is_absolute(path, os) {
        return Err(AgentplugError::option(
            "executablePath",
            format!(
                "option executablePath must be an absolute path or a bare command name, but \"{path}\" is \
                 relative: pass an absolute path"
            ),
        ));
    }
    Ok(Some(match os {
        Os::Windows if !has_startable_extension(path, EXPLICIT_EXTENSIONS) => {
            EXTENSIONS.iter().map(|ext| format!("{path}{ext}")).collect()
        }
        _ => vec![path.to_owned()],
    }))
}

async fn explicit_path(name: &str, path: &str, candidates: Vec<String>) -> Result<PathBuf, AgentplugError> {
    if let Some(found) = first_usable(candidates.clone()).await {
        return Ok(found);
    }
    let owned = path.to_owned();
    let why = blocking(move || match usable(Path::new(&owned)) {
        Err(why) => why,
        // Only with the extensions of Windows appended was it looked for.
        Ok(()) => "Windows cannot start a file without an extension such as .exe or .cmd".to_owned(),
    })
    .await;
    Err(AgentplugError::new(
        ErrorCode::ExecutableNotFound,
        format!("{name} executable not found at \"{path}\": {why}"),
    )
    .about("executablePath"))
}

/// What Windows can start, itself or through the launcher planner, in the order of the default PATHEXT.
const EXTENSIONS: &[&str] = &[".com", ".exe", ".bat", ".cmd"];
/// What an explicit path may name besides: started with their interpreter, never found by name.
const EXPLICIT_EXTENSIONS: &[&str] = &[".com", ".exe", ".bat", ".cmd", ".ps1", ".js", ".mjs", ".cjs"];

fn has_startable_extension(path: &str, extensions: &[&str]) -> bool {
    let lower = path.to_ascii_lowercase();
    extensions.iter().any(|ext| lower.ends_with(ext))
}

pub fn is_absolute(path: &str, os: Os) -> bool {
    match os {
        Os::Windows => {
            let b = path.as_bytes();
            let drive =
                b.len() > 2 && b[0].is_ascii_alphabetic() && b[1] == b':' && matches!(b[2], b'/' | b'\\');
            drive || path.starts_with("\\\\")
        }
        Os::Linux | Os::MacOs => path.starts_with('/'),
    }
}

/// The absolute folders of a PATH value.
pub fn path_folders(path: &str, os: Os) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    let mut push = |folder: &str| {
        if is_absolute(folder, os) && !folders.iter().any(|f| f == folder) {
            folders.push(folder.to_owned());
        }
    };
    if os != Os::Windows {
        path.split(':').for_each(push);
        return folders;
    }
    // A folder with a semicolon in its name is quoted.
    let mut folder = String::new();
    let mut quoted = false;
    for c in path.chars().chain([';']) {
        match c {
            '"' => quoted = !quoted,
            ';' if !quoted => push(&std::mem::take(&mut folder)),
            c => folder.push(c),
        }
    }
    if quoted {
        push(folder.trim_end_matches(';'));
    }
    folders
}

/// Every file that `name` may stand for in `folders`, the preferred one first. On Windows `pathext` gives the
/// order of extensions; those of script hosts (`.js`, `.vbs`) are left out.
pub fn candidates(name: &str, folders: &[String], pathext: Option<&str>, os: Os) -> Vec<String> {
    if os != Os::Windows {
        return folders.iter().map(|f| format!("{}/{name}", f.trim_end_matches('/'))).collect();
    }
    let mut files: Vec<String> = Vec::new();
    if has_startable_extension(name, EXTENSIONS) {
        files.push(name.to_owned());
    }
    let given: Vec<String> =
        pathext.unwrap_or_default().split(';').map(|e| e.trim().to_ascii_lowercase()).collect();
    let mut extensions: Vec<&str> = Vec::new();
    for ext in given.iter().filter_map(|g| EXTENSIONS.iter().find(|e| *e == g)).chain(EXTENSIONS) {
        if !extensions.contains(ext) {
            extensions.push(ext);
        }
    }
    files.extend(extensions.iter().map(|ext| format!("{name}{ext}")));
    let join = |folder: &String| {
        let folder = folder.trim_end_matches(['\\', '/']).to_owned();
        files.iter().map(move |file| format!("{folder}\\{file}")).collect::<Vec<_>>()
    };
    folders.iter().flat_map(join).collect()
}

/// An entry of `known_paths` on this machine; `None` for one of another system.
fn known_folder(folder: &str, env: &ChildEnv, os: Os) -> Option<String> {
    let below_root = folder.strip_prefix("~/").unwrap_or(folder.trim_start_matches('/'));
    let only_on = match below_root.split('/').next() {
        Some("Applications" | "Library") => Some(Os::MacOs),
        Some("AppData") => Some(Os::Windows),
        _ => None,
    };
    if only_on.is_some_and(|only| only != os) {
        return None;
    }
    let folder = match folder.strip_prefix("~/") {
        Some(below) => {
            let home = env.get(if os == Os::Windows { "USERPROFILE" } else { "HOME" })?;
            format!("{}/{below}", home.trim_end_matches(['/', '\\']))
        }
        None => folder.to_owned(),
    };
    let folder = if os == Os::Windows { folder.replace('/', "\\") } else { folder };
    is_absolute(&folder, os).then_some(folder)
}

/// `path` with the login shell's folders in front and the executable's own folder at the end, each unless it is
/// there; `None` where that changes nothing.
fn extended_path(path: &str, shell_folders: &[String], found: &Path, os: Os) -> Option<String> {
    let present = path_folders(path, os);
    let own = found.parent().and_then(Path::to_str).map(str::to_owned);
    let missing = |folder: &&String| !present.contains(folder);
    if shell_folders.iter().chain(&own).all(|f| !missing(&f)) {
        return None;
    }
    let separator = if os == Os::Windows { ";" } else { ":" };
    // The shell's order is the one the user's own terminal has; the rest of `path` follows it.
    let mut parts: Vec<&str> = shell_folders.iter().map(String::as_str).collect();
    if shell_folders.is_empty() {
        parts.push(path);
    } else {
        parts.extend(present.iter().filter(|p| !shell_folders.contains(p)).map(String::as_str));
    }
    if let Some(own) = own.as_ref().filter(|o| missing(o) && !shell_folders.contains(o)) {
        parts.push(own);
    }
    parts.retain(|p| !p.is_empty());
    Some(parts.join(separator))
}

async fn first_usable(candidates: Vec<String>) -> Option<PathBuf> {
    blocking(move || candidates.into_iter().map(PathBuf::from).find(|c| usable(c).is_ok())).await
}

/// File systems may be slow (network folders on PATH), so none is touched on the caller's thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and with it whoever waits here.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Whether this file can be executed, or why not.
fn usable(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound if path.is_symlink() => "it is a link to nothing".to_owned(),
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => e.to_string(),
    })?;
    if !meta.is_file() {
        return Err(if meta.is_dir() { "it is a folder" } else { "it is not a regular file" }.to_owned());
    }
    #[cfg(unix)]
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK)
        .map_err(|_| "it is not executable (its mode lacks x for this user)".to_owned())?;
    Ok(())
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
