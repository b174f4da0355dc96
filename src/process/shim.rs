//! How to start what was found, without a shell reading the arguments a second time.
//!
//! On Windows a package manager installs `x.cmd`, and cmd re-reads every argument it passes on: newlines end
//! the command, quotes and percent signs change it, and 8,191 characters are the limit. So the launcher is
//! read instead, and what it starts is started directly: a native executable, or `node` with its script.

use std::path::{Path, PathBuf};

use crate::contract::{AgentplugError, ErrorCode, Os};
use crate::process::batch::{self, Scope};
use crate::process::env::ChildEnv;
use crate::process::find::{candidates, is_absolute, path_folders};

/// What to start in place of the found file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub program: PathBuf,
    /// Before every other argument.
    pub args: Vec<String>,
    /// Variables that the launcher sets.
    pub env: Vec<(String, String)>,
}

impl Command {
    fn plain(program: impl Into<PathBuf>) -> Self {
        Command { program: program.into(), args: Vec::new(), env: Vec::new() }
    }
}

/// The file system as the planner sees it.
pub trait Files {
    fn is_file(&self, path: &str) -> bool;
    /// The text of a small file.
    fn read(&self, path: &str) -> Option<String>;
}

struct Disk;

impl Files for Disk {
    fn is_file(&self, path: &str) -> bool {
        Path::new(path).is_file()
    }
    fn read(&self, path: &str) -> Option<String> {
        use std::io::Read;
        // Generated launchers have a few hundred bytes; a cut script is not understood and not started.
        const LONGEST: u64 = 64 * 1024;
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Plans the start of `path`, absolute. Off Windows, and for native executables, that is `path` itself.
pub fn plan(path: &Path, env: &ChildEnv, os: Os) -> Result<Command, AgentplugError> {
    plan_with(path, env, os, &Disk)
}

pub fn plan_with(path: &Path, env: &ChildEnv, os: Os, files: &dyn Files) -> Result<Command, AgentplugError> {
    let Some(text) = path.to_str().filter(|_| os == Os::Windows) else { return Ok(Command::plain(path)) };
    let planner = Planner { env, files };
    planner.file(text, MOST_LAUNCHERS).map_err(|why| {
        AgentplugError::new(
            ErrorCode::UnsupportedLauncher,
            format!(
                "{text} is a launcher script, and cannot be started without a shell that re-reads the arguments: \
                 {why}. Pass the program it starts as option executablePath: the native .exe, or node.exe with \
                 the path of the script in option launchPrefix"
            ),
        )
        .about("executablePath")
    })
}

/// A launcher may start another one (yarn's global folder does).
const MOST_LAUNCHERS: u8 = 4;

struct Planner<'a> {
    env: &'a ChildEnv,
    files: &'a dyn Files,
}

impl Planner<'_> {
    fn file(&self, path: &str, launchers: u8) -> Result<Command, String> {
        let (stem, extension) = split_extension(path);
        match extension.to_ascii_lowercase().as_str() {
            ".cmd" | ".bat" => {
                let script = self.batch(path, launchers);
                script.or_else(|why| self.powershell(&format!("{stem}.ps1")).ok_or(why))
            }
            // npm writes both, and the batch file tells the same without an interpreter in between.
            ".ps1" => self
                .batch(&format!("{stem}.cmd"), launchers)
                .ok()
                .or_else(|| self.powershell(path))
                .ok_or_else(|| "no PowerShell was found".to_owned()),
            ".js" | ".mjs" | ".cjs" => {
                let mut command = self.bare("node", folder_of(path), launchers)?;
                command.args.push(path.to_owned());
                Ok(command)
            }
            _ => Ok(Command::plain(path)),
        }
    }

    fn batch(&self, path: &str, launchers: u8) -> Result<Command, String> {
        let Some(launchers) = launchers.checked_sub(1) else {
            return Err("it starts a launcher that starts a launcher, and so on".to_owned());
        };
        let text = self.files.read(path).ok_or("it cannot be read")?;
        let script = batch::parse(&text).ok_or("its statements are not those of a known launcher")?;
        let folder = folder_of(path);
        let env = |name: &str| self.env.get(name).map(str::to_owned);
        let scope = Scope { folder, script: &script, env: &env };
        let mut why = String::new();
        for start in &script.starts {
            for program in scope.expand(&start.0[0]) {
                match self.start(&program, &start.0[1..], &scope, launchers) {
                    Ok(mut command) => {
                        command.env.extend(scope.environment());
                        return Ok(command);
                    }
                    Err(e) => why = e,
                }
            }
        }
        Err(if why.is_empty() { "a variable in it has no value".to_owned() } else { why })
    }

