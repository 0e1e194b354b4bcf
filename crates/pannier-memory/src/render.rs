//! Renders a packet as Markdown or JSON.
//!
//! A packet prints its own token count, so its text depends on its length. The printed count is the smallest one that is
//! true once it is inserted.
//!
//! Entries are rendered and counted once, before selection. Rendering a packet then only copies strings.

use std::borrow::Cow;
use std::sync::Arc;

use pannier_core::item::FormName;
use pannier_core::layout::{PlacedItems, Plan, RenderCost, SectionId};
use pannier_core::score::Pool;
use pannier_core::{Error, Layout, Timestamp, TokenCounter};

use crate::excerpt::{key_paragraph, one_line_paragraph, one_line_title, truncate};
use crate::{Entry, Memory, PacketOptions, PacketPolicy, Section};

/// The last line of every packet.
const INSTRUCTION: &str = "Before you begin, tell the user that you have read this project's context files and follow \
                           their rules and conventions.";

/// The reason for excluding all entries if the frame uses up the budget. Receipts hash it.
pub(crate) const NO_ROOM_MESSAGE: &str =
    "the constitution, the files to read and the instruction leave no room for anything else";

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

/// The headings of entries that are not whole, in the same order.
const NOTE_HEADINGS: [&str; SECTIONS] = [
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

/// The rendered form of everything that a packet may contain.
#[derive(Debug)]
pub(crate) struct RenderedEntries {
    format: PacketFormat,
    policy: PacketPolicy,
    read_order: Vec<String>,
    /// Files that are too long to be read.
    unread: Vec<String>,
    rules: Vec<String>,
    /// In pool order.
    entries: Vec<RenderedEntry>,
}

/// The part of a packet that does not depend on the selection: header, files to read, constitution, instruction.
#[derive(Clone, Debug)]
pub(crate) struct PacketFrame {
    rendered: Arc<RenderedEntries>,
    budget: usize,
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
    /// The estimated length of the text in bytes.
    capacity: usize,
}

#[derive(Debug)]
struct RenderedEntry {
    /// A position in [`SELECTABLE_SECTIONS`].
    section: usize,
    /// Whole first, then shorter.
    forms: Vec<RenderedForm>,
    /// Whether the packet only names it.
    is_on_demand: bool,
    /// Whether it is counted if it is omitted. In packets of the specification, superseded entries are not.
    counts_as_omitted: bool,
}

/// An entry in one of its forms.
#[derive(Debug)]
pub(crate) struct RenderedForm {
    pub(crate) name: FormName,
    /// The content of the item.
    pub(crate) content: String,
    /// The content as printed.
    text: String,
    pub(crate) tokens: usize,
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

impl RenderedEntries {
    /// Renders the rules of `memory` and the `entries` of the pool.
    pub(crate) fn new(
        memory: &Memory,
        entries: &[&Entry],
        options: &PacketOptions,
        counter: &dyn TokenCounter,
    ) -> Self {
        let (format, policy) = (options.format, options.policy);
        let rules = memory.section(Section::Constitution).iter();
        let rules = rules.filter(|rule| policy.includes(rule));
        let mut rendered_rules = Vec::new();
        let mut previous_intro = None;
        for rule in rules {
            let intro = rule.list_intro();
            rendered_rules.push(match (format, intro) {
                (PacketFormat::Json, _) => json_element(&content(rule)),
                (PacketFormat::Markdown, None) => bullet("- ", rule.text()),
                (PacketFormat::Markdown, Some(_)) if previous_intro == intro => {
                    bullet("  - ", rule.text())
                }
                (PacketFormat::Markdown, Some(intro)) => {
                    bullet("- ", intro) + &bullet("  - ", rule.text())
                }
            });
            previous_intro = intro;
        }
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
        Self { format, policy, read_order, unread, rules: rendered_rules, entries: rendered }
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

    /// Renders the packet with a token count of 0, and returns the byte position of that 0.
    ///
    /// `placed` yields pool positions and levels.
    fn text(
        &self,
        placed: impl Iterator<Item = (usize, usize)>,
        fill: PacketFill,
    ) -> (String, usize) {
        let mut sections: [Vec<usize>; SECTIONS] = Default::default();
        let mut notes: [Vec<&str>; SECTIONS] = Default::default();
        let mut omitted = [0; SECTIONS];
        for entry in self.rendered.entries.iter().filter(|entry| entry.counts_as_omitted) {
            omitted[entry.section] += 1;
        }
        let mut capacity = 1_024 + self.rendered.rules.iter().map(String::len).sum::<usize>();
        for (index, level) in placed {
            let entry = &self.rendered.entries[index];
            let text = &self.rendered.form(index, level).text;
            if entry.counts_as_omitted {
                omitted[entry.section] -= 1;
            }
            match level == 0 && !entry.is_on_demand {
                true => sections[entry.section].push(index),
                false => notes[entry.section].push(text),
            }
            capacity += text.len() + 1;
        }
        // In file order; decisions and learnings by rank.
        for (indices, (section, _)) in sections.iter_mut().zip(SELECTABLE_SECTIONS) {
            if !section.is_dated() {
                indices.sort_unstable();
            }
        }
        let total: usize = omitted.iter().sum();
        let omitted = match fill {
            PacketFill::Entries => count_by_section(&omitted),
            PacketFill::CountOnly if total > 0 => Some(format!("+{total} more")),
            PacketFill::OverBudget if total > 0 => Some(format!("over budget, +{total} more")),
            PacketFill::OverBudget => Some("over budget".to_owned()),
            PacketFill::CountOnly | PacketFill::FrameOnly => None,
        };
        let contents = Contents { sections, notes, omitted, fill, capacity };
        match self.rendered.format {
            PacketFormat::Markdown => self.markdown(contents),
            PacketFormat::Json => self.json(contents),
        }
    }

    fn markdown(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, omitted, fill, capacity } = contents;
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
            let paths = self.rendered.unread.join(", ");
            text.push_str(&format!("Not read, too long: {paths}\n\n"));
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
        text.push_str(INSTRUCTION);
        text.push('\n');
        (text, position)
    }

    fn json(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, omitted, capacity, .. } = contents;
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
                self.rendered.unread.iter().map(|path| json_element(path)).collect();
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
        text.push_str(&format!(",\"instruction\":{}}}\n", json_string(INSTRUCTION)));
        (text, position)
    }
}

impl RenderedEntry {
    /// Renders an entry. Its token counts are still 0.
    fn new(entry: &Entry, options: &PacketOptions) -> Self {
        let PacketOptions { format, policy, .. } = *options;
        let is_on_demand = entry.is_on_demand(&options.files);
        let section = if is_on_demand { Section::Skills } else { entry.section() };
        let section = SELECTABLE_SECTIONS.iter().position(|(other, _)| *other == section);
        let forms = match policy {
            PacketPolicy::PacketSeed => seed_forms(entry, format),
            PacketPolicy::Memory if is_on_demand => on_demand_forms(entry, format),
            PacketPolicy::Memory => memory_forms(entry, format),
        };
        Self {
            is_on_demand,
            // The pool has no rules, so the section is always selectable.
            section: section.unwrap_or_default(),
            forms,
            counts_as_omitted: policy == PacketPolicy::Memory || !entry.is_superseded(),
        }
    }

    /// Drops forms that are not shorter than the one before.
    fn drop_longer_forms(&mut self) {
        let mut tokens = usize::MAX;
        self.forms.retain(|form| {
            let is_shorter = form.tokens < tokens;
            tokens = tokens.min(form.tokens);
            is_shorter
        });
    }
}

impl RenderedForm {
    fn new(name: FormName, content: impl Into<String>, text: String) -> Self {
        Self { name, content: content.into(), text, tokens: 0 }
    }
}

/// Returns the forms of the specification: whole, and by its title.
fn seed_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let (whole, short) = (content(entry), short_content(entry));
    let printed = match format {
        PacketFormat::Json => json_element(&format!("{}{whole}", date_prefix(entry))),
        PacketFormat::Markdown => markdown_entry(entry, "- [ ] ", &whole),
    };
    let mut forms = vec![RenderedForm::new(FormName::SHORT, whole, printed)];
    // Omitted conventions are only counted.
    if entry.section() != Section::Conventions {
        let printed = match format {
            PacketFormat::Json => json_element(&short),
            PacketFormat::Markdown => bullet("- ", &short),
        };
        forms.push(RenderedForm::new(FormName::SHORT, short, printed));
    }
    forms
}

