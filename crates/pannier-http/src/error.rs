//! Errors of calling a server.

use std::fmt;

/// The reason why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address is malformed. The address itself is not shown: it may contain a password.
    #[error("the address of the server is invalid: {problem}; write http://HOST/v1#MODEL")]
    Address {
        /// The mistake.
        problem: &'static str,
    },

    /// The environment variable with the key cannot be used. Its name is not shown: it may be a key by mistake.
    #[error("the variable with the server's key {problem}")]
    Key {
        /// The mistake, and what to do.
        problem: &'static str,
    },

    /// The server cannot be reached.
    #[error("{url}: the connection failed: {problem}; check that the server runs")]
    Connection {
        /// The address of the call.
        url: String,
        /// The error of the connection.
        problem: String,
    },

    /// The server did not answer in time.
    #[error("{url}: no answer within {seconds} s; check the load of the server, then try again")]
    Timeout {
        /// The address of the call.
        url: String,
        /// The time limit.
        seconds: u64,
    },

    /// The server asks for a longer wait than is allowed.
    #[error("{url}: the server answered {status} and asks to wait {seconds} s; try again then")]
    Wait {
        /// The address of the call.
        url: String,
        /// The status.
        status: u16,
        /// The requested wait.
        seconds: u64,
    },

    /// The server refuses the call.
    #[error("{url}: the server answered {status}{}; {}", Message(message), status_advice(*status))]
    Status {
        /// The address of the call.
        url: String,
        /// The status.
        status: u16,
        /// The beginning of the server's message, without the key.
        message: String,
    },

    /// The server redirects to another address.
    #[error(
        "{url}: the server redirects to {location:?}; redirects are not followed, use the final address"
    )]
    Redirect {
        /// The address of the call.
        url: String,
        /// The other address, without the key.
        location: String,
    },

    /// The answer is too long.
    #[error(
        "{url}: the answer exceeds {max_bytes} bytes; check that the address is that of a model server"
    )]
    TooLarge {
        /// The address of the call.
        url: String,
        /// The limit.
        max_bytes: u64,
    },

    /// The answer is malformed.
    #[error("{url}: the answer is invalid: {problem}")]
    Answer {
        /// The address of the call.
        url: String,
        /// The mistake, and what to do.
        problem: String,
    },
}

impl HttpError {
    /// Returns whether the server or the network failed, and not the request.
    pub fn is_io(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Timeout { .. } | Self::Wait { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

struct Message<'m>(&'m str);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.0),
        }
    }
}

fn status_advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "name the environment variable that has the server's key",
        404 | 405 => "check the address and the model",
        413 => "use smaller chunks, or raise the server's limit",
        429 => "try again later",
        500.. => "look at the server's log, then try again",
        _ => "check the model",
    }
}
