//! JavaScript values -> checked options. Each error names the option, what it got and what it takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use napi::bindgen_prelude::{FromNapiValue, JsObjectValue, Object, Unknown};
use napi::{JsValue, KeyCollectionMode, KeyConversion, KeyFilter, ValueType};

use crate::agents::Agent;
use crate::contract::options::{EnvList, McpConfig, RunLimits};
use crate::contract::{AgentplugError, ErrorCode, ExecuteOptions};

/// Every option name. `signal` is handled by the shim.
const NAMES: &[&str] = &[
    "cwd",
    "model",
    "systemPrompt",
    "threadName",
    "maxTurns",
    "resumeSessionId",
    "resumeExpected",
    "resumeContinuityNotice",
    "extraArgs",
    "customArgs",
    "mcpConfig",
    "thinkingLevel",
    "serviceTier",
    "openclawMode",
    "claudeSettingsPath",
    "executablePath",
    "launchPrefix",
    "env",
    "signal",
    "timeoutMs",
    "idleTimeoutMs",
    "toolTimeoutMs",
    "semanticInactivityTimeoutMs",
    "firstTurnTimeoutMs",
    "handshakeTimeoutMs",
    "cancelGraceMs",
    "messageBufferBytes",
];

type Checked<T> = Result<T, AgentplugError>;

pub fn internal(error: napi::Error) -> AgentplugError {
    AgentplugError::new(ErrorCode::Internal, format!("Node-API call failed: {}", error.reason))
}

pub fn provider(value: &Unknown) -> Checked<&'static Agent> {
    match kind(value)? {
        ValueType::String => crate::run::provider(&take::<String>(value)?),
        _ => Err(AgentplugError::new(
            ErrorCode::UnknownProvider,
            format!("provider must be a string, got {}", describe(value)),
        )),
    }
}

/// `None` for undefined and null.
pub fn optional_provider(value: &Unknown) -> Checked<Option<&'static Agent>> {
    match kind(value)? {
        ValueType::Undefined | ValueType::Null => Ok(None),
        _ => provider(value).map(Some),
    }
}

pub fn prompt(value: &Unknown) -> Checked<String> {
    match kind(value)? {
        ValueType::String => take(value),
        _ => Err(AgentplugError::new(
            ErrorCode::InvalidPrompt,
            format!("prompt must be a string, got {}", describe(value)),
        )
        .about("prompt")),
    }
}

/// `mcp_json`: `mcpConfig` as JSON text, where it is an object.
pub fn read(value: &Unknown, mcp_json: Option<String>, host_env: &Object) -> Checked<ExecuteOptions> {
    read_named(value, mcp_json, host_env, NAMES)
}

fn read_named(
    value: &Unknown,
    mcp_json: Option<String>,
    host_env: &Object,
    names: &[&str],
) -> Checked<ExecuteOptions> {
    let mut options = ExecuteOptions { host_env: env_list(host_env, "process.env")?, ..Default::default() };
    let object: Object = match kind(value)? {
        ValueType::Undefined | ValueType::Null => {
            options.cwd = host_cwd()?;
            return Ok(options);
        }
        ValueType::Object if !value.is_array().map_err(internal)? => take(value)?,
        _ => {
            return Err(AgentplugError::option(
                "options",
                format!("options must be an object, got {}", describe(value)),
            ));
        }
    };
    for name in own_names(&object)? {
        if !names.contains(&name.as_str()) {
            return Err(unknown_option(&name, names));
        }
    }
    let r = Reader { object };
    options.cwd = match r.string("cwd")? {
        Some(cwd) => host_cwd()?.join(cwd),
        None => host_cwd()?,
    };
    options.model = r.string("model")?;
    options.system_prompt = r.string("systemPrompt")?;
    options.thread_name = r.string("threadName")?;
    options.max_turns = r.integer("maxTurns")?.filter(|n| *n > 0).map(|n| n.min(u32::MAX.into()) as u32);
    options.resume_session_id = r.string("resumeSessionId")?;
    options.resume_expected = r.boolean("resumeExpected")?.unwrap_or(false);
    options.resume_continuity_notice = r.string("resumeContinuityNotice")?;
    options.extra_args = r.strings("extraArgs")?;
    options.custom_args = r.strings("customArgs")?;
    options.thinking_level = r.string("thinkingLevel")?;
    options.service_tier = r.string("serviceTier")?;
    options.openclaw_mode = r.string("openclawMode")?;
    options.claude_settings_path = r.string("claudeSettingsPath")?;
    options.executable_path = r.string("executablePath")?.map(PathBuf::from);
    if let Some(path) = &options.executable_path {
        check_absolute(path)?;
    }
    options.launch_prefix = r.strings("launchPrefix")?;
    if let Some(env) = r.get("env")? {
        match kind(&env)? {
            ValueType::Object if !env.is_array().map_err(internal)? => {
                options.env = env_list(&take(&env)?, "env")?;
            }
            _ => return Err(r.wrong("env", "an object of strings", &env)),
        }
    }
    if let Some(mcp) = r.get("mcpConfig")? {
        let text = match (kind(&mcp)?, mcp_json) {
            (ValueType::String, _) => take::<String>(&mcp)?,
            (ValueType::Object, Some(json)) => json,
            _ => return Err(r.wrong("mcpConfig", "an object, its JSON text or null", &mcp)),
        };
        match McpConfig::parse(&text) {
            Ok(config) => options.mcp_config = config,
            Err(error) => options.mcp_error = Some(error),
        }
    }
    let defaults = RunLimits::default();
    let non_zero = |d: Option<Duration>| d.filter(|d| !d.is_zero());
    options.limits = RunLimits {
        timeout: non_zero(r.millis("timeoutMs")?),
        idle: r.millis("idleTimeoutMs")?,
        tool: r.millis("toolTimeoutMs")?.unwrap_or(defaults.tool),
        semantic_inactivity: non_zero(r.millis("semanticInactivityTimeoutMs")?),
        first_turn: non_zero(r.millis("firstTurnTimeoutMs")?),
        handshake: non_zero(r.millis("handshakeTimeoutMs")?),
        cancel_grace: r.millis("cancelGraceMs")?.unwrap_or(defaults.cancel_grace),
    };
    if let Some(bytes) = r.integer("messageBufferBytes")? {
        options.message_buffer_bytes = bytes as usize;
    }
    Ok(options)
}

