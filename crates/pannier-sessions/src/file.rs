//! Small files, one for each session and what it is about.
//!
//! The name of a file holds only what cannot lead anywhere else. A file is written beside its place and then renamed, so
//! that whoever reads it finds the old one or the new one. What is added to a file is added under a lock of the whole
//! folder: two that add at once wait for each other, and the lock goes with the process that holds it, however it ends.
//! The lock is a file that is never removed, because a lock on a file that is gone keeps nobody out. What is no file in its
//! place, such as a pipe, would never open, so it is refused before it is tried.
//!
//! What is old goes by the clock of the file system alone: a file is old if it was last written long before the one that
//! was written just now. Looking for such files needs no lock, and mostly finds none; only removing them does.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::{SessionError, SessionId};

const LOCK: &str = "lock";

/// Nobody holds the lock for longer than it takes to write a small file, so whoever waits this often waits for somebody
/// who is stopped.
const MOST_WAITS: usize = 5_000;
const WAIT: Duration = Duration::from_millis(2);

/// So many names are looked at when old files are removed. A folder has more only if it is not ours alone.
const MOST_LOOKED_AT: usize = 100_000;

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
        Ok(SessionFile { path: self.folder.join(name), files: self.clone() })
    }

    /// The files with this ending, whole or half written, that were last written so long before a time.
    fn older(&self, latest: SystemTime, old: Duration) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let beside = format!("{}.", self.ending);
        let is_ours = |entry: &DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.ends_with(self.ending) || name.ends_with(".tmp") && name.contains(&beside)
        };
        let entries = entries.flatten().take(MOST_LOOKED_AT).filter(is_ours);
        entries.map(|entry| entry.path()).filter(|path| is_older(path, latest, old)).collect()
    }

    /// Keeps everybody else out until what is returned goes.
    fn lock(&self) -> Result<File, SessionError> {
        let path = self.folder.join(LOCK);
        let failed = |error| SessionError::io("lock", &path, error);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("it is not a file; remove it")));
        }
        let lock = File::options().create(true).append(true).open(&path).map_err(failed)?;
        for _ in 0..MOST_WAITS {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(failed(io::Error::other("another program keeps it; end that, and try again")))
    }

    fn make_folder(&self) -> Result<(), SessionError> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| SessionError::io("write", &self.folder, error))
    }
}

/// Whether a file was last written so long before a time. Of a link, this would be about the link, which is no file.
fn is_older(path: &Path, latest: SystemTime, old: Duration) -> bool {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let written = found.and_then(|found| found.modified().ok());
    written.is_some_and(|written| latest.duration_since(written).is_ok_and(|age| age > old))
}

/// The file of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    path: PathBuf,
    files: SessionFiles,
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

        self.files.make_folder()?;
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
        self.files.make_folder()?;
        let _lock = self.files.lock()?;
        match change(self.read(most)) {
            Some(bytes) => self.write(&bytes),
            None => Ok(()),
        }
    }

    /// Removes files of the same kind that were last written so long before this one. What cannot be removed does no harm,
    /// and stays.
    pub fn forget_older(&self, old: Duration) {
        let written = fs::symlink_metadata(&self.path).and_then(|found| found.modified());
        let Ok(latest) = written else { return };
        let older = self.files.older(latest, old);
        if older.is_empty() {
            return;
        }
        let Ok(_lock) = self.files.lock() else { return };
        // One that somebody wrote in the meantime is not old any more.
        for path in older.iter().filter(|path| is_older(path, latest, old)) {
            let _ = fs::remove_file(path);
        }
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

    /// Makes a file of a time, counted back from another one's.
    fn write_before(path: &Path, latest: &SessionFile, age: Duration) {
        let latest = fs::metadata(latest.path()).unwrap().modified().unwrap();
        fs::write(path, "").unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(latest - age).unwrap();
    }

    #[test]
    fn what_is_old_is_forgotten_however_much_there_is() {
        let scratch = Scratch::new("old");
        let day = Duration::from_secs(24 * 60 * 60);
        let file = scratch.file("a");
        file.write(b"now").unwrap();
        let at = |name: &str| scratch.0.join("state").join(name);
        let write = |name: &str, age: Duration| write_before(&at(name), &file, age);
        for number in 0..600 {
            write(&format!("{number}.seen"), 2 * day);
        }
        write("half.seen.7-0.tmp", 2 * day);
        for kept in ["notes.txt", "x.seen.txt", "y.tmp"] {
            write(kept, 2 * day);
        }
        write("young.seen", day / 2);
        fs::create_dir(at("folder.seen")).unwrap();
        // One that claims to be of the future makes nothing old.
        let future = File::options().write(true).open(at("young.seen")).unwrap();
        file.forget_older(day);
        let names = || {
            let names = fs::read_dir(scratch.0.join("state")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.filter(|name| !name.ends_with("-a.seen")).collect();
            names.sort_unstable();
            names
        };
        let kept = ["folder.seen", "lock", "notes.txt", "x.seen.txt", "y.tmp", "young.seen"];
        assert_eq!(names(), kept);
        assert_eq!(file.read(10).as_deref(), Some(&b"now"[..]));
        future.set_modified(SystemTime::now() + 100 * day).unwrap();
        write("recent.seen", day / 2);
        file.forget_older(day);
        assert!(names().contains(&"recent.seen".to_owned()));
        // Without a file of its own, nothing is known to be old.
        write("old.seen", 2 * day);
        scratch.file("b").forget_older(day);
        assert!(names().contains(&"old.seen".to_owned()));
    }

    #[test]
    fn nothing_is_removed_while_somebody_holds_the_lock() {
        let scratch = Scratch::new("held");
        let day = Duration::from_secs(24 * 60 * 60);
        let file = scratch.file("a");
        file.write(b"now").unwrap();
        let old = scratch.file("b");
        write_before(old.path(), &file, 2 * day);
        let lock = file.files.lock().unwrap();
        std::thread::scope(|scope| {
            let forgetting = scope.spawn(|| file.forget_older(day));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!forgetting.is_finished() && old.path().exists());
            // It is written again, and so it stays.
            old.write(b"new").unwrap();
            drop(lock);
            forgetting.join().unwrap();
        });
        assert_eq!(old.read(10).as_deref(), Some(&b"new"[..]));
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_no_file_is_refused() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("pipe");
        let file = scratch.file("a");
        file.write(b"x").unwrap();
        let path = scratch.0.join("state/lock");
        let refused = || {
            let error = file.update(10, |_| Some(b"y".to_vec())).unwrap_err().to_string();
            assert!(error.starts_with("cannot lock ") && error.ends_with("remove it"), "{error}");
            fs::remove_file(&path).unwrap();
        };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused();
        symlink(scratch.0.join("outside"), &path).unwrap();
        refused();
        assert!(!scratch.0.join("outside").exists());
        file.update(10, |_| Some(b"y".to_vec())).unwrap();
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
