//! What a project remembers, from the files of its context folder.
//!
//! Nothing in here touches the disk or fails: whatever the bytes of the files, something is made of them, and what could
//! not be made is told in a warning.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::entry::{Draft, Entry, Section};
use crate::markdown::Outline;
use crate::{dated_entries, list_entries};

/// The files that are looked for, in the order in which they should be read.
pub(crate) const FILES: [(&str, Option<Section>); 8] = [
    ("CONSTITUTION.md", Some(Section::Constitution)),
    ("TASKS.md", Some(Section::Tasks)),
    ("CONVENTIONS.md", Some(Section::Conventions)),
    ("ARCHITECTURE.md", None),
    ("DECISIONS.md", Some(Section::Decisions)),
    ("LEARNINGS.md", Some(Section::Learnings)),
    ("GLOSSARY.md", None),
    ("AGENT_PLAYBOOK.md", None),
];

/// The folders of pages that hold more entries.
pub(crate) const PAGES: [Section; 2] = [Section::Decisions, Section::Learnings];

/// The usual name of the folder.
pub(crate) const FOLDER: &str = ".context";

/// What a project remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    entries: Vec<Entry>,
    read_order: Vec<String>,
    warnings: Vec<Warning>,
    version: String,
}

/// Something in a file that could not be used as it is. The rest was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// The file: a path below the root of the project, with forward slashes.
    pub path: String,
    /// The line, from 1, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What could not be used, and what was done about it.
    pub problem: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.problem),
            None => write!(f, "{}: {}", self.path, self.problem),
        }
    }
}

/// What is wrong with a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

impl Memory {
    /// What these files say, each with its path below the context folder, such as `TASKS.md` or `decisions/storage.md`.
    /// Other files are ignored, and so is the order in which they come.
    ///
    /// ```
    /// use pannier_memory::{Memory, Section};
    ///
    /// let memory = Memory::from_files([("TASKS.md", "- [ ] Mend the roof #added:2026-07-25\n")]);
    /// let task = &memory.section(Section::Tasks)[0];
    /// assert_eq!((task.title(), task.line()), ("Mend the roof", 1));
    /// assert_eq!(memory.read_order(), [".context/TASKS.md"]);
    /// ```
    pub fn from_files<P, B>(files: impl IntoIterator<Item = (P, B)>) -> Self
    where
        P: Into<String>,
        B: AsRef<[u8]>,
    {
        let files = files.into_iter().map(|(path, bytes)| (path.into(), bytes));
        Self::from_folder(FOLDER, files, Vec::new())
    }

