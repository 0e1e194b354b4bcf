//! Builds a project's memory from the files of its context folder.
//!
//! This module does no I/O and never fails: any bytes yield a memory, and problems become warnings.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use pannier_files::AgentFileKind;
use serde::Serialize;

use crate::entry::{Draft, Entry, Section};
use crate::line_map::{Coverage, LineMap};
use crate::markdown::Outline;
use crate::source::{SourceFile, SourceFiles};
use crate::{dated_entries, list_entries, source};

/// The files of a context folder, in reading order.
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

/// The sections that have a subfolder of pages with more entries.
pub(crate) const PAGES: [Section; 2] = [Section::Decisions, Section::Learnings];

/// The default name of a context folder.
pub(crate) const FOLDER: &str = ".context";

/// The memory of a project: the entries of its context folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    entries: Vec<Entry>,
    read_order: Vec<String>,
    warnings: Vec<Warning>,
    coverage: Vec<Coverage>,
    unread: Vec<String>,
    version: String,
}

/// A problem in a file. The rest of the file is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// The path of the file below the project root, with forward slashes.
    pub path: String,
    /// The line, counted from 1, if the problem has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem and its consequence.
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

/// A problem in a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

impl Memory {
    /// The maximum size of a file. Parsing needs a multiple of it in memory.
    pub const MAX_FILE_BYTES: u64 = 8 << 20;

    /// Parses files given by their paths below the context folder, such as `TASKS.md` or `decisions/storage.md`. Other
    /// paths are ignored. The order of the files does not matter.
    ///
    /// ```
    /// use pannier_memory::{Memory, Section};
    ///
    /// let memory = Memory::from_files([("TASKS.md", "- [ ] Fix the roof #added:2026-07-25\n")]);
    /// let task = &memory.section(Section::Tasks)[0];
    /// assert_eq!((task.title(), task.line()), ("Fix the roof", 1));
    /// assert_eq!(memory.read_order(), [".context/TASKS.md"]);
    /// ```
    pub fn from_files<P, B>(files: impl IntoIterator<Item = (P, B)>) -> Self
    where
        P: Into<String>,
        B: AsRef<[u8]>,
    {
        let files = files.into_iter().map(|(path, bytes)| (path.into(), bytes));
        Self::from_folder(FOLDER, files, SourceFiles::default())
    }

