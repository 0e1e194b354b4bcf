//! A gateway between agents and model providers: every request fits its budget.
//!
//! Agents that cannot be changed take a base URL. The gateway forwards their requests to the provider. A request whose
//! history is too long is fitted as one of a session (`pannier-chat`); every other one is forwarded byte for byte. Responses
//! stream through untouched.
//!
//! - `upstream.rs` names the providers' addresses, and which requests are chats.
//! - `fit.rs` decides about a body; `encoding.rs` decodes compressed ones.
//! - `identity.rs` knows clients by keyed hashes. `counts.rs` remembers token counts of each client's texts, so that a known
//!   history costs little. `ledger.rs` remembers sessions, and `state.rs` keeps them in files.
//! - `proxy.rs` checks and forwards; `body.rs` streams. `metrics.rs` counts.
//! - `usage.rs` reads the provider's own count from a response, and `margin.rs` calibrates by it.
//! - `recall.rs` serves what was cut, and `inspect.rs` the running sessions.
//!
//! The decisions are a pure function of the request and the margin of its session. What else the gateway remembers saves
//! time and changes nothing.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod body;
mod counts;
mod encoding;
mod error;
mod fit;
mod headers;
mod identity;
mod inspect;
mod ledger;
mod margin;
mod metrics;
mod proxy;
mod recall;
mod state;
mod upstream;
mod usage;

pub use error::GatewayError;
pub use inspect::InspectOptions;
pub use metrics::TokenPrices;
pub use upstream::Upstreams;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use pannier::{Policy, PolicyRegistry};
use pannier_server::{Address, ConnectionLimits, bind, serve_router, shutdown_signal};
use tokio_util::sync::CancellationToken;

use fit::Fitter;
use identity::Secret;
use ledger::Ledger;
use margin::Margins;
use metrics::Metrics;
use proxy::{Gateway, Shared};
use recall::Recall;
use state::StateFolder;

/// The number of connections. All clients are on this machine, so none of them is bounded by its address.
const MAX_CONNECTIONS: usize = 4_096;

/// The files that these connections need: two each, and some more.
#[cfg(unix)]
const MAX_FILES: u64 = 2 * MAX_CONNECTIONS as u64 + 64;

/// The options of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The address to listen at.
    pub address: Address,
    /// The address for metrics, on which nothing else is served. Default: none.
    pub metrics: Option<Address>,
    /// The addresses of the providers.
    pub upstreams: Upstreams,
    /// The window in tokens. The request's own output limit (`max_tokens`) is reserved inside it.
    pub budget: i64,
    /// The share of the budget that is kept free because counts may be too low, in percent; default 0.
    pub margin_percent: f64,
    /// The session policy: `careful`, `balanced` (default) or `thrifty`.
    pub policy: String,
    /// The tokenizer of all requests. Default: that of each request's model.
    pub tokenizer: Option<String>,
    /// Whether a request that cannot be fitted is refused, instead of forwarded as it is.
    pub is_strict: bool,
    /// The folder that keeps sessions over restarts. Default: none; they are kept in memory.
    pub state: Option<PathBuf>,
    /// Whether the tool `recall` is served at `/mcp`, and shorter blocks name its ids. It needs a state folder.
    pub recall: bool,
    /// Whether the provider's own counts are read from responses, and calibrate the margin of later sessions.
    pub checks_usage: bool,
    /// The prices of the metrics.
    pub prices: TokenPrices,
    /// The address that shows the running sessions. Default: none.
    pub inspect: Option<InspectOptions>,
    /// The maximum size of a request body, in bytes; default 64 MiB.
    pub max_body_bytes: usize,
    /// The time until a provider must begin its response, and between two parts of one; default 10 minutes.
    pub timeout: Duration,
    /// The time for requests in flight after a signal; default 10 seconds.
    pub drain: Duration,
}

impl GatewayOptions {
    /// Returns the defaults for providers and a budget.
    pub fn new(address: Address, upstreams: Upstreams, budget: i64) -> Self {
        Self {
            address,
            metrics: None,
            upstreams,
            budget,
            margin_percent: 0.0,
            policy: "balanced".to_owned(),
            tokenizer: None,
            is_strict: false,
            state: None,
            recall: false,
            checks_usage: false,
            prices: TokenPrices::default(),
            inspect: None,
            max_body_bytes: 64 << 20,
            timeout: Duration::from_secs(600),
            drain: Duration::from_secs(10),
        }
    }

    pub(crate) fn policy(&self) -> Result<Policy, GatewayError> {
        let registry = PolicyRegistry::default();
        let policy = registry.policy(&self.policy)?.clone();
        match policy.session() {
            Some(_) => Ok(policy),
            None => Err(GatewayError::NotSession { policy: self.policy.clone() }),
        }
    }
}

