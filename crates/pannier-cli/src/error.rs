//! Errors of the command: their text on standard error, and their exit codes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use pannier::{Audience, Category, Failure};
use pannier_chat::ChatError;
use pannier_conformance::SuiteError;
use pannier_core::Error;
use pannier_docs::DocsError;
#[cfg(feature = "server")]
use pannier_gateway::GatewayError;
#[cfg(feature = "server")]
use pannier_mcp::ServeError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;
use pannier_tokens::TokenError;

use crate::interrupt::INTERRUPTED;
use crate::output;
use crate::table::printable;

/// The exit code of each category, and its line in the help.
pub(crate) const EXIT_CODES: [(Category, u8, &str); 7] = [
    (Category::CheckFailed, 1, "check failed or nothing found"),
    (Category::InvalidInput, 2, "invalid usage or input"),
    (Category::BudgetNotMet, 3, "the budget cannot be met"),
    (Category::CacheMissing, 4, "the index does not exist"),
    (Category::CacheInvalid, 5, "index corrupt or incompatible"),
    (Category::Io, 6, "reading or writing failed"),
    (Category::Internal, 7, "internal error; please report"),
];

fn exit_code(category: Category) -> u8 {
    let row = EXIT_CODES.iter().find(|(other, ..)| *other == category);
    row.map_or(7, |(_, code, _)| *code)
}

/// The reason why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A library failed.
    #[error("{}", explain(.0))]
    Library(#[from] Failure),

    /// A library failed on a file, or on standard input.
    #[error("{}: {}", name(path), explain(failure))]
    LibraryAt { path: Option<PathBuf>, failure: Failure },

    /// A server cannot be started.
    #[cfg(feature = "server")]
    #[error("{}", explain_serve_error(.0))]
    Serve(#[from] ServeError),

    /// An HTTP server cannot be started.
    #[cfg(feature = "server")]
    #[error("{}", explain_http_error(.0))]
    Http(#[from] pannier_server::HttpError),

    /// A gateway cannot be started.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Gateway(#[from] GatewayError),

    /// A hook failed, which must not stop its host.
    #[error("{0}")]
    Hook(Box<CliError>),

    /// A library failed on behalf of a command that a specification names.
    #[error("{}{}", prefix(path), explain_specified(failure))]
    Specified { path: Option<PathBuf>, failure: Failure },

    /// An index has this many problems, which have been printed.
    #[error(
        "the index is damaged ({0} problems, above); rebuild it with `pannier docs index --rebuild`"
    )]
    CacheDamaged(usize),

    /// The arguments are invalid.
    #[error("{0}")]
    Usage(String),

    /// A file has invalid content.
    #[error("{}{position}: {problem}", name(path))]
    Input { path: Option<PathBuf>, position: String, problem: String },

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", name(path))]
    Io { action: &'static str, path: Option<PathBuf>, error: io::Error },

    /// Conformance vectors cannot be read.
    #[error("{0}")]
    Suite(#[from] SuiteError),

    /// A check failed and has printed why.
    #[error("the check failed")]
    Check,

    /// The reader of standard output closed it.
    #[error("the output was closed")]
    OutputClosed,

    /// The user interrupted a search, and what it knew is printed.
    #[error("interrupted; the answer above is what was known by then")]
    Interrupted,

    /// A fault of the program.
    #[error("this is a fault of the program: {0}; please report it")]
    Internal(String),
}

macro_rules! from_library_errors {
    ($($error:ty),+) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::Library(error.into())
            }
        })+
    };
}

from_library_errors!(ChatError, DocsError, Error, MemoryError, SnippetsError, TokenError);

/// Joins message and advice; after a list, the advice has its own line.
fn explain(failure: &Failure) -> String {
    let message = failure.message(Audience::Command);
    match failure.advice(Audience::Command) {
        Some(advice) if message.contains('\n') => format!("{message}\n{advice}"),
        Some(advice) => format!("{message}; {advice}"),
        None => message,
    }
}

/// Joins message and advice, in the names of the specification.
fn explain_specified(failure: &Failure) -> String {
    let Failure::Docs(error) = failure else { return explain(failure) };
    let advice = match error {
        DocsError::NoIndex { path } => {
            &format!("build one with `pannier build --sources DOCS --cache {}`", path.display())
        }
        DocsError::Invalid { .. } => "rebuild it with `pannier build --force`",
        DocsError::Outdated { .. } => "rebuild it with `pannier build`",
        DocsError::Vectors { .. } | DocsError::NoVector { .. } => {
            "give a vector for every id that `pannier chunks` prints"
        }
        DocsError::Engine(_) => return explain(failure),
        error => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// The name of a file in front of a message about it.
fn prefix(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()))
}

