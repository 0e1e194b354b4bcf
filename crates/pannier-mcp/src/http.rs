//! The protocol over HTTP.
//!
//! Every page in a developer's browser can reach a server on that machine. So the server listens on loopback unless it has a
//! token, and rejects requests with a foreign `Origin` or `Host` (DNS rebinding). Connections, headers, bodies and times are
//! bounded before anything is parsed. There are no sessions: a response is JSON, or a stream if the client wants progress.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::handler::Handler;
use crate::write_timeout::WriteTimeout;
use crate::{ServeError, message};

/// The path of the endpoint.
const PATH: &str = "/mcp";

/// The number of open connections.
const MAX_CONNECTIONS: usize = 256;

/// The time in which a client must send the head of a request, its body, and read a part of a response.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// The address to listen at.
///
/// ```
/// use pannier_mcp::Address;
///
/// let address: Address = "8642".parse()?;
/// assert_eq!(address.to_string(), "127.0.0.1:8642");
/// # Ok::<(), pannier_mcp::ServeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(SocketAddr);

impl FromStr for Address {
    type Err = ServeError;

    /// Parses a port of this machine, or an address and a port.
    fn from_str(text: &str) -> Result<Self, ServeError> {
        if let Ok(port) = text.parse() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse().map(Self).map_err(|_| ServeError::Address { text })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The secret of clients. Only its hash is kept; hashes are compared in constant time.
#[derive(Clone, Copy)]
pub struct BearerToken(blake3::Hash);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken")
    }
}

impl BearerToken {
    /// Checks a token of 16 to 4096 printable ASCII characters without spaces.
    ///
    /// # Errors
    ///
    /// [`ServeError::Token`] for anything else.
    pub fn new(token: &str) -> Result<Self, ServeError> {
        let is_token =
            (16..=4096).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_token {
            true => Ok(Self(blake3::hash(token.as_bytes()))),
            false => Err(ServeError::Token { bytes: token.len() }),
        }
    }

    fn matches(&self, header: Option<&HeaderValue>) -> bool {
        let Some((scheme, token)) = header.and_then(|header| header.to_str().ok()?.split_once(' '))
        else {
            return false;
        };
        // `blake3::Hash` compares in constant time.
        scheme.eq_ignore_ascii_case("bearer") && blake3::hash(token.trim().as_bytes()) == self.0
    }
}

/// The options of an HTTP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The address to listen at.
    pub address: Address,
    /// The token that clients must send.
    pub token: Option<BearerToken>,
    /// Allowed `Host` names besides those of this machine.
    pub hosts: Vec<String>,
}

impl HttpOptions {
    /// Listens at `address` without a token.
    pub fn new(address: Address) -> Self {
        Self { address, token: None, hosts: Vec::new() }
    }
}

