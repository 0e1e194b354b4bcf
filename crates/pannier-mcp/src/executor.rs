//! Execution of calls, each on its own thread.
//!
//! The engine cannot be interrupted inside a step. A call that was cancelled or timed out is therefore abandoned: the client
//! gets its error at once, the thread stops at its next step, and only then its permit is free for another call. The number
//! of permits bounds the load and still lets fast calls pass slow ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::{AcquireError, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use crate::admission::{Admission, CallPermit, Caller, NewCollector, observed};
use crate::config::Limits;
use crate::telemetry::{CallSpan, CallTelemetry, Operation};
use crate::tool_error::ToolError;

/// The interval of progress notifications within a step.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A running call's view of its client: cancellation and progress.
#[derive(Debug)]
pub(crate) struct CallControl {
    is_cancelled: Arc<AtomicBool>,
    steps: AtomicU32,
    progress: Option<mpsc::UnboundedSender<(u32, &'static str)>>,
}

impl CallControl {
    /// Fails if the client no longer waits.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(ToolError::cancelled()),
            false => Ok(()),
        }
    }

    /// Starts a step, unless the client no longer waits.
    pub(crate) fn step(&self, message: &'static str) -> Result<(), ToolError> {
        self.check()?;
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        if let Some(progress) = &self.progress {
            // The receiver is dropped when the client no longer waits.
            let _ = progress.send((step, message));
        }
        Ok(())
    }
}

/// Cancels a call when the future that awaits it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the client of a request over HTTP.
fn caller(context: &RequestContext<RoleServer>) -> Option<&Caller> {
    context.extensions.get::<http::request::Parts>()?.extensions.get()
}

/// Runs calls, a bounded number at once.
#[derive(Clone, Debug)]
pub(crate) struct CallExecutor {
    admission: Arc<Admission>,
    time: Duration,
    telemetry: Option<Arc<dyn CallTelemetry>>,
}

impl CallExecutor {
    pub(crate) fn new(limits: &Limits, telemetry: Option<Arc<dyn CallTelemetry>>) -> Self {
        let admission = Arc::new(Admission::new(limits.calls, limits.input));
        Self { admission, time: limits.time, telemetry }
    }

    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Waits for a permit, unless the transport has admitted the call already.
    async fn admit(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<CallPermit>, AcquireError> {
        let caller = caller(context);
        if let Some(permit) = caller.and_then(|caller| caller.permit.clone()) {
            return Ok(permit);
        }
        let lane = self.admission.light();
        let client = match caller {
            Some(caller) => Some(lane.enter(&caller.client).await?),
            // Standard input has one client.
            None => None,
        };
        Ok(Arc::new(lane.admit(client).await?))
    }

    /// Starts to observe a call over standard streams, if somebody does.
    fn begin(
        &self,
        context: &RequestContext<RoleServer>,
        operation: Operation,
    ) -> Option<Arc<dyn CallSpan>> {
        let parent = context.meta.get("traceparent").and_then(|parent| parent.as_str());
        Some(self.telemetry.as_ref()?.begin(operation, parent))
    }

    /// Runs a call and awaits it until the time limit or the client's cancellation.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        operation: Operation,
        call: impl FnOnce(&CallControl) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let caller = caller(context);
        let span = if caller.is_none() { self.begin(context, operation) } else { None };
        let collector =
            span.clone().map(|span| -> NewCollector { Arc::new(move || span.collector()) });
        let collector = collector.or_else(|| caller?.collector.clone());
        let result = self.run_observed(context, collector, call).await;
        if let Some(span) = span {
            span.end(result.as_ref().err().map(|error| error.code));
        }
        result
    }

    async fn run_observed<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        collector: Option<NewCollector>,
        call: impl FnOnce(&CallControl) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let end = Instant::now() + self.time;
        let permit = tokio::select! {
            permit = self.admit(context) => permit,
            () = tokio::time::sleep_until(end) => return Err(self.timed_out("wait for other calls")),
            () = context.ct.cancelled() => return Err(ToolError::cancelled()),
        };
        let permit = permit.map_err(|error| ToolError::internal(error.to_string()))?;
        let token = context.meta.get_progress_token();
        let (sender, mut steps) = mpsc::unbounded_channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(Arc::clone(&is_cancelled));
        let control = CallControl {
            is_cancelled,
            steps: AtomicU32::new(0),
            progress: token.as_ref().map(|_| sender),
        };
        let mut work = tokio::task::spawn_blocking(move || {
            let answer = observed(collector, || call(&control));
            drop(permit);
            answer
        });
        let mut progress = Progress::new(context.peer.clone(), token);
        let mut ticks =
            tokio::time::interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some((step, message)) = steps.recv() => progress.step(step, message).await,
                // The message of a panic can have contents and paths.
                done = &mut work => return done.unwrap_or_else(|_| {
                    Err(ToolError::internal("the call failed"))
                }),
                () = context.ct.cancelled() => return Err(ToolError::cancelled()),
                () = tokio::time::sleep_until(end) => return Err(self.timed_out("run")),
                _ = ticks.tick() => progress.tick().await,
            }
        }
    }

    fn timed_out(&self, what: &str) -> ToolError {
        ToolError::new(
            "timeout",
            format!("the call had to {what} for more than {} seconds", self.time.as_secs_f64()),
            "ask for less, or call again later; the server can be started with a greater --timeout",
        )
    }
}

/// Progress notifications: a whole number for each step, and between two steps a fraction that grows and stays below the
/// next number, as the protocol requires.
struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    step: u32,
    ticks: u32,
    message: &'static str,
}

impl Progress {
    fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, step: 0, ticks: 0, message: "" }
    }

    async fn step(&mut self, step: u32, message: &'static str) {
        (self.step, self.ticks, self.message) = (step, 0, message);
        self.send_progress().await;
    }

    async fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
        self.send_progress().await;
    }

    async fn send_progress(&self) {
        let Some(token) = self.token.clone() else { return };
        let fraction = f64::from(self.ticks) / (f64::from(self.ticks) + 1.0);
        let progress = f64::from(self.step) + 1.0 + fraction;
        let params = ProgressNotificationParam::new(token, progress).with_message(self.message);
        // A lost notification is harmless; the transport reports a closed connection itself.
        let _ = tokio::time::timeout(PROGRESS_INTERVAL, self.peer.notify_progress(params)).await;
    }
}
