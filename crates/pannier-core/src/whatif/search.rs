use crate::Error;

/// How much work a question about many budgets may take, and who may stop it.
///
/// A step is about a look at one candidate.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use pannier_core::Search;
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
    /// A search of at most this many steps.
    pub fn new(steps: u64) -> Self {
        Self { steps, stop: None }
    }

    /// Sets a function that returns true once the search should stop.
    #[must_use]
    pub fn until(self, stop: &'c (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Uses up steps, and returns whether there were enough of them.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if somebody stopped the search.
    pub fn spend(&mut self, steps: u64) -> Result<bool, Error> {
        if self.stop.is_some_and(|stop| stop()) {
            return Err(Error::Stopped);
        }
        let is_enough = self.steps >= steps;
        self.steps = self.steps.saturating_sub(steps);
        Ok(is_enough)
    }
}

opaque_debug!(Search<'c>);
