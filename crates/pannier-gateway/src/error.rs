//! Errors of starting a gateway.

use std::io;

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
