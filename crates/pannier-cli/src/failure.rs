//! How a command can fail.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use pannier_chat::ChatError;
use pannier_conformance::SuiteError;
use pannier_core::{Error, ErrorCategory};
use pannier_docs::DocsError;
use pannier_embed::EmbedError;
use pannier_mcp::ServeError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;
use pannier_tokens::TokenError;

use crate::output;
use crate::table::printable;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The engine cannot do what was asked.
    #[error("{0}")]
    Engine(#[from] Error),

    /// The same, about a file.
    #[error("{}: {error}", path.display())]
    EngineAt { path: PathBuf, error: Error },

    /// A transcript cannot be read or trimmed.
    #[error("{}: {error}", name(path))]
    Chat { path: Option<PathBuf>, error: ChatError },

    /// A cache cannot be built or used.
    #[error("{0}")]
    Docs(#[from] DocsError),

    /// A context folder cannot be used.
    #[error("{0}")]
    Memory(#[from] MemoryError),

    /// Snippets cannot be found or fetched.
    #[error("{0}")]
    Snippets(#[from] SnippetsError),

    /// A server cannot be started.
    #[error("{0}")]
    Serve(#[from] ServeError),

    /// A hook failed. Whatever the reason, that must not stop its host.
    #[error("{0}")]
    Hook(Box<Failure>),

    /// A model cannot be used.
    #[error("{0}")]
    Embed(#[from] EmbedError),

    /// A cache is not as it was built, and what is wrong has been told.
    #[error("the cache is damaged, as told above ({0}); build it again, with --force")]
    CacheDamaged(usize),

    /// There is no such counter, or it does not work.
    #[error("{0}")]
    Tokens(#[from] TokenError),

    /// The request is not possible.
    #[error("{0}")]
    Usage(String),

    /// A file does not hold what it should.
    #[error("{}{place}: {problem}", name(path))]
    Input { path: Option<PathBuf>, place: String, problem: String },

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", name(path))]
    Io { action: &'static str, path: Option<PathBuf>, error: io::Error },

    /// A suite of vectors cannot be read.
    #[error("{0}")]
    Suite(#[from] SuiteError),

    /// A check said no, and has already said why.
    #[error("the check said no")]
    Check,

    /// Whoever reads the output has seen enough.
    #[error("the output was closed")]
    OutputClosed,

    /// Something that cannot happen.
    #[error("this is a fault of the program: {0}; please report it")]
    Internal(String),
}

/// Says what is wrong with the arguments, or what was asked about them. The exit code is that of any wrong input, unless a
/// host runs this as its hook: a mistake in the host's settings must not stop whatever its user does.
pub(crate) fn misuse(
    problem: &clap::Error,
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> ExitCode {
    // Nobody is left to tell if this fails.
    let _ = problem.print();
    let code = u8::try_from(problem.exit_code()).unwrap_or(u8::MAX);
    let is_hook = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text == "--hook" || text.starts_with("--hook=")
    };
    if code != 0 && arguments.into_iter().any(is_hook) {
        return ExitCode::from(ErrorCategory::CheckFailed.exit_code());
    }
    ExitCode::from(code)
}

/// A file as it is named in messages.
fn name(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

impl Failure {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: Some(path.to_owned()), error }
    }

    fn category(&self) -> ErrorCategory {
        match self {
            Self::Engine(error) | Self::EngineAt { error, .. } => error.category(),
            Self::Chat { error, .. } => error.category(),
            Self::Docs(error) => error.category(),
            Self::Embed(error) => error.category(),
            Self::Memory(error) => error.category(),
            Self::Snippets(error) => error.category(),
            Self::Serve(error) => error.category(),
            Self::CacheDamaged(_) => ErrorCategory::CacheInvalid,
            Self::Usage(_) | Self::Input { .. } | Self::Tokens(_) => ErrorCategory::InvalidInput,
            Self::Io { .. } | Self::Suite(_) => ErrorCategory::Io,
            // Some hosts take a code of 2 for an order.
            Self::Check | Self::Hook(_) => ErrorCategory::CheckFailed,
            Self::OutputClosed | Self::Internal(_) => ErrorCategory::Internal,
        }
    }

    /// The end of a command that made a check: a reader that has seen enough does not change the answer.
    pub(crate) fn of_check(written: Result<(), Self>, is_clean: bool) -> Result<(), Self> {
        match written {
            Err(Self::OutputClosed) | Ok(()) if is_clean => Ok(()),
            Err(Self::OutputClosed) | Ok(()) => Err(Self::Check),
            other => other,
        }
    }

    /// Says what went wrong, and turns it into an exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::Check => {}
            failure => {
                let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
                let styled = output::is_styled(&io::stderr());
                let (on, off) = if styled { (red, red) } else { Default::default() };
                let message = printable(&failure.to_string());
                // Nobody is left to tell if this fails.
                let _ =
                    writeln!(io::stderr(), "{}error:{} {message}", on.render(), off.render_reset());
            }
        }
        ExitCode::from(self.category().exit_code())
    }
}
