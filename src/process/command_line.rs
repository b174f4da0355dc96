//! What a command line can carry, checked before anything is started: the systems answer too late and with
//! errors that read like a missing file or a crashed program.

use std::path::Path;

use crate::contract::{AgentplugError, ErrorCode, Os};
use crate::process::env::ChildEnv;

/// Windows: the whole line with quoting, in UTF-16 units, with the NUL at its end.
pub const WINDOWS_LINE: usize = 32_767;
/// The whole line where cmd.exe reads it, in UTF-16 units.
pub const CMD_LINE: usize = 8_191;
/// Linux: one argument or environment entry, in bytes, without its NUL (MAX_ARG_STRLEN).
pub const LINUX_STRING: usize = 131_071;
/// macOS: arguments and environment together with their pointers, in bytes (ARG_MAX).
pub const MACOS_TOTAL: usize = 1024 * 1024;
/// Kept free on macOS, where the kernel puts strings of its own into the same space.
pub const MACOS_HEADROOM: usize = 4 * 1024;

/// The program decides the route: cmd.exe and Windows PowerShell read their arguments by rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Direct,
    Cmd,
    /// Up to 5.1. It builds the command line for what it starts without escaping quotes.
    WindowsPowerShell,
}

fn route(program: &str, os: Os) -> Route {
    if os != Os::Windows {
        return Route::Direct;
    }
    let name = program.rsplit(['\\', '/']).next().unwrap_or(program).to_ascii_lowercase();
    match name.as_str() {
        "cmd.exe" | "cmd" => Route::Cmd,
        "powershell.exe" | "powershell" => Route::WindowsPowerShell,
        _ if name.ends_with(".cmd") || name.ends_with(".bat") => Route::Cmd,
        _ => Route::Direct,
    }
}

/// Whether `program` can be started with these arguments. Errors tell sizes, never contents.
pub fn check(program: &Path, args: &[String], env: &ChildEnv, os: Os) -> Result<(), AgentplugError> {
    let program = program.to_string_lossy();
    if args.iter().any(|a| a.contains('\0')) {
        return Err(AgentplugError::new(
            ErrorCode::InvalidPrompt,
            "the prompt or another argument holds a NUL character, which no command line can carry: remove it",
        ));
    }
    if let Some((name, _)) = env.iter().find(|(name, value)| name.contains('\0') || value.contains('\0')) {
        let name = name.replace('\0', "\\0");
        return Err(AgentplugError::option(
            "env",
            format!("environment variable {name} holds a NUL character"),
        ));
    }
    let longest = args.iter().map(String::len).max().unwrap_or(0);
    let too_long = |what: &str, size: usize, unit: &str, limit: usize| {
        let system = match os {
            Os::Linux => "Linux",
            Os::MacOs => "macOS",
            Os::Windows => "Windows",
        };
        Err(AgentplugError::new(
            ErrorCode::PromptTooLong,
            format!(
                "{what} for {program} would be {size} {unit} long, but {system} takes at most {limit} (the longest \
                 argument has {longest} bytes): shorten the prompt, or put the text into a file and name that file \
                 in the prompt"
            ),
        ))
    };
    match os {
        Os::Windows => {
            let units = windows_line(&program, args);
            match route(&program, os) {
                Route::Cmd if units > CMD_LINE => {
                    too_long("the command line through cmd.exe", units, "UTF-16 units", CMD_LINE)
                }
                _ if units + 1 > WINDOWS_LINE => {
                    too_long("the command line with its final NUL", units + 1, "UTF-16 units", WINDOWS_LINE)
                }
                Route::WindowsPowerShell if args.iter().any(|a| changed_by_powershell(a)) => {
                    Err(AgentplugError::new(
                        ErrorCode::UnsupportedLauncher,
                        "the prompt or another argument is empty, holds a double quote, or ends with a backslash \
                         after blanks, and Windows PowerShell changes such arguments when it starts a program: \
                         install PowerShell 7.3 or newer (pwsh), or pass the native executable as option \
                         executablePath",
                    )
                    .about("executablePath"))
                }
                _ => Ok(()),
            }
        }
        Os::Linux => {
            if longest > LINUX_STRING {
                return too_long("one argument", longest, "bytes", LINUX_STRING);
            }
            match env.iter().map(|(n, v)| (n, n.len() + 1 + v.len())).find(|(_, size)| *size > LINUX_STRING) {
                Some((name, size)) => Err(AgentplugError::option(
                    "env",
                    format!(
                        "environment variable {name} is {size} bytes long with its name, but Linux takes at most \
                         {LINUX_STRING}"
                    ),
                )),
                None => Ok(()),
            }
        }
        Os::MacOs => {
            let size = macos_total(&program, args, env);
            if size > MACOS_TOTAL - MACOS_HEADROOM {
                let limit = MACOS_TOTAL - MACOS_HEADROOM;
                return too_long("the command line with the environment", size, "bytes", limit);
            }
            Ok(())
        }
    }
}

