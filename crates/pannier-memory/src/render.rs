//! A packet as text, in Markdown or as JSON.
//!
//! A packet tells how many tokens it has, and so its text depends on its own length. The number is the smallest one that
//! is true once it is written.
//!
//! What entries look like is fixed before anything is chosen, so that a text is put together from pieces, and costs what
//! copying it costs.

use std::borrow::Cow;
use std::sync::Arc;

use pannier_core::{ContextItem, Cost, Placed, Rendering, Timestamp, TokenCounter};

use crate::{Entry, Memory, PacketOptions, Section};

/// What an agent is told at the end.
const INSTRUCTION: &str = "Before you begin, tell the user that you have read this project's context files and follow \
                           their rules and conventions.";

/// Why nothing but the frame is there.
pub(crate) const ALONE: &str =
    "the constitution, the files to read and the instruction leave no room for anything else";

/// How a packet is written.
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

/// The sections that are chosen from, in the order in which they are written.
const CHOSEN: [(Section, &str); 4] = [
    (Section::Tasks, "## Current Tasks\n\n"),
    (Section::Conventions, "## Key Conventions\n\n"),
    (Section::Decisions, "## Recent Decisions\n\n"),
    (Section::Learnings, "## Recent Learnings\n\n"),
];

/// How everything looks that may be in a packet.
#[derive(Debug)]
pub(crate) struct Pieces {
    format: PacketFormat,
    read_order: Vec<String>,
    rules: Vec<String>,
    /// By the entry's place in the pool.
    entries: Vec<Piece>,
}

/// What a packet says about itself, and what stands in it whatever is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pieces: Arc<Pieces>,
    budget: usize,
    max_characters: Option<usize>,
    generated: Option<Timestamp>,
}

/// What is in a packet besides the frame.
struct Contents<'c> {
    /// Places in the pool, by section, of what is whole.
    sections: [Vec<usize>; 4],
    /// What is short.
    notes: Vec<&'c str>,
    /// What is said about those that are left out.
    more: Option<String>,
    room: Room,
    /// About how long the text will be.
    length: usize,
}

#[derive(Debug)]
struct Piece {
    /// Which of the sections that are chosen from.
    section: usize,
    whole: String,
    short: String,
    /// Whether it is missed where it is left out. What is superseded is not.
    is_missed: bool,
}

/// What there is room for besides the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// As much as fits, and how many of what are left out.
    Rest,
    /// Only for how many are left out.
    Count,
    /// Nothing at all.
    Nothing,
    /// Not even for the frame, and the packet says so.
    Over,
}

impl Pieces {
    /// The looks of these entries, which are those of the pool, and of everything that is always there.
    pub(crate) fn new(memory: &Memory, entries: &[&Entry], format: PacketFormat) -> Self {
        let rules = memory.section(Section::Constitution);
        let mut written = Vec::with_capacity(rules.len());
        for (number, rule) in rules.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| rules[before].lead());
            written.push(match (format, rule.lead()) {
                (PacketFormat::Json, _) => json(&content(rule)),
                (PacketFormat::Markdown, None) => bullet("- ", rule.text()),
                (PacketFormat::Markdown, Some(lead)) if before == Some(lead) => {
                    bullet("  - ", rule.text())
                }
                (PacketFormat::Markdown, Some(lead)) => {
                    bullet("- ", lead) + &bullet("  - ", rule.text())
                }
            });
        }
        Self {
            format,
            read_order: memory.read_order().to_vec(),
            rules: written,
            entries: entries.iter().map(|entry| Piece::new(entry, format)).collect(),
        }
    }

    /// What is written of each entry, whole and short. What an entry costs is what this costs.
    pub(crate) fn forms(&self) -> impl Iterator<Item = [Cow<'_, str>; 2]> {
        let entries = self.entries.iter().map(|piece| [piece.whole.as_str(), piece.short.as_str()]);
        entries.map(|forms| {
            forms.map(|form| match self.format {
                PacketFormat::Markdown => Cow::Borrowed(form),
                PacketFormat::Json => Cow::Owned(format!("{form},")),
            })
        })
    }
}

impl Frame {
    pub(crate) fn new(pieces: Arc<Pieces>, options: &PacketOptions) -> Self {
        Self {
            pieces,
            budget: options.budget,
            max_characters: options.max_characters,
            generated: options.tells_time.then_some(options.now),
        }
    }

    /// The files to read. Without a budget, not even they are told.
    fn read_order(&self) -> &[String] {
        if self.budget == 0 { &[] } else { &self.pieces.read_order }
    }

