//! Output: data on standard output, notes on standard error, and files that are replaced atomically.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::error::CliError;
use crate::table::printable;

/// Standard output, buffered. The bytes are written unchanged.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 * 1_024, io::stdout().lock()))
    }

    /// Writes a text unchanged.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.0.write_all(text.as_bytes()).map_err(write_error)
    }

    /// Calls `write` with the stream.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
    ) -> Result<(), CliError> {
        write(&mut self.0).map_err(write_error)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.0, value).map_err(|error| json_error(&error))?;
        self.text("\n")
    }

    /// Writes a value as indented JSON.
    pub(crate) fn pretty_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(|error| json_error(&error))?;
        self.text("\n")
    }

    /// Flushes the buffer.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        self.0.flush().map_err(write_error)
    }
}

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut output = Output::new();
    output.text(text)?;
    output.finish()
}

/// Prints an answer as one line of JSON or as text.
pub(crate) fn print_answer<T: Serialize>(
    is_json: bool,
    json: impl FnOnce() -> T,
    text: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if !is_json {
        return print(&text());
    }
    let mut output = Output::new();
    output.json(&json())?;
    output.finish()
}

fn json_error(error: &serde_json::Error) -> CliError {
    match error.io_error_kind() {
        Some(kind) => write_error(kind.into()),
        None => CliError::Internal(error.to_string()),
    }
}

fn write_error(error: io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::OutputClosed;
    }
    CliError::Io { action: "write to", path: Some("standard output".into()), error }
}

/// Returns whether to use colors: on a terminal, unless `NO_COLOR` or the like is set.
pub(crate) fn is_styled(stream: &impl anstream::stream::RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Returns the width of the terminal in columns. Without a terminal it is 100, so that output is reproducible.
pub(crate) fn terminal_width() -> usize {
    terminal_size::terminal_size_of(io::stdout())
        .map_or(100, |(width, _)| usize::from(width.0))
        .max(40)
}

/// Returns the width to truncate long lines at; without a terminal, there is no limit.
pub(crate) fn max_line_width() -> usize {
    if io::stdout().is_terminal() { terminal_width() } else { usize::MAX }
}

/// Prints a line on standard error, with control characters escaped. If that fails, only the note is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

/// Prints a warning on standard error.
pub(crate) fn warn(message: &str) {
    note(&format!("warning: {message}"));
}

/// Writes a value to a file as one line of JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CliError> {
    write_file(path, |file| {
        serde_json::to_writer(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

/// Replaces a file atomically. Follows links, and writes directly to anything that is not a regular file, such as a pipe.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let failed = |error| CliError::io("write", path, error);
    let metadata = std::fs::metadata(path).ok();
    if metadata.as_ref().is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let mut file = File::options().write(true).open(path).map_err(failed)?;
        return write(&mut file).map_err(failed);
    }
    let target = path.canonicalize().ok().filter(|_| metadata.is_some());
    let path = target.as_deref().unwrap_or(path);
    if path.file_name().is_none() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    pannier_files::replace_file_with(path, write).map_err(failed)
}
