//! Its state folder and configuration, and a configuration of one run laid over the user's.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::contract::options::json_type;
use crate::contract::{AgentplugError, ErrorCode, McpConfig, Os};
use crate::process::env::ChildEnv;

/// Where it keeps sessions and logins. `None` without a home.
pub fn state_dir(env: &ChildEnv, os: Os) -> Option<PathBuf> {
    match filled(env, "OPENCLAW_STATE_DIR") {
        Some(folder) => expanded(folder, env, os),
        None => Some(home(env, os)?.join(".openclaw")),
    }
}

/// The configuration file it would read.
pub fn config_file(env: &ChildEnv, os: Os) -> Option<PathBuf> {
    match filled(env, "OPENCLAW_CONFIG_PATH") {
        Some(file) => expanded(file, env, os),
        None => Some(state_dir(env, os)?.join("openclaw.json")),
    }
}

fn filled<'a>(env: &'a ChildEnv, name: &str) -> Option<&'a str> {
    env.get(name).map(str::trim).filter(|v| !v.is_empty())
}

fn home(env: &ChildEnv, os: Os) -> Option<PathBuf> {
    let own = if os == Os::Windows { "USERPROFILE" } else { "HOME" };
    filled(env, "OPENCLAW_HOME").or_else(|| filled(env, own)).map(PathBuf::from)
}

fn expanded(path: &str, env: &ChildEnv, os: Os) -> Option<PathBuf> {
    match path.strip_prefix('~') {
        None => Some(PathBuf::from(path)),
        Some(rest) => Some(home(env, os)?.join(rest.trim_start_matches(['/', '\\']))),
    }
}

/// The servers of a managed set in its own shape.
pub fn servers(config: &McpConfig) -> Result<Map<String, Value>, AgentplugError> {
    let refuse = |what: String| {
        AgentplugError::new(ErrorCode::InvalidMcpConfig, format!("openclaw mcp_config: {what}"))
            .about("mcpConfig")
    };
    let document: Value =
        serde_json::from_str(config.text()).map_err(|e| refuse(format!("it is not JSON ({e})")))?;
    let given = match document.get("mcpServers") {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(given)) => given,
        Some(other) => {
            return Err(refuse(format!("`mcpServers` must be an object, got {}", json_type(other))));
        }
    };
    given
        .iter()
        .map(|(name, entry)| {
            let Value::Object(mut entry) = entry.clone() else {
                return Err(refuse(format!("server \"{name}\": entry must be a JSON object")));
            };
            // It names the transport of a remote server; a local one needs no name.
            let transport = match entry.remove("type").as_ref().and_then(Value::as_str) {
                Some("http" | "streamable-http") => Some("streamable-http"),
                Some("sse") => Some("sse"),
                _ => entry.contains_key("url").then_some("streamable-http"),
            };
            if let Some(transport) = transport.filter(|_| !entry.contains_key("transport")) {
                entry.insert("transport".to_owned(), transport.into());
            }
            Ok((name.clone(), Value::Object(entry)))
        })
        .collect()
}

/// A configuration that holds the user's and, over it, what one run needs. `workspace`: the folder to work in.
pub fn overlay(user: Option<&Path>, workspace: Option<&Path>, servers: &Map<String, Value>) -> String {
    let mut overlay = Map::new();
    if let Some(user) = user {
        overlay.insert("$include".to_owned(), json!([user.to_string_lossy()]));
    }
    if let Some(folder) = workspace {
        // A workspace of its own would be filled with files that introduce it to its user.
        let defaults = json!({"workspace": folder.to_string_lossy(), "skipBootstrap": true});
        overlay.insert("agents".to_owned(), json!({ "defaults": defaults }));
    }
    if !servers.is_empty() {
        overlay.insert("mcp".to_owned(), json!({ "servers": servers }));
    }
    Value::Object(overlay).to_string()
}

