//! Finds and reads the context folder of a project: usually `.context` at its root.
//!
//! The search goes up from any path below the root. It does not rely on version control, which a project may not have.

use std::fs;
use std::path::{Path, PathBuf};

use pannier_files::{AgentFileKind, find_agent_files};

use crate::MemoryError;
use crate::file::{Refusal, read, resolve_contained};
use crate::memory::{FILES, FOLDER, Memory, PAGES, Warning, is_page};
use crate::source::{SourceFiles, Sources, UserFolder};

const TOO_LONG: &str =
    "it has more than 8 MiB, so it is not read; move old entries to another file";

/// A context folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    root: PathBuf,
    is_confined: bool,
}

impl Folder {
    /// Finds the context folder for a path. The first match wins:
    ///
    /// 1. the path itself, if its name is `.context`;
    /// 2. `.context` in it;
    /// 3. the path itself, if it contains a file of entries such as `TASKS.md`;
    /// 4. `.context` in the nearest ancestor.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoFolder`] if there is none, [`MemoryError::Io`] if the path cannot be read.
    pub fn find(start: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let start = start.as_ref();
        let failed = |error| MemoryError::io("read", start, error);
        let start = start.canonicalize().map_err(failed)?;
        let is_named = start.file_name().is_some_and(|name| name == FOLDER) && start.is_dir();
        let has_entries = || {
            // Any project may have a glossary or an architecture document at its root.
            let mut names = FILES.iter().filter(|(_, section)| section.is_some());
            names.any(|(name, _)| start.join(name).is_file())
        };
        if is_named {
            let root = start.parent().unwrap_or(&start).to_owned();
            return Ok(Self { path: start, root, is_confined: false });
        }
        // A folder with another name is its own root: its siblings may belong to other projects.
        if !start.join(FOLDER).is_dir() && has_entries() {
            return Ok(Self { path: start.clone(), root: start, is_confined: false });
        }
        let root = start.ancestors().find(|ancestor| ancestor.join(FOLDER).is_dir());
        let root = root.ok_or_else(|| MemoryError::NoFolder { start: start.clone() })?;
        Ok(Self { path: root.join(FOLDER), root: root.to_owned(), is_confined: false })
    }

