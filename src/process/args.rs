//! Callers' arguments: what may be passed on, and what of an argv may be logged.

use crate::contract::{BlockedFlag, FlagShape};

/// What is left of a caller's list, and the names of the flags that were taken out (never their values).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filtered {
    pub kept: Vec<String>,
    pub dropped: Vec<String>,
}

/// Filters `extraArgs` or `customArgs`. Kept tokens lose one layer of outer quotes: people paste arguments
/// as they would type them in a shell, and no shell reads these.
pub fn filter(args: &[String], blocked: &[BlockedFlag]) -> Filtered {
    filter_with(args, blocked, |_| true)
}

/// Filters `launchPrefix`. Only flags are dropped: a plain word is the wrapper's own subcommand even where
/// it equals a blocked word of the CLI (`acp`, `serve`).
pub fn filter_prefix(prefix: &[String], blocked: &[BlockedFlag]) -> Filtered {
    filter_with(prefix, blocked, |token| token.starts_with('-') && token != "-" && token != "--")
}

fn filter_with(args: &[String], blocked: &[BlockedFlag], droppable: fn(&str) -> bool) -> Filtered {
    let mut out = Filtered::default();
    let mut rest = args.iter().map(|a| unquote(a)).peekable();
    while let Some(token) = rest.next() {
        let name = flag_name(&token);
        let hit = blocked.iter().find(|b| b.name == name).filter(|_| droppable(&token));
        let Some(flag) = hit else {
            out.kept.push(token);
            continue;
        };
        out.dropped.push(name.to_owned());
        if name.len() < token.len() {
            continue; // the value was inline
        }
        match flag.shape {
            FlagShape::Standalone => {}
            FlagShape::Value => {
                rest.next();
            }
            FlagShape::Optional => {
                rest.next_if(|next| !next.starts_with('-'));
            }
        }
    }
    out
}

/// Flags (names only, in the order of `args`) that `args` gives once more after `prefix` did: most CLIs let
/// the later one win without a word.
pub fn shared_flags(prefix: &[String], args: &[String]) -> Vec<String> {
    let mut shared: Vec<String> = Vec::new();
    for name in args.iter().map(|a| flag_name(a)) {
        let is_flag = name.len() > 1 && name.starts_with('-') && name != "--";
        if is_flag && !shared.iter().any(|s| s == name) && prefix.iter().any(|p| flag_name(p) == name) {
            shared.push(name.to_owned());
        }
    }
    shared
}

/// Removes one pair of outer quotes: around the whole token, or around the value of `-flag=value`. Nothing
/// is unescaped and unmatched quotes stay.
pub fn unquote(token: &str) -> String {
    if let Some((name, value)) = token.split_once('=').filter(|(n, _)| n.starts_with('-')) {
        return match inside_quotes(value) {
            Some(bare) => format!("{name}={bare}"),
            None => token.to_owned(),
        };
    }
    inside_quotes(token).unwrap_or(token).to_owned()
}

fn inside_quotes(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|q| text.strip_prefix(q)?.strip_suffix(q))
}

/// The text before the first `=`, unless that is the first character.
fn flag_name(token: &str) -> &str {
    match token.find('=') {
        Some(at) if at > 0 => &token[..at],
        _ => token,
    }
}

/// An argv as a log may show it: names of flags, and `<redacted>` for every value and positional. `own` are
/// words that the library itself placed, each by its index in `argv`; they are shown only where index and
/// word both agree, since a caller's argument may be the same word.
pub fn loggable(argv: &[String], own: &[(usize, &str)]) -> Vec<String> {
    let shown = |(index, token): (usize, &String)| {
        let name = flag_name(token);
        if is_plausible_flag(name) {
            name.to_owned()
        } else if own.iter().any(|(at, word)| *at == index && word == token) {
            token.clone()
        } else {
            "<redacted>".to_owned()
        }
    };
    argv.iter().enumerate().map(shown).collect()
}

