//! The text of a packet around and between its entries.

use std::sync::Arc;

use pannier_core::Timestamp;

use super::{
    PacketFormat, RenderedEntries, SECTIONS, SELECTABLE_SECTIONS, json_element, write_json_string,
};
use crate::{PacketOptions, PacketPolicy, Section};

/// The last line of every packet that shows something.
const INSTRUCTION: &str = "Before you begin, tell the user that you have read this project's context files and follow \
                           their rules and conventions.";

/// The headings of entries that are not whole, in the same order.
pub(super) const NOTE_HEADINGS: [&str; SECTIONS] = [
    "Instructions:\n\n",
    "Skills and rules:\n\n",
    "Tasks:\n\n",
    "Conventions:\n\n",
    "Decisions:\n\n",
    "Learnings:\n\n",
];

/// How to open the entries below.
const NOTE_HINT: &str =
    "Open an entry by its id: `pannier memory get ID`, or the tool `get_memory` with `ids`.\n\n";

/// The part of a packet that does not depend on the selection: header, files to read, constitution, instruction.
#[derive(Clone, Debug)]
pub(crate) struct PacketFrame {
    pub(super) rendered: Arc<RenderedEntries>,
    pub(super) budget: usize,
    max_characters: Option<usize>,
    generated: Option<Timestamp>,
}

/// The part of a packet that depends on the selection.
struct Contents<'c> {
    /// Pool positions of whole entries, by section.
    sections: [Vec<usize>; SECTIONS],
    /// Entries in short form, by section.
    notes: [Vec<&'c str>; SECTIONS],
    /// The number of omitted entries, as text.
    omitted: Option<String>,
    fill: PacketFill,
    is_instructed: bool,
    /// The estimated length of the text in bytes.
    capacity: usize,
}

/// The part of a packet that the budget allows in addition to the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFill {
    /// Selected entries and, by section, the number of omitted ones.
    Entries,
    /// The total number of omitted entries.
    CountOnly,
    /// Nothing.
    FrameOnly,
    /// Nothing: even the frame exceeds the budget, and the packet prints that.
    OverBudget,
}

impl PacketFill {
    /// All of them, the largest first.
    pub(crate) const ALL: [Self; 4] =
        [Self::Entries, Self::CountOnly, Self::FrameOnly, Self::OverBudget];
}

impl PacketFrame {
    pub(crate) fn new(rendered: Arc<RenderedEntries>, options: &PacketOptions) -> Self {
        Self {
            rendered,
            budget: options.budget,
            max_characters: options.max_characters,
            generated: options.include_timestamp.then_some(options.now),
        }
    }

    /// Returns the files to read. A budget of 0 omits them.
    fn read_order(&self) -> &[String] {
        if self.budget == 0 { &[] } else { &self.rendered.read_order }
    }

    /// Returns whether a packet without entries shows a file to read or a rule.
    pub(super) fn shows_anything(&self) -> bool {
        !self.read_order().is_empty() || !self.rendered.rules.is_empty()
    }

    /// Renders the packet with a token count of 0, and returns the byte position of that 0.
    ///
    /// `placed` yields pool positions and levels. An agent that got nothing must not claim to have read something, so a
    /// packet without contents has no instruction, unless `is_bound`.
    pub(super) fn text(
        &self,
        placed: impl Iterator<Item = (usize, usize)>,
        fill: PacketFill,
        is_bound: bool,
    ) -> (String, usize) {
        let mut is_instructed =
            is_bound || self.rendered.policy == PacketPolicy::PacketSeed || self.shows_anything();
        let mut sections: [Vec<usize>; SECTIONS] = Default::default();
        // Decisions and learnings are by rank, others in file order. Marking is faster than sorting for each rendering.
        let mut is_listed = vec![false; self.rendered.entries.len()];
        let mut notes: [Vec<&str>; SECTIONS] = Default::default();
        let mut omitted = [0; SECTIONS];
        for entry in self.rendered.entries.iter().filter(|entry| entry.counts_as_omitted) {
            omitted[entry.section] += 1;
        }
        let mut capacity = 1_024 + self.rendered.rules.iter().map(String::len).sum::<usize>();
        for (index, level) in placed {
            is_instructed = true;
            let entry = &self.rendered.entries[index];
            let text = &self.rendered.form(index, level).text;
            if entry.counts_as_omitted {
                omitted[entry.section] -= 1;
            }
            match level == 0 && !entry.is_on_demand {
                true if SELECTABLE_SECTIONS[entry.section].0.is_dated() => {
                    sections[entry.section].push(index);
                }
                true => is_listed[index] = true,
                false => notes[entry.section].push(text),
            }
            capacity += text.len() + 1;
        }
        for index in (0..is_listed.len()).filter(|index| is_listed[*index]) {
            sections[self.rendered.entries[index].section].push(index);
        }
        let total: usize = omitted.iter().sum();
        let omitted = match fill {
            PacketFill::Entries => count_by_section(&omitted),
            PacketFill::CountOnly if total > 0 => Some(format!("+{total} more")),
            PacketFill::OverBudget if total > 0 => Some(format!("over budget, +{total} more")),
            PacketFill::OverBudget => Some("over budget".to_owned()),
            PacketFill::CountOnly | PacketFill::FrameOnly => None,
        };
        let contents = Contents { sections, notes, omitted, fill, is_instructed, capacity };
        match self.rendered.format {
            PacketFormat::Markdown => self.markdown(contents),
            PacketFormat::Json => self.json(contents),
        }
    }

