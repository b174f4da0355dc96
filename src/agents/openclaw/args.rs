//! Which of its entries is started, and the arguments of each.

use std::time::Duration;

use crate::agents::args::filter;
use crate::contract::provider::{standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};

pub const BLOCKED: &[BlockedFlag] = &[
    standalone("--local"),
    standalone("--json"),
    standalone("--deliver"),
    value("--session-id"),
    value("--session-key"),
    value("--message"),
    value("-m"),
    value("--message-file"),
    value("--model"),
    value("--system-prompt"),
    value("-t"),
    value("--to"),
];

/// How a turn is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// `agent exec`: a coding turn in the cwd. Cannot resume.
    Exec(State),
    /// `agent --local`: on the user's state, in the workspace that the configuration names.
    Local,
    /// `agent`: by a gateway that runs already.
    Gateway,
}

/// Where a turn leaves its session. One process at a time may own a state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In the user's own folder, where it can be taken up again.
    Kept,
    /// In a folder that goes away with the run.
    Thrown,
}

/// What the help texts tell; nothing without them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Help {
    pub agent: String,
    pub exec: String,
}

impl Help {
    pub fn has_exec(&self) -> bool {
        self.exec.contains("agent exec")
            && ["--message-file", "--cwd", "--state-dir"].iter().all(|f| lists(&self.exec, f))
    }
}

fn lists(help: &str, flag: &str) -> bool {
    help.split_whitespace().any(|word| word.trim_end_matches(',') == flag)
}

/// `has_state`: the user's state folder is there. `owned`: another process had it a moment ago.
pub fn entry(options: &ExecuteOptions, help: &Help, has_state: bool, owned: bool) -> Entry {
    let mode = options.openclaw_mode.as_deref().unwrap_or_default();
    match mode {
        "gateway" => return Entry::Gateway,
        "local" => return Entry::Local,
        _ => {}
    }
    let resumes = options.resume_session_id.as_ref().is_some_and(|id| !id.is_empty());
    // Without a slash a model is the name of an agent, which only the other entries take.
    let names_agent = options.model.as_ref().is_some_and(|m| !m.is_empty() && !m.contains('/'));
    let flags_known = filter(&options.custom_args, BLOCKED)
        .iter()
        .filter(|arg| arg.starts_with('-'))
        .all(|arg| lists(&help.exec, arg.split('=').next().unwrap_or(arg)));
    if resumes || names_agent || !flags_known || !help.has_exec() {
        return Entry::Local;
    }
    Entry::Exec(if mode == "exec" || owned || !has_state { State::Thrown } else { State::Kept })
}

/// How the message reaches the CLI.
pub enum Text<'a> {
    Argument(&'a str),
    /// A file; `-` is stdin.
    File(&'a str),
}

/// What a start needs beside the options.
pub struct Start<'a> {
    pub entry: &'a Entry,
    /// For the entries that take one.
    pub session_id: &'a str,
    /// For `agent exec`.
    pub state_dir: &'a str,
    /// For `agent exec`, in place of the user's.
    pub config: Option<&'a str>,
    pub text: Text<'a>,
}

pub fn build(options: &ExecuteOptions, help: &Help, start: Start<'_>) -> Vec<String> {
    let exec = matches!(start.entry, Entry::Exec(_));
    let flags = if exec { &help.exec } else { &help.agent };
    let custom = filter(&options.custom_args, BLOCKED);
    let mut args = vec!["agent".to_owned()];
    if exec {
        args.push("exec".to_owned());
    }
    if *start.entry == Entry::Local {
        args.push("--local".to_owned());
    }
    args.push("--json".to_owned());
    let mut pair = |flag: &str, value: &str| args.extend([flag.to_owned(), value.to_owned()]);
    if exec {
        pair("--cwd", &options.cwd.to_string_lossy());
        pair("--state-dir", start.state_dir);
        if let Some(file) = start.config {
            pair("--config", file);
        }
    } else {
        pair("--session-id", start.session_id);
    }
    match options.limits.timeout {
        Some(limit) => pair("--timeout", &seconds(limit).to_string()),
        // The CLI has a limit of its own, ten minutes; this turns it off.
        None if lists(flags, "--timeout") => pair("--timeout", "0"),
        None => {}
    }
    let model = options.model.as_deref().unwrap_or_default();
    if model.contains('/') && lists(flags, "--model") {
        pair("--model", model);
    } else if !model.is_empty() && !custom.iter().any(|a| a == "--agent" || a.starts_with("--agent=")) {
        pair("--agent", model);
    }
    if let Some(level) =
        options.thinking_level.as_deref().filter(|l| !l.is_empty() && lists(flags, "--thinking"))
    {
        pair("--thinking", level);
    }
    args.extend(custom);
    match start.text {
        Text::Argument(text) => args.extend(["--message".to_owned(), text.to_owned()]),
        Text::File(path) => args.extend(["--message-file".to_owned(), path.to_owned()]),
    }
    args
}

/// Whole seconds, rounded up: zero would turn the limit off.
fn seconds(limit: Duration) -> u64 {
    (limit.as_millis().div_ceil(1000) as u64).max(1)
}

