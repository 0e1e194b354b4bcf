//! Small files, one for each session and what it is about.
//!
//! The name of a file holds only what cannot lead anywhere else. A file is written beside its place and then renamed, so
//! that whoever reads it finds the old one or the new one. What is added to a file is added under a lock of the whole
//! folder: two that add at once wait for each other, and the lock goes with the process that holds it, however it ends.
//! The lock is a file that is never removed, because a lock on a file that is gone keeps nobody out.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{SessionError, SessionId};

const LOCK: &str = "lock";

/// So many files are looked at each time old ones are removed.
const MOST_LOOKED_AT: usize = 256;

/// The files of sessions in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    folder: PathBuf,
    ending: &'static str,
}

impl SessionFiles {
    /// Files with this ending in this folder, which is made when it is needed.
    pub fn in_folder(folder: impl Into<PathBuf>, ending: &'static str) -> Self {
        Self { folder: folder.into(), ending }
    }

    /// The file of a session and the folders that it is about. A hash keeps those apart, and sessions whose names differ
    /// only in the case of letters; it comes first, so that no name is one that a system reserves.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if a folder cannot be looked at.
    pub fn file(&self, session: &SessionId, about: &[&Path]) -> Result<SessionFile, SessionError> {
        let mut folders = Vec::new();
        for folder in about {
            let failed = |error| SessionError::io("look into", folder, error);
            folders.push(folder.canonicalize().map_err(failed)?);
        }
        folders.sort_unstable();
        let mut hash = blake3::Hasher::new();
        hash.update(session.as_str().as_bytes());
        for folder in folders {
            hash.update(b"\n").update(folder.as_os_str().as_encoded_bytes());
        }
        let name = format!("{:.8}-{session}{}", hash.finalize().to_hex(), self.ending);
        Ok(SessionFile { path: self.folder.join(name), folder: self.folder.clone() })
    }

    /// Removes files that were not written for so long before the latest one was. One that cannot be removed does no harm.
    pub fn forget(&self, old: Duration) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let entries: Vec<_> = entries.flatten().take(MOST_LOOKED_AT).collect();
        // Not before a time that somebody made up.
        let times = entries.iter().filter_map(|entry| entry.metadata().ok()?.modified().ok());
        let Some(latest) = times.max() else { return };
        let beside = format!("{}.", self.ending);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours =
                name.ends_with(self.ending) || name.ends_with(".tmp") && name.contains(&beside);
            // Of a link, this is about the link.
            let Ok(found) = entry.metadata() else { continue };
            let age = |time| latest.duration_since(time).unwrap_or_default();
            let is_old = || found.modified().is_ok_and(|time| age(time) > old);
            if is_ours && found.is_file() && is_old() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The file of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    path: PathBuf,
    folder: PathBuf,
}

impl SessionFile {
    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, if it is there, a file, and not longer than that. A link is not followed.
    pub fn read(&self, most: u64) -> Option<Vec<u8>> {
        // What is no file, such as a pipe, may never open.
        fs::symlink_metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(&self.path).ok()?;
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
        Some(bytes).filter(|bytes| bytes.len() as u64 <= most)
    }

    /// Replaces it. A link in its place is replaced, not followed.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if it cannot be written; then it is as it was.
    pub fn write(&self, bytes: &[u8]) -> Result<(), SessionError> {
        // Threads of one process write beside each other, too.
        static COUNT: AtomicU64 = AtomicU64::new(0);

        self.make_folder()?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut beside = self.path.clone().into_os_string();
        beside.push(format!(".{}-{count}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        // What a process that was stopped left behind, or a link that somebody put there.
        let _ = fs::remove_file(&beside);
        let written = File::create_new(&beside)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&beside, &self.path));
        written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            SessionError::io("write", &self.path, error)
        })
    }

    /// Replaces it by what is made of what it holds, while nobody else does. `None` leaves it as it is.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if it cannot be written; then it is as it was.
    pub fn update(
        &self,
        most: u64,
        change: impl FnOnce(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<(), SessionError> {
        self.make_folder()?;
        let path = self.folder.join(LOCK);
        let failed = |error| SessionError::io("lock", &path, error);
        let lock = File::options().create(true).append(true).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        match change(self.read(most)) {
            Some(bytes) => self.write(&bytes),
            None => Ok(()),
        }
    }

    fn make_folder(&self) -> Result<(), SessionError> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| SessionError::io("write", &self.folder, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for a test, which goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("pannier-sessions-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, session: &str) -> SessionFile {
            let files = SessionFiles::in_folder(self.0.join("state"), ".seen");
            files.file(&SessionId::new(session).unwrap(), &[&self.0]).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_differ_by_session_and_by_what_they_are_about() {
        let scratch = Scratch::new("names");
        let (one, other) = (scratch.0.join("one"), scratch.0.join("other"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&other).unwrap();
        let files = SessionFiles::in_folder(&scratch.0, ".seen");
        let path = |session: &str, about: &[&Path]| {
            files.file(&SessionId::new(session).unwrap(), about).unwrap().path().to_owned()
        };
        let same = path("a", &[&one, &other]);
        assert_eq!(path("a", &[&other, &one.join("../one")]), same);
        for different in [path("A", &[&one, &other]), path("a", &[&one]), path("a", &[&other])] {
            assert_ne!(different, same);
        }
        let error = files.file(&SessionId::new("a").unwrap(), &[Path::new("/nowhere")]);
        assert!(matches!(error.unwrap_err(), SessionError::Io { .. }));
    }

    #[test]
    fn updates_at_the_same_time_do_not_lose_each_other() {
        let scratch = Scratch::new("updates");
        std::thread::scope(|scope| {
            for thread in 0..8_u8 {
                let file = scratch.file("a");
                scope.spawn(move || {
                    for _ in 0..20 {
                        file.update(1_000, |bytes| {
                            let mut bytes = bytes.unwrap_or_default();
                            bytes.push(thread);
                            Some(bytes)
                        })
                        .unwrap();
                    }
                });
            }
        });
        let mut bytes = scratch.file("a").read(1_000).unwrap();
        bytes.sort_unstable();
        let expected: Vec<u8> = (0..8).flat_map(|thread| [thread; 20]).collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn what_is_too_long_or_no_file_is_as_if_it_were_not_there() {
        let scratch = Scratch::new("read");
        let file = scratch.file("a");
        assert_eq!(file.read(10), None);
        file.write(b"0123456789").unwrap();
        assert_eq!(file.read(10).unwrap().len(), 10);
        assert_eq!(file.read(9), None);
        file.update(10, |_| None).unwrap();
        assert_eq!(file.read(10).unwrap().len(), 10);
        fs::create_dir(scratch.file("b").path()).unwrap();
        assert_eq!(scratch.file("b").read(10), None);
        assert!(scratch.file("b").write(b"x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("links");
        fs::create_dir(scratch.0.join("state")).unwrap();
        fs::write(scratch.0.join("outside"), "x").unwrap();
        let file = scratch.file("a");
        symlink(scratch.0.join("outside"), file.path()).unwrap();
        assert_eq!(file.read(10), None);
        file.write(b"y").unwrap();
        assert_eq!(file.read(10).as_deref(), Some(&b"y"[..]));
        assert_eq!(fs::read(scratch.0.join("outside")).unwrap(), b"x");
    }
}
