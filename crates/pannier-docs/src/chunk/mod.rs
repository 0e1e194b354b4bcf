//! The chunker: splits a document into chunks with their heading paths.
//!
//! Chunks end at natural boundaries: a heading, a paragraph, or else a line, a sentence or a word. Together they cover the
//! document, and consecutive chunks of a section overlap. Sizes are in bytes, four per token, so that they do not depend on a
//! tokenizer. Time is linear in the length of the document.

mod fence;
#[cfg(feature = "tree-sitter")]
mod syntax;

use std::ops::Range;

pub(crate) use fence::{Fence, complete_fences, open_fence};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::varint::{ByteReader, write_str, write_varint};
use crate::word_counts::TermCounts;

/// The sizes of chunks, in tokens of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChunkSizes {
    /// The intended size. Default: 256.
    pub target: usize,
    /// The maximum size. Default: 512.
    pub max: usize,
}

impl Default for ChunkSizes {
    fn default() -> Self {
        Self { target: 256, max: 512 }
    }
}

impl ChunkSizes {
    /// Creates sizes from 32 to 8,192 tokens. A size outside is raised or lowered, as is a maximum below the target.
    pub fn new(target: usize, max: usize) -> Self {
        let target = target.clamp(32, 8_192);
        Self { target, max: max.clamp(target, 8_192) }
    }

    fn target_bytes(self) -> usize {
        self.target * 4
    }

    fn max_bytes(self) -> usize {
        self.max * 4
    }

    /// Returns the maximum overlap with the previous chunk.
    fn overlap_bytes(self) -> usize {
        self.target / 8 * 4
    }

    /// Returns the size up to which adjacent items of source code share a chunk.
    #[cfg(feature = "tree-sitter")]
    fn small_bytes(self) -> usize {
        self.target / 2 * 4
    }
}

/// Describes everything that chunks and terms depend on. Index versions contain this text, so it changes only with the chunks.
pub(crate) fn chunker_version(ChunkSizes { target, max }: ChunkSizes) -> String {
    format!(
        "markdown sections, items of {}, target {target}, at most {max}, overlap {} by lines, bytes/4, kinds by path; pulldown-cmark 0.13; {}",
        syntax_version(),
        target / 8,
        analysis_version(),
    )
}

/// Describes what the terms of a text depend on: an index can be searched if it has the same.
pub(crate) fn analysis_version() -> String {
    let (major, minor, patch) = char::UNICODE_VERSION;
    format!("Unicode {major}.{minor}.{patch}; {}", pannier_text::analyzer_version())
}

#[cfg(feature = "tree-sitter")]
fn syntax_version() -> String {
    syntax::version()
}

#[cfg(not(feature = "tree-sitter"))]
fn syntax_version() -> String {
    "no language".to_owned()
}

/// Longer documents are split at empty lines alone: parsing takes many times their size in memory.
const MAX_PARSED_BYTES: usize = 8 << 20;

/// The maximum length of the symbols of a chunk; longer ones are truncated.
#[cfg(feature = "tree-sitter")]
const MAX_SYMBOLS_BYTES: usize = 2_048;

/// The maximum length of the line that opens a fenced code block; longer ones are truncated.
const MAX_FENCE_BYTES: usize = 128;

/// The maximum length of a heading path; longer ones are truncated.
const MAX_HEADING_PATH_BYTES: usize = 512;

/// A part of a document, the unit of search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Its byte range in the document.
    pub range: Range<usize>,
    /// The number of its first line in the document, from 1.
    pub line: usize,
    /// Its headings, from the outermost: `Guide > Install`. In source code, the names of enclosing items.
    pub heading_path: String,
    /// The names that it defines in source code, separated by spaces.
    pub symbols: String,
    /// The line that opens the fenced code block in which it starts; empty if it starts outside of one.
    pub fence: String,
}

impl Chunk {
    /// Creates a chunk from its byte range, its first line, headings, symbols and fence.
    pub fn new(
        range: Range<usize>,
        line: usize,
        heading_path: String,
        symbols: String,
        fence: String,
    ) -> Self {
        Self { range, line, heading_path, symbols, fence }
    }