    /// Parses the files of a folder with this name, and those outside of it. `others` also has the warnings of reading all
    /// of them, and the files that are too long.
    pub(crate) fn from_folder<B: AsRef<[u8]>>(
        folder: &str,
        files: impl IntoIterator<Item = (String, B)>,
        others: SourceFiles,
    ) -> Self {
        let mut files: Vec<(FileRole, String, B)> = files
            .into_iter()
            .filter_map(|(path, bytes)| {
                Some((FileRole::from_path(&path)?, format!("{folder}/{path}"), bytes))
            })
            .collect();
        files.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        files.dedup_by(|next, kept| next.1 == kept.1);
        let SourceFiles { files: others, warnings, unread } = others;
        let mut memory = Self { warnings, unread, ..Self::default() };
        let mut hash = blake3::Hasher::new();
        let mut update = |path: &str, bytes: &[u8]| {
            for part in [path.as_bytes(), bytes] {
                hash.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
        };
        for (role, path, bytes) in &files {
            update(path, bytes.as_ref());
            memory.add(*role, path, bytes.as_ref());
        }
        let mut contents: BTreeMap<&[u8], &str> = BTreeMap::new();
        for file in &others {
            update(&file.path, &file.bytes);
            let same_as = contents.get(file.bytes.as_slice()).copied();
            memory.add_source(file, same_as);
            contents.entry(&file.bytes).or_insert(&file.path);
        }
        memory.version = hash.finalize().to_hex().to_string();
        // Pages follow all main files, so entries are not yet sorted by section.
        memory.entries.sort_by_key(Entry::section);
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        for entry in &mut memory.entries {
            let number = ids.entry(entry.id().to_owned()).or_default();
            *number += 1;
            entry.number(*number);
        }
        ids.clear();
        for entry in &mut memory.entries {
            let number = ids.entry(entry.short_id().to_owned()).or_default();
            *number += 1;
            entry.number_short_id(*number);
        }
        memory
    }

    fn add(&mut self, role: FileRole, path: &str, bytes: &[u8]) {
        let mut problems = Vec::new();
        let outline = outline(&decode_lossy(bytes, &mut problems), &mut problems);
        let mut lines = LineMap::new(&outline);
        let drafts: Vec<Draft> = match role.section() {
            Some(Section::Constitution | Section::Conventions) => {
                list_entries::rules(&outline, &mut lines)
            }
            Some(Section::Tasks) => list_entries::tasks(&outline, &mut lines, &mut problems),
            Some(Section::Decisions | Section::Learnings) => {
                dated_entries::entries(&outline, &mut lines, &mut problems)
            }
            Some(Section::Instructions | Section::Skills) | None => Vec::new(),
        };
        self.coverage.push(lines.coverage(path, drafts.len(), role.section().is_none()));
        if let Some(section) = role.section() {
            self.entries.extend(drafts.into_iter().map(|draft| Entry::new(section, path, draft)));
        }
        if matches!(role, FileRole::File(_)) && outline.has_content {
            self.read_order.push(path.to_owned());
        }
        self.warn(path, problems);
    }

    /// Adds a file outside of the context folder.
    fn add_source(&mut self, file: &SourceFile, same_as: Option<&str>) {
        let mut problems = Vec::new();
        let text = decode_lossy(&file.bytes, &mut problems);
        let (front, text, front_lines) = source::blank_front_matter(&text);
        let outline = outline(&text, &mut problems);
        let mut lines = LineMap::new(&outline);
        let drafts = source::entries(file.kind, &file.path, front, &outline, &mut lines);
        let mut coverage = lines.coverage(&file.path, drafts.len(), false);
        coverage.lines += front_lines;
        coverage.headings += front_lines;
        coverage.same_as = same_as.map(str::to_owned);
        self.coverage.push(coverage);
        if same_as.is_none() {
            let section = match file.kind {
                AgentFileKind::Skill => Section::Skills,
                _ => Section::Instructions,
            };
            let entries = drafts.into_iter().map(|draft| Entry::new(section, &file.path, draft));
            self.entries.extend(entries);
            self.warn(&file.path, problems);
        }
    }

    fn warn(&mut self, path: &str, mut problems: Vec<Problem>) {
        problems.sort_by_key(|problem| problem.line);
        self.warnings.extend(problems.into_iter().map(|Problem { line, problem }| Warning {
            path: path.to_owned(),
            line: Some(line),
            problem,
        }));
    }

    /// Returns all entries: by section, then in file order, pages after the main file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entries of a section.
    pub fn section(&self, section: Section) -> &[Entry] {
        let start = self.entries.partition_point(|entry| entry.section() < section);
        let end = self.entries.partition_point(|entry| entry.section() <= section);
        &self.entries[start..end]
    }

    /// Returns the paths of the main files that have contents, in reading order. Untouched templates have none.
    pub fn read_order(&self) -> &[String] {
        &self.read_order
    }

    /// Returns the problems in the files.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns what was read of each file.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Returns the paths of files that are too long to be read.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Returns the entry with this id or short id.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id() == id || entry.short_id() == id)
    }

    /// Removes the entries of files outside of the context folder that a host shows its model itself.
    #[must_use]
    pub fn without_sources(mut self, is_known: impl Fn(&str) -> bool) -> Self {
        self.entries.retain(|entry| entry.source().is_none() || !is_known(entry.path()));
        self
    }

