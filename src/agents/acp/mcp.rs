//! MCP servers: from the caller's object to what `session/new` takes, and which of them the agent can use.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::contract::{AgentplugError, ErrorCode, McpConfig};

/// Servers in the order of their names, and what had to be said about the config.
#[derive(Debug, Default, PartialEq)]
pub struct Servers {
    pub entries: Vec<Value>,
    /// For the caller; names only, never a value.
    pub warnings: Vec<String>,
}

/// Absent config and an empty set both give no servers: ACP has no word for "only these", so the CLI's own
/// configuration applies either way.
pub fn convert(config: Option<&McpConfig>) -> Result<Servers, AgentplugError> {
    let mut servers = Servers::default();
    let Some(config) = config else { return Ok(servers) };
    let root: Value = serde_json::from_str(config.text()).map_err(|_| invalid("it is not JSON"))?;
    let list = match root.get("mcpServers") {
        None => {
            let look_alikes = ["servers", "mcp", "mcp_servers"];
            let filled = |key: &&str| root.get(key).and_then(Value::as_object).is_some_and(|o| !o.is_empty());
            if let Some(key) = look_alikes.into_iter().find(filled) {
                servers.warnings.push(format!(
                    "option mcpConfig has \"{key}\" but no \"mcpServers\": no server was added"
                ));
            }
            return Ok(servers);
        }
        Some(Value::Null) => return Ok(servers),
        Some(Value::Object(list)) => list,
        Some(_) => return Err(invalid("\"mcpServers\" is not an object")),
    };
    let by_name: BTreeMap<&String, &Value> = list.iter().collect();
    for (name, entry) in by_name {
        match server(name, entry) {
            Some(converted) => servers.entries.push(converted),
            None => servers.warnings.push(format!(
                "MCP server \"{name}\" was left out: it has no usable \"command\" or \"url\", or a field of the wrong type"
            )),
        }
    }
    Ok(servers)
}

fn invalid(what: &str) -> AgentplugError {
    AgentplugError::new(ErrorCode::InvalidMcpConfig, format!("invalid MCP config: {what}")).about("mcpConfig")
}

fn server(name: &str, entry: &Value) -> Option<Value> {
    let entry = entry.as_object()?;
    let word = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => Some(""),
        Some(Value::String(text)) => Some(text.trim()),
        Some(_) => None,
    };
    let (command, url) = (word("command")?, word("url")?);
    if !command.is_empty() {
        let args = match entry.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(args)) => args.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?,
            Some(_) => return None,
        };
        return Some(
            json!({ "name": name, "command": command, "args": args, "env": pairs(entry.get("env"))? }),
        );
    }
    if url.is_empty() {
        return None;
    }
    let kind = if word("type")?.eq_ignore_ascii_case("sse") { "sse" } else { "http" };
    Some(json!({ "type": kind, "name": name, "url": url, "headers": pairs(entry.get("headers"))? }))
}

/// `{"B":"2","A":"1"}` -> name and value pairs by name.
fn pairs(map: Option<&Value>) -> Option<Vec<Value>> {
    let map = match map {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return None,
    };
    let sorted: BTreeMap<&String, &Value> = map.iter().collect();
    sorted.into_iter().map(|(name, value)| Some(json!({ "name": name, "value": value.as_str()? }))).collect()
}

/// What the agent's `initialize` answer says about remote MCP servers. Three different things: saying
/// nothing, saying it wrongly, and saying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    Omitted,
    Invalid,
    Transports { http: bool, sse: bool },
}

pub fn declared(initialize: &Value) -> Declared {
    if !initialize.is_object() {
        return Declared::Invalid;
    }
    let Some(agent) = initialize.get("agentCapabilities") else { return Declared::Omitted };
    let Some(agent) = agent.as_object() else { return Declared::Invalid };
    let Some(mcp) = agent.get("mcpCapabilities") else { return Declared::Omitted };
    let Some(mcp) = mcp.as_object() else { return Declared::Invalid };
    let flag = |key: &str| match mcp.get(key) {
        None => Some(false),
        Some(value) => value.as_bool(),
    };
    match (flag("http"), flag("sse")) {
        (Some(http), Some(sse)) => Declared::Transports { http, sse },
        _ => Declared::Invalid,
    }
}