/// UTF-16 units of the line as the standard library quotes it, without its NUL.
fn windows_line(program: &str, args: &[String]) -> usize {
    let program = program.encode_utf16().count() + 2;
    program + args.iter().map(|a| 1 + windows_argument(a)).sum::<usize>()
}

/// Quotes around empty arguments and those with blanks; a backslash before each quote, and before each
/// backslash that a quote follows.
fn windows_argument(arg: &str) -> usize {
    let quoted = arg.is_empty() || arg.contains([' ', '\t']);
    let mut units = if quoted { 2 } else { 0 };
    let mut backslashes = 0;
    for c in arg.chars() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                units += backslashes + 1;
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        units += c.len_utf16();
    }
    if quoted { units + backslashes } else { units }
}

fn changed_by_powershell(arg: &str) -> bool {
    arg.is_empty() || arg.contains('"') || (arg.ends_with('\\') && arg.contains(char::is_whitespace))
}

/// Every string with its NUL and its pointer, and the pointers that end both lists. The program counts twice:
/// as the path to execute and as the first argument.
fn macos_total(program: &str, args: &[String], env: &ChildEnv) -> usize {
    const POINTER: usize = 8;
    let entry = |bytes: usize| bytes + 1 + POINTER;
    let args: usize = args.iter().map(|a| entry(a.len())).sum();
    let env: usize = env.iter().map(|(n, v)| entry(n.len() + 1 + v.len())).sum();
    program.len() + 1 + entry(program.len()) + args + env + 2 * POINTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::options::EnvList;

    fn env(entries: &[(&str, &str)], os: Os) -> ChildEnv {
        let entries = entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        ChildEnv::new(&EnvList::default(), &EnvList(entries), os)
    }

    fn code(program: &str, args: &[&str], os: Os) -> Result<(), ErrorCode> {
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        check(Path::new(program), &args, &env(&[], os), os).map_err(|e| e.code)
    }

    #[test]
    fn each_route_takes_its_limit_and_no_more() {
        let cmd = r"C:\Windows\System32\cmd.exe";
        let old_shell = r"C:\W\powershell.exe";
        for (os, program, limit) in [
            // What is left for one unquoted argument: program in quotes, blank, final NUL.
            (Os::Windows, r"C:\x.exe", WINDOWS_LINE - (8 + 2) - 1 - 1),
            (Os::Windows, r"C:\pwsh.exe", WINDOWS_LINE - (11 + 2) - 1 - 1),
            (Os::Windows, old_shell, WINDOWS_LINE - (old_shell.len() + 2) - 1 - 1),
            (Os::Windows, cmd, CMD_LINE - (cmd.len() + 2) - 1),
            (Os::Windows, r"C:\x.CMD", CMD_LINE - (8 + 2) - 1),
            (Os::Linux, "/x.cmd", 131_071),
            (Os::MacOs, "/x", MACOS_TOTAL - MACOS_HEADROOM - (2 + 1) - (2 + 1 + 8) - (1 + 8) - 16),
        ] {
            for (size, expected) in
                [(limit - 1, Ok(())), (limit, Ok(())), (limit + 1, Err(ErrorCode::PromptTooLong))]
            {
                assert_eq!(code(program, &[&"p".repeat(size)], os), expected, "{program} {size}");
            }
        }
    }

    #[test]
    fn quoting_counts_as_windows_writes_it() {
        for (arg, line) in [
            ("", r#""""#),
            ("a", "a"),
            ("a b", r#""a b""#),
            ("a\tb", "\"a\tb\""),
            ("a\nb", "a\nb"),
            (r#"a"b"#, r#"a\"b"#),
            (r#"a\"b"#, r#"a\\\"b"#),
            (r"a\\b", r"a\\b"),
            (r"a b\", r#""a b\\""#),
            (r"a\", r"a\"),
            ("é😀", "é😀"),
        ] {
            assert_eq!(windows_argument(arg), line.encode_utf16().count(), "{arg}");
        }
        assert_eq!(windows_line(r"C:\x.exe", &["a b".into(), "c".into()]), r#""C:\x.exe" "a b" c"#.len());
    }

    #[test]
    fn many_short_arguments_and_the_environment_count_too() {
        let args = vec!["p".repeat(1000); 33];
        let windows = check(Path::new(r"C:\x.exe"), &args, &env(&[], Os::Windows), Os::Windows);
        assert_eq!(windows.unwrap_err().code, ErrorCode::PromptTooLong);
        assert_eq!(check(Path::new("/x"), &args, &env(&[], Os::Linux), Os::Linux), Ok(()));
        let big = "v".repeat(MACOS_TOTAL);
        let mac = check(Path::new("/x"), &[], &env(&[("A", &big)], Os::MacOs), Os::MacOs);
        assert_eq!(mac.unwrap_err().code, ErrorCode::PromptTooLong);
        for (size, ok) in [(LINUX_STRING - 2, true), (LINUX_STRING - 1, false)] {
            let env = env(&[("A", &"v".repeat(size))], Os::Linux);
            let linux = check(Path::new("/x"), &[], &env, Os::Linux);
            assert_eq!(linux.as_ref().is_ok(), ok, "{linux:?}");
            if let Err(e) = linux {
                assert_eq!((e.code, e.option.as_deref()), (ErrorCode::InvalidOption, Some("env")));
            }
        }
    }

    #[test]
    fn errors_tell_sizes_and_no_content() {
        let prompt = "s3cret ".repeat(30_000);
        for os in [Os::Linux, Os::Windows] {
            let e = check(Path::new("/x"), std::slice::from_ref(&prompt), &env(&[], os), os).unwrap_err();
            let limit = if os == Os::Linux { LINUX_STRING } else { WINDOWS_LINE };
            assert!(e.message.contains(&limit.to_string()) && e.message.contains("210000"), "{}", e.message);
            assert!(!e.message.contains("s3cret"));
        }
    }

    #[test]
    fn nul_characters_are_refused_everywhere() {
        for os in [Os::Linux, Os::MacOs, Os::Windows] {
            assert_eq!(code("/x", &["a\0s3cret"], os), Err(ErrorCode::InvalidPrompt));
            let e = check(Path::new("/x"), &[], &env(&[("A", "s3\0cret")], os), os).unwrap_err();
            assert_eq!(e.option.as_deref(), Some("env"));
            assert!(e.message.contains('A') && !e.message.contains("cret"), "{}", e.message);
        }
    }

    #[test]
    fn arguments_that_windows_powershell_would_change_are_refused() {
        let host = r"C:\W\PowerShell.exe";
        for (arg, kept) in [
            ("plain", true),
            ("two words\nand lines, 100% 'single'", true),
            (r"C:\folder\", true),
            (r"C:\my folder\", false),
            ("say \"x\"", false),
            ("", false),
        ] {
            let expected = if kept { Ok(()) } else { Err(ErrorCode::UnsupportedLauncher) };
            assert_eq!(code(host, &["-File", r"C:\x.ps1", arg], Os::Windows), expected, "{arg}");
            assert_eq!(code(r"C:\pwsh.exe", &[arg], Os::Windows), Ok(()));
            assert_eq!(code("/bin/powershell", &[arg], Os::Linux), Ok(()));
        }
    }
}