    /// Finds the context folder for a path, as [`find`](Self::find). Without one, takes the path if it has files that
    /// instruct agents, or else the nearest folder above it with instructions such as `AGENTS.md`. The context folder of
    /// such a project is missing, which counts as empty. The search for instructions ends at a folder with `.git`.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn find_project(start: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let missing = match Self::find(start) {
            Err(MemoryError::NoFolder { start }) => start,
            found => return found,
        };
        for root in missing.ancestors() {
            // The skills of a home folder are for all projects in it.
            let max =
                if root == missing { AgentFileKind::Skill } else { AgentFileKind::Instructions };
            if has_agent_files(root, max) {
                let (path, root) = (root.join(FOLDER), root.to_owned());
                return Ok(Self { path, root, is_confined: false });
            }
            if root.join(".git").exists() {
                break;
            }
        }
        Err(MemoryError::NoFolder { start: missing })
    }

    /// Leaves out all files outside of the folder, even if a caller asks for them.
    #[must_use]
    pub fn confined(mut self) -> Self {
        self.is_confined = true;
        self
    }

    /// Returns whether there is still something to read.
    pub fn is_present(&self) -> bool {
        self.path.is_dir() || has_agent_files(&self.root, AgentFileKind::Skill)
    }

    /// Returns the path of the folder. It may be [missing](Self::find_project).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the root of the project: the parent of a folder named `.context`, or else the folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads all files of the folder. Missing files count as empty; [`Memory::warnings`] lists problems, and
    /// [`Memory::unread`] files that cannot be read or have more than 8 MiB.
    ///
    /// # Errors
    ///
    /// None yet: a file that cannot be read costs that file, not the packet.
    pub fn read(&self) -> Result<Memory, MemoryError> {
        self.read_with(Sources::Folder, None)
    }

    /// Reads all files of the folder, as [`read`](Self::read), and those outside of it that instruct agents. `user` is the
    /// folder of [`Sources::User`].
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_with(
        &self,
        sources: Sources,
        user: Option<&UserFolder>,
    ) -> Result<Memory, MemoryError> {
        let user = user.filter(|_| sources == Sources::User);
        let mut others = match sources {
            _ if self.is_confined => SourceFiles::default(),
            Sources::Folder => SourceFiles::default(),
            Sources::Project | Sources::User => SourceFiles::read(&self.root, user),
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let (mut files, mut warnings) = (Vec::new(), Vec::new());
        let mut paths: Vec<String> = FILES.iter().map(|(file, _)| (*file).to_owned()).collect();
        let mut warn = |path: &str, problem: &str| {
            let (path, problem) = (format!("{name}/{path}"), problem.to_owned());
            warnings.push(Warning { path, line: None, problem });
        };
        let mut unread = Vec::new();
        for section in PAGES {
            let folder = section.name();
            match self.pages(folder) {
                Ok(Ok(names)) => {
                    paths.extend(names.into_iter().map(|page| format!("{folder}/{page}")));
                }
                Ok(Err(refusal)) => warn(folder, refusal),
                Err(error) => {
                    warn(folder, &unreadable(&error));
                    unread.push(format!("{name}/{folder}"));
                }
            }
        }
        for path in paths {
            match read(&self.root, &self.path.join(&path), Memory::MAX_FILE_BYTES) {
                Ok(Ok(bytes)) => files.extend(bytes.map(|bytes| (path, bytes))),
                failed => {
                    let problem = match failed {
                        Ok(Err(refusal)) => refusal.to_owned(),
                        Err(MemoryError::TooLong { .. }) => TOO_LONG.to_owned(),
                        Err(error) => unreadable(&error),
                        Ok(Ok(_)) => continue,
                    };
                    warn(&path, &problem);
                    unread.push(format!("{name}/{path}"));
                }
            }
        }
        warnings.append(&mut others.warnings);
        unread.append(&mut others.unread);
        Ok(Memory::from_folder(&name, files, SourceFiles { warnings, unread, ..others }))
    }

    /// Returns the sorted paths of Markdown files and of folders in the context folder that are not read because of their
    /// names, as far as it can be listed. Hidden ones do not count.
    pub fn ignored(&self) -> Vec<String> {
        let is_markdown = |name: &str| name.ends_with(".md") || name.ends_with(".markdown");
        let is_folder = |name: &str| PAGES.iter().any(|section| section.name() == name);
        let mut ignored = Vec::new();
        for folder in [None, Some(PAGES[0].name()), Some(PAGES[1].name())] {
            let path = self.path.join(folder.unwrap_or_default());
            for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let is_read = match folder {
                    None => is_folder(&name) || FILES.iter().any(|(file, _)| *file == name),
                    Some(_) => is_page(&name),
                };
                let is_dir = entry.path().is_dir();
                if !is_read && !name.starts_with('.') && (is_dir || is_markdown(&name)) {
                    let end = if is_dir { "/" } else { "" };
                    let path = Path::new(FOLDER).join(folder.unwrap_or_default()).join(name);
                    ignored.push(path.to_string_lossy().into_owned() + end);
                }
            }
        }
        ignored.sort_unstable();
        ignored
    }

    /// Returns the sorted names of the pages in a subfolder.
    fn pages(&self, folder: &str) -> Result<Result<Vec<String>, Refusal>, MemoryError> {
        let path = self.path.join(folder);
        let failed = |error| MemoryError::io("read", &path, error);
        match resolve_contained(&self.root, &path)? {
            Ok(None) => return Ok(Ok(Vec::new())),
            Ok(Some(target)) if target.is_dir() => {}
            Ok(Some(_)) => return Ok(Err("it is not a folder, so it is not read")),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            // Names that are not UTF-8 are skipped: entries could not show their path.
            let name = entry.map_err(failed)?.file_name().into_string();
            names.extend(name.ok().filter(|name| is_page(name)));
        }
        // Warnings appear in this order.
        names.sort_unstable();
        Ok(Ok(names))
    }
}

/// Returns the problem of a file that cannot be read, without its path.
pub(crate) fn unreadable(error: &MemoryError) -> String {
    match error {
        MemoryError::Io { error, .. } => format!("it cannot be read: {error}"),
        error => error.to_string(),
    }
}

