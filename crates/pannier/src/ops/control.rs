//! What a run reports to its caller, and how the caller stops it.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use pannier_core::whatif::Search;
use pannier_core::{Error, TokenCounter};

use crate::Failure;

/// The caller's view of a run: progress, notes, and a way to stop it.
#[derive(Default)]
pub struct Control<'c> {
    stop: Option<&'c (dyn Fn() -> bool + Sync)>,
    progress: Option<&'c dyn Fn(&'static str)>,
    count: Option<&'c dyn Fn(usize, usize)>,
    notes: RefCell<Notes>,
    sends: Sends,
    limit: RefCell<Option<Limit>>,
}

/// The part of an answer that the caller sends. A budget bounds this part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sends {
    /// The answer as data.
    #[default]
    Data,
    /// The text.
    Text,
    /// The text, and its details after it.
    Details,
}

/// The maximum tokens of what is sent, and what counts them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// The tokens.
    pub tokens: i64,
    /// The counter.
    pub counter: Arc<dyn TokenCounter>,
}

/// What a run reports besides its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notes {
    /// Settings that the request left open.
    pub decided: Vec<Decided>,
    /// Problems that did not stop the run.
    pub warnings: Vec<String>,
}

/// A setting that a request left open, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The setting.
    pub setting: &'static str,
    /// The value.
    pub value: String,
}

impl<'c> Control<'c> {
    /// Sets a function that returns true once the run should stop. It is called often, and should be fast.
    #[must_use]
    pub fn until(mut self, stop: &'c (dyn Fn() -> bool + Sync)) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets a function that is called when a step begins.
    #[must_use]
    pub fn on_step(mut self, progress: &'c dyn Fn(&'static str)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets a function that is called with the finished and all parts of a long run.
    #[must_use]
    pub fn on_count(mut self, count: &'c dyn Fn(usize, usize)) -> Self {
        self.count = Some(count);
        self
    }

    /// Sets the part of the answer that the caller sends. Default: the answer as data.
    #[must_use]
    pub fn sending(mut self, sends: Sends) -> Self {
        self.sends = sends;
        self
    }

    /// Returns the part of the answer that the caller sends.
    pub fn sends(&self) -> Sends {
        self.sends
    }

    /// Records the budget of the run.
    pub fn bound(&self, tokens: i64, counter: &Arc<dyn TokenCounter>) {
        *self.limit.borrow_mut() = Some(Limit { tokens, counter: Arc::clone(counter) });
    }

    /// Returns the budget of the run, once it is known.
    pub fn limit(&self) -> Option<Limit> {
        self.limit.borrow().clone()
    }

    /// Returns the notes of the run, and forgets them.
    pub fn take_notes(&self) -> Notes {
        self.notes.take()
    }

    /// Ends the run, and returns its notes.
    pub fn into_notes(self) -> Notes {
        self.notes.into_inner()
    }

    /// Starts a step, unless somebody stopped the run.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn step(&self, name: &'static str) -> Result<(), Failure> {
        if self.is_stopped() {
            return Err(Error::Stopped.into());
        }
        self.progress.iter().for_each(|progress| progress(name));
        Ok(())
    }

    /// Returns whether somebody stopped the run.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// Reports the finished and all parts of a long run.
    pub fn count(&self, done: usize, total: usize) {
        self.count.iter().for_each(|count| count(done, total));
    }

    /// Records a setting that the request left open.
    pub fn decide(&self, setting: &'static str, value: impl Into<String>) {
        self.notes.borrow_mut().decided.push(Decided { setting, value: value.into() });
    }

    /// Records a problem that does not stop the run.
    pub fn warn(&self, problem: impl Into<String>) {
        self.notes.borrow_mut().warnings.push(problem.into());
    }

    /// Returns a search of at most this many steps, which stops with the run.
    pub fn search(&self, steps: u64) -> Search<'c> {
        match self.stop {
            Some(stop) => Search::new(steps).until(stop),
            None => Search::new(steps),
        }
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("notes", &self.notes).finish_non_exhaustive()
    }
}
