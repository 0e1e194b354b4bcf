//! The program `pannier`.

use std::process::ExitCode;

/// A server lives long, and large calls run on many threads. The system's allocator of Linux keeps what each of them freed;
/// this one returns it. `bench/server.py --only memory` compares.
#[cfg(feature = "server")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pannier_cli::run(std::env::args_os().collect()).into()
}
