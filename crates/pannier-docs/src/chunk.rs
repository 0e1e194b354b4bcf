//! The chunker: splits a document into chunks with their heading paths.
//!
//! Chunks end at natural boundaries: a heading, a paragraph, or else a line, a sentence or a word. Together they cover the
//! document, and consecutive chunks of a section overlap. Sizes are in bytes, four per token, so that they do not depend on a
//! tokenizer. Time is linear in the length of the document.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use xxhash_rust::xxh3::xxh3_64;

use crate::varint::{ByteReader, write_str, write_varint};
use crate::word_counts::TermCounts;

/// The intended size of a chunk: 256 tokens.
const TARGET_BYTES: usize = 256 * 4;
/// The maximum size of a chunk: 512 tokens.
const MAX_BYTES: usize = 512 * 4;
/// The maximum overlap with the previous chunk: 32 tokens.
const OVERLAP_BYTES: usize = 32 * 4;

/// Describes everything that chunks and terms depend on. Index versions contain this text, so it changes only with the chunks.
pub(crate) fn chunker_version() -> String {
    let (major, minor, patch) = char::UNICODE_VERSION;
    format!(
        "markdown sections, target 256, at most 512, overlap 32 by lines, bytes/4; pulldown-cmark 0.13; Unicode {major}.{minor}.{patch}; {}",
        pannier_text::analyzer_version()
    )
}

/// Longer documents are split at empty lines alone: parsing takes many times their size in memory.
const MAX_PARSED_BYTES: usize = 8 << 20;

/// The maximum length of a heading path; longer ones are truncated.
const MAX_HEADING_PATH_BYTES: usize = 512;

/// A part of a document, the unit of search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Its byte range in the document.
    pub range: Range<usize>,
    /// Its headings, from the outermost: `Guide > Install`.
    pub heading_path: String,
}

impl Chunk {
    /// Returns its terms: those of its text, and of the headings that its text does not contain.
    pub(crate) fn terms(&self, content: &str) -> TermCounts {
        let text = &content[self.range.clone()];
        let is_in_text = |heading: &&str| {
            let mut lines = text.lines().map(|line| line.trim_matches(['#', ' ', '\t']));
            lines.any(|line| line == *heading)
        };
        let headings = self.heading_path.split(" > ").filter(|heading| !is_in_text(heading));
        let texts: Vec<&str> = headings.chain([text]).collect();
        TermCounts::of_chunk(&texts)
    }

    /// Returns the text to embed: the heading path and the text.
    pub(crate) fn embedded_text(&self, text: &str) -> String {
        match self.heading_path.is_empty() {
            true => text.to_owned(),
            false => format!("{}\n{text}", self.heading_path),
        }
    }
}

/// Returns the id of a document: a hash of its path and its content hash.
pub(crate) fn document_id(path: &str, hash: &[u8; 32]) -> [u8; 32] {
    let mut id = blake3::Hasher::new();
    id.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes()).update(hash);
    id.finalize().into()
}

/// Returns the id of a chunk: 32 hexadecimal digits of a hash of its document's id, its position and its text.
pub(crate) fn chunk_id(document: &[u8; 32], sequence: u32, text: &str) -> String {
    let mut id = blake3::Hasher::new();
    id.update(document).update(&sequence.to_le_bytes()).update(text.as_bytes());
    let mut hex = id.finalize().to_hex().to_string();
    hex.truncate(32);
    hex
}

/// A row of the chunk table: the location of a chunk, and its word count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) document: u32,
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) words: u32,
    /// XXH3 of its text.
    pub(crate) check: u64,
}