    /// Returns its terms: those of its text, of the headings that its text does not contain, of its document's path and of the
    /// symbols that it defines.
    pub(crate) fn terms(&self, path: &str, content: &str) -> TermCounts {
        let text = &content[self.range.clone()];
        let is_in_text = |heading: &&str| {
            let mut lines = text.lines().map(|line| line.trim_matches(['#', ' ', '\t']));
            lines.any(|line| line == *heading)
        };
        let headings = self.heading_path.split(" > ").filter(|heading| !is_in_text(heading));
        let texts: Vec<&str> = headings.chain([text]).collect();
        TermCounts::of_chunk(&texts, path, &self.symbols)
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

/// A row of the chunk table: the location of a chunk, its word count, and the kind of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) start: u32,
    pub(crate) length: u32,
    /// XXH3 of its text.
    pub(crate) check: u64,
}

impl ChunkRow {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn new(chunk: &Chunk, content: &str) -> Self {
        let text = &content[chunk.range.clone()];
        let (start, length) = (chunk.range.start as u32, text.len() as u32);
        Self { start, length, check: xxh3_64(text.as_bytes()) }
    }

    /// Returns its byte range in the document.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.start.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self { start: bytes.u32()?, length: bytes.u32()?, check: bytes.u64()? })
    }
}

/// A block of a document that should stay in one chunk.
struct Block {
    start: usize,
    /// The level and the text, if it is a heading.
    heading: Option<(HeadingLevel, String)>,
}

/// Returns whether a path is that of a Markdown document.
pub(crate) fn is_markdown(path: &str) -> bool {
    [".md", ".markdown", ".mdx"].iter().any(|extension| path.to_lowercase().ends_with(extension))
}

/// Splits a document into chunks. The title precedes all headings.
pub(crate) fn chunks(path: &str, text: &str, title: Option<&str>, sizes: ChunkSizes) -> Vec<Chunk> {
    let mut chunks = split(path, text, title, sizes);
    // Starts ascend, so each line break is counted once.
    let (mut line, mut position) = (1, 0);
    for chunk in &mut chunks {
        line += text[position..chunk.range.start].matches('\n').count();
        position = chunk.range.start;
        chunk.line = line;
    }
    chunks
}

fn split(path: &str, text: &str, title: Option<&str>, sizes: ChunkSizes) -> Vec<Chunk> {
    #[cfg(feature = "tree-sitter")]
    if let Some(blocks) = syntax::blocks(path, text, sizes.max_bytes()) {
        return syntax_chunks(text, title, blocks, sizes);
    }
    let is_parsed = is_markdown(path) && text.len() <= MAX_PARSED_BYTES;
    let (mut blocks, fences) = match is_parsed {
        true => markdown(text),
        false => (paragraphs(text), Vec::new()),
    };
    match blocks.first_mut() {
        Some(first) => first.start = 0,
        None if text.is_empty() => return Vec::new(),
        None => blocks.push(Block { start: 0, heading: None }),
    }
    let mut chunker = Chunker::new(text, title, sizes);
    chunker.fences = fences;
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
                && open.as_ref().is_some_and(|open| end - open.start <= sizes.target_bytes());
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
            Some(open) if end - open.start <= sizes.target_bytes() || is_only_heading => {
                open.start..end
            }
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

/// Merges small blocks of source code, and splits long ones.
#[cfg(feature = "tree-sitter")]
fn syntax_chunks(
    text: &str,
    title: Option<&str>,
    blocks: Vec<syntax::SyntaxBlock>,
    sizes: ChunkSizes,
) -> Vec<Chunk> {
    let mut merged: Vec<syntax::SyntaxBlock> = Vec::new();
    for block in blocks {
        match merged.last_mut() {
            Some(last) if is_merged(last, &block, sizes) => {
                last.range.end = block.range.end;
                last.symbols.extend(block.symbols);
            }
            _ => merged.push(block),
        }
    }
    let mut chunks = Vec::new();
    for block in merged {
        let mut chunker = Chunker::new(text, title, sizes);
        chunker.headings =
            block.enclosing.into_iter().map(|name| (HeadingLevel::H1, name)).collect();
        chunker.section = block.range.start;
        chunker.overlaps = false;
        chunker.close(Some(block.range));
        let mut symbols = block.symbols;
        symbols.dedup();
        let mut symbols = symbols.join(" ");
        symbols.truncate(boundary(&symbols, MAX_SYMBOLS_BYTES));
        chunks.extend(
            chunker.chunks.into_iter().map(|chunk| Chunk { symbols: symbols.clone(), ..chunk }),
        );
    }
    chunks
}

/// Returns whether a block continues the chunk of the one before: text between items as long as it is short, and small items.
#[cfg(feature = "tree-sitter")]
fn is_merged(last: &syntax::SyntaxBlock, next: &syntax::SyntaxBlock, sizes: ChunkSizes) -> bool {
    let length = next.range.end - last.range.start;
    let limit = match last.symbols.is_empty() && next.symbols.is_empty() {
        true => sizes.target_bytes(),
        false => sizes.small_bytes(),
    };
    last.enclosing == next.enclosing && length <= limit
}

struct Chunker<'t> {
    text: &'t str,
    title: Option<&'t str>,
    sizes: ChunkSizes,
    chunks: Vec<Chunk>,
    headings: Vec<(HeadingLevel, String)>,
    /// The start of the current section, and of the last chunk without its overlap.
    section: usize,
    fresh: usize,
    /// Whether a chunk overlaps the previous one of its section.
    overlaps: bool,
    /// The fenced code blocks, in order.
    fences: Vec<Range<usize>>,
}

