//! The posting lists of a term in all segments of an index.

use std::sync::OnceLock;

use crate::inverted_index::PostingList;

/// The posting lists of a term in the chunks of all segments.
#[derive(Debug, Default)]
pub(crate) struct TermPostings {
    /// The segments that contain the term.
    pub(crate) lists: Vec<SegmentPostings>,
    /// The number of live chunks that contain the term, in any field and in the body.
    pub(crate) count: u32,
    pub(crate) body_count: u32,
}

/// A posting list of a segment.
#[derive(Debug)]
pub(crate) struct SegmentPostings {
    /// The number of the segment.
    pub(crate) segment: usize,
    pub(crate) list: PostingList,
    /// By ranking, the bounds of blocks on the factor that is multiplied by the weight of the term.
    pub(crate) bounds: [OnceLock<Vec<f64>>; 2],
}

impl TermPostings {
    /// Adds the list of a segment, in which this many chunks are live.
    pub(crate) fn add(&mut self, segment: usize, list: PostingList, count: u32, body_count: u32) {
        self.lists.push(SegmentPostings { segment, list, bounds: Default::default() });
        self.count += count;
        self.body_count += body_count;
    }

    /// Returns its size in memory.
    pub(crate) fn memory(&self) -> usize {
        let list = |own: &SegmentPostings| {
            own.list.memory() + own.list.blocks.len() * 16 + size_of::<SegmentPostings>()
        };
        size_of::<Self>() + self.lists.iter().map(list).sum::<usize>()
    }
}
