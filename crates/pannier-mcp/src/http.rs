//! The protocol over HTTP.
//!
//! A server on a machine of a developer is reached by every page that a browser there has open. So it listens to this
//! machine alone unless there is a token, and whatever carries the origin of a page, or the name of another host, is
//! refused. Connections, headers, bodies and times have bounds before anything is parsed. There are no sessions: each request
//! is answered by itself, in JSON, or as a stream if there is progress to tell.

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
use crate::patience::Patient;
use crate::{ServeError, message};

/// The path that is served.
const PATH: &str = "/mcp";

/// How many connections are open at once.
const CONNECTIONS: usize = 256;

/// How long a client may take to send the head of a request, and its body; and to take a part of an answer.
const SENDING: Duration = Duration::from_secs(30);

/// Where to listen.
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

    /// Reads a port of this machine, or an address and a port.
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

/// What a client must know. Only a hash of it is kept, and hashes are compared in a time that tells nothing about them.
#[derive(Clone, Copy)]
pub struct Token(blake3::Hash);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Takes 16 to 4096 printable characters, without spaces.
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

    fn is_in(&self, header: Option<&HeaderValue>) -> bool {
        let Some((scheme, token)) = header.and_then(|header| header.to_str().ok()?.split_once(' '))
        else {
            return false;
        };
        // The comparison of hashes takes the same time wherever they differ.
        scheme.eq_ignore_ascii_case("bearer") && blake3::hash(token.trim().as_bytes()) == self.0
    }
}

/// How HTTP is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Where to listen.
    pub address: Address,
    /// What clients must know.
    pub token: Option<Token>,
    /// Names by which the server may be called besides those of this machine.
    pub hosts: Vec<String>,
}

impl HttpOptions {
    /// Listens there, without a token.
    pub fn new(address: Address) -> Self {
        Self { address, token: None, hosts: Vec::new() }
    }
}

/// Answers requests over HTTP.
struct Http {
    service: StreamableHttpService<Arc<Handler>, NeverSessionManager>,
    token: Option<Token>,
    time: Duration,
    /// How many bytes a body may have.
    most: usize,
    /// For how many bytes of bodies there is room, all together: what is read of them takes many times that.
    room: Semaphore,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves over HTTP, until the process is told to stop.
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
        let listening = TcpListener::bind(address).await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) =
            listening.map_err(ServeError::io(format!("listen to {address}")))?;
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open, for one. That passes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let http = Arc::clone(&http);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let http = Arc::clone(&http);
                async move { Ok::<_, Infallible>(http.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(SENDING)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(Patient::new(stream, SENDING)), answer);
            // A connection that breaks is its client's affair.
            let _ = connection.await;
            drop(place);
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
        let (time, most) = (handler.limits.time + SENDING, handler.limits.input);
        let service = StreamableHttpService::new(
            move || Ok(Arc::clone(&handler)),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        let room = Semaphore::new(most.saturating_mul(2).min(Semaphore::MAX_PERMITS));
        Self { service, token: options.token, time, most, room }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "the server is at /mcp");
        }
        let header = request.headers().get(AUTHORIZATION);
        if self.token.is_some_and(|token| !token.is_in(header)) {
            let mut refused = plain(StatusCode::UNAUTHORIZED, "a bearer token is needed");
            let wanted = HeaderValue::from_static("Bearer");
            refused.headers_mut().insert(WWW_AUTHENTICATE, wanted);
            return refused;
        }
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
        let (head, body) = request.into_parts();
        let body = match self.collect(body).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        if let Some((id, error)) = message::wrong_cursor(&body) {
            return json(StatusCode::OK, error, id);
        }
        // Without room for it, it waits; a body has fewer bytes than there is room for.
        let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let answered = tokio::time::timeout(self.time, async {
            let _place = self.room.acquire_many(bytes).await;
            self.service.handle(Request::from_parts(head, Full::new(body.clone()))).await
        });
        match answered.await {
            Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
            // The SDK blames the type of a body whose contents are wrong.
            Ok(answer) if is_json && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let (id, error) = message::refusal(&body);
                json(StatusCode::BAD_REQUEST, error, id)
            }
            Ok(answer) => answer,
        }
    }

    /// The body of a request, if it comes soon and is not too long.
    async fn collect(&self, body: Incoming) -> Result<Bytes, Answer> {
        let too_long = || {
            let problem = format!("a message may have {} bytes; send less", self.most);
            json(StatusCode::PAYLOAD_TOO_LARGE, ErrorData::invalid_request(problem, None), None)
        };
        if body.size_hint().lower() > self.most as u64 {
            return Err(too_long());
        }
        let body = Limited::new(body, self.most).collect();
        match tokio::time::timeout(SENDING, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
            Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the body broke off")),
            Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long to come")),
        }
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}

fn json(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> Answer {
    // A message of the server can always be written.
    let text = serde_json::to_vec(&ServerJsonRpcMessage::error(error, id)).unwrap_or_default();
    let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_this_machine_unless_said_otherwise() {
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
    fn a_token_is_compared_whole() {
        let token = Token::new("0123456789abcdef").unwrap();
        let is_in = |text: &str| token.is_in(Some(&HeaderValue::from_str(text).unwrap()));
        assert!(is_in("Bearer 0123456789abcdef") && is_in("bearer 0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
        ] {
            assert!(!is_in(wrong), "{wrong}");
        }
        assert!(!token.is_in(None));
        for wrong in ["", "short", "with a space in it", &"x".repeat(4097)] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }
}