    fn start(
        &self,
        program: &str,
        args: &[String],
        scope: &Scope<'_>,
        launchers: u8,
    ) -> Result<Command, String> {
        let mut command = if program.contains(['\\', '/']) {
            let path = normalized(program);
            if !is_absolute(&path, Os::Windows) {
                return Err(format!("{program}, which it starts, is no Windows program"));
            }
            let found = with_extensions(&path).into_iter().find(|p| self.files.is_file(p));
            self.file(&found.ok_or_else(|| format!("{path}, which it starts, does not exist"))?, launchers)?
        } else {
            self.bare(program, scope.folder, launchers)?
        };
        for arg in args {
            let Some(value) = scope.expand(arg).into_iter().next() else {
                return Err("a variable in it has no value".to_owned());
            };
            // What the launcher names relative to itself is a file of the installation.
            if value.starts_with(scope.folder) && arg.contains('%') {
                let path = normalized(&value);
                if !self.files.is_file(&path) {
                    return Err(format!("{path}, which it starts, does not exist; install it again"));
                }
                command.args.push(path);
            } else {
                command.args.push(value);
            }
        }
        Ok(command)
    }

    /// A program without a folder: beside the launcher, then on PATH.
    fn bare(&self, name: &str, folder: &str, launchers: u8) -> Result<Command, String> {
        let mut folders = vec![folder.to_owned()];
        folders.extend(path_folders(self.env.get("PATH").unwrap_or_default(), Os::Windows));
        let found = candidates(name, &folders, self.env.get("PATHEXT"), Os::Windows)
            .into_iter()
            .find(|path| self.files.is_file(path));
        let found =
            found.ok_or_else(|| format!("it needs {name}, which is neither beside it nor on PATH"))?;
        self.file(&found, launchers)
    }

    fn powershell(&self, script: &str) -> Option<Command> {
        if !self.files.is_file(script) {
            return None;
        }
        let folders = path_folders(self.env.get("PATH").unwrap_or_default(), Os::Windows);
        let on_path = ["pwsh.exe", "powershell.exe"].into_iter().flat_map(|host| {
            folders.iter().map(move |folder| format!("{}\\{host}", folder.trim_end_matches('\\')))
        });
        let root =
            self.env.get("SystemRoot").filter(|r| is_absolute(r, Os::Windows)).unwrap_or(r"C:\Windows");
        let built_in =
            format!("{}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe", root.trim_end_matches('\\'));
        let host = on_path.chain([built_in]).find(|host| self.files.is_file(host))?;
        let args = ["-NoProfile", "-ExecutionPolicy", "Bypass", "-File", script];
        Some(Command { args: args.map(str::to_owned).into(), ..Command::plain(host) })
    }
}

fn folder_of(path: &str) -> &str {
    path.rfind(['\\', '/']).map_or("", |at| &path[..at])
}

/// The extension with its dot, or empty.
fn split_extension(path: &str) -> (&str, &str) {
    let name = path.rfind(['\\', '/']).map_or(0, |at| at + 1);
    match path[name..].rfind('.') {
        Some(dot) => path.split_at(name + dot),
        None => (path, ""),
    }
}

/// The file as named, and as cmd would complete it.
fn with_extensions(path: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    if split_extension(path).1.is_empty() {
        // A file without an extension is the POSIX script of the same launcher.
        all = [".com", ".exe", ".bat", ".cmd"].map(|ext| format!("{path}{ext}")).into();
    }
    all
}

/// One separator, no `.` and no `..`: other programs compare paths as text.
fn normalized(path: &str) -> String {
    let path = path.replace('/', "\\");
    let (root, rest) = match path.strip_prefix("\\\\") {
        Some(rest) => ("\\\\", rest),
        None => ("", &*path),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('\\') {
        match part {
            "" | "." => {}
            // Above the drive there is nothing.
            ".." => parts.truncate(parts.len().saturating_sub(1).max(1)),
            part => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("\\"))
}

#[cfg(test)]
#[path = "shim_tests.rs"]
mod tests;
