//! Selection from a source that need not be read to its end.

use std::borrow::Borrow;

use crate::{ContextItem, order};

/// Fills a budget from an iterator of scored items, and stops reading when it is full.
///
/// Items are read in batches. Each batch is taken in order of score, every item that fits; the first
/// batch in which something did not fit is the last one read. Nothing after it is asked for, so the
/// source may be expensive, or endless as long as its items cost something.
///
/// It stands by itself and is not a part of a pipeline: the result depends on the order in which items
/// arrive, and it knows nothing of pins, groups or duplicates. Use it where the order is already good,
/// such as ranked search results; where all candidates are at hand, a pipeline does better.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::slice::StreamSlice;
///
/// let endless = (1..).map(|i| (ContextItem::new(format!("result {i}"), 30).unwrap(), 1.0 / f64::from(i)));
/// let outcome = StreamSlice::default().slice(endless, 100);
/// assert_eq!(outcome.taken.len(), 3);
/// assert_eq!(outcome.taken.len() + outcome.left.len(), 32);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StreamSlice {
    batch_size: usize,
}

impl Default for StreamSlice {
    /// Batches of 32.
    fn default() -> Self {
        Self { batch_size: 32 }
    }
}

/// What [`StreamSlice`] made of the items it read.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOutcome<I> {
    /// The items that were taken, with their scores, batch by batch and by score within a batch.
    pub taken: Vec<(I, f64)>,
    /// The items that were read and did not fit, or have a negative token count.
    pub left: Vec<(I, f64)>,
    /// What the taken items cost together.
    pub tokens: i64,
}

impl StreamSlice {
    /// Reads in batches of this size; 0 counts as 1, which takes items strictly as they come.
    pub fn new(batch_size: usize) -> Self {
        Self { batch_size: batch_size.max(1) }
    }

    /// Takes what fits `target_tokens`, and reads no more than it has to.
    pub fn slice<I: Borrow<ContextItem>>(
        &self,
        source: impl IntoIterator<Item = (I, f64)>,
        target_tokens: i64,
    ) -> StreamOutcome<I> {
        let mut outcome = StreamOutcome { taken: Vec::new(), left: Vec::new(), tokens: 0 };
        let mut source = source.into_iter();
        while outcome.tokens < target_tokens {
            let mut batch: Vec<(I, f64)> = source.by_ref().take(self.batch_size).collect();
            let last = batch.len() < self.batch_size;
            // Stable, so equal scores stay in order of arrival.
            batch.sort_by_key(|(_, score)| order::descending_key(*score));
            let mut full = false;
            for (item, score) in batch {
                let tokens = item.borrow().tokens();
                if tokens < 0 {
                    outcome.left.push((item, score));
                } else if tokens <= target_tokens - outcome.tokens {
                    outcome.tokens += tokens;
                    outcome.taken.push((item, score));
                } else {
                    outcome.left.push((item, score));
                    full = true;
                }
            }
            if full || last {
                break;
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn item(content: &str, tokens: i64) -> ContextItem {
        ContextItem::new(content, tokens).unwrap()
    }

    #[test]
    fn it_stops_reading_after_the_batch_that_overflows() {
        let read = Cell::new(0);
        let source = (0..1000).map(|i| {
            read.set(read.get() + 1);
            (item(&i.to_string(), 10), 0.5)
        });
        let outcome = StreamSlice::new(4).slice(source, 95);
        assert_eq!(read.get(), 12);
        assert_eq!((outcome.taken.len(), outcome.left.len(), outcome.tokens), (9, 3, 90));
    }

    #[test]
    fn a_batch_goes_by_score_and_smaller_items_still_fit() {
        let source = vec![(item("a", 60), 0.1), (item("b", 50), 0.9), (item("c", 40), 0.5)];
        let outcome = StreamSlice::default().slice(source, 100);
        let contents: Vec<_> = outcome.taken.iter().map(|(item, _)| item.content()).collect();
        assert_eq!(contents, ["b", "c"]);
        assert_eq!(outcome.left.len(), 1);
        // One without tokens always fits.
        assert_eq!(StreamSlice::default().slice([(item("empty", 0), 0.5)], 1).taken.len(), 1);
    }

    #[test]
    fn nothing_is_read_for_an_empty_budget_or_beyond_an_exact_fit() {
        let read = Cell::new(0);
        let source = || (0..10).map(|_| (read.set(read.get() + 1), (item("x", 5), 1.0)).1);
        assert!(StreamSlice::new(1).slice(source(), 0).taken.is_empty());
        assert_eq!(read.get(), 0);
        assert_eq!(StreamSlice::new(1).slice(source(), 10).tokens, 10);
        assert_eq!(read.get(), 2);
    }

    #[test]
    fn a_source_that_runs_out_is_the_end() {
        let outcome =
            StreamSlice::new(2).slice((0..4).map(|i| (item(&i.to_string(), 1), 0.5)), 100);
        assert_eq!((outcome.taken.len(), outcome.tokens), (4, 4));
    }

    #[test]
    fn invalid_counts_and_scores_that_are_no_numbers_do_no_harm() {
        let source =
            vec![(item("bad", -5), 1.0), (item("odd", 5), f64::NAN), (item("good", 5), 0.1)];
        let outcome = StreamSlice::default().slice(source, 5);
        assert_eq!(outcome.taken[0].0.content(), "good");
        assert_eq!(outcome.left.len(), 2);
    }
}