/// The name of the form with the paragraph that answers.
const EXCERPT: &str = "excerpt";

/// Returns the forms of an entry: whole, with the paragraph that answers, and by its title.
fn memory_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let whole = match (entry.phase(), entry.source()) {
        (Some(phase), _) => format!("[{phase}] {}", content(entry)),
        (None, Some(_)) if entry.title() != entry.path() => {
            format!("{}: {}", entry.path(), content(entry))
        }
        (None, _) => content(entry).into_owned(),
    };
    let printed = match format {
        PacketFormat::Json => json_element(&format!("{}{whole}", date_prefix(entry))),
        PacketFormat::Markdown => {
            markdown_entry(entry, if entry.is_specified() { "- [ ] " } else { "- " }, &whole)
        }
    };
    let mut forms = vec![RenderedForm::new(FormName::TITLE, whole, printed)];
    let title = one_line_title(entry);
    if let (Some(paragraph), Ok(name)) = (key_paragraph(entry.text()), FormName::new(EXCERPT)) {
        let (content, printed) = match entry.section().has_titles() {
            true => {
                (format!("{title}\n\n{paragraph}"), note(entry, &title, Some(paragraph), format))
            }
            // The paragraph of a list item has its title.
            false => {
                let paragraph = one_line_paragraph(entry);
                let printed = note(entry, &paragraph, None, format);
                (paragraph, printed)
            }
        };
        forms.push(RenderedForm::new(name, content, printed));
    }
    let printed = note(entry, &title, None, format);
    forms.push(RenderedForm::new(FormName::TITLE, title, printed));
    forms
}

