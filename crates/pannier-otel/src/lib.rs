//! OpenTelemetry for selections: a span for each run, one for each of its stages, and metrics.
//!
//! ```text
//! cupel.pipeline                 window, verbosity
//! ├── cupel.stage.classify       items in, items out
//! ├── cupel.stage.score
//! ├── cupel.stage.deduplicate    events for what was dropped, if wanted
//! ├── cupel.stage.slice
//! └── cupel.stage.place          events for what was selected, if wanted
//! ```
//!
//! ```
//! use pannier_core::{ContextBudget, ContextItem, Pipeline, RecencyScorer};
//! use pannier_otel::{OtelTraceCollector, Verbosity};
//!
//! let items = [ContextItem::new("Good morning.", 4)?];
//! let pipeline = Pipeline::builder(RecencyScorer).build();
//! // Uses the global tracer provider, once your application has set one.
//! let mut collector = OtelTraceCollector::new(Verbosity::StageOnly);
//! let selection = pipeline.run_traced(&items, &ContextBudget::new(100, 100)?, &mut collector)?;
//! # Ok::<(), pannier_core::Error>(())
//! ```
//!
//! The names are those of the Cupel specification, which calls them not yet stable; so do we. The source and the
//! prefix are `cupel` unless you choose others. Spans begin and end when their stages do, and what is told of
//! single items does not count as a stage's time. Where a run fails, its spans end with an error.
//!
//! No content and no metadata of an item is ever told, nor the text of an error, which might quote one: kinds, counts,
//! scores and the names of reasons are all there is.
//!
//! An SDK keeps 128 events of a span unless configured otherwise, and drops the rest; raise
//! `max_events_per_span` for the two verbosities that tell of items. `cupel.exclusion.count` is always the true number.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod collector;
mod metrics;
mod names;

pub use collector::{OtelTraceCollector, Verbosity};
pub use metrics::SelectionMetrics;
