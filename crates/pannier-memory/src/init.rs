//! A context folder to begin with.
//!
//! Each file says in a comment what goes into it, and in which form; comments are never taken for entries. The folder is
//! written under another name and renamed when it is complete, so that there is all of it or none.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::MemoryError;
use crate::memory::FOLDER;

const FILES: [(&str, &str); 5] = [
    ("CONSTITUTION.md", include_str!("starter/CONSTITUTION.md")),
    ("TASKS.md", include_str!("starter/TASKS.md")),
    ("CONVENTIONS.md", include_str!("starter/CONVENTIONS.md")),
    ("DECISIONS.md", include_str!("starter/DECISIONS.md")),
    ("LEARNINGS.md", include_str!("starter/LEARNINGS.md")),
];

/// Makes a context folder at the root of a project, and tells which files were written.
///
/// # Errors
///
/// [`MemoryError::Exists`] if there is something of its name, [`MemoryError::Io`] if it cannot be written. Either way,
/// nothing is changed.
pub fn init(root: &Path) -> Result<Vec<PathBuf>, MemoryError> {
    let folder = root.join(FOLDER);
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(MemoryError::Exists { path: folder });
    }
    if !root.is_dir() {
        let error = std::io::ErrorKind::NotFound.into();
        return Err(MemoryError::io("make a folder in", root, error));
    }
    let draft = root.join(format!("{FOLDER}.{}.tmp", std::process::id()));
    fs::create_dir(&draft).map_err(|error| MemoryError::io("write", &draft, error))?;
    let written = write(&draft).and_then(|()| {
        fs::rename(&draft, &folder).map_err(|error| MemoryError::io("write", &folder, error))
    });
    written.inspect_err(|_| {
        let _ = fs::remove_dir_all(&draft);
    })?;
    Ok(FILES.iter().map(|(name, _)| folder.join(name)).collect())
}

fn write(draft: &Path) -> Result<(), MemoryError> {
    for (name, text) in FILES {
        let path = draft.join(name);
        let written = File::create_new(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| MemoryError::io("write", &path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Scratch;
    use crate::{Folder, Section};

    #[test]
    fn the_starter_is_read_without_warnings() {
        let scratch = Scratch::new("init");
        let written = init(scratch.path()).unwrap();
        assert_eq!(written.len(), FILES.len());
        assert!(written.iter().all(|path| path.is_file()));
        assert_eq!(scratch.names(), [FOLDER], "nothing else is left");
        let memory = Folder::find(scratch.path()).unwrap().read().unwrap();
        assert_eq!(memory.warnings(), []);
        let counts = Section::ALL.map(|section| memory.section(section).len());
        assert_eq!(counts, [2, 0, 2, 0, 0]);
        assert_eq!(memory.read_order(), [".context/CONSTITUTION.md", ".context/CONVENTIONS.md"]);
    }

    #[test]
    fn the_forms_that_the_starter_shows_are_the_right_ones() {
        for (name, text) in FILES {
            let shown = text.replace("<!--", "").replace("-->", "");
            let memory = crate::Memory::from_files([(name, shown)]);
            assert!(!memory.entries().is_empty(), "{name}");
            assert_eq!(memory.warnings(), [], "{name}");
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let scratch = Scratch::new("init-twice");
        scratch.write(".context/TASKS.md", "- [ ] mine\n");
        let error = init(scratch.path()).unwrap_err();
        assert!(matches!(error, MemoryError::Exists { .. }), "{error}");
        assert_eq!(scratch.names(), [FOLDER]);
        let kept = fs::read_dir(scratch.path().join(FOLDER)).unwrap().count();
        assert_eq!(kept, 1);
        assert!(matches!(init(&scratch.path().join("none")).unwrap_err(), MemoryError::Io { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_stays() {
        let scratch = Scratch::new("init-link");
        std::os::unix::fs::symlink("nowhere", scratch.path().join(FOLDER)).unwrap();
        assert!(matches!(init(scratch.path()).unwrap_err(), MemoryError::Exists { .. }));
    }
}