impl<'t> Chunker<'t> {
    fn new(text: &'t str, title: Option<&'t str>, sizes: ChunkSizes) -> Self {
        let (chunks, headings) = (Vec::new(), Vec::new());
        let (section, fresh, fences) = (0, 0, Vec::new());
        Self { text, title, sizes, chunks, headings, section, fresh, overlaps: true, fences }
    }

    /// Returns the fenced code block that a position is inside of.
    fn fence(&self, position: usize) -> Option<&Range<usize>> {
        let next = self.fences.partition_point(|fence| fence.start < position);
        self.fences[..next].last().filter(|fence| position < fence.end)
    }

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
            if end - start <= self.sizes.max_bytes() && end - from > self.sizes.max_bytes() {
                // A chunk that fits without its overlap stays whole.
                from = start;
            }
            let to = if end - from <= self.sizes.max_bytes() {
                end
            } else {
                self.split_point(start, from + self.sizes.target_bytes())
            };
            self.chunks.push(Chunk {
                range: from..to,
                line: 0,
                heading_path: self.heading_path(),
                symbols: String::new(),
                fence: self.fence(from).map_or_else(String::new, |fence| {
                    let line = self.text[fence.clone()].lines().next().unwrap_or_default();
                    line[..boundary(line, MAX_FENCE_BYTES)].trim_end().to_owned()
                }),
            });
            self.fresh = start;
            start = to;
        }
    }

    /// Returns the start of a chunk that continues its section: up to an overlap earlier, at a line or word.
    fn overlap(&self, start: usize) -> usize {
        if start == self.section || start == 0 || !self.overlaps || self.fence(start).is_some() {
            return start;
        }
        // The overlap does not cover the whole previous chunk.
        let earliest =
            start.saturating_sub(self.sizes.overlap_bytes()).max(self.section).max(self.fresh + 1);
        let earliest = boundary(self.text, earliest).max(self.section);
        let before = &self.text[earliest..start];
        let word = before.find(char::is_whitespace).map(|offset| earliest + offset);
        let word = word.map(|space| start - self.text[space..start].trim_start().len());
        // A line start is preferred to a word start.
        let line =
            before.find('\n').map(|offset| earliest + offset + 1).filter(|line| *line < start);
        let overlap = line.or(word).filter(|word| *word > self.fresh).unwrap_or(start);
        if self.fence(overlap).is_some() { start } else { overlap }
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
        let end = match end.unwrap_or(piece.len()) {
            0 => start + self.text[start..].chars().next().map_or(1, char::len_utf8),
            length => start + length,
        };
        // A fenced code block is cut only if it does not fit.
        match self.fence(end) {
            Some(fence) if fence.start > start && self.line_start(fence.start) > start => {
                self.line_start(fence.start)
            }
            Some(fence)
                if fence.end
                    <= start.saturating_sub(self.sizes.overlap_bytes())
                        + self.sizes.max_bytes() =>
            {
                fence.end
            }
            _ => end,
        }
    }

    fn line_start(&self, position: usize) -> usize {
        self.text[..position].rfind('\n').map_or(0, |newline| newline + 1)
    }
}

/// Returns the last character boundary at or before `index`.
pub(crate) fn boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

