//! Connections: their number, their times, and their end.
//!
//! A connection waits while no request is under way: before its first one, and between two. Waiting connections are cheap
//! to hold open, so they are what an attacker has most of. An address may have `waiting` of them. A further one must
//! send the head of a request within [`SHORT_HEAD_TIMEOUT`], which every honest client does, also in a burst. If all
//! connections are taken, the one that waited longest is closed, of the address that has most of them waiting.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use crate::IO_TIMEOUT;
use crate::guard::PeerAddress;
use crate::write_timeout::WriteTimeout;

/// The time in which further connections must send the head of their first request.
const SHORT_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The largest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The time in which a connection that was accepted before a drain may begin its first request.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(300);

/// The delay after a failed accept, for instance because of too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The number of open connections, and what is added to their responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Of all addresses; default 512.
    pub total: usize,
    /// Of one address; default 256.
    pub per_address: usize,
    /// Of one address that may wait for long before they send a request; default 32.
    pub waiting: usize,
    /// Whether a response without the header `Date` gets one; default `true`. A proxy passes on what it has got.
    pub adds_date: bool,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 512, per_address: 256, waiting: 32, adds_date: true }
    }
}

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By number, so the first is the oldest.
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    /// The number of requests under way. `None` before the first one.
    requests: Option<usize>,
    close: CancellationToken,
}

impl Connection {
    fn is_waiting(&self) -> bool {
        self.requests.unwrap_or(0) == 0
    }
}

/// Whether a connection is taken on.
enum Admitted {
    /// Its number, and whether it must be quick.
    Yes(u64, bool),
    /// Its address has too many.
    Refused,
    /// Another connection has to end first.
    Full,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, address: IpAddr, close: CancellationToken) -> Admitted {
        let mut state = self.state();
        let own = state.open.values().filter(|connection| connection.address == address);
        if own.clone().count() >= self.limits.per_address {
            return Admitted::Refused;
        }
        let is_short =
            own.filter(|connection| connection.is_waiting()).count() >= self.limits.waiting;
        if state.open.len() >= self.limits.total && !state.evict() {
            return Admitted::Full;
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Connection { address, requests: None, close });
        Admitted::Yes(number, is_short)
    }

    fn begin_request(&self, number: u64) {
        if let Some(connection) = self.state().open.get_mut(&number) {
            *connection.requests.get_or_insert(0) += 1;
        }
    }

    fn end_request(&self, number: u64) {
        if let Some(requests) =
            self.state().open.get_mut(&number).and_then(|it| it.requests.as_mut())
        {
            *requests -= 1;
        }
    }

    fn has_begun(&self, number: u64) -> bool {
        self.state().open.get(&number).is_some_and(|connection| connection.requests.is_some())
    }

    fn remove(&self, number: u64) {
        self.state().open.remove(&number);
    }

    pub(crate) fn len(&self) -> usize {
        self.state().open.len()
    }

    /// Returns the number of requests whose responses are not complete.
    pub(crate) fn requests(&self) -> usize {
        self.state().open.values().filter_map(|connection| connection.requests).sum()
    }
}

impl State {
    /// Closes the oldest waiting connection of the address that has most of them.
    fn evict(&mut self) -> bool {
        let mut waiting = BTreeMap::<IpAddr, (usize, u64)>::new();
        for (number, connection) in &self.open {
            if connection.is_waiting() {
                waiting.entry(connection.address).or_insert((0, *number)).0 += 1;
            }
        }
        let most = waiting.values().max_by_key(|(count, _)| *count);
        let evicted = most.and_then(|(_, oldest)| self.open.remove(oldest));
        evicted.map(|connection| connection.close.cancel()).is_some()
    }
}

/// Forgets a connection when it is dropped.
struct OpenConnection {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.remove(self.number);
    }
}

/// Ends a request when its response is written, or dropped.
struct RunningRequest(Arc<OpenConnection>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.connections.end_request(self.0.number);
    }
}

