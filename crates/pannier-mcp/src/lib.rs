//! Pannier as a server of the Model Context Protocol.
//!
//! Each tool is a request of `pannier::ops`. It returns the text that the command prints, and its answer as data. This crate
//! adds the protocol, its transports, and limits on time and size. The server reads only files below the folders that it was started
//! with, for every request.
//!
//! The SDK `rmcp` implements the protocol, and only this crate depends on it. Two transports are our own. `stdio.rs` bounds
//! lines and answers malformed ones, where the SDK is silent. `http.rs` bounds connections and bodies and checks a token.
//! There are no protocol sessions: a call that depends on an earlier one names it in an argument.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod call;
mod config;
mod error;
mod executor;
mod handler;
mod http;
mod in_flight;
mod message;
mod prompt;
mod resource;
mod stdio;
mod tool;
mod tool_error;
mod tool_output;
mod uri;
mod write_timeout;

pub use config::{Limits, ServerConfig};
pub use error::ServeError;
pub use http::{Address, BearerToken, HttpOptions};

use std::sync::Arc;

use handler::Handler;

/// Entry point of the fuzzer: no bytes may panic a parser, and a parsed name serializes to itself.
#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    use pannier::ops::{
        MemoryRequest, PackRequest, Request, SearchRequest, SnippetGetRequest, SnippetListRequest,
    };
    stdio::fuzz(data);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(name) = uri::Uri::parse(text) {
            assert_eq!(uri::Uri::parse(&name.to_string()), Some(name));
        }
        let _ = text.parse::<pannier::NamedFolder>();
        let _ = text.parse::<Address>();
        let _ = BearerToken::new(text);
    }
    if let Ok(object) = serde_json::from_slice::<rmcp::model::JsonObject>(data) {
        let _ = PackRequest::from_value(object.clone().into());
        let _ = SearchRequest::from_value(object.clone().into());
        let _ = MemoryRequest::from_value(object.clone().into());
        let _ = SnippetListRequest::from_value(object.clone().into());
        let _ = SnippetGetRequest::from_value(object.into());
    }
}

/// A server with its folders open.
///
/// ```
/// use pannier_mcp::{Server, ServerConfig};
///
/// // Without folders, it still selects from the items of a call.
/// let server = Server::open(ServerConfig::default())?;
/// assert!(format!("{server:?}").contains("pack_items"));
/// # Ok::<(), pannier_mcp::ServeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    handler: Arc<Handler>,
}

impl Server {
    /// Opens the folders of `config`.
    ///
    /// # Errors
    ///
    /// [`ServeError::Folder`] if two folders have one name, or a folder cannot be opened.
    pub fn open(config: ServerConfig) -> Result<Self, ServeError> {
        Ok(Self { handler: Arc::new(Handler::open(config)?) })
    }

    /// Serves the client on standard input until it closes the stream.
    ///
    /// # Errors
    ///
    /// [`ServeError::Io`] if threads cannot be started.
    pub fn serve_stdio(self) -> Result<(), ServeError> {
        stdio::serve(self.handler)
    }

    /// Serves HTTP until a signal stops the process. Calls `ready` with the address once it accepts connections.
    ///
    /// # Errors
    ///
    /// [`ServeError::Open`] if other machines can reach the address and there is no token, [`ServeError::Io`] if it is in
    /// use.
    pub fn serve_http(
        self,
        options: &HttpOptions,
        ready: impl FnOnce(&str),
    ) -> Result<(), ServeError> {
        http::serve(self.handler, options, ready)
    }
}