/// Includes are confined to the folder of the file that names them, and to these.
pub fn include_roots(user: &Path, existing: Option<&str>, os: Os) -> String {
    let folder = user.parent().unwrap_or(user).to_string_lossy();
    let separator = if os == Os::Windows { ';' } else { ':' };
    match existing.filter(|e| !e.trim().is_empty()) {
        Some(existing) => format!("{folder}{separator}{existing}"),
        None => folder.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::options::EnvList;

    fn env(entries: &[(&str, &str)]) -> ChildEnv {
        let list = entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        ChildEnv::new(&EnvList::default(), &EnvList(list), Os::Linux)
    }

    #[test]
    fn where_its_things_lie() {
        let at = |entries: &[(&str, &str)]| {
            let env = env(entries);
            let shown =
                |p: Option<PathBuf>| p.map(|p| p.to_string_lossy().replace('\\', "/")).unwrap_or_default();
            (shown(state_dir(&env, Os::Linux)), shown(config_file(&env, Os::Linux)))
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(at(&[]), pair("", ""));
        assert_eq!(at(&[("HOME", "/h")]), pair("/h/.openclaw", "/h/.openclaw/openclaw.json"));
        assert_eq!(
            at(&[("HOME", "/h"), ("OPENCLAW_HOME", "/o")]),
            pair("/o/.openclaw", "/o/.openclaw/openclaw.json")
        );
        assert_eq!(at(&[("HOME", "/h"), ("OPENCLAW_STATE_DIR", "~/s")]), pair("/h/s", "/h/s/openclaw.json"));
        assert_eq!(
            at(&[("OPENCLAW_STATE_DIR", "/s"), ("OPENCLAW_CONFIG_PATH", "/c/x.json")]),
            pair("/s", "/c/x.json")
        );
    }

    #[test]
    fn servers_in_its_own_shape() {
        let given = |text: &str| servers(&McpConfig::parse(text).unwrap().unwrap());
        for none in ["{}", r#"{"mcpServers":null}"#, r#"{"mcpServers":{}}"#] {
            assert_eq!(given(none).unwrap(), Map::new());
        }
        let translated = given(
            r#"{"mcpServers":{"l":{"type":"stdio","command":"node","args":["s"],"env":{"K":"v"}},
                "h":{"type":"http","url":"https://h","headers":{"A":"b"}},"s":{"type":"sse","url":"https://s"},
                "u":{"url":"https://u"},"t":{"url":"https://t","transport":"sse"}}}"#,
        )
        .unwrap();
        let want = json!({
            "l": {"command": "node", "args": ["s"], "env": {"K": "v"}},
            "h": {"url": "https://h", "headers": {"A": "b"}, "transport": "streamable-http"},
            "s": {"url": "https://s", "transport": "sse"},
            "u": {"url": "https://u", "transport": "streamable-http"},
            "t": {"url": "https://t", "transport": "sse"},
        });
        assert_eq!(Value::Object(translated), want);
        for (wrong, says) in [
            (r#"{"mcpServers":["s3cret"]}"#, "`mcpServers` must be an object"),
            (r#"{"mcpServers":{"x":"s3cret"}}"#, "server \"x\": entry must be a JSON object"),
        ] {
            let e = given(wrong).unwrap_err();
            assert_eq!(e.code, ErrorCode::InvalidMcpConfig);
            assert!(e.message.contains(says) && !e.message.contains("s3cret"), "{}", e.message);
        }
    }

    #[test]
    fn the_overlay_includes_the_users_configuration() {
        let some = Map::from_iter([("a".to_owned(), json!({"command": "x"}))]);
        let parsed = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        assert_eq!(
            parsed(overlay(Some(Path::new("/u/openclaw.json")), Some(Path::new("/w")), &some)),
            json!({
                "$include": ["/u/openclaw.json"],
                "agents": {"defaults": {"workspace": "/w", "skipBootstrap": true}},
                "mcp": {"servers": {"a": {"command": "x"}}},
            })
        );
        assert_eq!(parsed(overlay(None, None, &Map::new())), json!({}));
        let roots = |existing, os| include_roots(Path::new("/u/openclaw.json"), existing, os);
        assert_eq!(roots(None, Os::Linux), "/u");
        assert_eq!(roots(Some("/x"), Os::MacOs), "/u:/x");
        assert_eq!(roots(Some("/x"), Os::Windows), "/u;/x");
    }
}
