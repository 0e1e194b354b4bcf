//! OpenTelemetry traces and metrics of selections: a span per run, a child span per stage.
//!
//! ```text
//! cupel.pipeline                 window, verbosity
//! ├── cupel.stage.classify       items in, items out
//! ├── cupel.stage.score
//! ├── cupel.stage.deduplicate    optional events for excluded items
//! ├── cupel.stage.slice
//! └── cupel.stage.place          optional events for included items
//! ```
//!
//! ```
//! use pannier_core::{ContextBudget, ContextItem, Pipeline};
//! use pannier_core::score::RecencyScorer;
//! use pannier_otel::{OtelTraceCollector, Verbosity};
//!
//! let items = [ContextItem::new("Good morning.", 4)?];
//! let pipeline = Pipeline::builder(RecencyScorer).build();
//! // Uses the global tracer provider of your application.
//! let mut collector = OtelTraceCollector::new(Verbosity::StageOnly);
//! let selection = pipeline.run_traced(&items, &ContextBudget::new(100, 100)?, &mut collector)?;
//! # Ok::<(), pannier_core::Error>(())
//! ```
//!
//! The Cupel specification defines the names and declares them unstable. The default tracer name and the default
//! prefix are `cupel`. A stage's span excludes the time that item events take. If a run fails, its spans end with an
//! error status.
//!
//! Telemetry contains kinds, counts, scores and reason names. It never contains the content or the metadata of an item,
//! nor the message of an error, which might quote an item.
//!
//! An SDK keeps 128 events per span by default and drops the rest. Raise `max_events_per_span` for
//! [`Verbosity::StageAndExclusions`] and [`Verbosity::Full`]. `cupel.exclusion.count` includes dropped events.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod collector;
mod metrics;
mod names;

pub use collector::{OtelTraceCollector, Verbosity};
pub use metrics::SelectionMetrics;
