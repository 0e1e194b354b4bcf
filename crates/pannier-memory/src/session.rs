//! Records when a session last received a packet.
//!
//! A hook may run at every turn, but the model does not need a packet at every turn. A small file for each session and
//! context folder holds the time of the last one. If the file is damaged, the session receives another packet. The caller
//! passes the current time; this module reads no clock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_core::Timestamp;
use pannier_files::{SessionId, SessionStore};

use crate::MemoryError;

/// The extension of the files.
const EXTENSION: &str = ".cooldown";

/// Older files are removed.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum size of a valid file.
const MAX_FILE_BYTES: u64 = 64;

/// Records the times of packets in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooldowns {
    files: SessionStore,
}

impl Cooldowns {
    /// Stores the files in this folder. The first write creates it.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { files: SessionStore::in_folder(folder, EXTENSION) }
    }

    /// Returns whether the session received a packet of this context folder less than `cooldown` ago. Damaged files and
    /// times further in the future do not count.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Session`] if the context folder cannot be read.
    pub fn is_within_cooldown(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
        cooldown: Duration,
    ) -> Result<bool, MemoryError> {
        let recorded = parse(self.files.file(session, &[context])?.read(MAX_FILE_BYTES));
        Ok(recorded.is_some_and(|recorded| is_recent(recorded, now, cooldown)))
    }

    /// Records that the session receives a packet of this context folder, unless it received one less than `cooldown` ago.
    /// Returns whether it is recorded: of several calls at the same time, one is. Removes files older than a day.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Session`] if the context folder cannot be read or the file cannot be written.
    pub fn take(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
        cooldown: Duration,
    ) -> Result<bool, MemoryError> {
        let file = self.files.file(session, &[context])?;
        let mut is_taken = false;
        file.update(MAX_FILE_BYTES, |bytes| {
            let is_recent = parse(bytes).is_some_and(|recorded| is_recent(recorded, now, cooldown));
            is_taken = !is_recent;
            is_taken.then(|| format!("{now}\n").into_bytes())
        })?;
        file.remove_stale(MAX_AGE);
        Ok(is_taken)
    }
}

/// Returns the recorded time, if the content of a file is valid.
fn parse(bytes: Option<Vec<u8>>) -> Option<Timestamp> {
    str::from_utf8(&bytes?).ok()?.strip_suffix('\n')?.parse().ok()
}

