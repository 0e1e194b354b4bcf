//! An entry of a project's memory: a rule, task, convention, decision or learning.
//!
//! The id of an entry must survive everyday edits: new entries before and after it, and changes of its text. It is
//! therefore derived from title and date alone.

use std::fmt;
use std::sync::Arc;

use pannier_core::Timestamp;
use serde::Serialize;

use crate::source::Source;

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
    /// Parts of files that instruct agents, such as `AGENTS.md`, and rules of Cursor.
    Instructions,
    /// Skills, which an agent opens when it needs them.
    Skills,
}

impl Section {
    /// All sections, in order.
    pub const ALL: [Self; 7] = [
        Self::Constitution,
        Self::Tasks,
        Self::Conventions,
        Self::Decisions,
        Self::Learnings,
        Self::Instructions,
        Self::Skills,
    ];

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constitution => "constitution",
            Self::Tasks => "tasks",
            Self::Conventions => "conventions",
            Self::Decisions => "decisions",
            Self::Learnings => "learnings",
            Self::Instructions => "instructions",
            Self::Skills => "skills",
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
            Self::Instructions => "instruction",
            Self::Skills => "skill",
        }
    }

    /// Returns whether its entries have headings with dates. Entries of other sections are list items.
    pub fn is_dated(self) -> bool {
        matches!(self, Self::Decisions | Self::Learnings)
    }

    /// Returns whether its entries are texts below a title. Others are list items.
    pub(crate) fn has_titles(self) -> bool {
        self.is_dated() || matches!(self, Self::Instructions | Self::Skills)
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
    #[serde(skip)]
    end_line: usize,
    #[serde(skip)]
    short_id: String,
    #[serde(skip)]
    is_specified: bool,
    #[serde(skip)]
    phase: Option<Arc<Phase>>,
    #[serde(skip)]
    source: Option<Source>,
}

/// A heading above list items, with its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The heading without its tags.
    pub(crate) title: String,
    pub(crate) date: Option<Timestamp>,
    pub(crate) labels: Labels,
}

/// The tags `#in-progress` and `#priority:` of a task or a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) is_in_progress: bool,
    /// 1 for high, 0 for medium or none, -1 for low.
    pub(crate) priority: i8,
}

impl Labels {
    /// Parses the tags of a text. Backticks around a tag do not count.
    pub(crate) fn parse(text: &str) -> Self {
        let mut labels = Self::default();
        for word in text.split_whitespace().map(|word| word.trim_matches('`')) {
            match word {
                "#in-progress" => labels.is_in_progress = true,
                _ if word.starts_with("#started") => labels.is_in_progress = true,
                "#priority:high" | "#priority:critical" | "#priority:urgent" => labels.priority = 1,
                "#priority:low" => labels.priority = -1,
                _ => {}
            }
        }
        labels
    }
}

/// An entry as parsed, before its section and path are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) title: String,
    pub(crate) list_intro: Option<Arc<str>>,
    pub(crate) text: String,
    pub(crate) date: Option<Timestamp>,
    pub(crate) is_superseded: bool,
    pub(crate) line: usize,
    /// The last line.
    pub(crate) end_line: usize,
    /// Whether the format's specification names this form of an entry.
    pub(crate) is_specified: bool,
    pub(crate) phase: Option<Arc<Phase>>,
    /// Set for entries from outside of the context folder.
    pub(crate) source: Option<Source>,
}

impl Entry {
    /// Returns an entry with the id of the first entry with this title; see [`Entry::number`].
    pub(crate) fn new(section: Section, path: &str, draft: Draft) -> Self {
        let Draft { title, list_intro, text, date, is_superseded, line, .. } = draft;
        // Headings such as "Testing" occur in several of these files.
        let hash = match draft.source {
            Some(_) => blake3::hash(format!("{path}\n{title}").as_bytes()).to_hex(),
            None => blake3::hash(title.as_bytes()).to_hex(),
        };
        let kind = section.singular();
        let id = match date {
            // The first ten characters of a timestamp are its day.
            Some(date) if section.is_dated() => {
                format!("{kind}-{:.10}-{:.6}", date.to_string(), hash)
            }
            None if section.is_dated() => format!("{kind}-{hash:.6}"),
            _ => format!("{kind}-{hash:.8}"),
        };
        let short_id = format!("{:.1}{:.6}", kind, blake3::hash(id.as_bytes()).to_hex());
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
            end_line: draft.end_line,
            short_id,
            is_specified: draft.is_specified,
            phase: draft.phase,
            source: draft.source,
        }
    }

    /// Appends the number of an entry among those with the same id, from 2 on.
    pub(crate) fn number(&mut self, number: usize) {
        if number > 1 {
            self.id = format!("{}-{number}", self.id);
        }
    }

    /// Appends the number of an entry among those with the same short id, from 2 on.
    pub(crate) fn number_short_id(&mut self, number: usize) {
        if number > 1 {
            self.short_id = format!("{}-{number}", self.short_id);
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

    /// Returns the short id: a letter for the section and six hexadecimal digits, such as `d3fa91c`. It changes only
    /// when [`id`](Self::id) does.
    pub fn short_id(&self) -> &str {
        &self.short_id
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

    /// Returns its last line that is not blank.
    pub fn end_line(&self) -> usize {
        self.end_line
    }

    /// Returns the heading above a rule, a convention or a task, without tags. Below `Never`, an item would otherwise state the
    /// opposite.
    pub fn phase(&self) -> Option<&str> {
        self.phase.as_deref().map(|phase| phase.title.as_str())
    }

    /// Returns the file that the entry is from, if that is outside of the context folder.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Returns whether a packet only names the entry: a skill, or a rule for other files than these.
    pub(crate) fn is_on_demand(&self, files: &[String]) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_on_demand(files))
    }

    /// Returns the date of the entry, or else of its phase.
    pub(crate) fn date_or_phase(&self) -> Option<Timestamp> {
        self.date.or_else(|| self.phase.as_ref()?.date)
    }

    /// Returns the tags of a task and of its phase.
    pub(crate) fn labels(&self) -> Labels {
        let own = Labels::parse(&self.text);
        let phase = self.phase.as_ref().map(|phase| phase.labels).unwrap_or_default();
        Labels {
            is_in_progress: own.is_in_progress || phase.is_in_progress,
            priority: if own.priority == 0 { phase.priority } else { own.priority },
        }
    }

    /// Returns whether the format's specification names its form: a list item, an open task, or a heading with a date in
    /// brackets. Entries of other forms are read, too, and the packets of the specification leave them out.
    pub fn is_specified(&self) -> bool {
        self.is_specified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(section: Section, title: &str, text: &str, date: Option<&str>) -> Entry {
        let date = date.map(|date| date.parse().unwrap());
        let (title, text) = (title.to_owned(), text.to_owned());
        Entry::new(section, "x.md", Draft { title, text, date, line: 1, ..Draft::default() })
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
