//! Private files of one run: 0600 in a 0700 folder, gone when the run ends.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;

use crate::contract::{AgentplugError, ErrorCode};

const PREFIX: &str = "agentplug-";

/// The folder is made at the first write and removed on drop.
#[derive(Default)]
pub struct RunFiles {
    folder: Mutex<Option<TempDir>>,
}

impl RunFiles {
    /// Writes `bytes` to a new file of this name and gives its absolute path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, AgentplugError> {
        let path = self.path(name)?;
        let io = |e: std::io::Error| {
            AgentplugError::new(
                ErrorCode::Io,
                format!("cannot write the temporary file {}: {e}", path.display()),
            )
        };
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).and_then(|mut f| f.write_all(bytes)).map_err(io)?;
        Ok(path)
    }

    /// A new folder of this name inside the private one.
    pub fn folder(&self, name: &str) -> Result<PathBuf, AgentplugError> {
        let path = self.path(name)?;
        std::fs::create_dir(&path).map_err(|e| {
            AgentplugError::new(ErrorCode::Io, format!("cannot create the folder {}: {e}", path.display()))
        })?;
        Ok(path)
    }

    /// A path inside the private folder for a file that the CLI itself writes.
    pub fn path(&self, name: &str) -> Result<PathBuf, AgentplugError> {
        let mut folder = self.folder.lock().unwrap_or_else(|e| e.into_inner());
        if folder.is_none() {
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX);
            #[cfg(unix)]
            let private: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            #[cfg(unix)]
            builder.permissions(private);
            *folder = Some(builder.tempdir().map_err(|e| {
                AgentplugError::new(ErrorCode::Io, format!("cannot create a temporary folder: {e}"))
            })?);
        }
        Ok(folder.as_ref().expect("made above").path().join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_gone_after_drop() {
        let files = RunFiles::default();
        let path = files.write("mcp-config.json", b"{}").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |p: &std::path::Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
        assert!(files.write("mcp-config.json", b"again").is_err(), "an existing file is never overwritten");
        let folder = path.parent().unwrap().to_owned();
        drop(files);
        assert!(!folder.exists());
    }
}
