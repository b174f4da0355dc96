//! The arguments of `opencode run`.

use crate::contract::provider::{standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};
use crate::process::probe::Probe;

pub const BLOCKED: &[BlockedFlag] = &[
    value("--format"),
    value("--dir"),
    value("--variant"),
    value("--session"),
    value("-s"),
    value("--attach"),
    value("--command"),
    standalone("--continue"),
    standalone("-c"),
    standalone("--interactive"),
    standalone("-i"),
    standalone("--mini"),
    standalone("--dangerously-skip-permissions"),
    standalone("--auto"),
    standalone("--yolo"),
    standalone("--thinking"),
];

/// Flags that changed between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    pub permission: &'static str,
    /// Without the flag the reasoning of the model is not printed.
    pub thinking: bool,
}

impl Dialect {
    pub const OLD: Dialect = Dialect { permission: "--dangerously-skip-permissions", thinking: false };

    /// Before 1.15 an unknown `--auto` ends the start; around 1.18.8 the old name was taken without effect, and
    /// the run stalled at the first permission question. So the help text decides; without one, the old name.
    pub fn of(help: Option<&Probe>) -> Dialect {
        let text = help.map(|h| format!("{}\n{}", h.stdout, h.stderr)).unwrap_or_default();
        let has = |flag: &str| text.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == flag);
        let permission = if has("--auto") { "--auto" } else { Self::OLD.permission };
        Dialect { permission, thinking: has("--thinking") }
    }
}

pub fn build(options: &ExecuteOptions, dialect: Dialect) -> Vec<String> {
    let mut args: Vec<String> = ["run", "--format", "json", dialect.permission].map(str::to_owned).into();
    if dialect.thinking {
        args.push("--thinking".to_owned());
    }
    let mut pair = |flag: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            args.extend([flag.to_owned(), value.to_owned()]);
        }
    };
    pair("--dir", options.cwd.to_str());
    pair("--model", options.model.as_deref());
    pair("--variant", options.thinking_level.as_deref());
    pair("--session", options.resume_session_id.as_deref());
    args.extend(without_positionals(crate::agents::args::filter(&options.custom_args, BLOCKED)));
    args
}

/// Words that belong to no flag would be put in front of the prompt.
fn without_positionals(args: Vec<String>) -> Vec<String> {
    const TAKE_NOTHING: &[&str] =
        &["--print-logs", "--pure", "--fork", "--share", "--help", "-h", "--version", "-v"];
    const TAKE_MANY: &[&str] = &["--file", "-f"];
    let mut kept = Vec::with_capacity(args.len());
    // How many of the following words the last flag takes.
    let mut room = 0;
    for arg in args {
        if arg == "--" {
            break;
        }
        if arg.starts_with('-') && arg.len() > 1 {
            room = match arg.as_str() {
                a if a.contains('=') || TAKE_NOTHING.contains(&a) => 0,
                a if TAKE_MANY.contains(&a) => usize::MAX,
                _ => 1,
            };
        } else if room == 0 {
            tracing::warn!("dropped a positional argument: it would become part of the prompt");
            continue;
        } else {
            room -= 1;
        }
        kept.push(arg);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Dialect = Dialect::OLD;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn help(text: &str) -> Probe {
        Probe { stdout: String::new(), stderr: text.into(), success: true, ..Probe::default() }
    }

    #[test]
    fn the_order_is_fixed() {
        let options = ExecuteOptions {
            cwd: "/w".into(),
            model: Some("p/m".into()),
            thinking_level: Some("max".into()),
            resume_session_id: Some("ses_9".into()),
            custom_args: words("--variant low --keep --dir /x"),
            extra_args: words("--extra"),
            system_prompt: Some("sys".into()),
            max_turns: Some(3),
            ..Default::default()
        };
        let want = "run --format json --dangerously-skip-permissions --dir /w --model p/m --variant max \
                    --session ses_9 --keep";
        assert_eq!(build(&options, OLD), words(want));
        let options = ExecuteOptions::default();
        assert_eq!(build(&options, OLD), words("run --format json --dangerously-skip-permissions"));
        let new = Dialect { permission: "--auto", thinking: true };
        assert_eq!(build(&options, new), words("run --format json --auto --thinking"));
    }

    #[test]
    fn callers_cannot_change_the_protocol_or_the_session() {
        let options = ExecuteOptions {
            custom_args: words(
                "--format default -s ses_1 --session=ses_2 -c --continue --attach http://x --interactive -i --mini \
                 --command init --auto --yolo --thinking --dangerously-skip-permissions stray --title t --pure stray \
                 -f a b --agent=x stray -- more",
            ),
            ..Default::default()
        };
        let args = build(&options, OLD);
        assert_eq!(args[4..], words("--title t --pure -f a b --agent=x"));
    }

    #[test]
    fn the_help_text_decides_on_the_flags() {
        let real = help(include_str!("../../../__test__/recordings/opencode-1.18.33/run-help.stderr.txt"));
        assert_eq!(Dialect::of(Some(&real)), Dialect { permission: "--auto", thinking: true });
        let old = help("  --dangerously-skip-permissions  auto-approve\n  --autoupdate  x\n");
        assert_eq!(Dialect::of(Some(&old)), OLD);
        assert_eq!(Dialect::of(Some(&help(""))), OLD);
        assert_eq!(Dialect::of(None), OLD);
    }
}
