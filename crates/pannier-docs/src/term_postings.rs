//! The posting lists of a term in all segments of an index.

use std::sync::OnceLock;

use crate::inverted_index::PostingList;

/// The memory of a cached term besides its lists: its slot in the table and its allocations, roughly.
const ENTRY_BYTES: usize = 160;

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

    /// Returns the memory of a cached term. An absent one is not cached: clients can send any number of them.
    pub(crate) fn memory(&self, term: &str) -> Option<usize> {
        let list = |own: &SegmentPostings| {
            own.list.memory() + own.list.blocks.len() * 16 + size_of::<SegmentPostings>()
        };
        let lists = self.lists.iter().map(list).sum::<usize>();
        (!self.lists.is_empty()).then(|| ENTRY_BYTES + term.len() + lists)
    }
}