/// Returns the forms of a skill, or of a rule for other files: with its description, with the beginning of it, and by its
/// title.
fn on_demand_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let title = one_line_title(entry);
    let description = entry.source().and_then(|source| source.description());
    let described = match description {
        Some(description) => format!("{title}: {description}"),
        None => title.clone(),
    };
    let form = |name: FormName, text: String| {
        let printed = note(entry, &text, None, format);
        RenderedForm::new(name, text, printed)
    };
    let short = truncate(&described);
    let excerpt = FormName::new(EXCERPT).map(|name| form(name, short)).ok();
    let whole = form(FormName::TITLE, described);
    [Some(whole), excerpt, Some(form(FormName::TITLE, title))].into_iter().flatten().collect()
}

/// Renders a whole entry in Markdown.
fn markdown_entry(entry: &Entry, task_marker: &str, content: &str) -> String {
    match entry.section() {
        Section::Tasks => bullet(task_marker, content),
        Section::Decisions | Section::Learnings => {
            ["### ", &date_prefix(entry), &demote_headings(content), "\n\n"].concat()
        }
        Section::Instructions | Section::Skills => {
            ["### ", &demote_headings(content), "\n\n"].concat()
        }
        _ => bullet("- ", content),
    }
}

/// Renders an entry that is not whole: its id, date, phase and title, and the paragraph if there is one.
fn note(entry: &Entry, title: &str, paragraph: Option<&str>, format: PacketFormat) -> String {
    let date = entry.date_or_phase().map(|date| format!("{:.10}", date.to_string()));
    let superseded = entry.is_superseded().then_some("superseded");
    let path = entry.source().map(|_| entry.path()).filter(|path| *path != title);
    match format {
        PacketFormat::Markdown => {
            let about = [date.as_deref(), entry.phase(), superseded, path];
            let about: Vec<&str> = about.into_iter().flatten().collect();
            let about = match about.is_empty() {
                true => String::new(),
                false => format!(" ({})", about.join("; ")),
            };
            let line = bullet("- ", &format!("{} {title}{about}", entry.short_id()));
            let paragraph = demote_headings(paragraph.unwrap_or_default());
            let paragraph = paragraph.lines().map(|line| match line.is_empty() {
                true => "\n".to_owned(),
                false => format!("  {line}\n"),
            });
            line + &paragraph.collect::<String>()
        }
        PacketFormat::Json => {
            let fields = [
                ("id", Some(entry.short_id())),
                ("title", Some(title)),
                ("date", date.as_deref()),
                ("phase", entry.phase()),
                ("path", path),
                ("excerpt", paragraph),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(name, value)| Some(format!("\"{name}\":{}", json_string(value?))));
            let superseded = superseded.map(|_| "\"superseded\":true".to_owned());
            format!("{{{}}},", fields.chain(superseded).collect::<Vec<_>>().join(","))
        }
    }
}

