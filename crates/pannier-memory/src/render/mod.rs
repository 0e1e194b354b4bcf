//! Renders a packet as Markdown or JSON.
//!
//! Entries are rendered in all their forms and counted once, before selection ([`forms`]). Rendering a packet then only
//! copies strings ([`frame`], [`layout`]).

mod forms;
mod frame;
mod layout;
mod markdown;
mod note;
mod rules;
mod whole;

pub(crate) use frame::{PacketFill, PacketFrame};
pub(crate) use layout::PacketLayout;
pub(crate) use markdown::bullet;
pub(crate) use whole::entries_within;

use forms::{RenderedEntry, RenderedForm};
use pannier_core::TokenCounter;
use rules::rules;

use crate::{Entry, Memory, PacketOptions, PacketPolicy, Section};

/// The output format of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PacketFormat {
    /// Markdown, for a model.
    #[default]
    Markdown,
    /// One line of JSON.
    Json,
}

/// The maximum number of files that a packet names as not read.
const MAX_UNREAD_PATHS: usize = 5;

/// The number of sections whose entries are selected.
const SECTIONS: usize = 6;

/// The sections whose entries are selected, in output order, with their headings.
const SELECTABLE_SECTIONS: [(Section, &str); SECTIONS] = [
    (Section::Instructions, "## Instructions\n\n"),
    (Section::Skills, "## Skills\n\n"),
    (Section::Tasks, "## Current Tasks\n\n"),
    (Section::Conventions, "## Key Conventions\n\n"),
    (Section::Decisions, "## Recent Decisions\n\n"),
    (Section::Learnings, "## Recent Learnings\n\n"),
];

/// The rendered form of everything that a packet may contain.
#[derive(Debug)]
pub(crate) struct RenderedEntries {
    format: PacketFormat,
    policy: PacketPolicy,
    read_order: Vec<String>,
    /// Files that could not be read.
    unread: Vec<String>,
    rules: Vec<String>,
    /// In pool order.
    entries: Vec<RenderedEntry>,
}

impl RenderedEntries {
    /// Renders the rules of `memory` and the `entries` of the pool.
    pub(crate) fn new(
        memory: &Memory,
        entries: &[&Entry],
        options: &PacketOptions,
        counter: &dyn TokenCounter,
    ) -> Self {
        let (format, policy) = (options.format, options.policy);
        let rendered = entries.iter().map(|entry| RenderedEntry::new(entry, options));
        let mut rendered: Vec<RenderedEntry> = rendered.collect();
        let forms = rendered.iter().flat_map(|entry| &entry.forms);
        let counts = counter.count_each(&forms.map(|form| form.text.as_str()).collect::<Vec<_>>());
        let forms = rendered.iter_mut().flat_map(|entry| &mut entry.forms);
        forms.zip(counts).for_each(|(form, count)| form.tokens = count);
        if policy == PacketPolicy::Memory {
            rendered.iter_mut().for_each(RenderedEntry::drop_longer_forms);
        }
        let read_order = memory.read_order().to_vec();
        let unread = match policy {
            PacketPolicy::Memory => memory.unread().to_vec(),
            PacketPolicy::PacketSeed => Vec::new(),
        };
        Self {
            format,
            policy,
            read_order,
            unread,
            rules: rules(memory, options),
            entries: rendered,
        }
    }

    /// Returns the first files that could not be read, and the number of others. Every packet has them.
    fn unread_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.unread.iter().take(MAX_UNREAD_PATHS).cloned().collect();
        if self.unread.len() > paths.len() {
            paths.push(format!("{} more", self.unread.len() - paths.len()));
        }
        paths
    }

    /// Returns the forms of an entry, whole first.
    pub(crate) fn forms_mut(&mut self, index: usize) -> &mut [RenderedForm] {
        &mut self.entries[index].forms
    }

    /// Returns an entry in a form; the shortest if it has no such form.
    fn form(&self, index: usize, level: usize) -> &RenderedForm {
        let forms = &self.entries[index].forms;
        &forms[level.min(forms.len() - 1)]
    }
}

/// Writes `text` as a JSON string.
fn write_json_string(text: &str, into: &mut String) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        // Serializing a `str` cannot fail.
        return into.push_str(&serde_json::to_string(text).unwrap_or_default());
    }
    into.push('"');
    into.push_str(text);
    into.push('"');
}

/// Returns `text` as an array element, with the comma after it.
fn json_element(text: &str) -> String {
    let mut element = String::with_capacity(text.len() + text.len() / 16 + 3);
    write_json_string(text, &mut element);
    element.push(',');
    element
}
