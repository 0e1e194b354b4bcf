//! Atomic replacement of a file.
//!
//! The new content goes to a temporary file in the same folder, which is then renamed over the target. Readers see the old
//! or the new content, never a mixture, and a failed write leaves the target as it was. A symbolic link at the target or at
//! the temporary path is replaced, not followed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces the file at `path` with `bytes`, synced to disk.
///
/// # Errors
///
/// The error of the operating system; the file is then unchanged.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file_with(path, |file| file.write_all(bytes))
}

/// Replaces the file at `path` with everything that `write` writes, synced to disk.
///
/// # Errors
///
/// The error of `write` or of the operating system; the file is then unchanged.
pub fn replace_file_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    replace_file_through(&temporary_path(path), path, write)
}

/// Replaces the file at `path` through a temporary file of a known name, so that a caller can remove what an interrupted
/// process left behind.
///
/// # Errors
///
/// As [`replace_file_with`].
pub fn replace_file_through(
    temporary: &Path,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    replace(|| File::create_new(temporary), temporary, path, write, File::sync_all)
}

/// Replaces a file that only the user can read, without waiting for the disk: after a power failure it may be empty or old.
///
/// # Errors
///
/// The error of the operating system; the file is then unchanged.
pub fn replace_private_file_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let open = || options.open(&temporary);
    replace(open, &temporary, path, |file| file.write_all(bytes), |_| Ok(()))
}

fn replace(
    open: impl FnOnce() -> io::Result<File>,
    temporary: &Path,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    // An interrupted process may have left one, or somebody may have put a link there.
    let _ = fs::remove_file(temporary);
    let mut file = BufWriter::new(open()?);
    let replaced = write(&mut file)
        .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|file| sync(&file))
        .and_then(|()| fs::rename(temporary, path));
    replaced.inspect_err(|_| _ = fs::remove_file(temporary))
}

/// Returns a path next to `path` that no other process and no other thread uses.
fn temporary_path(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);

    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}-{number}.tmp", std::process::id()));
    temporary.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_store::tests::Scratch;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_failed_write_keeps_the_old_content_and_leaves_no_temporary_file() {
        let scratch = Scratch::new("replace");
        let path = scratch.0.join("file");
        replace_file(&path, b"old").unwrap();
        let failed = replace_file_with(&path, |file| {
            file.write_all(b"new")?;
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::create_dir(scratch.0.join("folder")).unwrap();
        assert!(replace_file(&scratch.0.join("folder"), b"x").is_err());
        assert_eq!(names(&scratch.0), ["file", "folder"]);
    }

    #[test]
    fn a_stale_temporary_file_is_replaced() {
        let scratch = Scratch::new("stale");
        let (temporary, path) = (scratch.0.join("next"), scratch.0.join("file"));
        fs::write(&temporary, "half").unwrap();
        replace_file_through(&temporary, &path, |file| file.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(&scratch.0), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_replaced_not_followed() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("replace-links");
        let [outside, path, temporary] =
            ["outside", "file", "next"].map(|name| scratch.0.join(name));
        fs::write(&outside, "x").unwrap();
        symlink(&outside, &path).unwrap();
        symlink(&outside, &temporary).unwrap();
        replace_file_through(&temporary, &path, |file| file.write_all(b"y")).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"x");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
