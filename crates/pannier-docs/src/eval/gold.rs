//! What a context must contain to answer a query: spans of documents.
//!
//! - An answer, and an evidence sentence, must be in the context whole.
//! - Of an item such as a function, half or 1,500 bytes suffice; also of a whole document, if a data set names no spans.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use super::{Grades, read_lines};
use crate::{AssembledContext, DocsError};

/// The bytes of a long item that answer like all of it.
const MAX_ITEM_BYTES: usize = 1_500;

/// The bytes of a document that count as a passage of it.
const DOCUMENT_BYTES: usize = 200;

/// A span that answers a query if enough bytes of it are in the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GoldSpan {
    document: String,
    range: Range<usize>,
    required_bytes: usize,
}

impl GoldSpan {
    fn whole(document: &str, range: Range<usize>) -> Self {
        Self { document: document.to_owned(), required_bytes: range.len(), range }
    }

    fn item(document: &str, range: Range<usize>) -> Self {
        let required_bytes = range.len().div_ceil(2).min(MAX_ITEM_BYTES);
        Self { required_bytes, ..Self::whole(document, range) }
    }
}

/// A line of `answers.jsonl`: the answer, and its first character in the relevant document.
#[derive(Deserialize)]
struct Answer {
    id: String,
    answer: String,
    start: Option<usize>,
}

/// A line of `evidence.jsonl`: sentences of documents.
#[derive(Deserialize)]
struct Evidence {
    id: String,
    evidence: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    doc: String,
    sentence: String,
}

/// A line of `gold.jsonl`: path, first byte, end and name of items.
#[derive(Deserialize)]
struct GoldItems {
    id: String,
    items: Vec<(String, usize, usize, String)>,
}

/// The spans of each query. A query without an entry is not judged by spans.
pub(super) type GoldSpans = BTreeMap<String, Vec<GoldSpan>>;

/// Reads the spans of a data set. `texts` are the documents by id.
pub(super) fn read_spans(
    folder: &Path,
    grades: &Grades,
    texts: &BTreeMap<String, String>,
) -> Result<GoldSpans, DocsError> {
    let mut spans = GoldSpans::new();
    let relevant = |query: &str| {
        let grades = grades.get(query).into_iter().flatten();
        grades.filter(|(_, grade)| **grade > 0.0).map(|(document, _)| document.as_str())
    };
    let file = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
    if let Some(path) = file("gold.jsonl") {
        for GoldItems { id, items } in read_lines(&path)? {
            let items = items.into_iter();
            spans.insert(
                id,
                items.map(|(path, start, end, _)| GoldSpan::item(&path, start..end)).collect(),
            );
        }
    } else if let Some(path) = file("evidence.jsonl") {
        for Evidence { id, evidence } in read_lines(&path)? {
            let found = evidence
                .iter()
                .flat_map(|Sentence { doc, sentence }| occurrences(texts, doc, sentence));
            spans.insert(id, found.collect());
        }
    } else if let Some(path) = file("answers.jsonl") {
        for Answer { id, answer, start } in read_lines(&path)? {
            let found = relevant(&id).flat_map(|document| match start {
                Some(start) => answer_at(texts, document, &answer, start),
                None => occurrences(texts, document, &answer),
            });
            let found = found.collect();
            spans.insert(id, found);
        }
    } else {
        for query in grades.keys() {
            let whole = |document| {
                let length = texts.get(document).map(String::len)?;
                Some(GoldSpan::item(document, 0..length))
            };
            spans.insert(query.clone(), relevant(query).filter_map(whole).collect());
        }
    }
    Ok(spans)
}

fn occurrences(texts: &BTreeMap<String, String>, document: &str, sought: &str) -> Vec<GoldSpan> {
    let text = texts.get(document).map_or("", String::as_str);
    let span = |(start, _)| GoldSpan::whole(document, start..start + sought.len());
    text.match_indices(sought).map(span).collect()
}

/// Returns the answer at a position in characters; if it is not there, its occurrences.
fn answer_at(
    texts: &BTreeMap<String, String>,
    document: &str,
    answer: &str,
    start: usize,
) -> Vec<GoldSpan> {
    let text = texts.get(document).map_or("", String::as_str);
    match text.char_indices().nth(start) {
        Some((start, _)) if text[start..].starts_with(answer) => {
            vec![GoldSpan::whole(document, start..start + answer.len())]
        }
        _ => occurrences(texts, document, answer),
    }
}

/// The bytes of each document in a context, by id.
pub(super) struct Coverage<'c>(BTreeMap<&'c str, Vec<Range<usize>>>);

impl<'c> Coverage<'c> {
    /// Collects the spans of a context. `ids` has the id of each path.
    pub(super) fn new(context: &'c AssembledContext, ids: &'c BTreeMap<String, String>) -> Self {
        let with_ids = context.chunks.iter().filter_map(|chunk| {
            ids.get(&chunk.document_path).map(|id| (id.as_str(), chunk.spans()))
        });
        Self::of_spans(
            with_ids.flat_map(|(id, spans)| spans.into_iter().map(move |span| (id, span))),
        )
    }

    /// Collects spans of documents, given by id.
    pub(super) fn of_spans(spans: impl Iterator<Item = (&'c str, Range<usize>)>) -> Self {
        let mut documents: BTreeMap<&str, Vec<Range<usize>>> = BTreeMap::new();
        for (document, span) in spans {
            documents.entry(document).or_default().push(span);
        }
        for ranges in documents.values_mut() {
            ranges.sort_unstable_by_key(|range| range.start);
            let mut end = 0;
            for range in ranges {
                range.start = range.start.max(end);
                end = range.end.max(end);
            }
        }
        Self(documents)
    }

    /// Counts the bytes of a span that are in the context.
    fn bytes(&self, document: &str, span: &Range<usize>) -> usize {
        let ranges = self.0.get(document).map_or(&[][..], Vec::as_slice);
        let shared = |range: &Range<usize>| {
            range.end.min(span.end).saturating_sub(range.start.max(span.start))
        };
        ranges.iter().map(shared).sum()
    }

    /// Counts all bytes, each once.
    pub(super) fn total_bytes(&self) -> usize {
        self.0.keys().map(|document| self.bytes(document, &(0..usize::MAX))).sum()
    }

    /// Returns whether a span is in the context.
    pub(super) fn has_span(&self, span: &GoldSpan) -> bool {
        self.bytes(&span.document, &span.range) >= span.required_bytes
    }

    /// Returns whether a passage of a document with this length is in the context.
    pub(super) fn has_document(&self, document: &str, length: usize) -> bool {
        self.0.contains_key(document)
            && self.bytes(document, &(0..length)) >= length.min(DOCUMENT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_an_item_or_1500_bytes_of_it_suffice() {
        let coverage = Coverage(BTreeMap::from([("a", vec![10..60, 60..100, 5_000..6_600])]));
        assert!(coverage.has_span(&GoldSpan::item("a", 0..180)));
        assert!(!coverage.has_span(&GoldSpan::item("a", 0..182)));
        assert!(coverage.has_span(&GoldSpan::item("a", 4_000..60_000)));
        assert!(!coverage.has_span(&GoldSpan::whole("a", 0..60)));
        assert!(coverage.has_span(&GoldSpan::whole("a", 20..90)));
        assert!(!coverage.has_span(&GoldSpan::whole("b", 20..90)));
        assert!(coverage.has_document("a", 9_000) && !coverage.has_document("a", 110));
        assert_eq!(coverage.total_bytes(), 1_690);
    }
}
