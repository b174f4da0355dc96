//! "Exec format error", explained: npm packages of native CLIs ship a text file in the program's place, and
//! an install script that did not run would have replaced it.

use std::io::{self, Read};
use std::path::Path;

use crate::contract::Os;

/// Marks a text that was explained before.
const EXPLAINED: &str = "is not a runnable executable on";

/// The text of a start error, with the diagnosis where the file is no program of this system.
pub fn explain(error: &io::Error, program: &Path) -> String {
    if error.kind() == io::ErrorKind::NotFound
        && let Some(interpreter) = interpreter(program)
    {
        // The system says the same as for a missing program.
        return format!("{error}: its first line names the interpreter {interpreter}, which is not there");
    }
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let real = real.to_string_lossy();
    // What canonicalize puts in front on Windows; shells do not take it.
    let real = real.strip_prefix(r"\\?\").unwrap_or(&real);
    diagnose(&error.to_string(), error.raw_os_error(), real, Os::current(), arch(), |manifest| {
        std::fs::read_to_string(manifest).ok()
    })
}

/// What follows `#!` in a script, up to its arguments.
fn interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    std::fs::File::open(program).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    Some(String::from_utf8_lossy(line).split_whitespace().next()?.to_owned())
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `text`, explained if `code` is the system's "exec format error". `program` is absolute, links resolved;
/// `read` gives the text of a file.
pub fn diagnose(
    text: &str,
    code: Option<i32>,
    program: &str,
    os: Os,
    arch: &str,
    read: impl Fn(&str) -> Option<String>,
) -> String {
    const ENOEXEC: i32 = 8;
    const ERROR_BAD_EXE_FORMAT: i32 = 193;
    let (expected, system) = match os {
        Os::Linux => (ENOEXEC, "linux"),
        Os::MacOs => (ENOEXEC, "darwin"),
        Os::Windows => (ERROR_BAD_EXE_FORMAT, "win32"),
    };
    if code != Some(expected) || text.contains(EXPLAINED) {
        return text.to_owned();
    }
    let mut text = format!(
        "{text}: {program} {EXPLAINED} {system}/{arch}. Most often the package's install script did not run, \
         which puts the program in place of a stub: npm 12 and pnpm 10 run only scripts that were allowed \
         (allowScripts, pnpm approve-builds), --ignore-scripts runs none, and --omit=optional leaves the program \
         out"
    );
    if let Some((root, name, script)) = installed_by(program, os, read) {
        text += &match os {
            Os::Windows => {
                format!(
                    ". To repair {name}, in PowerShell:\nSet-Location '{}'\n{script}",
                    root.replace('\'', "''")
                )
            }
            Os::Linux | Os::MacOs => {
                format!(". To repair {name}: cd '{}' && {script}", root.replace('\'', r"'\''"))
            }
        };
    }
    text
}

/// Root, name and postinstall script of the package that has `program` in its `bin` folder.
fn installed_by(
    program: &str,
    os: Os,
    read: impl Fn(&str) -> Option<String>,
) -> Option<(String, String, String)> {
    let separators: &[char] = if os == Os::Windows { &['\\', '/'] } else { &['/'] };
    let (folder, _) = program.rsplit_once(separators)?;
    let (root, bin) = folder.rsplit_once(separators)?;
    if bin != "bin" {
        return None;
    }
    let separator = if os == Os::Windows { '\\' } else { '/' };
    let manifest: serde_json::Value =
        serde_json::from_str(&read(&format!("{root}{separator}package.json"))?).ok()?;
    let name = manifest["name"].as_str().unwrap_or("the package");
    let script = manifest["scripts"]["postinstall"].as_str().filter(|s| !s.trim().is_empty())?;
    Some((root.to_owned(), name.to_owned(), script.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"{"name":"@x/cli","scripts":{"postinstall":"node ./postinstall.mjs"}}"#;

    fn with(manifest: &'static str, at: &'static str) -> impl Fn(&str) -> Option<String> {
        move |path| (path == at).then(|| manifest.to_owned())
    }

    #[test]
    fn the_stub_of_an_npm_package_is_explained_with_its_repair() {
        let posix = diagnose(
            "Exec format error (os error 8)",
            Some(8),
            "/it's/cli/bin/x.exe",
            Os::Linux,
            "x64",
            with(MANIFEST, "/it's/cli/package.json"),
        );
        assert!(posix.starts_with("Exec format error (os error 8): /it's/cli/bin/x.exe "), "{posix}");
        for part in ["is not a runnable executable on linux/x64", "--ignore-scripts", "--omit=optional"] {
            assert!(posix.contains(part), "{posix}");
        }
        let repair = r"To repair @x/cli: cd '/it'\''s/cli' && node ./postinstall.mjs";
        assert!(posix.ends_with(repair), "{posix}");
        let windows = diagnose(
            "%1 is not a valid Win32 application.",
            Some(193),
            r"C:\it's\cli\bin\x.exe",
            Os::Windows,
            "arm64",
            with(MANIFEST, r"C:\it's\cli\package.json"),
        );
        assert!(windows.contains("is not a runnable executable on win32/arm64"), "{windows}");
        assert!(windows.ends_with("\nSet-Location 'C:\\it''s\\cli'\nnode ./postinstall.mjs"), "{windows}");
    }

    #[test]
    fn an_explained_error_is_not_explained_again() {
        let explain = |text: &str| diagnose(text, Some(8), "/a/bin/x", Os::MacOs, "arm64", |_| None);
        let once = explain("Exec format error");
        assert!(once.contains("darwin/arm64"), "{once}");
        assert_eq!(explain(&format!("detect version: {once}")), format!("detect version: {once}"));
    }

    #[test]
    fn the_repair_needs_a_package_with_an_install_script() {
        for (program, manifest) in [
            ("/p/lib/x", MANIFEST),
            ("/p/bin/x", "{"),
            ("/p/bin/x", r#"{"name":"x","scripts":{}}"#),
            ("/p/bin/x", r#"{"scripts":{"postinstall":" "}}"#),
            ("x", MANIFEST),
        ] {
            let text = diagnose("e", Some(8), program, Os::Linux, "x64", |_| Some(manifest.to_owned()));
            assert!(text.contains(EXPLAINED) && !text.contains("To repair"), "{text}");
        }
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for (code, os) in [
            (Some(2), Os::Linux),
            (Some(193), Os::Linux),
            (Some(8), Os::Windows),
            (Some(13), Os::MacOs),
            (None, Os::Linux),
        ] {
            assert_eq!(diagnose("e", code, "/p/bin/x", os, "x64", |_| Some(MANIFEST.to_owned())), "e");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_missing_interpreter_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("cli");
        std::fs::write(&script, "#! /no/such/interpreter -x\n").unwrap();
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let text = explain(&missing, &script);
        assert!(text.ends_with("the interpreter /no/such/interpreter, which is not there"), "{text}");
        assert_eq!(explain(&missing, &folder.path().join("other")), missing.to_string());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_real_stub_behind_a_link_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let stub = root.join("bin/x.exe");
        crate::process::capture::testing::script(&stub, "run the install script first\n");
        std::fs::write(root.join("package.json"), MANIFEST).unwrap();
        let link = root.join("link");
        std::os::unix::fs::symlink(&stub, &link).unwrap();
        let error = std::process::Command::new(&link).spawn().unwrap_err();
        let text = explain(&error, &link);
        assert!(text.ends_with(&format!("cd '{}' && node ./postinstall.mjs", root.display())), "{text}");
    }
}
