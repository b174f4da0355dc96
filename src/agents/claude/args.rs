//! The arguments of `claude -p`.

use std::path::PathBuf;

use crate::agents::args::filter;
use crate::contract::provider::{standalone, value};
use crate::contract::{AgentplugError, BlockedFlag, ErrorCode, ExecuteOptions};

pub const BLOCKED: &[BlockedFlag] = &[
    standalone("-p"),
    value("--output-format"),
    value("--input-format"),
    value("--permission-mode"),
    value("--mcp-config"),
    value("--effort"),
];

/// While `claudeSettingsPath` is set, a second file would win or lose by the CLI's own rule.
const SETTINGS: BlockedFlag = value("--settings");

/// How `systemPrompt` travels.
pub enum SystemPrompt {
    Text(String),
    /// For one that no command line holds.
    File(PathBuf),
}

impl SystemPrompt {
    pub fn argument(options: &ExecuteOptions) -> Option<Self> {
        options.system_prompt.clone().filter(|s| !s.is_empty()).map(SystemPrompt::Text)
    }
}

/// All but `--mcp-config`, which comes last.
pub fn build(options: &ExecuteOptions, system: Option<&SystemPrompt>) -> Vec<String> {
    let mut args: Vec<String> = [
        "-p",
        "--output-format",
        "stream-json",
        "--input-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-mode",
        "bypassPermissions",
        "--disallowedTools",
        "AskUserQuestion",
    ]
    .map(str::to_owned)
    .into();
    if options.mcp_config.is_some() {
        args.push("--strict-mcp-config".to_owned());
    }
    let max_turns = options.max_turns.filter(|n| *n > 0).map(|n| n.to_string());
    let (flag, text) = match system {
        Some(SystemPrompt::Text(text)) => ("--append-system-prompt", Some(text.clone())),
        Some(SystemPrompt::File(path)) => {
            ("--append-system-prompt-file", Some(path.to_string_lossy().into_owned()))
        }
        None => ("", None),
    };
    let mut pair = |flag: &str, value: Option<&String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            args.extend([flag.to_owned(), value.clone()]);
        }
    };
    pair("--model", options.model.as_ref());
    pair("--effort", options.thinking_level.as_ref());
    pair("--max-turns", max_turns.as_ref());
    pair(flag, text.as_ref());
    pair("--resume", options.resume_session_id.as_ref());
    let settings = options.claude_settings_path.as_ref().filter(|p| !p.is_empty());
    let mut blocked = BLOCKED.to_vec();
    if settings.is_some() {
        blocked.push(SETTINGS);
    }
    args.extend(filter(&options.extra_args, &blocked));
    args.extend(filter(&options.custom_args, &blocked));
    if let Some(path) = settings {
        args.extend(["--settings".to_owned(), path.clone()]);
    }
    args
}

/// The CLI ends at once when it is to bypass permissions as root, unless it is told that it is in a sandbox.
/// Saying so before the start spares a cryptic failure.
pub fn root_refusal(args: &[String], uid: Option<u32>, is_sandbox: Option<&str>) -> Option<AgentplugError> {
    let bypass = args.iter().any(|a| a == "--dangerously-skip-permissions")
        || args.windows(2).any(|w| w[0] == "--permission-mode" && w[1] == "bypassPermissions");
    let truthy = |v: &str| ["1", "true", "yes", "on"].iter().any(|t| v.eq_ignore_ascii_case(t));
    (bypass && uid == Some(0) && !is_sandbox.is_some_and(truthy)).then(|| {
        AgentplugError::new(
            ErrorCode::PermissionDenied,
            "claude refuses to skip its permission questions as root: run as another user, or set IS_SANDBOX=1 \
             in the environment if this is a sandbox",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::McpConfig;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    const BASE: &str = "-p --output-format stream-json --input-format stream-json --verbose \
                        --include-partial-messages --permission-mode bypassPermissions --disallowedTools AskUserQuestion";

    fn built(options: &ExecuteOptions) -> Vec<String> {
        build(options, SystemPrompt::argument(options).as_ref())
    }

    #[test]
    fn the_order_is_fixed() {
        assert_eq!(built(&ExecuteOptions::default()), words(BASE));
        let empty = ExecuteOptions {
            model: Some(String::new()),
            thinking_level: Some(String::new()),
            resume_session_id: Some(String::new()),
            system_prompt: Some(String::new()),
            claude_settings_path: Some(String::new()),
            max_turns: Some(0),
            ..Default::default()
        };
        assert_eq!(built(&empty), words(BASE));
        let options = ExecuteOptions {
            model: Some("claude-opus-5[1m]".into()),
            thinking_level: Some("high".into()),
            max_turns: Some(3),
            system_prompt: Some("be brief".into()),
            resume_session_id: Some("s-1".into()),
            extra_args: words("--extra --output-format text --effort low"),
            custom_args: words(
                "-p --custom --permission-mode=plan --input-format text --mcp-config x.json --model m2",
            ),
            claude_settings_path: Some("/s.json".into()),
            mcp_config: McpConfig::parse("{}").unwrap(),
            thread_name: Some("t".into()),
            service_tier: Some("fast".into()),
            ..Default::default()
        };
        let mut want = words(BASE);
        want.extend(words("--strict-mcp-config --model claude-opus-5[1m] --effort high --max-turns 3"));
        want.extend(["--append-system-prompt".into(), "be brief".into()]);
        want.extend(words("--resume s-1 --extra --custom --model m2 --settings /s.json"));
        assert_eq!(built(&options), want);
    }

    #[test]
    fn a_settings_file_of_ours_replaces_the_callers_flag() {
        let mut options = ExecuteOptions {
            extra_args: words("--settings a --keep"),
            custom_args: words("--settings=b --also"),
            ..Default::default()
        };
        assert_eq!(built(&options)[11..], words("--settings a --keep --settings=b --also"));
        options.claude_settings_path = Some("/s.json".into());
        assert_eq!(built(&options)[11..], words("--keep --also --settings /s.json"));
    }

    #[test]
    fn a_long_system_prompt_travels_as_a_file() {
        let file = SystemPrompt::File("/t/system-prompt.txt".into());
        let args = build(&ExecuteOptions::default(), Some(&file));
        assert_eq!(args[11..], words("--append-system-prompt-file /t/system-prompt.txt"));
    }

    #[test]
    fn root_is_refused_unless_it_is_a_sandbox() {
        let bypass = words(BASE);
        let skip = words("--dangerously-skip-permissions");
        for (args, uid, sandbox, refused) in [
            (&bypass, Some(0), None, true),
            (&skip, Some(0), None, true),
            (&bypass, Some(1000), None, false),
            (&bypass, None, None, false),
            (&bypass, Some(0), Some("1"), false),
            (&bypass, Some(0), Some("TRUE"), false),
            (&bypass, Some(0), Some("yes"), false),
            (&bypass, Some(0), Some("on"), false),
            (&bypass, Some(0), Some("0"), true),
            (&bypass, Some(0), Some(""), true),
            (&words("--permission-mode plan"), Some(0), None, false),
        ] {
            let refusal = root_refusal(args, uid, sandbox);
            assert_eq!(refusal.is_some(), refused, "{uid:?} {sandbox:?}");
            if let Some(e) = refusal {
                assert_eq!(e.code, ErrorCode::PermissionDenied);
                assert!(e.message.contains("IS_SANDBOX=1"), "{}", e.message);
            }
        }
    }
}
