//! A managed MCP set as opencode's own configuration, handed over in an environment variable.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::contract::options::json_type;
use crate::contract::{AgentplugError, ErrorCode, McpConfig};

/// The whole configuration text for the variable: the caller's own `existing` text with the translated servers
/// put into its `mcp` object. `None` when the set names no server: the variable stays as it is.
pub fn config_content(
    name: &str,
    variable: &str,
    config: &McpConfig,
    existing: Option<&str>,
) -> Result<Option<String>, AgentplugError> {
    let refuse = |what: String| AgentplugError::new(ErrorCode::InvalidMcpConfig, what).about("mcpConfig");
    let servers = translate(config.text()).map_err(|e| refuse(format!("{name} mcp_config: {e}")))?;
    if servers.is_empty() {
        return Ok(None);
    }
    let existing = existing.map(str::trim).filter(|t| !t.is_empty());
    // The parser's own message may quote the value.
    merge(existing, &servers).map(Some).map_err(|_| {
        refuse(format!(
            "{name} mcp_config: the environment variable {variable} holds no JSON object to add to"
        ))
    })
}

/// Standard (`mcpServers`) and native (`mcp`) entries as native ones; on equal names the standard one wins.
fn translate(text: &str) -> Result<Map<String, Value>, String> {
    let document: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let section = |key: &str| match document.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(entries)) => Ok(entries.clone()),
        Some(other) => Err(format!("`{key}` must be an object, got {}", json_type(other))),
    };
    let mut servers = section("mcp")?;
    for (name, entry) in section("mcpServers")? {
        let native = native_entry(&entry).map_err(|e| at(&name, &e))?;
        servers.insert(name, native);
    }
    for (name, entry) in &servers {
        validate(entry).map_err(|e| at(name, &e))?;
    }
    Ok(servers)
}

fn at(name: &str, what: &str) -> String {
    format!("server \"{name}\": {what}")
}

fn native_entry(entry: &Value) -> Result<Value, String> {
    let Value::Object(source) = entry else { return Err(NOT_AN_OBJECT.to_owned()) };
    let mut native = Map::new();
    let copy = |from: &str, to: &str, native: &mut Map<String, Value>| {
        if let Some(value) = source.get(from).filter(|v| !v.is_null()) {
            native.insert(to.to_owned(), value.clone());
        }
    };
    if source.get("url").and_then(Value::as_str).is_some_and(|url| !url.is_empty()) {
        native.insert("type".into(), "remote".into());
        for key in ["url", "headers", "oauth", "timeout"] {
            copy(key, key, &mut native);
        }
    } else {
        native.insert("type".into(), "local".into());
        native.insert("command".into(), command(source)?);
        copy(if source.contains_key("env") { "env" } else { "environment" }, "environment", &mut native);
        for key in ["cwd", "timeout"] {
            copy(key, key, &mut native);
        }
    }
    if let Some(enabled) = source.get("enabled").filter(|v| v.is_boolean()) {
        native.insert("enabled".into(), enabled.clone());
    }
    Ok(Value::Object(native))
}

fn command(source: &Map<String, Value>) -> Result<Value, String> {
    const WRONG: &str = "command must be a string or string array";
    match source.get("command") {
        None | Some(Value::Null) => Err("has neither url nor command".to_owned()),
        Some(Value::String(program)) => {
            let mut words = vec![json!(program)];
            match source.get("args") {
                None | Some(Value::Null) => {}
                Some(Value::Array(args)) if args.iter().all(Value::is_string) => words.extend(args.clone()),
                Some(Value::Array(_)) => return Err("args must contain only strings".to_owned()),
                Some(_) => return Err("args must be an array".to_owned()),
            }
            Ok(Value::Array(words))
        }
        Some(Value::Array(words)) if words.iter().all(Value::is_string) => Ok(Value::Array(words.clone())),
        Some(_) => Err(WRONG.to_owned()),
    }
}

const NOT_AN_OBJECT: &str = "entry must be a JSON object";

