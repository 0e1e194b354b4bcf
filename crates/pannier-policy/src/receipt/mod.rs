//! What is needed to make a selection again, and to see that it is the same.
//!
//! A receipt holds everything that decided (policy, budget, time) in full, and what was decided about as
//! hashes: it proves a selection without keeping its texts. The pool comes from the same source as before,
//! and the hashes tell if it is still the same pool.
//!
//! Hashes are BLAKE3 over bytes that anybody can produce: an item as one line of JSON, the result as the
//! text that is sent, the report as one line of JSON.

mod diff;
mod digest;
mod version_1;

pub use diff::{DiffEntry, ReceiptDiff};
pub use digest::Digest;

use serde::{Deserialize, Serialize};

use std::sync::Arc;

use crate::{Policy, PolicyRegistry};
use pannier_core::{
    ContextBudget, ContextItem, Error, MetadataValue, Pipeline, Selection, SelectionReport,
    Timestamp, TokenCounter,
};
use pannier_layout::render_documents;
use pannier_layout::{DocumentLayout, Template, TextLayout};

/// Where a pool came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSource {
    /// What sort of source: `items`, for a list of items.
    pub kind: String,
    /// Which state of it, as the source itself names it.
    pub version: String,
    /// What was asked of it, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// With which options of whoever asked, in its own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<MetadataValue>,
}

/// What a budget bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bound {
    /// What the items say that they cost.
    #[default]
    Items,
    /// The text that is sent.
    Text,
    /// The same, where it is passages under the names of their documents. Then there is no template to it.
    Documents,
    /// The same, where the source has a form of its own for it. Whoever replays it brings the rendering.
    Own,
}

/// What a selection was made with, besides its pool and its budget.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Circumstances {
    /// The policy.
    pub policy: Policy,
    /// What time it was, for policies that measure to now.
    pub reference_time: Option<Timestamp>,
    /// What counted tokens, of items that came without and of the text.
    pub tokenizer: String,
    /// How the text is made.
    pub template: Template,
    /// What the budget bounds.
    pub bound: Bound,
    /// Where the pool came from, if it is more than a list of items.
    pub source: Option<ReceiptSource>,
}

impl Circumstances {
    /// A policy, with tokens counted by the caller, bounded by themselves, and the default template.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            reference_time: None,
            tokenizer: "given".to_owned(),
            template: Template::default(),
            bound: Bound::default(),
            source: None,
        }
    }
}

/// A selection that can be made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "wire::Receipt")]
#[non_exhaustive]
pub struct Receipt {
    /// The version of this format.
    #[serde(rename = "receipt")]
    pub format: u32,
    /// The version of the engine.
    pub engine: String,
    /// Where the pool came from.
    pub source: ReceiptSource,
    /// What counted tokens, of items that came without and of the text.
    pub tokenizer: String,
    /// How the text is made.
    pub template: Template,
    /// What the budget bounds.
    pub bound: Bound,
    /// What time it was, for policies that measure to now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_time: Option<Timestamp>,
    /// The policy as it was recorded. The seal covers it, so former names of options stay as they are.
    #[serde(rename = "policy")]
    recorded_policy: MetadataValue,
    #[serde(skip)]
    policy: Policy,
    /// The budget.
    pub budget: ContextBudget,
    /// The pool.
    pub items: Vec<ReceiptItem>,
    /// The indices of the selected items, as they are placed.
    pub selected: Vec<usize>,
    /// Those of them that are sent in their short form, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<usize>,
    /// The text that is sent.
    pub result: Digest,
    /// The report, without events.
    pub report: Digest,
    /// Everything above, as one line of JSON: a receipt that was changed is not read.
    seal: Digest,
}

/// An item of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptItem {
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it costs.
    pub tokens: i64,
    /// The item as JSON.
    pub item: Digest,
    /// Its content.
    pub content: Digest,
    /// Its short form, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_form: Option<Box<ReceiptItem>>,
}

