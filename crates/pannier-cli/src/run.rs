//! Runs requests for commands.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use pannier::ops::{Control, Request};
use pannier::{Failure, Shelf};

use crate::error::CliError;
use crate::{interrupt, output};

/// Runs a request, and prints its notes on standard error.
pub(crate) fn run<R: Request>(request: R, shelf: &Shelf) -> Result<R::Answer, CliError> {
    with_notes(Control::default(), |control| request.run(shelf, control))
}

/// Runs a request that may search for long. Ctrl-C ends it with what is known so far.
pub(crate) fn search<R: Request>(request: R, shelf: &Shelf) -> Result<R::Answer, CliError> {
    with_notes(interruptible(), |control| request.run(shelf, control))
}

/// Returns a control that Ctrl-C stops.
pub(crate) fn interruptible() -> Control<'static> {
    Control::default().until(interrupt::listen())
}

/// Calls a function, and prints its notes on standard error.
pub(crate) fn with_notes<'c, T>(
    control: Control<'c>,
    call: impl FnOnce(&Control<'c>) -> Result<T, Failure>,
) -> Result<T, CliError> {
    with_output(control, |control| Ok(call(control)?))
}

/// Calls a function that also prints, and prints its notes on standard error.
pub(crate) fn with_output<'c, T>(
    control: Control<'c>,
    call: impl FnOnce(&Control<'c>) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let result = call(&control);
    output::print_notes(&control.into_notes());
    result
}

/// An output format. Each command has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people, or as it is sent to a model.
    Text,
    /// One line of JSON.
    Json,
    /// One line of JSON for each item.
    Jsonl,
    /// A table for people.
    Table,
    /// A policy.
    Toml,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Table => "table",
            Self::Toml => "toml",
        }
    }

    pub(crate) fn is_json(self) -> bool {
        self == Self::Json
    }
}

/// Returns a parser of these formats.
pub(crate) fn formats(allowed: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    let names = allowed.iter().map(|format| format.name());
    let find = |name: String| allowed.iter().copied().find(|format| format.name() == name);
    PossibleValuesParser::new(names).map(move |name| find(name).unwrap_or(Format::Text))
}
