//! Slicers as data.

use pannier_core::layout::Headings;
use pannier_core::slice::{
    BestSlice, CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, FairSlice,
    FillOrder, FillSlice, GreedySlice, KnapsackSlice, Quota, QuotaSlice, ScarcityBehavior, Share,
    Tier, TieredSlice,
};
use pannier_core::{ContextKind, Error, Slicer};
use pannier_layout::DocumentLayout;
use serde::{Deserialize, Deserializer, Serialize};

use crate::component::{components, is_default, records};
use crate::registry::CustomOptions;
use crate::scorer::KindWeight;
use crate::tree::{ReadError, checked};

components! {
    /// A slicer and its options.
    #[derive(Default)]
    pub enum SlicerPolicy("slicer", "inner_slicer") -> Box<dyn Slicer>, |context, options| {
        plain {
            /// Takes the highest score per token first.
            #[default]
            "greedy" => Greedy = Box::new(GreedySlice);
            /// Takes the highest score first, and skips items that do not fit.
            "rank" => Rank = Box::new(FillSlice::default());
            /// Takes the items and forms with the highest total score, and states how much better another choice can be.
            "best" => Best = Box::new(BestSlice);
        }
        options {
            /// Takes the subset with the highest total score.
            "knapsack" => Knapsack(KnapsackOptions {
                /// The tokens in a bucket; default: 1, or the smallest size whose table fits the memory limit.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
                pub bucket_size: Option<i64>,
                /// The maximum memory of the table, in bytes; default: 1 GiB.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub memory_limit: Option<u64>,
            }) = Box::new(knapsack(options.bucket_size, options.memory_limit)?);
            /// Gives each kind a share of the budget.
            "quota" => Quota(QuotaOptions {
                /// The shares.
                #[serde(default)] pub quotas: Vec<KindQuota>,
                /// The slicer that fills each share; default: greedy.
                #[serde(default)] pub inner_slicer: Box<SlicerPolicy>,
            }) = {
                let quotas = options.quotas.iter().map(|quota| Quota {
                    kind: quota.kind.clone(),
                    require_percent: quota.require,
                    cap_percent: quota.cap,
                });
                Box::new(QuotaSlice::new(quotas, options.inner_slicer.build(context)?)?)
            };
            /// Guarantees and limits the number of items of each kind.
            "count_quota" => CountQuota(CountQuotaOptions {
                /// The counts.
                #[serde(default, deserialize_with = "checked_counts")] pub entries: Vec<KindCount>,
                /// What happens if the pool has too few items of a kind; default: `degrade`.
                #[serde(default, skip_serializing_if = "is_default")]
                #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["degrade", "throw"])))]
                pub scarcity_behavior: ScarcityBehavior,
                /// The slicer that spends the remaining budget; default: greedy.
                #[serde(default)] pub inner_slicer: Box<SlicerPolicy>,
            }) = {
                let inner = options.inner_slicer.build(context)?;
                Box::new(CountQuotaSlice::new(counts(&options.entries)?, inner, options.scarcity_behavior)?)
            };
            /// Guarantees and limits the number of items of each kind, with a knapsack for the remaining budget.
            "count_constrained_knapsack" => CountConstrainedKnapsack(CountConstrainedKnapsackOptions {
                /// The counts.
                #[serde(default, deserialize_with = "checked_counts")] pub entries: Vec<KindCount>,
                /// What happens if the pool has too few items of a kind; default: `degrade`.
                #[serde(default, skip_serializing_if = "is_default")]
                #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["degrade", "throw"])))]
                pub scarcity_behavior: ScarcityBehavior,
                /// The tokens in a bucket; default: 1, or the smallest size whose table fits the memory limit.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
                pub bucket_size: Option<i64>,
                /// The maximum memory of the table, in bytes; default: 1 GiB.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub memory_limit: Option<u64>,
            }) = {
                let (entries, scarcity) = (counts(&options.entries)?, options.scarcity_behavior);
                let knapsack = knapsack(options.bucket_size, options.memory_limit)?;
                Box::new(CountConstrainedKnapsackSlice::new(entries, knapsack, scarcity)?)
            };
            /// Takes passages of documents, and reserves tokens for headings.
            "document" => Document(DocumentOptions {
                /// The order of documents, and when a heading is counted; default: `greedy`.
                #[serde(default, skip_serializing_if = "is_default")] pub packing: Packing,
                /// The minimum tokens of a heading; default: 10.
                #[serde(default = "tokens::<{ DocumentLayout::MIN_HEADING_TOKENS }>", skip_serializing_if = "is_min_heading")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
                pub overhead: i64,
                /// The maximum number of passages of one document; default: no limit.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub max_per_document: Option<usize>,
                /// The power of its tokens by which the score of a passage is divided, from 0 to 1; default: 0.
                #[serde(default, skip_serializing_if = "is_default")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
                pub length_exponent: f64,
                /// The number of best passages that are cut rather than skipped if they do not fit; default: 0. Above 0, a
                /// line `[…]` marks gaps between passages.
                #[serde(default, skip_serializing_if = "is_default")]
                pub shortened_first: usize,
            }) = {
                if options.overhead < 0 {
                    let problem = format!("overhead is {}; it must be 0 or more tokens", options.overhead);
                    return Err(Error::InvalidSlicer { slicer: "document", problem });
                }
                let slicer = FillSlice::new(match options.packing {
                    Packing::Interleaved => FillOrder::Turns,
                    Packing::Greedy | Packing::ScoreWeighted => FillOrder::Score,
                });
                let slicer = slicer
                    .with_length_exponent(options.length_exponent)?
                    .with_shortened_first(options.shortened_first);
                Box::new(match options.max_per_document {
                    Some(passages) => slicer.with_max_per_section(passages),
                    None => slicer,
                })
            };
            /// Takes items in an order, whole or in a shorter form, with shares of kinds.
            "fill" => Fill(FillOptions {
                /// The order in which items are taken; default: `score`.
                #[serde(default, skip_serializing_if = "is_default")]
                #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["score", "density", "marginal", "turns"])))]
                pub order: FillOrder,
                /// The floors and caps of kinds. Where not all floors can be used, the last one is released first.
                #[serde(default, skip_serializing_if = "Vec::is_empty")] pub shares: Vec<KindShare>,
                /// The maximum number of items of one section or document; default: no limit.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub max_per_section: Option<usize>,
            }) = {
                let shares = options.shares.iter().map(|share| Share {
                    kind: share.kind.clone(),
                    floor_percent: share.floor,
                    cap_percent: share.cap,
                });
                let slicer = FillSlice::new(options.order).with_shares(shares)?;
                Box::new(match options.max_per_section {
                    Some(items) => slicer.with_max_per_section(items),
                    None => slicer,
                })
            };
            /// Shares the budget between kinds: whole items first, then shorter forms.
            "fair" => Fair(FairOptions {
                /// The weights of kinds. Kinds without a weight come last.
                #[serde(default)] pub weights: Vec<KindWeight>,
                /// The percentage of the budget that full texts may fill before shorter forms; default: 80.
                #[serde(default = "percent::<80>")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
                pub full_text_percent: f64,
            }) = {
                let weights = options.weights.iter();
                let weights = weights.map(|weight| (weight.kind.clone(), weight.weight));
                Box::new(FairSlice::new(weights)?.with_full_text_percent(options.full_text_percent)?)
            };
            /// Fills tiers of kinds one after the other, and falls back to short forms.
            "tiered" => Tiered(TieredOptions {
                /// The tiers, in the order in which they are filled.
                #[serde(default)] pub tiers: Vec<TierOptions>,
                /// The percentage of a share that full texts may fill before short forms; default: 80.
                #[serde(default = "percent::<80>", alias = "whole")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
                pub full_text_percent: f64,
            }) = {
                let tiers = options.tiers.iter().map(|tier| Tier {
                    cap_percent: tier.cap,
                    floor_percent: tier.floor,
                    drop_zero_score: tier.drop_zero_score,
                    ..Tier::new(tier.kinds.iter().cloned())
                });
                Box::new(TieredSlice::new(tiers)?.with_full_text_percent(options.full_text_percent)?)
            };
            /// Takes items by a custom slicer of a registry.
            "custom" => Custom(CustomOptions) = match context.registry {
                Some(registry) => registry.custom_slicer(options)?,
                None => Box::new(GreedySlice),
            };
        }
    }
}

