//! Exclusive locks between processes.
//!
//! A lock is a file that is never removed, because a lock on a deleted file excludes nobody. The operating system releases it
//! when its process ends, even after a crash.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

/// A lock is held for the time that one small file takes to write. After this many retries, its holder must be suspended.
const MAX_LOCK_RETRIES: usize = 5_000;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(2);

/// An exclusive lock on a file, released when it is dropped.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks the file at `path`, which is created if it is missing, or returns `None` if another process holds the lock.
    ///
    /// # Errors
    ///
    /// The error of the operating system, and an error if `path` is a link, a pipe or a folder: a pipe would block forever.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks the file at `path`, which is created if it is missing, and waits up to ten seconds for another process.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and an error if another process keeps the lock.
    pub fn acquire(path: &Path) -> io::Result<Self> {
        for _ in 0..MAX_LOCK_RETRIES {
            match Self::try_acquire(path)? {
                Some(lock) => return Ok(lock),
                None => std::thread::sleep(LOCK_RETRY_DELAY),
            }
        }
        Err(io::Error::other("another program keeps it; end that, and try again"))
    }

    /// Locks the file at `path`, which is created if it is missing, and waits for another process as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Returns the locked file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    /// Unlocks the file. Closing it is not enough: a process that another thread starts at this moment has a copy of the
    /// descriptor until it executes its program, and would hold the lock that long.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it is not a file; remove it"));
    }
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_store::tests::Scratch;

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let scratch = Scratch::new("lock");
        let path = scratch.0.join("lock");
        let lock = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
        assert!(FileLock::try_acquire(&scratch.0).is_err());
    }
}
