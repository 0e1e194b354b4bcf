//! Adds an entry to a context folder.
//!
//! The file is read, changed and replaced at once under a lock, so that no entry of several programs is lost and readers
//! never see a part of it. Before it is written, the new text is parsed: the entry must be read as it was meant, and all
//! others as before.

use std::fs;
use std::path::Path;

use pannier_core::Timestamp;
use pannier_files::{FileLock, replace_file};

use crate::file::{read, resolve_contained};
use crate::markdown::{Heading, Outline};
use crate::memory::FILES;
use crate::render::bullet;
use crate::source::SourceFiles;
use crate::{Entry, Folder, Memory, MemoryError, Section};

impl Folder {
    /// Adds a task, convention, decision or learning, and returns it. The first line of a decision or learning is its title,
    /// or else its first sentence. `locks` is a folder for files that exclude other programs.
    ///
    /// Tasks and conventions follow the last one, or precede a section of completed ones. Decisions and learnings are at the end of their file, or at the beginning
    /// if the newest is first.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotAdded`] if the entry could not be read back, [`MemoryError::Io`] if the file cannot be written.
    pub fn add(
        &self,
        section: Section,
        text: &str,
        now: Timestamp,
        locks: &Path,
    ) -> Result<Entry, MemoryError> {
        let not_added = |problem: &str| MemoryError::NotAdded { problem: problem.to_owned() };
        let name = FILES.iter().find(|(_, other)| *other == Some(section)).map(|(name, _)| *name);
        let name = name.filter(|_| section != Section::Constitution);
        let name = name
            .ok_or_else(|| not_added("only tasks, conventions, decisions and learnings can be"))?;
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim();
        if text.is_empty() {
            return Err(not_added("it has no text"));
        }
        let path = self.path().join(name);
        let target = resolve_contained(self.root(), &path)?.map_err(not_added)?;
        let target = target.unwrap_or_else(|| path.clone());
        let hash = blake3::hash(target.as_os_str().as_encoded_bytes()).to_hex();
        let lock = locks.join(format!("{hash:.16}.lock"));
        let failed = |error| MemoryError::io("lock", &lock, error);
        fs::create_dir_all(locks).map_err(failed)?;
        let _lock = FileLock::acquire(&lock).map_err(failed)?;

        let bytes = read(self.root(), &path, Memory::MAX_FILE_BYTES)?.map_err(not_added)?;
        let heading =
            format!("# {}{}\n", &name[..1], name[1..].trim_end_matches(".md").to_lowercase());
        let old = String::from_utf8(bytes.unwrap_or_else(|| heading.into_bytes()));
        let old = old.map_err(|_| not_added("the file is not UTF-8"))?;
        let folder = self.path().file_name().unwrap_or_default().to_string_lossy();
        let memory = |text: &str| {
            let file = (name.to_owned(), text.to_owned());
            Memory::from_folder(&folder, [file], SourceFiles::default())
        };
        let before = memory(&old);
        let line = insertion_line(&old, before.section(section), section);
        let new = insert(&old, line, &markdown(section, text, now), section);
        let after = memory(&new);
        let mut added = after.section(section).iter().filter(|entry| {
            before
                .section(section)
                .iter()
                .all(|other| (other.id(), other.text()) != (entry.id(), entry.text()))
        });
        let entry = match (added.next(), added.next()) {
            (Some(entry), None)
                if after.section(section).len() == before.section(section).len() + 1 =>
            {
                entry
            }
            _ => {
                let problem =
                    "it would not be read as one entry; check its text and the end of the file";
                return Err(not_added(problem));
            }
        };
        replace_file(&target, new.as_bytes())
            .map_err(|error| MemoryError::io("write", &target, error))?;
        // Another file may have an entry with the same id, which numbers it.
        let all = self.read()?;
        let is_added =
            |other: &&Entry| (other.path(), other.line()) == (entry.path(), entry.line());
        Ok(all.entries().iter().find(is_added).unwrap_or(entry).clone())
    }
}

/// Returns how many lines precede the new entry.
fn insertion_line(text: &str, entries: &[Entry], section: Section) -> usize {
    let all = text.lines().count();
    if !section.is_dated() {
        let last = entries.iter().filter(|entry| entry.is_specified()).map(Entry::end_line).max();
        return last.or_else(|| done_section(text)).unwrap_or(all);
    }
    match entries {
        [first, .., last] if first.date() > last.date() => first.line() - 1,
        _ => all,
    }
}

/// Returns how many lines precede the first heading of completed tasks.
fn done_section(text: &str) -> Option<usize> {
    let outline = Outline::new(text);
    let is_done = |heading: &&Heading| {
        let title = outline.text()[heading.range.clone()].to_lowercase();
        ["done", "complete", "finished", "archive", "closed"]
            .iter()
            .any(|word| title.contains(word))
    };
    let heading = outline.headings.iter().find(is_done)?;
    Some(outline.line(heading.range.start) - 1)
}

