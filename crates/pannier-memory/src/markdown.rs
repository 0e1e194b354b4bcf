//! Parses the outline of a Markdown text: headings, list items, comments and code blocks.
//!
//! A CommonMark parser is used rather than line patterns: an apparent entry may be inside a code block or a comment, and a
//! line without a marker may belong to the item above it. Entries are slices of the source at the parser's offsets, so they
//! are printed as written.
//!
//! # Complexity
//!
//! Files are untrusted. The parser keeps its own stack and takes linear time, with one exception: for each line, even an
//! empty one, it visits all open containers. A line of 100,000 bullets followed by as many empty lines would take minutes.
//! Therefore lines that nest deeper than [`MAX_DEPTH`] lose their prefix, with a warning. File sizes are limited, and all
//! other steps are linear scans or binary searches.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::{MAX_DEPTH, columns, dedent, normalize_newlines, strip_blockquote, trimmed};

/// Longer paragraphs are not introductions of a list.
const MAX_INTRO_BYTES: usize = 300;

/// A heading appended to a text before parsing. If it does not parse as a heading, a block before it is still open.
const END_PROBE: &str = "\n\n# x\n";

const COMMENT: &str = "<!--";

/// A Markdown text with the positions of its structure.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    text: String,
    /// The byte positions of line starts.
    lines: Vec<usize>,
    /// The `#` headings outside of lists and blockquotes.
    pub(crate) headings: Vec<Heading>,
    /// The items of all lists, parents before children. Items in a blockquote inside an item are not listed.
    pub(crate) items: Vec<Item>,
    /// The paragraphs that introduce the outermost lists, in the order of the lists.
    pub(crate) intros: Vec<Option<Range<usize>>>,
    comments: Vec<Range<usize>>,
    code: Vec<Range<usize>>,
    /// The ranges between the comments `INDEX:START` and `INDEX:END`.
    indexes: Vec<Range<usize>>,
    /// The lines of comments that are not closed. They hide the rest of their line, and nothing else.
    pub(crate) open_comments: BTreeSet<usize>,
    /// Whether there is anything but headings, comments and an index.
    pub(crate) has_content: bool,
    /// A code block or HTML block that is not closed.
    pub(crate) unclosed: Option<Unclosed>,
    /// The lines that nest deeper than [`MAX_DEPTH`].
    pub(crate) deep_lines: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) level: u8,
    pub(crate) range: Range<usize>,
}

