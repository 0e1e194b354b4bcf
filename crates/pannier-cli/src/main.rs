//! The program `pannier`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pannier_cli::run(std::env::args_os().collect()).into()
}
