//! The retrieval of the best chunks of a segment: block-max MaxScore, document by document.
//!
//! A chunk gets a score from its own terms and one from its document, so chunks are retrieved document by document. The
//! documents are divided into windows. In a window, the impacts of posting blocks bound what each term can contribute. The terms
//! with the lowest bounds that together cannot lift a chunk into the top k are not essential: only documents with another,
//! essential term are candidates. Essential lists are added up list by list. The others are looked up for documents that can
//! still reach the top k, the heaviest first. A window without essential terms is skipped.
//!
//! Scores are sums in another order than the final ones, and bounds are computed from other operands. [`ROUNDING_SLACK`] covers
//! the difference, so that the result is a superset of the top k, ties included.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::inverted_index::{DecodedBlock, PostingList};
use crate::word_counts::FieldCounts;

/// Tolerance for sums whose terms were added in another order.
const ROUNDING_SLACK: f64 = 1.0 + 1e-9;

/// The number of chunks in a window. A document is never divided. Small in tests, so that small corpora have many windows.
const WINDOW_CHUNKS: u32 = if cfg!(test) { 8 } else { 2_048 };

/// The best scores so far.
#[derive(Debug)]
pub(crate) struct TopScores {
    count: usize,
    /// The bits of the best scores, the lowest on top. Positive numbers have the order of their bits.
    best: BinaryHeap<Reverse<u64>>,
    /// The chunks that may be among the best.
    candidates: Vec<(u32, f64)>,
}

impl TopScores {
    /// Collects the `count` best chunks; `count` must be positive.
    pub(crate) fn new(count: usize) -> Self {
        Self { count, best: BinaryHeap::new(), candidates: Vec::new() }
    }

    /// Returns the score that a chunk needs.
    fn threshold(&self) -> f64 {
        match self.best.peek() {
            Some(Reverse(bits)) if self.best.len() >= self.count => f64::from_bits(*bits),
            _ => 0.0,
        }
    }

    fn can_reach(&self, bound: f64) -> bool {
        bound * ROUNDING_SLACK >= self.threshold()
    }

    fn push(&mut self, chunk: u32, score: f64) {
        if !self.can_reach(score) {
            return;
        }
        self.best.push(Reverse(score.to_bits()));
        if self.best.len() > self.count {
            self.best.pop();
        }
        self.candidates.push((chunk, score));
        if self.candidates.len() >= 1_024 + 8 * self.best.len() {
            self.drop_low();
        }
    }

    fn drop_low(&mut self) {
        let threshold = self.threshold();
        self.candidates.retain(|(_, score)| score * ROUNDING_SLACK >= threshold);
    }

    /// Returns a superset of the best chunks, including ties.
    pub(crate) fn into_candidates(mut self) -> Vec<u32> {
        self.drop_low();
        self.candidates.into_iter().map(|(chunk, _)| chunk).collect()
    }
}

/// The scores of a query in a segment. All numbers of documents and chunks are those of the segment.
pub(crate) trait SegmentScorer {
    /// Returns the weighted count of a term.
    fn count(&self, counts: FieldCounts) -> u32;

    /// Returns the factor of a chunk, by the count of a term in it.
    fn chunk_factor(&self, document: u32, chunk: u32, count: u32) -> f64;

    /// Returns the factor of a document, which adds to that of each of its chunks.
    fn document_factor(&self, document: u32, count: u32) -> f64;

    /// Returns whether a document is neither deleted nor excluded by a filter.
    fn is_searched(&self, document: u32) -> bool;

    /// Returns the number of a document's first chunk in the index; `None` if it is deleted.
    fn first_number(&self, document: u32) -> Option<u32>;
}

/// A position in the posting list of a term. It only moves forward.
#[derive(Debug)]
pub(crate) struct Cursor<'l> {
    list: &'l PostingList,
    weight: f64,
    /// The bounds of blocks on the factors.
    bounds: &'l [f64],
    /// The highest score by this term.
    max_score: f64,
    block: usize,
    /// The number of the decoded block, its docs with weighted counts, and the number of those passed.
    decoded: Option<usize>,
    postings: Box<DecodedBlock>,
    position: usize,
}

