//! The arguments of `codebuddy -p`.

use crate::agents::args::filter;
use crate::contract::provider::{standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};

pub const BLOCKED: &[BlockedFlag] = &[
    standalone("-p"),
    value("--output-format"),
    value("--input-format"),
    value("--permission-mode"),
    value("--mcp-config"),
    value("--effort"),
];

/// All but `--mcp-config`, which comes last. No `--strict-mcp-config`: it would drop the user's own servers.
pub fn build(options: &ExecuteOptions) -> Vec<String> {
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
        // These ask a human in spite of the permission mode. Each is its own argument: the CLI compares whole
        // entries, so a list with commas matches nothing.
        "--disallowedTools",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
    ]
    .map(str::to_owned)
    .into();
    let max_turns = options.max_turns.filter(|n| *n > 0).map(|n| n.to_string());
    let mut pair = |flag: &str, value: Option<&String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            args.extend([flag.to_owned(), value.clone()]);
        }
    };
    pair("--model", options.model.as_ref());
    pair("--effort", options.thinking_level.as_ref());
    pair("--max-turns", max_turns.as_ref());
    pair("--append-system-prompt", options.system_prompt.as_ref());
    pair("--resume", options.resume_session_id.as_ref());
    args.extend(filter(&options.extra_args, BLOCKED));
    args.extend(filter(&options.custom_args, BLOCKED));
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::McpConfig;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    const BASE: &str = "-p --output-format stream-json --input-format stream-json --verbose \
                        --include-partial-messages --permission-mode bypassPermissions \
                        --disallowedTools AskUserQuestion EnterPlanMode ExitPlanMode";

    #[test]
    fn the_order_is_fixed() {
        let mut options = ExecuteOptions {
            model: Some("m".into()),
            max_turns: Some(25),
            system_prompt: Some("S".into()),
            claude_settings_path: Some("/s.json".into()),
            ..Default::default()
        };
        assert_eq!(
            build(&options),
            words(&format!("{BASE} --model m --max-turns 25 --append-system-prompt S"))
        );
        options.thinking_level = Some("high".into());
        options.resume_session_id = Some("r".into());
        let want = "--model m --effort high --max-turns 25 --append-system-prompt S --resume r";
        assert_eq!(build(&options), words(&format!("{BASE} {want}")));
    }

    #[test]
    fn the_users_own_servers_are_never_dropped() {
        for config in ["", "null", "{}", r#"{"mcpServers":{"p":{"command":"p"}}}"#] {
            let options =
                ExecuteOptions { mcp_config: McpConfig::parse(config).unwrap(), ..Default::default() };
            assert_eq!(build(&options), words(BASE), "{config}");
        }
    }

    #[test]
    fn callers_cannot_repeat_what_is_set_here() {
        let options = ExecuteOptions {
            thinking_level: Some("medium".into()),
            custom_args: words("--effort max"),
            ..Default::default()
        };
        assert_eq!(build(&options), words(&format!("{BASE} --effort medium")));
        let options = ExecuteOptions {
            extra_args: words("--output-format text --max-budget-usd 1.00"),
            custom_args: words("--max-budget-usd 2.00 --permission-mode plan"),
            ..Default::default()
        };
        assert_eq!(build(&options), words(&format!("{BASE} --max-budget-usd 1.00 --max-budget-usd 2.00")));
    }
}
