//! Managed MCP servers, in the words of the CLI's configuration. They travel in the parameters of
//! `thread/start`, on stdin: never in argv and never through the user's files.

use serde_json::{Map, Value, json};

use crate::contract::options::json_type;
use crate::contract::{AgentplugError, ErrorCode, McpConfig};

const STDIO_KEYS: &[&str] = &["command", "args", "env", "env_vars", "cwd"];
const REMOTE_KEYS: &[&str] = &["url", "http_headers", "env_http_headers", "bearer_token_env_var"];
const COMMON_KEYS: &[&str] =
    &["enabled", "required", "enabled_tools", "disabled_tools", "startup_timeout_sec", "tool_timeout_sec"];
/// What the CLI reports for every server, whether the user wrote it or not.
const REPORTED_KEYS: &[&str] = &["environment_id", "enabled"];

/// The given servers. Holds secrets, so there is no Debug.
pub struct Servers {
    entries: Map<String, Value>,
    /// What was left out, for a log; names only.
    pub warnings: Vec<String>,
}

impl Servers {
    pub fn parse(config: &McpConfig) -> Result<Self, AgentplugError> {
        let mut servers = Servers { entries: Map::new(), warnings: Vec::new() };
        let parsed: Value = serde_json::from_str(config.text()).map_err(|e| invalid(&e.to_string()))?;
        let given = match parsed.get("mcpServers") {
            None | Some(Value::Null) => return Ok(servers),
            Some(Value::Object(given)) => given,
            Some(other) => return Err(invalid(&format!("mcpServers is {}", json_type(other)))),
        };
        for (name, entry) in given {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                return Err(invalid(&format!(
                    "the server name {name:?} may hold only letters, digits, \"-\" and \"_\""
                )));
            }
            let Value::Object(entry) = entry else {
                return Err(invalid(&format!("server {name} is {}, not an object", json_type(entry))));
            };
            let entry = servers.normalize(name, entry)?;
            servers.entries.insert(name.clone(), entry);
        }
        Ok(servers)
    }

    /// One entry in the CLI's own keys. Keys it does not know are left out: some of them make it refuse its
    /// whole configuration.
    fn normalize(&mut self, name: &str, entry: &Map<String, Value>) -> Result<Value, AgentplugError> {
        let http = entry.get("type").and_then(Value::as_str).is_some_and(|t| t.eq_ignore_ascii_case("http"));
        let remote = http || (entry.contains_key("url") && !entry.contains_key("command"));
        let known = if remote { REMOTE_KEYS } else { STDIO_KEYS };
        let mut kept = Map::new();
        for (key, value) in entry {
            let key = match key.as_str() {
                "headers" if remote && !entry.contains_key("http_headers") => "http_headers",
                // They choose the transport or belong to other tools; nobody needs to hear about them.
                "type" | "tools" | "prompts" | "resources" => continue,
                other => other,
            };
            if !known.contains(&key) && !COMMON_KEYS.contains(&key) {
                self.warnings.push(format!("MCP server {name}: codex has no setting \"{key}\"; left out"));
                continue;
            }
            if holds_null(value) {
                return Err(invalid(&format!("server {name}: null is no value for \"{key}\"")));
            }
            kept.insert(key.to_owned(), value.clone());
        }
        Ok(Value::Object(kept))
    }

    /// The override that leaves exactly these servers: the CLI merges it into the user's configuration, so
    /// every server of the user is switched off by name.
    pub fn exclusive(&self, user: &Map<String, Value>) -> (Value, Vec<String>) {
        let mut servers = Map::new();
        let mut warnings = Vec::new();
        for name in user.keys() {
            servers.insert(name.clone(), json!({"enabled": false}));
        }
        for (name, entry) in &self.entries {
            let Some(theirs) = user.get(name) else {
                servers.insert(name.clone(), entry.clone());
                continue;
            };
            if covers(entry, theirs, 0) {
                let mut entry = entry.clone();
                // What the user set for a server of this name would go on.
                entry.as_object_mut().expect("normalized").entry("enabled").or_insert(json!(true));
                servers.insert(name.clone(), entry);
                continue;
            }
            let mut free = (2..).map(|n| format!("{name}_{n}"));
            let free =
                free.find(|n| !user.contains_key(n) && !self.entries.contains_key(n)).expect("endless range");
            warnings.push(format!(
                "MCP server {name}: the user's configuration has another one of this name, and codex would \
                 mix both; it runs as {free}"
            ));
            servers.insert(free, entry.clone());
        }
        (Value::Object(servers), warnings)
    }
}

/// Whether merging `ours` over `theirs` leaves nothing of theirs.
fn covers(ours: &Value, theirs: &Value, depth: usize) -> bool {
    let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { return true };
    theirs.iter().all(|(key, value)| {
        value.is_null()
            || (depth == 0 && REPORTED_KEYS.contains(&key.as_str()))
            || ours.get(key).is_some_and(|own| covers(own, value, depth + 1))
    })
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(members) => members.values().any(holds_null),
        _ => false,
    }
}

fn invalid(what: &str) -> AgentplugError {
    AgentplugError::new(
        ErrorCode::InvalidMcpConfig,
        format!("option mcpConfig cannot be used for codex: {what}"),
    )
    .about("mcpConfig")
}