/// Inserts an entry after `line` lines, with the line endings of the text.
fn insert(text: &str, line: usize, entry: &str, section: Section) -> String {
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let (above, below): (Vec<&str>, Vec<&str>) = {
        let mut lines = text.lines();
        (lines.by_ref().take(line).collect(), lines.collect())
    };
    let is_list = !section.is_dated();
    // A list goes on without a blank line.
    let is_joined = |last: &str| {
        last.trim().is_empty() || is_list && last.starts_with(['-', '*', '+', ' ', '\t'])
    };
    let is_separate = above.last().is_some_and(|last| !is_joined(last));
    let mut lines = above;
    lines.extend(is_separate.then_some(""));
    lines.extend(entry.lines());
    let is_next = |line: &&str| !line.is_empty() && (!is_list || line.starts_with('#'));
    lines.extend(below.first().copied().filter(is_next).map(|_| ""));
    lines.extend(below);
    lines.join(ending) + ending
}

/// Renders an entry as its file has it.
fn markdown(section: Section, text: &str, now: Timestamp) -> String {
    let now = now.to_string();
    let time = now.get(11..19).unwrap_or_default().replace(':', "");
    let stamp = format!("{}-{time}", &now[..10]);
    let (title, body) = title_and_body(text);
    let labeled = |label: &str| match body {
        "" => String::new(),
        body if body.starts_with("**") => format!("\n{body}\n"),
        body => format!("\n**{label}**: {body}\n"),
    };
    match section {
        Section::Tasks if text.contains("#added:") => bullet("- [ ] ", text),
        Section::Tasks => {
            let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
            bullet("- [ ] ", &format!("{} #added:{stamp}\n{rest}", first.trim_end()))
        }
        Section::Decisions => {
            format!("## [{stamp}] {title}\n\n**Status**: Accepted\n{}", labeled("Decision"))
        }
        Section::Learnings => format!("## [{stamp}] {title}\n{}", labeled("Lesson")),
        _ => bullet("- ", text),
    }
}

