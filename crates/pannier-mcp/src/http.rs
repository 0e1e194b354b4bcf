//! The protocol over HTTP: an endpoint that takes whole requests.
//!
//! Connections, limits, tokens and the checks of `Host` and `Origin` belong to the HTTP server. There are no sessions: a
//! response is JSON, or a stream if the client wants progress.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::handler::Handler;
use crate::message;

/// A response of the endpoint.
pub type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The protocol over HTTP.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: StreamableHttpService<Arc<Handler>, NeverSessionManager>,
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoint").finish_non_exhaustive()
    }
}

impl HttpEndpoint {
    pub(crate) fn new(handler: Arc<Handler>, stop: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(handler.limits.input)
            .with_cancellation_token(stop);
        let sessions = Arc::new(NeverSessionManager::default());
        let service =
            StreamableHttpService::new(move || Ok(Arc::clone(&handler)), sessions, config);
        Self { service }
    }

    /// Answers a request whose content type is JSON. Its extensions may have a [`Caller`](crate::Caller). The first poll of
    /// the future parses the body.
    pub async fn respond(self, request: Request<Bytes>) -> McpResponse {
        let (mut head, body) = request.into_parts();
        // The SDK knows only this spelling.
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((id, error)) = message::invalid_cursor(&body) {
            return json(StatusCode::OK, error, id);
        }
        let request = Request::from_parts(head, Full::new(body.clone()));
        let mut response = std::pin::pin!(self.service.handle(request));
        let first = poll_fn(|context| Poll::Ready(response.as_mut().poll(context))).await;
        match first {
            // The SDK reports malformed JSON as a wrong content type.
            Poll::Ready(response) if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let (id, error) = message::rejection(&body);
                json(StatusCode::BAD_REQUEST, error, id)
            }
            Poll::Ready(response) => response,
            Poll::Pending => {
                // The body is parsed.
                drop(body);
                response.await
            }
        }
    }

    /// Returns the answer to a message with more than `max_bytes`.
    pub fn too_long(max_bytes: usize) -> McpResponse {
        let problem = format!("a message may have at most {max_bytes} bytes; send less");
        json(StatusCode::PAYLOAD_TOO_LARGE, ErrorData::invalid_request(problem, None), None)
    }
}

fn json(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> McpResponse {
    // A message of the server always serializes.
    let text = serde_json::to_vec(&ServerJsonRpcMessage::error(error, id)).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
