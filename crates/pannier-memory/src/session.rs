//! When a session was last given a packet.
//!
//! A hook may run at every turn, and a packet is not needed at every turn. What is remembered is the time, in a small file
//! for each session and context folder. Whatever is wrong with one merely means that a packet is given again. No clock is
//! read here: the caller says what time it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_core::Timestamp;
use pannier_files::{SessionFile, SessionId, SessionStore};

use crate::MemoryError;

/// How a file of this kind ends.
const ENDING: &str = ".cooldown";

/// Files that were not written for so long are removed.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// Longer files than this hold something else.
const LONGEST: u64 = 64;

/// Remembers in a folder when sessions were given packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooldowns {
    files: SessionStore,
}

impl Cooldowns {
    /// Keeps its files in this folder, which is made when it is needed.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { files: SessionStore::in_folder(folder, ENDING) }
    }

    /// Whether a session was given a packet of this context folder less than a cooldown ago. A file that is damaged, or
    /// from the future, says nothing.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Session`] if the context folder cannot be looked at.
    pub fn is_fresh(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
        cooldown: Duration,
    ) -> Result<bool, MemoryError> {
        let marked = read(&self.files.file(session, &[context])?);
        Ok(marked.is_some_and(|marked| marked <= now && now.since(marked) < cooldown))
    }

    /// Remembers that a session was given a packet of this context folder, and forgets what is more than a day old.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Session`] if the context folder cannot be looked at, or the file not be written.
    pub fn mark(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
    ) -> Result<(), MemoryError> {
        let file = self.files.file(session, &[context])?;
        file.write(format!("{now}\n").as_bytes())?;
        file.remove_stale(OLD);
        Ok(())
    }
}

/// The time that a file holds, if it holds one.
fn read(file: &SessionFile) -> Option<Timestamp> {
    let bytes = file.read(LONGEST)?;
    str::from_utf8(&bytes).ok()?.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test::Scratch;

    const MINUTES: Duration = Duration::from_secs(600);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn session(id: &str) -> SessionId {
        SessionId::new(id).unwrap()
    }

    #[test]
    fn a_session_is_fresh_until_its_cooldown_is_over() {
        let scratch = Scratch::new("cooldown");
        let cooldowns = Cooldowns::in_folder(scratch.path().join("state"));
        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&other).unwrap();
        let noon = at("2026-07-25T12:00:00Z");
        let is_fresh = |id: &str, context: &Path, now: &str| {
            cooldowns.is_fresh(&session(id), context, at(now), MINUTES).unwrap()
        };
        assert!(!is_fresh("a", &one, "2026-07-25T12:00:00Z"));
        cooldowns.mark(&session("a"), &one, noon).unwrap();
        assert!(is_fresh("a", &one, "2026-07-25T12:00:00Z"));
        assert!(is_fresh("a", &one.join("../one"), "2026-07-25T12:09:59Z"));
        assert!(!is_fresh("a", &one, "2026-07-25T12:10:00Z"));
        assert!(!is_fresh("a", &one, "2026-07-25T11:59:59Z"));
        assert!(!is_fresh("A", &one, "2026-07-25T12:00:01Z"));
        assert!(!is_fresh("a", &other, "2026-07-25T12:00:01Z"));
        assert!(!cooldowns.is_fresh(&session("a"), &one, noon, Duration::ZERO).unwrap());
        cooldowns.mark(&session("a"), &one, at("2026-07-25T12:30:00Z")).unwrap();
        assert!(is_fresh("a", &one, "2026-07-25T12:35:00Z"));
        let names = fs::read_dir(scratch.path().join("state")).unwrap().count();
        assert_eq!(names, 1, "what was written beside is gone");
        assert!(cooldowns.is_fresh(&session("a"), Path::new("/nowhere"), noon, MINUTES).is_err());
    }

    #[test]
    fn a_damaged_file_says_nothing_and_is_replaced() {
        let scratch = Scratch::new("damaged");
        let cooldowns = Cooldowns::in_folder(scratch.path());
        let noon = at("2026-07-25T12:00:00Z");
        let context = std::env::temp_dir();
        let is_fresh = || cooldowns.is_fresh(&session("a"), &context, noon, MINUTES).unwrap();
        let path = cooldowns.files.file(&session("a"), &[&context]).unwrap().path().to_owned();
        let long = format!("2026-07-25T12:00:00.{}Z\n", "0".repeat(100));
        for text in ["", "2026-07-25T12:00:00Z", "noon\n", &long, "2026-07-25T12:00:01Z\n"] {
            fs::write(&path, text).unwrap();
            assert!(!is_fresh(), "{text}");
        }
        fs::write(&path, b"\xff\xfe\n").unwrap();
        assert!(!is_fresh());
        cooldowns.mark(&session("a"), &context, noon).unwrap();
        assert!(is_fresh());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("cooldown-links");
        scratch.write("outside", "2026-07-25T12:00:00Z\n");
        let cooldowns = Cooldowns::in_folder(scratch.path().join("state"));
        fs::create_dir(scratch.path().join("state")).unwrap();
        let noon = at("2026-07-25T12:00:00Z");
        let path =
            cooldowns.files.file(&session("a"), &[scratch.path()]).unwrap().path().to_owned();
        symlink(scratch.path().join("outside"), &path).unwrap();
        assert!(!cooldowns.is_fresh(&session("a"), scratch.path(), noon, MINUTES).unwrap());
        let later = at("2026-07-25T13:00:00Z");
        cooldowns.mark(&session("a"), scratch.path(), later).unwrap();
        assert!(cooldowns.is_fresh(&session("a"), scratch.path(), later, MINUTES).unwrap());
        let outside = fs::read_to_string(scratch.path().join("outside")).unwrap();
        assert_eq!(outside, "2026-07-25T12:00:00Z\n");
    }

    #[test]
    fn old_files_are_forgotten_and_others_left_alone() {
        let scratch = Scratch::new("forget");
        let cooldowns = Cooldowns::in_folder(scratch.path());
        for name in ["0-old.cooldown", "0-old.cooldown.1.tmp", "notes.txt"] {
            scratch.write(name, "");
            let file = fs::File::options().write(true).open(scratch.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let context = std::env::temp_dir();
        // Whatever time somebody says it is, files are as old as they are.
        cooldowns.mark(&session("a"), &context, at("2199-01-01T00:00:00Z")).unwrap();
        cooldowns.mark(&session("b"), &context, at("2020-01-01T00:00:00Z")).unwrap();
        let names = scratch.names();
        assert_eq!(names.len(), 4, "a, b, the notes and the lock: {names:?}");
        assert!(names.iter().all(|name| !name.starts_with("0-old")), "{names:?}");
    }
}
