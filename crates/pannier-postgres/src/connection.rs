//! Connections: a runtime for their tasks, a pool, and errors in words.
//!
//! Callers are threads, with or without a runtime of their own, so calls are handed to a thread of this crate. A connection that
//! breaks is replaced once; what the server says is never shown as it is.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use pannier_docs::DocsError;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::address::Address;
use crate::tls::Tls;

/// The maximum number of connections to a database.
const MAX_CONNECTIONS: usize = 16;

/// How long a request waits for a connection.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How long a writer waits for one step. The server ends a statement after ten minutes.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(660);

/// How long the end of a transaction may take.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(5);

/// Runs a future on the runtime of this crate, and waits for it.
pub(crate) fn run<T: Send + 'static>(
    future: impl Future<Output = Result<T, DocsError>> + Send + 'static,
) -> Result<T, DocsError> {
    let failed = || DocsError::Store {
        location: "the database".to_owned(),
        problem: "a thread cannot be started".to_owned(),
    };
    let (sender, receiver) = mpsc::sync_channel(1);
    let runtime = runtime().map_err(|_| failed())?;
    runtime.spawn(async move {
        // The receiver waits.
        let _ = sender.send(future.await);
    });
    receiver.recv().map_err(|_| failed())?
}

/// Returns the runtime of this process. A child of `fork` has none of its parent's threads.
fn runtime() -> io::Result<Arc<Runtime>> {
    static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);
    let mut current = lock(&RUNTIME);
    let process = std::process::id();
    match &*current {
        Some((owner, runtime)) if *owner == process => Ok(Arc::clone(runtime)),
        _ => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("pannier-postgres")
                .enable_all()
                .build()?;
            let runtime = Arc::new(runtime);
            // Ending the runtime of a parent would wait for threads that are not there.
            std::mem::forget(current.replace((process, Arc::clone(&runtime))));
            Ok(runtime)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections to a database.
pub(crate) struct Pool {
    pub(crate) address: Address,
    tls: Tls,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    process: u32,
    idle: Vec<Session>,
    open: usize,
}

/// A client with the task of its connection.
pub(crate) struct Session {
    client: Client,
    task: AbortHandle,
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.address).finish()
    }
}

impl Pool {
    pub(crate) fn new(address: Address) -> Result<Arc<Self>, DocsError> {
        let tls = Tls::new(address.root_certificates.as_deref());
        let tls = tls.map_err(|problem| store_error(&address.location, problem))?;
        let state = Mutex::new(State { process: std::process::id(), ..State::default() });
        Ok(Arc::new(Self { address, tls, state, returned: Condvar::new() }))
    }