/// A list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The bytes of the item, from its bullet on.
    pub(crate) range: Range<usize>,
    /// The number of items that contain it.
    pub(crate) depth: usize,
    /// The number of blockquotes that contain its list.
    quotes: usize,
    /// The number of its outermost list.
    pub(crate) list: usize,
    /// The paragraph directly before its list, if that ends with a colon.
    pub(crate) list_intro: Option<Arc<str>>,
    /// The start of its text: the byte position, and the column in its line.
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
        let (text, deep_lines) = normalize_newlines(text);
        let mut outline = Self::read(text);
        let mut hidden = BTreeSet::new();
        // A block of a comment that never ends hides the rest of the file. So the lines of such comments are blanked, first
        // one, then all that follow: a file of many takes two more passes.
        for is_last in [false, true] {
            let Some(line) = outline.open_comment() else { break };
            let mut lines: Vec<usize> = vec![line];
            if is_last {
                lines.extend((line + 1..=outline.lines.len()).filter(|line| {
                    let range = outline.line_range(*line);
                    outline.text[range].trim_start().starts_with(COMMENT)
                }));
            }
            let mut text = std::mem::take(&mut outline.text);
            for line in lines {
                let range = outline.line_range_in(&text, line);
                let blank = " ".repeat(range.len());
                text.replace_range(range, &blank);
                hidden.insert(line);
            }
            outline = Self::read(text);
        }
        let blanked: Vec<_> = hidden.iter().map(|line| outline.line_range(*line)).collect();
        outline.comments.extend(blanked);
        outline.comments.sort_unstable_by_key(|comment| comment.start);
        outline.open_comments.append(&mut hidden);
        Self { deep_lines, ..outline }
    }

    fn read(mut text: String) -> Self {
        let later_lines = text.match_indices('\n').map(|(index, _)| index + 1);
        let lines = [0].into_iter().chain(later_lines).collect();
        let end = text.len();
        text.push_str(END_PROBE);
        let mut reader = Reader { text: &text, end, ..Reader::default() };
        reader.read();
        let Reader { headings, spans, intros, comments, code, has_content, indexed, open, .. } =
            reader;
        let (indexes, open_comments) = (reader.indexes, reader.open_comments);
        text.truncate(end);
        let mut outline =
            Self { text, lines, headings, comments, code, indexes, ..Self::default() };
        outline.open_comments = open_comments.into_iter().map(|at| outline.line(at)).collect();
        // Without an end marker, the text after the start of an index is content.
        outline.has_content = has_content || indexed.is_some_and(|(_, has_content)| has_content);
        let texts: Vec<_> = intros.iter().map(|intro| outline.list_intro(intro.clone()?)).collect();
        let items = spans.into_iter().map(|span| outline.item(span, &texts));
        outline.items = items.collect();
        let used =
            intros.into_iter().zip(texts).map(|(range, text)| range.filter(|_| text.is_some()));
        outline.intros = used.collect();
        outline.unclosed =
            open.map(|(position, is_code)| Unclosed { line: outline.line(position), is_code });
        outline
    }

    /// Returns the line of a comment that is open to the end of the text.
    fn open_comment(&self) -> Option<usize> {
        let unclosed = self.unclosed.filter(|unclosed| !unclosed.is_code)?;
        let line = &self.text[self.line_range(unclosed.line)];
        // Quoted and listed comments end with their container.
        line.trim_start().starts_with(COMMENT).then_some(unclosed.line)
    }

    /// Returns the bytes of a line, counted from 1, without its line break.
    pub(crate) fn line_range(&self, line: usize) -> Range<usize> {
        self.line_range_in(&self.text, line)
    }

    fn line_range_in(&self, text: &str, line: usize) -> Range<usize> {
        let start = self.lines.get(line - 1).copied().unwrap_or(text.len());
        let end = self.lines.get(line).map_or(text.len(), |end| end - 1);
        start..end
    }

    /// Returns whether a byte position is between the marks of an index.
    pub(crate) fn is_in_index(&self, position: usize) -> bool {
        is_in(&self.indexes, position)
    }

    /// Returns the text with normalized line endings.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line of a byte position, counted from 1.
    pub(crate) fn line(&self, position: usize) -> usize {
        self.lines.partition_point(|start| *start <= position)
    }

    /// Returns whether a byte position is inside a code block or comment.
    pub(crate) fn is_code_or_comment(&self, position: usize) -> bool {
        is_in(&self.code, position) || is_in(&self.comments, position)
    }

    /// Returns the comments, ascending.
    pub(crate) fn comments(&self) -> &[Range<usize>] {
        &self.comments
    }

    /// Returns whether a range overlaps a comment.
    pub(crate) fn has_comment(&self, range: &Range<usize>) -> bool {
        let first = self.comments.partition_point(|comment| comment.end <= range.start);
        self.comments.get(first).is_some_and(|comment| comment.start < range.end)
    }

    /// Returns the end of a range without trailing comments and whitespace.
    pub(crate) fn trimmed_end(&self, range: &Range<usize>) -> usize {
        let mut end = range.end;
        loop {
            end = range.start + self.text[range.start..end].trim_end().len();
            let after = self.comments.partition_point(|comment| comment.end <= end);
            match after.checked_sub(1).map(|last| &self.comments[last]) {
                Some(comment) if comment.end == end && comment.start >= range.start => {
                    end = comment.start;
                }
                _ => return end,
            }
        }
    }

    /// Returns the text of a range without its comments, and without lines that contain nothing else.
    pub(crate) fn without_comments(&self, range: Range<usize>) -> String {
        let first = self.comments.partition_point(|comment| comment.end <= range.start);
        let mut kept = String::new();
        let mut next = range.start;
        // The start of the last line in `kept`, and whether that line is blank. Tracked here so that a line with many
        // comments is not scanned again for each.
        let (mut line_start, mut is_blank) = (0, true);
        for comment in &self.comments[first..] {
            if comment.start >= range.end {
                break;
            }
            let before = &self.text[next..comment.start.max(next)];
            if let Some(end) = before.rfind('\n') {
                (line_start, is_blank) = (kept.len() + end + 1, before[end..].trim().is_empty());
            } else {
                is_blank &= before.trim().is_empty();
            }
            kept.push_str(before);
            next = comment.end.min(range.end);
            let rest = &self.text[next..range.end];
            if is_blank && let Some(length) = blank_line(rest) {
                kept.truncate(line_start);
                next += length;
                let is_after_gap = kept.is_empty() || kept.ends_with("\n\n");
                let gap = self.text[next..range.end].starts_with('\n');
                next += usize::from(is_after_gap && gap);
            } else if kept.ends_with(|last: char| !last.is_whitespace())
                && rest.starts_with(|next: char| !next.is_whitespace())
            {
                // The texts on both sides must not join into one word or another comment.
                kept.push(' ');
            }
        }
        kept.push_str(&self.text[next..range.end]);
        kept
    }

    /// Returns the text of an item without its first `skip` bytes, bullet, comments and indentation. Open blocks are closed.
    pub(crate) fn item_text(&self, item: &Item, skip: usize) -> String {
        let kept = self.without_comments((item.start + skip).min(item.range.end)..item.range.end);
        let mut lines = kept.split('\n');
        let first = lines.next().unwrap_or_default();
        let words = first.trim_start_matches([' ', '\t']);
        // The width of a tab depends on its column.
        let indent = columns(item.column, &first[..first.len() - words.len()]) - item.column;
        let mut text = " ".repeat(indent) + words;
        for line in lines {
            text.push('\n');
            dedent(&mut text, strip_blockquote(line, item.quotes), item.column);
        }
        close_open_blocks(trimmed(&text))
    }

    /// Returns the source of an item after its bullet.
    pub(crate) fn item_start<'a>(&'a self, item: &Item) -> &'a str {
        &self.text[item.start..item.range.end]
    }

    /// Finds the start of an item's text: after its bullet and whitespace, unless more than four columns of whitespace start
    /// a code block.
    fn item(&self, span: ItemSpan, intros: &[Option<Arc<str>>]) -> Item {
        let ItemSpan { range, depth, quotes, list } = span;
        let list_intro = intros.get(list).cloned().flatten().filter(|_| depth == 0);
        let indented = &self.text[range.clone()];
        // Below an item that is indented by a tab, the parser's range starts at the end of the previous line.
        let indent = indented.len() - indented.trim_start_matches([' ', '\t', '\n']).len();
        let range = range.start + indent..range.end;
        let line = self.lines[self.line(range.start) - 1];
        let indent = columns(0, strip_blockquote(&self.text[line..range.start], quotes));
        let source = &self.text[range.clone()];
        let digits = source.bytes().take_while(u8::is_ascii_digit).count();
        let marker = (digits + 1).min(source.len());
        let rest = &source[marker..];
        let whitespace = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let bullet = indent + marker;
        let column = columns(bullet, &rest[..whitespace]);
        let is_empty = rest[whitespace..].is_empty() || rest[whitespace..].starts_with('\n');
        if is_empty || column - bullet > 4 {
            let start = range.start + marker + usize::from(whitespace > 0);
            return Item { range, depth, quotes, list, list_intro, start, column: bullet + 1 };
        }
        let start = range.start + marker + whitespace;
        Item { range, depth, quotes, list, list_intro, start, column }
    }

    /// Returns the paragraph directly before a list as one line, if it ends with a colon.
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