/// Returns the top-level blocks of a Markdown document, and its fenced code blocks.
fn markdown(whole: &str) -> (Vec<Block>, Vec<Range<usize>>) {
    // A byte order mark is not part of the first line.
    let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
    let shift = whole.len() - text.len();
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let (mut blocks, mut fences) = (Vec::new(), Vec::new());
    let (mut depth, mut heading) = (0_usize, None);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_))) {
                    fences.push(range.start + shift..range.end + shift);
                }
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
    (blocks, fences)
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
        write_varint(&mut bytes, chunk.line as u64);
        write_str(&mut bytes, &chunk.heading_path);
        write_str(&mut bytes, &chunk.symbols);
        write_str(&mut bytes, &chunk.fence);
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
        let line = usize::try_from(bytes.read_varint()?).ok()?;
        let heading_path = bytes.read_str()?.to_owned();
        let symbols = bytes.read_str()?.to_owned();
        let fence = bytes.read_str()?.to_owned();
        let is_next = start <= covered && end > covered && end <= length;
        if !is_next || chunks.last().is_some_and(|last| start <= last.range.start) {
            return None;
        }
        covered = end;
        chunks.push(Chunk { range: start..end, line, heading_path, symbols, fence });
    }
    (covered == length && bytes.is_empty()).then_some(chunks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_texts(path: &str, text: &str) -> Vec<(String, String)> {
        let chunks = chunks(path, text, None, ChunkSizes::default());
        chunks.into_iter().map(|chunk| (chunk.heading_path, text[chunk.range].to_owned())).collect()
    }

    #[test]
    fn sections_are_chunks_with_their_headings() {
        let text = "intro\n\n# Guide\n\n## Install\n\nRun it.\n\n```sh\n# not a heading\n```\n\n## Use\n\nUse it.\n";
        assert_eq!(
            split_texts("a.md", text),
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
            chunks("a.md", text, None, ChunkSizes::default())
                .into_iter()
                .map(|chunk| chunk.heading_path)
                .collect()
        };
        assert_eq!(headings("# Alpha\n# Beta\n## Gamma\ntext"), ["Alpha", "Beta > Gamma"]);
        assert_eq!(headings("\u{feff}# Title\n\ntext"), ["Title"]);
        assert_eq!(headings("Getting\nstarted\n===\n\n##\n\ntext"), ["Getting started"]);
        assert_eq!(split_texts("a.md", ""), []);
        assert_eq!(
            split_texts("a.txt", "# no\n\nheading"),
            [(String::new(), "# no\n\nheading".to_owned())]
        );
    }

    #[test]
    fn long_paragraphs_are_split_between_sentences_and_overlap() {
        let text = "One sentence that is here. ".repeat(200);
        let chunks = chunks("a.md", &text, Some("Title"), ChunkSizes::default());
        assert!(chunks.iter().all(|chunk| chunk.heading_path == "Title"));
        assert!(chunks.len() > 3);
        for pair in chunks.windows(2) {
            let overlap = pair[0].range.end - pair[1].range.start;
            assert!((1..=128).contains(&overlap), "{overlap}");
            assert!(text[..pair[0].range.end].ends_with(". "));
        }
    }

    #[test]
    fn a_code_block_stays_whole_where_it_fits() {
        let code = format!("```rust\n{}```\n", "let x = 1;\n".repeat(150));
        let text = format!("Words.\n\n{code}\nMore words.\n");
        let chunks = split_texts("a.md", &text);
        assert!(chunks.iter().any(|(_, chunk)| chunk.contains(&code)), "{chunks:?}");
    }

    #[test]
    fn a_cut_code_block_is_closed_and_reopened() {
        let code = format!("- Run:\n\n  ```sh\n{}  ```\n", "  echo one more step\n".repeat(200));
        let text = format!("# A\n\nWords.\n\n{code}\n```rust\nlet x = 1;\n```\n\nMore words.\n");
        let chunks = chunks("a.md", &text, None, ChunkSizes::default());
        assert!(chunks.len() > 2);
        for chunk in &chunks {
            let complete = complete_fences(&chunk.fence, &text[chunk.range.clone()]);
            assert_eq!(open_fence(&complete), None, "{complete}");
            assert!(!complete.contains("```\n```"), "{complete}");
        }
        let reopened: Vec<&Chunk> = chunks.iter().filter(|chunk| !chunk.fence.is_empty()).collect();
        assert!(!reopened.is_empty() && reopened.iter().all(|chunk| chunk.fence == "```sh"));
        for chunk in &chunks {
            assert_eq!(chunk.line, text[..chunk.range.start].matches('\n').count() + 1);
        }
        let last = &text[chunks.last().unwrap().range.clone()];
        assert!(!last.contains("```rust") || last.contains("x = 1;\n```\n"), "{last}");
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
            let chunks = chunks(if is_markdown { "x.MD" } else { "x.rs" }, &text, None, ChunkSizes::default());
            let mut covered = 0;
            for chunk in &chunks {
                prop_assert!(chunk.range.start <= covered && chunk.range.end > covered);
                prop_assert!(text.is_char_boundary(chunk.range.start) && text.is_char_boundary(chunk.range.end));
                prop_assert!(chunk.range.len() <= 2_048, "{:?}", chunk.range);
                covered = chunk.range.end;
            }
            prop_assert_eq!(covered, text.len());
            prop_assert_eq!(read(&write(&chunks), text.len()), Some(chunks));
        }
    }
}