impl ReceiptItem {
    fn new(item: &ContextItem) -> Self {
        Self {
            id: item.id().map(str::to_owned),
            tokens: item.tokens(),
            item: Digest::of_json(item),
            content: Digest::of(item.content().as_bytes()),
            short_form: item.short_form().map(|short| Box::new(Self::new(short))),
        }
    }

    /// What to call it: its id, or the beginning of its content's hash.
    pub fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| self.content.to_string().chars().take(12).collect())
    }
}

/// What came of making a selection again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay {
    /// The same in every byte.
    Identical,
    /// The pool has another number of items.
    ItemCount {
        /// How many there were.
        recorded: usize,
        /// How many there are.
        found: usize,
    },
    /// An item of the pool has changed, or stands elsewhere; the first one that does.
    Item {
        /// Its index.
        index: usize,
        /// Its name then.
        name: String,
    },
    /// Another item stands at a place; the first one where that is so.
    Selection {
        /// The place, from 0.
        position: usize,
        /// The index of the item that stood there, if any did.
        recorded: Option<usize>,
        /// The index of the item that stands there, if any does.
        found: Option<usize>,
    },
    /// An item was sent whole and is not any more, or the other way round; the first one.
    Form {
        /// Its index.
        index: usize,
    },
    /// The same items in the same order make another text.
    Result,
    /// The selection is the same, but a score, a reason or a count in its report is not.
    Report,
}

impl Receipt {
    /// The version of the format that is written.
    pub const FORMAT: u32 = 2;

    /// The receipt of a selection.
    pub fn new(selection: &Selection<'_>, circumstances: Circumstances) -> Self {
        let result = digest(circumstances.bound, &circumstances.template, selection);
        Self::of_result(selection, circumstances, result)
    }

    /// The receipt of a selection that was rendered by a [`Rendering`](pannier_core::Rendering) of your own, which gave this text.
    pub fn of_text(
        selection: &Selection<'_>,
        mut circumstances: Circumstances,
        text: &str,
    ) -> Self {
        circumstances.bound = Bound::Own;
        Self::of_result(selection, circumstances, Digest::of(text.as_bytes()))
    }

    fn of_result(selection: &Selection<'_>, circumstances: Circumstances, result: Digest) -> Self {
        let pairs = selection.indices().zip(selection.shortened());
        let mut shortened: Vec<usize> = pairs.filter(|pair| pair.1).map(|pair| pair.0).collect();
        shortened.sort_unstable();
        let items: Vec<ReceiptItem> =
            selection.pool().iter().map(|item| ReceiptItem::new(item)).collect();
        let source = circumstances.source.unwrap_or_else(|| {
            let version = Digest::of_all(items.iter().map(|item| item.item)).to_string();
            ReceiptSource { kind: "items".to_owned(), version, query: None, options: None }
        });
        let mut receipt = Self {
            format: Self::FORMAT,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            source,
            tokenizer: circumstances.tokenizer,
            bound: circumstances.bound,
            reference_time: circumstances.reference_time,
            recorded_policy: circumstances.policy.to_value(),
            policy: circumstances.policy,
            budget: selection.budget().clone(),
            items,
            selected: selection.indices().collect(),
            shortened,
            result,
            report: Digest::of_json(&selection.report()),
            template: circumstances.template,
            seal: Digest::of(&[]),
        };
        receipt.seal = receipt.computed_seal();
        receipt
    }