/// Returns whether less than `cooldown` is between two times. Of calls at the same time, one that started later may record
/// first, so a time in the near future counts, too.
fn is_recent(recorded: Timestamp, now: Timestamp, cooldown: Duration) -> bool {
    let (earlier, later) = (recorded.min(now), recorded.max(now));
    later.since(earlier) < cooldown
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test::Scratch;

    const MINUTES: Duration = Duration::from_secs(600);

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn session(id: &str) -> SessionId {
        SessionId::new(id).unwrap()
    }

    #[test]
    fn cooldown_ends_after_its_duration() {
        let scratch = Scratch::new("cooldown");
        let cooldowns = Cooldowns::in_folder(scratch.path().join("state"));
        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&other).unwrap();
        let noon = time("2026-07-25T12:00:00Z");
        let is_within_cooldown = |id: &str, context: &Path, now: &str| {
            cooldowns.is_within_cooldown(&session(id), context, time(now), MINUTES).unwrap()
        };
        assert!(!is_within_cooldown("a", &one, "2026-07-25T12:00:00Z"));
        cooldowns.take(&session("a"), &one, noon, Duration::ZERO).unwrap();
        assert!(is_within_cooldown("a", &one, "2026-07-25T12:00:00Z"));
        assert!(is_within_cooldown("a", &one.join("../one"), "2026-07-25T12:09:59Z"));
        assert!(!is_within_cooldown("a", &one, "2026-07-25T12:10:00Z"));
        assert!(is_within_cooldown("a", &one, "2026-07-25T11:50:01Z"));
        assert!(!is_within_cooldown("a", &one, "2026-07-25T11:50:00Z"));
        assert!(!is_within_cooldown("A", &one, "2026-07-25T12:00:01Z"));
        assert!(!is_within_cooldown("a", &other, "2026-07-25T12:00:01Z"));
        assert!(!cooldowns.is_within_cooldown(&session("a"), &one, noon, Duration::ZERO).unwrap());
        cooldowns.take(&session("a"), &one, time("2026-07-25T12:30:00Z"), Duration::ZERO).unwrap();
        assert!(is_within_cooldown("a", &one, "2026-07-25T12:35:00Z"));
        let names = fs::read_dir(scratch.path().join("state")).unwrap().count();
        assert_eq!(names, 2, "no temporary file remains, but a lock");
        assert!(
            cooldowns
                .is_within_cooldown(&session("a"), Path::new("/nowhere"), noon, MINUTES)
                .is_err()
        );
    }

    #[test]
    fn one_of_many_calls_takes_the_cooldown() {
        let scratch = Scratch::new("parallel");
        let cooldowns = Cooldowns::in_folder(scratch.path().join("state"));
        let take = |now| cooldowns.take(&session("a"), scratch.path(), now, MINUTES).unwrap();
        // The order of their times is not that of their calls.
        let start = |call: u32| time(&format!("2026-07-25T12:00:{:02}Z", call * 7 % 24));
        let taken: usize = std::thread::scope(|scope| {
            let calls = (0..24).map(|call| scope.spawn(move || take(start(call))));
            let calls: Vec<_> = calls.collect();
            calls.into_iter().map(|call| usize::from(call.join().unwrap())).sum()
        });
        assert_eq!(taken, 1);
        assert!(!take(time("2026-07-25T12:09:59Z")) && take(time("2026-07-25T12:10:24Z")));
        #[cfg(unix)]
        for file in fs::read_dir(scratch.path().join("state")).unwrap() {
            use std::os::unix::fs::PermissionsExt;
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode();
            let is_private =
                mode & 0o077 == 0 || !file.file_name().to_string_lossy().ends_with(EXTENSION);
            assert!(is_private, "{mode:o}");
        }
    }

    #[test]
    fn damaged_files_do_not_count_and_are_replaced() {
        let scratch = Scratch::new("damaged");
        let cooldowns = Cooldowns::in_folder(scratch.path());
        let noon = time("2026-07-25T12:00:00Z");
        let context = std::env::temp_dir();
        let is_within_cooldown =
            || cooldowns.is_within_cooldown(&session("a"), &context, noon, MINUTES).unwrap();
        let path = cooldowns.files.file(&session("a"), &[&context]).unwrap().path().to_owned();
        let long = format!("2026-07-25T12:00:00.{}Z\n", "0".repeat(100));
        for text in ["", "2026-07-25T12:00:00Z", "noon\n", &long, "2026-07-25T12:10:00Z\n"] {
            fs::write(&path, text).unwrap();
            assert!(!is_within_cooldown(), "{text}");
        }
        fs::write(&path, b"\xff\xfe\n").unwrap();
        assert!(!is_within_cooldown());
        cooldowns.take(&session("a"), &context, noon, Duration::ZERO).unwrap();
        assert!(is_within_cooldown());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("cooldown-links");
        scratch.write("outside", "2026-07-25T12:00:00Z\n");
        let cooldowns = Cooldowns::in_folder(scratch.path().join("state"));
        fs::create_dir(scratch.path().join("state")).unwrap();
        let noon = time("2026-07-25T12:00:00Z");
        let path =
            cooldowns.files.file(&session("a"), &[scratch.path()]).unwrap().path().to_owned();
        symlink(scratch.path().join("outside"), &path).unwrap();
        assert!(
            !cooldowns.is_within_cooldown(&session("a"), scratch.path(), noon, MINUTES).unwrap()
        );
        let later = time("2026-07-25T13:00:00Z");
        cooldowns.take(&session("a"), scratch.path(), later, Duration::ZERO).unwrap();
        assert!(
            cooldowns.is_within_cooldown(&session("a"), scratch.path(), later, MINUTES).unwrap()
        );
        let outside = fs::read_to_string(scratch.path().join("outside")).unwrap();
        assert_eq!(outside, "2026-07-25T12:00:00Z\n");
    }

    #[test]
    fn stale_files_are_removed_and_other_files_kept() {
        let scratch = Scratch::new("forget");
        let cooldowns = Cooldowns::in_folder(scratch.path());
        for name in ["0-old.cooldown", "0-old.cooldown.1.tmp", "notes.txt"] {
            scratch.write(name, "");
            let file = fs::File::options().write(true).open(scratch.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let context = std::env::temp_dir();
        // The age of a file does not depend on the time passed in.
        cooldowns
            .take(&session("a"), &context, time("2199-01-01T00:00:00Z"), Duration::ZERO)
            .unwrap();
        cooldowns
            .take(&session("b"), &context, time("2020-01-01T00:00:00Z"), Duration::ZERO)
            .unwrap();
        let names = scratch.names();
        assert_eq!(names.len(), 4, "a, b, the notes and the lock: {names:?}");
        assert!(names.iter().all(|name| !name.starts_with("0-old")), "{names:?}");
    }
}