/// The options that say where to look for a CLI.
const LOOKUP_NAMES: &[&str] = &["executablePath", "launchPrefix", "env"];

pub fn read_lookup(value: &Unknown, host_env: &Object) -> Checked<ExecuteOptions> {
    read_named(value, None, host_env, LOOKUP_NAMES)
}

struct Reader<'a> {
    object: Object<'a>,
}

impl<'a> Reader<'a> {
    /// `undefined` and `null` both mean: not given.
    fn get(&self, name: &str) -> Checked<Option<Unknown<'a>>> {
        let value: Option<Unknown> = self.object.get(name).map_err(internal)?;
        match value {
            Some(v) if !matches!(kind(&v)?, ValueType::Undefined | ValueType::Null) => Ok(Some(v)),
            _ => Ok(None),
        }
    }

    fn wrong(&self, name: &str, takes: &str, got: &Unknown) -> AgentplugError {
        AgentplugError::option(name, format!("option {name} must be {takes}, got {}", describe(got)))
    }

    /// The empty string means: not given.
    fn string(&self, name: &str) -> Checked<Option<String>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if kind(&value)? != ValueType::String {
            return Err(self.wrong(name, "a string", &value));
        }
        let text: String = take(&value)?;
        no_nul(name, &text)?;
        Ok((!text.is_empty()).then_some(text))
    }

    fn strings(&self, name: &str) -> Checked<Vec<String>> {
        let Some(value) = self.get(name)? else { return Ok(Vec::new()) };
        if !value.is_array().map_err(internal)? {
            return Err(self.wrong(name, "an array of strings", &value));
        }
        let items: Vec<Unknown> = take(&value)?;
        items
            .iter()
            .enumerate()
            .map(|(i, item)| {
                if kind(item)? != ValueType::String {
                    return Err(AgentplugError::option(
                        name,
                        format!("option {name}[{i}] must be a string, got {}", describe(item)),
                    ));
                }
                let text: String = take(item)?;
                no_nul(name, &text)?;
                Ok(text)
            })
            .collect()
    }

    fn boolean(&self, name: &str) -> Checked<Option<bool>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if kind(&value)? != ValueType::Boolean {
            return Err(self.wrong(name, "a boolean", &value));
        }
        take(&value).map(Some)
    }

    fn number(&self, name: &str, takes: &str) -> Checked<Option<f64>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if kind(&value)? != ValueType::Number {
            return Err(self.wrong(name, takes, &value));
        }
        let n: f64 = take(&value)?;
        if n.is_nan() || n < 0.0 {
            return Err(self.wrong(name, takes, &value));
        }
        Ok(Some(n))
    }

    fn integer(&self, name: &str) -> Checked<Option<u64>> {
        const TAKES: &str = "a whole number, 0 or more";
        match self.number(name, TAKES)? {
            Some(n) if n.fract() != 0.0 || n > 9_007_199_254_740_991.0 => Err(AgentplugError::option(
                name,
                format!("option {name} must be {TAKES}, got the number {n}"),
            )),
            n => Ok(n.map(|n| n as u64)),
        }
    }

    /// Milliseconds. Above a hundred years (`Infinity`) is a hundred years: longer than any run, and clocks can
    /// count it.
    fn millis(&self, name: &str) -> Checked<Option<Duration>> {
        const CENTURY_MS: f64 = 3_155_760_000_000.0;
        let n = self.number(name, "a number of milliseconds, 0 or more")?;
        Ok(n.map(|n| Duration::from_secs_f64(n.min(CENTURY_MS) / 1000.0)))
    }
}