/// Returns whether a folder has files that instruct agents, of kinds up to `max`.
fn has_agent_files(root: &Path, max: AgentFileKind) -> bool {
    find_agent_files(root).is_ok_and(|found| found.files.iter().any(|file| file.kind <= max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Section;
    use crate::test::Scratch;

    #[test]
    fn find_searches_the_path_and_its_ancestors() {
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
        // Without the name `.context`, the folder is its own root.
        assert_eq!(find("b/named").unwrap().root(), root.join("b/named"));
        let error = find("b").unwrap_err();
        assert!(matches!(error, MemoryError::NoFolder { .. }), "{error}");
        assert!(error.to_string().contains("there is no .context folder"));
        assert!(matches!(find("c").unwrap_err(), MemoryError::Io { .. }));
        // A glossary alone is not enough.
        scratch.write("d/GLOSSARY.md", "");
        assert!(find("d").is_err());
    }

    #[test]
    fn missing_files_count_as_empty() {
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
    fn files_above_the_size_limit_are_not_read() {
        let scratch = Scratch::new("long");
        let max_bytes = Memory::MAX_FILE_BYTES as usize;
        scratch.write(".context/TASKS.md", "- [ ] t\n");
        scratch.write(".context/GLOSSARY.md", &"x".repeat(max_bytes));
        let folder = Folder::find(scratch.path()).unwrap();
        assert_eq!(folder.read().unwrap().read_order().len(), 2);
        scratch.write(".context/GLOSSARY.md", &"x".repeat(max_bytes + 1));
        let memory = folder.read().unwrap();
        assert_eq!((memory.entries().len(), memory.read_order().len()), (1, 1));
        assert_eq!(memory.unread(), [".context/GLOSSARY.md"]);
        assert_eq!(memory.warnings()[0].to_string(), format!(".context/GLOSSARY.md: {TOO_LONG}"));
    }

    #[cfg(unix)]
    #[test]
    fn links_outside_the_project_and_pipes_are_not_read() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("links");
        let path = |path: &str| scratch.path().join(path);
        scratch.write("secret/TASKS.md", "- [ ] secret\n");
        scratch.write("project/shared/rules.md", "- shared\n");
        scratch.write("project/.context/CONVENTIONS.md/x", "");
        symlink(path("secret/TASKS.md"), path("project/.context/TASKS.md")).unwrap();
        symlink("../shared/rules.md", path("project/.context/CONSTITUTION.md")).unwrap();
        symlink("nowhere", path("project/.context/GLOSSARY.md")).unwrap();
        symlink(path("secret"), path("project/.context/decisions")).unwrap();
        scratch.write("project/.context/learnings", "a file");
        let pipe = path("project/.context/LEARNINGS.md");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());

        scratch.write("project/.context/ARCHITECTURE.md", "U\0T\0F\0");

        let memory = Folder::find(path("project")).unwrap().read().unwrap();
        assert_eq!(memory.entries().len(), 1);
        // A packet names what it could not read.
        for name in ["TASKS", "CONVENTIONS", "LEARNINGS", "GLOSSARY", "ARCHITECTURE"] {
            assert!(memory.unread().contains(&format!(".context/{name}.md")), "{name}");
        }
        assert_eq!(memory.section(Section::Constitution)[0].text(), "shared");
        let mut warnings: Vec<String> = memory.warnings().iter().map(ToString::to_string).collect();
        warnings.sort_unstable();
        assert_eq!(
            warnings,
            [
                ".context/ARCHITECTURE.md: it is binary or UTF-16, so it is not read; save it as UTF-8",
                ".context/CONVENTIONS.md: it is not a file, so it is not read",
                ".context/GLOSSARY.md: it is a dangling link, so it is not read",
                ".context/LEARNINGS.md: it is not a file, so it is not read",
                ".context/TASKS.md: it is a link to a target outside the project, so it is not read",
                ".context/decisions: it is a link to a target outside the project, so it is not read",
                ".context/learnings: it is not a folder, so it is not read",
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_read_costs_only_that_file() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("unreadable");
        scratch.write(".context/TASKS.md", "- [ ] t\n");
        scratch.write("AGENTS.md", "Row east.\n");
        symlink("CONSTITUTION.md", scratch.path().join(".context/CONSTITUTION.md")).unwrap();
        symlink("decisions", scratch.path().join(".context/decisions")).unwrap();
        symlink("skills", scratch.path().join("skills")).unwrap();
        let folder = Folder::find(scratch.path()).unwrap();
        let memory = folder.read_with(Sources::Project, None).unwrap();
        let titles: Vec<&str> = memory.entries().iter().map(|entry| entry.title()).collect();
        assert_eq!(titles, ["t", "AGENTS.md"]);
        let unread = [".context/decisions", ".context/CONSTITUTION.md", "skills"];
        assert_eq!(memory.unread(), unread);
        for (warning, path) in memory.warnings().iter().zip(unread) {
            let start = format!("{path}: it cannot be read: ");
            assert!(warning.to_string().starts_with(&start), "{warning}");
        }
    }

    #[test]
    fn files_and_folders_with_other_names_are_listed_as_ignored() {
        let scratch = Scratch::new("ignored");
        for path in [
            "TASKS.md",
            "NOTES.md",
            "LEARNINGS.markdown",
            "templates/a.md",
            "decisions/a.md",
            "decisions/b.markdown",
            "learnings/deep/a.md",
            ".hidden.md",
            "notes.txt",
        ] {
            scratch.write(&format!(".context/{path}"), "- a\n");
        }
        let ignored = Folder::find(scratch.path()).unwrap().ignored();
        let expected = [
            "LEARNINGS.markdown",
            "NOTES.md",
            "decisions/b.markdown",
            "learnings/deep/",
            "templates/",
        ];
        assert_eq!(ignored, expected.map(|path| format!(".context/{path}")));
    }
}
