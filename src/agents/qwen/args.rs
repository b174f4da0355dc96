//! The arguments of a headless `qwen`.

use crate::agents::args::filter;
use crate::contract::provider::{standalone, value};
use crate::contract::{BlockedFlag, ExecuteOptions};

pub const BLOCKED: &[BlockedFlag] = &[
    value("-p"),
    value("--prompt"),
    value("-i"),
    value("--prompt-interactive"),
    value("-o"),
    value("--output-format"),
    value("--input-format"),
    value("-m"),
    value("--model"),
    value("-r"),
    value("--resume"),
    value("--chat-recording"),
    value("--mcp-config"),
    value("--approval-mode"),
    value("--core-tools"),
    standalone("-c"),
    standalone("--continue"),
    standalone("--safe-mode"),
    standalone("--yolo"),
    standalone("-y"),
];

/// All but `--mcp-config`, which comes last. Without `--prompt` the CLI reads the prompt from stdin: no limit of
/// the command line applies, and no other user of the machine sees it.
pub fn build(options: &ExecuteOptions) -> Vec<String> {
    let mut args: Vec<String> =
        ["--output-format", "stream-json", "--include-partial-messages"].map(str::to_owned).into();
    let mut pair = |flag: &str, value: Option<&String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            args.extend([flag.to_owned(), value.clone()]);
        }
    };
    pair("--model", options.model.as_ref());
    pair("--append-system-prompt", options.system_prompt.as_ref());
    pair("--resume", options.resume_session_id.as_ref());
    // A headless run that asks for permissions is not offered the tools that need them.
    args.push("--yolo".to_owned());
    args.extend(filter(&options.extra_args, BLOCKED));
    args.extend(filter(&options.custom_args, BLOCKED));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    const BASE: &str = "--output-format stream-json --include-partial-messages";

    #[test]
    fn the_order_is_fixed() {
        let options = ExecuteOptions {
            model: Some("m".into()),
            resume_session_id: Some("r".into()),
            system_prompt: Some("S".into()),
            extra_args: words("--output-format text --sandbox"),
            custom_args: words(
                "--prompt=x -o json --model other --resume q --safe-mode --chat-recording false --mcp-config a.json \
                 --mcp-config=b.json --debug --yolo -y --approval-mode default --core-tools w --core-tools=s \
                 --allowed-tools read_file --exclude-tools monitor",
            ),
            max_turns: Some(3),
            thinking_level: Some("high".into()),
            ..Default::default()
        };
        let want = "--model m --append-system-prompt S --resume r --yolo --sandbox --debug --allowed-tools read_file \
                    --exclude-tools monitor";
        assert_eq!(build(&options), words(&format!("{BASE} {want}")));
    }

    #[test]
    fn without_options_the_tools_are_allowed() {
        assert_eq!(build(&ExecuteOptions::default()), words(&format!("{BASE} --yolo")));
    }
}