impl<'l> Cursor<'l> {
    pub(crate) fn new(
        list: &'l PostingList,
        weight: f64,
        bounds: &'l [f64],
        postings: Box<DecodedBlock>,
    ) -> Self {
        let max_score = weight * bounds.iter().copied().fold(0.0, f64::max);
        Self { list, weight, bounds, max_score, block: 0, decoded: None, postings, position: 0 }
    }

    /// Returns the number of postings.
    pub(crate) fn len(&self) -> usize {
        self.list.count as usize
    }

    /// Moves to the block that can contain `chunk` or the next one after it.
    fn skip_to(&mut self, chunk: u32) {
        let blocks = &self.list.blocks[self.block..];
        if blocks.first().is_none_or(|block| block.last >= chunk) {
            return;
        }
        // Galloping: the next block is mostly near.
        let mut size = 1;
        while blocks.get(size).is_some_and(|block| block.last < chunk) {
            size *= 2;
        }
        let near = &blocks[size / 2..blocks.len().min(size + 1)];
        self.block += size / 2 + near.partition_point(|block| block.last < chunk);
    }

    /// Returns a chunk that no later posting precedes; `None` at the end.
    fn next_chunk(&mut self, from: u32) -> Option<u32> {
        self.skip_to(from);
        let block = self.list.blocks.get(self.block)?;
        let next = block.next.max(from);
        if self.decoded != Some(self.block) {
            return Some(next);
        }
        let rest = &self.postings.docs()[self.position..];
        Some(rest.iter().copied().find(|chunk| *chunk >= next).unwrap_or(block.last))
    }

    /// Returns the highest score by this term in a range of chunks.
    fn bound(&mut self, chunks: &Range<u32>) -> f64 {
        self.skip_to(chunks.start);
        let blocks = self.list.blocks[self.block..].iter().zip(&self.bounds[self.block..]);
        let inside = blocks.take_while(|(block, _)| block.next < chunks.end);
        self.weight * inside.fold(0.0, |max, (_, bound)| bound.max(max))
    }

    /// Returns the highest score by this term in a document that starts at `chunk`, by the block of its first posting.
    fn document_bound(&mut self, chunks: &Range<u32>) -> f64 {
        self.skip_to(chunks.start);
        match self.list.blocks.get(self.block) {
            Some(block) if block.next < chunks.end => self.weight * self.bounds[self.block],
            _ => 0.0,
        }
    }

    /// Calls `f` with the postings of a range. Returns `None` if the list is corrupt.
    #[inline]
    fn for_each_in(
        &mut self,
        chunks: &Range<u32>,
        scorer: &impl SegmentScorer,
        mut f: impl FnMut(u32, u32),
    ) -> Option<()> {
        self.skip_to(chunks.start);
        while let Some(block) = self.list.blocks.get(self.block)
            && block.next < chunks.end
        {
            if self.decoded != Some(self.block) {
                self.decode(scorer)?;
            }
            let docs = self.postings.docs();
            let rest = &docs[self.position..];
            let start = self.position + rest.iter().take_while(|own| **own < chunks.start).count();
            let rest = &docs[start..];
            let end = start
                + match block.last < chunks.end {
                    true => rest.len(),
                    false => rest.iter().take_while(|own| **own < chunks.end).count(),
                };
            self.position = end;
            let postings = docs[start..end].iter().zip(&self.postings.merged_counts()[start..end]);
            postings.filter(|(_, count)| **count > 0).for_each(|(chunk, count)| f(*chunk, *count));
            if block.last >= chunks.end {
                return Some(());
            }
            self.block += 1;
        }
        Some(())
    }

    fn decode(&mut self, scorer: &impl SegmentScorer) -> Option<()> {
        self.list.decode(self.list.blocks.get(self.block)?, &mut self.postings)?;
        self.postings.merge_counts(|counts| scorer.count(counts));
        (self.decoded, self.position) = (Some(self.block), 0);
        Some(())
    }
}

/// Memory that the segments of a search use one after the other.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    window: Window,
    #[expect(clippy::vec_box, reason = "cursors take and return the boxes")]
    blocks: Vec<Box<DecodedBlock>>,
}

impl Buffers {
    /// Takes the memory of a cursor.
    pub(crate) fn block(&mut self) -> Box<DecodedBlock> {
        self.blocks.pop().unwrap_or_default()
    }
}

