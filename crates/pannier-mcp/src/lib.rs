//! Pannier's front ends for agents: a server of the Model Context Protocol.
//!
//! The server decides nothing that the command does not decide: each tool reads its arguments, asks the library that the
//! command asks, and answers with the bytes that the command prints. What this crate adds is what a server needs and a
//! command does not: caches that stay open, limits on time and size, and walls. Whatever a client writes, nothing is read
//! that does not lie below the folders that the server was started with.
//!
//! The protocol itself is left to `rmcp`, which this crate alone depends on. Two things are done here because it does not:
//! lines on standard input are bounded and malformed ones answered (`stdio.rs`), and HTTP is bounded and guarded by a token
//! (`http.rs`). Every request stands for itself: there is no session, in either era of the protocol, and what one call
//! needs of another comes as an argument.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod answer;
mod arguments;
mod call;
mod config;
mod counter;
mod error;
mod handler;
mod http;
mod message;
mod patience;
mod pending;
mod prompt;
mod resource;
mod schema;
mod stdio;
mod tool;
mod tool_error;
mod uri;
mod work;

pub use config::{Limits, ServerConfig};
pub use error::ServeError;
pub use http::{Address, HttpOptions, Token};

use std::sync::Arc;

use handler::Handler;

/// What a fuzzer calls: whatever the bytes, reading them must not panic, and names that are read are written the same way.
#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    stdio::fuzz(data);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(name) = uri::Uri::read(text) {
            assert_eq!(uri::Uri::read(&name.to_string()), Some(name));
        }
        let _ = text.parse::<pannier::NamedFolder>();
        let _ = text.parse::<Address>();
        let _ = Token::new(text);
    }
    if let Ok(object) = serde_json::from_slice::<rmcp::model::JsonObject>(data) {
        let _ = arguments::read::<arguments::Resolve>(Some(object.clone()));
        let _ = arguments::read::<arguments::Assemble>(Some(object.clone()));
        let _ = arguments::read::<arguments::Get>(Some(object.clone()));
        let _ = arguments::read::<arguments::Packet>(Some(object.clone()));
        let _ = arguments::read::<arguments::Select>(Some(object));
    }
}

/// A server, with everything open that it serves.
///
/// ```
/// use pannier_mcp::{Server, ServerConfig};
///
/// // Nothing to serve from: it still selects from items that a call brings along.
/// let server = Server::open(ServerConfig::default())?;
/// assert!(format!("{server:?}").contains("select_context"));
/// # Ok::<(), pannier_mcp::ServeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    handler: Arc<Handler>,
}

impl Server {
    /// Opens everything that is served.
    ///
    /// # Errors
    ///
    /// [`ServeError`] if a folder has no name or another one's, or cannot be opened.
    pub fn open(config: ServerConfig) -> Result<Self, ServeError> {
        Ok(Self { handler: Arc::new(Handler::open(config)?) })
    }

    /// Serves whoever writes to standard input, until that is closed.
    ///
    /// # Errors
    ///
    /// [`ServeError::Io`] if threads cannot be started.
    pub fn serve_stdio(self) -> Result<(), ServeError> {
        stdio::serve(self.handler)
    }

    /// Serves over HTTP, until the process is told to stop. `ready` is told the address once it is open.
    ///
    /// # Errors
    ///
    /// [`ServeError::Open`] if the address is not of this machine alone and there is no token, [`ServeError::Io`] if it
    /// cannot be listened to.
    pub fn serve_http(
        self,
        options: &HttpOptions,
        ready: impl FnOnce(&str),
    ) -> Result<(), ServeError> {
        http::serve(self.handler, options, ready)
    }
}
