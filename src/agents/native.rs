//! The native binary behind an npm launcher of Windows. Starting it directly spares the launcher's second
//! reading of the arguments by a shell, which breaks newlines and quotes.

use std::path::{Path, PathBuf};

use crate::contract::Os;

/// The first of `candidates` (relative to the launcher's folder, with backslashes) that exists. `None` off
/// Windows, for anything but a `.cmd` launcher, or when none is there: then the launcher itself is started.
pub fn beside_launcher(
    os: Os,
    launcher: &Path,
    candidates: &[&str],
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if os != Os::Windows {
        return None;
    }
    // Split by hand: the path rules of the system this runs on need not be those of Windows.
    let text = launcher.to_str()?;
    let (folder, file) = text.rsplit_once(['\\', '/'])?;
    let extension = file.get(file.len().checked_sub(4)?..)?;
    if !extension.eq_ignore_ascii_case(".cmd") {
        return None;
    }
    candidates.iter().map(|c| PathBuf::from(format!("{folder}\\{c}"))).find(|path| exists(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cmd_launcher_of_windows_is_replaced() {
        let candidates = ["node_modules\\x\\a.exe", "node_modules\\x\\b.exe"];
        let find = |os, launcher: &str, present: &str| {
            beside_launcher(os, Path::new(launcher), &candidates, |p| p == Path::new(present))
                .map(|p| p.to_str().expect("test paths are UTF-8").to_owned())
        };
        let b = r"C:\n\node_modules\x\b.exe";
        assert_eq!(find(Os::Windows, r"C:\n\x.CMD", b).as_deref(), Some(b));
        assert_eq!(find(Os::Windows, "C:\\n/x.cmd", r"C:\n\node_modules\x\b.exe").as_deref(), Some(b));
        assert_eq!(find(Os::Linux, r"C:\n\x.cmd", b), None);
        for launcher in [r"C:\n\x.exe", r"C:\n\x", r"C:\n\ä", "x.cmd", ""] {
            assert_eq!(find(Os::Windows, launcher, b), None, "{launcher}");
        }
        assert_eq!(find(Os::Windows, r"C:\n\x.cmd", r"C:\other.exe"), None);
    }
}
