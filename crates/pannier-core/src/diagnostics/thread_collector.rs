//! A collector for all runs of a thread.
//!
//! Front ends run pipelines inside of their own calls, several times for one answer. A caller that wants to observe those runs
//! cannot pass a collector through every signature. So it sets one for the thread, for the time of a call.

use std::cell::RefCell;

use super::TraceCollector;

thread_local! {
    static COLLECTOR: RefCell<Option<Box<dyn TraceCollector>>> = const { RefCell::new(None) };
}

/// Sets the thread's collector back when it is dropped, also by a panic.
struct Restored(Option<Box<dyn TraceCollector>>);

impl Drop for Restored {
    fn drop(&mut self) {
        COLLECTOR.set(self.0.take());
    }
}

/// Calls a function. `collector` observes every [`Pipeline::run`](crate::Pipeline::run) that it makes on this thread.
///
/// ```
/// use std::rc::Rc;
/// use std::cell::Cell;
/// use pannier_core::{ContextBudget, ContextItem, Pipeline, Selection};
/// use pannier_core::report::{TraceCollector, collect_runs};
/// use pannier_core::score::RecencyScorer;
///
/// struct Tokens(Rc<Cell<i64>>);
///
/// impl TraceCollector for Tokens {
///     fn is_enabled(&self) -> bool {
///         true
///     }
///
///     fn run_ended(&mut self, selection: &Selection<'_>) {
///         self.0.set(self.0.get() + selection.tokens());
///     }
/// }
///
/// let tokens = Rc::new(Cell::new(0));
/// let items = [ContextItem::new("Good morning.", 4)?];
/// let pipeline = Pipeline::builder(RecencyScorer).build();
/// collect_runs(Box::new(Tokens(Rc::clone(&tokens))), || {
///     pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
///     pipeline.run(&items, &ContextBudget::new(50, 50)?)
/// })?;
/// pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(tokens.get(), 8);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub fn collect_runs<T>(collector: Box<dyn TraceCollector>, call: impl FnOnce() -> T) -> T {
    let _restored = Restored(COLLECTOR.replace(Some(collector)));
    call()
}

/// Calls a function with the thread's collector, if there is one. Runs inside of that run are not observed.
pub(crate) fn with_collector<T>(run: impl FnOnce(Option<&mut dyn TraceCollector>) -> T) -> T {
    match COLLECTOR.take() {
        None => run(None),
        // After a panic, `collect_runs` sets the one before it.
        Some(mut collector) => {
            let result = run(Some(&mut *collector));
            COLLECTOR.set(Some(collector));
            result
        }
    }
}
