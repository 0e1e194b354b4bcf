//! Ctrl-C while a search runs: the command prints what is known so far. A second Ctrl-C ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pannier_core::whatif::Search;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::error::CliError;

/// The exit code of an interrupted command, as shells report it: 128 and the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Whether the user pressed Ctrl-C, from the first search on.
static IS_INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns a search that Ctrl-C stops. Before the first one, Ctrl-C ends the command as usual.
pub(crate) fn search(steps: u64) -> Search<'static> {
    Search::new(steps).until(listen())
}

/// Listens for Ctrl-C from now on, and returns whether the user pressed it.
pub(crate) fn listen() -> &'static (dyn Fn() -> bool + Sync) {
    IS_INTERRUPTED.get_or_init(|| {
        let is_set = Arc::new(AtomicBool::new(false));
        // In this order, the first Ctrl-C only sets the flag, and the second one ends the command. Without a listener, Ctrl-C
        // ends it as usual.
        let _ = flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), is_set.clone())
            .and_then(|_| flag::register(SIGINT, is_set.clone()));
        is_set
    });
    &is_interrupted
}

/// Fails if the user interrupted the command.
pub(crate) fn check() -> Result<(), CliError> {
    if is_interrupted() { Err(CliError::Interrupted) } else { Ok(()) }
}

fn is_interrupted() -> bool {
    IS_INTERRUPTED.get().is_some_and(|is_set| is_set.load(Ordering::Relaxed))
}