    /// The text before the number of tokens, and the one behind it.
    ///
    /// What is placed is given by its index, and whether it is short.
    fn around_number(
        &self,
        placed: impl Iterator<Item = (usize, bool)>,
        room: Room,
    ) -> (String, String) {
        let mut sections: [Vec<usize>; 4] = Default::default();
        let mut notes: Vec<&str> = Vec::new();
        let mut missed: [usize; 4] = [0; 4];
        for piece in self.pieces.entries.iter().filter(|piece| piece.is_missed) {
            missed[piece.section] += 1;
        }
        let mut length = 1_024 + self.pieces.rules.iter().map(String::len).sum::<usize>();
        for (index, is_short) in placed {
            let piece = &self.pieces.entries[index];
            if piece.is_missed {
                missed[piece.section] -= 1;
            }
            if is_short {
                notes.push(&piece.short);
                length += piece.short.len();
            } else {
                sections[piece.section].push(index);
                length += piece.whole.len() + 1;
            }
        }
        // Lists read as their files do; the rest by rank.
        sections[0].sort_unstable();
        sections[1].sort_unstable();
        let all: usize = missed.iter().sum();
        let more = match room {
            Room::Rest => more(&missed),
            Room::Count if all > 0 => Some(format!("+{all} more")),
            Room::Over if all > 0 => Some(format!("over budget, +{all} more")),
            Room::Over => Some("over budget".to_owned()),
            Room::Count | Room::Nothing => None,
        };
        let contents = Contents { sections, notes, more, room, length };
        match self.pieces.format {
            PacketFormat::Markdown => self.markdown(contents),
            PacketFormat::Json => self.json(contents),
        }
    }

    fn markdown(&self, contents: Contents<'_>) -> (String, String) {
        let Contents { sections, notes, more, room, length } = contents;
        let mut text = String::with_capacity(length);
        let budget = self.budget;
        let limit =
            self.max_characters.map_or_else(String::new, |most| format!(", {most} characters"));
        let head = format!("# Context Packet\n\nBudget: {budget} tokens{limit} | Used: ");
        text.push_str(" tokens");
        // Where there is no room for notes, it is said where it costs least.
        if let Some(more) = more.as_ref().filter(|_| room != Room::Rest) {
            text.push_str(&format!(" | {more}"));
        }
        text.push_str("\n\n");
        if !self.read_order().is_empty() {
            text.push_str("## Read These Files\n\n");
            for (number, path) in self.read_order().iter().enumerate() {
                text.push_str(&format!("{}. {path}\n", number + 1));
            }
            text.push('\n');
        }
        if !self.pieces.rules.is_empty() {
            text.push_str("## Constitution (NEVER VIOLATE)\n\n");
            self.pieces.rules.iter().for_each(|rule| text.push_str(rule));
            text.push('\n');
        }
        for (indices, (section, heading)) in sections.iter().zip(CHOSEN) {
            if indices.is_empty() {
                continue;
            }
            text.push_str(heading);
            indices.iter().for_each(|index| text.push_str(&self.pieces.entries[*index].whole));
            text.push_str(end(section));
        }
        let more = more.filter(|_| room == Room::Rest);
        if !notes.is_empty() || more.is_some() {
            text.push_str("Also noted:\n\n");
            notes.iter().for_each(|note| text.push_str(note));
            if let Some(more) = more {
                text.push_str(&format!("- {more}\n"));
            }
            text.push('\n');
        }
        text.push_str(INSTRUCTION);
        text.push('\n');
        (head, text)
    }

    fn json(&self, contents: Contents<'_>) -> (String, String) {
        let Contents { sections, notes, more, length, .. } = contents;
        let (mut head, mut text) = (String::from("{"), String::with_capacity(length));
        if let Some(time) = self.generated {
            head.push_str(&format!("\"generated\":\"{time}\","));
        }
        head.push_str(&format!("\"budget\":{},\"tokens_used\":", self.budget));
        let mut list = |name: &str, pieces: &mut dyn Iterator<Item = &str>| {
            text.push_str(&format!(",\"{name}\":["));
            for (number, piece) in pieces.enumerate() {
                if number > 0 {
                    text.push(',');
                }
                text.push_str(piece);
            }
            text.push(']');
        };
        let read_order: Vec<String> = self.read_order().iter().map(|path| json(path)).collect();
        list("read_order", &mut read_order.iter().map(String::as_str));
        list("constitution", &mut self.pieces.rules.iter().map(String::as_str));
        for (indices, (section, _)) in sections.iter().zip(CHOSEN) {
            let pieces = indices.iter().map(|index| self.pieces.entries[*index].whole.as_str());
            list(section.name(), &mut { pieces });
        }
        let more = more.map(|more| json(&more));
        list("summaries", &mut notes.iter().copied().chain(more.as_deref()));
        text.push_str(&format!(",\"instruction\":{}}}\n", json(INSTRUCTION)));
        (head, text)
    }
}

