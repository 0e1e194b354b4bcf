//! When a session was last given a packet.
//!
//! A hook may run at every turn, and a packet is not needed at every turn. What is remembered is one small file for each
//! session and context folder, in a folder that the caller names. Its name holds only what cannot lead anywhere else, it
//! is written beside its place and then renamed, and whatever is wrong with one merely means that a packet is given again.
//! No clock is read here: the caller says what time it is.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_core::Timestamp;

use crate::MemoryError;

/// How a file of this kind ends.
const ENDING: &str = ".cooldown";

/// Files that were not touched for so long are removed, and so many are looked at each time.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);
const MOST_LOOKED_AT: usize = 256;

/// Longer files than this hold something else.
const LONGEST: u64 = 64;

/// The name that a host gives to a session.
///
/// ```
/// use pannier_memory::SessionId;
///
/// assert_eq!(SessionId::new("6d40ae08")?.as_str(), "6d40ae08");
/// assert!(SessionId::new("x/../../evil").is_err());
/// # Ok::<(), pannier_memory::MemoryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Takes 1 to 128 letters, digits, `.`, `_` and `-`, without `.` at the beginning.
    ///
    /// # Errors
    ///
    /// [`MemoryError::SessionId`] for anything else.
    pub fn new(id: &str) -> Result<Self, MemoryError> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_name =
            (1..=128).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_plain);
        match is_name {
            true => Ok(Self(id.to_owned())),
            false => Err(MemoryError::SessionId { id: id.chars().take(40).collect() }),
        }
    }

    /// The name that a host gave a session. One that cannot be a name of ours is known by its hash.
    pub fn of_host(id: &str) -> Self {
        Self::new(id).unwrap_or_else(|_| Self(blake3::hash(id.as_bytes()).to_hex().to_string()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Remembers in a folder when sessions were given packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooldowns {
    folder: PathBuf,
}

impl Cooldowns {
    /// Keeps its files in this folder, which is made when it is needed.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Whether a session was given a packet of this context folder less than a cooldown ago. A file that is damaged, or
    /// from the future, says nothing.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Io`] if the context folder cannot be looked at.
    pub fn is_fresh(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
        cooldown: Duration,
    ) -> Result<bool, MemoryError> {
        let marked = read(&self.file(session, context)?);
        Ok(marked.is_some_and(|marked| marked <= now && now.since(marked) < cooldown))
    }

    /// Remembers that a session was given a packet of this context folder, and forgets what is more than a day old.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Io`] if the context folder cannot be looked at, or the file not be written.
    pub fn mark(
        &self,
        session: &SessionId,
        context: &Path,
        now: Timestamp,
    ) -> Result<(), MemoryError> {
        let path = self.file(session, context)?;
        let failed = |error| MemoryError::io("write", &path, error);
        fs::create_dir_all(&self.folder)
            .map_err(|error| MemoryError::io("write", &self.folder, error))?;
        self.forget();
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        // What a process that was stopped left behind, or a link that somebody put there.
        let _ = fs::remove_file(&beside);
        let written = File::create_new(&beside)
            .and_then(|mut file| file.write_all(format!("{now}\n").as_bytes()))
            // A link in its place is replaced, not followed.
            .and_then(|()| fs::rename(&beside, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            failed(error)
        })
    }

    /// The file of a session and a context folder. The hash keeps folders apart, and sessions whose names differ only in
    /// the case of letters; it comes first, so that no name is one that a system reserves.
    fn file(&self, session: &SessionId, context: &Path) -> Result<PathBuf, MemoryError> {
        let failed = |error| MemoryError::io("look into", context, error);
        let context = context.canonicalize().map_err(failed)?;
        let mut hash = blake3::Hasher::new();
        hash.update(session.0.as_bytes()).update(b"\n");
        hash.update(context.as_os_str().as_encoded_bytes());
        let name = format!("{:.8}-{}{ENDING}", hash.finalize().to_hex(), session.0);
        Ok(self.folder.join(name))
    }

    /// Removes old files. One that cannot be removed does no harm.
    fn forget(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let entries: Vec<_> = entries.flatten().take(MOST_LOOKED_AT).collect();
        // Against the latest of them, not against a time that somebody made up.
        let times = entries.iter().filter_map(|entry| entry.metadata().ok()?.modified().ok());
        let Some(latest) = times.max() else { return };
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours = name.ends_with(ENDING)
                || name.ends_with(".tmp") && name.contains(&format!("{ENDING}."));
            // Of a link, this is about the link.
            let Ok(found) = entry.metadata() else { continue };
            let age = |time| latest.duration_since(time).unwrap_or_default();
            let is_old = || found.modified().is_ok_and(|time| age(time) > OLD);
            if is_ours && found.is_file() && is_old() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The time that a file holds, if it is a file and holds one.
fn read(path: &Path) -> Option<Timestamp> {
    // What is no file, such as a pipe, may never open.
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
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
    fn a_name_cannot_lead_anywhere() {
        for good in
            ["a", "6d40ae08-1b2c", "A.b_c-9", "..a".trim_start_matches('.'), &"x".repeat(128)]
        {
            assert!(SessionId::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "x/../../evil",
            "a b",
            "a\n",
            "a\0",
            "ä",
            "C:x",
            &"x".repeat(129),
        ] {
            let error = SessionId::new(bad).unwrap_err();
            assert!(error.to_string().contains("1 to 128"), "{error}");
        }
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
        let path = cooldowns.file(&session("a"), &context).unwrap();
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
        let path = cooldowns.file(&session("a"), scratch.path()).unwrap();
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
            let file = File::options().write(true).open(scratch.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let context = std::env::temp_dir();
        // Whatever time somebody says it is, files are as old as they are.
        cooldowns.mark(&session("a"), &context, at("2199-01-01T00:00:00Z")).unwrap();
        assert_eq!(scratch.names().len(), 4);
        cooldowns.mark(&session("b"), &context, at("2020-01-01T00:00:00Z")).unwrap();
        let names = scratch.names();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.iter().all(|name| !name.starts_with("0-old")), "{names:?}");
    }
}