/// opencode refuses its whole configuration for one wrong entry, with an error that names no server.
fn validate(entry: &Value) -> Result<(), String> {
    let Value::Object(fields) = entry else { return Err(NOT_AN_OBJECT.to_owned()) };
    let known: &[&str] = match fields.get("type") {
        None if fields.len() == 1 && fields.get("enabled").is_some_and(Value::is_boolean) => return Ok(()),
        None => return Err("missing required field `type` (\"local\" or \"remote\")".to_owned()),
        Some(Value::String(kind)) if kind == "local" => {
            &["type", "command", "environment", "cwd", "enabled", "timeout"]
        }
        Some(Value::String(kind)) if kind == "remote" => {
            &["type", "url", "headers", "oauth", "enabled", "timeout"]
        }
        Some(Value::String(kind)) => {
            return Err(format!("invalid type \"{kind}\" (must be \"local\" or \"remote\")"));
        }
        Some(other) => return Err(format!("`type` must be a string, got {}", json_type(other))),
    };
    if let Some(unknown) = fields.keys().find(|k| !known.contains(&k.as_str())) {
        return Err(format!("unknown field `{unknown}`"));
    }
    if known.contains(&"command") {
        match fields.get("command") {
            None => return Err("local server missing required field `command`".to_owned()),
            Some(Value::Array(words)) if !words.is_empty() && words.iter().all(Value::is_string) => {}
            Some(_) => return Err("`command` must be a non-empty array of strings".to_owned()),
        }
    } else {
        match fields.get("url") {
            None => return Err("remote server missing required field `url`".to_owned()),
            Some(Value::String(url)) if !url.is_empty() => {}
            Some(_) => return Err("`url` must be a non-empty string".to_owned()),
        }
    }
    for key in ["environment", "headers"] {
        match fields.get(key) {
            None => {}
            Some(Value::Object(values)) if values.values().all(Value::is_string) => {}
            Some(_) => return Err(format!("`{key}` must be an object of strings")),
        }
    }
    if fields.get("cwd").is_some_and(|v| !v.is_string()) {
        return Err("`cwd` must be a string".to_owned());
    }
    if fields.get("enabled").is_some_and(|v| !v.is_boolean()) {
        return Err("`enabled` must be a boolean".to_owned());
    }
    fields.get("timeout").map_or(Ok(()), |v| positive("timeout", v, u64::MAX))?;
    fields.get("oauth").map_or(Ok(()), oauth)
}

fn oauth(value: &Value) -> Result<(), String> {
    let fields = match value {
        Value::Bool(false) => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err("`oauth` must be an object or `false`".to_owned()),
    };
    for (key, value) in fields {
        match key.as_str() {
            "callbackPort" => positive("oauth.callbackPort", value, 65_535)?,
            "clientId" | "clientSecret" | "scope" | "redirectUri" if value.is_string() => {}
            "clientId" | "clientSecret" | "scope" | "redirectUri" => {
                return Err(format!("`oauth.{key}` must be a string"));
            }
            _ => return Err(format!("unknown field `oauth.{key}`")),
        }
    }
    Ok(())
}

fn positive(key: &str, value: &Value, max: u64) -> Result<(), String> {
    match (value.as_u64(), value.as_i64()) {
        (Some(n), _) if (1..=max).contains(&n) => Ok(()),
        (Some(n), _) if n > max => Err(format!("`{key}` must be at most {max}")),
        (Some(_), _) | (_, Some(_)) => Err(format!("`{key}` must be a positive integer")),
        _ if value.is_number() => Err(format!("`{key}` must be an integer, got a fraction")),
        _ => Err(format!("`{key}` must be an integer, got {}", json_type(value))),
    }
}

/// Puts `servers` into the `mcp` object of `existing`. Everything else keeps its text and order: the order of
/// opencode's permission rules decides which one wins.
fn merge(existing: Option<&str>, servers: &Map<String, Value>) -> serde_json::Result<String> {
    let Some(existing) = existing else {
        return Ok(json!({ "mcp": servers }).to_string());
    };
    let mut document: Ordered = serde_json::from_str(existing)?;
    let mut mcp = match document.0.iter().rfind(|(key, value)| key == "mcp" && value.get() != "null") {
        Some((_, inherited)) => serde_json::from_str(inherited.get())?,
        None => Ordered(Vec::new()),
    };
    for (name, entry) in servers {
        mcp.set(name, &entry.to_string())?;
    }
    document.set("mcp", &mcp.text())?;
    Ok(document.text())
}