/// Returns whether a position is in one of these ascending ranges.
fn is_in(ranges: &[Range<usize>], position: usize) -> bool {
    let after = ranges.partition_point(|range| range.start <= position);
    after.checked_sub(1).is_some_and(|last| position < ranges[last].end)
}

/// Returns the length of the rest of a line, including its newline, if it is blank.
fn blank_line(text: &str) -> Option<usize> {
    let rest =
        text.trim_start_matches(|character: char| character != '\n' && character.is_whitespace());
    let length = text.len() - rest.len();
    match rest.is_empty() {
        true => Some(length),
        false => rest.starts_with('\n').then_some(length + 1),
    }
}

/// An item as reported by the parser.
#[derive(Debug)]
struct ItemSpan {
    range: Range<usize>,
    depth: usize,
    quotes: usize,
    /// The number of its outermost list.
    list: usize,
}

/// Collects the structure of a text from the parser's events.
#[derive(Debug, Default)]
struct Reader<'t> {
    text: &'t str,
    /// The end of the text and start of [`END_PROBE`].
    end: usize,
    headings: Vec<Heading>,
    spans: Vec<ItemSpan>,
    /// The paragraph directly before each outermost list.
    intros: Vec<Option<Range<usize>>>,
    /// The last paragraph outside of lists.
    paragraph: Option<Range<usize>>,
    comments: Vec<Range<usize>>,
    code: Vec<Range<usize>>,
    has_content: bool,
    /// Inside an index: its start, and whether it has content.
    indexed: Option<(usize, bool)>,
    indexes: Vec<Range<usize>>,
    /// The positions of comments that are not closed.
    open_comments: Vec<usize>,
    /// The start of the last code or HTML block, and whether it is code.
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
                    // A setext heading may begin with `#`, but has a second line.
                    let line = self.text[range.clone()].trim();
                    let is_hashed = line.starts_with('#') && !line.contains('\n');
                    if items + outer_quotes == 0 && is_hashed {
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
            Some((_, has_content)) => *has_content = true,
            None => self.has_content = true,
        }
    }

    /// Finds the comments in an HTML block. A comment that is not closed extends to the end of its line.
    fn html(&mut self, block: Range<usize>) {
        let mut next = block.start;
        while next < block.end {
            let rest = &self.text[next..block.end];
            let Some(start) = rest.find("<!--") else { break };
            // The dashes of `<!--` may also close the comment: `<!-->` is one.
            let close = rest[start + 2..].find("-->").map(|close| start + 2 + close + 3);
            let line_end = || rest[start..].find('\n').map_or(rest.len(), |end| start + end);
            let end = close.unwrap_or_else(line_end);
            if close.is_none() {
                self.open_comments.push(next + start);
            }
            if !rest[..start].trim().is_empty() {
                self.content();
            }
            self.comment(next + start..next + end);
            next += end;
        }
        if !self.text[next..block.end].trim().is_empty() {
            self.content();
        }
    }

    fn comment(&mut self, range: Range<usize>) {
        let comment = self.text[range.clone()].trim_start_matches("<!--").trim_end_matches("-->");
        match comment.trim() {
            "INDEX:START" => self.indexed = self.indexed.or(Some((range.start, false))),
            "INDEX:END" => {
                let start = self.indexed.take().map(|(start, _)| start);
                self.indexes.extend(start.map(|start| start..range.end));
            }
            _ => {}
        }
        self.comments.push(range);
    }
}

/// Closes a code or HTML block that is still open at the end of `text`, so that it does not include text printed after it.
pub(crate) fn close_open_blocks(text: String) -> String {
    let may_be_open = |line: &str| {
        let line = line.trim_start();
        ["```", "~~~", "<"].iter().any(|marker| line.starts_with(marker))
    };
    if !text.lines().any(may_be_open) {
        return text;
    }
    let Some(open) = open_block(&text) else { return text };
    let block = text[open..].trim_start();
    let fence = match block.chars().next() {
        Some(first @ ('`' | '~')) => &block[..block.len() - block.trim_start_matches(first).len()],
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

/// Returns the start of the block that is still open at the end of `text`.
fn open_block(text: &str) -> Option<usize> {
    let probed = format!("{text}{END_PROBE}");
    let mut reader = Reader { text: &probed, end: text.len(), ..Reader::default() };
    reader.read();
    reader.open.map(|(position, _)| position)
}
