//! A managed set of MCP servers, the way cursor-agent reads one: `.cursor/mcp.json` in the project, and approvals
//! in its data folder (a server nobody approved is skipped without a word).
//!
//! Not yet proven on a real cursor-agent, which no package registry carries; the shapes are those of 2026 releases
//! as publicly described. The data folder of such a run is private, so that servers of the user's own that are not
//! in the set find no approval.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::contract::{AgentplugError, ErrorCode, McpConfig};

/// Names the folder with approvals, trust marks and transcripts.
pub const DATA_DIR: &str = "CURSOR_DATA_DIR";

/// The servers of a managed set, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers(BTreeMap<String, Map<String, Value>>);

impl Servers {
    pub fn parse(config: &McpConfig) -> Result<Servers, AgentplugError> {
        let Ok(Value::Object(mut root)) = serde_json::from_str(config.text()) else {
            return Err(invalid("it is not an object"));
        };
        let servers = match root.remove("mcpServers") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(servers)) => servers,
            Some(_) => return Err(invalid("mcpServers is not an object")),
        };
        let mut parsed = BTreeMap::new();
        for (name, server) in servers {
            let Value::Object(server) = server else {
                return Err(invalid(&format!("server {name} is not an object")));
            };
            if !["command", "url"].iter().any(|key| server.get(*key).is_some_and(Value::is_string)) {
                return Err(invalid(&format!("server {name} has neither a command nor a url")));
            }
            parsed.insert(name, server);
        }
        Ok(Servers(parsed))
    }

    /// The content of `.cursor/mcp.json`.
    pub fn file(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct File<'a> {
            mcp_servers: &'a BTreeMap<String, Map<String, Value>>,
        }
        let mut bytes =
            serde_json::to_vec_pretty(&File { mcp_servers: &self.0 }).expect("JSON values serialize");
        bytes.push(b'\n');
        bytes
    }

    /// The keys that stand for "approved in this project", in the order of the names.
    pub fn approvals(&self, root: &str) -> Vec<String> {
        self.0.iter().map(|(name, server)| approval(root, name, server)).collect()
    }
}

/// A name and the hash of what was approved: the project and the fields of the server that matter, in this order.
fn approval(root: &str, name: &str, server: &Map<String, Value>) -> String {
    #[derive(Serialize)]
    struct Approved<'a> {
        path: &'a str,
        server: Server<'a>,
    }
    #[derive(Serialize)]
    struct Server<'a> {
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        command: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        env: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        headers: Option<&'a Value>,
    }
    let stdio = server.contains_key("command");
    let get = |name: &str, of_stdio: bool| server.get(name).filter(|v| stdio == of_stdio && !v.is_null());
    let server = Server {
        kind: server.get("type").filter(|v| !v.is_null()),
        command: get("command", true),
        args: get("args", true),
        env: get("env", true),
        cwd: get("cwd", true),
        url: get("url", false),
        headers: get("headers", false),
    };
    let bytes = serde_json::to_vec(&Approved { path: root, server }).expect("JSON values serialize");
    let hash: String = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{hash}")
}

/// The nearest folder above `cwd` with a `.git`, else `cwd`; symbolic links resolved.
pub fn project_root(cwd: &Path) -> io::Result<PathBuf> {
    let cwd = without_verbatim(fs::canonicalize(cwd)?);
    Ok(cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&cwd).to_owned())
}

/// Windows gives `\\?\C:\x` for a resolved path; Node, and so the CLI, says `C:\x`.
fn without_verbatim(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(plain) if plain.as_bytes().get(1) == Some(&b':') => PathBuf::from(plain),
        _ => path,
    }
}

/// The name of the project's folder among the CLI's data: everything but letters and digits becomes `-`.
pub fn slug(root: &str) -> String {
    root.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// Fills a private data folder: approvals for exactly these servers, and the project trusted. `chats` is the
/// user's own folder of conversations, linked so that a session can be resumed by a later run.
pub fn write_data(
    folder: &Path,
    root: &str,
    servers: &Servers,
    trusted_at: &str,
    chats: Option<&Path>,
) -> io::Result<()> {
    let project = folder.join("projects").join(slug(root));
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&project)?;
    let approvals = serde_json::to_vec(&servers.approvals(root)).expect("strings serialize");
    write_private(&project.join("mcp-approvals.json"), &approvals)?;
    let trust = json!({ "trustedAt": trusted_at, "workspacePath": root, "trustMethod": "cli-flag" });
    write_private(&project.join(".workspace-trusted"), trust.to_string().as_bytes())?;
    #[cfg(unix)]
    if let Some(chats) = chats {
        builder.create(chats)?;
        std::os::unix::fs::symlink(chats, folder.join("chats"))?;
    }
    // Links to folders need a privilege there.
    #[cfg(not(unix))]
    let _ = chats;
    Ok(())
}

/// A new file that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

