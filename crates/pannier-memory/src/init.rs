//! Creates a context folder from templates.
//!
//! A comment in each file explains its contents and format; comments are never parsed as entries. The folder is written
//! under a temporary name and renamed when complete, so it never exists in part.

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

/// Creates a context folder at the root of a project and returns the paths of its files.
///
/// # Errors
///
/// [`MemoryError::Exists`] if the path exists, [`MemoryError::Io`] if it cannot be written. Nothing changes in either
/// case.
pub fn init(root: &Path) -> Result<Vec<PathBuf>, MemoryError> {
    let folder = root.join(FOLDER);
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(MemoryError::Exists { path: folder });
    }
    if !root.is_dir() {
        let error = std::io::ErrorKind::NotFound.into();
        return Err(MemoryError::io("create a folder in", root, error));
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
    fn templates_parse_without_warnings() {
        let scratch = Scratch::new("init");
        let written = init(scratch.path()).unwrap();
        assert_eq!(written.len(), FILES.len());
        assert!(written.iter().all(|path| path.is_file()));
        assert_eq!(scratch.names(), [FOLDER], "no temporary folder remains");
        let memory = Folder::find(scratch.path()).unwrap().read().unwrap();
        assert_eq!(memory.warnings(), []);
        let counts = Section::ALL.map(|section| memory.section(section).len());
        assert_eq!(counts, [2, 0, 2, 0, 0, 0, 0]);
        assert_eq!(memory.read_order(), [".context/CONSTITUTION.md", ".context/CONVENTIONS.md"]);
    }

    #[test]
    fn examples_in_template_comments_parse_as_entries() {
        for (name, text) in FILES {
            let example = text.replace("<!--", "").replace("-->", "");
            let memory = crate::Memory::from_files([(name, example)]);
            assert!(!memory.entries().is_empty(), "{name}");
            assert_eq!(memory.warnings(), [], "{name}");
        }
    }

    #[test]
    fn existing_folders_are_not_overwritten() {
        let scratch = Scratch::new("init-twice");
        scratch.write(".context/TASKS.md", "- [ ] mine\n");
        let error = init(scratch.path()).unwrap_err();
        assert!(matches!(error, MemoryError::Exists { .. }), "{error}");
        assert_eq!(scratch.names(), [FOLDER]);
        let count = fs::read_dir(scratch.path().join(FOLDER)).unwrap().count();
        assert_eq!(count, 1);
        assert!(matches!(init(&scratch.path().join("none")).unwrap_err(), MemoryError::Io { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn existing_links_are_not_overwritten() {
        let scratch = Scratch::new("init-link");
        std::os::unix::fs::symlink("nowhere", scratch.path().join(FOLDER)).unwrap();
        assert!(matches!(init(scratch.path()).unwrap_err(), MemoryError::Exists { .. }));
    }
}