/// Forwards requests until a signal, and then until the responses in flight are complete. Calls `ready` with the address once
/// it accepts connections.
///
/// # Errors
///
/// [`GatewayError`] if an option is invalid, other machines could reach the address, or it is in use.
pub fn serve(options: &GatewayOptions, ready: impl FnOnce(&str)) -> Result<(), GatewayError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(GatewayError::Runtime)?;
    let served = runtime.block_on(async {
        // Registered before `ready`, so that a client that has read the address can stop the gateway.
        let signal = shutdown_signal();
        serve_until(options, ready, signal).await
    });
    runtime.shutdown_background();
    served
}

/// Forwards requests until `signal`, and then until the responses in flight are complete.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_until(
    options: &GatewayOptions,
    ready: impl FnOnce(&str),
    signal: impl Future<Output = ()>,
) -> Result<(), GatewayError> {
    // A gateway has no token of its own: whoever reaches it uses it with an own key, but learns what it forwards to.
    let inspect = options.inspect.as_ref().map(|inspect| inspect.address);
    for address in [Some(options.address), options.metrics, inspect].into_iter().flatten() {
        if !address.is_loopback() {
            return Err(GatewayError::Open { address: address.to_string() });
        }
    }
    if options.budget < 1 {
        return Err(GatewayError::Budget { budget: options.budget });
    }
    if options.recall && options.state.is_none() {
        return Err(GatewayError::RecallWithoutState);
    }
    let state = options.state.as_deref().map(StateFolder::open).transpose()?.map(Arc::new);
    let secret = match &state {
        Some(state) => state.secret().clone(),
        None => Secret::random().map_err(GatewayError::Random)?,
    };
    let ledger = Arc::new(Ledger::open(state.clone()));
    let margins = Arc::new(Margins::new(options.margin_percent, state.clone()));
    let recall = state.filter(|_| options.recall).map(|state| Arc::new(Recall::new(state)));
    let metrics = Arc::new(Metrics::new(options.prices));
    let fitter = Fitter::new(
        options,
        secret.clone(),
        Arc::clone(&ledger),
        Arc::clone(&margins),
        recall.clone(),
    )?;
    let shared = Shared { metrics: Arc::clone(&metrics), margins, secret, recall };
    let gateway = Arc::new(Gateway::new(options, fitter, shared)?);
    raise_file_limit();
    let (listener, address) = bind(options.address).await?;
    let drain = CancellationToken::new();
    if let Some(address) = options.metrics {
        serve_beside(address, metrics::router(metrics), &drain).await?;
    }
    if let Some(inspect) = &options.inspect {
        if inspect.tokens.is_empty() {
            return Err(GatewayError::InspectWithoutToken);
        }
        let sessions = inspect::Sessions {
            ledger,
            budget: options.budget,
            policy: options.policy.clone(),
            prices: options.prices,
        };
        let router = inspect::router(sessions, inspect.tokens.clone());
        let address = serve_beside(inspect.address, router, &drain).await?;
        tracing::info!("the running sessions are at http://{address}");
    }
    ready(&format!("http://{address}"));
    let forwarding = Arc::clone(&gateway);
    let service = tower::service_fn(move |request: Request| {
        let gateway = Arc::clone(&forwarding);
        async move { Ok::<Response, Infallible>(gateway.forward(request).await) }
    });
    let all = MAX_CONNECTIONS;
    let limits = ConnectionLimits { total: all, per_address: all, waiting: all, adds_date: false };
    serve_router(listener, service, limits, &drain, options.drain, signal).await;
    // A request may still be counted, and it is recorded and reported after that.
    let _ = tokio::time::timeout(options.drain, gateway.wait_until_reported()).await;
    Ok(())
}

/// Serves another address until the gateway drains.
async fn serve_beside(
    address: Address,
    router: axum::Router,
    drain: &CancellationToken,
) -> Result<SocketAddr, GatewayError> {
    let (listener, address) = bind(address).await?;
    let (stop, ended) = (drain.clone(), drain.clone().cancelled_owned());
    tokio::spawn(async move {
        let limits = ConnectionLimits::default();
        serve_router(listener, router, limits, &stop, Duration::ZERO, ended).await;
    });
    Ok(address)
}

/// Raises the limit on open files as far as the system allows: many start processes with 1,024.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};

        let mut limit = getrlimit(Resource::Nofile);
        let needed = limit.maximum.map_or(MAX_FILES, |maximum| maximum.min(MAX_FILES));
        if limit.current.is_some_and(|current| current < needed) {
            limit.current = Some(needed);
            // With fewer files, further connections wait.
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}
