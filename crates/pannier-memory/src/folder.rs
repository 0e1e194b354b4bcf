//! Where a project keeps what it remembers.
//!
//! Usually in a folder `.context` at its root. It is found from anywhere below, without asking a version control system,
//! which a project may not have.

use std::fs;
use std::path::{Path, PathBuf};

use crate::MemoryError;
use crate::file::{Reading, Within, read, within};
use crate::memory::{FILES, FOLDER, Memory, PAGES, Warning, is_page};

/// Longer files are not read. Parsing takes many times their size, and nobody reads so much either.
const LONGEST: u64 = 8 << 20;

/// A context folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    root: PathBuf,
}

impl Folder {
    /// Finds the context folder of whatever this path is in.
    ///
    /// That is the path itself if it is called `.context`; or else `.context` in it; or else the path itself if it holds
    /// a file of entries, such as `TASKS.md`; or else `.context` in the nearest folder above.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoFolder`] if there is none, [`MemoryError::Io`] if the path cannot be looked at.
    pub fn find(start: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let start = start.as_ref();
        let failed = |error| MemoryError::io("look into", start, error);
        let start = start.canonicalize().map_err(failed)?;
        let is_named = start.file_name().is_some_and(|name| name == FOLDER) && start.is_dir();
        let is_filled = || {
            // A glossary or an architecture may well stand at the root of a project.
            let mut names = FILES.iter().filter(|(_, section)| section.is_some());
            names.any(|(name, _)| start.join(name).is_file())
        };
        if is_named {
            let root = start.parent().unwrap_or(&start).to_owned();
            return Ok(Self { path: start, root });
        }
        // Nothing says that what lies beside it is of the same project.
        if !start.join(FOLDER).is_dir() && is_filled() {
            return Ok(Self { path: start.clone(), root: start });
        }
        let root = start.ancestors().find(|above| above.join(FOLDER).is_dir());
        let root = root.ok_or_else(|| MemoryError::NoFolder { start: start.clone() })?;
        Ok(Self { path: root.join(FOLDER), root: root.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root of the project: the folder that it is in; or itself, if it is not called `.context`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads all of its files. Those that are missing are as if they were empty; what cannot be used is told by
    /// [`Memory::warnings`].
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLong`] for a file of more than 8 MiB, [`MemoryError::Io`] if one cannot be read.
    pub fn read(&self) -> Result<Memory, MemoryError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let (mut files, mut warnings) = (Vec::new(), Vec::new());
        let mut paths: Vec<String> = FILES.iter().map(|(file, _)| (*file).to_owned()).collect();
        let mut warn = |path: &str, problem: &str| {
            let (path, problem) = (format!("{name}/{path}"), problem.to_owned());
            warnings.push(Warning { path, line: None, problem });
        };
        for section in PAGES {
            let folder = section.name();
            match self.pages(folder)? {
                Pages::Names(names) => {
                    paths.extend(names.into_iter().map(|page| format!("{folder}/{page}")));
                }
                Pages::Refused(problem) => warn(folder, problem),
            }
        }
        for path in paths {
            match read(&self.root, &self.path.join(&path), LONGEST)? {
                Reading::Missing => {}
                Reading::Refused(problem) => warn(&path, problem),
                Reading::Bytes(bytes) => files.push((path, bytes)),
            }
        }
        Ok(Memory::gather(&name, files, warnings))
    }

    /// The names of the pages in a folder below, in order.
    fn pages(&self, folder: &str) -> Result<Pages, MemoryError> {
        let path = self.path.join(folder);
        let failed = |error| MemoryError::io("look into", &path, error);
        match within(&self.root, &path)? {
            Within::Missing => return Ok(Pages::Names(Vec::new())),
            Within::Refused(problem) => return Ok(Pages::Refused(problem)),
            Within::At(found) if !found.is_dir() => {
                return Ok(Pages::Refused("it is not a folder, so it is not looked into"));
            }
            Within::At(_) => {}
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            // A name that is not UTF-8 is none that an entry could be found by.
            let name = entry.map_err(failed)?.file_name().into_string();
            names.extend(name.ok().filter(|name| is_page(name)));
        }
        // Warnings come in this order too.
        names.sort_unstable();
        Ok(Pages::Names(names))
    }
}

enum Pages {
    Names(Vec<String>),
    Refused(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Section;
    use crate::test::Scratch;

    #[test]
    fn the_folder_is_found_from_anywhere_below() {
        let scratch = Scratch::new("find");
        let root = scratch.path().canonicalize().unwrap();
        scratch.write("a/.context/TASKS.md", "- [ ] t\n");
        scratch.write("a/src/deep/x.rs", "");
        scratch.write("a/ARCHITECTURE.md", "words\n");
        scratch.write("a/TASKS.md", "not this one\n");
        scratch.write("b/named/DECISIONS.md", "");
        let find = |path: &str| Folder::find(scratch.path().join(path));
        for start in ["a", "a/.context", "a/src/deep", "a/src/deep/x.rs", "a/src/../src"] {
            let folder = find(start).unwrap();
            assert_eq!(folder.path(), root.join("a/.context"), "{start}");
            assert_eq!(folder.root(), root.join("a"), "{start}");
        }
        // What it is in may be anything.
        assert_eq!(find("b/named").unwrap().root(), root.join("b/named"));
        let error = find("b").unwrap_err();
        assert!(matches!(error, MemoryError::NoFolder { .. }), "{error}");
        assert!(error.to_string().contains("there is no .context folder"));
        assert!(matches!(find("c").unwrap_err(), MemoryError::Io { .. }));
        // A glossary alone does not make a context folder.
        scratch.write("d/GLOSSARY.md", "");
        assert!(find("d").is_err());
    }

    #[test]
    fn what_is_missing_is_empty() {
        let scratch = Scratch::new("missing");
        scratch.write(".context/TASKS.md", "- [ ] t\n");
        scratch.write(".context/learnings/b.md", "## [2026-07-25] b\n");
        scratch.write(".context/learnings/a.md", "## [2026-07-25] a\n");
        scratch.write(".context/learnings/a.txt", "## [2026-07-25] no\n");
        scratch.write(".context/learnings/below/c.md", "## [2026-07-25] no\n");
        let memory = Folder::find(scratch.path()).unwrap().read().unwrap();
        assert_eq!(memory.warnings(), []);
        let titles: Vec<&str> = memory.entries().iter().map(|entry| entry.title()).collect();
        assert_eq!(titles, ["t", "a", "b"]);
        assert_eq!(memory.entries()[1].path(), ".context/learnings/a.md");
        let files = [
            ("TASKS.md", "- [ ] t\n"),
            ("learnings/a.md", "## [2026-07-25] a\n"),
            ("learnings/b.md", "## [2026-07-25] b\n"),
        ];
        assert_eq!(memory, Memory::from_files(files));
    }

    #[test]
    fn a_file_may_only_be_so_long() {
        let scratch = Scratch::new("long");
        let most = LONGEST as usize;
        scratch.write(".context/GLOSSARY.md", &"x".repeat(most));
        let folder = Folder::find(scratch.path()).unwrap();
        assert_eq!(folder.read().unwrap().read_order().len(), 1);
        scratch.write(".context/GLOSSARY.md", &"x".repeat(most + 1));
        let error = folder.read().unwrap_err();
        assert!(matches!(error, MemoryError::TooLong { most: LONGEST, .. }), "{error}");
        assert!(error.to_string().contains("GLOSSARY.md"));
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_project_and_pipes_are_not_read() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("links");
        let at = |path: &str| scratch.path().join(path);
        scratch.write("secret/TASKS.md", "- [ ] secret\n");
        scratch.write("project/shared/rules.md", "- shared\n");
        scratch.write("project/.context/CONVENTIONS.md/x", "");
        symlink(at("secret/TASKS.md"), at("project/.context/TASKS.md")).unwrap();
        symlink("../shared/rules.md", at("project/.context/CONSTITUTION.md")).unwrap();
        symlink("nowhere", at("project/.context/GLOSSARY.md")).unwrap();
        symlink(at("secret"), at("project/.context/decisions")).unwrap();
        scratch.write("project/.context/learnings", "a file");
        let pipe = at("project/.context/LEARNINGS.md");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());

        let memory = Folder::find(at("project")).unwrap().read().unwrap();
        assert_eq!(memory.entries().len(), 1);
        assert_eq!(memory.section(Section::Constitution)[0].text(), "shared");
        let mut warned: Vec<String> = memory.warnings().iter().map(ToString::to_string).collect();
        warned.sort_unstable();
        assert_eq!(
            warned,
            [
                ".context/CONVENTIONS.md: it is not a file, so it is not read",
                ".context/GLOSSARY.md: it is a link that leads nowhere, so it is not read",
                ".context/LEARNINGS.md: it is not a file, so it is not read",
                ".context/TASKS.md: it is a link that leads out of the project, so it is not read",
                ".context/decisions: it is a link that leads out of the project, so it is not read",
                ".context/learnings: it is not a folder, so it is not looked into",
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("unreadable");
        scratch.write(".context/TASKS.md", "");
        symlink("CONSTITUTION.md", scratch.path().join(".context/CONSTITUTION.md")).unwrap();
        let error = Folder::find(scratch.path()).unwrap().read().unwrap_err();
        assert!(matches!(error, MemoryError::Io { .. }), "{error}");
    }
}
