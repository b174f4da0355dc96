use std::collections::BTreeMap;

use super::*;
use crate::contract::options::EnvList;

/// Files by path; like on Windows, names compare without case.
#[derive(Default)]
struct Memory(BTreeMap<String, String>);

impl Memory {
    fn with(files: &[(&str, &str)]) -> Self {
        Memory(files.iter().map(|(path, text)| (path.to_lowercase(), text.to_string())).collect())
    }
}

impl Files for Memory {
    fn is_file(&self, path: &str) -> bool {
        self.0.contains_key(&path.to_lowercase())
    }
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(&path.to_lowercase()).cloned()
    }
}

const HEAD: &str = "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\n\
                    CALL :find_dp0\r\n";

/// As npm's cmd-shim 8.0.0 writes it for `#!/usr/bin/env <vars> node <flags>`.
fn npm(vars: &str, flags: &str, target: &str) -> String {
    format!(
        "{HEAD}{vars}\r\nIF EXIST \"%dp0%\\node.exe\" (\r\n  SET \"_prog=%dp0%\\node.exe\"\r\n) ELSE (\r\n  \
         SET \"_prog=node\"\r\n  SET PATHEXT=%PATHEXT:;.JS;=;%\r\n)\r\n\r\nendLocal & goto #_undefined_# 2>NUL || \
         title %COMSPEC% & \"%_prog%\" {flags} \"%dp0%\\{target}\" %*\r\n"
    )
}

/// As @zkochan/cmd-shim 7.0.0 (pnpm) writes it.
const PNPM: &str = "@SETLOCAL\r\n@IF NOT DEFINED NODE_PATH (\r\n  @SET \"NODE_PATH=C:\\s\\node_modules;C:\\t\"\r\n) \
                    ELSE (\r\n  @SET \"NODE_PATH=C:\\s\\node_modules;C:\\t;%NODE_PATH%\"\r\n)\r\n@IF EXIST \
                    \"%~dp0\\node.exe\" (\r\n  \"%~dp0\\node.exe\"  \"%~dp0\\..\\store\\cli.js\" %*\r\n) ELSE (\r\n  \
                    @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  node  \"%~dp0\\..\\store\\cli.js\" %*\r\n)\r\n";

/// As npm wrote it before 2020, and yarn 1 for the packages of its global folder.
const OLD: &str = "@IF EXIST \"%~dp0\\node.exe\" (\r\n  \"%~dp0\\node.exe\"  \"%~dp0\\node_modules\\t\\cli.js\" %*\r\n) \
                   ELSE (\r\n  @SETLOCAL\r\n  @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  node  \
                   \"%~dp0\\node_modules\\t\\cli.js\" %*\r\n)";

const CLI: &str = r"C:\n\node_modules\t\cli.js";
const NODE: &str = r"D:\node\node.exe";

fn env(more: &[(&str, &str)]) -> ChildEnv {
    let path = [("Path", r"rel;D:\node;C:\tools"), ("PATHEXT", ".COM;.EXE;.BAT;.CMD;.JS")];
    let vars = path.iter().chain(more).map(|(n, v)| (n.to_string(), v.to_string())).collect();
    ChildEnv::new(&EnvList::default(), &EnvList(vars), Os::Windows)
}

fn planned(path: &str, files: &[(&str, &str)], vars: &[(&str, &str)]) -> Result<Command, AgentplugError> {
    plan_with(Path::new(path), &env(vars), Os::Windows, &Memory::with(files))
}

#[track_caller]
fn starts(path: &str, files: &[(&str, &str)], program: &str, args: &[&str]) {
    let command = planned(path, files, &[]).unwrap();
    let got: Vec<&str> = command.args.iter().map(String::as_str).collect();
    assert_eq!((command.program.to_str().unwrap(), &got[..]), (program, args), "{path}");
}

#[test]
fn native_executables_and_other_systems_are_left_alone() {
    for path in [r"C:\n\t.exe", r"C:\n\t.COM", r"C:\n\t"] {
        assert_eq!(planned(path, &[], &[]), Ok(Command::plain(path)));
    }
    let cmd = Path::new("/n/t.cmd");
    assert_eq!(plan_with(cmd, &env(&[]), Os::Linux, &Memory::default()), Ok(Command::plain(cmd)));
}

