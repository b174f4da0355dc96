//! pi's arguments.

use crate::agents::args;
use crate::contract::provider::{optional, standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};

/// Flags of ours, and those that pick another session or end pi before the prompt.
pub const BLOCKED: &[BlockedFlag] = &[
    standalone("-p"),
    standalone("--print"),
    value("--mode"),
    value("--session"),
    value("--thinking"),
    standalone("--continue"),
    standalone("-c"),
    standalone("--resume"),
    standalone("-r"),
    standalone("--no-session"),
    value("--fork"),
    value("--session-id"),
    standalone("--help"),
    standalone("-h"),
    standalone("--version"),
    standalone("-v"),
    value("--export"),
    optional("--list-models"),
];

/// Flags whose next token is their value whatever it looks like.
const WITH_VALUE: &[&str] = &[
    "--provider",
    "--model",
    "--api-key",
    "--system-prompt",
    "--append-system-prompt",
    "--name",
    "-n",
    "--session-dir",
    "--models",
    "--tools",
    "-t",
    "--exclude-tools",
    "-xt",
    "--extension",
    "-e",
    "--skill",
    "--prompt-template",
    "--theme",
    "--use-theme",
    "--tui-mode",
];

/// Long flags without a value. Every other long flag may belong to an extension and take one.
const WITHOUT_VALUE: &[&str] = &[
    "--no-tools",
    "--no-builtin-tools",
    "--no-extensions",
    "--no-skills",
    "--no-prompt-templates",
    "--no-themes",
    "--no-context-files",
    "--no-mcp",
    "--verbose",
    "--approve",
    "--no-approve",
    "--offline",
];

pub fn build(options: &ExecuteOptions, session: &str, system_prompt_file: Option<&str>) -> Vec<String> {
    let mut argv: Vec<String> = ["-p", "--mode", "json", "--session", session].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|v| !v.trim().is_empty()) {
            argv.extend([name.to_owned(), value.to_owned()]);
        }
    };
    // The id may hold slashes; pi itself finds the provider in it.
    flag("--model", options.model.as_deref().map(str::trim));
    flag("--thinking", options.thinking_level.as_deref());
    flag("--append-system-prompt", system_prompt_file);
    argv.extend(custom(&options.custom_args));
    argv
}

/// The caller's arguments without our flags and without anything that pi would add to the prompt on stdin:
/// bare words, `@file`s, all behind `--`.
fn custom(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut tokens = args::filter(args, BLOCKED).into_iter().peekable();
    while let Some(token) = tokens.next() {
        if token == "--" {
            break;
        }
        if !token.starts_with('-') {
            continue;
        }
        let takes_next = if WITH_VALUE.contains(&token.as_str()) {
            tokens.peek().is_some()
        } else {
            token.starts_with("--")
                && !token.contains('=')
                && !WITHOUT_VALUE.contains(&token.as_str())
                && tokens.peek().is_some_and(|next| !next.starts_with(['-', '@']))
        };
        kept.push(token);
        if takes_next {
            kept.extend(tokens.next());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|a| a.to_string()).collect()
    }

    #[test]
    fn the_command_line_in_order() {
        const S: &str = "/s.jsonl";
        let base = ["-p", "--mode", "json", "--session", S];
        let with = |change: fn(&mut ExecuteOptions), prompt_file: Option<&str>| {
            let mut options = ExecuteOptions::default();
            change(&mut options);
            build(&options, S, prompt_file)
        };
        let want = |more: &[&str]| strings(&[&base[..], more].concat());
        assert_eq!(with(|_| {}, None), want(&[]));
        assert_eq!(
            with(|o| o.model = Some("  claude-opus-5 ".into()), None),
            want(&["--model", "claude-opus-5"])
        );
        assert_eq!(
            with(|o| o.model = Some("claude/claude-opus-5".into()), None),
            want(&["--model", "claude/claude-opus-5"])
        );
        assert_eq!(with(|o| o.model = Some("   ".into()), None), want(&[]));
        assert_eq!(
            with(
                |o| {
                    o.thinking_level = Some("max".into());
                    o.custom_args = vec!["--thinking".into(), "low".into()];
                },
                None
            ),
            want(&["--thinking", "max"])
        );
        assert_eq!(
            with(
                |o| {
                    o.model = Some("m".into());
                    o.custom_args = vec!["--offline".into()];
                    o.extra_args = vec!["--ignored".into()];
                },
                Some("/f.md")
            ),
            want(&["--model", "m", "--append-system-prompt", "/f.md", "--offline"])
        );
    }

    #[test]
    fn custom_arguments_cannot_touch_prompt_or_session() {
        let cases: &[(&[&str], &[&str])] = &[
            (
                &[
                    "--tools",
                    "read,bash",
                    "pos",
                    "@p.md",
                    "--verbose",
                    "after",
                    "--ext",
                    "v",
                    "--thinking",
                    "low",
                    "--thinking=medium",
                    "--offline",
                    "tail",
                ],
                &["--tools", "read,bash", "--verbose", "--ext", "v", "--offline"],
            ),
            (&["--continue", "-c", "--resume", "-r", "--no-session", "-h", "-v", "--version"], &[]),
            (&["--fork", "x", "--session-id", "y", "--export", "f", "--session=z", "--mode=rpc", "-p"], &[]),
            (&["--list-models", "son", "--list-models", "--offline"], &["--offline"]),
            (&["--offline", "--", "--verbose", "x"], &["--offline"]),
            (
                &["--system-prompt", "-x", "-t", "@y", "--name"],
                &["--system-prompt", "-x", "-t", "@y", "--name"],
            ),
            (&["--ext", "@f", "--ext=v", "w", "-q", "w"], &["--ext", "--ext=v", "-q"]),
            (&["--no-mcp", "w", "-nt", "w", "-ne"], &["--no-mcp", "-nt", "-ne"]),
            (
                &["--use-theme", "dark", "--tui-mode", "regular"],
                &["--use-theme", "dark", "--tui-mode", "regular"],
            ),
        ];
        for (args, want) in cases {
            assert_eq!(custom(&strings(args)), *want, "{args:?}");
        }
    }
}
