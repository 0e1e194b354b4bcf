//! The command line of Pannier: it parses, calls and prints, and decides nothing.
//!
//! Data goes to stdout and everything else to stderr, so that a pipe gets data or nothing. What a run ends
//! with is one of [`error::EXIT_CODES`].

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod arguments;
mod command;
mod error;
mod input;
mod output;
mod table;

use std::process::ExitCode;

use clap::Parser;
use error::CliError;

fn main() -> ExitCode {
    let command = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(problem) => return error::usage_error(&problem, std::env::args_os()),
    };
    // A panic has told where it happened; what is left is to end with the code for it.
    match std::panic::catch_unwind(|| command.run()) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => error.print_error(),
        Err(_) => CliError::Internal("it stopped where it never should".to_owned()).print_error(),
    }
}
