//! Errors of starting a gateway.

use std::io;
use std::path::PathBuf;

/// An error of starting a gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Other machines could use the gateway.
    #[error("{address} can be reached from other machines; listen at 127.0.0.1")]
    Open {
        /// The address to listen at.
        address: String,
    },

    /// The budget has no room for a request.
    #[error(
        "a budget of {budget} tokens fits no request; give the model's window, as in --budget 100k"
    )]
    Budget {
        /// The budget.
        budget: i64,
    },

    /// The address of a provider is invalid.
    #[error(
        "'{text}' is not the address of a provider: {problem}; write a URL, as in https://api.example, or NAME=URL with the name anthropic or openai"
    )]
    Upstream {
        /// The text, without a password.
        text: String,
        /// The problem.
        problem: &'static str,
    },

    /// No provider is named.
    #[error("there is no address of a provider")]
    NoUpstream,

    /// The policy selects single requests.
    #[error("the policy '{policy}' is not for sessions; use careful, balanced or thrifty")]
    NotSession {
        /// Its name.
        policy: String,
    },

    /// The policy does not exist, or the budget or its margin is invalid.
    #[error(transparent)]
    Engine(#[from] pannier::Error),

    /// The tokenizer does not exist.
    #[error(transparent)]
    Tokenizer(#[from] pannier::tokens::TokenError),

    /// The state folder cannot be used.
    #[error("cannot use {} for --state: {error}", folder.display())]
    State {
        /// The folder.
        folder: PathBuf,
        /// The error.
        error: io::Error,
    },

    /// Another gateway uses the state folder.
    #[error("another gateway uses {}; end it, or name another folder for --state", folder.display())]
    StateInUse {
        /// The folder.
        folder: PathBuf,
    },

    /// Cut blocks cannot be kept.
    #[error("--recall keeps what is cut; name a folder for that with --state")]
    RecallWithoutState,

    /// Everybody on this machine could read the sessions.
    #[error("--inspect needs a token; name a file with one by --inspect-token-file")]
    InspectWithoutToken,

    /// The server could not start.
    #[error(transparent)]
    Http(#[from] pannier_server::HttpError),

    /// The certificates of this machine could not be read.
    #[error("cannot verify certificates: {0}")]
    Certificates(io::Error),

    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),

    /// The system starts no threads.
    #[error("cannot start threads: {0}")]
    Runtime(io::Error),
}