/// The documents of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentDocuments<'s> {
    /// The first chunk of each document, and the number of chunks.
    pub(crate) firsts: &'s [u32],
    /// The document of each chunk, if many are looked up.
    pub(crate) documents: Option<&'s [u32]>,
}

impl SegmentDocuments<'_> {
    /// Returns the document of a chunk.
    #[inline]
    pub(crate) fn document_of(&self, chunk: u32) -> u32 {
        match self.documents {
            Some(documents) => documents[chunk as usize],
            None => self.firsts.partition_point(|first| *first <= chunk) as u32 - 1,
        }
    }

    fn chunks(&self, document: u32) -> Range<u32> {
        self.firsts[document as usize]..self.firsts[document as usize + 1]
    }
}

/// The scores of a window.
#[derive(Debug, Default)]
struct Window {
    first_chunk: u32,
    first_document: u32,
    /// The scores of chunks by their own terms, and those of documents.
    chunks: Vec<f64>,
    documents: Vec<f64>,
    /// The highest score of each document's chunks by their own terms. Scores only grow, so it is known without a search.
    bests: Vec<f64>,
    /// A bit for each document with a posting.
    matched: Vec<u64>,
}

impl Window {
    /// Moves to a range of documents. All scores must be 0.
    fn start(&mut self, documents: &Range<u32>, chunks: &Range<u32>) {
        (self.first_chunk, self.first_document) = (chunks.start, documents.start);
        let resize = |scores: &mut Vec<f64>, len: usize| scores.resize(scores.len().max(len), 0.0);
        resize(&mut self.chunks, chunks.len());
        resize(&mut self.documents, documents.len());
        resize(&mut self.bests, documents.len());
        self.matched.clear();
        self.matched.resize(documents.len().div_ceil(64), 0);
    }

    /// Adds the postings of a term in a range of chunks.
    #[inline]
    fn add(
        &mut self,
        cursor: &mut Cursor<'_>,
        chunks: &Range<u32>,
        segment: SegmentDocuments<'_>,
        scorer: &impl SegmentScorer,
    ) -> Option<()> {
        let weight = cursor.weight;
        let (mut document, mut in_document, mut best) = (u32::MAX, 0_u32, 0.0_f64);
        let (documents, bests) = (&mut self.documents, &mut self.bests);
        let mut end_document = |document: u32, count: u32, best: f64| {
            if count > 0 {
                let index = (document - self.first_document) as usize;
                documents[index] += weight * scorer.document_factor(document, count);
                bests[index] = bests[index].max(best);
            }
        };
        let scores = &mut self.chunks;
        cursor.for_each_in(chunks, scorer, |chunk, count| {
            let own = segment.document_of(chunk);
            if own != document {
                end_document(document, in_document, best);
                (document, in_document, best) = (own, 0, 0.0);
                let index = (own - self.first_document) as usize;
                self.matched[index / 64] |= 1 << (index % 64);
            }
            in_document = in_document.saturating_add(count);
            let score = &mut scores[(chunk - self.first_chunk) as usize];
            *score += weight * scorer.chunk_factor(own, chunk, count);
            best = if *score > best { *score } else { best };
        })?;
        end_document(document, in_document, best);
        Some(())
    }

    /// Returns the scores of a document's chunks by their own terms.
    fn own_scores(&mut self, chunks: &Range<u32>) -> &mut [f64] {
        let (start, end) = (chunks.start - self.first_chunk, chunks.end - self.first_chunk);
        &mut self.chunks[start as usize..end as usize]
    }

    /// Returns the highest score of a document's chunks.
    #[inline]
    fn best(&self, document: u32) -> f64 {
        let index = (document - self.first_document) as usize;
        self.bests[index] + self.documents[index]
    }

    /// Resets the scores of a document.
    fn clear(&mut self, document: u32, chunks: &Range<u32>) {
        self.own_scores(chunks).fill(0.0);
        let index = (document - self.first_document) as usize;
        (self.documents[index], self.bests[index]) = (0.0, 0.0);
    }
}