#[cfg(feature = "server")]
fn explain_serve_error(error: &ServeError) -> String {
    match error {
        ServeError::Folder(failure) => explain(failure),
        error => error.to_string(),
    }
}

#[cfg(feature = "server")]
fn explain_http_error(error: &pannier_server::HttpError) -> String {
    match error {
        pannier_server::HttpError::Open { address } => {
            let port = address.port();
            format!("{error}; add one with --token-file FILE, or listen at 127.0.0.1:{port}")
        }
        error => error.to_string(),
    }
}

/// The name of a file in messages.
fn name(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

/// Prints help, the version or a usage error. The exit code of an error is that of invalid input, unless a host runs this as
/// its hook: a mistake in the host's settings must not stop its user.
pub(crate) fn usage_error(
    error: &clap::Error,
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> u8 {
    // If printing fails, there is nowhere left to report it.
    let _ = error.print();
    let code = u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
    let arguments: Vec<std::ffi::OsString> = arguments.collect();
    let is_flag = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text == "--hook" || text.starts_with("--hook=")
    };
    let is_hook = arguments.windows(2).any(|pair| pair == ["memory", "hook"]);
    if code != 0 && (is_hook || arguments.iter().any(is_flag)) {
        return exit_code(Category::CheckFailed);
    }
    code
}

impl CliError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: Some(path.to_owned()), error }
    }

    /// Invalid content of a file, at no particular line.
    pub(crate) fn input(path: &Path, problem: impl Into<String>) -> Self {
        let (path, position) = (Some(path.to_owned()), String::new());
        Self::Input { path, position, problem: problem.into() }
    }

    /// Invalid content of a file at a line, counted from 1.
    pub(crate) fn input_line(path: &Path, line: usize, problem: impl Into<String>) -> Self {
        let (path, position) = (Some(path.to_owned()), format!(", line {line}"));
        Self::Input { path, position, problem: problem.into() }
    }

    /// Returns the error as commands that a specification names report it.
    pub(crate) fn specified(self) -> Self {
        match self {
            Self::Library(failure) => Self::Specified { path: None, failure },
            Self::LibraryAt { path, failure } => Self::Specified { path, failure },
            other => other,
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::Library(failure)
            | Self::LibraryAt { failure, .. }
            | Self::Specified { failure, .. } => failure.category(),
            #[cfg(feature = "server")]
            Self::Serve(ServeError::Folder(failure)) => failure.category(),
            #[cfg(feature = "server")]
            Self::Serve(ServeError::Io { .. })
            | Self::Http(pannier_server::HttpError::Io { .. })
            | Self::Gateway(
                GatewayError::Http(pannier_server::HttpError::Io { .. })
                | GatewayError::Certificates(_)
                | GatewayError::Random(_)
                | GatewayError::Runtime(_),
            ) => Category::Io,
            #[cfg(feature = "server")]
            Self::Serve(_) | Self::Http(_) | Self::Gateway(_) => Category::InvalidInput,
            Self::Io { .. } | Self::Suite(_) => Category::Io,
            Self::Usage(_) | Self::Input { .. } => Category::InvalidInput,
            Self::CacheDamaged(_) => Category::CacheInvalid,
            // Some hosts read an exit code of 2 as an order to block their user.
            Self::Check | Self::Hook(_) => Category::CheckFailed,
            Self::OutputClosed | Self::Interrupted | Self::Internal(_) => Category::Internal,
        }
    }

    /// Ends a command that made a check. If the reader closed the output early, the exit code is the same.
    pub(crate) fn check_failed(written: Result<(), Self>, is_clean: bool) -> Result<(), Self> {
        match written {
            Err(Self::OutputClosed) | Ok(()) if is_clean => Ok(()),
            Err(Self::OutputClosed) | Ok(()) => Err(Self::Check),
            other => other,
        }
    }

    /// Prints the error and returns its exit code.
    pub(crate) fn print_error(&self) -> u8 {
        match self {
            Self::OutputClosed => return 0,
            Self::Check => {}
            error => {
                let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
                let styled = output::is_styled(&io::stderr());
                let (on, off) = if styled { (red, red) } else { Default::default() };
                let message = printable(&error.to_string());
                // If this fails, there is nowhere left to report it.
                let _ =
                    writeln!(io::stderr(), "{}error:{} {message}", on.render(), off.render_reset());
            }
        }
        match self {
            Self::Interrupted => INTERRUPTED,
            error => exit_code(error.category()),
        }
    }
}