fn unknown_option(name: &str, names: &[&str]) -> AgentplugError {
    let close = names.iter().find(|known| {
        let (a, b) = (known.to_lowercase(), name.to_lowercase());
        a.starts_with(&b) || b.starts_with(&a)
    });
    let hint = close.map(|c| format!("; did you mean {c}?")).unwrap_or_default();
    AgentplugError::option(name, format!("unknown option {name}{hint}"))
}

fn check_absolute(path: &Path) -> Checked<()> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(AgentplugError::option(
        "executablePath",
        format!(
            "option executablePath must be an absolute path, got \"{}\"; a bare command name is looked up by itself when the option is left out",
            path.display()
        ),
    ))
}

fn host_cwd() -> Checked<PathBuf> {
    std::env::current_dir().map_err(|e| {
        AgentplugError::new(
            ErrorCode::InvalidCwd,
            format!("the host's working directory cannot be read: {e}"),
        )
        .about("cwd")
    })
}

/// Not what it inherits: some libraries put enumerable functions on `Object.prototype`.
fn own_names(object: &Object) -> Checked<Vec<String>> {
    let names = object
        .get_all_property_names(
            KeyCollectionMode::OwnOnly,
            // napi-rs takes one flag of the filter only, so symbols are passed over below.
            KeyFilter::Enumerable,
            KeyConversion::NumbersToStrings,
        )
        .map_err(internal)?;
    (0..names.get_array_length().map_err(internal)?)
        .map(|i| names.get_element::<Unknown>(i).map_err(internal))
        .filter(|name| !matches!(name.as_ref().map(kind), Ok(Ok(ValueType::Symbol))))
        .map(|name| take(&name?))
        .collect()
}

fn env_list(object: &Object, what: &str) -> Checked<EnvList> {
    let mut list = Vec::new();
    for name in own_names(object)? {
        let value: Unknown = match object.get(&name).map_err(internal)? {
            Some(v) => v,
            None => continue,
        };
        match kind(&value)? {
            ValueType::String => {}
            // `{...process.env, X: undefined}` is how JavaScript takes an entry out.
            ValueType::Undefined => continue,
            _ => {
                return Err(AgentplugError::option(
                    "env",
                    format!("option {what}.{name} must be a string, got {}", type_name(&value)),
                ));
            }
        }
        let text: String = take(&value)?;
        if what == "env" && (name.is_empty() || name.contains(['=', '\0']) || text.contains('\0')) {
            return Err(AgentplugError::option(
                "env",
                format!(
                    "option env: the entry {:?} cannot be an environment variable (empty name, \"=\" in the name, or a NUL character)",
                    name
                ),
            ));
        }
        list.push((name, text));
    }
    Ok(EnvList(list))
}

fn no_nul(name: &str, text: &str) -> Checked<()> {
    if text.contains('\0') {
        return Err(AgentplugError::option(name, format!("option {name} holds a NUL character")));
    }
    Ok(())
}

fn kind(value: &Unknown) -> Checked<ValueType> {
    value.get_type().map_err(internal)
}

// Values are taken out only after their type was looked at, so the conversion cannot misread them.
#[allow(unsafe_code)]
fn take<'a, T: FromNapiValue>(value: &Unknown<'a>) -> Checked<T> {
    let raw = value.value();
    unsafe { T::from_napi_value(raw.env, raw.value) }.map_err(internal)
}

fn type_name(value: &Unknown) -> &'static str {
    match value.get_type() {
        Ok(ValueType::Undefined) => "undefined",
        Ok(ValueType::Null) => "null",
        Ok(ValueType::Boolean) => "a boolean",
        Ok(ValueType::Number) => "a number",
        Ok(ValueType::String) => "a string",
        Ok(ValueType::Symbol) => "a symbol",
        Ok(ValueType::Function) => "a function",
        Ok(ValueType::BigInt) => "a bigint",
        Ok(ValueType::Object) if value.is_array().unwrap_or(false) => "an array",
        Ok(ValueType::Object) => "an object",
        _ => "something else",
    }
}

/// The type, with the value where it is a number: strings may be secrets.
fn describe(value: &Unknown) -> String {
    match (value.get_type(), take::<f64>(value)) {
        (Ok(ValueType::Number), Ok(n)) => format!("the number {n}"),
        _ => type_name(value).to_owned(),
    }
}
