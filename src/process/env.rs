//! The child's environment: what is inherited, minus a stated list, plus the caller's entries.

use std::collections::BTreeMap;

use crate::contract::Os;
use crate::contract::options::EnvList;

/// A marker on every child, so that descendants that left the process group are found again.
pub const RUN_ID: &str = "AGENTPLUG_RUN_ID";

/// Variables of one child. Names compare without case on Windows. Debug prints names only.
#[derive(Clone)]
pub struct ChildEnv {
    os: Os,
    /// compared name -> (name as given, value)
    entries: BTreeMap<String, (String, String)>,
}

impl ChildEnv {
    /// `host` filtered, then `caller` on top, unfiltered.
    pub fn new(host: &EnvList, caller: &EnvList, os: Os) -> Self {
        let mut env = ChildEnv { os, entries: BTreeMap::new() };
        for (name, value) in &host.0 {
            if !dropped(name) {
                env.set(name, value);
            }
        }
        for (name, value) in &caller.0 {
            env.set(name, value);
        }
        env
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.entries.insert(self.key(name), (name.to_owned(), value.to_owned()));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.get(&self.key(name)).map(|(_, value)| value.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.values().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    fn key(&self, name: &str) -> String {
        if self.os == Os::Windows { name.to_uppercase() } else { name.to_owned() }
    }
}

impl std::fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.values().map(|(n, _)| n)).finish()
    }
}

/// Variables a child must not inherit: session markers that make a nested CLI refuse to start, our own
/// namespace, and Node debugging switches meant for the host (an inherited inspector port breaks the child).
fn dropped(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "NODE_OPTIONS",
        "NODE_INSPECT_RESUME_ON_START",
        "VSCODE_INSPECTOR_OPTIONS",
        "ELECTRON_RUN_AS_NODE",
    ];
    EXACT.contains(&name)
        || name.starts_with("CLAUDECODE_")
        || name.get(..10).is_some_and(|p| p.eq_ignore_ascii_case("AGENTPLUG_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(&str, &str)]) -> EnvList {
        EnvList(entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect())
    }

    #[test]
    fn inherited_markers_go_and_look_alikes_stay() {
        let host = list(&[
            ("CLAUDECODE", "1"),
            ("CLAUDECODEX", "keep"),
            ("CLAUDECODE_FOO", "1"),
            ("CLAUDE_CODE_TMPDIR", "/t"),
            ("CLAUDE_CODE_GIT_BASH_PATH", "/b"),
            ("NODE_OPTIONS", "--inspect"),
            ("VSCODE_INSPECTOR_OPTIONS", "{}"),
            ("agentplug_x", "1"),
            ("PATH", "/bin"),
        ]);
        let env = ChildEnv::new(&host, &list(&[("FOO", "bar"), ("CLAUDECODE", "mine")]), Os::Linux);
        let names: Vec<&str> = env.iter().map(|(n, _)| n).collect();
        assert_eq!(
            names,
            ["CLAUDECODE", "CLAUDECODEX", "CLAUDE_CODE_GIT_BASH_PATH", "CLAUDE_CODE_TMPDIR", "FOO", "PATH"]
        );
        assert_eq!(env.get("CLAUDECODE"), Some("mine"));
    }

    #[test]
    fn names_compare_without_case_on_windows_only() {
        let env = ChildEnv::new(&list(&[("Path", "a")]), &list(&[("PATH", "b")]), Os::Windows);
        assert_eq!(env.iter().collect::<Vec<_>>(), [("PATH", "b")]);
        let env = ChildEnv::new(&list(&[("Path", "a")]), &list(&[("PATH", "b")]), Os::Linux);
        assert_eq!(env.iter().count(), 2);
    }

    #[test]
    fn debug_output_holds_no_value() {
        let env = ChildEnv::new(&list(&[("K", "s3cret")]), &EnvList::default(), Os::Linux);
        assert!(!format!("{env:?}").contains("s3cret"));
    }
}
