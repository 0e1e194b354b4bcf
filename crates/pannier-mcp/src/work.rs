//! Calls at work, each on a thread of its own.
//!
//! The engine runs through once it is started. So a call that nobody waits for any longer, because it was cancelled or its
//! time is up, is left alone: its answer is dropped, it ends at its next step, and only then another gets its place. Few
//! enough run at once that the machine is not flooded, and enough that slow ones leave room for fast ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use crate::config::Limits;
use crate::tool_error::ToolError;

/// How often a client that wants to know is told that a call is still at work.
const TICK: Duration = Duration::from_secs(1);

/// What a call at work sees of those who wait for it.
#[derive(Debug)]
pub(crate) struct Watch {
    is_left: Arc<AtomicBool>,
    steps: AtomicU32,
    told: Option<mpsc::UnboundedSender<(u32, &'static str)>>,
}

impl Watch {
    /// Whether somebody still waits.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        match self.is_left.load(Ordering::Relaxed) {
            true => Err(ToolError::cancelled()),
            false => Ok(()),
        }
    }

    /// Begins a step, unless nobody waits any longer.
    pub(crate) fn step(&self, message: &'static str) -> Result<(), ToolError> {
        self.check()?;
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        if let Some(told) = &self.told {
            // Whoever does not listen any longer misses nothing.
            let _ = told.send((step, message));
        }
        Ok(())
    }
}

/// Tells the work that nobody waits for it, however the waiting ended.
struct Leave(Arc<AtomicBool>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Who works on calls.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    places: Arc<Semaphore>,
    time: Duration,
}

impl Workers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.calls.max(1))), time: limits.time }
    }

    /// Runs a call, and waits for it as long as the limit and the client allow.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        call: impl FnOnce(&Watch) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let end = Instant::now() + self.time;
        let place = tokio::select! {
            place = Arc::clone(&self.places).acquire_owned() => place,
            () = tokio::time::sleep_until(end) => return Err(self.out_of_time("wait for others")),
            () = context.ct.cancelled() => return Err(ToolError::cancelled()),
        };
        let place = place.map_err(|error| ToolError::internal(error.to_string()))?;
        let token = context.meta.get_progress_token();
        let (sender, mut steps) = mpsc::unbounded_channel();
        let is_left = Arc::new(AtomicBool::new(false));
        let _leave = Leave(Arc::clone(&is_left));
        let watch =
            Watch { is_left, steps: AtomicU32::new(0), told: token.as_ref().map(|_| sender) };
        let mut work = tokio::task::spawn_blocking(move || {
            let answer = call(&watch);
            drop(place);
            answer
        });
        let mut progress = Progress::new(context.peer.clone(), token);
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some((step, message)) = steps.recv() => progress.step(step, message).await,
                done = &mut work => return done.unwrap_or_else(|error| {
                    Err(ToolError::internal(format!("the call stopped where it never should: {error}")))
                }),
                () = context.ct.cancelled() => return Err(ToolError::cancelled()),
                () = tokio::time::sleep_until(end) => return Err(self.out_of_time("work")),
                _ = ticks.tick() => progress.tick().await,
            }
        }
    }

    fn out_of_time(&self, what: &str) -> ToolError {
        ToolError::new(
            "timeout",
            format!("the call had to {what} for more than {} seconds", self.time.as_secs_f64()),
            "ask for less, or call again later; the server can be started with a greater --timeout",
        )
    }
}

/// What a client is told while it waits, if it wants to be: whole numbers for steps, and in between something that grows
/// and stays below the next.
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
        self.tell().await;
    }

    async fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
        self.tell().await;
    }

    async fn tell(&self) {
        let Some(token) = self.token.clone() else { return };
        let within = f64::from(self.ticks) / (f64::from(self.ticks) + 1.0);
        let progress = f64::from(self.step) + 1.0 + within;
        let told = ProgressNotificationParam::new(token, progress).with_message(self.message);
        // A client that is gone is noticed elsewhere, and one that does not read misses something.
        let _ = tokio::time::timeout(TICK, self.peer.notify_progress(told)).await;
    }
}