records! {
    /// The share of a kind, in percent of the budget.
    pub struct KindQuota {
        /// The kind.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        pub kind: ContextKind,
        /// The minimum; default: 0.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub require: f64,
        /// The maximum; default: 100.
        #[serde(default = "percent::<100>")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub cap: f64,
    }

    /// The floor and the cap of a kind, in percent of the budget. Tokens below the floor that the kind cannot use go to the
    /// others.
    pub struct KindShare {
        /// The kind.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        pub kind: ContextKind,
        /// The minimum; default: 0.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub floor: f64,
        /// The maximum; default: 100.
        #[serde(default = "percent::<100>")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub cap: f64,
    }

    /// The number of items of a kind.
    pub struct KindCount {
        /// The kind.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        pub kind: ContextKind,
        /// The minimum; default: 0.
        #[serde(default)] pub require_count: usize,
        /// The maximum.
        pub cap_count: usize,
    }

    /// Kinds that are filled together.
    pub struct TierOptions {
        /// The kinds.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
        pub kinds: Vec<ContextKind>,
        /// The maximum, in percent of the budget; default: 100.
        #[serde(default = "percent::<100>")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub cap: f64,
        /// The minimum of each kind that can use it, in percent of the tier's share; default: 0.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
        pub floor: f64,
        /// Whether items that score 0 are dropped unless the whole tier fits; default: false.
        #[serde(default, alias = "drop_worthless")] pub drop_zero_score: bool,
    }
}

