//! Pannier over HTTP: the Model Context Protocol at `/mcp`, a JSON API at `/v1`, and operations.
//!
//! The JSON API has one route for each request of `pannier::ops`; its OpenAPI document derives from the same types. Requests
//! name indexes, projects and snippets by the names of the server's start, and never a path.
//!
//! `hyper` reads requests and `axum` routes them. Our own are the bounds that neither has: connections of one address, writes
//! that make no progress, and fairness between clients.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod address;
mod api;
mod app;
mod error;
mod guard;
mod listener;
mod logs;
mod memory;
mod metrics;
#[cfg(feature = "inspector")]
mod page;
mod problem;
mod telemetry;
mod tokens;
mod watch;
mod write_timeout;

pub use address::Address;
pub use error::HttpError;
pub use guard::{is_foreign_page, is_local_request};
pub use listener::ConnectionLimits;
pub use logs::{LogFormat, LogGuard, LogLevel, init_logs};
#[cfg(feature = "inspector")]
pub use page::page_headers;
pub use telemetry::{RequestEnd, RequestSpan, Telemetry};
pub use tokens::BearerTokens;
pub use watch::{WatchOptions, Watcher};

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use pannier_mcp::Server;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Service;

use app::App;
use guard::Allowed;
use listener::Connections;

/// The time in which a client must send the head of a request, its body, and read a part of a response.
pub(crate) const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// The time after which a server that drains closes connections without a request.
const QUIET_TIME: Duration = Duration::from_millis(500);

/// The interval at which a server that drains looks for open requests.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The options of an HTTP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The address to listen at.
    pub address: Address,
    /// The tokens that clients must send. A server on loopback needs none.
    pub tokens: BearerTokens,
    /// Allowed `Host` names besides those of this machine.
    pub hosts: Vec<String>,
    /// The origins whose pages may call the server. Without origins, CORS is off.
    pub origins: Vec<HeaderValue>,
    /// The time for calls in flight after a signal; default 10 seconds.
    pub drain: Duration,
    /// What else observes requests and their selections; default: nothing.
    pub telemetry: Option<Arc<dyn Telemetry>>,
}

impl HttpOptions {
    /// Listens at `address` without a token.
    pub fn new(address: Address) -> Self {
        let (tokens, hosts, origins) = (BearerTokens::default(), Vec::new(), Vec::new());
        let (drain, telemetry) = (Duration::from_secs(10), None);
        Self { address, tokens, hosts, origins, drain, telemetry }
    }

    /// Adds a `Host` name, with or without a port, such as `box.example`.
    ///
    /// # Errors
    ///
    /// [`HttpError::Host`] if the text is not one.
    pub fn allow_host(&mut self, text: &str) -> Result<(), HttpError> {
        let is_host = |host: &str| {
            let mut letters = host.chars();
            !host.is_empty()
                && letters.all(|letter| letter.is_alphanumeric() || "-_.[]:".contains(letter))
        };
        let host = text.parse().ok().filter(|host: &Authority| is_host(host.as_str()));
        let host = host.ok_or_else(|| HttpError::Host { text: text.to_owned() })?;
        self.hosts.push(host.to_string());
        Ok(())
    }

    /// Adds an origin whose pages may call the server, such as `https://app.example`.
    ///
    /// # Errors
    ///
    /// [`HttpError::Origin`] if the text is not one.
    pub fn allow_origin(&mut self, text: &str) -> Result<(), HttpError> {
        let invalid = || HttpError::Origin { text: text.to_owned() };
        let origin = text.trim_end_matches('/').to_ascii_lowercase();
        let uri: Uri = origin.parse().map_err(|_| invalid())?;
        let is_origin = matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            && uri.path() == "/"
            && uri.query().is_none();
        let origin = HeaderValue::from_str(&origin).map_err(|_| invalid())?;
        is_origin.then(|| self.origins.push(origin)).ok_or_else(invalid)
    }
}

/// Serves HTTP until a signal, and then until the calls in flight are answered. Calls `ready` with the address of the server
/// once it accepts connections.
///
/// # Errors
///
/// [`HttpError::Open`] if other machines can reach the address and there is no token, [`HttpError::Io`] if it is in use.
pub fn serve(
    server: Server,
    options: &HttpOptions,
    ready: impl FnOnce(&str),
) -> Result<(), HttpError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(memory::THREAD_KEEP_ALIVE)
        .build()
        .map_err(HttpError::io("start threads"))?;
    let served = runtime.block_on(async {
        // Registered before `ready`, so that a client that has read the address can stop the server.
        let signal = shutdown_signal();
        serve_until(server, options, ready, signal).await
    });
    runtime.shutdown_background();
    served
}

/// Serves HTTP until `signal`, and then until the calls in flight are answered.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_until(
    server: Server,
    options: &HttpOptions,
    ready: impl FnOnce(&str),
    signal: impl Future<Output = ()>,
) -> Result<(), HttpError> {
    let Address(address) = options.address;
    if !address.ip().is_loopback() && options.tokens.is_empty() {
        return Err(HttpError::Open { address });
    }
    let (listener, address) = bind(options.address).await?;
    let allowed = Allowed::new(options.address.ip(), &options.hosts, &options.origins);
    let stop = CancellationToken::new();
    let app = Arc::new(App::new(server, options, allowed, stop.clone()));
    let router = app::router(&app, options);
    ready(&format!("http://{address}"));
    let limits = ConnectionLimits::default();
    serve_router(listener, router, limits, &app.drain, options.drain, signal).await;
    stop.cancel();
    Ok(())
}

/// Listens at an address; returns its actual port, too.
///
/// # Errors
///
/// [`HttpError::Io`] if it is in use.
pub async fn bind(address: Address) -> Result<(TcpListener, SocketAddr), HttpError> {
    let Address(address) = address;
    let bound = TcpListener::bind(address).await.and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(HttpError::io(format!("listen at {address}")))
}

/// Serves a router or another service, with bounded connections, until `signal`. Then cancels `drain`, and serves until the requests in flight
/// are answered, at most for `time`.
pub async fn serve_router<S>(
    listener: TcpListener,
    router: S,
    limits: ConnectionLimits,
    drain: &CancellationToken,
    time: Duration,
    signal: impl Future<Output = ()>,
) where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let connections = Arc::new(Connections::new(limits));
    let accepting = listener::accept(listener, router, &connections, drain);
    let stopping = async {
        signal.await;
        tracing::info!(in_flight = connections.requests(), "draining");
        drain.cancel();
        tokio::time::sleep(time).await;
    };
    let draining = async {
        accepting.await;
        drained(&connections).await;
    };
    let is_drained = tokio::select! {
        () = draining => true,
        () = stopping => false,
        never = memory::release() => match never {},
    };
    match is_drained {
        true => tracing::info!("stopped"),
        false => tracing::warn!(in_flight = connections.requests(), "stopped before all answers"),
    }
}

/// Waits until all connections are closed, or until no request was in flight for a while: idle clients may stay forever.
async fn drained(connections: &Connections) {
    let mut quiet = Duration::ZERO;
    while connections.len() > 0 && quiet < QUIET_TIME {
        tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
        quiet = match connections.requests() {
            0 => quiet + DRAIN_POLL_INTERVAL,
            _ => Duration::ZERO,
        };
    }
}

/// Registers for signals at once; the future ends with the first signal.
pub fn shutdown_signal() -> impl Future<Output = ()> {
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
