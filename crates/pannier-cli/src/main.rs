//! The command line of Pannier: parses arguments, calls the library, prints the result.
//!
//! Data goes to standard output and everything else to standard error, so a pipe gets only data. [`error::EXIT_CODES`] lists
//! the exit codes.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod arguments;
mod command;
mod config;
mod error;
mod former;
mod input;
mod interrupt;
mod output;
mod run;
mod table;

use std::process::ExitCode;

use error::CliError;

/// A server lives long, and large calls run on many threads. The system's allocator of Linux keeps what each of them freed;
/// this one returns it. `bench/server.py --only memory` compares.
#[cfg(feature = "server")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (words, former) = former::rewrite(std::env::args_os().collect());
    let command = match arguments::parse(words) {
        Ok(arguments) => {
            output::init(arguments.output);
            former.iter().for_each(|note| output::note(note));
            arguments.command
        }
        Err(problem) => return error::usage_error(&problem, std::env::args_os()),
    };
    // The panic handler has printed the location; only the exit code is missing.
    match std::panic::catch_unwind(|| command.run().and_then(|()| interrupt::check())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => error.print_error(),
        Err(_) => CliError::Internal("it panicked".to_owned()).print_error(),
    }
}
