//! What of a Markdown text matters here: its headings, the items of its lists, its comments and its code.
//!
//! A parser reads the text, not a pattern over its lines, because what looks like an entry may stand in a code block or in
//! a comment, and what does not look like one may belong to the item above it. Entries are then cut out of the source by
//! the spans that the parser gives, so that they are printed as they were written.
//!
//! # How long it takes
//!
//! Files are foreign. The parser keeps its own stack, so that nothing overflows, and is linear but for one thing: it goes
//! through all containers that are open for each line, even an empty one. A line with a hundred thousand bullets followed
//! by as many empty lines would take minutes. No line nests deeper than [`MAX_DEPTH`] here: the beginning of one that does
//! is cut off, and a warning says so. Files have a largest size, and everything else is done once for each byte, or
//! by a binary search.

use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::{MAX_DEPTH, columns, dedent, normalize_newlines, strip_blockquote, trimmed};

/// Longer paragraphs do not intro into a list.
const MAX_INTRO_BYTES: usize = 300;

/// What is appended to a text before it is parsed. If it is not read as a heading, something before it is still open.
const END_PROBE: &str = "\n\n# x\n";

/// A Markdown text, and the spans in it that matter.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    text: String,
    /// Where lines begin.
    lines: Vec<usize>,
    /// Headings with `#` that stand in no list and no quotation.
    pub(crate) headings: Vec<Heading>,
    /// The items of all lists, each before those in it. Those in a quotation within an item are part of the quotation.
    pub(crate) items: Vec<Item>,
    comments: Vec<Range<usize>>,
    code: Vec<Range<usize>>,
    /// Whether there is anything but headings, comments and an index.
    pub(crate) has_content: bool,
    /// A code block or a comment that goes on to the end, because nothing closes it.
    pub(crate) unclosed: Option<Unclosed>,
    /// Lines that nest too deep.
    pub(crate) deep_lines: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) level: u8,
    pub(crate) range: Range<usize>,
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// From its bullet on.
    pub(crate) range: Range<usize>,
    /// In how many items it stands.
    pub(crate) depth: usize,
    /// In how many quotations its list stands.
    quotes: usize,
    /// What intros into its list: the paragraph right before it, if that ends with a colon.
    pub(crate) list_intro: Option<Arc<str>>,
    /// Where its text begins, in bytes of the whole and in columns of its line.
    start: usize,
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclosed {
    pub(crate) line: usize,
    pub(crate) is_code: bool,
}

impl Outline {
    pub(crate) fn new(text: &str) -> Self {
        let (mut text, deep_lines) = normalize_newlines(text);
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = [0].into_iter().chain(breaks).collect();
        let end = text.len();
        text.push_str(END_PROBE);
        let mut reader = Reader { text: &text, end, ..Reader::default() };
        reader.read();
        let Reader { headings, spans, intros, comments, code, has_content, indexed, open, .. } =
            reader;
        text.truncate(end);
        let mut outline =
            Self { text, lines, headings, comments, code, deep_lines, ..Self::default() };
        // What follows the beginning of an index without an end is no index.
        outline.has_content = has_content || indexed == Some(true);
        let intros = intros.into_iter().map(|intro| outline.list_intro(intro?)).collect::<Vec<_>>();
        let items = spans.into_iter().map(|place| outline.item(place, &intros));
        outline.items = items.collect();
        outline.unclosed = open.map(|(at, is_code)| Unclosed { line: outline.line(at), is_code });
        outline
    }

    /// The text, with even line breaks.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// In which line a place is, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Whether a place is within a code block or a comment.
    pub(crate) fn is_code_or_comment(&self, at: usize) -> bool {
        [&self.code, &self.comments].iter().any(|ranges| {
            let after = ranges.partition_point(|range| range.start <= at);
            after.checked_sub(1).is_some_and(|before| at < ranges[before].end)
        })
    }