/// The order in which documents are packed, and when a heading is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Packing {
    /// The highest score first, and a heading once for each document; for the placer `document`.
    #[default]
    Greedy,
    /// The documents in turns, each with its next best passage, and a heading at every change of document; for the placer
    /// `slice-order`.
    Interleaved,
    /// The highest score first, and a heading at every change of document; for the placer `slice-order`.
    ScoreWeighted,
}

impl Packing {
    /// Returns when a heading is charged.
    pub fn headings(self) -> Headings {
        match self {
            Self::Greedy => Headings::Once,
            Self::Interleaved | Self::ScoreWeighted => Headings::AtEveryChange,
        }
    }
}

impl SlicerPolicy {
    /// Returns a layout with the headings for which this slicer, or one inside it, packs documents.
    pub fn document_layout(&self, layout: DocumentLayout) -> Option<DocumentLayout> {
        match self {
            Self::Document(options) => {
                let layout = layout.with_min_heading_tokens(options.overhead);
                let layout = layout.with_gap_marks(options.shortened_first > 0);
                Some(layout.with_headings(options.packing.headings()))
            }
            Self::Quota(options) => options.inner_slicer.document_layout(layout),
            Self::CountQuota(options) => options.inner_slicer.document_layout(layout),
            _ => None,
        }
    }
}

impl TierOptions {
    /// A tier of these kinds without a limit.
    pub fn new(kinds: impl IntoIterator<Item = ContextKind>) -> Self {
        let kinds = kinds.into_iter().collect();
        Self { kinds, cap: 100.0, floor: 0.0, drop_zero_score: false }
    }
}

impl KindCount {
    fn build(&self) -> Result<CountQuotaEntry, Error> {
        CountQuotaEntry::new(self.kind.clone(), self.require_count, self.cap_count)
    }
}

fn counts(entries: &[KindCount]) -> Result<Vec<CountQuotaEntry>, Error> {
    entries.iter().map(KindCount::build).collect()
}

fn checked_counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KindCount>, D::Error> {
    checked(deserializer, |entry: &KindCount| match entry.build() {
        Ok(_) => Ok(()),
        Err(error) => Err(ReadError::new("", error)),
    })
}

fn knapsack(bucket_size: Option<i64>, memory_limit: Option<u64>) -> Result<KnapsackSlice, Error> {
    let memory_limit = memory_limit.unwrap_or(KnapsackSlice::DEFAULT_MEMORY_LIMIT);
    let knapsack = bucket_size.map_or(Ok(KnapsackSlice::default()), KnapsackSlice::new)?;
    Ok(knapsack.with_memory_limit(memory_limit))
}

impl Default for KnapsackOptions {
    /// Single tokens, or the smallest buckets whose table fits 1 GiB.
    fn default() -> Self {
        Self { bucket_size: None, memory_limit: None }
    }
}

fn is_min_heading(tokens: &i64) -> bool {
    *tokens == DocumentLayout::MIN_HEADING_TOKENS
}

fn tokens<const N: i64>() -> i64 {
    N
}

fn percent<const N: i64>() -> f64 {
    N as f64
}
