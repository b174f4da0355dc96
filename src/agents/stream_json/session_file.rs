//! The file a CLI keeps of a session, `<projects>/<working directory>/…/<session id>.jsonl`.

use std::path::{Path, PathBuf};

/// The newest file of this session; a project that moved leaves an older copy behind. `folder`: between the
/// project's folder and the file.
pub fn find(projects: &Path, folder: &str, session_id: &str) -> Option<PathBuf> {
    if !is_file_name(session_id) {
        return None;
    }
    let file = format!("{session_id}.jsonl");
    let candidates = std::fs::read_dir(projects).ok()?.flatten().filter_map(|project| {
        let path = project.path().join(folder).join(&file);
        Some((path.metadata().ok()?.modified().ok()?, path))
    });
    candidates.max().map(|(_, path)| path)
}

/// A session id comes from the caller: it must not lead out of the folder.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && !id.contains(['/', '\\', ':', '\0']) && id != "." && id != ".."
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_newest_file_of_the_session_is_found() {
        let root = tempfile::tempdir().unwrap();
        for (project, age) in [("old", 100), ("new", 1), ("older", 200)] {
            let folder = root.path().join(project).join("chats");
            std::fs::create_dir_all(&folder).unwrap();
            let file = File::create(folder.join("s.jsonl")).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        assert_eq!(find(root.path(), "chats", "s"), Some(root.path().join("new/chats/s.jsonl")));
        for id in ["other", "../s", "..", ".", "a\\b", "c:d", ""] {
            assert_eq!(find(root.path(), "chats", id), None, "{id}");
        }
        assert_eq!(find(root.path(), "", "s"), None);
        assert_eq!(find(&root.path().join("none"), "chats", "s"), None);
    }
}