/// Accepts connections until `drain` is cancelled; then takes on those that the system has accepted already.
pub(crate) async fn accept<S>(
    listener: TcpListener,
    router: S,
    connections: &Arc<Connections>,
    drain: &CancellationToken,
) where
    S: Service<axum::extract::Request, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let mut is_draining = false;
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = drain.cancelled(), if !is_draining => {
                is_draining = true;
                continue;
            }
            () = std::future::ready(()), if is_draining => return,
        };
        let Ok((stream, peer)) = accepted else {
            if is_draining {
                return;
            }
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let close = CancellationToken::new();
        let admitted = loop {
            match connections.admit(peer.ip(), close.clone()) {
                Admitted::Yes(number, is_short) => break Some((number, is_short)),
                Admitted::Full => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                Admitted::Refused => break None,
            }
        };
        let Some((number, is_short)) = admitted else {
            tracing::debug!(address = %peer.ip(), "connection refused: too many of its address");
            continue;
        };
        let open = Arc::new(OpenConnection { connections: Arc::clone(connections), number });
        tokio::spawn(serve(stream, peer, router.clone(), open, close, is_short, drain.clone()));
    }
}

/// Serves a connection until its client closes it, or it is closed.
async fn serve<S>(
    stream: TcpStream,
    peer: SocketAddr,
    router: S,
    open: Arc<OpenConnection>,
    close: CancellationToken,
    is_short: bool,
    drain: CancellationToken,
) where
    S: Service<axum::extract::Request, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let requests = Arc::clone(&open);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        requests.connections.begin_request(requests.number);
        let running = RunningRequest(Arc::clone(&requests));
        let router = router.clone();
        request.extensions_mut().insert(PeerAddress(peer));
        async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            let keep = move |body: Body| {
                body.map_frame(move |frame| {
                    let _until_the_end = &running;
                    frame
                })
            };
            Ok::<_, Infallible>(response.map(keep))
        }
    });
    // Answers are written whole; waiting for more to write would delay them.
    let _ = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IO_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .preserve_header_case(true)
        .auto_date_header(open.connections.limits.adds_date)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, IO_TIMEOUT)), service);
    let mut connection = std::pin::pin!(connection);
    let (mut is_draining, mut is_shut, mut is_short) = (false, false, is_short);
    let grace = tokio::time::sleep(Duration::ZERO);
    let mut grace = std::pin::pin!(grace);
    let head_timeout = tokio::time::sleep(SHORT_HEAD_TIMEOUT);
    let mut head_timeout = std::pin::pin!(head_timeout);
    loop {
        tokio::select! {
            // The client sees its own connection error.
            _ = connection.as_mut() => return,
            () = close.cancelled() => return,
            () = head_timeout.as_mut(), if is_short => {
                is_short = false;
                if !open.connections.has_begun(open.number) {
                    return;
                }
            }
            () = drain.cancelled(), if !is_draining => {
                is_draining = true;
                // `hyper` would close a connection whose request it has not begun to read.
                if !open.connections.has_begun(open.number) {
                    grace.as_mut().reset(tokio::time::Instant::now() + FIRST_REQUEST_GRACE);
                }
            }
            () = grace.as_mut(), if is_draining && !is_shut => {
                is_shut = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_server_closes_the_oldest_connection_of_the_greediest_address() {
        let connections = Connections::default();
        let ConnectionLimits { total, per_address, waiting, .. } = connections.limits;
        let address = |last: u8| IpAddr::from([127, 0, 0, last]);
        let admit = |last: u8| {
            let close = CancellationToken::new();
            match connections.admit(address(last), close.clone()) {
                Admitted::Yes(number, is_short) => Some((number, is_short, close)),
                _ => None,
            }
        };
        let greedy: Vec<_> = (0..per_address + 1).map(|_| admit(2)).collect();
        assert!(greedy[per_address].is_none());
        let short: Vec<bool> = greedy.iter().flatten().map(|(_, is_short, _)| *is_short).collect();
        assert!(!short[waiting - 1] && short[waiting]);
        for last in 3..(3 + total - per_address) {
            assert!(admit(last as u8).is_some() || last > 255);
        }
        while connections.len() < total {
            assert!(admit(1).is_some());
        }
        let (first, _, close) = greedy[0].as_ref().unwrap();
        connections.begin_request(*first);
        assert!(admit(1).is_some());
        assert!(!close.is_cancelled(), "a request is under way");
        assert!(greedy[1].as_ref().unwrap().2.is_cancelled());
        connections.end_request(*first);
        assert!(admit(1).is_some() && close.is_cancelled());
        assert_eq!(connections.len(), total);
    }
}