/// `-x`, or `--` and a name. Longer clusters such as `-sTk9…` may carry a value and are no name.
fn is_plausible_flag(name: &str) -> bool {
    const LONGEST: usize = 64;
    if let Some(long) = name.strip_prefix("--") {
        return name.len() <= LONGEST
            && long.starts_with(|c: char| c.is_ascii_alphabetic())
            && long.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    }
    matches!(name.as_bytes(), [b'-', letter] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::provider::{optional, standalone, value};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    const CLAUDE: &[BlockedFlag] = &[
        value("--output-format"),
        value("--input-format"),
        value("--permission-mode"),
        value("--mcp-config"),
        value("--effort"),
        standalone("-p"),
    ];
    const GROK: &[BlockedFlag] = &[
        value("-m"),
        value("--model"),
        standalone("agent"),
        standalone("stdio"),
        standalone("-p"),
        optional("-w"),
        optional("--worktree"),
    ];

    #[test]
    fn blocked_flags_go_with_their_values() {
        for (blocked, args, kept, dropped) in [
            (CLAUDE, "--output-format text --model o3", "--model o3", "--output-format"),
            (CLAUDE, "--permission-mode=plan --verbose", "--verbose", "--permission-mode"),
            (CLAUDE, "-p --max-turns 10", "--max-turns 10", "-p"),
            (CLAUDE, "--output-format='json' --verbose", "--verbose", "--output-format"),
            (CLAUDE, "--effort --verbose --debug", "--debug", "--effort"),
            (CLAUDE, "-p=x --a", "--a", "-p"),
            (CLAUDE, "--a --effort", "--a", "--effort"),
            (CLAUDE, "-effort high", "-effort high", ""),
            (CLAUDE, "-pv --effortless x", "-pv --effortless x", ""),
            (CLAUDE, "=--effort x", "=--effort x", ""),
            (CLAUDE, "'--effort' high x", "x", "--effort"),
            (GROK, "-w branch --a", "--a", "-w"),
            (GROK, "-w --a", "--a", "-w"),
            (GROK, "-w '--a'", "--a", "-w"),
            (GROK, "--worktree=x y", "y", "--worktree"),
            (GROK, "--a -w", "--a", "-w"),
            (GROK, "agent stdio --a", "--a", "agent stdio"),
            (&[], "acp -p --x", "acp -p --x", ""),
            (CLAUDE, "", "", ""),
        ] {
            let got = filter(&words(args), blocked);
            assert_eq!((got.kept, got.dropped), (words(kept), words(dropped)), "{args}");
        }
    }

    #[test]
    fn a_launch_prefix_keeps_its_words() {
        const HERMES: &[BlockedFlag] = &[standalone("acp")];
        const TRAECLI: &[BlockedFlag] = &[standalone("acp"), standalone("serve"), standalone("-y")];
        const DASHES: &[BlockedFlag] = &[standalone("-"), standalone("--")];
        for (blocked, prefix, kept) in [
            (CLAUDE, "start q36 -p --output-format text --model m", "start q36 --model m"),
            (CLAUDE, "start --permission-mode ask q36 --output-format=text", "start q36"),
            (GROK, "agent -p stdio", "agent stdio"),
            (GROK, "agent -w --x", "agent --x"),
            (HERMES, "acp tenant", "acp tenant"),
            (TRAECLI, "serve acp", "serve acp"),
            (DASHES, "x -- -", "x -- -"),
            (&[], "exec --yolo --", "exec --yolo --"),
        ] {
            assert_eq!(filter_prefix(&words(prefix), blocked).kept, words(kept), "{prefix}");
        }
    }

    #[test]
    fn one_layer_of_quotes_goes() {
        for (token, bare) in [
            ("--deny-tool='write'", "--deny-tool=write"),
            ("--deny-tool=\"write\"", "--deny-tool=write"),
            ("\"write\"", "write"),
            ("'two words'", "two words"),
            ("model=\"o3\"", "model=\"o3\""),
            ("--flag='val\"", "--flag='val\""),
            ("'--flag=x'", "--flag=x"),
            ("''", ""),
            ("'", "'"),
            ("--flag='", "--flag='"),
            ("--flag=''", "--flag="),
            ("\"'x'\"", "'x'"),
            ("'x\\'y'", "x\\'y"),
            ("", ""),
            ("'é'", "é"),
        ] {
            assert_eq!(unquote(token), bare, "{token}");
        }
    }

    #[test]
    fn flags_given_twice_are_told() {
        let shared = shared_flags(&words("x --model a -v -- =x"), &words("--model=b y --model c -v x -- =x"));
        assert_eq!(shared, ["--model", "-v"]);
        assert!(shared_flags(&words("--a"), &words("--ab")).is_empty());
    }

    #[test]
    fn logs_show_flag_names_only() {
        let letters = |n: usize| format!("--{}", "a".repeat(n));
        for (argv, shown) in [
            ("--api-key k", "--api-key <redacted>"),
            ("--token=t", "--token"),
            ("-sTk9xQZ-secretvalue", "<redacted>"),
            ("-c a.b=\"s\"", "-c <redacted>"),
            ("-x=y", "-x"),
            ("--verbose", "--verbose"),
            ("-1 - -- --1 --a$b", "<redacted> <redacted> <redacted> <redacted> <redacted>"),
            (&letters(62), &letters(62)),
            (&letters(63), "<redacted>"),
            (&letters(64), "<redacted>"),
        ] {
            assert_eq!(loggable(&words(argv), &[]), words(shown), "{argv}");
        }
    }

    #[test]
    fn own_words_are_shown_at_their_own_place_only() {
        let argv = words("-File C:\\x.ps1 acp --tag acp");
        let shown = loggable(&argv, &[(2, "acp"), (1, "acp")]);
        assert_eq!(shown, words("<redacted> <redacted> acp --tag <redacted>"));
    }
}
