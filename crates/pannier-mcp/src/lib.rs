//! Pannier as a server of the Model Context Protocol.
//!
//! Each tool is a request of `pannier::ops`. It returns the text that the command prints, and its answer as data. This crate
//! adds the protocol, its transports, and limits on time and size. The server reads only files below the folders that it was started
//! with, for every request.
//!
//! The SDK `rmcp` implements the protocol, and only this crate depends on it. The transport over standard streams is our own:
//! `stdio.rs` bounds lines and answers malformed ones, where the SDK is silent. `pannier-server` mounts [`HttpEndpoint`].
//! There are no protocol sessions: a call that depends on an earlier one names it in an argument.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod admission;
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
mod telemetry;
mod tool;
mod tool_error;
mod tool_output;
mod uri;

pub use admission::{Admission, CallPermit, Caller, ClientPermit, Lane, NewCollector, observed};
pub use config::{Limits, ServerConfig};
pub use error::ServeError;
pub use http::{HttpEndpoint, McpResponse};
pub use telemetry::{CallSpan, CallTelemetry, Operation};

use std::sync::Arc;

use handler::Handler;
use pannier::Shelf;
use tokio_util::sync::CancellationToken;

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

    /// Returns the endpoint for HTTP. `stop` ends its streams.
    pub fn http_endpoint(&self, stop: CancellationToken) -> HttpEndpoint {
        HttpEndpoint::new(Arc::clone(&self.handler), stop)
    }

    /// Returns the open folders.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.handler.shelf
    }

    /// Returns the limits of a call.
    pub fn limits(&self) -> &Limits {
        &self.handler.limits
    }

    /// Returns the bounds on calls that run at once.
    pub fn admission(&self) -> &Arc<Admission> {
        self.handler.executor.admission()
    }
}
