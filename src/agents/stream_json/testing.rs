//! Short forms for the tests of the CLIs that speak stream-json.

use crate::agents::testing::Driven;
use crate::agents::{Agent, LaunchContext};
use crate::contract::options::EnvList;
use crate::contract::{
    AgentplugError, ExecuteOptions, FailureKind, Message, ModelUsage, Os, Outcome, RunStatus, Usage,
};
use crate::process::env::ChildEnv;
use crate::process::files::RunFiles;
use crate::process::probe::Prober;

/// Each message as a line: `text Hello`, `tool@<parent> Bash <id> {…}`, `result <id> <is_error> <output>`. The
/// session id stands as `S`, line ends as `⏎`.
pub fn shown(driven: &Driven) -> Vec<String> {
    let session = driven.messages.iter().find_map(|m| match m {
        Message::Status { session_id, .. } => session_id.clone(),
        _ => None,
    });
    let at = |parent: &Option<String>| parent.as_ref().map(|p| format!("@{p}")).unwrap_or_default();
    let line = |m: &Message| match m {
        Message::Text { content, parent_call_id } => format!("text{} {content}", at(parent_call_id)),
        Message::Thinking { content, parent_call_id } => format!("thinking{} {content}", at(parent_call_id)),
        Message::ToolUse { tool, call_id, input, parent_call_id } => {
            let input = input.as_ref().map_or("-", |i| &i.0);
            format!("tool{} {tool} {call_id} {input}", at(parent_call_id))
        }
        Message::ToolResult { call_id, tool, output, is_error, parent_call_id } => {
            assert_eq!(*tool, None);
            let is_error = is_error.map_or_else(|| "-".to_owned(), |e| e.to_string());
            format!("result{} {call_id} {is_error} {output}", at(parent_call_id))
        }
        Message::Status { status, session_id } => {
            format!("{status} {}", session_id.as_deref().unwrap_or("-"))
        }
        Message::Error { content } => format!("error {content}"),
        Message::Log { level, content } => format!("log {level} {content}"),
    };
    let tidy = |text: String| {
        let text = text.replace('\n', "⏎");
        session.as_deref().map_or(text.clone(), |s| text.replace(s, "S"))
    };
    driven.messages.iter().map(line).map(tidy).collect()
}

/// status, output, error, session.
pub fn ended(outcome: &Outcome) -> (RunStatus, &str, &str, Option<&str>) {
    let error = outcome.error.as_deref().unwrap_or_default();
    (outcome.status, &outcome.output, error, outcome.session_id.as_deref())
}

pub fn failure_kind(outcome: &Outcome) -> Option<FailureKind> {
    outcome.failure.as_ref().map(|f| f.kind)
}

pub fn one(model: &str, counts: ModelUsage) -> Option<Usage> {
    Some(Usage::from([(model.to_owned(), counts)]))
}

/// `<cli>-<version>/<scenario>` as it was printed.
pub fn recording(name: &str) -> String {
    let path = format!("{}/__test__/recordings/{name}.stdout.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub fn lines(lines: &[&str]) -> String {
    lines.iter().map(|l| format!("{l}\n")).collect()
}

pub const PROMPT: &str = "the prompt that no argument may hold";

/// A planned start. Its files live as long as it does.
pub struct Started {
    pub args: Vec<String>,
    _files: RunFiles,
}

impl Started {
    pub fn last_two(&self) -> (String, String) {
        let (path, rest) = self.args.split_last().expect("there are arguments");
        (rest.last().expect("there are two").clone(), path.clone())
    }
}

pub async fn start(
    agent: &Agent,
    options: &ExecuteOptions,
    env: &[(&str, &str)],
) -> Result<Started, AgentplugError> {
    let list = EnvList(env.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect());
    let env = ChildEnv::new(&list, &EnvList::default(), Os::Linux);
    let program = std::path::PathBuf::from("/bin/cli");
    let prober = Prober::new(program.clone(), Vec::new(), env.clone());
    let files = RunFiles::default();
    let ctx = LaunchContext {
        prompt: PROMPT,
        options,
        env: &env,
        program: &program,
        prober: &prober,
        files: &files,
        os: Os::Linux,
        run_id: "run",
        attempt: 1,
    };
    let args = (agent.launch)(&ctx).await?.args;
    Ok(Started { args, _files: files })
}
