//! The extension module of the Python package: the requests of the library, and the command.
//!
//! It is thin. Objects of Python become JSON once, the library works without the interpreter's lock, and answers go back as
//! JSON. The functions that people call are in `python/pannier`.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod chat;
mod errors;
mod json;
mod pool;
mod requests;
mod run;

use pyo3::prelude::*;

/// Runs the command with its arguments, of which the first is the name of the program, and returns its exit code.
#[cfg(feature = "command")]
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| pannier_cli::run(arguments))
}

#[pymodule]
mod _pannier {
    #[cfg(feature = "command")]
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use crate::chat::{Fitted, detect, fit_chat};
    #[pymodule_export]
    use crate::pool::{Run, pack};
    #[pymodule_export]
    use crate::requests::{request, schema};
}
