//! A gateway between agents and model providers: every request fits its budget.
//!
//! Agents that cannot be changed take a base URL. The gateway forwards their requests to the provider. A request whose
//! history is too long is fitted as one of a session (`pannier-chat`); every other one is forwarded byte for byte. Responses
//! stream through untouched.
//!
//! - `upstream.rs` names the providers' addresses, and which requests are chats.
//! - `fit.rs` decides about a body; `encoding.rs` decodes compressed ones.
//! - `counts.rs` remembers token counts of each client's texts, so that a known history costs little.
//! - `proxy.rs` checks, forwards and streams. `metrics.rs` counts.
//!
//! The decisions are a pure function of the request. What the gateway remembers saves time and changes nothing.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod counts;
mod encoding;
mod error;
mod fit;
mod headers;
mod metrics;
mod proxy;
mod upstream;

pub use error::GatewayError;
pub use upstream::Upstreams;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use pannier::{Policy, PolicyRegistry};
use pannier_server::{Address, bind, serve_router, shutdown_signal};
use tokio_util::sync::CancellationToken;

use counts::KnownCounts;
use fit::Fitter;
use metrics::Metrics;
use proxy::Gateway;

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
            max_body_bytes: 64 << 20,
            timeout: Duration::from_secs(600),
            drain: Duration::from_secs(10),
        }
    }

    fn policy(&self) -> Result<Policy, GatewayError> {
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
    if !options.address.is_loopback() {
        return Err(GatewayError::Open { address: options.address.to_string() });
    }
    let metrics = Arc::new(Metrics::default());
    let counts = KnownCounts::new().map_err(GatewayError::Random)?;
    let fitter = Fitter::new(options, options.policy()?, counts)?;
    let gateway = Arc::new(Gateway::new(options, fitter, Arc::clone(&metrics))?);
    let (listener, address) = bind(options.address).await?;
    let drain = CancellationToken::new();
    if let Some(address) = options.metrics {
        let (listener, _) = bind(address).await?;
        let (router, drain) = (metrics::router(metrics), drain.clone());
        tokio::spawn(async move {
            let (stop, ended) = (drain.clone(), drain.clone().cancelled_owned());
            serve_router(listener, router, &stop, Duration::ZERO, ended).await;
        });
    }
    ready(&format!("http://{address}"));
    let service = tower::service_fn(move |request: Request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<Response, Infallible>(gateway.forward(request).await) }
    });
    serve_router(listener, service, &drain, options.drain, signal).await;
    Ok(())
}