impl Piece {
    fn new(entry: &Entry, format: PacketFormat) -> Self {
        let section = CHOSEN.iter().position(|(section, _)| *section == entry.section());
        let content = content(entry);
        let (whole, short) = match (format, entry.section()) {
            (PacketFormat::Json, _) => {
                (json(&format!("{}{content}", day(entry))), json(&short_content(entry)))
            }
            (PacketFormat::Markdown, of) => {
                let whole = match of {
                    Section::Tasks => bullet("- [ ] ", &content),
                    Section::Decisions | Section::Learnings => {
                        format!("### {}{}\n\n", day(entry), below_entry(&content))
                    }
                    _ => bullet("- ", &content),
                };
                (whole, bullet("- ", &short_content(entry)))
            }
        };
        Self {
            // Rules are in no pool.
            section: section.unwrap_or_default(),
            whole,
            short,
            is_missed: !entry.is_superseded(),
        }
    }
}

/// What an entry says: of a decision or a learning with its title, of others with what introduces them.
pub(crate) fn content(entry: &Entry) -> String {
    let (title, text) = (entry.title(), entry.text());
    match (entry.section().is_dated(), entry.lead()) {
        (true, _) if text.is_empty() => title.to_owned(),
        (true, _) => format!("{title}\n\n{text}"),
        (false, None) => text.to_owned(),
        // A block that is no paragraph cannot go on with the line.
        (false, Some(lead)) if is_block(text) => format!("{lead}\n\n{text}"),
        (false, Some(lead)) => format!("{lead} {text}"),
    }
}

/// Whether a text begins with something else than a paragraph, as far as its first characters tell.
fn is_block(text: &str) -> bool {
    let marks = ["```", "~~~", ">", "|", "#", "- ", "* ", "+ ", "    ", "<"];
    let digits = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let is_numbered = digits.len() < text.len() && digits.starts_with([')', '.']);
    is_numbered || marks.iter().any(|mark| text.starts_with(mark))
}

/// The day of a decision or a learning, in brackets.
fn day(entry: &Entry) -> String {
    let date = entry.date().filter(|_| entry.section().is_dated());
    date.map(|date| format!("[{:.10}] ", date.to_string())).unwrap_or_default()
}

/// A text whose headings are below that of an entry in a packet. Those that are underlined stay.
fn below_entry(text: &str) -> Cow<'_, str> {
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

/// How many characters of a title are told: some tasks are a paragraph in one line.
const LONGEST_TITLE: usize = 200;

/// What ends a section, beside what ends its last entry.
fn end(section: Section) -> &'static str {
    if section.is_dated() { "" } else { "\n" }
}

/// What is told of an entry that does not fit.
pub(crate) fn short_content(entry: &Entry) -> String {
    let title = entry.title();
    let Some((end, _)) = title.char_indices().nth(LONGEST_TITLE) else {
        return title.to_owned();
    };
    // At the last word, unless that is most of it.
    let cut = &title[..end];
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > end / 2).unwrap_or(end);
    format!("{} …", cut[..word].trim_end())
}

