//! Updates indexes when their sources change.
//!
//! A thread runs the incremental build again and again. If nothing has changed, it compares the stamps of files and writes
//! nothing. Otherwise it publishes a new version by one rename; calls use the old one until then.
//!
//! Polling is a choice. Events of the operating system (`notify`) would need the same walk for new folders and ignore files,
//! do not exist on network file systems, and are bounded by the number of watches. The interval is the debounce: changes within
//! it are one update. It grows with the time that a check takes, so that watching uses at most a twentieth of one core.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pannier::ops::{Control, IndexOptions};
use pannier::{NamedFolder, Shelf};

use crate::HttpError;

/// The share of time that checks take is at most one in this number.
const MAX_LOAD: u32 = 20;

/// The indexes that a server watches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchOptions {
    /// The indexes. Each remembers its sources.
    pub indexes: Vec<NamedFolder>,
    /// The embedder of new passages, if the indexes have vectors.
    pub embedder: Option<String>,
    /// The environment variable with the key of the embedding server.
    pub embedder_key_env: Option<String>,
    /// The time between two checks; default 2 seconds.
    pub interval: Duration,
}

impl WatchOptions {
    /// Watches `indexes` without an embedder.
    pub fn new(indexes: Vec<NamedFolder>) -> Self {
        let interval = Duration::from_secs(2);
        Self { indexes, embedder: None, embedder_key_env: None, interval }
    }
}

/// A thread that updates indexes. Dropping it waits for the end of a running update.
#[derive(Debug)]
pub struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread. Collections of a database are not watched, which the log says.
    ///
    /// # Errors
    ///
    /// [`HttpError::Io`] if it cannot be started.
    pub fn start(mut options: WatchOptions) -> Result<Self, HttpError> {
        options.indexes.retain(|index| {
            // The folder of a collection may be on another machine.
            let is_folder = !index.path().to_string_lossy().contains("://");
            if !is_folder {
                tracing::warn!(
                    index = index.name(),
                    "not watched: run `pannier docs index` when the documents of a database change"
                );
            }
            is_folder
        });
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let mut pause = options.interval;
            let mut problems = vec![Vec::new(); options.indexes.len()];
            while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                let started = Instant::now();
                for (index, problems) in options.indexes.iter().zip(&mut problems) {
                    update(index, &options, problems);
                }
                pause = options.interval.max(started.elapsed().saturating_mul(MAX_LOAD - 1));
            }
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(run);
        let thread = thread.map_err(HttpError::io("start a thread"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Updates an index. Reports a problem once, until it changes.
fn update(folder: &NamedFolder, options: &WatchOptions, problems: &mut Vec<String>) {
    let name = folder.path().display().to_string();
    let index = IndexOptions { index: Some(name), ..IndexOptions::default() };
    let (shelf, control) = (Shelf::local(), Control::default());
    let version = || index.open(&shelf).map(|index| index.manifest().version.clone()).ok();
    let (before, started) = (version(), Instant::now());
    let embedder = (options.embedder.as_deref(), options.embedder_key_env.as_deref());
    let updated = index.open_updated(embedder.0, embedder.1, &shelf, &control);
    let mut found = control.into_notes().warnings;
    match updated {
        Ok(updated) => {
            let version = &updated.manifest().version;
            if before.as_ref() != Some(version) {
                let ms = started.elapsed().as_millis() as u64;
                tracing::info!(index = folder.name(), version, ms, "index updated");
            }
        }
        Err(error) => found.push(error.to_string()),
    }
    if *problems != found {
        for problem in &found {
            tracing::warn!(index = folder.name(), problem, "index not updated");
        }
        *problems = found;
    }
}
