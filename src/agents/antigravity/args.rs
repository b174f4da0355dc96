//! The arguments of one start, and which of its forms is used.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use semver::Version;

use crate::agents::args::filter;
use crate::contract::provider::{standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions, duration};

pub const BLOCKED: &[BlockedFlag] = &[
    value("-p"),
    value("--print"),
    value("--prompt"),
    value("--conversation"),
    value("--model"),
    value("--print-timeout"),
    value("--log-file"),
    value("--settings"),
    value("--output-format"),
    value("--input-format"),
    value("--json-schema"),
    standalone("-i"),
    standalone("--prompt-interactive"),
    standalone("-c"),
    standalone("--continue"),
    standalone("--dangerously-skip-permissions"),
];

/// How the CLI is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prompt as an argument, the answer as plain text.
    Text,
    /// Prompt as an argument, events on stdout.
    Stream,
    /// Prompt as a line on stdin, events on stdout.
    StreamBothWays,
}

/// Events came with this version.
const STREAM: Version = Version::new(1, 1, 8);

impl Form {
    /// `help`: the help text; `version`: for where that tells nothing.
    pub fn of(help: Option<&str>, version: Option<&Version>) -> Form {
        let lists = |flag: &str| help.is_some_and(|text| text.contains(flag));
        if lists("--input-format") {
            Form::StreamBothWays
        } else if lists("--output-format") || version.is_some_and(|v| *v >= STREAM) {
            Form::Stream
        } else {
            Form::Text
        }
    }
}

/// Its own limit is five minutes unless given, and it cannot be turned off.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// So that our limit fires first and names itself.
const BEHIND_OURS: Duration = Duration::from_secs(5);

/// The limit passed on for a run with this limit of ours.
pub fn print_timeout(limit: Option<Duration>) -> Duration {
    limit.map_or(NO_LIMIT, |limit| limit + BEHIND_OURS)
}

pub fn build(
    prompt: &str,
    options: &ExecuteOptions,
    form: Form,
    log_file: &str,
    print_timeout: Duration,
) -> Vec<String> {
    let mut args = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|w| (*w).to_owned()));
    if form != Form::StreamBothWays {
        // It takes the next word as its value, whatever it looks like.
        add(&["-p", prompt]);
    }
    add(&["--dangerously-skip-permissions"]);
    match form {
        Form::Text => {}
        Form::Stream => add(&["--output-format", "stream-json"]),
        Form::StreamBothWays => add(&["--input-format", "stream-json", "--output-format", "stream-json"]),
    }
    if let Some(model) = options.model.as_deref().filter(|m| !m.is_empty()) {
        add(&["--model", model]);
    }
    let limit = duration::format(print_timeout.max(Duration::from_secs(1)));
    add(&["--print-timeout", &limit, "--log-file", log_file]);
    if let Some(id) = options.resume_session_id.as_deref().filter(|id| !id.is_empty()) {
        add(&["--conversation", id]);
    }
    // Without it, it works in a scratch folder of its own.
    if !options.cwd.as_os_str().is_empty() {
        add(&["--add-dir", &clean(&options.cwd).to_string_lossy()]);
    }
    args.extend(filter(&options.extra_args, BLOCKED));
    args.extend(filter(&options.custom_args, BLOCKED));
    args
}

/// Without `.` and `..`, by the words of the path alone.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            Component::ParentDir if clean.has_root() => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }
    fn options() -> ExecuteOptions {
        ExecuteOptions { cwd: "/work/./a/..".into(), ..Default::default() }
    }
    const MINUTES: Duration = Duration::from_secs(20 * 60);

    #[test]
    fn the_order_of_each_form() {
        let given = |form| build("hello", &options(), form, "/l", MINUTES);
        let tail = "--print-timeout 20m0s --log-file /l --add-dir /work";
        assert_eq!(given(Form::Text), words(&format!("-p hello --dangerously-skip-permissions {tail}")));
        assert_eq!(
            given(Form::Stream),
            words(&format!("-p hello --dangerously-skip-permissions --output-format stream-json {tail}"))
        );
        assert_eq!(
            given(Form::StreamBothWays),
            words(&format!(
                "--dangerously-skip-permissions --input-format stream-json --output-format stream-json {tail}"
            ))
        );
        let model = ExecuteOptions {
            model: Some("Claude X (Thinking)".into()),
            resume_session_id: Some("c-1".into()),
            ..options()
        };
        let args = build("-x", &model, Form::Text, "/l", MINUTES);
        assert_eq!(
            args[..5],
            ["-p", "-x", "--dangerously-skip-permissions", "--model", "Claude X (Thinking)"]
        );
        assert_eq!(args[9..11], ["--conversation", "c-1"]);
    }

    #[test]
    fn its_own_limit_lies_behind_ours() {
        let shown = |limit: Option<Duration>| duration::format(print_timeout(limit));
        assert_eq!(shown(None), "24h0m0s");
        assert_eq!(shown(Some(MINUTES)), "20m5s");
        let args = build("p", &options(), Form::Text, "/l", Duration::from_millis(100));
        assert_eq!(args[4], "1s");
    }

    #[test]
    fn callers_cannot_change_the_conversation() {
        let options = ExecuteOptions {
            extra_args: words("--settings /a --output-format text"),
            custom_args: words(
                "-p x -i --continue --conversation b --model s --log-file /e --settings=/b --input-format text \
                 --json-schema {} --add-dir /extra",
            ),
            ..options()
        };
        assert_eq!(build("p", &options, Form::Text, "/l", MINUTES)[9..], words("--add-dir /extra"));
    }

    #[test]
    fn the_form_follows_the_help_text_then_the_version() {
        let version = |text: &str| Version::parse(text).unwrap();
        assert_eq!(Form::of(Some("--output-format --input-format"), None), Form::StreamBothWays);
        assert_eq!(Form::of(Some("--output-format <f>"), None), Form::Stream);
        assert_eq!(Form::of(Some("usage"), Some(&version("1.1.8"))), Form::Stream);
        assert_eq!(Form::of(Some("usage"), Some(&version("1.1.7"))), Form::Text);
        assert_eq!(Form::of(None, None), Form::Text);
    }

    #[test]
    fn paths_are_cleaned_by_their_words() {
        for (path, want) in [("/a/b/../c/.", "/a/c"), ("/..", "/"), ("/a/../../b", "/b"), ("/", "/")] {
            assert_eq!(clean(Path::new(path)), Path::new(want), "{path}");
        }
    }
}
