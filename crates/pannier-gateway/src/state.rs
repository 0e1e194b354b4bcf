//! The state folder: a secret, the sessions, and the calibration. Only the user can read it.
//!
//! Each session is a file of lines to which requests append. A process that is killed loses at most the line that it
//! writes. Files are not synced: after a power failure, the last lines may be missing, which changes no decision.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use pannier_files::{FileLock, read_file_bounded, replace_private_file_unsynced};

use crate::GatewayError;
use crate::identity::{Credential, Secret};
use crate::ledger::MAX_SESSIONS;

/// The size at which the file of a session is begun again.
const MAX_SESSION_BYTES: u64 = 4 << 20;

/// The size of all sessions; the oldest files beyond it are removed.
const MAX_ALL_BYTES: u64 = 64 << 20;

/// The number of new sessions after which old files are removed.
const REMOVAL_INTERVAL: usize = 64;

/// The age after which the file of a session is removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The number of credentials whose cut blocks are kept.
const MAX_RECALL_FOLDERS: usize = 32;

const SESSIONS: &str = "sessions";
const RECALL: &str = "recall";
const CALIBRATION: &str = "calibration.json";
const EXTENSION: &str = "jsonl";

/// A folder that keeps the gateway's state.
#[derive(Debug)]
pub(crate) struct StateFolder {
    folder: PathBuf,
    secret: Secret,
    new_sessions: AtomicUsize,
    /// Two gateways would write the same files.
    _lock: FileLock,
}

impl StateFolder {
    /// Opens or creates a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, GatewayError> {
        let failed = |error| GatewayError::State { folder: folder.to_owned(), error };
        create_private(&folder.join(SESSIONS)).map_err(failed)?;
        let lock = FileLock::try_acquire(&folder.join("lock")).map_err(failed)?;
        let lock = lock.ok_or_else(|| GatewayError::StateInUse { folder: folder.to_owned() })?;
        let secret = open_secret(&folder.join("secret")).map_err(failed)?;
        let state = Self {
            folder: folder.to_owned(),
            secret,
            new_sessions: AtomicUsize::new(0),
            _lock: lock,
        };
        state.remove_old(SystemTime::now());
        Ok(state)
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the texts of all sessions, the oldest first.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = String> {
        let files = files(&self.folder.join(SESSIONS));
        files.into_iter().filter_map(|file| read(&file.path))
    }

    /// Returns the text of a session.
    pub(crate) fn session(&self, id: &str) -> Option<String> {
        read(&self.path(id)?)
    }

    /// Returns whether the file of a session has its full size.
    pub(crate) fn is_full(&self, id: &str) -> bool {
        let metadata = self.path(id).and_then(|path| fs::metadata(path).ok());
        metadata.is_some_and(|file| file.len() > MAX_SESSION_BYTES)
    }

    /// Appends a line to the file of a session.
    pub(crate) fn append(&self, id: &str, line: &str) -> io::Result<()> {
        let path = self.path(id).ok_or(io::ErrorKind::InvalidInput)?;
        let mut options = File::options();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let length = file.metadata()?.len();
        let mut text = String::with_capacity(line.len() + 2);
        if length > 0 && !ends_with_newline(&mut file)? {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        file.write_all(text.as_bytes())?;
        if length == 0
            && self.new_sessions.fetch_add(1, Ordering::Relaxed).is_multiple_of(REMOVAL_INTERVAL)
        {
            self.remove_old(SystemTime::now());
        }
        Ok(())
    }

    /// Replaces the file of a session with one line.
    pub(crate) fn replace(&self, id: &str, line: &str) -> io::Result<()> {
        let path = self.path(id).ok_or(io::ErrorKind::InvalidInput)?;
        replace_private_file_unsynced(&path, format!("{line}\n").as_bytes())
    }

    /// Returns the file of a session. An id has only hexadecimal digits, so it is never a path.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| self.folder.join(SESSIONS).join(id).with_extension(EXTENSION))
    }

    /// Removes sessions that are too old, and the oldest ones beyond the bounds.
    fn remove_old(&self, now: SystemTime) {
        let mut bytes = 0_u64;
        for (count, file) in files(&self.folder.join(SESSIONS)).into_iter().rev().enumerate() {
            bytes = bytes.saturating_add(file.bytes);
            let age = now.duration_since(file.written).unwrap_or_default();
            if count >= MAX_SESSIONS || bytes > MAX_ALL_BYTES || age > MAX_AGE {
                // A file that cannot be removed now is tried again with the next session.
                let _ = fs::remove_file(&file.path);
            }
        }
    }