/// Renders whole entries as Markdown, each with its place, and what is left out by id and title, within a budget.
pub(crate) fn entries_within(
    entries: &[&Entry],
    budget: usize,
    counter: &dyn TokenCounter,
) -> String {
    let whole = |entry: &Entry| {
        let place = format!("{}:{}", entry.path(), entry.line());
        let phase = entry.phase().map(|phase| format!(" [{phase}]")).unwrap_or_default();
        let superseded = if entry.is_superseded() { " (superseded)" } else { "" };
        let heading = match entry.section().has_titles() {
            true => format!("{}{}", date_prefix(entry), entry.title()),
            false => one_line_title(entry),
        };
        let text = if entry.section().has_titles() { entry.text().into() } else { content(entry) };
        format!(
            "### {} {heading}{phase}{superseded}\n\n{place}\n\n{}\n\n",
            entry.short_id(),
            demote_headings(&text)
        )
    };
    let forms: Vec<[String; 3]> = entries
        .iter()
        .map(|entry| {
            let title = one_line_title(entry);
            let paragraph = key_paragraph(entry.text());
            let note = |paragraph| note(entry, &title, paragraph, PacketFormat::Markdown);
            [whole(entry), note(paragraph), note(None)]
        })
        .collect();
    let text = |step: usize| {
        let levels: Vec<usize> =
            (0..forms.len()).map(|index| level_at(step, index, forms.len())).collect();
        let kept = forms.iter().zip(&levels).filter_map(|(forms, level)| forms.get(*level));
        let mut text: String = kept.map(String::as_str).collect();
        let omitted = levels.iter().filter(|level| **level > 2).count();
        if omitted > 0 {
            text.push_str(&format!("- +{omitted} more\n"));
        }
        format!("{}\n", text.trim_end())
    };
    // The first step that fits, by bisection, or else the last.
    let (mut first, mut last) = (0, 3 * forms.len());
    while first < last {
        let middle = first.midpoint(last);
        match counter.count_up_to(&text(middle), budget) {
            Some(_) => last = middle,
            None => first = middle + 1,
        }
    }
    text(last)
}

/// Returns the level of an entry after `step` shortenings: all but the first to their excerpts and titles, then to a count,
/// the last first; and then the first.
fn level_at(step: usize, index: usize, count: usize) -> usize {
    let others = count - 1;
    if index == 0 {
        return step.saturating_sub(3 * others);
    }
    let from_end = others - index;
    let noted = step.saturating_sub(2 * from_end).min(2);
    noted + usize::from(step > 2 * others + from_end)
}

/// Returns the whole text of an entry: with its title if it is dated, or else with the introduction of its list.
pub(crate) fn content(entry: &Entry) -> Cow<'_, str> {
    let (title, text) = (entry.title(), entry.text());
    let parts = match (entry.section().has_titles(), entry.list_intro()) {
        (true, _) if text.is_empty() => return title.into(),
        (true, _) => [title, "\n\n", text],
        (false, None) => return text.into(),
        // Only a paragraph can continue the line of the introduction.
        (false, Some(intro)) if starts_with_block(text) => [intro, "\n\n", text],
        (false, Some(intro)) => [intro, " ", text],
    };
    parts.concat().into()
}

/// Returns whether the first characters of `text` begin a Markdown block other than a paragraph.
fn starts_with_block(text: &str) -> bool {
    let marks = ["```", "~~~", ">", "|", "#", "- ", "* ", "+ ", "    ", "<"];
    let digits = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let is_numbered = digits.len() < text.len() && digits.starts_with([')', '.']);
    is_numbered || marks.iter().any(|mark| text.starts_with(mark))
}

/// Returns the day of a dated entry in brackets.
fn date_prefix(entry: &Entry) -> String {
    let date = entry.date().filter(|_| entry.section().is_dated());
    date.map(|date| ["[", &date.to_string()[..10], "] "].concat()).unwrap_or_default()
}

/// Demotes `#` headings to level 4, below the heading of an entry in a packet. Underlined headings stay.
fn demote_headings(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| line.starts_with('#')) {
        return Cow::Borrowed(text);
    }
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        fence = match (fence, mark) {
            (None, mark) => mark,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        let level = line.len() - line.trim_start_matches('#').len();
        let is_heading = (1..=3).contains(&level) && line[level..].starts_with(' ');
        match is_heading && fence.is_none() {
            true => lines.push(format!("####{}", &line[level..])),
            false => lines.push(line.to_owned()),
        }
    }
    Cow::Owned(lines.join("\n"))
}

