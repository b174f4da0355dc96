//! One name per kind of tool, whatever title the CLI gives it.

/// From title and kind: a title like `terminal: ls -la` carries the name in front, a bare title may be
/// anything, so there a known kind wins. May be empty.
pub fn from_title(title: &str, kind: &str) -> String {
    if title == "execute code" {
        return "execute_code".to_owned();
    }
    if let Some((head, _)) = title.split_once(':').filter(|(head, _)| !head.is_empty()) {
        let head = head.trim();
        return match head {
            "terminal" => "terminal",
            "read" => "read_file",
            "write" => "write_file",
            "search" => "search_files",
            "web search" => "web_search",
            "extract" => "web_extract",
            "delegate" => "delegate_task",
            "analyze image" => "vision_analyze",
            patch if patch.starts_with("patch") => "patch",
            other => other,
        }
        .to_owned();
    }
    match kind {
        "read" => "read_file",
        "edit" => "write_file",
        "execute" => "terminal",
        "search" => "search_files",
        "fetch" => "web_search",
        "think" => "thinking",
        other if title.is_empty() => other,
        _ => title,
    }
    .to_owned()
}

/// The names of CLIs that title tools for people ("Read File: …"). A CLI's own `extra` table comes first.
pub fn shared(name: &str, extra: &[(&str, &str)]) -> String {
    let name = name.trim();
    let head = name.split_once(':').map(|(head, _)| head).filter(|head| !head.is_empty());
    let lower = head.unwrap_or(name).trim().to_lowercase();
    if let Some((_, own)) = extra.iter().find(|(from, _)| *from == lower) {
        return (*own).to_owned();
    }
    match lower.as_str() {
        "read" | "read file" => "read_file",
        "write" | "write file" => "write_file",
        "edit" | "patch" => "edit_file",
        "shell" | "bash" | "terminal" | "run command" | "run shell command" => "terminal",
        "search" | "grep" | "find" => "search_files",
        "web search" => "web_search",
        "fetch" | "web fetch" => "web_fetch",
        "todo" | "todo write" => "todo_write",
        other => return other.replace(' ', "_"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_and_a_kind_give_a_name() {
        for (title, kind, name) in [
            ("patch (replace): x", "edit", "patch"),
            ("Edit file", "edit", "write_file"),
            ("Grep", "", "Grep"),
            ("", "other", "other"),
            ("my_tool: z", "other", "my_tool"),
            ("execute code", "execute", "execute_code"),
            ("terminal: ls -la", "execute", "terminal"),
            ("read: /p", "read", "read_file"),
            ("web search: q", "fetch", "web_search"),
            ("extract: u", "", "web_extract"),
            ("delegate: t", "", "delegate_task"),
            ("analyze image: i", "", "vision_analyze"),
            (": x", "execute", "terminal"),
            ("Think hard", "think", "thinking"),
            ("", "", ""),
        ] {
            assert_eq!(from_title(title, kind), name, "{title:?} {kind:?}");
        }
    }

    #[test]
    fn titles_for_people_become_one_name_each() {
        for (title, name) in [
            ("Shell", "terminal"),
            ("Bash", "terminal"),
            ("Run command: pwd", "terminal"),
            ("Read file: /x", "read_file"),
            ("Patch: /x", "edit_file"),
            ("patch", "edit_file"),
            ("Web search: q", "web_search"),
            ("Web Fetch", "web_fetch"),
            ("Todo Write", "todo_write"),
            ("glob", "glob"),
            ("grep", "search_files"),
            ("Custom Thing", "custom_thing"),
            ("read_file", "read_file"),
            (":x", ":x"),
            (" ", ""),
        ] {
            assert_eq!(shared(title, &[]), name, "{title:?}");
        }
        assert_eq!(shared("Code", &[("code", "source")]), "source");
    }
}
