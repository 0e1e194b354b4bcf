//! Small files, one for each session and set of folders.
//!
//! A file name holds only characters that cannot leave the folder. Files are replaced atomically. Updates hold a lock of the
//! whole folder, so that two processes do not lose each other's additions. A path that is not a regular file, such as a
//! pipe, could block forever, so it is rejected before it is opened.
//!
//! Staleness is decided by the clock of the file system alone: a file is stale if it was written long before the file that
//! was written just now. Finding stale files needs no lock, and mostly finds none; only removing them does.

use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::replace::replace_private_file_unsynced;
use crate::{FileLock, SessionError, SessionId, read_bounded};

const LOCK: &str = "lock";

/// The number of directory entries that a search for stale files looks at. Only a shared folder has more.
const MAX_SCANNED_ENTRIES: usize = 100_000;

/// The number of sessions that a store keeps: clients of a server choose their ids.
const MAX_SESSIONS: usize = 10_000;

/// A folder of session files that share an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStore {
    folder: PathBuf,
    extension: &'static str,
    max_files: usize,
}

impl SessionStore {
    /// Keeps files with this extension (written with its dot) in `folder`, which is created on the first write.
    pub fn in_folder(folder: impl Into<PathBuf>, extension: &'static str) -> Self {
        Self { folder: folder.into(), extension, max_files: MAX_SESSIONS }
    }

    /// Returns the file of a session and the folders it is about. A hash separates those, and sessions whose ids differ
    /// only in case; it comes first, so that no name is one that an operating system reserves.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if one of `folders` cannot be resolved.
    pub fn file(
        &self,
        session: &SessionId,
        folders: &[&Path],
    ) -> Result<SessionFile, SessionError> {
        let mut real_paths = Vec::new();
        for folder in folders {
            let failed = |error| SessionError::io("look into", folder, error);
            real_paths.push(folder.canonicalize().map_err(failed)?);
        }
        real_paths.sort_unstable();
        let mut hash = blake3::Hasher::new();
        hash.update(session.as_str().as_bytes());
        for path in real_paths {
            hash.update(b"\n").update(path.as_os_str().as_encoded_bytes());
        }
        let name = format!("{:.8}-{session}{}", hash.finalize().to_hex(), self.extension);
        Ok(SessionFile { path: self.folder.join(name), store: self.clone() })
    }

    /// Returns the files with this extension, complete or temporary, that were written more than `max_age` before `latest`,
    /// and their times. If there are too many others, returns the oldest of them, too, and a tenth more.
    fn stale_files(&self, latest: SystemTime, max_age: Duration) -> Vec<(SystemTime, PathBuf)> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let infix = format!("{}.", self.extension);
        let is_ours = |entry: &DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.ends_with(self.extension) || name.ends_with(".tmp") && name.contains(&infix)
        };
        let entries = entries.flatten().take(MAX_SCANNED_ENTRIES).filter(is_ours);
        let files = entries.filter_map(|entry| Some((written(&entry.path())?, entry.path())));
        let mut files: Vec<(SystemTime, PathBuf)> = files.collect();
        files.sort_unstable();
        let is_stale = |(written, _): &(SystemTime, PathBuf)| {
            latest.duration_since(*written).is_ok_and(|age| age > max_age)
        };
        let stale = files.partition_point(is_stale);
        let excess = match files.len() - stale > self.max_files {
            true => files.len() - self.max_files / 10 * 9,
            false => 0,
        };
        files.truncate(stale.max(excess));
        files
    }

    fn lock(&self) -> Result<FileLock, SessionError> {
        let path = self.folder.join(LOCK);
        FileLock::acquire(&path).map_err(|error| SessionError::io("lock", &path, error))
    }

    fn create_folder(&self) -> Result<(), SessionError> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| SessionError::io("write", &self.folder, error))
    }
}

/// Returns when a regular file, not a link, was written.
fn written(path: &Path) -> Option<SystemTime> {
    let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    metadata.and_then(|metadata| metadata.modified().ok())
}

/// The file of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    path: PathBuf,
    store: SessionStore,
}

impl SessionFile {
    /// Returns its path, whether or not it exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its content if it is a regular file of at most `max_bytes`. A link is not followed.
    pub fn read(&self, max_bytes: u64) -> Option<Vec<u8>> {
        fs::symlink_metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        read_bounded(File::open(&self.path).ok()?, max_bytes).ok().flatten()
    }

    /// Replaces its content atomically. A link in its place is replaced, not followed.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if it cannot be written; the file is then unchanged.
    pub fn write(&self, bytes: &[u8]) -> Result<(), SessionError> {
        self.store.create_folder()?;
        replace_private_file_unsynced(&self.path, bytes)
            .map_err(|error| SessionError::io("write", &self.path, error))
    }

