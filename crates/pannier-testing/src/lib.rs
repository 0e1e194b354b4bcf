//! Assertions over selection reports, for the tests of applications that select context.
//!
//! A report says why every item is in or out. A test says what it expects of it, in a chain that stops at the
//! first thing that is not so, with a message that has the numbers:
//!
//! ```
//! use pannier_core::{ContextBudget, ContextItem, ContextKind, ExclusionVariant, Pipeline, RecencyScorer};
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
//! Each assertion panics, where the test called it. Its twin, whose name begins with `try_`, returns a
//! [`SelectionReportAssertionError`] instead, for tests that are not made of panics. The assertions, what they
//! compare and what they say are those of the Cupel specification's testing vocabulary, and a message names
//! them as that text does.
//!
//! A report need not come from a run: [`ReportBuilder`] makes one by hand.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::unwrap_used))]

mod builder;
mod chain;
mod edges;

pub use builder::ReportBuilder;
pub use chain::{SelectionReportAssertionChain, SelectionReportAssertionError, Should};