/// Splits a text after its first line, or else after its first sentence.
fn title_and_body(text: &str) -> (&str, &str) {
    let (title, body) =
        text.split_once('\n').or_else(|| text.split_once(". ")).unwrap_or((text, ""));
    (title.trim_end().trim_end_matches('.'), body.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Scratch;

    fn now() -> Timestamp {
        "2026-11-16T09:30:00Z".parse().unwrap()
    }

    fn folder(scratch: &Scratch) -> Folder {
        fs::create_dir_all(scratch.path().join(".context")).unwrap();
        Folder::find(scratch.path()).unwrap()
    }

    fn add(scratch: &Scratch, section: Section, text: &str) -> Result<Entry, MemoryError> {
        folder(scratch).add(section, text, now(), &scratch.path().join("locks"))
    }

    fn file(scratch: &Scratch, name: &str) -> String {
        fs::read_to_string(scratch.path().join(".context").join(name)).unwrap()
    }

    #[test]
    fn entries_have_the_form_of_their_file() {
        let scratch = Scratch::new("add");
        let entry = add(&scratch, Section::Decisions, "Row east. The wind is better.").unwrap();
        assert_eq!((entry.title(), entry.line()), ("Row east", 3));
        assert!(entry.is_specified() && entry.path() == ".context/DECISIONS.md");
        add(&scratch, Section::Decisions, "Sail\n**Context**: Wind.\n\n**Decision**: Sail.")
            .unwrap();
        assert_eq!(
            file(&scratch, "DECISIONS.md"),
            "# Decisions\n\n## [2026-11-16-093000] Row east\n\n**Status**: Accepted\n\n**Decision**: The wind is better.\n\n\
             ## [2026-11-16-093000] Sail\n\n**Status**: Accepted\n\n**Context**: Wind.\n\n**Decision**: Sail.\n"
        );
        add(&scratch, Section::Learnings, "Oars float").unwrap();
        assert_eq!(
            file(&scratch, "LEARNINGS.md"),
            "# Learnings\n\n## [2026-11-16-093000] Oars float\n"
        );
        add(&scratch, Section::Conventions, "Knots first\nthen sails").unwrap();
        assert_eq!(
            file(&scratch, "CONVENTIONS.md"),
            "# Conventions\n\n- Knots first\n  then sails\n"
        );
        let task = add(&scratch, Section::Tasks, "Paint #priority:high").unwrap();
        assert_eq!(task.title(), "Paint");
        add(&scratch, Section::Tasks, "Caulk\nby Monday").unwrap();
        assert_eq!(
            file(&scratch, "TASKS.md"),
            "# Tasks\n\n- [ ] Paint #priority:high #added:2026-11-16-093000\n- [ ] Caulk #added:2026-11-16-093000\n  by Monday\n"
        );
    }

    #[test]
    fn entries_follow_the_order_of_their_file() {
        let scratch = Scratch::new("add-order");
        scratch.write(
            ".context/TASKS.md",
            "# T\r\n\r\n- [ ] a\r\n  more\r\n\r\n## Done\r\n\r\n- [x] b\r\n",
        );
        add(&scratch, Section::Tasks, "c #added:2026-01-01").unwrap();
        assert_eq!(
            file(&scratch, "TASKS.md"),
            "# T\r\n\r\n- [ ] a\r\n  more\r\n- [ ] c #added:2026-01-01\r\n\r\n## Done\r\n\r\n- [x] b\r\n"
        );
        scratch
            .write(".context/LEARNINGS.md", "# L\n\n## [2026-02-01] b\n\nx\n\n## [2026-01-01] a\n");
        add(&scratch, Section::Learnings, "c").unwrap();
        assert_eq!(
            file(&scratch, "LEARNINGS.md"),
            "# L\n\n## [2026-11-16-093000] c\n\n## [2026-02-01] b\n\nx\n\n## [2026-01-01] a\n"
        );
    }

    #[test]
    fn a_task_precedes_the_completed_ones() {
        let scratch = Scratch::new("add-done");
        scratch.write(".context/TASKS.md", "# T\n\n## Next\n\n## Done\n\n- [x] b\n");
        let task = add(&scratch, Section::Tasks, "c #added:2026-01-01").unwrap();
        assert_eq!(task.line(), 5);
        assert_eq!(
            file(&scratch, "TASKS.md"),
            "# T\n\n## Next\n\n- [ ] c #added:2026-01-01\n\n## Done\n\n- [x] b\n"
        );
    }

    #[test]
    fn an_added_entry_has_the_id_and_path_that_a_packet_has() {
        let scratch = Scratch::new("add-ids");
        scratch.write("notes/DECISIONS.md", "# D\n");
        scratch.write("notes/decisions/a.md", "# D\n\n## Row east\n\nWind.\n");
        let folder = Folder::find(scratch.path().join("notes")).unwrap();
        let locks = scratch.path().join("locks");
        for _ in 0..2 {
            let entry = folder.add(Section::Conventions, "Knots first", now(), &locks);
            assert_eq!(entry.unwrap().path(), "notes/CONVENTIONS.md");
        }
        let entry = folder.add(Section::Decisions, "Row east", now(), &locks).unwrap();
        let memory = folder.read().unwrap();
        assert_eq!(memory.entry(entry.short_id()), Some(&entry));
        let ids: Vec<&str> = memory.entries().iter().map(Entry::short_id).collect();
        assert!(ids.iter().all(|id| ids.iter().filter(|other| *other == id).count() == 1));
    }

    #[test]
    fn entries_that_would_not_be_read_are_not_added() {
        let scratch = Scratch::new("add-unread");
        scratch.write(".context/TASKS.md", "```\ncode\n");
        fs::write(scratch.path().join(".context/CONVENTIONS.md"), [b'-', b' ', 0xff]).unwrap();
        for (section, text) in [
            (Section::Tasks, "in code"),
            (Section::Conventions, "not UTF-8"),
            (Section::Decisions, "One\n\nx\n\n## [2026-01-01] Two\n\nx"),
            (Section::Decisions, " \n "),
            (Section::Constitution, "x"),
        ] {
            let error = add(&scratch, section, text).unwrap_err();
            assert!(matches!(error, MemoryError::NotAdded { .. }), "{text}: {error}");
        }
        assert_eq!(file(&scratch, "TASKS.md"), "```\ncode\n");
        assert!(!scratch.path().join(".context/DECISIONS.md").exists());
    }

    #[test]
    fn concurrent_entries_are_all_kept() {
        let scratch = Scratch::new("add-concurrent");
        folder(&scratch);
        std::thread::scope(|scope| {
            for number in 0..16 {
                let scratch = &scratch;
                scope.spawn(move || {
                    add(scratch, Section::Tasks, &format!("Task {number}")).unwrap()
                });
            }
        });
        let memory = folder(&scratch).read().unwrap();
        assert_eq!(memory.section(Section::Tasks).len(), 16);
    }

    #[cfg(unix)]
    #[test]
    fn links_inside_the_project_are_followed_and_others_refused() {
        let scratch = Scratch::new("add-links");
        scratch.write("outside.md", "- [ ] x\n");
        scratch.write("p/.context/x", "");
        scratch.write("p/shared.md", "- a\n");
        let link = |from: &str, to: &str| {
            std::os::unix::fs::symlink(from, scratch.path().join("p/.context").join(to)).unwrap();
        };
        link("../../outside.md", "TASKS.md");
        link("../shared.md", "CONVENTIONS.md");
        let folder = Folder::find(scratch.path().join("p")).unwrap();
        let add = |section| folder.add(section, "new", now(), &scratch.path().join("locks"));
        assert!(matches!(add(Section::Tasks), Err(MemoryError::NotAdded { .. })));
        add(Section::Conventions).unwrap();
        assert_eq!(fs::read_to_string(scratch.path().join("p/shared.md")).unwrap(), "- a\n- new\n");
    }
}
