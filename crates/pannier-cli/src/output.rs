//! Output: data on standard output or in a file, notes on standard error. Files are replaced atomically.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use clap::{Args, ValueEnum, ValueHint};
use pannier::ops::{Decided, Notes};
use serde::Serialize;

use crate::error::CliError;
use crate::table::printable;

/// The flags of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct OutputArguments {
    /// Write to FILE instead of stdout
    #[arg(long, short, global = true, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Print no notes and warnings
    #[arg(long, short, global = true, hide_short_help = true)]
    quiet: bool,

    /// Print settings and the duration of each stage on stderr
    #[arg(long, short, global = true, hide_short_help = true, conflicts_with = "quiet")]
    verbose: bool,

    /// Colors: auto, always or never
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true
    )]
    color: Color,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The flags of this run. A process runs one command.
static ARGUMENTS: OnceLock<OutputArguments> = OnceLock::new();

/// Sets the flags of this run.
pub(crate) fn init(arguments: OutputArguments) {
    match arguments.color {
        Color::Auto => {}
        Color::Always => ColorChoice::Always.write_global(),
        Color::Never => ColorChoice::Never.write_global(),
    }
    // The first call wins, and there is only one.
    let _ = ARGUMENTS.set(arguments);
}

fn arguments() -> &'static OutputArguments {
    ARGUMENTS.get_or_init(OutputArguments::default)
}

/// Returns the file that replaces standard output.
#[cfg(feature = "inspector")]
pub(crate) fn file() -> Option<&'static Path> {
    arguments().output.as_deref()
}

/// Returns whether standard output is a terminal.
#[cfg(feature = "inspector")]
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether the user asks for details.
pub(crate) fn is_verbose() -> bool {
    arguments().verbose
}

/// The output of a command. The bytes are written unchanged.
pub(crate) enum Output {
    /// Standard output, buffered.
    Stdout(BufWriter<StdoutLock<'static>>),
    /// A file, which is replaced when the output is complete.
    File(&'static Path, Vec<u8>),
}

impl Output {
    pub(crate) fn new() -> Self {
        match &arguments().output {
            Some(path) if path.as_os_str() != "-" => Self::File(path, Vec::new()),
            _ => Self::Stdout(BufWriter::with_capacity(64 * 1_024, io::stdout().lock())),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stdout(stdout) => stdout,
            Self::File(_, bytes) => bytes,
        }
    }

    /// Writes a text unchanged.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.writer().write_all(text.as_bytes()).map_err(write_error)
    }

    /// Calls `write` with the stream.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        write(self.writer()).map_err(write_error)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(self.writer(), value).map_err(|error| json_error(&error))?;
        self.text("\n")
    }

    /// Writes a value as indented JSON.
    pub(crate) fn pretty_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(self.writer(), value).map_err(|error| json_error(&error))?;
        self.text("\n")
    }

    /// Writes a value as JSON: indented on a terminal, otherwise as one line.
    pub(crate) fn answer(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        match self {
            Self::Stdout(_) if io::stdout().is_terminal() => self.pretty_json(value),
            _ => self.json(value),
        }
    }

    /// Completes the output.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush().map_err(write_error),
            Self::File(path, bytes) => write_file(path, |file| file.write_all(&bytes)),
        }
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
    if !arguments().quiet {
        let _ = writeln!(io::stderr(), "{}", printable(line));
    }
}

/// Replaces the current line of a terminal on standard error. An empty text clears it.
pub(crate) fn status(line: &str) {
    if !arguments().quiet && io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\u{1b}[K{}", printable(line));
    }
}

/// Returns whether hints are printed: on a terminal, or if the user asks for details.
pub(crate) fn has_hints() -> bool {
    arguments().verbose || io::stderr().is_terminal()
}

/// Prints a line that only a person needs.
pub(crate) fn hint(line: &str) {
    if has_hints() {
        note(line);
    }
}

/// Prints the notes of a run: warnings, and one line of settings that the user left open.
pub(crate) fn print_notes(notes: &Notes) {
    notes.warnings.iter().for_each(|warning| warn(warning));
    let settings =
        notes.decided.iter().map(|Decided { setting, value }| format!("{setting} {value}"));
    let settings = settings.collect::<Vec<_>>().join(", ");
    if !settings.is_empty() {
        hint(&format!("using {settings}"));
    }
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