/// Drops what the agent cannot use: a transport it does not know makes some agents refuse the whole session.
/// `omitted_means_all`: this agent takes remote servers although it declares nothing.
pub fn gate(servers: Servers, declared: Declared, omitted_means_all: bool, agent: &str) -> Servers {
    let Servers { entries, mut warnings } = servers;
    let (http, sse) = match declared {
        Declared::Omitted if omitted_means_all => (true, true),
        Declared::Omitted | Declared::Invalid => (false, false),
        Declared::Transports { http, sse } => (http, sse),
    };
    let entries = entries
        .into_iter()
        .filter(|entry| {
            let kind = entry["type"].as_str().unwrap_or("stdio");
            let usable = match kind {
                "http" => http,
                "sse" => sse,
                _ => true,
            };
            if !usable {
                let name = entry["name"].as_str().unwrap_or_default();
                warnings.push(format!(
                    "MCP server \"{name}\" was left out: {agent} does not take {kind} servers"
                ));
            }
            usable
        })
        .collect();
    Servers { entries, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> Servers {
        convert(McpConfig::parse(text).unwrap().as_ref()).unwrap()
    }

    #[test]
    fn entries_are_sorted_and_bad_ones_left_out() {
        let got = converted(
            r#"{"mcpServers":{"z":{"command":" npx ","env":{"B":"2","A":"1"}},"n":{"command":"x","env":{"A":1}},
               "a":{"url":"http://127.0.0.1:1/mcp","type":"Streamable-HTTP","headers":{"X":"y"}},"bad":{}}}"#,
        );
        assert_eq!(
            got.entries,
            [
                json!({"type":"http","name":"a","url":"http://127.0.0.1:1/mcp","headers":[{"name":"X","value":"y"}]}),
                json!({"name":"z","command":"npx","args":[],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}),
            ]
        );
        let named: Vec<bool> =
            ["\"bad\"", "\"n\""].iter().map(|n| got.warnings.iter().any(|w| w.contains(n))).collect();
        assert_eq!((got.warnings.len(), named), (2, vec![true, true]));
    }

    #[test]
    fn a_command_wins_over_a_url_and_sse_stays_sse() {
        let got = converted(
            r#"{"mcpServers":{"b":{"command":"c","url":"u","args":["-x"]},"s":{"url":" u ","type":"SSE"}}}"#,
        );
        assert_eq!(got.entries[0]["args"], json!(["-x"]));
        assert_eq!(got.entries[1], json!({"type":"sse","name":"s","url":"u","headers":[]}));
    }

    #[test]
    fn no_servers_is_no_error() {
        assert_eq!(convert(None).unwrap(), Servers::default());
        for empty in ["{}", r#"{"mcpServers":{}}"#, r#"{"mcpServers":null}"#, r#"{"servers":{}}"#] {
            assert_eq!(converted(empty), Servers::default(), "{empty}");
        }
        for key in ["servers", "mcp", "mcp_servers"] {
            let got = converted(&format!(r#"{{"{key}":{{"a":{{"command":"x"}}}}}}"#));
            assert!(
                got.entries.is_empty() && got.warnings.len() == 1 && got.warnings[0].contains(key),
                "{got:?}"
            );
        }
        let wrong = McpConfig::parse(r#"{"mcpServers":[]}"#).unwrap();
        assert_eq!(convert(wrong.as_ref()).unwrap_err().code, ErrorCode::InvalidMcpConfig);
    }

    #[test]
    fn omitted_invalid_and_declared_are_three_cases() {
        use Declared::*;
        for (answer, want) in [
            (r#"{"agentCapabilities":{"mcpCapabilities":{"http":"yes"}}}"#, Invalid),
            (r#"{"agentCapabilities":{"mcpCapabilities":{"http":null}}}"#, Invalid),
            (r#"{"agentCapabilities":{"mcpCapabilities":null}}"#, Invalid),
            (r#"{"agentCapabilities":null}"#, Invalid),
            ("null", Invalid),
            ("[]", Invalid),
            ("{}", Omitted),
            (r#"{"agentCapabilities":{}}"#, Omitted),
            (r#"{"agentCapabilities":{"mcpCapabilities":{}}}"#, Transports { http: false, sse: false }),
            (
                r#"{"agentCapabilities":{"mcpCapabilities":{"http":true}}}"#,
                Transports { http: true, sse: false },
            ),
        ] {
            assert_eq!(declared(&serde_json::from_str(answer).unwrap()), want, "{answer}");
        }
    }

    #[test]
    fn the_gate_names_what_it_drops_and_never_a_secret() {
        let all = || {
            converted(
                r#"{"mcpServers":{"h":{"url":"u","headers":{"Authorization":"Bearer s3cret"}},"p":{"command":"c"},
                   "s":{"url":"u","type":"sse"}}}"#,
            )
        };
        let names =
            |s: &Servers| -> String { s.entries.iter().map(|e| e["name"].as_str().unwrap()).collect() };
        for (declared, omitted_means_all, kept) in [
            (Declared::Omitted, true, "hps"),
            (Declared::Omitted, false, "p"),
            (Declared::Invalid, true, "p"),
            (Declared::Transports { http: false, sse: false }, true, "p"),
            (Declared::Transports { http: true, sse: false }, false, "hp"),
            (Declared::Transports { http: true, sse: true }, false, "hps"),
        ] {
            let got = gate(all(), declared, omitted_means_all, "x");
            assert_eq!(names(&got), kept, "{declared:?}");
            assert_eq!(got.warnings.len(), 3 - kept.len());
            assert!(!got.warnings.concat().contains("s3cret"));
        }
    }
}