/// Collects the best chunks of a segment. Returns `None` if a posting list is corrupt.
pub(crate) fn collect(
    mut cursors: Vec<Cursor<'_>>,
    segment: SegmentDocuments<'_>,
    scorer: &impl SegmentScorer,
    buffers: &mut Buffers,
    top: &mut TopScores,
) -> Option<()> {
    let window = &mut buffers.window;
    cursors.sort_by(|a, b| a.max_score.total_cmp(&b.max_score));
    let document_count = segment.firsts.len() as u32 - 1;
    let mut from = 0;
    let mut bounds: Vec<(f64, usize)> = Vec::with_capacity(cursors.len());
    let mut max_rests: Vec<f64> = Vec::with_capacity(cursors.len());
    loop {
        let essential = first_essential(cursors.iter().map(|cursor| cursor.max_score), top);
        let next = cursors[essential..].iter_mut().filter_map(|cursor| cursor.next_chunk(from));
        let Some(next) = next.min() else { break };
        let documents = window_documents(segment, next, document_count);
        let chunks =
            segment.firsts[documents.start as usize]..segment.firsts[documents.end as usize];
        from = chunks.end;
        bounds.clear();
        bounds.extend(cursors.iter_mut().map(|cursor| cursor.bound(&chunks)).zip(0..));
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let essential = first_essential(bounds.iter().map(|(bound, _)| *bound), top);
        if essential == bounds.len() {
            continue;
        }
        // The highest sums of the first terms that are not essential.
        let mut sum = 0.0;
        max_rests.clear();
        max_rests.extend(bounds[..essential].iter().map(|(bound, _)| {
            let before = sum;
            sum += bound;
            before
        }));
        window.start(&documents, &chunks);
        for (_, cursor) in &bounds[essential..] {
            window.add(&mut cursors[*cursor], &chunks, segment, scorer)?;
        }
        for word in 0..window.matched.len() {
            let mut bits = window.matched[word];
            while bits != 0 {
                let document = documents.start + word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let own = segment.chunks(document);
                if top.can_reach(window.best(document) + sum)
                    && scorer.is_searched(document)
                    && {
                        let rest = bounds[..essential].iter().zip(&max_rests).rev();
                        let rest = rest.map(|((_, cursor), max_rest)| (*cursor, *max_rest));
                        complete(window, document, &own, &mut cursors, rest, segment, scorer, top)?
                    }
                    && let Some(first) = scorer.first_number(document)
                {
                    let of_document = window.documents[(document - documents.start) as usize];
                    let scores = window.own_scores(&own).iter().zip(first..);
                    for (score, number) in scores.filter(|(score, _)| **score > 0.0) {
                        top.push(number, score + of_document);
                    }
                }
                window.clear(document, &own);
            }
        }
    }
    buffers.blocks.extend(cursors.into_iter().map(|cursor| cursor.postings));
    Some(())
}

/// Returns the number of the lowest bounds whose sum cannot reach the top.
fn first_essential(bounds: impl Iterator<Item = f64>, top: &TopScores) -> usize {
    let mut sum = 0.0;
    let low = bounds.take_while(|bound| {
        sum += bound;
        !top.can_reach(sum)
    });
    low.count()
}

/// Returns the documents of the window that starts at the document of a chunk.
fn window_documents(segment: SegmentDocuments<'_>, chunk: u32, count: u32) -> Range<u32> {
    let first = segment.document_of(chunk);
    let limit = segment.firsts[first as usize].saturating_add(WINDOW_CHUNKS);
    let chunk_count = segment.firsts[count as usize];
    let last = if limit < chunk_count { segment.document_of(limit) } else { count };
    first..last.max(first + 1)
}

/// Adds the terms that are not essential to the scores of a document, the heaviest first, and returns whether it can reach the
/// top. `rest` has their cursors, each with the highest score of the terms after it.
#[expect(clippy::too_many_arguments, reason = "the state of one loop")]
fn complete(
    window: &mut Window,
    document: u32,
    chunks: &Range<u32>,
    cursors: &mut [Cursor<'_>],
    rest: impl Iterator<Item = (usize, f64)>,
    segment: SegmentDocuments<'_>,
    scorer: &impl SegmentScorer,
    top: &TopScores,
) -> Option<bool> {
    let mut best = window.best(document);
    for (cursor, max_rest) in rest {
        let cursor = &mut cursors[cursor];
        let bound = cursor.document_bound(chunks);
        if !top.can_reach(best + bound + max_rest) {
            return Some(false);
        }
        if bound > 0.0 {
            window.add(cursor, chunks, segment, scorer)?;
            best = window.best(document);
        }
    }
    Some(top.can_reach(best))
}