    /// As [`Memory::from_files`], of a folder with this name, and with what was found to be wrong before.
    pub(crate) fn from_folder<B: AsRef<[u8]>>(
        folder: &str,
        files: impl IntoIterator<Item = (String, B)>,
        warnings: Vec<Warning>,
    ) -> Self {
        let mut files: Vec<(FileRole, String, B)> = files
            .into_iter()
            .filter_map(|(path, bytes)| {
                Some((FileRole::of(&path)?, format!("{folder}/{path}"), bytes))
            })
            .collect();
        files.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        files.dedup_by(|next, kept| next.1 == kept.1);
        let mut memory = Self { warnings, ..Self::default() };
        let mut hash = blake3::Hasher::new();
        for (place, path, bytes) in &files {
            for part in [path.as_bytes(), bytes.as_ref()] {
                hash.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
            memory.add(*place, path, bytes.as_ref());
        }
        memory.version = hash.finalize().to_hex().to_string();
        // Pages come behind the files, of which there are more sections.
        memory.entries.sort_by_key(Entry::section);
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        for entry in &mut memory.entries {
            let number = ids.entry(entry.id().to_owned()).or_default();
            *number += 1;
            entry.number(*number);
        }
        memory
    }

    fn add(&mut self, place: FileRole, path: &str, bytes: &[u8]) {
        let mut problems = Vec::new();
        let outline = Outline::new(&decode_lossy(bytes, &mut problems));
        let deep = "nests deeper than a hundred lists, so its indentation is ignored";
        let deep = outline.deep_lines.iter().map(|line| (*line, deep));
        let unclosed = outline.unclosed.map(|unclosed| match unclosed.is_code {
            true => (unclosed.line, "the code block is never closed, so all that follows is code"),
            false => {
                (unclosed.line, "the comment or tag is never closed, so nothing after it is read")
            }
        });
        let said = deep.chain(unclosed);
        problems.extend(said.map(|(line, problem)| Problem { line, problem: problem.to_owned() }));
        let drafts: Vec<Draft> = match place.section() {
            Some(Section::Constitution | Section::Conventions) => list_entries::rules(&outline),
            Some(Section::Tasks) => list_entries::tasks(&outline, &mut problems),
            Some(Section::Decisions | Section::Learnings) => {
                dated_entries::entries(&outline, &mut problems)
            }
            None => Vec::new(),
        };
        if let Some(section) = place.section() {
            self.entries.extend(drafts.into_iter().map(|draft| Entry::new(section, path, draft)));
        }
        if matches!(place, FileRole::File(_)) && outline.has_content {
            self.read_order.push(path.to_owned());
        }
        problems.sort_by_key(|problem| problem.line);
        self.warnings.extend(problems.into_iter().map(|Problem { line, problem }| Warning {
            path: path.to_owned(),
            line: Some(line),
            problem,
        }));
    }

    /// All entries: by section, and in each in the order of the files, pages after the main file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries of a section.
    pub fn section(&self, section: Section) -> &[Entry] {
        let start = self.entries.partition_point(|entry| entry.section() < section);
        let end = self.entries.partition_point(|entry| entry.section() <= section);
        &self.entries[start..end]
    }

    /// The files that a reader should go through, in order: those that hold more than a template does.
    pub fn read_order(&self) -> &[String] {
        &self.read_order
    }

    /// What could not be used.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// A hash of the paths and the bytes of all files: 64 hexadecimal digits. Where it is the same, all entries are.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Where a file stands among those of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileRole {
    File(usize),
    Page(Section),
}

impl FileRole {
    fn of(path: &str) -> Option<Self> {
        let Some((folder, page)) = path.split_once('/') else {
            return FILES.iter().position(|(name, _)| *name == path).map(Self::File);
        };
        let section = PAGES.into_iter().find(|section| section.name() == folder)?;
        is_page(page).then_some(Self::Page(section))
    }

    fn section(self) -> Option<Section> {
        match self {
            Self::File(place) => FILES[place].1,
            Self::Page(section) => Some(section),
        }
    }
}

/// Whether a file of this name is a page: a Markdown file that is not hidden.
pub(crate) fn is_page(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with('.') && !name.contains(['/', '\\'])
}

/// The text of a file. Bytes that are no text are replaced, and told.
fn decode_lossy(bytes: &[u8], problems: &mut Vec<Problem>) -> String {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return text.to_owned(),
        Err(error) => error,
    };
    let at = error.valid_up_to();
    // A line ends with a line feed, a carriage return, or both in this order.
    let before = String::from_utf8_lossy(&bytes[..at]).replace("\r\n", "\n");
    let line = 1 + before.matches(['\n', '\r']).count();
    let problem = format!("byte {at} is not UTF-8; what is not was replaced");
    problems.push(Problem { line, problem });
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(memory: &Memory) -> Vec<String> {
        memory.warnings().iter().map(Warning::to_string).collect()
    }

    #[test]
    fn files_come_in_their_order_and_pages_after_them() {
        let dated = |title: &str| format!("## [2026-07-25] {title}\nbody\n");
        let memory = Memory::from_files([
            ("learnings/b.md", dated("lb")),
            ("learnings/B.md", dated("lB")),
            ("decisions/a.md", dated("da")),
            ("decisions/sub/x.md", dated("no")),
            ("decisions/.x.md", dated("no")),
            ("decisions/x.txt", dated("no")),
            ("other/a.md", dated("no")),
            ("NOTES.md", dated("no")),
            ("LEARNINGS.md", dated("l")),
            ("GLOSSARY.md", "Oar: a blade.\n".to_owned()),
            ("DECISIONS.md", dated("d")),
            ("CONVENTIONS.md", "- c\n".to_owned()),
            ("TASKS.md", "- [ ] t\n".to_owned()),
            ("CONSTITUTION.md", "- r\n".to_owned()),
        ]);
        let titles: Vec<&str> = memory.entries().iter().map(Entry::title).collect();
        assert_eq!(titles, ["r", "t", "c", "d", "da", "l", "lB", "lb"]);
        assert_eq!(memory.section(Section::Learnings).len(), 3);
        assert_eq!(memory.section(Section::Learnings)[1].path(), ".context/learnings/B.md");
        assert_eq!(
            memory.read_order(),
            [
                ".context/CONSTITUTION.md",
                ".context/TASKS.md",
                ".context/CONVENTIONS.md",
                ".context/DECISIONS.md",
                ".context/LEARNINGS.md",
                ".context/GLOSSARY.md"
            ]
        );
        assert_eq!(warnings(&memory), Vec::<String>::new());
    }