#[test]
fn node_scripts_are_started_by_the_node_beside_them_or_on_path() {
    let flags = npm("@SET FOO=bar", "--no-warnings=ExperimentalWarning", r"node_modules\t\cli.js");
    let shim = npm("", "", r"node_modules\t\cli.js");
    for text in [&*shim, OLD] {
        let files = [(r"C:\n\t.CMD", text), (CLI, ""), (NODE, "")];
        starts(r"C:\n\t.CMD", &files, NODE, &[CLI]);
        let beside = [&files[..], &[(r"C:\n\node.exe", "")]].concat();
        starts(r"C:\n\t.CMD", &beside, r"C:\n\node.exe", &[CLI]);
    }
    let files = [(r"C:\n\t.cmd", &*flags), (CLI, ""), (NODE, "")];
    let command = planned(r"C:\n\t.cmd", &files, &[]).unwrap();
    assert_eq!(command.args, ["--no-warnings=ExperimentalWarning", CLI]);
    assert_eq!(command.env, [("FOO".to_owned(), "bar".to_owned())]);
}

#[test]
fn pnpm_launchers_keep_their_module_path() {
    let files = [(r"C:\pnpm\bin\t.cmd", PNPM), (r"C:\pnpm\store\cli.js", ""), (NODE, "")];
    starts(r"C:\pnpm\bin\t.cmd", &files, NODE, &[r"C:\pnpm\store\cli.js"]);
    for (vars, expected) in [
        (&[][..], r"C:\s\node_modules;C:\t"),
        (&[("node_path", r"E:\m")][..], r"C:\s\node_modules;C:\t;E:\m"),
    ] {
        let command = planned(r"C:\pnpm\bin\t.cmd", &files, vars).unwrap();
        assert_eq!(command.env, [("NODE_PATH".to_owned(), expected.to_owned())]);
    }
}

#[test]
fn launchers_of_native_programs_lead_to_them() {
    let native = format!("{HEAD}\"%dp0%\\node_modules\\t\\bin\\t.exe\"   %*\r\n");
    let exe = r"C:\n\node_modules\t\bin\t.exe";
    starts(r"C:\n\t.cmd", &[(r"C:\n\t.cmd", &native), (exe, "MZ")], exe, &[]);
    // pnpm leaves the extension to cmd; the file without one is for POSIX shells.
    let bare = "@SETLOCAL\r\n@\"%~dp0\\node_modules\\t\\bin\\t\"   %*\r\n";
    let files = [(r"C:\n\t.cmd", bare), (exe, "MZ"), (r"C:\n\node_modules\t\bin\t", "#!/bin/sh")];
    starts(r"C:\n\t.cmd", &files, exe, &[]);
    let scoop = "@rem C:\\apps\\t.exe %*\r\n@\"C:\\apps\\t.exe\" --quiet %*";
    starts(r"C:\n\t.cmd", &[(r"C:\n\t.cmd", scoop), (r"C:\apps\t.exe", "")], r"C:\apps\t.exe", &["--quiet"]);
    let mise = "@echo off\nsetlocal\nmise x -- claude %*\n";
    let files = [(r"C:\n\t.cmd", mise), (r"C:\tools\mise.exe", "")];
    starts(r"C:\n\t.cmd", &files, r"C:\tools\mise.exe", &["x", "--", "claude"]);
    let local = "@call \"%LOCALAPPDATA%\\t\\t.exe\" \"a & b\" %*";
    let command = planned(
        r"C:\n\t.bat",
        &[(r"C:\n\t.bat", local), (r"C:\L\t\t.exe", "")],
        &[("LocalAppData", r"C:\L")],
    );
    let command = command.unwrap();
    assert_eq!((command.program, command.args), (r"C:\L\t\t.exe".into(), vec!["a & b".to_owned()]));
}

#[test]
fn a_launcher_may_start_another_launcher() {
    // yarn 1 in its global bin folder.
    let outer = "@\"%~dp0\\..\\Data\\global\\node_modules\\.bin\\t.cmd\"   %*\r\n";
    let inner = OLD.replace(r"node_modules\t", r"..\t");
    let files = [
        (r"C:\Y\bin\t.cmd", outer),
        (r"C:\Y\Data\global\node_modules\.bin\t.cmd", &*inner),
        (r"C:\Y\Data\global\node_modules\t\cli.js", ""),
        (NODE, ""),
    ];
    starts(r"C:\Y\bin\t.cmd", &files, NODE, &[r"C:\Y\Data\global\node_modules\t\cli.js"]);
    let pnpm = "@SETLOCAL\r\n@IF EXIST \"%~dp0\\cmd.exe\" (\r\n  \"%~dp0\\cmd.exe\" /C \"%~dp0\\b.cmd\" %*\r\n) ELSE \
                (\r\n  @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  cmd /C \"%~dp0\\b.cmd\" %*\r\n)\r\n";
    let files = [(r"C:\n\t.cmd", pnpm), (r"C:\n\b.cmd", "@\"C:\\x.exe\" %*"), (r"C:\x.exe", "")];
    starts(r"C:\n\t.cmd", &files, r"C:\x.exe", &[]);
    let e = planned(r"C:\n\t.cmd", &[(r"C:\n\t.cmd", "@\"%~dp0t.cmd\" %*")], &[]).unwrap_err();
    assert!(e.message.contains("and so on"), "{}", e.message);
}