    fn markdown(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, omitted, fill, is_instructed, capacity } = contents;
        let mut text = String::with_capacity(capacity);
        let budget = self.budget;
        let limit =
            self.max_characters.map_or_else(String::new, |limit| format!(", {limit} characters"));
        text.push_str(&format!("# Context Packet\n\nBudget: {budget} tokens{limit} | Used: "));
        let position = text.len();
        text.push_str("0 tokens");
        // Without entries, the count goes into the header, where it costs the fewest tokens.
        if let Some(omitted) = omitted.as_ref().filter(|_| fill != PacketFill::Entries) {
            text.push_str(&format!(" | {omitted}"));
        }
        text.push_str("\n\n");
        if !self.read_order().is_empty() {
            text.push_str("## Read These Files\n\n");
            for (number, path) in self.read_order().iter().enumerate() {
                text.push_str(&format!("{}. {path}\n", number + 1));
            }
            text.push('\n');
        }
        if !self.rendered.unread.is_empty() && self.budget > 0 {
            let paths = self.rendered.unread_paths().join(", ");
            text.push_str(&format!("Not read: {paths}\n\n"));
        }
        if !self.rendered.rules.is_empty() {
            text.push_str("## Constitution (NEVER VIOLATE)\n\n");
            self.rendered.rules.iter().for_each(|rule| text.push_str(rule));
            text.push('\n');
        }
        for (indices, (section, heading)) in sections.iter().zip(SELECTABLE_SECTIONS) {
            if indices.is_empty() {
                continue;
            }
            text.push_str(heading);
            indices.iter().for_each(|index| text.push_str(&self.rendered.form(*index, 0).text));
            text.push_str(section_end(section));
        }
        let omitted = omitted.filter(|_| fill == PacketFill::Entries);
        if notes.iter().any(|notes| !notes.is_empty()) || omitted.is_some() {
            match self.rendered.policy {
                PacketPolicy::PacketSeed => {
                    text.push_str("Also noted:\n\n");
                    notes.iter().flatten().for_each(|note| text.push_str(note));
                }
                PacketPolicy::Memory => {
                    text.push_str("## Also noted\n\n");
                    text.push_str(NOTE_HINT);
                    let sections = notes.iter().zip(NOTE_HEADINGS);
                    for (notes, heading) in sections.filter(|(notes, _)| !notes.is_empty()) {
                        text.push_str(heading);
                        notes.iter().for_each(|note| text.push_str(note));
                        text.push('\n');
                    }
                }
            }
            if let Some(omitted) = omitted {
                text.push_str(&format!("- {omitted}\n"));
            }
            text.push('\n');
        }
        if is_instructed {
            text.push_str(INSTRUCTION);
            text.push('\n');
        }
        (text, position)
    }

    fn json(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, omitted, is_instructed, capacity, .. } = contents;
        let mut text = String::with_capacity(capacity);
        text.push('{');
        if let Some(time) = self.generated {
            text.push_str(&format!("\"generated\":\"{time}\","));
        }
        text.push_str(&format!("\"budget\":{},\"tokens_used\":", self.budget));
        let position = text.len();
        text.push('0');
        // Elements end with a comma.
        let mut array = |name: &str, elements: &mut dyn Iterator<Item = &str>| {
            text.push_str(&format!(",\"{name}\":["));
            elements.for_each(|element| text.push_str(element));
            if text.ends_with(',') {
                text.pop();
            }
            text.push(']');
        };
        let read_order = self.read_order().iter().map(|path| json_element(path));
        let read_order: Vec<String> = read_order.collect();
        array("read_order", &mut read_order.iter().map(String::as_str));
        if !self.rendered.unread.is_empty() {
            let unread: Vec<_> =
                self.rendered.unread_paths().iter().map(|path| json_element(path)).collect();
            array("unread", &mut unread.iter().map(String::as_str));
        }
        array("constitution", &mut self.rendered.rules.iter().map(String::as_str));
        for (indices, (section, _)) in sections.iter().zip(SELECTABLE_SECTIONS) {
            // Skills are summaries only, and most projects have no instructions.
            let is_source = matches!(section, Section::Instructions | Section::Skills);
            if is_source && indices.is_empty() {
                continue;
            }
            let entries = indices.iter().map(|index| self.rendered.form(*index, 0).text.as_str());
            array(section.name(), &mut { entries });
        }
        let omitted = omitted.map(|omitted| json_element(&omitted));
        array("summaries", &mut notes.iter().flatten().copied().chain(omitted.as_deref()));
        if is_instructed {
            text.push_str(",\"instruction\":");
            write_json_string(INSTRUCTION, &mut text);
        }
        text.push_str("}\n");
        (text, position)
    }
}

/// Returns the separator after a section. Entries with titles end with an empty line of their own.
pub(super) fn section_end(section: Section) -> &'static str {
    if section.has_titles() { "" } else { "\n" }
}

/// Returns the number of omitted entries, in total and by section.
fn count_by_section(omitted: &[usize; SECTIONS]) -> Option<String> {
    let total: usize = omitted.iter().sum();
    if total == 0 {
        return None;
    }
    let counts = omitted.iter().zip(SELECTABLE_SECTIONS).filter(|(count, _)| **count > 0);
    let counts = counts.map(|(count, (section, _))| {
        // The names are plurals that end with "s".
        let name = section.name();
        format!("{count} {}", if *count == 1 { &name[..name.len() - 1] } else { name })
    });
    Some(format!("+{total} more: {}", counts.collect::<Vec<_>>().join(", ")))
}
