//! One ACP CLI as data. What differs between the CLIs is a field or a hook here, never a branch in the client.

use std::time::{Duration, SystemTime};

use super::fields::Fields;
use super::stderr::OwnLine;
use crate::contract::{BlockedFlag, FailureKind, Message, Usage};
use crate::process::env::ChildEnv;
use crate::wire::rpc::ErrorObject;

/// How long an agent may go on by itself once its stdin is closed: it writes its session and its last words.
const GRACE: Duration = Duration::from_secs(2);

pub struct AcpProfile {
    /// The name in error texts.
    pub name: &'static str,
    /// Arguments before the caller's own …
    pub head: &'static [&'static str],
    /// … and after them.
    pub tail: &'static [&'static str],
    /// What stands in place of `head` when only the models are asked for.
    pub discovery: Option<&'static [&'static str]>,
    /// Models to name when asking fails; the first is the default.
    pub fallback_models: &'static [&'static str],
    /// The same table as the agent's.
    pub blocked: &'static [BlockedFlag],
    /// Environment entries that win over the caller's.
    pub env: &'static [(&'static str, &'static str)],
    pub resume: Resume,
    pub system_prompt: SystemPrompt,
    pub effort: Effort,
    /// The wanted model goes into `session/new` too.
    pub model_in_new: bool,
    /// The prompt goes out under `prompt` and again under `content`.
    pub prompt_twice: bool,
    pub tools: ToolRules,
    /// The vendor's own binary takes remote MCP servers although it declares nothing about them.
    pub undeclared_remote_mcp: bool,
    /// A resumed turn that ends in `refusal` without any message is how this CLI says that the session is gone.
    pub refusal_rejects_resume: bool,
    /// A provider that refuses the session's history makes the session useless.
    pub history_rejects_resume: bool,
    /// From the end of stdin to the end of stdout. `None` = it leaves slowly and has nothing left to save: it is
    /// stopped at once.
    pub grace: Option<Duration>,
    /// Words of an error that mean "not set up", and what to do then.
    pub login_phrases: &'static [&'static str],
    pub login_hint: &'static str,
    pub hooks: Hooks,
}

impl AcpProfile {
    /// What the protocol itself says, for a CLI of this name.
    pub const fn new(name: &'static str) -> Self {
        AcpProfile {
            name,
            head: &["acp"],
            tail: &[],
            discovery: None,
            fallback_models: &[],
            blocked: &[],
            env: &[],
            resume: Resume::Resume,
            system_prompt: SystemPrompt::Prefixed,
            effort: Effort::Ignored,
            model_in_new: false,
            prompt_twice: false,
            tools: ToolRules::new(),
            undeclared_remote_mcp: false,
            refusal_rejects_resume: false,
            history_rejects_resume: false,
            grace: Some(GRACE),
            login_phrases: &[],
            login_hint: "",
            hooks: Hooks::NONE,
        }
    }
}

/// The request that reopens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// `session/resume`
    Resume,
    /// `session/load`
    Load,
}

impl Resume {
    pub fn method(self) -> &'static str {
        match self {
            Resume::Resume => "session/resume",
            Resume::Load => "session/load",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemPrompt {
    /// In front of the prompt, with a line between.
    Prefixed,
    /// Not sent, with a warning.
    Ignored,
}

/// How a thinking level reaches the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Ignored,
    /// This flag and the level, after `head`.
    Argument(&'static str),
    /// The option that the session advertises for it.
    Advertised,
    /// The option of this id, advertised or not.
    Option(&'static str),
}

/// How tool frames are read.
pub struct ToolRules {
    /// Titles are written for people: bring them to one name each.
    pub shared_names: bool,
    /// The CLI's own additions to the shared names.
    pub names: &'static [(&'static str, &'static str)],
    /// The vendor's own binary never sends arguments after the start frame: announce the tool at once.
    pub start_is_final: bool,
    /// A tool with one of these names proves by its success that the work was finished.
    pub finishing: &'static [&'static str],
    /// The machine's name of a tool, where the frame has one beside the title.
    pub name: Option<fn(&Fields) -> Option<String>>,
    /// The output, where it is not what the shared rules would take.
    pub output: Option<fn(&Fields) -> Option<ToolOutput>>,
}

impl ToolRules {
    pub const fn new() -> Self {
        ToolRules {
            shared_names: true,
            names: &[],
            start_is_final: false,
            finishing: &[],
            name: None,
            output: None,
        }
    }
}

impl Default for ToolRules {
    fn default() -> Self {
        Self::new()
    }
}

pub struct ToolOutput {
    pub text: String,
    /// The CLI reports the call as completed, but its own numbers say that it failed.
    pub failed: bool,
}

pub type Authenticate = fn(initialize: &Fields, env: &ChildEnv) -> Result<String, String>;

/// What a CLI does in a way of its own.
#[derive(Default)]
pub struct Hooks {
    /// The auth method to use before any session request, from the answer to `initialize`; or why there is none.
    pub authenticate: Option<Authenticate>,
    /// The id a session result names, where it is not at the top level. Another one than the id asked for means
    /// that this CLI did not find the session and started a new one.
    pub served_session: Option<fn(&Fields) -> Option<String>>,
    /// Whether the wanted model is the current one, so that setting it can be left out.
    pub same_model: Option<fn(wanted: &str, current: &str) -> bool>,
    /// A refusal of the resume request in words of its own.
    pub resume_refused: Option<fn(&ErrorObject) -> bool>,
    /// Looks at an error answer to the prompt.
    pub prompt_error: Option<fn(&ErrorObject, &PromptContext) -> PromptError>,
    /// A notification of the vendor's own.
    pub notification: Option<fn(method: &str, params: &str) -> Option<Message>>,
    /// A line of stderr in a form of its own.
    pub stderr_line: Option<fn(&str) -> Option<OwnLine>>,
    /// Counts per model in a prompt result.
    pub usage_by_model: Option<fn(&Fields) -> Option<Usage>>,
    /// Whether this text, the only thing the turn gave, is an error that the CLI put there.
    pub error_text: Option<fn(&str) -> bool>,
    /// What the CLI left on disk about this turn. Called once the process is gone.
    pub after_exit: Option<fn(&AfterExit) -> Findings>,
}

impl Hooks {
    pub const NONE: Hooks = Hooks {
        authenticate: None,
        served_session: None,
        same_model: None,
        resume_refused: None,
        prompt_error: None,
        notification: None,
        stderr_line: None,
        usage_by_model: None,
        error_text: None,
        after_exit: None,
    };
}

/// The ids of the auth methods an agent offers, in its order.
pub fn auth_methods(initialize: &Fields) -> Vec<String> {
    initialize.array("authMethods").into_iter().filter_map(|raw| Fields::read(raw)?.word(&["id"])).collect()
}

pub struct PromptContext {
    pub resumed: bool,
    /// Whether the latest finished call of a finishing tool succeeded; `None` = there was none.
    pub finishing: Option<bool>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PromptError {
    /// An ordinary failure.
    Failed,
    /// The work was done; only the turn's last words failed.
    Finished,
    /// The session can never take a turn again.
    SessionUseless,
}

pub struct AfterExit<'a> {
    pub env: &'a ChildEnv,
    pub session_id: &'a str,
    pub resumed: bool,
    /// When the conversation began.
    pub started: SystemTime,
    /// The name for counts that name no model.
    pub model: &'a str,
}

#[derive(Default)]
pub struct Findings {
    pub usage: Usage,
    /// Why the turn failed although the agent ended it as if nothing was wrong.
    pub error: Option<(String, FailureKind)>,
}