impl ChunkRow {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn new(document: u32, chunk: &Chunk, content: &str, terms: &TermCounts) -> Self {
        let text = &content[chunk.range.clone()];
        Self {
            document,
            start: chunk.range.start as u32,
            length: text.len() as u32,
            words: terms.total,
            check: xxh3_64(text.as_bytes()),
        }
    }

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = [self.document, self.start, self.length, self.words];
        for (field, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes[16..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let (document, start, length) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        Some(Self { document, start, length, words: bytes.u32()?, check: bytes.u64()? })
    }
}

/// A block of a document that should stay in one chunk.
struct Block {
    start: usize,
    /// The level and the text, if it is a heading.
    heading: Option<(HeadingLevel, String)>,
}

/// Splits a document into chunks. The title precedes all headings.
pub(crate) fn chunks(path: &str, text: &str, title: Option<&str>) -> Vec<Chunk> {
    let is_markdown =
        [".md", ".markdown"].iter().any(|extension| path.to_lowercase().ends_with(extension));
    let is_parsed = is_markdown && text.len() <= MAX_PARSED_BYTES;
    let mut blocks = if is_parsed { markdown(text) } else { paragraphs(text) };
    match blocks.first_mut() {
        Some(first) => first.start = 0,
        None if text.is_empty() => return Vec::new(),
        None => blocks.push(Block { start: 0, heading: None }),
    }
    let mut chunker =
        Chunker { text, title, chunks: Vec::new(), headings: Vec::new(), section: 0, fresh: 0 };
    let ends = blocks.iter().skip(1).map(|next| next.start).chain([text.len()]);
    let ends: Vec<usize> = ends.collect();
    let mut open: Option<Range<usize>> = None;
    let mut is_only_heading = false;
    for (block, end) in blocks.into_iter().zip(ends) {
        let range = block.start..end;
        if let Some((level, heading)) = block.heading {
            // A heading directly below a higher one stays in its chunk.
            let is_below = is_only_heading
                && chunker.headings.last().is_some_and(|(last, _)| *last < level)
                && open.as_ref().is_some_and(|open| end - open.start <= TARGET_BYTES);
            if !is_below {
                chunker.close(open.take());
                chunker.section = range.start;
            }
            chunker.enter(level, heading);
            open = Some(open.map_or(range.start, |open| open.start)..end);
            is_only_heading = true;
            continue;
        }
        open = Some(match open.take() {
            Some(open) if end - open.start <= TARGET_BYTES || is_only_heading => open.start..end,
            full => {
                chunker.close(full);
                range
            }
        });
        is_only_heading = false;
    }
    chunker.close(open);
    chunker.chunks
}

struct Chunker<'t> {
    text: &'t str,
    title: Option<&'t str>,
    chunks: Vec<Chunk>,
    headings: Vec<(HeadingLevel, String)>,
    /// The start of the current section, and of the last chunk without its overlap.
    section: usize,
    fresh: usize,
}

impl Chunker<'_> {
    fn enter(&mut self, level: HeadingLevel, mut heading: String) {
        // Every chunk of the section stores a copy.
        heading.truncate(boundary(&heading, MAX_HEADING_PATH_BYTES));
        heading.shrink_to_fit();
        self.headings.retain(|(other, _)| *other < level);
        self.headings.push((level, heading));
    }

    fn heading_path(&self) -> String {
        let headings = self.headings.iter().map(|(_, text)| text.trim());
        let mut headings: Vec<&str> =
            self.title.into_iter().chain(headings).filter(|text| !text.is_empty()).collect();
        // The first heading often repeats the title.
        headings.dedup();
        let mut heading_path = headings.join(" > ");
        heading_path.truncate(boundary(&heading_path, MAX_HEADING_PATH_BYTES));
        heading_path.shrink_to_fit();
        heading_path
    }

    /// Pushes a chunk for a range, or several if it is too long.
    fn close(&mut self, range: Option<Range<usize>>) {
        let Some(Range { mut start, end }) = range.filter(|range| !range.is_empty()) else {
            return;
        };
        while start < end {
            let mut from = self.overlap(start);
            if end - start <= MAX_BYTES && end - from > MAX_BYTES {
                // A chunk that fits without its overlap stays whole.
                from = start;
            }
            let to = if end - from <= MAX_BYTES {
                end
            } else {
                self.split_point(start, from + TARGET_BYTES)
            };
            self.chunks.push(Chunk { range: from..to, heading_path: self.heading_path() });
            self.fresh = start;
            start = to;
        }
    }

    /// Returns the start of a chunk that continues its section: up to [`OVERLAP_BYTES`] earlier, at a line or word.
    fn overlap(&self, start: usize) -> usize {
        if start == self.section || start == 0 {
            return start;
        }
        // The overlap does not cover the whole previous chunk.
        let earliest = start.saturating_sub(OVERLAP_BYTES).max(self.section).max(self.fresh + 1);
        let earliest = boundary(self.text, earliest).max(self.section);
        let before = &self.text[earliest..start];
        let word = before.find(char::is_whitespace).map(|offset| earliest + offset);
        let word = word.map(|space| start - self.text[space..start].trim_start().len());
        // A line start is preferred to a word start.
        let line =
            before.find('\n').map(|offset| earliest + offset + 1).filter(|line| *line < start);
        line.or(word).filter(|word| *word > self.fresh).unwrap_or(start)
    }

    /// Returns the end of a chunk from `start` up to `latest`: after a line, a sentence, a word or else a character. It is
    /// always greater than `start`.
    fn split_point(&self, start: usize, latest: usize) -> usize {
        let latest = boundary(self.text, latest.max(start + 1));
        let piece = &self.text[start..latest.max(start)];
        let half = piece.len() / 2;
        let line = piece.rfind('\n').map(|offset| offset + 1);
        let sentence = piece.rfind(". ").map(|offset| offset + 2);
        let word = piece.rfind(' ').map(|offset| offset + 1);
        let end = [line, sentence, word].into_iter().flatten().find(|end| *end > half);
        match end.unwrap_or(piece.len()) {
            0 => start + self.text[start..].chars().next().map_or(1, char::len_utf8),
            length => start + length,
        }
    }
}

