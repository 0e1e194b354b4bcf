//! Answers of JSON records, bounded as a whole.
//!
//! A record costs more than its content: quotes, escapes, keys, places and a comma. The plan charges the JSON of each
//! record, in each form, and the envelope around all of them. The measure counts the very bytes that are sent.
//!
//! Records that are left out compete for nothing: after the selection, as many of them as fit get a stub, best first,
//! and the answer states the number of the rest. Stubs among the forms of an item would take tokens from contents.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pannier_core::item::Form;
use pannier_core::layout::{Around, PlacedItems, Plan, RenderCost, SectionId};
use pannier_core::score::Pool;
use pannier_core::{ContextItem, Error, Layout, TokenCounter};

use crate::count::{above, count, count_up_to};
use crate::rejected_references;

/// An item in the form that is sent, and its index in the pool.
pub type SentItem<'i> = (usize, &'i ContextItem);

/// Writes an answer and its records as JSON.
pub trait Records: Send + Sync {
    /// Writes the record of an item, in the form that is sent.
    fn record(&self, sent: SentItem<'_>) -> String;

    /// Returns the name of the array that holds the record. If there are several arrays, those without a record are not
    /// written.
    fn array(&self, sent: SentItem<'_>) -> &str;

    /// Writes everything that is sent for these items, in this order, with stubs of this many that are left out. Several
    /// texts are sent one after the other.
    fn answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Vec<String>;

    /// Writes the same for another way of sending it, which must fit the budget, too.
    fn other_answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Option<Vec<String>> {
        let _ = (sent, stubs);
        None
    }
}

/// The layout of an answer of JSON records. The budget bounds the whole answer.
///
/// ```
/// use std::sync::Arc;
///
/// use pannier_core::{ContextBudget, ContextItem, Pipeline, TokenCounter};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_layout::{RecordLayout, Records, SentItem};
/// # struct Bytes;
/// # impl TokenCounter for Bytes {
/// #     fn name(&self) -> &str { "bytes" }
/// #     fn exactness(&self) -> pannier_core::item::Exactness { pannier_core::item::Exactness::Exact }
/// #     fn count(&self, text: &str) -> usize { text.len() }
/// # }
///
/// struct Notes;
///
/// impl Records for Notes {
///     fn record(&self, (_, item): SentItem<'_>) -> String {
///         format!("{:?}", item.content())
///     }
///     fn array(&self, _: SentItem<'_>) -> &str {
///         "notes"
///     }
///     fn answer(&self, sent: &[SentItem<'_>], _: usize) -> Vec<String> {
///         let notes: Vec<String> = sent.iter().map(|sent| self.record(*sent)).collect();
///         vec![format!("{{\"notes\":[{}],\"more\":{}}}", notes.join(","), 2 - sent.len())]
///     }
/// }
///
/// let items = [ContextItem::new("one", 3)?, ContextItem::new("two \"2\"", 7)?];
/// let layout = Arc::new(RecordLayout::new(Notes, Arc::new(Bytes)));
/// let pipeline = Pipeline::builder(ReflexiveScorer).layout(layout).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(30, 30)?)?;
/// // {"notes":["one"],"more":1}
/// assert_eq!((selection.len(), selection.ledger().sent()), (1, 26));
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone)]
pub struct RecordLayout<R> {
    records: R,
    counter: Arc<dyn TokenCounter>,
    /// The tokens of an answer without records.
    envelope_tokens: i64,
}

impl<R: Records> RecordLayout<R> {
    /// Creates the layout of these records.
    pub fn new(records: R, counter: Arc<dyn TokenCounter>) -> Self {
        let mut layout = Self { records, counter, envelope_tokens: 0 };
        layout.envelope_tokens = layout.count(&[], 0, i64::MAX).unwrap_or(i64::MAX);
        layout
    }

    /// Returns the records.
    pub fn records(&self) -> &R {
        &self.records
    }

    /// Counts an answer; `None` if it has more tokens than `up_to`.
    fn count(&self, sent: &[SentItem<'_>], stubs: usize, up_to: i64) -> Option<i64> {
        let total = |texts: Vec<String>| {
            texts.iter().try_fold(0_i64, |total, text| {
                let rest = if up_to == i64::MAX { up_to } else { up_to - total };
                Some(total.saturating_add(count_up_to(&*self.counter, text, rest)?))
            })
        };
        let tokens = total(self.records.answer(sent, stubs))?;
        match self.records.other_answer(sent, stubs) {
            Some(texts) => Some(tokens.max(total(texts)?)),
            None => Some(tokens),
        }
    }

    /// Returns for how many of the items that are left out a stub fits the target, at most `left_out`.
    pub fn fitting_stubs(&self, placed: &PlacedItems<'_>, left_out: usize, target: i64) -> usize {
        let sent: Vec<SentItem<'_>> = placed.indices().zip(placed.items()).collect();
        let fits = |stubs| self.count(&sent, stubs, target).is_some();
        if fits(left_out) {
            return left_out;
        }
        // No stubs fit what was selected.
        let (mut low, mut high) = (0, left_out);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

impl<R: Records> Layout for RecordLayout<R> {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.fixed = self.envelope_tokens;
        plan.rejected = rejected_references(pool);
        let mut arrays: BTreeMap<String, SectionId> = BTreeMap::new();
        let mut around = Vec::with_capacity(pool.items().len());
        for (index, item) in pool.items().iter().enumerate() {
            for sent in std::iter::once(*item).chain(item.forms().iter().map(Form::item)) {
                let record = self.records.record((index, sent)) + ",";
                around.push(count(&*self.counter, &record).saturating_sub(sent.tokens()));
                let array = self.records.array((index, sent));
                let section = arrays.entry(array.to_owned()).or_insert_with(|| {
                    plan.sections.push(count(&*self.counter, &format!("\"{array}\":[],")));
                    SectionId::new(plan.sections.len() as u32 - 1)
                });
                plan.section_of.push(*section);
            }
        }
        plan.around = Around::Forms(around);
        // A single array is part of the envelope. Slicers take sections for documents.
        if plan.sections.len() < 2 {
            plan.sections.clear();
            plan.section_of.clear();
        }
        Ok(plan)
    }

    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        let sent: Vec<SentItem<'_>> = placed.indices().zip(placed.items()).collect();
        let Some(total) = self.count(&sent, 0, up_to) else {
            return Ok(Some(above(up_to)));
        };
        let (fixed, items) = (self.envelope_tokens, placed.tokens());
        let framing = total.saturating_sub(fixed).saturating_sub(items).max(0);
        Ok(Some(RenderCost::from_total(total, fixed, framing, items)))
    }
}

impl<R> fmt::Debug for RecordLayout<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordLayout")
            .field("counter", &self.counter)
            .field("envelope_tokens", &self.envelope_tokens)
            .finish_non_exhaustive()
    }
}
