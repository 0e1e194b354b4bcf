//! The tool `recall` at `/mcp`, for the sessions of one credential.
//!
//! The agent's host calls it with the key that the agent uses. Each credential has a folder of its own, so an id of another
//! one is not found. The protocol has no sessions: each request gets a server of its own, which is cheap.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use pannier_chat::{ChatError, Fitted, RecallStore, RecallStoreOptions};
use pannier_mcp::{HttpEndpoint, Server, ServerConfig};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::identity::Credential;
use crate::state::StateFolder;

/// The path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// The largest message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The bytes of cut blocks that are kept for each credential.
const MAX_STORE_BYTES: u64 = 64 << 20;

/// The number of calls that run at once.
const MAX_CALLS: usize = 8;

/// The cut blocks of all credentials.
#[derive(Debug)]
pub(crate) struct Recall {
    state: Arc<StateFolder>,
    calls: Semaphore,
}

impl Recall {
    pub(crate) fn new(state: Arc<StateFolder>) -> Self {
        Self { state, calls: Semaphore::new(MAX_CALLS) }
    }

    /// Keeps the blocks that a request cuts.
    pub(crate) fn add(
        &self,
        credential: &Credential,
        fitted: &Fitted<'_, '_>,
    ) -> Result<(), ChatError> {
        let folder = self.state.create_recall_folder(credential).map_err(|error| {
            let (path, problem) = (self.state.recall_folder(credential), error.to_string());
            ChatError::Store { action: "write", path, problem }
        })?;
        let mut options = RecallStoreOptions::default();
        options.max_bytes = MAX_STORE_BYTES;
        RecallStore::in_folder(folder, options).add(fitted, SystemTime::now())
    }

    /// Answers a message of the Model Context Protocol. A store that cannot be opened has the same answer as an unknown id.
    pub(crate) async fn respond(
        &self,
        credential: &Credential,
        head: axum::http::request::Parts,
        body: Bytes,
    ) -> Option<Response> {
        let _permit = self.calls.acquire().await.ok()?;
        let mut config = ServerConfig::default();
        config.recall = Some(self.state.recall_folder(credential));
        config.limits.input = MAX_MESSAGE_BYTES;
        let endpoint = Server::open(config).ok()?.http_endpoint(CancellationToken::new());
        Some(endpoint.respond(Request::from_parts(head, body)).await.map(Body::new))
    }

    /// Returns the answer to a message that is too long.
    pub(crate) fn too_long() -> Response {
        HttpEndpoint::too_long(MAX_MESSAGE_BYTES).map(Body::new)
    }
}