/// Returns the last character boundary at or before `index`.
pub(crate) fn boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

/// Returns the top-level blocks of a Markdown document.
fn markdown(whole: &str) -> Vec<Block> {
    // A byte order mark is not part of the first line.
    let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
    let shift = whole.len() - text.len();
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut blocks = Vec::new();
    let (mut depth, mut heading) = (0_usize, None);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    // A block starts with its line: indentation belongs to it.
                    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
                    blocks.push(Block { start, heading: None });
                    if let Tag::Heading { level, .. } = tag {
                        heading = Some((level, String::new()));
                    }
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                if depth == 0
                    && matches!(tag, TagEnd::Heading(_))
                    && let (Some(block), Some(heading)) = (blocks.last_mut(), heading.take())
                {
                    block.heading = Some(heading);
                }
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, text)) = &mut heading {
                    text.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, text)) = &mut heading {
                    text.push(' ');
                }
            }
            Event::Rule | Event::Html(_) if depth == 0 => {
                blocks.push(Block { start: range.start, heading: None });
            }
            _ => {}
        }
    }
    blocks.dedup_by(|next, kept| next.start <= kept.start);
    blocks.iter_mut().for_each(|block| block.start += shift);
    blocks
}

/// Returns the blocks between empty lines.
fn paragraphs(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut start, mut was_empty) = (0, true);
    for line in text.split_inclusive('\n') {
        let is_empty = line.trim().is_empty();
        if was_empty && !is_empty {
            blocks.push(Block { start, heading: None });
        }
        was_empty = is_empty;
        start += line.len();
    }
    blocks
}

/// Encodes chunks.
pub(crate) fn write(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, chunks.len() as u64);
    for chunk in chunks {
        write_varint(&mut bytes, chunk.range.start as u64);
        write_varint(&mut bytes, chunk.range.len() as u64);
        write_str(&mut bytes, &chunk.heading_path);
    }
    bytes
}

/// Returns whether every chunk starts and ends at character boundaries of its document.
pub(crate) fn are_char_boundaries(chunks: &[Chunk], content: &str) -> bool {
    chunks.iter().all(|chunk| content.get(chunk.range.clone()).is_some())
}

