//! The command line of Pannier: parses arguments, calls the library, prints the result.
//!
//! Data goes to standard output and everything else to standard error, so a pipe gets only data. `error::EXIT_CODES` lists
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
#[cfg(test)]
mod reference;
mod run;
mod table;

use std::ffi::OsString;

use error::CliError;

/// Runs the command with its arguments, of which the first is the name of the program, and returns its exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let (words, former) = former::rewrite(arguments.clone());
    let command = match arguments::parse(words) {
        Ok(arguments) => {
            output::init(arguments.output);
            former.iter().for_each(|note| output::note(note));
            arguments.command
        }
        Err(problem) => return error::usage_error(&problem, arguments.into_iter()),
    };
    // The panic handler has printed the location; only the exit code is missing.
    match std::panic::catch_unwind(|| command.run().and_then(|()| interrupt::check())) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.print_error(),
        Err(_) => CliError::Internal("it panicked".to_owned()).print_error(),
    }
}