    /// Replaces its content with the result of `change`, under a lock. `None` leaves the file unchanged.
    ///
    /// # Errors
    ///
    /// [`SessionError::Io`] if it cannot be written; the file is then unchanged.
    pub fn update(
        &self,
        max_bytes: u64,
        change: impl FnOnce(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<(), SessionError> {
        self.store.create_folder()?;
        let _lock = self.store.lock()?;
        match change(self.read(max_bytes)) {
            Some(bytes) => self.write(&bytes),
            None => Ok(()),
        }
    }

    /// Removes files of the same store that were written more than `max_age` before this one, and the oldest if there are
    /// more than 10,000. A file that cannot be removed does no harm and stays.
    pub fn remove_stale(&self, max_age: Duration) {
        let Some(latest) = written(&self.path) else { return };
        let stale = self.store.stale_files(latest, max_age);
        if stale.is_empty() {
            return;
        }
        let Ok(_lock) = self.store.lock() else { return };
        // Another process may have written one in the meantime.
        for (time, path) in stale {
            if path != self.path && written(&path) == Some(time) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder for one test, removed when it is dropped.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            let name = format!("pannier-files-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, session: &str) -> SessionFile {
            let store = SessionStore::in_folder(self.0.join("state"), ".seen");
            store.file(&SessionId::new(session).unwrap(), &[&self.0]).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn file_names_differ_by_session_and_folders() {
        let scratch = Scratch::new("names");
        let (one, other) = (scratch.0.join("one"), scratch.0.join("other"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&other).unwrap();
        let store = SessionStore::in_folder(&scratch.0, ".seen");
        let path = |session: &str, about: &[&Path]| {
            store.file(&SessionId::new(session).unwrap(), about).unwrap().path().to_owned()
        };
        let same = path("a", &[&one, &other]);
        assert_eq!(path("a", &[&other, &one.join("../one")]), same);
        for different in [path("A", &[&one, &other]), path("a", &[&one]), path("a", &[&other])] {
            assert_ne!(different, same);
        }
        let error = store.file(&SessionId::new("a").unwrap(), &[Path::new("/nowhere")]);
        assert!(matches!(error.unwrap_err(), SessionError::Io { .. }));
    }

    #[test]
    fn concurrent_updates_are_all_kept() {
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
    fn too_long_files_and_folders_read_as_missing() {
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

    /// Writes a file whose modification time is `age` before that of `latest`.
    fn write_before(path: &Path, latest: &SessionFile, age: Duration) {
        let latest = fs::metadata(latest.path()).unwrap().modified().unwrap();
        fs::write(path, "").unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(latest - age).unwrap();
    }

    #[test]
    fn stale_files_are_removed_and_others_kept() {
        let scratch = Scratch::new("old");
        let day = Duration::from_secs(24 * 60 * 60);
        let file = scratch.file("a");
        file.write(b"now").unwrap();
        let path = |name: &str| scratch.0.join("state").join(name);
        let write = |name: &str, age: Duration| write_before(&path(name), &file, age);
        for number in 0..600 {
            write(&format!("{number}.seen"), 2 * day);
        }
        write("half.seen.7-0.tmp", 2 * day);
        for kept in ["notes.txt", "x.seen.txt", "y.tmp"] {
            write(kept, 2 * day);
        }
        write("young.seen", day / 2);
        fs::create_dir(path("folder.seen")).unwrap();
        // A file from the future makes no other file stale.
        let future = File::options().write(true).open(path("young.seen")).unwrap();
        file.remove_stale(day);
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
        file.remove_stale(day);
        assert!(names().contains(&"recent.seen".to_owned()));
        // A session without a file of its own removes nothing.
        write("old.seen", 2 * day);
        scratch.file("b").remove_stale(day);
        assert!(names().contains(&"old.seen".to_owned()));
    }

    #[test]
    fn oldest_files_are_removed_if_there_are_too_many() {
        let scratch = Scratch::new("many");
        let mut file = scratch.file("a");
        file.store.max_files = 20;
        file.write(b"now").unwrap();
        let path = |number: u64| scratch.0.join(format!("state/{number}.seen"));
        let kept = || (1..=30).filter(|number| path(*number).exists()).collect::<Vec<u64>>();
        for seconds in 1..=19 {
            write_before(&path(seconds), &file, Duration::from_secs(seconds));
        }
        let day = Duration::from_secs(24 * 60 * 60);
        file.remove_stale(day);
        assert_eq!(kept().len(), 19, "20 are allowed");
        write_before(&path(20), &file, Duration::from_secs(20));
        file.remove_stale(day);
        assert_eq!(kept(), (1..=17).collect::<Vec<u64>>());
        assert!(file.read(10).is_some());
    }

    #[test]
    fn nothing_is_removed_while_the_lock_is_held() {
        let scratch = Scratch::new("held");
        let day = Duration::from_secs(24 * 60 * 60);
        let file = scratch.file("a");
        file.write(b"now").unwrap();
        let old = scratch.file("b");
        write_before(old.path(), &file, 2 * day);
        let lock = file.store.lock().unwrap();
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| file.remove_stale(day));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!removal.is_finished() && old.path().exists());
            // A file that is written again is not stale.
            old.write(b"new").unwrap();
            drop(lock);
            removal.join().unwrap();
        });
        assert_eq!(old.read(10).as_deref(), Some(&b"new"[..]));
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_not_a_regular_file_is_rejected() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("pipe");
        let file = scratch.file("a");
        file.write(b"x").unwrap();
        let path = scratch.0.join("state/lock");
        let assert_rejected = || {
            let error = file.update(10, |_| Some(b"y".to_vec())).unwrap_err().to_string();
            assert!(error.starts_with("cannot lock ") && error.ends_with("remove it"), "{error}");
            fs::remove_file(&path).unwrap();
        };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_rejected();
        symlink(scratch.0.join("outside"), &path).unwrap();
        assert_rejected();
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