    /// Returns the BLAKE3 hash of the paths and bytes of all files, as 64 hexadecimal digits.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Parses the outline of a text, and reports blocks that are not closed and lines that nest too deep.
fn outline(text: &str, problems: &mut Vec<Problem>) -> Outline {
    let outline = Outline::new(text);
    let deep = "the line nests deeper than 100 levels, so its indentation is ignored";
    let deep = outline.deep_lines.iter().map(|line| (*line, deep));
    let unclosed = outline.unclosed.map(|unclosed| match unclosed.is_code {
        true => (unclosed.line, "the code block is not closed, so the rest of the file is code"),
        false => (unclosed.line, "the tag is not closed, so the rest of the file is one block"),
    });
    let comment = "the comment is not closed, so only the rest of its line is ignored";
    let comments = outline.open_comments.iter().map(|line| (*line, comment));
    // One that is not closed ends with the next comment.
    let late = "the comment contains the start of another, and hides the text before it; close it where it should end";
    let is_late = |comment: &&Range<usize>| {
        let text = outline.text().get(comment.start + 4..comment.end).unwrap_or_default();
        text.split_once("<!--").is_some_and(|(hidden, _)| hidden.contains('\n'))
    };
    let late = outline.comments().iter().filter(is_late).map(|at| (outline.line(at.start), late));
    let found = deep.chain(unclosed).chain(comments).chain(late);
    problems.extend(found.map(|(line, problem)| Problem { line, problem: problem.to_owned() }));
    outline
}

/// The role of a file in a context folder, in parsing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileRole {
    /// A position in [`FILES`].
    File(usize),
    Page(Section),
}

impl FileRole {
    fn from_path(path: &str) -> Option<Self> {
        let Some((folder, page)) = path.split_once('/') else {
            return FILES.iter().position(|(name, _)| *name == path).map(Self::File);
        };
        let section = PAGES.into_iter().find(|section| section.name() == folder)?;
        is_page(page).then_some(Self::Page(section))
    }

    fn section(self) -> Option<Section> {
        match self {
            Self::File(position) => FILES[position].1,
            Self::Page(section) => Some(section),
        }
    }
}

/// Returns whether `name` is that of a page: a Markdown file that is not hidden.
pub(crate) fn is_page(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with('.') && !name.contains(['/', '\\'])
}

/// Decodes a file. Replaces invalid UTF-8 and reports the first invalid byte.
fn decode_lossy(bytes: &[u8], problems: &mut Vec<Problem>) -> String {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return text.to_owned(),
        Err(error) => error,
    };
    let offset = error.valid_up_to();
    // Lines end with LF, CR or CRLF.
    let valid = String::from_utf8_lossy(&bytes[..offset]).replace("\r\n", "\n");
    let line = 1 + valid.matches(['\n', '\r']).count();
    let problem = format!("byte {offset} is not valid UTF-8; invalid bytes were replaced");
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
    fn entries_are_sorted_by_section_and_pages_follow_main_files() {
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
    fn read_order_skips_empty_templates() {
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
    fn ids_are_stable_and_unique() {
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
    fn problems_are_reported_as_warnings() {
        let memory = Memory::from_files([
            ("TASKS.md", b"- [ ] a\r\n- [ ] b\xff\xfe c\n".as_slice()),
            ("DECISIONS.md", b"## [2026-13-45] a\n```\n## [2026-07-25] b\n"),
            ("LEARNINGS.md", b"# A\n<!-- open\n## [2026-07-25] b\n"),
        ]);
        assert_eq!(memory.section(Section::Tasks)[1].text(), "b\u{fffd}\u{fffd} c");
        assert_eq!(
            warnings(&memory),
            [
                ".context/TASKS.md:2: byte 16 is not valid UTF-8; invalid bytes were replaced",
                ".context/DECISIONS.md:1: 2026-13-45 is not a valid date, so the entry counts as undated",
                ".context/DECISIONS.md:2: the code block is not closed, so the rest of the file is code",
                ".context/LEARNINGS.md:2: the comment is not closed, so only the rest of its line is ignored"
            ]
        );
    }

    #[test]
    fn line_endings_are_normalized() {
        let memory = Memory::from_files([
            ("TASKS.md", "\u{feff}- [ ] a\r\n  b\r\n  - c\r\n\r\n- [ ] d\r\n"),
            ("DECISIONS.md", "\u{feff}## [2026-07-25] a\rb\r\rc\r"),
        ]);
        assert_eq!(memory.entries()[0].text(), "a\nb\n- c");
        assert_eq!(memory.entries()[1].line(), 5);
        assert_eq!(memory.entries()[2].text(), "b\n\nc");
    }
}