    /// Whether there is a comment within a range.
    pub(crate) fn has_comment(&self, range: &Range<usize>) -> bool {
        let first = self.comments.partition_point(|comment| comment.end <= range.start);
        self.comments.get(first).is_some_and(|comment| comment.start < range.end)
    }

    /// Where a range ends that is to have no comment and no empty line at its end.
    pub(crate) fn trimmed_end(&self, range: &Range<usize>) -> usize {
        let mut end = range.end;
        loop {
            end = range.start + self.text[range.start..end].trim_end().len();
            let after = self.comments.partition_point(|comment| comment.end <= end);
            match after.checked_sub(1).map(|before| &self.comments[before]) {
                Some(comment) if comment.end == end && comment.start >= range.start => {
                    end = comment.start;
                }
                _ => return end,
            }
        }
    }

    /// A range without its comments. Lines that hold nothing else go as well.
    pub(crate) fn without_comments(&self, range: Range<usize>) -> String {
        let first = self.comments.partition_point(|comment| comment.end <= range.start);
        let mut kept = String::new();
        let mut at = range.start;
        // Where the last line of what is kept begins, and whether there is anything in it: so that a line with many
        // comments is not read again for each.
        let (mut begun, mut is_blank) = (0, true);
        for comment in &self.comments[first..] {
            if comment.start >= range.end {
                break;
            }
            let before = &self.text[at..comment.start.max(at)];
            if let Some(end) = before.rfind('\n') {
                (begun, is_blank) = (kept.len() + end + 1, before[end..].trim().is_empty());
            } else {
                is_blank &= before.trim().is_empty();
            }
            kept.push_str(before);
            at = comment.end.min(range.end);
            let rest = &self.text[at..range.end];
            if is_blank && let Some(length) = blank_line(rest) {
                kept.truncate(begun);
                at += length;
                let is_after_gap = kept.is_empty() || kept.ends_with("\n\n");
                let gap = self.text[at..range.end].starts_with('\n');
                at += usize::from(is_after_gap && gap);
            } else if kept.ends_with(|last: char| !last.is_whitespace())
                && rest.starts_with(|next: char| !next.is_whitespace())
            {
                // What stood on both sides must not become one word, let alone another comment.
                kept.push(' ');
            }
        }
        kept.push_str(&self.text[at..range.end]);
        kept
    }

    /// The text of an item as if it stood at the beginning of a line: without its bullet, its comments and its
    /// indentation. What is still open at its end is closed.
    pub(crate) fn item_text(&self, item: &Item, skip: usize) -> String {
        let kept = self.without_comments((item.start + skip).min(item.range.end)..item.range.end);
        let mut lines = kept.split('\n');
        let first = lines.next().unwrap_or_default();
        let words = first.trim_start_matches([' ', '\t']);
        // How far a tab reaches depends on where it stands.
        let indent = columns(item.column, &first[..first.len() - words.len()]) - item.column;
        let mut text = " ".repeat(indent) + words;
        for line in lines {
            text.push('\n');
            dedent(&mut text, strip_blockquote(line, item.quotes), item.column);
        }
        close_open_blocks(trimmed(&text))
    }