    /// Returns a connection, which goes back to the pool when it is dropped.
    pub(crate) fn get(self: &Arc<Self>) -> Result<Connection, DocsError> {
        let deadline = Instant::now() + MAX_WAIT;
        let mut state = lock(&self.state);
        if state.process != std::process::id() {
            let parents = std::mem::take(&mut *state);
            // Closing them would close those of the parent.
            std::mem::forget(parents);
            state.process = std::process::id();
        }
        loop {
            if let Some(session) = state.idle.pop() {
                if !session.is_closed() {
                    return Ok(Connection::new(self, session));
                }
                state.open -= 1;
                continue;
            }
            if state.open < MAX_CONNECTIONS {
                state.open += 1;
                drop(state);
                return self.connect().inspect_err(|_| {
                    lock(&self.state).open -= 1;
                    self.returned.notify_one();
                });
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                let problem =
                    format!("all {MAX_CONNECTIONS} connections are in use; try again later");
                return Err(store_error(&self.address.location, problem));
            }
            state =
                self.returned.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn connect(self: &Arc<Self>) -> Result<Connection, DocsError> {
        let (config, tls) = (self.address.config.clone(), self.tls.clone());
        let location = self.address.location.clone();
        let session = run(async move {
            // The limit of the configuration is that of one TCP connection, without TLS and password.
            let limit = config.get_connect_timeout().copied().unwrap_or_default();
            let limit = limit * config.get_hosts().len().max(1) as u32;
            let connected = timeout(limit, config.connect(tls)).await;
            let connected = connected.map_err(|_| silent(&location, limit))?;
            let (client, connection) = connected.map_err(|error| to_error(&location, &error))?;
            let task = tokio::spawn(async move {
                // Its errors are seen by the requests of the client.
                let _ = connection.await;
            });
            Ok(Session { client, task: task.abort_handle() })
        })?;
        Ok(Connection::new(self, session))
    }

    fn put_back(&self, session: Option<Session>) {
        let mut state = lock(&self.state);
        match session.filter(|session| !session.is_closed()) {
            Some(session) => state.idle.push(session),
            None => state.open = state.open.saturating_sub(1),
        }
        self.returned.notify_one();
    }
}

/// A connection of a pool.
pub(crate) struct Connection {
    pub(crate) pool: Arc<Pool>,
    session: Option<Arc<Session>>,
    /// How long a call may take.
    pub(crate) limit: Option<Duration>,
    /// Whether another session or the recovery of a replica has ended a transaction.
    has_conflict: AtomicBool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl Connection {
    fn new(pool: &Arc<Pool>, session: Session) -> Self {
        let (limit, has_conflict) = (Some(pool.address.search_limit), AtomicBool::new(false));
        Self { pool: Arc::clone(pool), session: Some(Arc::new(session)), limit, has_conflict }
    }

    /// Calls an asynchronous function with the connection, and waits for its result.
    pub(crate) fn call<T, F>(
        &self,
        function: impl FnOnce(Arc<Session>, Arc<Pool>) -> F + Send + 'static,
    ) -> Result<T, DocsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, tokio_postgres::Error>> + Send + 'static,
    {
        let Some(session) = self.session.clone() else {
            return Err(store_error(&self.pool.address.location, "the connection is closed"));
        };
        let pool = Arc::clone(&self.pool);
        let location = pool.address.location.clone();
        let limit = self.limit.unwrap_or(Duration::MAX);
        let (result, has_conflict) = run(async move {
            let result = timeout(limit, function(session, pool)).await;
            let result = result.map_err(|_| silent(&location, limit))?;
            let has_conflict = result.as_ref().is_err_and(is_conflict);
            Ok((result.map_err(|error| to_error(&location, &error)), has_conflict))
        })?;
        self.has_conflict.fetch_or(has_conflict, Ordering::Relaxed);
        result
    }

    /// Returns whether a call since the last time has failed by a conflict that another attempt may not have.
    pub(crate) fn take_conflict(&self) -> bool {
        self.has_conflict.swap(false, Ordering::Relaxed)
    }

    /// Returns whether the server has ended the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_closed())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let pool = Arc::clone(&self.pool);
        let Ok(runtime) = runtime() else { return };
        // Ends the transaction, if there is one, and its locks. Nobody waits for it.
        runtime.spawn(async move {
            let end = session.batch_execute("ROLLBACK; SELECT pg_advisory_unlock_all()");
            let is_open = matches!(timeout(ROLLBACK_LIMIT, end).await, Ok(Ok(())));
            if !is_open {
                session.task.abort();
            }
            pool.put_back(Arc::into_inner(session).filter(|_| is_open));
        });
    }
}

pub(crate) fn store_error(location: &str, problem: impl Into<String>) -> DocsError {
    DocsError::Store { location: location.to_owned(), problem: problem.into() }
}

fn silent(location: &str, limit: Duration) -> DocsError {
    let seconds = limit.as_secs_f64();
    let problem = format!(
        "the server is away: it has not answered for {seconds} s; check that it runs, and the network"
    );
    store_error(location, problem)
}

/// Returns whether another attempt may succeed: two writers met, or the recovery of a replica has canceled a search.
pub(crate) fn is_conflict(error: &tokio_postgres::Error) -> bool {
    let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Says what failed, in words of our own: a message of the server may quote data.
pub(crate) fn to_error(location: &str, error: &tokio_postgres::Error) -> DocsError {
    let Some(code) = error.code() else {
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<io::Error>());
        let inner = cause.and_then(|cause| cause.get_ref()?.downcast_ref::<rustls::Error>());
        let text = source.map(ToString::to_string).unwrap_or_default();
        let problem = match cause {
            _ if text == "password missing" => {
                "the server wants a password; set PGPASSWORD".to_owned()
            }
            _ if text == "server does not support TLS" => {
                "the server has no TLS; turn it on there, or set sslmode=disable on a network that you trust"
                    .to_owned()
            }
            Some(_) if matches!(inner, Some(rustls::Error::InvalidCertificate(_))) => {
                "the certificate of the server is not trusted for this host; set sslrootcert to the file of its \
                 authority, and name the host as the certificate does"
                    .to_owned()
            }
            Some(error) => {
                format!("the server is away ({error}); check that it runs and accepts connections")
            }
            None if error.is_closed() => {
                "the server has closed the connection; try again".to_owned()
            }
            None => "the server is away or does not speak the protocol of PostgreSQL".to_owned(),
        };
        return store_error(location, problem);
    };
    let number = code.code();
    let problem = match number {
        "42P01" | "3F000" => {
            return DocsError::NoIndex { path: location.into() };
        }
        "57014" => "the database took too long; try fewer or rarer words, or a filter".to_owned(),
        "55P03" => "another program has locked the tables for too long; try again later".to_owned(),
        "25P02" | "25P03" | "57P01" | "57P02" | "57P03" => {
            "the server has ended the transaction; try again".to_owned()
        }
        "3D000" => "there is no such database; create it with `createdb`".to_owned(),
        "53300" => "the server has too many connections; try again later".to_owned(),
        "42501" => "the user may not do this; grant access to the schema `pannier`".to_owned(),
        "0A000" | "58P01" => {
            "the server has no extension `vector`; install pgvector 0.8 or later".to_owned()
        }
        "25006" => "the server is read-only; index on the primary".to_owned(),
        number if number.starts_with("28") => {
            "the server rejects the user or the password; set PGUSER and PGPASSWORD".to_owned()
        }
        number => {
            let advice = match &number[..number.len().min(2)] {
                "22" => "it cannot store a value; index fewer documents at once to find the one",
                "40" => "another session has stopped this one; try again",
                "53" => "it has no more disk space or memory; free some",
                "54" => "a value is too large for it; split or exclude the largest documents",
                _ => "its log has the details",
            };
            format!("the database reports the error {number}: {advice}")
        }
    };
    store_error(location, problem)
}