    /// The hash of everything but the seal.
    fn computed_seal(&self) -> Digest {
        Digest::of_json(&wire::Sealed {
            receipt: self.format,
            engine: &self.engine,
            source: &self.source,
            tokenizer: &self.tokenizer,
            template: &self.template,
            bound: self.bound,
            reference_time: self.reference_time,
            policy: &self.recorded_policy,
            budget: &self.budget,
            items: &self.items,
            selected: &self.selected,
            shortened: &self.shortened,
            result: self.result,
            report: self.report,
        })
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Makes the selection again from a pool, and compares. The counter is the one that was used then, by its
    /// name.
    ///
    /// # Errors
    ///
    /// Whatever keeps the policy from being built or the selection from being made.
    pub fn replay(
        &self,
        items: &[ContextItem],
        registry: &PolicyRegistry,
        counter: &Arc<dyn TokenCounter>,
    ) -> Result<Replay, Error> {
        let mut pipeline = registry.pipeline(&self.policy, self.reference_time)?;
        let (counter, counter_then) = (Arc::clone(counter), Arc::clone(counter));
        match self.bound {
            Bound::Items => {}
            Bound::Text => {
                pipeline = pipeline.with_layout(TextLayout::new(self.template.clone(), counter));
            }
            Bound::Documents => {
                let layout = DocumentLayout::new(counter);
                let packed = self.policy.slicer().document_layout(layout.clone());
                pipeline = pipeline.with_layout(packed.unwrap_or(layout));
            }
            Bound::Own => {
                let problem =
                    "its text has a form of its own; replay it where it was made".to_owned();
                return Err(Error::InvalidReceipt { problem });
            }
        }
        if self.format == 1 {
            pipeline = version_1::pipeline(pipeline, self, counter_then);
        }
        self.compare(items, &pipeline, |selection| digest(self.bound, &self.template, selection))
    }

    /// As [`replay`](Self::replay), for a receipt [of a text](Self::of_text): with the pipeline that made it, and what
    /// wrote it.
    ///
    /// # Errors
    ///
    /// Whatever keeps the selection from being made.
    pub fn replay_text(
        &self,
        items: &[ContextItem],
        pipeline: &Pipeline,
        write: impl FnOnce(&Selection<'_>) -> String,
    ) -> Result<Replay, Error> {
        self.compare(items, pipeline, |selection| Digest::of(write(selection).as_bytes()))
    }

    fn compare(
        &self,
        items: &[ContextItem],
        pipeline: &Pipeline,
        result: impl FnOnce(&Selection<'_>) -> Digest,
    ) -> Result<Replay, Error> {
        let (recorded, found) = (self.items.len(), items.len());
        if recorded != found {
            return Ok(Replay::ItemCount { recorded, found });
        }
        let mut pool = self.items.iter().zip(items).enumerate();
        let changed = pool.find(|(_, (recorded, found))| **recorded != ReceiptItem::new(found));
        if let Some((index, (recorded, _))) = changed {
            return Ok(Replay::Item { index, name: recorded.name() });
        }
        let selection = pipeline.run(items, &self.budget)?;
        let mut found = selection.indices();
        let longest = self.selected.len().max(found.len());
        for position in 0..longest {
            let (recorded, found) = (self.selected.get(position).copied(), found.next());
            if recorded != found {
                return Ok(Replay::Selection { position, recorded, found });
            }
        }
        let mut forms = selection.indices().zip(selection.shortened());
        let is_other = |(index, is_short): &(usize, bool)| {
            self.shortened.binary_search(index).is_ok() != *is_short
        };
        if let Some((index, _)) = forms.find(is_other) {
            return Ok(Replay::Form { index });
        }
        if self.result != result(&selection) {
            return Ok(Replay::Result);
        }
        let report: SelectionReport<&ContextItem> = selection.report();
        Ok(if self.report == Digest::of_json(&report) { Replay::Identical } else { Replay::Report })
    }
}

/// The hash of the text that is sent.
fn digest(bound: Bound, template: &Template, selection: &Selection<'_>) -> Digest {
    match bound {
        Bound::Items | Bound::Text | Bound::Own => Digest::of_text(template, selection),
        Bound::Documents => Digest::of(render_documents(selection.items()).as_bytes()),
    }
}

mod wire {
    //! The form a receipt is read in, before it is checked.

    use serde::de::{Deserializer, Error as _};
    use serde::{Deserialize, Serialize};

    use super::{Bound, ReceiptItem, ReceiptSource};
    use crate::{Digest, Policy};
    use pannier_core::{ContextBudget, Error, MetadataValue, Timestamp};
    use pannier_layout::Template;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a receipt")]
    pub(super) struct Receipt {
        receipt: Format,
        engine: String,
        source: ReceiptSource,
        tokenizer: String,
        template: Template,
        bound: Bound,
        reference_time: Option<Timestamp>,
        policy: MetadataValue,
        budget: ContextBudget,
        items: Vec<ReceiptItem>,
        selected: Vec<usize>,
        #[serde(default)]
        shortened: Vec<usize>,
        result: Digest,
        report: Digest,
        seal: Digest,
    }

    /// The version, refused as soon as it is read: what follows may mean something else.
    pub(super) struct Format(u32);

    impl<'de> Deserialize<'de> for Format {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let known = super::Receipt::FORMAT;
            match u32::deserialize(deserializer)? {
                format if (1..=known).contains(&format) => Ok(Self(format)),
                format => {
                    let problem = format!(
                        "its format is {format}, and this version of Pannier reads 1 to {known}; use the \
                         version that wrote it"
                    );
                    Err(D::Error::custom(Error::InvalidReceipt { problem }))
                }
            }
        }
    }

    /// What the seal is the hash of.
    #[derive(Serialize)]
    pub(super) struct Sealed<'r> {
        pub(super) receipt: u32,
        pub(super) engine: &'r str,
        pub(super) source: &'r ReceiptSource,
        pub(super) tokenizer: &'r str,
        pub(super) template: &'r Template,
        pub(super) bound: Bound,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) reference_time: Option<Timestamp>,
        pub(super) policy: &'r MetadataValue,
        pub(super) budget: &'r ContextBudget,
        pub(super) items: &'r [ReceiptItem],
        pub(super) selected: &'r [usize],
        #[serde(skip_serializing_if = "<[usize]>::is_empty")]
        pub(super) shortened: &'r [usize],
        pub(super) result: Digest,
        pub(super) report: Digest,
    }

