//! Runs conformance vectors against the engine.
//!
//! A vector is a TOML file with items, a configuration and the expected result; `docs/internals/conformance.md` describes the format.
//! A vector passes only if something was compared and nothing differed. A vector that the runner does not understand is
//! counted separately, and a suite with such a vector is not clean.
//!
//! ```
//! let outcome = pannier_conformance::run_vector(
//!     r#"
//!     test = { name = "the newest item scores 1", stage = "scoring", scorer = "recency" }
//!     items = [
//!         { content = "old", tokens = 1, timestamp = 2026-01-01T00:00:00Z },
//!         { content = "new", tokens = 1, timestamp = 2026-02-01T00:00:00Z },
//!     ]
//!     expected = [{ content = "new", score_approx = 1.0 }]
//!     "#,
//! );
//! assert_eq!(outcome, pannier_conformance::Outcome::Passed);
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod check;
mod components;
mod suite;
mod vector;

pub use check::run_vector;
pub use suite::{Case, Outcome, Suite, SuiteError};