#[test]
fn powershell_is_the_last_resort() {
    let ps1 = r"C:\n\t.ps1";
    let args = ["-NoProfile", "-ExecutionPolicy", "Bypass", "-File", ps1];
    let built_in = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";
    let custom = ("C:\\n\\t.cmd", "@echo off\r\nfor %%i in (a b) do echo %%i\r\n");
    for path in [r"C:\n\t.cmd", ps1] {
        starts(path, &[custom, (ps1, ""), (built_in, "")], built_in, &args);
        let old = r"C:\tools\powershell.exe";
        starts(path, &[custom, (ps1, ""), (built_in, ""), (old, "")], old, &args);
        let new = r"D:\node\pwsh.exe";
        starts(path, &[custom, (ps1, ""), (built_in, ""), (old, ""), (new, "")], new, &args);
    }
    let files = [(ps1, ""), (r"E:\W\System32\WindowsPowerShell\v1.0\powershell.exe", "")];
    let command = planned(ps1, &files, &[("SYSTEMROOT", r"E:\W\")]).unwrap();
    assert!(command.program.to_str().unwrap().starts_with(r"E:\W\System32"));
    // The batch file beside it says the same without PowerShell.
    let shim = npm("", "", r"node_modules\t\cli.js");
    starts(ps1, &[(ps1, ""), (r"C:\n\t.cmd", &shim), (CLI, ""), (NODE, ""), (built_in, "")], NODE, &[CLI]);
}

#[test]
fn scripts_named_by_the_caller_get_their_node() {
    for script in [r"C:\n\t.js", r"C:\n\t.MJS", r"C:\n\t.cjs"] {
        starts(script, &[(script, ""), (NODE, "")], NODE, &[script]);
    }
}

#[test]
fn what_cannot_be_started_safely_is_refused_with_a_way_out() {
    let missing = npm("", "", r"node_modules\t\cli.js");
    for (text, files, why) in [
        ("@echo off\r\nset /p x=?\r\nnode x.js %*", vec![], "not those of a known launcher"),
        ("cd /d C:\\x & node x.js %*", vec![(NODE, "")], "not those of a known launcher"),
        ("node x.js < in %*", vec![(NODE, "")], "not those of a known launcher"),
        ("if errorlevel 1 (\nnode x.js %*\n)", vec![(NODE, "")], "not those of a known launcher"),
        ("@echo off", vec![], "not those of a known launcher"),
        ("\"%NOWHERE%\\t.exe\" %*", vec![], "a variable in it has no value"),
        ("node \"%NOWHERE%\" %*", vec![(NODE, "")], "a variable in it has no value"),
        ("\"%~dp0\\t.exe\" %*", vec![], r"C:\n\t.exe, which it starts, does not exist"),
        ("/bin/sh \"%~dp0\\t\" %*", vec![], "/bin/sh, which it starts, is no Windows program"),
        (&missing, vec![(NODE, "")], r"C:\n\node_modules\t\cli.js, which it starts, does not exist"),
        (&missing, vec![(CLI, "")], "it needs node, which is neither beside it nor on PATH"),
    ] {
        let files = [&[(r"C:\n\t.cmd", text)][..], &files].concat();
        let e = planned(r"C:\n\t.cmd", &files, &[]).unwrap_err();
        assert_eq!((e.code, e.option.as_deref()), (ErrorCode::UnsupportedLauncher, Some("executablePath")));
        assert!(e.message.starts_with(r"C:\n\t.cmd is a launcher script"), "{}", e.message);
        assert!(e.message.contains(why), "{text}: {}", e.message);
    }
    assert!(planned(r"C:\n\t.cmd", &[], &[]).unwrap_err().message.contains("it cannot be read"));
    assert!(planned(r"C:\n\t.ps1", &[(r"C:\n\t.ps1", "")], &[]).unwrap_err().message.contains("PowerShell"));
}

#[test]
fn paths_are_made_plain() {
    for (path, plain) in [
        (r"C:\a\\b/./c\..\d.js", r"C:\a\b\d.js"),
        (r"\\host\share\x\..\y", r"\\host\share\y"),
        (r"C:\..\x", r"C:\x"),
    ] {
        assert_eq!(normalized(path), plain);
    }
}
