//! An entry of a project's memory: a rule, task, convention, decision or learning.
//!
//! The id of an entry must survive everyday edits: new entries before and after it, and changes of its text. It is
//! therefore derived from title and date alone.

use std::fmt;
use std::sync::Arc;

use pannier_core::Timestamp;
use serde::Serialize;

/// The type of an entry. Entries are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Rules without exception.
    Constitution,
    /// Open tasks.
    Tasks,
    /// Conventions of the project.
    Conventions,
    /// Decisions and their reasons.
    Decisions,
    /// Lessons and their consequences.
    Learnings,
}

impl Section {
    /// All sections, in order.
    pub const ALL: [Self; 5] =
        [Self::Constitution, Self::Tasks, Self::Conventions, Self::Decisions, Self::Learnings];

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constitution => "constitution",
            Self::Tasks => "tasks",
            Self::Conventions => "conventions",
            Self::Decisions => "decisions",
            Self::Learnings => "learnings",
        }
    }

    /// Returns the prefix of its entries' ids.
    fn singular(self) -> &'static str {
        match self {
            Self::Constitution => "rule",
            Self::Tasks => "task",
            Self::Conventions => "convention",
            Self::Decisions => "decision",
            Self::Learnings => "learning",
        }
    }

    /// Returns whether its entries have headings with dates. Entries of other sections are list items.
    pub fn is_dated(self) -> bool {
        matches!(self, Self::Decisions | Self::Learnings)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry of a context folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    section: Section,
    id: String,
    title: String,
    #[serde(rename = "lead", skip_serializing_if = "Option::is_none")]
    list_intro: Option<Arc<str>>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<Timestamp>,
    is_superseded: bool,
    path: String,
    line: usize,
}

/// An entry as parsed, before its section and path are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) title: String,
    pub(crate) list_intro: Option<Arc<str>>,
    pub(crate) text: String,
    pub(crate) date: Option<Timestamp>,
    pub(crate) is_superseded: bool,
    pub(crate) line: usize,
}

impl Entry {
    /// Returns an entry with the id of the first entry with this title; see [`Entry::number`].
    pub(crate) fn new(section: Section, path: &str, draft: Draft) -> Self {
        let Draft { title, list_intro, text, date, is_superseded, line } = draft;
        let hash = blake3::hash(title.as_bytes()).to_hex();
        let kind = section.singular();
        let id = match date {
            // The first ten characters of a timestamp are its day.
            Some(date) if section.is_dated() => {
                format!("{kind}-{:.10}-{:.6}", date.to_string(), hash)
            }
            None if section.is_dated() => format!("{kind}-{hash:.6}"),
            _ => format!("{kind}-{hash:.8}"),
        };
        Self {
            section,
            id,
            title,
            list_intro,
            text,
            date,
            is_superseded,
            path: path.to_owned(),
            line,
        }
    }

    /// Appends the number of an entry among those with the same id, from 2 on.
    pub(crate) fn number(&mut self, number: usize) {
        if number > 1 {
            self.id = format!("{}-{number}", self.id);
        }
    }

    /// Returns the section.
    pub fn section(&self) -> Section {
        self.section
    }

    /// Returns the id. It does not change when other entries are added or the text is edited.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the title: the heading of a decision or learning, or else the first line, in tasks without tags. Never
    /// empty.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the paragraph directly before the item's list, if it ends with a colon. Without its introduction `Do not:`,
    /// an item would state the opposite.
    pub fn list_intro(&self) -> Option<&str> {
        self.list_intro.as_deref()
    }

    /// Returns the text in Markdown.
    ///
    /// For a decision or learning, this is the text below the heading; it may be empty. For other entries, it is the item
    /// without bullet, checkbox and indentation; it is never empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the date, if the entry has a valid one.
    pub fn date(&self) -> Option<Timestamp> {
        self.date
    }

    /// Returns whether the entry is marked as superseded.
    pub fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// Returns the path of its file below the project root, with forward slashes.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns its first line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(section: Section, title: &str, text: &str, date: Option<&str>) -> Entry {
        let date = date.map(|date| date.parse().unwrap());
        let (title, text) = (title.to_owned(), text.to_owned());
        Entry::new(
            section,
            "x.md",
            Draft { title, list_intro: None, text, date, is_superseded: false, line: 1 },
        )
    }

    #[test]
    fn ids_depend_on_title_and_date_only() {
        let hash = blake3::hash(b"Use oars").to_hex();
        let noon = Some("2026-07-25T12:00:00Z");
        let decision = entry(Section::Decisions, "Use oars", "a", noon);
        assert_eq!(decision.id(), format!("decision-2026-07-25-{}", &hash[..6]));
        assert_eq!(entry(Section::Decisions, "Use oars", "b", noon).id(), decision.id());
        let undated = entry(Section::Learnings, "Use oars", "a", None);
        assert_eq!(undated.id(), format!("learning-{}", &hash[..6]));
        let task = entry(Section::Tasks, "Use oars", "Use oars #now", noon);
        assert_eq!(task.id(), format!("task-{}", &hash[..8]));
        assert!(entry(Section::Constitution, "x", "x", None).id().starts_with("rule-"));
        assert!(entry(Section::Conventions, "x", "x", None).id().starts_with("convention-"));
        let mut second = undated.clone();
        second.number(2);
        assert_eq!(second.id(), format!("{}-2", undated.id()));
    }
}