/// The endpoint.
struct Http {
    service: StreamableHttpService<Arc<Handler>, NeverSessionManager>,
    token: Option<BearerToken>,
    time: Duration,
    /// The largest body, in bytes.
    max_bytes: usize,
    /// Permits for the bytes of all bodies together: a parsed body takes many times its size.
    body_bytes: Semaphore,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Serves HTTP until a signal stops the process.
pub(crate) fn serve(
    handler: Arc<Handler>,
    options: &HttpOptions,
    ready: impl FnOnce(&str),
) -> Result<(), ServeError> {
    let Address(address) = options.address;
    if !address.ip().is_loopback() && options.token.is_none() {
        return Err(ServeError::Open { address });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::io("start threads"))?;
    let served = runtime.block_on(async {
        let bound = TcpListener::bind(address).await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(ServeError::io(format!("listen at {address}")))?;
        let stop = CancellationToken::new();
        let http = Arc::new(Http::new(handler, options, address.ip(), stop.clone()));
        let shutdown = shutdown_signal();
        ready(&format!("http://{address}{PATH}"));
        tokio::select! {
            () = accept(listener, http) => {}
            () = shutdown => {}
        }
        stop.cancel();
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Registers for signals at once, so that a client that has read the address can stop the server; the future ends with the
/// first signal.
fn shutdown_signal() -> impl Future<Output = ()> {
    #[cfg(unix)]
    let terminate = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate())
    };
    async move {
        #[cfg(unix)]
        if let Ok(mut terminate) = terminate {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
        // Without signals, only the end of the process stops the server.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn accept(listener: TcpListener, http: Arc<Http>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // For instance, too many open files; retry.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let http = Arc::clone(&http);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let http = Arc::clone(&http);
                async move { Ok::<_, Infallible>(http.respond(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IO_TIMEOUT)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(WriteTimeout::new(stream, IO_TIMEOUT)), service);
            // The client sees its own connection error.
            let _ = connection.await;
            drop(permit);
        });
    }
}

impl Http {
    fn new(
        handler: Arc<Handler>,
        options: &HttpOptions,
        own: IpAddr,
        stop: CancellationToken,
    ) -> Self {
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let own = (!own.is_unspecified()).then(|| own.to_string());
        let hosts = local.into_iter().chain(own).chain(options.hosts.iter().cloned());
        let pages = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_allowed_hosts(hosts)
            .with_allowed_origins(pages.map(str::to_owned))
            .enforce_origin_validation()
            .with_max_request_body_bytes(handler.limits.input)
            .with_cancellation_token(stop);
        let (time, max_bytes) = (handler.limits.time + IO_TIMEOUT, handler.limits.input);
        let service = StreamableHttpService::new(
            move || Ok(Arc::clone(&handler)),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        let body_bytes = Semaphore::new(max_bytes.saturating_mul(2).min(Semaphore::MAX_PERMITS));
        Self { service, token: options.token, time, max_bytes, body_bytes }
    }

    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "the server is at /mcp");
        }
        let header = request.headers().get(AUTHORIZATION);
        if self.token.is_some_and(|token| !token.matches(header)) {
            let mut response = plain(StatusCode::UNAUTHORIZED, "a bearer token is required");
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return response;
        }
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
        let (head, body) = request.into_parts();
        let body = match self.collect(body).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        if let Some((id, error)) = message::invalid_cursor(&body) {
            return json(StatusCode::OK, error, id);
        }
        // Waits for permits; there are more of them than a body has bytes.
        let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let response = tokio::time::timeout(self.time, async {
            let _permits = self.body_bytes.acquire_many(bytes).await;
            self.service.handle(Request::from_parts(head, Full::new(body.clone()))).await
        });
        match response.await {
            Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
            // The SDK reports malformed JSON as a wrong content type.
            Ok(response) if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let (id, error) = message::rejection(&body);
                json(StatusCode::BAD_REQUEST, error, id)
            }
            Ok(response) => response,
        }
    }

    /// Reads the body of a request within the limits of time and size.
    async fn collect(&self, body: Incoming) -> Result<Bytes, HttpResponse> {
        let too_long = || {
            let problem = format!("a message may have at most {} bytes; send less", self.max_bytes);
            json(StatusCode::PAYLOAD_TOO_LARGE, ErrorData::invalid_request(problem, None), None)
        };
        if body.size_hint().lower() > self.max_bytes as u64 {
            return Err(too_long());
        }
        let body = Limited::new(body, self.max_bytes).collect();
        match tokio::time::timeout(IO_TIMEOUT, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
            Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the body is incomplete")),
            Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
        }
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn plain(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> HttpResponse {
    // A message of the server always serializes.
    let text = serde_json::to_vec(&ServerJsonRpcMessage::error(error, id)).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_default_to_loopback() {
        for (text, address) in [
            ("8642", "127.0.0.1:8642"),
            ("localhost:1", "127.0.0.1:1"),
            ("[::1]:7", "[::1]:7"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), address);
        }
        for text in ["", "x", "example.org:80", "70000", ":80"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_match_exactly() {
        let token = BearerToken::new("0123456789abcdef").unwrap();
        let matches = |text: &str| token.matches(Some(&HeaderValue::from_str(text).unwrap()));
        assert!(matches("Bearer 0123456789abcdef") && matches("bearer 0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
        ] {
            assert!(!matches(wrong), "{wrong}");
        }
        assert!(!token.matches(None));
        for wrong in ["", "short", "with a space in it", &"x".repeat(4097)] {
            assert!(BearerToken::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "BearerToken");
    }
}
