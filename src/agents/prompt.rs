//! Whether a prompt may travel as an argument.

use std::path::Path;

use crate::contract::Os;

/// Bytes of a whole command line that every start survives. Windows ends at 32,767 characters; Linux takes
/// 128 KiB for one argument; the rest is left for what launchers put in front.
const fn budget(os: Os) -> usize {
    match os {
        Os::Windows => 24 * 1024,
        Os::Linux | Os::MacOs => 100 * 1024,
    }
}

/// false: the prompt must take another way. A batch launcher of Windows hands its arguments to a shell, which
/// reads newlines, quotes and percent signs in them, so it gets no prompt at all.
pub fn fits_argv(os: Os, program: &Path, args: &[String], prompt: &str) -> bool {
    let path = program.to_string_lossy();
    let batch = |end: &str| {
        path.len() >= end.len()
            && path.as_bytes()[path.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    if os == Os::Windows && (batch(".cmd") || batch(".bat")) {
        return false;
    }
    // Quotes and backslashes are escaped on Windows; a blank and two quotes come with each argument.
    let quoted = |text: &str| match os {
        Os::Windows => text.len() + 3 + text.bytes().filter(|b| matches!(b, b'"' | b'\\')).count(),
        Os::Linux | Os::MacOs => text.len() + 1,
    };
    let whole = quoted(&path) + quoted(prompt) + args.iter().map(|a| quoted(a)).sum::<usize>();
    whole <= budget(os)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prompts_and_batch_launchers_need_another_way() {
        let fits = |os, program: &str, prompt: &str| fits_argv(os, Path::new(program), &[], prompt);
        assert!(fits(Os::Linux, "/b/x", &"p".repeat(90 * 1024)));
        assert!(!fits(Os::Linux, "/b/x", &"p".repeat(101 * 1024)));
        assert!(fits(Os::Windows, r"C:\x.exe", &"p".repeat(20_000)));
        assert!(!fits(Os::Windows, r"C:\x.exe", &"p".repeat(25_000)));
        assert!(!fits(Os::Windows, r"C:\x.exe", &"\"".repeat(13_000)));
        for launcher in [r"C:\x.cmd", r"C:\x.BAT"] {
            assert!(!fits(Os::Windows, launcher, "short"));
            assert!(fits(Os::Linux, launcher, "short"));
        }
        let args = vec!["a".repeat(60 * 1024)];
        assert!(!fits_argv(Os::MacOs, Path::new("/x"), &args, &"p".repeat(60 * 1024)));
    }
}