/// Decodes chunks, or returns `None` unless they cover a document of `length` bytes.
pub(crate) fn read(bytes: &[u8], length: usize) -> Option<Vec<Chunk>> {
    let mut bytes = ByteReader(bytes);
    let count = usize::try_from(bytes.read_varint()?).ok()?;
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut covered = 0;
    for _ in 0..count {
        let start = usize::try_from(bytes.read_varint()?).ok()?;
        let end = start.checked_add(usize::try_from(bytes.read_varint()?).ok()?)?;
        let heading_path = bytes.read_str()?.to_owned();
        let is_next = start <= covered && end > covered && end <= length;
        if !is_next || chunks.last().is_some_and(|last| start <= last.range.start) {
            return None;
        }
        covered = end;
        chunks.push(Chunk { range: start..end, heading_path });
    }
    (covered == length && bytes.is_empty()).then_some(chunks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(path: &str, text: &str) -> Vec<(String, String)> {
        let chunks = chunks(path, text, None);
        chunks.into_iter().map(|chunk| (chunk.heading_path, text[chunk.range].to_owned())).collect()
    }

    #[test]
    fn sections_are_chunks_with_their_headings() {
        let text = "intro\n\n# Guide\n\n## Install\n\nRun it.\n\n```sh\n# not a heading\n```\n\n## Use\n\nUse it.\n";
        assert_eq!(
            split("a.md", text),
            [
                (String::new(), "intro\n\n".to_owned()),
                (
                    "Guide > Install".to_owned(),
                    "# Guide\n\n## Install\n\nRun it.\n\n```sh\n# not a heading\n```\n\n"
                        .to_owned()
                ),
                ("Guide > Use".to_owned(), "## Use\n\nUse it.\n".to_owned()),
            ]
        );
        let headings = |text: &str| -> Vec<String> {
            chunks("a.md", text, None).into_iter().map(|chunk| chunk.heading_path).collect()
        };
        assert_eq!(headings("# Alpha\n# Beta\n## Gamma\ntext"), ["Alpha", "Beta > Gamma"]);
        assert_eq!(headings("\u{feff}# Title\n\ntext"), ["Title"]);
        assert_eq!(headings("Getting\nstarted\n===\n\n##\n\ntext"), ["Getting started"]);
        assert_eq!(split("a.md", ""), []);
        assert_eq!(
            split("a.txt", "# no\n\nheading"),
            [(String::new(), "# no\n\nheading".to_owned())]
        );
    }

    #[test]
    fn long_paragraphs_are_split_between_sentences_and_overlap() {
        let text = "One sentence that is here. ".repeat(200);
        let chunks = chunks("a.md", &text, Some("Title"));
        assert!(chunks.iter().all(|chunk| chunk.heading_path == "Title"));
        assert!(chunks.len() > 3);
        for pair in chunks.windows(2) {
            let overlap = pair[0].range.end - pair[1].range.start;
            assert!((1..=OVERLAP_BYTES).contains(&overlap), "{overlap}");
            assert!(text[..pair[0].range.end].ends_with(". "));
        }
    }

    #[test]
    fn a_code_block_stays_whole_where_it_fits() {
        let code = format!("```rust\n{}```\n", "let x = 1;\n".repeat(150));
        let text = format!("Words.\n\n{code}\nMore words.\n");
        let chunks = split("a.md", &text);
        assert!(chunks.iter().any(|(_, chunk)| chunk.contains(&code)), "{chunks:?}");
    }

    proptest! {
        #[test]
        fn chunks_cover_the_document_and_roundtrip(
            text in prop::collection::vec(
                prop_oneof![
                    Just("# Title\n".to_owned()), Just("### Deep\n\n".to_owned()), Just("\n\n".to_owned()), Just("```\n".to_owned()),
                    Just("- item\n".to_owned()), Just("---\n".to_owned()), Just("<b>\n".to_owned()), Just("[a]: /x\n".to_owned()),
                    "[a-zé漢 .\n]{0,40}", "[a-z]{900,1500}", Just("漢".repeat(700)), Just("word. ".repeat(300)),
                ],
                0..14,
            ),
            is_markdown: bool,
        ) {
            let text = text.concat();
            let chunks = chunks(if is_markdown { "x.MD" } else { "x.rs" }, &text, None);
            let mut covered = 0;
            for chunk in &chunks {
                prop_assert!(chunk.range.start <= covered && chunk.range.end > covered);
                prop_assert!(text.is_char_boundary(chunk.range.start) && text.is_char_boundary(chunk.range.end));
                prop_assert!(chunk.range.len() <= MAX_BYTES, "{:?}", chunk.range);
                covered = chunk.range.end;
            }
            prop_assert_eq!(covered, text.len());
            prop_assert_eq!(read(&write(&chunks), text.len()), Some(chunks));
        }
    }
}
