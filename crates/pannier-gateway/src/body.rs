//! Bodies on their way through the gateway: requests to the provider, and responses to the client.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::metrics::Metrics;
use crate::proxy::UsageCheck;

/// One of the two sides of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Provider,
}

/// The side that a request waits for, and since when. Until the request is sent, the client may be the slower one.
#[derive(Debug)]
pub(crate) struct Waiting(Mutex<(Side, Instant)>);

impl Waiting {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((Side::Provider, Instant::now()))))
    }

    fn state(&self) -> MutexGuard<'_, (Side, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first side that makes no progress for this time.
    pub(crate) async fn stalled(&self, time: Duration) -> Side {
        loop {
            let (side, since) = *self.state();
            tokio::time::sleep_until(since + time).await;
            if *self.state() == (side, since) {
                return side;
            }
        }
    }
}

/// The body of a request, which is dropped when it is sent.
pub(crate) struct SentBody {
    pub(crate) body: Body,
    pub(crate) waiting: Arc<Waiting>,
    /// The memory that it takes.
    pub(crate) _memory: Option<Arc<OwnedSemaphorePermit>>,
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let mut state = self.waiting.state();
        match frame.is_pending() {
            true if state.0 == Side::Client => {}
            true => *state = (Side::Client, Instant::now()),
            false => *state = (Side::Provider, Instant::now()),
        }
        drop(state);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, which fails if its next part takes too long. The client then sees a connection that ends early,
/// as it would without the gateway.
pub(crate) struct TimedBody<B> {
    body: B,
    timeout: Duration,
    deadline: Pin<Box<Sleep>>,
    usage: Option<UsageCheck>,
    route: &'static str,
    metrics: Arc<Metrics>,
    /// The failure that is next.
    error: Option<axum::Error>,
}

impl<B> TimedBody<B> {
    pub(crate) fn new(
        body: B,
        timeout: Duration,
        usage: Option<UsageCheck>,
        route: &'static str,
        metrics: Arc<Metrics>,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Self { body, timeout, deadline, usage, route, metrics, error: None }
    }

    /// Fails at the next poll. A failure drops the bytes that the connection has not sent yet, and it sends them before that.
    fn fail(&mut self, error: axum::Error, context: &Context<'_>) {
        self.metrics.add_upstream_error();
        tracing::warn!(route = self.route, %error, "the response ended early");
        self.error = Some(error);
        context.waker().wake_by_ref();
    }
}

impl<B: HttpBody<Data = Bytes, Error = hyper::Error> + Unpin> HttpBody for TimedBody<B> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let error = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Err(error))) => axum::Error::new(error),
            Poll::Ready(frame) => {
                let deadline = Instant::now() + self.timeout;
                self.deadline.as_mut().reset(deadline);
                let frame = frame.and_then(Result::ok);
                let data = frame.as_ref().and_then(Frame::data_ref);
                if let (Some(usage), Some(bytes)) = (&mut self.usage, data) {
                    usage.read(bytes);
                }
                return Poll::Ready(frame.map(Ok));
            }
            Poll::Pending if self.deadline.as_mut().poll(context).is_ready() => {
                axum::Error::new(std::io::Error::from(std::io::ErrorKind::TimedOut))
            }
            Poll::Pending => return Poll::Pending,
        };
        self.fail(error, context);
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
