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
    whole_tokens: usize,
    short: String,
    short_tokens: usize,
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
    /// The looks of these entries, which are those of the pool and say this, and of everything that is always there.
    pub(crate) fn new(
        memory: &Memory,
        entries: &[(&Entry, Cow<'_, str>, Cow<'_, str>)],
        format: PacketFormat,
        counter: &dyn TokenCounter,
    ) -> Self {
        let rules = memory.section(Section::Constitution);
        let mut written = Vec::with_capacity(rules.len());
        for (number, rule) in rules.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| rules[before].lead());
            written.push(match (format, rule.lead()) {
                (PacketFormat::Json, _) => part(&content(rule)),
                (PacketFormat::Markdown, None) => bullet("- ", rule.text()),
                (PacketFormat::Markdown, Some(lead)) if before == Some(lead) => {
                    bullet("  - ", rule.text())
                }
                (PacketFormat::Markdown, Some(lead)) => {
                    bullet("- ", lead) + &bullet("  - ", rule.text())
                }
            });
        }
        let looks =
            entries.iter().map(|(entry, content, short)| Piece::new(entry, content, short, format));
        let mut pieces: Vec<Piece> = looks.collect();
        let texts = pieces.iter().flat_map(|piece| [piece.whole.as_str(), piece.short.as_str()]);
        let counts = counter.count_each(&texts.collect::<Vec<_>>());
        for (piece, counts) in pieces.iter_mut().zip(counts.chunks_exact(2)) {
            (piece.whole_tokens, piece.short_tokens) = (counts[0], counts[1]);
        }
        Self { format, read_order: memory.read_order().to_vec(), rules: written, entries: pieces }
    }

    /// What an entry costs, whole and short.
    pub(crate) fn tokens(&self, index: usize) -> (usize, usize) {
        let piece = &self.entries[index];
        (piece.whole_tokens, piece.short_tokens)
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

    /// The text, with a 0 for the number of tokens, and where that is.
    ///
    /// What is placed is given by its index, and whether it is short.
    fn text(&self, placed: impl Iterator<Item = (usize, bool)>, room: Room) -> (String, usize) {
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

    fn markdown(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, more, room, length } = contents;
        let mut text = String::with_capacity(length);
        let budget = self.budget;
        let limit =
            self.max_characters.map_or_else(String::new, |most| format!(", {most} characters"));
        text.push_str(&format!("# Context Packet\n\nBudget: {budget} tokens{limit} | Used: "));
        let number = text.len();
        text.push_str("0 tokens");
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
        (text, number)
    }

    fn json(&self, contents: Contents<'_>) -> (String, usize) {
        let Contents { sections, notes, more, length, .. } = contents;
        let mut text = String::with_capacity(length);
        text.push('{');
        if let Some(time) = self.generated {
            text.push_str(&format!("\"generated\":\"{time}\","));
        }
        text.push_str(&format!("\"budget\":{},\"tokens_used\":", self.budget));
        let number = text.len();
        text.push('0');
        // Each piece brings the comma behind it.
        let mut list = |name: &str, pieces: &mut dyn Iterator<Item = &str>| {
            text.push_str(&format!(",\"{name}\":["));
            pieces.for_each(|piece| text.push_str(piece));
            if text.ends_with(',') {
                text.pop();
            }
            text.push(']');
        };
        let read_order: Vec<String> = self.read_order().iter().map(|path| part(path)).collect();
        list("read_order", &mut read_order.iter().map(String::as_str));
        list("constitution", &mut self.pieces.rules.iter().map(String::as_str));
        for (indices, (section, _)) in sections.iter().zip(CHOSEN) {
            let pieces = indices.iter().map(|index| self.pieces.entries[*index].whole.as_str());
            list(section.name(), &mut { pieces });
        }
        let more = more.map(|more| part(&more));
        list("summaries", &mut notes.iter().copied().chain(more.as_deref()));
        text.push_str(&format!(",\"instruction\":{}}}\n", json(INSTRUCTION)));
        (text, number)
    }
}

impl Piece {
    /// The looks of an entry that says this. What they cost is not known yet.
    fn new(entry: &Entry, content: &str, short: &str, format: PacketFormat) -> Self {
        let section = CHOSEN.iter().position(|(section, _)| *section == entry.section());
        let (whole, short) = match (format, entry.section()) {
            (PacketFormat::Json, _) => (part(&format!("{}{content}", day(entry))), part(short)),
            (PacketFormat::Markdown, of) => {
                let whole = match of {
                    Section::Tasks => bullet("- [ ] ", content),
                    Section::Decisions | Section::Learnings => {
                        ["### ", &day(entry), &below_entry(content), "\n\n"].concat()
                    }
                    _ => bullet("- ", content),
                };
                (whole, bullet("- ", short))
            }
        };
        Self {
            // Rules are in no pool.
            section: section.unwrap_or_default(),
            whole,
            whole_tokens: 0,
            short,
            short_tokens: 0,
            is_missed: !entry.is_superseded(),
        }
    }
}

