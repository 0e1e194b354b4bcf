//! One thing that a project remembers: a rule, a task, a convention, a decision or a learning.
//!
//! An entry is known by its id, which has to survive what people do to such files all day: they add entries above and
//! below, and they edit bodies. It is therefore made of the title, and of the date where there is one, and of nothing
//! else.

use std::fmt;
use std::sync::Arc;

use pannier_core::Timestamp;
use serde::Serialize;

/// What an entry is, and in which order entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Rules that always hold.
    Constitution,
    /// What is to be done.
    Tasks,
    /// How things are done here.
    Conventions,
    /// What was decided, and why.
    Decisions,
    /// What was learned, and what follows from it.
    Learnings,
}

impl Section {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Constitution, Self::Tasks, Self::Conventions, Self::Decisions, Self::Learnings];

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constitution => "constitution",
            Self::Tasks => "tasks",
            Self::Conventions => "conventions",
            Self::Decisions => "decisions",
            Self::Learnings => "learnings",
        }
    }

    /// What one entry of it is called, in ids.
    fn singular(self) -> &'static str {
        match self {
            Self::Constitution => "rule",
            Self::Tasks => "task",
            Self::Conventions => "convention",
            Self::Decisions => "decision",
            Self::Learnings => "learning",
        }
    }

    /// Whether its entries have headings with dates, and are not items of lists.
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

/// What a file says of an entry. The rest follows from where it stands.
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
    /// An entry of a file. Its id is that of the first entry with this title; see [`Entry::number`].
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

    /// Tells it from earlier entries with the same id.
    pub(crate) fn number(&mut self, number: usize) {
        if number > 1 {
            self.id = format!("{}-{number}", self.id);
        }
    }

    /// What it is.
    pub fn section(&self) -> Section {
        self.section
    }

    /// By what it is known. It stays the same when other entries are added, or its text is edited.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is called: the heading of a decision or a learning, the first line of anything else, of tasks without
    /// tags. Never empty.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What leads into the list that it is an item of, if a paragraph right before the list ends with a colon. Below `Do
    /// not:`, an item alone says the opposite of what is meant.
    pub fn list_intro(&self) -> Option<&str> {
        self.list_intro.as_deref()
    }

    /// What it says, in Markdown.
    ///
    /// Of a decision or a learning, this is what stands below its heading, which may be nothing. Of anything else, it is
    /// the whole item without its bullet and its box, to be printed again behind `- ` with two spaces before each
    /// further line, and never empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it was made, if it says so.
    pub fn date(&self) -> Option<Timestamp> {
        self.date
    }

    /// Whether it says that another took its place.
    pub fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// In which file it stands: a path below the root of the project, with forward slashes.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// In which line it begins, from 1.
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
    fn ids_follow_from_title_and_date_alone() {
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