    impl TryFrom<Receipt> for super::Receipt {
        type Error = Error;

        fn try_from(read: Receipt) -> Result<Self, Error> {
            let mut seen = vec![false; read.items.len()];
            for index in &read.selected {
                match seen.get_mut(*index) {
                    Some(seen @ false) => *seen = true,
                    _ => {
                        let problem = format!(
                            "it selects item {index} more than once, or there is no such item; \
                             write the receipt again"
                        );
                        return Err(Error::InvalidReceipt { problem });
                    }
                }
            }
            let is_ascending = read.shortened.is_sorted_by(|one, two| one < two);
            let is_short = |index: &usize| {
                seen.get(*index) == Some(&true) && read.items[*index].short_form.is_some()
            };
            if !is_ascending || !read.shortened.iter().all(is_short) {
                let problem = "it shortens items that it does not select, or that have no short form; write \
                               the receipt again";
                return Err(Error::InvalidReceipt { problem: problem.to_owned() });
            }
            let receipt = Self {
                format: read.receipt.0,
                engine: read.engine,
                source: read.source,
                tokenizer: read.tokenizer,
                template: read.template,
                bound: read.bound,
                reference_time: read.reference_time,
                policy: Policy::from_value(&read.policy)?,
                recorded_policy: read.policy,
                budget: read.budget,
                items: read.items,
                selected: read.selected,
                shortened: read.shortened,
                result: read.result,
                report: read.report,
                seal: read.seal,
            };
            if receipt.seal != receipt.computed_seal() {
                let problem = "it was changed after it was written; make it again".to_owned();
                return Err(Error::InvalidReceipt { problem });
            }
            Ok(receipt)
        }
    }
}
