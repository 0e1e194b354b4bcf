//! The impacts of a posting list: bounds on what its term can contribute to the score of a chunk.
//!
//! A block of a posting list has the counts and lengths that no others exceed: of the chunks in it, and of their documents. A
//! posting with fewer occurrences in a longer text scores lower under any mean length and any saturation, so these pairs bound
//! all scores of the block, although statistics change with every update. Documents count as a whole: a block has the pairs of
//! all chunks of the documents that it contains a part of.

use crate::varint::{ByteReader, write_varint};
use crate::word_counts::FieldCounts;

/// The maximum number of pairs for each of chunks and documents. More are merged into a pair that bounds them.
const MAX_IMPACTS: usize = 4;

/// What an occurrence in the path of a document counts, compared with one in the body.
const PATH_WEIGHT: u32 = 2;
/// What an occurrence among the symbols that a chunk defines counts.
const SYMBOL_WEIGHT: u32 = 4;

/// Returns the weighted count of a term in all fields. Impacts are stored, so a new weight needs a new format of the index.
#[inline]
pub(crate) fn weighted_count(counts: FieldCounts) -> u32 {
    let path = counts.path.saturating_mul(PATH_WEIGHT);
    let symbols = counts.symbols.saturating_mul(SYMBOL_WEIGHT);
    counts.body.saturating_add(path).saturating_add(symbols)
}

/// A count of a term and the length of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impact {
    pub(crate) count: u32,
    pub(crate) words: u32,
}

impl Impact {
    fn bounds(self, other: Self) -> bool {
        self.count >= other.count && self.words <= other.words
    }
}

/// The impacts of a block, of its chunks and of their documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockImpacts {
    chunks: Vec<Impact>,
    documents: Vec<Impact>,
}

impl BlockImpacts {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        for impacts in [&self.chunks, &self.documents] {
            write_varint(bytes, impacts.len() as u64);
            for impact in impacts {
                write_varint(bytes, impact.count.into());
                write_varint(bytes, impact.words.into());
            }
        }
    }
}

/// Decodes the impacts of a block, and calls the first function with those of chunks, the second with those of documents.
pub(crate) fn read_impacts(
    reader: &mut ByteReader<'_>,
    mut of_chunk: impl FnMut(Impact),
    mut of_document: impl FnMut(Impact),
) -> Option<()> {
    let mut read = |f: &mut dyn FnMut(Impact)| {
        let count = reader.read_varint().filter(|count| *count <= MAX_IMPACTS as u64)?;
        for _ in 0..count {
            f(Impact { count: reader.read_varint_u32()?, words: reader.read_varint_u32()? });
        }
        Some(())
    };
    read(&mut of_chunk)?;
    read(&mut of_document)
}

/// Adds an impact to those that none of the others bounds.
fn insert(impacts: &mut Vec<Impact>, new: Impact) {
    if impacts.iter().any(|own| own.bounds(new)) {
        return;
    }
    impacts.retain(|own| !new.bounds(*own));
    impacts.push(new);
    if impacts.len() > MAX_IMPACTS {
        impacts.sort_unstable_by_key(|impact| impact.count);
        // Counts and lengths ascend together, so these two are neighbors.
        let (low, high) = (impacts[0], impacts[1]);
        impacts[1] = Impact { count: high.count, words: low.words };
        impacts.remove(0);
    }
}

/// The lengths of the chunks and documents of a segment, in words.
#[derive(Debug, Default)]
pub(crate) struct ChunkLengths {
    chunks: Vec<u32>,
    /// The document of each chunk.
    documents: Vec<u32>,
    document_words: Vec<u32>,
}

impl ChunkLengths {
    /// Adds the chunks of the next document.
    pub(crate) fn add_document(&mut self, words: impl Iterator<Item = u32>) {
        let document = self.document_words.len() as u32;
        let mut total = 0_u32;
        for words in words {
            self.chunks.push(words);
            self.documents.push(document);
            total = total.saturating_add(words);
        }
        self.document_words.push(total);
    }

    /// Returns the impacts of the blocks of a posting list.
    pub(crate) fn impacts(
        &self,
        postings: &[(u64, FieldCounts)],
        block_len: usize,
    ) -> Vec<BlockImpacts> {
        let mut blocks = vec![BlockImpacts::default(); postings.len().div_ceil(block_len)];
        let document = |(chunk, _): &(u64, FieldCounts)| self.documents[*chunk as usize];
        let mut start = 0;
        for own in postings.chunk_by(|a, b| document(a) == document(b)) {
            let mut chunks = Vec::new();
            let mut total = 0_u32;
            for (chunk, counts) in own {
                let count = weighted_count(*counts);
                total = total.saturating_add(count);
                insert(&mut chunks, Impact { count, words: self.chunks[*chunk as usize] });
            }
            let words = self.document_words[document(&own[0]) as usize];
            let end = start + own.len();
            for block in &mut blocks[start / block_len..end.div_ceil(block_len)] {
                chunks.iter().for_each(|impact| insert(&mut block.chunks, *impact));
                insert(&mut block.documents, Impact { count: total, words });
            }
            start = end;
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn impacts_bound_every_chunk_and_document(
            documents in prop::collection::vec(
                prop::collection::vec((0..4_u32, 0..2_u32, 1..50_u32), 0..12), 1..20),
        ) {
            let (mut lengths, mut postings, mut expected) = (ChunkLengths::default(), Vec::new(), Vec::new());
            let mut chunk = 0;
            for chunks in &documents {
                lengths.add_document(chunks.iter().map(|(_, _, words)| *words));
                let total = chunks.iter().map(|(body, symbols, _)| body + 4 * symbols).sum();
                let words = chunks.iter().map(|(_, _, words)| words).sum();
                for (body, symbols, own) in chunks {
                    if body + symbols > 0 {
                        postings.push((chunk, FieldCounts { body: *body, path: 0, symbols: *symbols }));
                        let own = Impact { count: body + 4 * symbols, words: *own };
                        expected.push((own, Impact { count: total, words }));
                    }
                    chunk += 1;
                }
            }
            let blocks = lengths.impacts(&postings, 4);
            prop_assert_eq!(blocks.len(), postings.len().div_ceil(4));
            for (block, expected) in blocks.iter().zip(expected.chunks(4)) {
                prop_assert!(block.chunks.len() <= MAX_IMPACTS && block.documents.len() <= MAX_IMPACTS);
                for (chunk, document) in expected {
                    prop_assert!(block.chunks.iter().any(|impact| impact.bounds(*chunk)));
                    prop_assert!(block.documents.iter().any(|impact| impact.bounds(*document)));
                }
                let mut bytes = Vec::new();
                block.write(&mut bytes);
                let mut actual = BlockImpacts::default();
                let (chunks, documents) = (&mut actual.chunks, &mut actual.documents);
                let mut reader = ByteReader(&bytes);
                let read = read_impacts(&mut reader, |own| chunks.push(own), |own| documents.push(own));
                prop_assert!(read.is_some() && reader.is_empty());
                prop_assert_eq!(&actual, block);
            }
        }
    }
}
