//! `pannier conformance`: runs conformance vectors.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use pannier_conformance::Suite;

use crate::error::CliError;
use crate::output;
use crate::table::printable;

/// Run conformance vectors; exits with 1 if one fails or cannot be run
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier conformance conformance/required")]
pub(crate) struct Conformance {
    /// Folder with .toml vectors, or one vector
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    folder: PathBuf,
}

impl Conformance {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let suite = Suite::run(&self.folder)?;
        let written = output::print(&printable(&format!("{suite}\n")));
        CliError::check_failed(written, suite.is_clean())
    }
}
