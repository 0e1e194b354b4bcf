use std::ops::RangeInclusive;

use crate::Error;

/// How much work a question about many budgets may take, and who may stop it.
///
/// A step is about a look at one candidate: a few nanoseconds.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use pannier_core::whatif::Search;
///
/// let is_cancelled = AtomicBool::new(false);
/// let stop = || is_cancelled.load(Ordering::Relaxed);
/// let mut search = Search::new(1_000).until(&stop);
/// assert!(search.spend(600)?);
/// assert!(!search.spend(600)?, "only 400 steps are left");
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Search<'c> {
    steps: u64,
    stop: Option<&'c (dyn Fn() -> bool + Sync)>,
}

impl<'c> Search<'c> {
    /// The steps of a question that a person waits for: about ten seconds.
    pub const DEFAULT_STEPS: u64 = 1 << 33;

    /// A search of at most this many steps.
    pub fn new(steps: u64) -> Self {
        Self { steps, stop: None }
    }

    /// Sets a function that returns true once the search should stop. It is called often, and should be fast.
    #[must_use]
    pub fn until(self, stop: &'c (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Uses up steps, and returns whether there were enough of them.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if the search was stopped.
    pub fn spend(&mut self, steps: u64) -> Result<bool, Error> {
        if self.stop.is_some_and(|stop| stop()) {
            return Err(Error::Stopped);
        }
        let is_enough = self.steps >= steps;
        self.steps = self.steps.saturating_sub(steps);
        Ok(is_enough)
    }

    /// Splits off a search with one of `parts` equal parts of the steps.
    pub(crate) fn part(&mut self, parts: usize) -> Self {
        let steps = self.steps / parts.max(1) as u64;
        self.steps -= steps;
        Self { steps, ..*self }
    }
}

opaque_debug!(Search<'c>);

/// The answer to "at which budget is this item selected?".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// At this one.
    At {
        /// The budget.
        tokens: i64,
        /// Whether all smaller ones are known not to select it. Otherwise the steps ran out, and the rest was searched by
        /// halves: with one token less it is not selected, but with still fewer it may be.
        is_proven: bool,
    },
    /// At none at all, because the item does not compete: it is invalid, or a duplicate.
    Never,
    /// Not at these budgets. They are all that were asked for, unless the steps ran out or the search was stopped.
    NotWithin {
        /// The budgets that do not select it. May be empty.
        tried: RangeInclusive<i64>,
    },
}
