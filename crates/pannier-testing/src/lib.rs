//! Assertions about selection reports, for the tests of applications that select context.
//!
//! A chain of assertions stops at the first that fails and prints the expected and the actual values:
//!
//! ```
//! use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
//! use pannier_core::report::ExclusionVariant;
//! use pannier_core::score::RecencyScorer;
//! use pannier_testing::Should;
//!
//! let items = [
//!     ContextItem::builder("You answer in French.", 6).kind(ContextKind::SYSTEM_PROMPT).pinned(true).build()?,
//!     ContextItem::new("Bonjour !", 3)?,
//!     ContextItem::builder("The whole manual ...", 4_000).kind(ContextKind::DOCUMENT).build()?,
//! ];
//! let pipeline = Pipeline::builder(RecencyScorer).build();
//! let budget = ContextBudget::new(100, 100)?;
//! let report = pipeline.dry_run(&items, &budget)?;
//!
//! report
//!     .should()
//!     .include_item_with_kind(ContextKind::SYSTEM_PROMPT)
//!     .include_item_matching(|entry| entry.item.content().starts_with("Bonjour"))
//!     .exclude_item_with_reason(ExclusionVariant::BudgetExceeded)
//!     .exclude_item_with_budget_details(|item| item.tokens() == 4_000, 4_000, 91);
//! # Ok::<(), pannier_core::Error>(())
//! ```
//!
//! An assertion panics at the location of the call. Its variant with the prefix `try_` returns a
//! [`SelectionReportAssertionError`] instead. The Cupel specification's testing vocabulary defines the assertions,
//! their comparisons and their messages.
//!
//! [`ReportBuilder`] builds reports without a run.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::unwrap_used))]

mod builder;
mod chain;
mod edges;

pub use builder::ReportBuilder;
pub use chain::{SelectionReportAssertionChain, SelectionReportAssertionError, Should};
