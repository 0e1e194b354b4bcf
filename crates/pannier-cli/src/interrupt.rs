//! Ctrl-C while a search runs: the command prints what is known so far. A second Ctrl-C ends it at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use pannier_core::whatif::Search;

use crate::error::CliError;

/// The exit code of an interrupted command, as shells report it: 128 and the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns a search that Ctrl-C stops. Before the first one, Ctrl-C ends the command as usual.
pub(crate) fn search(steps: u64) -> Search<'static> {
    Search::new(steps).until(listen())
}

/// Listens for Ctrl-C from now on, and returns whether the user pressed it.
pub(crate) fn listen() -> &'static (dyn Fn() -> bool + Sync) {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        // Without a listener, Ctrl-C ends the command as usual.
        let _ = std::thread::Builder::new().spawn(wait);
    });
    &is_interrupted
}

/// Fails if the user interrupted the command.
pub(crate) fn check() -> Result<(), CliError> {
    if is_interrupted() { Err(CliError::Interrupted) } else { Ok(()) }
}

fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

fn wait() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    }
}