    /// Where the text of an item begins.
    pub(crate) fn item_start<'a>(&'a self, item: &Item) -> &'a str {
        &self.text[item.start..item.range.end]
    }

    /// Finds out where the text of an item begins: behind its bullet and the blanks after it, unless they are so many
    /// that they begin a code block.
    fn item(&self, place: ItemSpan, intros: &[Option<Arc<str>>]) -> Item {
        let ItemSpan { range, depth, quotes, list } = place;
        let list_intro = intros.get(list).cloned().flatten().filter(|_| depth == 0);
        let indented = &self.text[range.clone()];
        // Below an item that is indented by a tab, the parser begins at the end of the line before.
        let indent = indented.len() - indented.trim_start_matches([' ', '\t', '\n']).len();
        let range = range.start + indent..range.end;
        let line = self.lines[self.line(range.start) - 1];
        let before = columns(0, strip_blockquote(&self.text[line..range.start], quotes));
        let source = &self.text[range.clone()];
        let digits = source.bytes().take_while(u8::is_ascii_digit).count();
        let marker = (digits + 1).min(source.len());
        let behind = &source[marker..];
        let blanks = behind.len() - behind.trim_start_matches([' ', '\t']).len();
        let bullet = before + marker;
        let column = columns(bullet, &behind[..blanks]);
        let is_empty = behind[blanks..].is_empty() || behind[blanks..].starts_with('\n');
        if is_empty || column - bullet > 4 {
            let start = range.start + marker + usize::from(blanks > 0);
            return Item { range, depth, quotes, list_intro, start, column: bullet + 1 };
        }
        Item { start: range.start + marker + blanks, range, depth, quotes, list_intro, column }
    }

    /// What a paragraph right before a list says, in one line, if it intros into the list.
    fn list_intro(&self, paragraph: Range<usize>) -> Option<Arc<str>> {
        if paragraph.len() > MAX_INTRO_BYTES {
            return None;
        }
        let text = self.without_comments(paragraph);
        let lines: Vec<&str> =
            text.lines().map(|line| strip_blockquote(line, MAX_DEPTH).trim()).collect();
        let intro = lines.join(" ");
        intro.ends_with(':').then(|| intro.into())
    }
}

/// How long the rest of a line is, its end included, if there is nothing in it.
fn blank_line(text: &str) -> Option<usize> {
    let rest =
        text.trim_start_matches(|character: char| character != '\n' && character.is_whitespace());
    let length = text.len() - rest.len();
    match rest.is_empty() {
        true => Some(length),
        false => rest.starts_with('\n').then_some(length + 1),
    }
}

/// An item as the parser gives it.
#[derive(Debug)]
struct ItemSpan {
    range: Range<usize>,
    depth: usize,
    quotes: usize,
    /// Which of the outermost lists it is in.
    list: usize,
}