/// A JSON object whose values stay text and whose order is kept.
struct Ordered(Vec<(String, Box<RawValue>)>);

impl Ordered {
    fn set(&mut self, key: &str, json: &str) -> serde_json::Result<()> {
        let value = RawValue::from_string(json.to_owned())?;
        self.0.retain(|(k, _)| k != key);
        self.0.push((key.to_owned(), value));
        Ok(())
    }

    fn text(&self) -> String {
        let fields: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{}:{}", json!(key), value.get())).collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Ordered;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(config: &str, existing: Option<&str>) -> Result<Option<String>, String> {
        let config = McpConfig::parse(config).expect("valid JSON").expect("managed");
        config_content("opencode", "OPENCODE_CONFIG_CONTENT", &config, existing).map_err(|e| {
            assert_eq!((e.code, e.option.as_deref()), (ErrorCode::InvalidMcpConfig, Some("mcpConfig")));
            e.message
        })
    }

    fn parsed(config: &str) -> Value {
        serde_json::from_str(&content(config, None).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn sets_without_a_server_leave_the_variable_alone() {
        for config in ["{}", r#"{"mcpServers":{}}"#, r#"{"mcp":{}}"#, r#"{"mcpServers":null,"mcp":null}"#] {
            assert_eq!(content(config, Some("X")), Ok(None), "{config}");
        }
    }

    #[test]
    fn standard_entries_become_native_ones() {
        let cases = [
            (
                r#"{"mcpServers":{"a":{"command":"node","args":["s.js"],"env":{"K":"v"}}}}"#,
                json!({"a":{"type":"local","command":["node","s.js"],"environment":{"K":"v"}}}),
            ),
            (
                r#"{"mcpServers":{"r":{"url":"https://h/mcp","headers":{"A":"b"},"enabled":false}}}"#,
                json!({"r":{"type":"remote","url":"https://h/mcp","headers":{"A":"b"},"enabled":false}}),
            ),
            (
                r#"{"mcpServers":{"a":{"type":"stdio","command":["x","y"],"args":["z"],"environment":{"E":"1"},
                    "cwd":"/w","timeout":5,"alwaysAllow":["t"]}}}"#,
                json!({"a":{"type":"local","command":["x","y"],"environment":{"E":"1"},"cwd":"/w","timeout":5}}),
            ),
            (
                r#"{"mcpServers":{"a":{"type":"http","url":"https://h","oauth":false,"timeout":1}}}"#,
                json!({"a":{"type":"remote","url":"https://h","oauth":false,"timeout":1}}),
            ),
            (r#"{"mcp":{"a":{"enabled":false}}}"#, json!({"a":{"enabled":false}})),
            (
                r#"{"mcp":{"a":{"type":"remote","url":"https://n"},"b":{"enabled":true}},
                    "mcpServers":{"a":{"url":"https://s"}}}"#,
                json!({"a":{"type":"remote","url":"https://s"},"b":{"enabled":true}}),
            ),
        ];
        for (config, want) in cases {
            assert_eq!(parsed(config), json!({ "mcp": want }), "{config}");
        }
    }

    #[test]
    fn a_wrong_entry_is_named() {
        let cases = [
            (r#"{"mcpServers":{"x":"s"}}"#, r#"server "x": entry must be a JSON object"#),
            (r#"{"mcp":{"x":[]}}"#, "entry must be a JSON object"),
            (r#"{"mcp":[]}"#, "`mcp` must be an object, got an array"),
            (r#"{"mcp":{"x":{"enabled":true,"foo":1}}}"#, "missing required field `type`"),
            (r#"{"mcp":{"x":{"type":7}}}"#, "`type` must be a string, got a number"),
            (r#"{"mcp":{"x":{"type":"sse"}}}"#, r#"invalid type "sse" (must be "local" or "remote")"#),
            (r#"{"mcp":{"x":{"type":"remote"}}}"#, "remote server missing required field `url`"),
            (r#"{"mcp":{"x":{"type":"local"}}}"#, "local server missing required field `command`"),
            (r#"{"mcp":{"x":{"type":"local","command":[]}}}"#, "`command` must be a non-empty array"),
            (r#"{"mcp":{"x":{"type":"local","command":["a"],"foo":1}}}"#, "unknown field `foo`"),
            (r#"{"mcp":{"x":{"type":"local","command":["a"],"environment":{"K":1}}}}"#, "`environment`"),
            (r#"{"mcp":{"x":{"type":"local","command":["a"],"enabled":1}}}"#, "`enabled`"),
            (r#"{"mcpServers":{"x":{"command":"a","cwd":1}}}"#, "`cwd` must be a string"),
            (r#"{"mcpServers":{"x":{"type":"stdio"}}}"#, r#"server "x": has neither url nor command"#),
            (r#"{"mcpServers":{"x":{"command":1}}}"#, "command must be a string or string array"),
            (r#"{"mcpServers":{"x":{"command":["a",1]}}}"#, "command must be a string or string array"),
            (r#"{"mcpServers":{"x":{"command":"a","args":"b"}}}"#, "args must be an array"),
            (r#"{"mcpServers":{"x":{"command":"a","args":[1]}}}"#, "args must contain only strings"),
            (r#"{"mcpServers":{"x":{"url":"https://h","headers":{"A":1}}}}"#, "`headers`"),
            (
                r#"{"mcpServers":{"x":{"url":"https://h","timeout":0}}}"#,
                "`timeout` must be a positive integer",
            ),
            (
                r#"{"mcpServers":{"x":{"url":"https://h","timeout":-1}}}"#,
                "`timeout` must be a positive integer",
            ),
            (r#"{"mcpServers":{"x":{"url":"https://h","timeout":1.5}}}"#, "got a fraction"),
            (r#"{"mcpServers":{"x":{"url":"https://h","timeout":"1"}}}"#, "got a string"),
            (r#"{"mcpServers":{"x":{"url":"https://h","oauth":true}}}"#, "must be an object or `false`"),
            (r#"{"mcpServers":{"x":{"url":"https://h","oauth":{"callbackPort":0}}}}"#, "callbackPort"),
            (r#"{"mcpServers":{"x":{"url":"https://h","oauth":{"callbackPort":65536}}}}"#, "callbackPort"),
            (r#"{"mcpServers":{"x":{"url":"https://h","oauth":{"clientId":1}}}}"#, "`oauth.clientId`"),
            (r#"{"mcpServers":{"x":{"url":"https://h","oauth":{"foo":"b"}}}}"#, "`oauth.foo`"),
        ];
        for (config, says) in cases {
            let message = content(config, None).unwrap_err();
            assert!(message.starts_with("opencode mcp_config: "), "{message}");
            assert!(message.contains(says), "{config}: {message}");
        }
    }

    #[test]
    fn errors_hold_no_value() {
        let message = content(r#"{"mcpServers":{"x":{"url":"https://h","headers":{"A":["s3cret"]}}}}"#, None)
            .unwrap_err();
        assert!(!message.contains("s3cret"));
        for existing in ["s3cret", "\"s3cret\"", r#"{"mcp":"s3cret"}"#] {
            let message = content(r#"{"mcp":{"x":{"enabled":true}}}"#, Some(existing)).unwrap_err();
            assert!(message.contains("OPENCODE_CONFIG_CONTENT") && !message.contains("s3cret"), "{message}");
        }
    }

    #[test]
    fn the_callers_configuration_keeps_its_text_and_order() {
        let existing = r#"{"permission":{"z*":"deny","a":"allow"},"mcp":{"a":{"enabled":true},"own":{"enabled":false}},"n":1.50}"#;
        let merged = content(r#"{"mcpServers":{"a":{"url":"https://h"}}}"#, Some(existing)).unwrap().unwrap();
        assert_eq!(
            merged,
            concat!(
                r#"{"permission":{"z*":"deny","a":"allow"},"n":1.50,"#,
                r#""mcp":{"own":{"enabled":false},"a":{"type":"remote","url":"https://h"}}}"#
            )
        );
        for blank in [Some("  "), None] {
            let merged = content(r#"{"mcp":{"x":{"enabled":true}}}"#, blank).unwrap().unwrap();
            assert_eq!(merged, r#"{"mcp":{"x":{"enabled":true}}}"#);
        }
        let merged = content(r#"{"mcp":{"x":{"enabled":true}}}"#, Some(r#"{"mcp":null}"#)).unwrap().unwrap();
        assert_eq!(merged, r#"{"mcp":{"x":{"enabled":true}}}"#);
    }
}