    /// Returns the folder with the cut blocks of a credential.
    pub(crate) fn recall_folder(&self, credential: &Credential) -> PathBuf {
        self.folder.join(RECALL).join(credential.digits())
    }

    /// Creates the folder with the cut blocks of a credential, and removes the oldest ones beyond the bound.
    pub(crate) fn create_recall_folder(&self, credential: &Credential) -> io::Result<PathBuf> {
        let folder = self.recall_folder(credential);
        if folder.is_dir() {
            return Ok(folder);
        }
        create_private(&folder)?;
        let mut others: Vec<(SystemTime, PathBuf)> = fs::read_dir(self.folder.join(RECALL))?
            .flatten()
            .filter(|entry| entry.path() != folder)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        others.sort_unstable();
        for (_, path) in others.iter().rev().skip(MAX_RECALL_FOLDERS - 1) {
            let _ = fs::remove_dir_all(path);
        }
        Ok(folder)
    }

    /// Returns the text of the calibration.
    pub(crate) fn calibration(&self) -> Option<String> {
        read(&self.folder.join(CALIBRATION))
    }

    pub(crate) fn set_calibration(&self, text: &str) -> io::Result<()> {
        replace_private_file_unsynced(&self.folder.join(CALIBRATION), text.as_bytes())
    }
}

struct StateFile {
    written: SystemTime,
    path: PathBuf,
    bytes: u64,
}

/// Returns the files of sessions, the oldest first.
fn files(folder: &Path) -> Vec<StateFile> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let is_session = path.extension().is_some_and(|extension| extension == EXTENSION);
        let written = metadata.modified().ok()?;
        is_session.then_some(StateFile { written, path, bytes: metadata.len() })
    });
    let mut files: Vec<StateFile> = files.collect();
    files.sort_unstable_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
    files
}

fn read(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let bytes = read_file_bounded(&file, 2 * MAX_SESSION_BYTES).ok()??;
    // A line that is not UTF-8 is not JSON, and is skipped.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn ends_with_newline(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Reads the secret, or creates it.
fn open_secret(path: &Path) -> io::Result<Secret> {
    match File::open(path) {
        Ok(mut file) => {
            check_private(&file)?;
            let mut bytes = [0; 32];
            file.read_exact(&mut bytes)?;
            Ok(Secret::new(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = Secret::random().map_err(io::Error::other)?;
            replace_private_file_unsynced(path, secret.bytes())?;
            Ok(secret)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn check_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    match file.metadata()?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(io::Error::other("other users can read the secret; run `chmod 600` on it")),
    }
}

#[cfg(not(unix))]
fn check_private(_: &File) -> io::Result<()> {
    Ok(())
}

/// Creates a folder that only its owner can read.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pannier-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_secret_stays_and_is_private() {
        let folder = folder("secret");
        let first = StateFolder::open(&folder).unwrap();
        assert!(matches!(StateFolder::open(&folder), Err(GatewayError::StateInUse { .. })));
        let secret = *first.secret().bytes();
        drop(first);
        assert_eq!(*StateFolder::open(&folder).unwrap().secret().bytes(), secret);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;

            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder), mode(&folder.join("secret"))), (0o700, 0o600));
            let public = fs::Permissions::from_mode(0o644);
            fs::set_permissions(folder.join("secret"), public).unwrap();
            let error = StateFolder::open(&folder).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        fs::write(folder.join("secret"), "short").unwrap();
        assert!(StateFolder::open(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sessions_are_bounded() {
        let folder = folder("sessions");
        let state = StateFolder::open(&folder).unwrap();
        for number in 0..MAX_SESSIONS + 2 * REMOVAL_INTERVAL {
            state.append(&format!("{number:016x}"), "{}").unwrap();
        }
        assert!(state.sessions().count() < MAX_SESSIONS + REMOVAL_INTERVAL);
        state.remove_old(SystemTime::now() + 2 * MAX_AGE);
        assert_eq!(state.sessions().count(), 0);
        let (id, line) = ("00000000000000aa", "x".repeat(1 << 20));
        for _ in 0..4 {
            assert!(!state.is_full(id));
            state.append(id, &line).unwrap();
        }
        assert!(state.is_full(id));
        state.replace(id, "{}").unwrap();
        assert_eq!(state.session(id).unwrap(), "{}\n");
        for wrong in ["", "../secret", "00000000000000a/", "00000000000000aaa"] {
            assert!(state.session(wrong).is_none() && state.append(wrong, "{}").is_err());
        }
        drop(state);
        fs::remove_dir_all(&folder).unwrap();
    }
}