/// A list item whose further lines are indented as its first one is.
fn bullet(mark: &str, text: &str) -> String {
    let indent = if mark.starts_with(' ') { "    " } else { "  " };
    let mut item = String::with_capacity(mark.len() + text.len() + 16);
    for (number, line) in text.lines().enumerate() {
        match (number, line.is_empty()) {
            (0, _) => item.push_str(mark),
            (_, true) => {}
            (_, false) => item.push_str(indent),
        }
        item.push_str(line);
        item.push('\n');
    }
    item
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// How many are left out, by what they are.
fn more(missed: &[usize; 4]) -> Option<String> {
    let all: usize = missed.iter().sum();
    if all == 0 {
        return None;
    }
    let kinds = missed.iter().zip(CHOSEN).filter(|(count, _)| **count > 0);
    let kinds = kinds.map(|(count, (section, _))| {
        // Their names are plural words.
        let name = section.name();
        format!("{count} {}", if *count == 1 { &name[..name.len() - 1] } else { name })
    });
    Some(format!("+{all} more: {}", kinds.collect::<Vec<_>>().join(", ")))
}

/// How packets are sent, and what that costs.
#[derive(Clone)]
pub(crate) struct PacketRendering {
    frame: Frame,
    counter: Arc<dyn TokenCounter>,
    room: Room,
    /// What the frame costs.
    fixed: i64,
    /// What the headings of the sections cost.
    headings: [i64; 4],
    /// What everything costs together, once it is counted.
    whole_tokens: Option<usize>,
}

impl PacketRendering {
    pub(crate) fn new(frame: Frame, counter: Arc<dyn TokenCounter>, room: Room) -> Self {
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        let headings = CHOSEN.map(|(section, heading)| match frame.pieces.format {
            PacketFormat::Markdown => count(&format!("{heading}{}", end(section))),
            PacketFormat::Json => 0,
        });
        let mut rendering = Self { frame, counter, room, fixed: 0, headings, whole_tokens: None };
        // As if the number were as long as it may become.
        let (head, tail) = rendering.frame.around_number([].into_iter(), room);
        let number = rendering.frame.budget.max(rendering.alone().1);
        let fixed = rendering.counter.count(&format!("{head}{number}{tail}"));
        rendering.fixed = i64::try_from(fixed).unwrap_or(i64::MAX);
        rendering
    }

    /// What the frame costs.
    pub(crate) fn fixed(&self) -> i64 {
        self.fixed
    }

    /// The text of what is placed, and how many tokens it has, as it says.
    pub(crate) fn text(&self, placed: &Placed<'_>) -> (String, usize) {
        let (head, tail) = self.around_number(placed);
        self.numbered(&head, &tail)
    }

    /// The text of the frame alone.
    pub(crate) fn alone(&self) -> (String, usize) {
        let (head, tail) = self.frame.around_number([].into_iter(), self.room);
        self.numbered(&head, &tail)
    }

    /// What everything costs, all of it.
    pub(crate) fn count_whole(&mut self) -> usize {
        let all = (0..self.frame.pieces.entries.len()).map(|index| (index, false));
        let (head, tail) = self.frame.around_number(all, self.room);
        *self.whole_tokens.insert(self.numbered(&head, &tail).1)
    }

    /// Whether this is everything, and far too much. That is asked first, and mostly so.
    fn is_far_too_much(&self, placed: &Placed<'_>, limit: usize) -> bool {
        // In another order it may cost a little more or less.
        self.whole_tokens.is_some_and(|tokens| tokens / 2 > limit)
            && placed.indices().len() == self.frame.pieces.entries.len()
            && !placed.shortened().any(|is_short| is_short)
    }

    fn around_number(&self, placed: &Placed<'_>) -> (String, String) {
        self.frame.around_number(placed.indices().zip(placed.shortened()), self.room)
    }

    /// Writes the smallest number between the two that is then true.
    fn numbered(&self, head: &str, tail: &str) -> (String, usize) {
        let mut text = String::with_capacity(head.len() + tail.len() + 20);
        text.push_str(head);
        text.push('0');
        text.push_str(tail);
        // From below: a longer number never makes a text shorter, so that the first that holds is the smallest.
        let (mut number, mut largest, mut digits) = (0, 0, 1);
        for _ in 0..16 {
            let count = self.counter.count(&text);
            if count == number {
                return (text, number);
            }
            largest = largest.max(count);
            number = count;
            write_number(&mut text, head.len(), &mut digits, number);
        }
        // Where an encoding makes it go in circles, the largest of them is not too small.
        write_number(&mut text, head.len(), &mut digits, largest);
        (text, largest)
    }
}

/// Writes another number in the place of one that has so many digits.
fn write_number(text: &mut String, place: usize, digits: &mut usize, number: usize) {
    let written = number.to_string();
    text.replace_range(place..place + *digits, &written);
    *digits = written.len();
}

impl Rendering for PacketRendering {
    fn cost(&self, placed: &Placed<'_>) -> Cost {
        if placed.indices().len() == 0 {
            return Cost { fixed: self.fixed, ..Cost::default() };
        }
        let total = i64::try_from(self.text(placed).1).unwrap_or(i64::MAX);
        Cost::of_whole(total, self.fixed, 0, placed.tokens())
    }

    fn heading(&self, index: usize, _: &ContextItem) -> i64 {
        self.headings[self.frame.pieces.entries[index].section]
    }

    fn fits(&self, placed: &Placed<'_>, limit: i64) -> bool {
        let limit = usize::try_from(limit).unwrap_or_default();
        if self.is_far_too_much(placed, limit) {
            return false;
        }
        let (head, tail) = self.around_number(placed);
        // Most texts that do not fit are far too long, and need not be counted to the end.
        self.counter.count_up_to(&tail, limit).is_some() && self.numbered(&head, &tail).1 <= limit
    }

    fn refuses(&self, _: usize, _: &ContextItem) -> Option<&str> {
        (self.room != Room::Rest).then_some(ALONE)
    }
}
