//! The specification's pseudocode, as plainly as it can be written, for the engine to be held
//! against.
//!
//! Nothing here is fast, and nothing here is shared with the engine but its data types: items,
//! budgets, candidates, reasons and errors. A [plan](plan) describes a configuration as data, so
//! that the oracle reads the same plan from which the engine's parts are built.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "the plans are valid by construction")]
#![allow(clippy::float_cmp, reason = "the pseudocode compares scores exactly")]

pub(crate) mod pipeline;
pub(crate) mod placers;
pub(crate) mod plan;
pub(crate) mod pools;
pub(crate) mod random_plans;
pub(crate) mod scorers;
pub(crate) mod slicers;

use std::cmp::Ordering;

/// Higher numbers first. Zero has no sign, and what is not a number comes last.
pub(crate) fn descending(left: f64, right: f64) -> Ordering {
    if left > right {
        Ordering::Less
    } else if left < right {
        Ordering::Greater
    } else {
        // Equal, unless one of them is no number.
        left.is_nan().cmp(&right.is_nan())
    }
}

/// Whether two names are the same but for the case of ASCII letters.
pub(crate) fn same_name(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
}