/// What an entry says: of a decision or a learning with its title, of others with what introduces them.
pub(crate) fn content(entry: &Entry) -> Cow<'_, str> {
    let (title, text) = (entry.title(), entry.text());
    let parts = match (entry.section().is_dated(), entry.lead()) {
        (true, _) if text.is_empty() => return title.into(),
        (true, _) => [title, "\n\n", text],
        (false, None) => return text.into(),
        // A block that is no paragraph cannot go on with the line.
        (false, Some(lead)) if is_block(text) => [lead, "\n\n", text],
        (false, Some(lead)) => [lead, " ", text],
    };
    parts.concat().into()
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
    date.map(|date| ["[", &date.to_string()[..10], "] "].concat()).unwrap_or_default()
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
pub(crate) fn short_content(entry: &Entry) -> Cow<'_, str> {
    let title = entry.title();
    let longer = (title.len() > LONGEST_TITLE).then(|| title.char_indices().nth(LONGEST_TITLE));
    let Some((end, _)) = longer.flatten() else {
        return title.into();
    };
    // At the last word, unless that is most of it.
    let cut = &title[..end];
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > end / 2).unwrap_or(end);
    format!("{} …", cut[..word].trim_end()).into()
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

/// A text as JSON writes it. That of no text fails.
fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A text in a list of JSON.
fn part(text: &str) -> String {
    let mut part = json(text);
    part.push(',');
    part
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
}

impl PacketRendering {
    pub(crate) fn new(frame: Frame, counter: Arc<dyn TokenCounter>, room: Room) -> Self {
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        let headings = CHOSEN.map(|(section, heading)| match frame.pieces.format {
            PacketFormat::Markdown => count(&format!("{heading}{}", end(section))),
            PacketFormat::Json => 0,
        });
        let mut rendering = Self { frame, counter, room, fixed: 0, headings };
        // As if the number were as long as it may become.
        let (mut text, place) = rendering.frame.text([].into_iter(), room);
        let number = rendering.frame.budget.max(rendering.alone());
        write_number(&mut text, place, &mut 1, number);
        let fixed = rendering.counter.count(&text);
        rendering.fixed = i64::try_from(fixed).unwrap_or(i64::MAX);
        rendering
    }

    /// What the frame costs.
    pub(crate) fn fixed(&self) -> i64 {
        self.fixed
    }

    /// The text of what is placed, and how many tokens it has, as it says.
    pub(crate) fn text(&self, placed: &Placed<'_>) -> (String, usize) {
        self.written(placed.indices().zip(placed.shortened()))
    }

    /// What the frame alone costs.
    pub(crate) fn alone(&self) -> usize {
        self.written([].into_iter()).1
    }

    /// What everything costs, all of it.
    pub(crate) fn whole(&self) -> usize {
        self.written(self.everything()).1
    }

    /// Whether everything costs no more than this, all of it.
    pub(crate) fn whole_fits(&self, limit: usize) -> bool {
        !self.is_far_too_much(self.everything(), limit) && self.whole() <= limit
    }

    fn everything(&self) -> impl Iterator<Item = (usize, bool)> + Clone {
        (0..self.frame.pieces.entries.len()).map(|index| (index, false))
    }

    /// Whether a part of this is too much already. Where all of it is far too long, that is found sooner.
    fn is_far_too_much(
        &self,
        placed: impl Iterator<Item = (usize, bool)> + Clone,
        limit: usize,
    ) -> bool {
        let mut tokens = 0_usize;
        let enough = placed.clone().position(|(index, is_short)| {
            let (whole_tokens, short_tokens) = self.frame.pieces.tokens(index);
            tokens = tokens.saturating_add(if is_short { short_tokens } else { whole_tokens });
            // Together, parts may cost less than by themselves.
            tokens / 2 > limit
        });
        enough.is_some_and(|enough| {
            let (text, _) = self.frame.text(placed.take(enough + 1), self.room);
            self.counter.count_up_to(&text, limit).is_none()
        })
    }

    /// Writes the smallest number of tokens into a text that is then true.
    fn written(&self, placed: impl Iterator<Item = (usize, bool)>) -> (String, usize) {
        let (mut text, place) = self.frame.text(placed, self.room);
        // From below: a longer number never makes a text shorter, so that the first that holds is the smallest.
        let (mut number, mut largest, mut digits) = (0, 0, 1);
        for _ in 0..16 {
            let count = self.counter.count(&text);
            if count == number {
                return (text, number);
            }
            largest = largest.max(count);
            number = count;
            write_number(&mut text, place, &mut digits, number);
        }
        // Where an encoding makes it go in circles, the largest of them is not too small.
        write_number(&mut text, place, &mut digits, largest);
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
        let parts = placed.indices().zip(placed.shortened());
        !self.is_far_too_much(parts.clone(), limit) && self.written(parts).1 <= limit
    }

    fn refuses(&self, _: usize, _: &ContextItem) -> Option<&str> {
        (self.room != Room::Rest).then_some(ALONE)
    }
}
