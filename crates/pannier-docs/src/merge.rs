//! The merge policy: which segments an update rewrites into its new one.
//!
//! Size-tiered, as in log-structured merge trees: a segment with `n` live documents belongs to the tier `floor(log₄ n)`, and a tier
//! has at most three segments. When it overflows, it is merged with all below it into a segment of a higher tier. So
//! there are at most `3 (1 + log₄ n)` segments, and a document is rewritten at most once for each tier. A segment with more
//! deleted than live documents is rewritten, too, so that at most half of an index is deleted.

/// The maximum number of segments in a tier.
const MAX_IN_TIER: usize = 3;

/// The live and all documents of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSize {
    pub(crate) live: u32,
    pub(crate) all: u32,
}

fn tier(documents: u64) -> u32 {
    documents.checked_ilog2().map_or(0, |log| log / 2)
}

/// Returns whether each segment is rewritten, together with `new` documents, into one segment.
pub(crate) fn rewritten(segments: &[SegmentSize], new: usize) -> Vec<bool> {
    let mut rewritten: Vec<bool> =
        segments.iter().map(|size| size.live < size.all.div_ceil(2)).collect();
    loop {
        let (mut size, mut tiers) = (new as u64, Vec::new());
        for (segment, is_rewritten) in segments.iter().zip(&rewritten) {
            match is_rewritten {
                true => size += u64::from(segment.live),
                false => tiers.push(tier(segment.live.into())),
            }
        }
        if size > 0 {
            tiers.push(tier(size));
        }
        let count = |tier: u32| tiers.iter().filter(|other| **other == tier).count();
        let full = tiers.iter().copied().filter(|tier| count(*tier) > MAX_IN_TIER).min();
        let Some(full) = full else { return rewritten };
        for (segment, is_rewritten) in segments.iter().zip(&mut rewritten) {
            *is_rewritten |= tier(segment.live.into()) <= full;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(live: u32) -> SegmentSize {
        SegmentSize { live, all: live }
    }

    /// Applies an update, and returns the number of rewritten documents.
    fn apply(segments: &mut Vec<SegmentSize>, new: u32) -> u64 {
        let chosen = rewritten(segments, new as usize);
        let mut size = new;
        let mut kept = Vec::new();
        for (segment, is_rewritten) in segments.iter().zip(chosen) {
            if is_rewritten { size += segment.live } else { kept.push(*segment) }
        }
        if size > 0 {
            kept.push(whole(size));
        }
        *segments = kept;
        u64::from(size - new)
    }

    #[test]
    fn single_documents_are_merged_in_fours() {
        let mut segments = vec![whole(30_000)];
        for expected in [&[30_000, 1][..], &[30_000, 1, 1], &[30_000, 1, 1, 1], &[30_000, 4]] {
            apply(&mut segments, 1);
            let live: Vec<u32> = segments.iter().map(|segment| segment.live).collect();
            assert_eq!(live, expected);
        }
    }

    #[test]
    fn mostly_deleted_segments_are_rewritten() {
        let sizes = [SegmentSize { live: 4, all: 9 }, SegmentSize { live: 5, all: 9 }, whole(20)];
        assert_eq!(rewritten(&sizes, 0), [true, false, false]);
        assert_eq!(rewritten(&[SegmentSize { live: 0, all: 1 }], 0), [true]);
    }

    proptest! {
        #[test]
        fn segments_are_few_and_documents_are_seldom_rewritten(
            updates in prop::collection::vec((0..40_u32, 0..1_000_u32), 1..300),
        ) {
            let (mut segments, mut all, mut written) = (Vec::new(), 0_u64, 0);
            for (new, deleted) in updates {
                // Each update deletes some documents of one segment.
                let index = deleted as usize % segments.len().max(1);
                if let Some(segment) = segments.get_mut(index) {
                    let SegmentSize { live, .. } = segment;
                    *live -= (deleted % 7).min(*live);
                }
                written += apply(&mut segments, new);
                all += u64::from(new);
                let live: u64 = segments.iter().map(|segment| u64::from(segment.live)).sum();
                let bound = MAX_IN_TIER * (1 + tier(live) as usize);
                prop_assert!(segments.len() <= bound, "{} > {}", segments.len(), bound);
                for segment in &segments {
                    prop_assert!(segment.live * 2 >= segment.all);
                }
            }
            // Each tier rewrites a document once; a deletion can lower one by a tier.
            prop_assert!(written <= all * u64::from(2 * (1 + tier(all))), "{written} of {all}");
        }
    }
}
