//! Runs the vectors below a folder: `cargo run -p pannier-conformance --example conformance -- DIR`.

use std::path::Path;
use std::process::ExitCode;

use pannier_conformance::Suite;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "conformance".to_owned());
    match Suite::run(Path::new(&folder)) {
        Ok(suite) => {
            println!("{suite}");
            if suite.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
