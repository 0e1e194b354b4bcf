//! Admission of calls: a bounded number at once, in total and for each client.
//!
//! There are two lanes. Calls with a large body are few, because a parsed body takes many times its size. So they have a
//! lane of their own, and small calls never wait for them. In each lane, one client has at most half of the permits. A call
//! first waits for the permits of its client and only then for those of all. So at most that many calls of each other client
//! are ahead of it, however many are waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pannier_core::report::TraceCollector;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The bytes of large bodies that arrive at once.
const MAX_UPLOAD_BYTES: usize = 128 << 20;

/// The bounds on calls that run at once.
#[derive(Debug)]
pub struct Admission {
    light: Lane,
    heavy: Lane,
    uploads: Lane,
}

impl Admission {
    /// Admits this number of calls at once, and a quarter as many with a large body of at most these bytes.
    pub(crate) fn new(calls: usize, input_bytes: usize) -> Self {
        let calls = calls.max(1);
        let uploads = MAX_UPLOAD_BYTES / input_bytes.max(1);
        Self {
            light: Lane::new(calls),
            heavy: Lane::new(calls.div_ceil(4)),
            uploads: Lane::new(uploads.max(4)),
        }
    }

    /// Returns the lane of large bodies that have not arrived yet.
    pub fn uploads(&self) -> &Lane {
        &self.uploads
    }

    /// Returns the lane of small calls.
    pub fn light(&self) -> &Lane {
        &self.light
    }

    /// Returns the lane of calls with a large body.
    pub fn heavy(&self) -> &Lane {
        &self.heavy
    }
}

/// Permits for calls of one kind.
#[derive(Debug)]
pub struct Lane {
    all: Arc<Semaphore>,
    client_calls: usize,
    /// The permits of clients that have or await one.
    clients: Mutex<BTreeMap<Arc<str>, Weak<Semaphore>>>,
}

/// The permit of a call, which others wait for until it is dropped.
#[derive(Debug)]
pub struct CallPermit {
    _all: OwnedSemaphorePermit,
    _client: Option<ClientPermit>,
}

/// A permit among those of one client.
#[derive(Debug)]
pub struct ClientPermit {
    _permit: OwnedSemaphorePermit,
    /// Keeps the entry of the client.
    _semaphore: Arc<Semaphore>,
}

impl Lane {
    fn new(calls: usize) -> Self {
        let clients = Mutex::default();
        Self { all: Arc::new(Semaphore::new(calls)), client_calls: calls.div_ceil(2), clients }
    }

    /// Waits until a client has fewer calls than it may have.
    ///
    /// # Errors
    ///
    /// None: the permits are never closed.
    pub async fn enter(&self, client: &Arc<str>) -> Result<ClientPermit, AcquireError> {
        let semaphore = self.semaphore(client);
        let permit = Arc::clone(&semaphore).acquire_owned().await?;
        Ok(ClientPermit { _permit: permit, _semaphore: semaphore })
    }

    /// Waits until fewer calls run than may run at once.
    ///
    /// # Errors
    ///
    /// None: the permits are never closed.
    pub async fn admit(&self, client: Option<ClientPermit>) -> Result<CallPermit, AcquireError> {
        let permit = Arc::clone(&self.all).acquire_owned().await?;
        Ok(CallPermit { _all: permit, _client: client })
    }

    fn semaphore(&self, client: &Arc<str>) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = clients.get(client).and_then(Weak::upgrade) {
            return semaphore;
        }
        clients.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.client_calls));
        clients.insert(Arc::clone(client), Arc::downgrade(&semaphore));
        semaphore
    }
}

/// Returns a collector for the selections of a request.
pub type NewCollector = Arc<dyn Fn() -> Box<dyn TraceCollector> + Send + Sync>;

/// The client of a request over HTTP, as an extension of the request.
#[derive(Clone)]
pub struct Caller {
    /// The name of its token, or its address.
    pub client: Arc<str>,
    /// The permit of a call with a large body, which was admitted before the body was parsed.
    pub permit: Option<Arc<CallPermit>>,
    /// Returns the collector of its selections, if somebody observes them.
    pub collector: Option<NewCollector>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Calls a function whose selections are observed, if there is a collector.
pub fn observed<T>(collector: Option<NewCollector>, call: impl FnOnce() -> T) -> T {
    match collector {
        None => call(),
        Some(collector) => pannier_core::report::collect_runs(collector(), call),
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_client_has_half_of_the_permits() {
        let admission = Admission::new(4, 4 << 20);
        let (greedy, other): (Arc<str>, Arc<str>) = ("greedy".into(), "other".into());
        let lane = admission.light();
        let admit = |client: &Arc<str>| {
            let entered = now(lane.enter(client))?.unwrap();
            Some(now(lane.admit(Some(entered)))?.unwrap())
        };
        let calls: Vec<_> = (0..4).filter_map(|_| admit(&greedy)).collect();
        assert_eq!(calls.len(), 2);
        assert_eq!((0..4).filter_map(|_| admit(&other)).count(), 4, "permits are returned");
        let others: Vec<_> = (0..4).filter_map(|_| admit(&other)).collect();
        assert_eq!(others.len(), 2);
        assert!(now(lane.admit(None)).is_none(), "all permits are taken");
        drop(calls);
        assert!(admit(&greedy).is_some());
        drop(others);
        let heavy = now(admission.heavy().enter(&greedy)).unwrap().unwrap();
        assert!(now(admission.heavy().admit(Some(heavy))).is_some(), "its own lane");
        for name in 0..100 {
            assert!(admit(&name.to_string().into()).is_some());
        }
        assert!(lane.clients.lock().unwrap().len() < 3, "idle clients are forgotten");
    }
}