/// Returns the separator after a section. Entries with titles end with an empty line of their own.
fn section_end(section: Section) -> &'static str {
    if section.has_titles() { "" } else { "\n" }
}

/// Returns the short form of an entry: its title, truncated.
fn short_content(entry: &Entry) -> Cow<'_, str> {
    truncate(entry.title()).into()
}

/// Renders a list item. Further lines are indented to match the marker.
pub(crate) fn bullet(marker: &str, text: &str) -> String {
    let indent = if marker.starts_with(' ') { "    " } else { "  " };
    let mut item = String::with_capacity(marker.len() + text.len() + 16);
    for (number, line) in text.lines().enumerate() {
        match (number, line.is_empty()) {
            (0, _) => item.push_str(marker),
            (_, true) => {}
            (_, false) => item.push_str(indent),
        }
        item.push_str(line);
        item.push('\n');
    }
    item
}

/// Returns `text` as a JSON string. Serializing a `str` cannot fail.
fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Returns `text` as an array element, with the comma after it.
fn json_element(text: &str) -> String {
    let mut element = json_string(text);
    element.push(',');
    element
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

/// Renders packets and counts their tokens.
#[derive(Debug, Clone)]
pub(crate) struct PacketLayout {
    frame: PacketFrame,
    counter: Arc<dyn TokenCounter>,
    fill: PacketFill,
    /// An upper bound of the frame's tokens.
    fixed: i64,
    /// The tokens of each section's heading, and of the headings of notes.
    headings: Vec<i64>,
    /// The character limit, and the tokens that stand for it.
    characters: Option<(usize, usize)>,
}

impl PacketLayout {
    pub(crate) fn new(
        frame: PacketFrame,
        counter: Arc<dyn TokenCounter>,
        fill: PacketFill,
    ) -> Self {
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        let is_markdown = frame.rendered.format == PacketFormat::Markdown;
        let has_note_headings = is_markdown && frame.rendered.policy == PacketPolicy::Memory;
        let headings = SELECTABLE_SECTIONS.map(|(section, heading)| match section {
            _ if is_markdown => count(&format!("{heading}{}", section_end(section))),
            // Only these are left out of JSON if they are empty.
            Section::Instructions => count(",\"instructions\":[]"),
            _ => 0,
        });
        let note_headings = NOTE_HEADINGS.iter().filter(|_| has_note_headings);
        let note_headings = note_headings.map(|heading| count(&format!("{heading}\n")));
        let headings = headings.into_iter().chain(note_headings).collect();
        let mut rendering = Self { frame, counter, fill, fixed: 0, headings, characters: None };
        // With the widest token count.
        let (mut text, position) = rendering.frame.text([].into_iter(), fill);
        let number = rendering.frame.budget.max(rendering.frame_tokens());
        write_number(&mut text, position, &mut 1, number);
        let fixed = rendering.counter.count(&text);
        rendering.fixed = i64::try_from(fixed).unwrap_or(i64::MAX);
        rendering
    }

    /// Returns an upper bound of the frame's tokens: its count with the widest number in it.
    pub(crate) fn fixed(&self) -> i64 {
        self.fixed
    }

    /// Sets the character limit of the packet; a text of so many characters is charged this many tokens.
    pub(crate) fn with_character_limit(mut self, characters: usize, tokens: usize) -> Self {
        self.characters = Some((characters, tokens));
        self
    }

    /// The tokens that the characters of a text are charged.
    fn scaled_characters(&self, text: &str) -> Option<i64> {
        let (max_characters, tokens) = self.characters?;
        let scaled = text.chars().count() as u128 * tokens as u128;
        i64::try_from(scaled.div_ceil(max_characters.max(1) as u128)).ok()
    }

    /// Renders a packet and returns it with its token count.
    pub(crate) fn text(&self, placed: &PlacedItems<'_>) -> (String, usize) {
        self.insert_token_count(placed.sent().map(|sent| (sent.index, sent.level.get())))
    }

    /// Counts the tokens of a packet without entries.
    pub(crate) fn frame_tokens(&self) -> usize {
        self.insert_token_count([].into_iter()).1
    }

    /// Counts the tokens of a packet with all entries whole.
    pub(crate) fn whole_tokens(&self) -> usize {
        self.insert_token_count(self.everything()).1
    }

    /// Counts the characters of a packet without entries.
    pub(crate) fn frame_characters(&self) -> usize {
        self.insert_token_count([].into_iter()).0.chars().count()
    }

    /// Returns how many tokens a packet of so many characters has, by the ratio in a packet with all entries whole.
    pub(crate) fn tokens_for_characters(&self, characters: usize) -> usize {
        let (text, tokens) = self.insert_token_count(self.everything());
        let all_characters = text.chars().count().max(1) as u128;
        usize::try_from(characters as u128 * tokens as u128 / all_characters).unwrap_or(usize::MAX)
    }

    /// Returns whether a packet with all entries whole is within `limit`.
    pub(crate) fn whole_fits(&self, limit: usize) -> bool {
        !self.clearly_exceeds(self.everything(), limit) && self.whole_tokens() <= limit
    }

    fn everything(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        (0..self.frame.rendered.entries.len()).map(|index| (index, 0))
    }

    /// Returns whether the first entries alone exceed `limit`. This avoids rendering packets that are far too long.
    fn clearly_exceeds(
        &self,
        placed: impl Iterator<Item = (usize, usize)> + Clone,
        limit: usize,
    ) -> bool {
        let mut tokens = 0_usize;
        let last = placed.clone().position(|(index, level)| {
            tokens = tokens.saturating_add(self.frame.rendered.form(index, level).tokens);
            // Adjacent texts may share tokens, so their sum overestimates.
            tokens / 2 > limit
        });
        last.is_some_and(|last| {
            let (text, _) = self.frame.text(placed.take(last + 1), self.fill);
            self.counter.count_up_to(&text, limit).is_none()
        })
    }

    /// Renders a packet and inserts the smallest token count that is then true.
    fn insert_token_count(&self, placed: impl Iterator<Item = (usize, usize)>) -> (String, usize) {
        let (mut text, position) = self.frame.text(placed, self.fill);
        // Ascending: a longer number never shortens the text, so the first fixed point is the smallest.
        let (mut number, mut max, mut digits) = (0, 0, 1);
        for _ in 0..16 {
            let count = self.counter.count(&text);
            if count == number {
                return (text, number);
            }
            max = max.max(count);
            number = count;
            write_number(&mut text, position, &mut digits, number);
        }
        // An encoding may cycle between counts; the largest of them is an upper bound.
        write_number(&mut text, position, &mut digits, max);
        (text, max)
    }
}

/// Replaces the number of `digits` digits at `position`.
fn write_number(text: &mut String, position: usize, digits: &mut usize, number: usize) {
    let number = number.to_string();
    text.replace_range(position..position + *digits, &number);
    *digits = number.len();
}

impl Layout for PacketLayout {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.fixed = self.fixed;
        plan.sections = self.headings.clone();
        for (item, entry) in pool.items().iter().zip(&self.frame.rendered.entries) {
            // Short forms are notes, whose common heading is part of the frame.
            let notes = match self.headings.len() > SECTIONS {
                true => SectionId::new((SECTIONS + entry.section) as u32),
                false => SectionId::NONE,
            };
            plan.section_of.push(match entry.is_on_demand {
                true => notes,
                false => SectionId::new(entry.section as u32),
            });
            plan.section_of.extend(item.forms().iter().map(|_| notes));
        }
        if self.fill != PacketFill::Entries {
            let indices = 0..pool.len() as u32;
            plan.rejected = indices.map(|index| (index, NO_ROOM_MESSAGE.into())).collect();
        }
        Ok(plan)
    }

    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        if placed.indices().len() == 0 {
            return Ok(Some(RenderCost { fixed: self.fixed, ..RenderCost::default() }));
        }
        let entries = placed.sent().map(|sent| (sent.index, sent.level.get()));
        let limit = usize::try_from(up_to).unwrap_or_default();
        if up_to < i64::MAX && self.clearly_exceeds(entries.clone(), limit) {
            let total = up_to.max(0).saturating_add(1);
            return Ok(Some(RenderCost { items: total, ..RenderCost::default() }));
        }
        let (text, tokens) = self.insert_token_count(entries);
        let total = i64::try_from(tokens).unwrap_or(i64::MAX);
        let mut cost = RenderCost::from_total(total, self.fixed, 0, placed.tokens());
        cost.other_limit_tokens = self.scaled_characters(&text);
        Ok(Some(cost))
    }
}