fn invalid(what: &str) -> AgentplugError {
    AgentplugError::new(
        ErrorCode::InvalidMcpConfig,
        format!("option mcpConfig cannot be used for cursor: {what}; pass an object like {{\"mcpServers\": {{…}}}}"),
    )
    .about("mcpConfig")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Result<Servers, AgentplugError> {
        Servers::parse(&McpConfig::parse(text).unwrap().unwrap())
    }

    #[test]
    fn only_a_set_of_servers_will_do() {
        for (text, says) in [
            (r#"{"mcpServers":[]}"#, "mcpServers is not an object"),
            (r#"{"mcpServers":{"a":1}}"#, "server a is not an object"),
            (r#"{"mcpServers":{"a":{"env":{"K":"s3cret"}}}}"#, "server a has neither"),
        ] {
            let e = servers(text).unwrap_err();
            assert_eq!((e.code, e.option.as_deref()), (ErrorCode::InvalidMcpConfig, Some("mcpConfig")));
            assert!(e.message.contains(says) && !e.message.contains("s3cret"), "{}", e.message);
        }
        for empty in ["{}", r#"{"mcpServers":{}}"#, r#"{"mcpServers":null}"#] {
            let none = servers(empty).unwrap();
            assert!(none.approvals("/p").is_empty());
            let file: Value = serde_json::from_slice(&none.file()).unwrap();
            assert_eq!(file, json!({ "mcpServers": {} }));
        }
    }

    #[test]
    fn the_file_keeps_every_field() {
        let text = r#"{"mcpServers":{"b":{"url":"https://x/<&>","headers":{"A":"1"},"disabled":false},"a":{"command":"c","args":["-x"],"envFile":".env"}}}"#;
        let file: Value = serde_json::from_slice(&servers(text).unwrap().file()).unwrap();
        assert_eq!(file, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn an_approval_is_a_hash_over_the_fields_that_matter() {
        let hash = |json: &str| -> String {
            Sha256::digest(json).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
        };
        let text = r#"{"mcpServers":{
            "z":{"headers":{"A":"<1>"},"url":"https://x","disabled":true,"type":"http"},
            "a":{"env":{"K":"v"},"cwd":"/w","args":["-x","é"],"command":"c","url":null}
        }}"#;
        assert_eq!(
            servers(text).unwrap().approvals("/p/r"),
            [
                format!(
                    "a-{}",
                    hash(
                        r#"{"path":"/p/r","server":{"command":"c","args":["-x","é"],"env":{"K":"v"},"cwd":"/w"}}"#
                    )
                ),
                format!(
                    "z-{}",
                    hash(
                        r#"{"path":"/p/r","server":{"type":"http","url":"https://x","headers":{"A":"<1>"}}}"#
                    )
                ),
            ]
        );
        // The digest itself, worked out with another tool.
        assert_eq!(hash("abc"), "ba7816bf8f01cfea");
    }

    #[test]
    fn slugs_hold_letters_digits_and_single_dashes() {
        for (root, want) in [
            ("/Users/me/prj/foo", "Users-me-prj-foo"),
            (r"C:\Users\me", "C-Users-me"),
            ("/a//b__c.d/", "a-b-c-d"),
            ("/ä/x", "x"),
        ] {
            assert_eq!(slug(root), want);
        }
    }

    #[test]
    fn the_root_is_the_nearest_repository() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).map(without_verbatim).unwrap();
        fs::create_dir_all(base.join("repo/deep/er")).unwrap();
        fs::create_dir_all(base.join("plain")).unwrap();
        fs::write(base.join("repo/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(project_root(&base.join("repo/deep/er")).unwrap(), base.join("repo"));
        assert_eq!(project_root(&base.join("plain")).unwrap(), base.join("plain"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(base.join("repo/deep"), base.join("link")).unwrap();
            assert_eq!(project_root(&base.join("link")).unwrap(), base.join("repo"));
        }
        assert!(project_root(&base.join("gone")).is_err());
        assert_eq!(without_verbatim(PathBuf::from(r"\\?\C:\x")), PathBuf::from(r"C:\x"));
        assert_eq!(without_verbatim(PathBuf::from(r"\\?\UNC\h\x")), PathBuf::from(r"\\?\UNC\h\x"));
    }

    #[test]
    fn the_data_folder_is_private_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, chats) = (dir.path().join("data"), dir.path().join("home/chats"));
        let set = servers(r#"{"mcpServers":{"a":{"command":"c"}}}"#).unwrap();
        write_data(&folder, "/p/r", &set, "2026-08-02T02:06:46.038Z", Some(&chats)).unwrap();
        let project = folder.join("projects/p-r");
        let read =
            |name: &str| -> Value { serde_json::from_slice(&fs::read(project.join(name)).unwrap()).unwrap() };
        assert_eq!(read("mcp-approvals.json"), json!(set.approvals("/p/r")));
        assert_eq!(
            read(".workspace-trusted"),
            json!({"trustedAt":"2026-08-02T02:06:46.038Z","workspacePath":"/p/r","trustMethod":"cli-flag"})
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&project), mode(&project.join("mcp-approvals.json"))), (0o700, 0o600));
            assert_eq!(fs::read_link(folder.join("chats")).unwrap(), chats);
            assert!(chats.is_dir());
        }
    }
}