/// What is gathered on the way through a text.
#[derive(Debug, Default)]
struct Reader<'t> {
    text: &'t str,
    /// Where the text ends, and the probe begins.
    end: usize,
    headings: Vec<Heading>,
    spans: Vec<ItemSpan>,
    /// For each outermost list, the paragraph right before it.
    intros: Vec<Option<Range<usize>>>,
    /// The last paragraph that stood in no list.
    paragraph: Option<Range<usize>>,
    comments: Vec<Range<usize>>,
    code: Vec<Range<usize>>,
    has_content: bool,
    /// Within an index: whether there is anything in it.
    indexed: Option<bool>,
    /// Where the last code block or block of HTML begins, and whether it is code.
    open: Option<(usize, bool)>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let (mut items, mut outer_quotes, mut inner_quotes) = (0_usize, 0_usize, 0_usize);
        let (mut is_heading, mut is_closed) = (false, false);
        let events = Parser::new_ext(self.text, Options::ENABLE_TASKLISTS).into_offset_iter();
        for (event, range) in events {
            if range.start >= self.end && matches!(event, Event::Start(Tag::Heading { .. })) {
                is_closed = true;
                break;
            }
            let range = range.start.min(self.end)..range.end.min(self.end);
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    is_heading = true;
                    if items + outer_quotes == 0
                        && self.text[range.clone()].trim_start_matches(' ').starts_with('#')
                    {
                        self.headings.push(Heading { level: level as u8, range });
                    }
                }
                Event::End(TagEnd::Heading(_)) => is_heading = false,
                Event::Start(Tag::BlockQuote(_)) if items == 0 => outer_quotes += 1,
                Event::End(TagEnd::BlockQuote(_)) if items == 0 => outer_quotes -= 1,
                Event::Start(Tag::BlockQuote(_)) => inner_quotes += 1,
                Event::End(TagEnd::BlockQuote(_)) => inner_quotes -= 1,
                Event::Start(Tag::Item) => {
                    if inner_quotes == 0 {
                        let list = self.intros.len().saturating_sub(1);
                        let (depth, quotes) = (items, outer_quotes);
                        self.spans.push(ItemSpan { range, depth, quotes, list });
                    }
                    items += 1;
                }
                Event::End(TagEnd::Item) => items -= 1,
                Event::Start(Tag::Paragraph) if items == 0 => self.paragraph = Some(range),
                Event::Start(Tag::List(_)) if items == 0 => {
                    let intro = self.paragraph.take().filter(|paragraph| {
                        let between = &self.text[paragraph.end.min(range.start)..range.start];
                        between
                            .trim_matches(|mark: char| mark == '>' || mark.is_whitespace())
                            .is_empty()
                    });
                    self.intros.push(intro);
                }
                Event::Start(Tag::CodeBlock(_)) => {
                    self.open = Some((range.start, true));
                    self.code.push(range);
                    self.content();
                }
                Event::Start(Tag::HtmlBlock) => {
                    self.open = Some((range.start, false));
                    self.html(range);
                }
                Event::InlineHtml(html) if html.starts_with("<!--") => self.comment(range),
                Event::Text(text) | Event::Code(text) | Event::InlineHtml(text)
                    if !is_heading && !text.trim().is_empty() =>
                {
                    self.content();
                }
                _ => {}
            }
        }
        if is_closed {
            self.open = None;
        }
    }

    fn content(&mut self) {
        match &mut self.indexed {
            Some(indexed) => *indexed = true,
            None => self.has_content = true,
        }
    }

    /// Finds the comments in a block of HTML. One that is not closed goes on to the end of the block.
    fn html(&mut self, block: Range<usize>) {
        let mut at = block.start;
        while at < block.end {
            let rest = &self.text[at..block.end];
            let Some(begin) = rest.find("<!--") else { break };
            // The two dashes that open a comment may be those that close it.
            let close = rest[begin + 2..].find("-->").map(|close| begin + 2 + close + 3);
            let end = close.unwrap_or(rest.len());
            if !rest[..begin].trim().is_empty() {
                self.content();
            }
            self.comment(at + begin..at + end);
            at += end;
        }
        if !self.text[at..block.end].trim().is_empty() {
            self.content();
        }
    }

    fn comment(&mut self, range: Range<usize>) {
        let said = self.text[range.clone()].trim_start_matches("<!--").trim_end_matches("-->");
        match said.trim() {
            "INDEX:START" => self.indexed = self.indexed.or(Some(false)),
            "INDEX:END" => self.indexed = None,
            _ => {}
        }
        self.comments.push(range);
    }
}

/// Closes what is still open at the end of a text, so that it does not swallow what is printed after it: a code block, or a
/// block of HTML that does not end with an empty line.
pub(crate) fn close_open_blocks(text: String) -> String {
    let may_be_open = |line: &str| {
        let line = line.trim_start();
        ["```", "~~~", "<"].iter().any(|mark| line.starts_with(mark))
    };
    if !text.lines().any(may_be_open) {
        return text;
    }
    let Some(open) = open_block(&text) else { return text };
    let mark = text[open..].trim_start();
    let fence = match mark.chars().next() {
        Some(first @ ('`' | '~')) => &mark[..mark.len() - mark.trim_start_matches(first).len()],
        _ => "",
    };
    let endings =
        [fence, "-->", "?>", "]]>", ">", "</pre>", "</script>", "</style>", "</textarea>"];
    let mut endings = endings.iter().filter(|ending| !ending.is_empty());
    let closed = endings.find_map(|ending| {
        let closed = format!("{text}\n{ending}");
        open_block(&closed).is_none().then_some(closed)
    });
    closed.unwrap_or(text)
}

/// Where a block begins that is still open at the end of a text.
fn open_block(text: &str) -> Option<usize> {
    let probed = format!("{text}{END_PROBE}");
    let mut reader = Reader { text: &probed, end: text.len(), ..Reader::default() };
    reader.read();
    reader.open.map(|(at, _)| at)
}
