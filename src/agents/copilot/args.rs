//! The arguments of one start.

use crate::agents::args::filter;
use crate::contract::provider::{optional, standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};
use crate::process::probe::Probe;

pub const BLOCKED: &[BlockedFlag] = &[
    value("-p"),
    value("--prompt"),
    value("-i"),
    value("--interactive"),
    value("--output-format"),
    value("--session-id"),
    value("--usage-output-file"),
    optional("-r"),
    optional("--resume"),
    optional("--connect"),
    standalone("--continue"),
    standalone("--allow-all"),
    standalone("--allow-all-tools"),
    standalone("--allow-all-paths"),
    standalone("--allow-all-urls"),
    standalone("--yolo"),
    standalone("--no-ask-user"),
    standalone("--acp"),
    standalone("--silent"),
    standalone("-s"),
    standalone("--share-gist"),
];

/// What this version can do, read from its help text. Nothing of it without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    pub prompt_on_stdin: bool,
    pub session_id: bool,
    pub usage_file: bool,
    pub mcp_config: bool,
    pub reasoning_effort: bool,
}

impl Features {
    pub fn of(help: &Probe) -> Features {
        let has = |text: &str| help.stdout.contains(text) || help.stderr.contains(text);
        Features {
            prompt_on_stdin: has("piped stdin"),
            session_id: has("--session-id"),
            usage_file: has("--usage-output-file"),
            mcp_config: has("--additional-mcp-config"),
            reasoning_effort: has("--reasoning-effort"),
        }
    }
}

/// What a start needs beside the options.
#[derive(Default)]
pub struct Start {
    /// `None`: it goes to stdin.
    pub prompt: Option<String>,
    /// The id of a new session.
    pub session_id: Option<String>,
    pub usage_file: Option<String>,
    pub mcp_file: Option<String>,
    pub reasoning_effort: bool,
}

pub fn build(options: &ExecuteOptions, start: &Start) -> Vec<String> {
    let mut args = Vec::new();
    match &start.prompt {
        // A value that looks like a flag is taken for one unless it is in the same token.
        Some(prompt) if prompt.starts_with('-') => args.push(format!("--prompt={prompt}")),
        Some(prompt) => args.extend(["-p".to_owned(), prompt.clone()]),
        None => {}
    }
    args.extend(["--output-format", "json", "--allow-all", "--no-ask-user"].map(str::to_owned));
    let mut pair = |flag: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            args.extend([flag.to_owned(), value.to_owned()]);
        }
    };
    pair("--model", options.model.as_deref());
    pair("--resume", options.resume_session_id.as_deref());
    pair("--session-id", start.session_id.as_deref());
    pair("--reasoning-effort", options.thinking_level.as_deref().filter(|_| start.reasoning_effort));
    pair("--usage-output-file", start.usage_file.as_deref());
    pair("--additional-mcp-config", start.mcp_file.as_ref().map(|path| format!("@{path}")).as_deref());
    args.extend(filter(&options.custom_args, BLOCKED));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_old_version_gets_the_prompt_as_an_argument() {
        let start = |prompt: &str| Start { prompt: Some(prompt.into()), ..Start::default() };
        let mut options = ExecuteOptions {
            system_prompt: Some("sys".into()),
            max_turns: Some(2),
            thinking_level: Some("high".into()),
            extra_args: words("--extra"),
            ..Default::default()
        };
        let plain = words("-p hi --output-format json --allow-all --no-ask-user");
        assert_eq!(build(&options, &start("hi")), plain);
        assert_eq!(build(&options, &start("--help"))[0], "--prompt=--help");

        options.custom_args = words(
            "--output-format text --resume x --acp --yolo --prompt=p -i p --session-id s --continue -s -r \
             --share-gist --connect c --usage-output-file f --max-turns 50",
        );
        assert_eq!(build(&options, &start("hi")), [plain, words("--max-turns 50")].concat());
    }

    #[test]
    fn a_new_version_gets_what_it_advertises() {
        let options = ExecuteOptions {
            model: Some("gpt-x".into()),
            resume_session_id: Some("s-1".into()),
            thinking_level: Some("high".into()),
            custom_args: words("--log-level debug"),
            ..Default::default()
        };
        let start = Start {
            prompt: None,
            session_id: None,
            usage_file: Some("/t/usage.json".into()),
            mcp_file: Some("/t/mcp.json".into()),
            reasoning_effort: true,
        };
        let want = "--output-format json --allow-all --no-ask-user --model gpt-x --resume s-1 --reasoning-effort high \
                    --usage-output-file /t/usage.json --additional-mcp-config @/t/mcp.json --log-level debug";
        assert_eq!(build(&options, &start), words(want));
        let fresh = Start { session_id: Some("u-1".into()), ..Start::default() };
        let want = "--output-format json --allow-all --no-ask-user --session-id u-1";
        assert_eq!(build(&ExecuteOptions::default(), &fresh), words(want));
    }

    #[test]
    fn features_are_read_from_the_help_text() {
        let help = |stdout: &str| Probe {
            stdout: stdout.into(),
            stderr: String::new(),
            success: true,
            ..Probe::default()
        };
        let real = help(include_str!("../../../__test__/recordings/copilot-1.0.102/help.stdout.txt"));
        let all = Features {
            prompt_on_stdin: true,
            session_id: true,
            usage_file: true,
            mcp_config: true,
            reasoning_effort: true,
        };
        assert_eq!(Features::of(&real), all);
        assert_eq!(
            Features::of(&help("Usage: copilot -p <text>\n --resume [sessionId]")),
            Features::default()
        );
    }
}
