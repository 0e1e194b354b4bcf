//! Entries that are not whole: one line with id and title, or the paragraph that answers below it.

use super::markdown::{bullet, demote_headings};
use super::{PacketFormat, write_json_string};
use crate::Entry;

/// Renders an entry that is not whole: its id, date, phase and title, and the paragraph if there is one.
pub(super) struct NoteRenderer<'e> {
    entry: &'e Entry,
    date: Option<String>,
    format: PacketFormat,
}

impl<'e> NoteRenderer<'e> {
    pub(super) fn new(entry: &'e Entry, format: PacketFormat) -> Self {
        let date = entry.date_or_phase().map(|date| date.to_string()[..10].to_owned());
        Self { entry, date, format }
    }

    pub(super) fn note(&self, title: &str, paragraph: Option<&str>) -> String {
        match self.format {
            PacketFormat::Markdown => self.markdown(title, paragraph),
            PacketFormat::Json => self.json(title, paragraph),
        }
    }

    fn path(&self, title: &str) -> Option<&'e str> {
        self.entry.source().map(|_| self.entry.path()).filter(|path| *path != title)
    }

    fn markdown(&self, title: &str, paragraph: Option<&str>) -> String {
        let superseded = self.entry.is_superseded().then_some("superseded");
        let about = [self.date.as_deref(), self.entry.phase(), superseded, self.path(title)];
        let mut line = [self.entry.short_id(), " ", title].concat();
        for (index, about) in about.into_iter().flatten().enumerate() {
            line.push_str(if index == 0 { " (" } else { "; " });
            line.push_str(about);
        }
        if about.iter().any(Option::is_some) {
            line.push(')');
        }
        let mut text = bullet("- ", &line);
        for line in demote_headings(paragraph.unwrap_or_default()).lines() {
            text.push_str(if line.is_empty() { "" } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    fn json(&self, title: &str, paragraph: Option<&str>) -> String {
        let fields = [
            ("{\"id\":", Some(self.entry.short_id())),
            (",\"title\":", Some(title)),
            (",\"date\":", self.date.as_deref()),
            (",\"phase\":", self.entry.phase()),
            (",\"path\":", self.path(title)),
            (",\"excerpt\":", paragraph),
        ];
        let mut note = String::new();
        for (name, value) in fields {
            let Some(value) = value else { continue };
            note.push_str(name);
            write_json_string(value, &mut note);
        }
        let superseded = if self.entry.is_superseded() { ",\"superseded\":true" } else { "" };
        note + superseded + "},"
    }
}