    #[test]
    fn empty_templates_are_not_to_be_read() {
        let is_read =
            |text: &str| !Memory::from_files([("GLOSSARY.md", text)]).read_order().is_empty();
        for empty in [
            "",
            "\u{feff}# Glossary\r\n",
            "# Glossary\n\n<!--\nwords\n\n- words\n-->\n\n## `Terms` <!-- x -->\n\nSet\n===\n",
            "# A\n<!-- INDEX:START -->\n| Date | Title |\n|---|---|\n| a | b |\n<!-- INDEX:END -->\n",
            "- \n\n---\n\n<!-- a --> <!-- b -->\n",
        ] {
            assert!(!is_read(empty), "{empty}");
        }
        for full in [
            "word",
            "# A\n\n- b\n",
            "```\n```\n",
            "<!-- a --> b\n",
            "<details>\n",
            "a <b>\n",
            "<!-- INDEX:START -->\n|a|\n<!-- INDEX:END -->\nb\n",
            "<!-- INDEX:START -->\nb\n",
        ] {
            assert!(is_read(full), "{full}");
        }
    }

    #[test]
    fn the_version_changes_with_every_file() {
        let version =
            |files: &[(&str, &str)]| Memory::from_files(files.to_vec()).version().to_owned();
        let one = version(&[("TASKS.md", "a"), ("GLOSSARY.md", "b")]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, version(&[("GLOSSARY.md", "b"), ("TASKS.md", "a"), ("NOTES.md", "x")]));
        assert_ne!(one, version(&[("TASKS.md", "a"), ("GLOSSARY.md", "c")]));
        assert_ne!(one, version(&[("TASKS.md", "a")]));
        assert_ne!(version(&[("TASKS.md", "")]), version(&[]));
    }

    #[test]
    fn ids_stay_when_others_come_and_are_never_the_same() {
        let ids = |text: &str| -> Vec<String> {
            let memory = Memory::from_files([("TASKS.md", text)]);
            memory.entries().iter().map(|entry| entry.id().to_owned()).collect()
        };
        let one = ids("- [ ] a #x\n");
        assert_eq!(ids("- [ ] z\n- [ ] a #y\n  more\n")[1], one[0]);
        let same = ids("- [ ] a\n- [ ] a\n- [ ] a\n");
        assert_eq!(same, [one[0].clone(), format!("{}-2", one[0]), format!("{}-3", one[0])]);
    }

    #[test]
    fn what_could_not_be_used_is_told() {
        let memory = Memory::from_files([
            ("TASKS.md", b"- [ ] a\r\n- [ ] b\xff\xfe c\n".as_slice()),
            ("DECISIONS.md", b"## [2026-13-45] a\n```\n## [2026-07-25] b\n"),
            ("LEARNINGS.md", b"# A\n<!-- open\n## [2026-07-25] b\n"),
        ]);
        assert_eq!(memory.section(Section::Tasks)[1].text(), "b\u{fffd}\u{fffd} c");
        assert_eq!(
            warnings(&memory),
            [
                ".context/TASKS.md:2: byte 16 is not UTF-8; what is not was replaced",
                ".context/DECISIONS.md:1: there is no day 2026-13-45, so the entry counts as undated",
                ".context/DECISIONS.md:2: the code block is never closed, so all that follows is code",
                ".context/LEARNINGS.md:2: the comment or tag is never closed, so nothing after it is read"
            ]
        );
    }

    #[test]
    fn line_breaks_of_all_kinds_are_even() {
        let memory = Memory::from_files([
            ("TASKS.md", "\u{feff}- [ ] a\r\n  b\r\n  - c\r\n\r\n- [ ] d\r\n"),
            ("DECISIONS.md", "\u{feff}## [2026-07-25] a\rb\r\rc\r"),
        ]);
        assert_eq!(memory.entries()[0].text(), "a\nb\n- c");
        assert_eq!(memory.entries()[1].line(), 5);
        assert_eq!(memory.entries()[2].text(), "b\n\nc");
    }
}
