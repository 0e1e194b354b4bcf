//! How a selection is sent, and what that costs.
//!
//! A layout states its costs as data, once for a pool: a [`Plan`]. The engine charges them while it selects, so a
//! slicer never asks a layout anything. A plan may over-estimate what it cannot know, such as tokens that merge across
//! borders. [`Layout::measure`] then counts the whole, and the engine closes the difference.

mod ledger;
mod placed;
mod plan;

pub use crate::pipeline::Closing;
pub use ledger::{Ledger, RenderCost};
pub use placed::PlacedItems;
pub(crate) use plan::PlannedCosts;
pub use plan::{Around, Headings, Plan, SectionId};

use crate::{Error, Pool};

/// States what items cost where they are sent.
///
/// ```
/// use pannier_core::{Error, Layout};
/// use pannier_core::layout::{Around, Plan};
/// use pannier_core::score::Pool;
///
/// /// Messages of a chat: three tokens that prime the answer, and four around each message.
/// struct Messages;
///
/// impl Layout for Messages {
///     fn plan(&self, _: &Pool<'_>) -> Result<Plan, Error> {
///         let mut plan = Plan::default();
///         plan.fixed = 3;
///         plan.around = Around::Each(4);
///         Ok(plan)
///     }
/// }
/// ```
pub trait Layout: Send + Sync {
    /// Returns what each item costs where it is sent, in each form. Called once for a prepared pool.
    ///
    /// # Errors
    ///
    /// Any error that keeps the layout from planning; the run fails with it.
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error>;

    /// Counts what these items cost as they are sent, in this order. Counting may stop above `up_to`; the result is
    /// then any cost above it.
    ///
    /// `None` means that the plan is exact, and nothing is rendered to be counted.
    ///
    /// # Errors
    ///
    /// Any error that keeps the layout from counting; the run fails with it.
    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        let _ = (placed, up_to);
        Ok(None)
    }
}

forward! {
    Layout {
        fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error>;
        fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error>;
    }
}
