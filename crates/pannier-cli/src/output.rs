//! Where results go: data to stdout, whole files to disk, and nothing in halves.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::error::CliError;

/// Standard output, written in large pieces. Nothing in it is changed on the way.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 * 1_024, io::stdout().lock()))
    }

    /// Writes a text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.0.write_all(text.as_bytes()).map_err(closed)
    }

    /// Lets something write itself.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
    ) -> Result<(), CliError> {
        write(&mut self.0).map_err(closed)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.0, value).map_err(|error| unwritten(&error))?;
        self.text("\n")
    }

    /// Writes a value as JSON for people.
    pub(crate) fn pretty_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(|error| unwritten(&error))?;
        self.text("\n")
    }

    /// Makes sure that everything is written.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        self.0.flush().map_err(closed)
    }
}

fn unwritten(error: &serde_json::Error) -> CliError {
    match error.io_error_kind() {
        Some(kind) => closed(kind.into()),
        None => CliError::Internal(error.to_string()),
    }
}

fn closed(error: io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::OutputClosed;
    }
    CliError::Io { action: "write to", path: Some("standard output".into()), error }
}

/// Whether colours may be used: on a terminal, unless `NO_COLOR` or the like says otherwise.
pub(crate) fn is_styled(stream: &impl anstream::stream::RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// How many columns there are; a fixed number where there is no terminal, so that output is the same
/// everywhere.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout())
        .map_or(100, |(width, _)| usize::from(width.0))
        .max(40)
}

/// How long a line may be that must not be cut without need.
pub(crate) fn room() -> usize {
    if io::stdout().is_terminal() { width() } else { usize::MAX }
}

/// Writes a value to a file, as one line of JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CliError> {
    write_file(path, |file| {
        serde_json::to_writer(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

/// Replaces a file by a new one at once: the old one stays until the new one is complete. A link stays a link, and what is
/// no file, such as a pipe, is written to.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let failed = |error| CliError::io("write", path, error);
    let found = std::fs::metadata(path).ok();
    if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        let mut file = File::options().write(true).open(path).map_err(failed)?;
        return write(&mut file).map_err(failed);
    }
    let target = path.canonicalize().ok().filter(|_| found.is_some());
    let path = target.as_deref().unwrap_or(path);
    if path.file_name().is_none() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    pannier_files::replace_file_with(path, write).map_err(failed)
}
