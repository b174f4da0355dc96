//! The caller's own arguments, minus the flags an agent sets itself.

use crate::contract::{BlockedFlag, FlagShape};

/// `args` without the blocked flags and their values. Tokens that stay lose one layer of quotes: callers paste
/// them from shell lines, where the shell would have removed it.
pub fn filter(args: &[String], blocked: &[BlockedFlag]) -> Vec<String> {
    let mut kept = Vec::with_capacity(args.len());
    let mut tokens = args.iter().map(|a| unquote(a)).peekable();
    while let Some(token) = tokens.next() {
        let (name, inline) = flag_name(&token);
        let Some(flag) = blocked.iter().find(|b| b.name == name) else {
            kept.push(token);
            continue;
        };
        tracing::debug!(flag = flag.name, "dropped a flag the library sets itself");
        let takes_next = match flag.shape {
            FlagShape::Standalone => false,
            FlagShape::Value => !inline,
            FlagShape::Optional => !inline && tokens.peek().is_some_and(|next| !next.starts_with('-')),
        };
        if takes_next {
            tokens.next();
        }
    }
    kept
}

/// Like [`filter`], for the launch prefix: its plain words are subcommands of a wrapper and always stay.
pub fn filter_prefix(prefix: &[String], blocked: &[BlockedFlag]) -> Vec<String> {
    let flags: Vec<BlockedFlag> =
        blocked.iter().filter(|b| b.name.starts_with('-') && b.name.len() > 1).copied().collect();
    filter(prefix, &flags)
}

/// The flag's name, and whether its value is in the same token.
fn flag_name(token: &str) -> (&str, bool) {
    match token.split_once('=') {
        Some((name, _)) if !name.is_empty() => (name, true),
        _ => (token, false),
    }
}

fn unquote(token: &str) -> String {
    if token.starts_with('-')
        && let Some((name, value)) = token.split_once('=')
    {
        return match inner(value) {
            Some(bare) => format!("{name}={bare}"),
            None => token.to_owned(),
        };
    }
    inner(token).unwrap_or(token).to_owned()
}

fn inner(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::provider::{optional, standalone, value};

    const BLOCKED: &[BlockedFlag] = &[
        value("--output-format"),
        value("--permission-mode"),
        standalone("-p"),
        standalone("acp"),
        optional("--worktree"),
    ];

    fn run(f: fn(&[String], &[BlockedFlag]) -> Vec<String>, args: &[&str]) -> Vec<String> {
        f(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>(), BLOCKED)
    }

    #[test]
    fn blocked_flags_go_with_their_values() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["--output-format", "text", "--model", "o3"], &["--model", "o3"]),
            (&["--output-format", "--verbose", "x"], &["x"]),
            (&["--output-format"], &[]),
            (&["--permission-mode=plan", "--verbose"], &["--verbose"]),
            (&["--output-format='json'", "--verbose"], &["--verbose"]),
            (&["-p", "--max-turns", "10"], &["--max-turns", "10"]),
            (&["-p=x", "y"], &["y"]),
            (&["--worktree", "name", "a"], &["a"]),
            (&["--worktree", "--x"], &["--x"]),
            (&["--worktree=name", "a"], &["a"]),
            (&["-output-format", "x"], &["-output-format", "x"]),
            (&["acp", "b"], &["b"]),
        ];
        for (args, want) in cases {
            assert_eq!(run(filter, args), *want, "{args:?}");
        }
    }

    #[test]
    fn one_layer_of_quotes_goes() {
        for (token, want) in [
            ("--deny-tool='write'", "--deny-tool=write"),
            ("\"write\"", "write"),
            ("'a b'", "a b"),
            ("model=\"o3\"", "model=\"o3\""),
            ("--flag='val\"", "--flag='val\""),
            ("''x''", "'x'"),
            ("'", "'"),
            ("", ""),
            ("=x", "=x"),
        ] {
            assert_eq!(run(filter, &[token]), [want], "{token}");
        }
    }

    #[test]
    fn words_of_the_prefix_stay() {
        assert_eq!(
            run(filter_prefix, &["start", "q36", "-p", "--output-format", "text", "--model", "m"]),
            ["start", "q36", "--model", "m"]
        );
        assert_eq!(
            run(filter_prefix, &["start", "--permission-mode", "ask", "q36", "--output-format=text"]),
            ["start", "q36"]
        );
        assert_eq!(run(filter_prefix, &["acp", "tenant"]), ["acp", "tenant"]);
    }
}