/// This CLI has no other way for instructions: it reads AGENTS.md only from its own workspace.
pub fn message(prompt: &str, system_prompt: Option<&str>) -> String {
    match system_prompt.filter(|s| !s.is_empty()) {
        Some(system) => format!("{system}\n\n{prompt}"),
        None => prompt.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }
    fn real() -> Help {
        Help {
            agent: include_str!("../../../__test__/recordings/openclaw-2026.9.6/agent-help.stdout.txt")
                .into(),
            exec: include_str!("../../../__test__/recordings/openclaw-2026.9.6/agent-exec-help.stdout.txt")
                .into(),
        }
    }
    fn with(edit: impl FnOnce(&mut ExecuteOptions)) -> ExecuteOptions {
        let mut options = ExecuteOptions { cwd: "/w".into(), ..Default::default() };
        edit(&mut options);
        options
    }

    fn built(options: &ExecuteOptions, entry: Entry, help: &Help, text: Text<'_>) -> Vec<String> {
        build(options, help, Start { entry: &entry, session_id: "s", state_dir: "/s", config: None, text })
    }

    #[test]
    fn exec_is_used_where_nothing_speaks_against_it() {
        let kept = Entry::Exec(State::Kept);
        let chosen = |edit: fn(&mut ExecuteOptions)| entry(&with(edit), &real(), true, false);
        assert_eq!(chosen(|_| {}), kept);
        assert_eq!(chosen(|o| o.model = Some("p/m".into())), kept);
        assert_eq!(chosen(|o| o.custom_args = words("--code-mode=auto --fallback p/m --local")), kept);
        assert_eq!(chosen(|o| o.openclaw_mode = Some(String::new())), kept);
        assert_eq!(chosen(|o| o.openclaw_mode = Some("exec".into())), Entry::Exec(State::Thrown));
        assert_eq!(chosen(|o| o.model = Some("ops".into())), Entry::Local);
        assert_eq!(chosen(|o| o.resume_session_id = Some("s".into())), Entry::Local);
        assert_eq!(chosen(|o| o.custom_args = words("--agent x")), Entry::Local);
        assert_eq!(chosen(|o| o.openclaw_mode = Some("local".into())), Entry::Local);
        assert_eq!(chosen(|o| o.openclaw_mode = Some("gateway".into())), Entry::Gateway);
        assert_eq!(entry(&with(|_| {}), &Help::default(), true, false), Entry::Local);
        assert_eq!(entry(&with(|_| {}), &real(), true, true), Entry::Exec(State::Thrown));
        assert_eq!(entry(&with(|_| {}), &real(), false, false), Entry::Exec(State::Thrown));
    }

    #[test]
    fn arguments_of_a_version_without_help() {
        let args = |edit: fn(&mut ExecuteOptions), mode: Entry, prompt: &str| {
            let options = with(edit);
            let text = message(prompt, options.system_prompt.as_deref());
            built(&options, mode, &Help::default(), Text::Argument(&text))
        };
        let local = "agent --local --json --session-id s";
        assert_eq!(args(|_| {}, Entry::Local, "do"), words(&format!("{local} --message do")));
        let timed = |ms: u64, seconds: u64| {
            let options = with(|o| o.limits.timeout = Some(Duration::from_millis(ms)));
            let args = built(&options, Entry::Local, &Help::default(), Text::Argument("do"));
            assert_eq!(args, words(&format!("{local} --timeout {seconds} --message do")));
        };
        timed(90_000, 90);
        timed(90_001, 91);
        timed(20, 1);
        let system = args(|o| o.system_prompt = Some("P".into()), Entry::Local, "do");
        assert_eq!(system.last().map(String::as_str), Some("P\n\ndo"));
        let gateway = args(|o| o.custom_args = words("--local"), Entry::Gateway, "do");
        assert_eq!(gateway, words("agent --json --session-id s --message do"));
        let custom = args(
            |o| {
                o.custom_args = words("--agent x --model g --message h --system-prompt=p -t 1 --deliver");
                o.model = Some("y".into());
                o.thinking_level = Some("high".into());
            },
            Entry::Local,
            "do",
        );
        assert_eq!(custom, words(&format!("{local} --agent x --message do")));
        let named = args(|o| o.model = Some("y".into()), Entry::Local, "do");
        assert_eq!(named, words(&format!("{local} --agent y --message do")));
        let unknown_flag = args(|o| o.model = Some("p/m".into()), Entry::Local, "do");
        assert_eq!(unknown_flag, words(&format!("{local} --agent p/m --message do")));
    }

    #[test]
    fn arguments_of_the_newest_version() {
        let options = with(|o| {
            o.model = Some("p/m".into());
            o.thinking_level = Some("high".into());
            o.custom_args = words("--code-mode auto");
        });
        let exec = Entry::Exec(State::Kept);
        let text = Text::File("-");
        let start = Start { entry: &exec, session_id: "s", state_dir: "/s", config: Some("/t/c"), text };
        assert_eq!(
            build(&options, &real(), start),
            words(
                "agent exec --json --cwd /w --state-dir /s --config /t/c --timeout 0 --model p/m --thinking high \
                 --code-mode auto --message-file -"
            )
        );
        assert_eq!(
            built(&with(|o| o.model = Some("p/m".into())), Entry::Local, &real(), Text::File("/t/m")),
            words("agent --local --json --session-id s --timeout 0 --model p/m --message-file /t/m")
        );
    }
}
