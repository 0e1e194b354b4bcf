//! Runs work without the interpreter's lock, so that other threads of Python go on.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pannier::Failure;
use pannier::ops::{Control, Sends};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors;

/// The delay between checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The threads that work runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The caller's. Ctrl-C stops the work.
    Caller,
    /// A pool. Signals wait for the end of the work.
    Pool,
}

/// Runs work, and returns its result and its warnings. The window is that of its budget, for an exception.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    threads: Threads,
    sends: Sends,
    window: Option<i64>,
    work: impl FnOnce(&Control<'_>) -> Result<T, Failure> + Send,
) -> PyResult<(T, Vec<String>)> {
    let last_check = Mutex::new(Instant::now());
    let interrupt: Mutex<Option<PyErr>> = Mutex::new(None);
    let is_stopped = || {
        let mut last_check = last_check.lock().unwrap_or_else(PoisonError::into_inner);
        let mut interrupt = interrupt.lock().unwrap_or_else(PoisonError::into_inner);
        if interrupt.is_none() && last_check.elapsed() >= SIGNAL_INTERVAL {
            *interrupt = Python::attach(|py| py.check_signals().err());
            *last_check = Instant::now();
        }
        interrupt.is_some()
    };
    let controlled = || {
        let control = Control::default().until(&is_stopped).sending(sends);
        let result = work(&control);
        (result, control.into_notes().warnings)
    };
    let (result, warnings) = py.detach(|| match threads {
        Threads::Caller => controlled(),
        Threads::Pool => on_threads(controlled),
    });
    if let Some(error) = interrupt.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok((result.map_err(|failure| errors::error(py, &failure, window))?, warnings))
}

/// Calls a function on threads of this process.
///
/// A child of `fork` has none of its parent's threads, and would wait forever for those of rayon's global pool. So each
/// process has its own.
fn on_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let pool = {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        match &*pool {
            Some((owner, threads)) if *owner == process::id() => Some(Arc::clone(threads)),
            _ => {
                // Dropping the parent's pool would signal threads that do not exist here.
                std::mem::forget(pool.take());
                let threads = ThreadPoolBuilder::new().build().ok().map(Arc::new);
                *pool = threads.clone().map(|threads| (process::id(), threads));
                threads
            }
        }
    };
    match pool {
        Some(pool) => pool.install(work),
        // Without threads, the work is done on this one.
        None => work(),
    }
}
