//! A pipeline as data.
//!
//! A policy says which scorers, slicer and placer a pipeline has, with all their options, and can be
//! written to a file and read back. It carries no budget: the same policy serves any.
//!
//! Reading goes through a tree of plain values rather than straight into types, because an error in a
//! policy is made by a person, and the message must say where it is and what is allowed there.

mod build;
mod presets;
mod read;
mod registry;
mod schema;
mod write;

pub use registry::{Moment, PolicyRegistry};

use pannier_core::{
    ContextKind, CountQuotaEntry, Deduplication, OverflowStrategy, Quota, ScarcityBehavior, Tier,
    Timestamp,
};

/// Everything a pipeline is made of.
///
/// ```
/// use pannier_policy::{Policy, ScorerPolicy, SlicerPolicy};
///
/// let policy = Policy {
///     slicer: SlicerPolicy::Knapsack { bucket_size: 1 },
///     ..Policy::new([(ScorerPolicy::Recency, 3.0), (ScorerPolicy::Priority, 1.0)])
/// };
/// let pipeline = policy.pipeline()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// A name for people.
    pub name: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// The scorers with their weights. A single one is used as it is, several are averaged.
    pub scorers: Vec<(ScorerPolicy, f64)>,
    /// What decides which items fit.
    pub slicer: SlicerPolicy,
    /// What orders the selection.
    pub placer: PlacerPolicy,
    /// Which items are dropped for being like others.
    pub deduplication: Deduplication,
    /// What happens to a selection above its target.
    pub overflow_strategy: OverflowStrategy,
    /// Whether members of a group are placed together.
    pub keep_groups_together: bool,
}

impl Policy {
    /// A policy of these scorers; everything else is as in [`Pipeline::builder`](pannier_core::Pipeline::builder).
    pub fn new(scorers: impl IntoIterator<Item = (ScorerPolicy, f64)>) -> Self {
        Self {
            name: None,
            description: None,
            scorers: scorers.into_iter().collect(),
            slicer: SlicerPolicy::Greedy,
            placer: PlacerPolicy::Chronological,
            deduplication: Deduplication::Exact,
            overflow_strategy: OverflowStrategy::Throw,
            keep_groups_together: false,
        }
    }

    /// The same policy for whoever looks for something: how well the words of an item answer a query counts as much as
    /// everything else together.
    ///
    /// ```
    /// use pannier_policy::{Policy, ScorerPolicy};
    ///
    /// let policy = Policy::new([(ScorerPolicy::Recency, 3.0), (ScorerPolicy::Priority, 1.0)]);
    /// let asked = policy.for_query("refunds");
    /// let lexical = ScorerPolicy::Lexical { query: "refunds".to_owned() };
    /// assert_eq!(asked.scorers[2], (lexical, 4.0));
    /// ```
    #[must_use]
    pub fn for_query(mut self, query: &str) -> Self {
        let others: f64 = self.scorers.iter().map(|(_, weight)| *weight).sum();
        let weight = if others > 0.0 { others } else { 1.0 };
        self.scorers.push((ScorerPolicy::Lexical { query: query.to_owned() }, weight));
        self
    }
}

/// A scorer and its options.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScorerPolicy {
    /// [`RecencyScorer`](pannier_core::RecencyScorer)
    Recency,
    /// [`PriorityScorer`](pannier_core::PriorityScorer)
    Priority,
    /// [`KindScorer`](pannier_core::KindScorer)
    Kind {
        /// The weights, or `None` for the default ones.
        weights: Option<Vec<(ContextKind, f64)>>,
    },
    /// [`TagScorer`](pannier_core::TagScorer)
    Tag {
        /// The tags that count.
        weights: Vec<(String, f64)>,
        /// Whether case is ignored.
        case_insensitive: bool,
    },
    /// [`FrequencyScorer`](pannier_core::FrequencyScorer)
    Frequency,
    /// [`ReflexiveScorer`](pannier_core::ReflexiveScorer)
    Reflexive,
    /// [`CompositeScorer`](pannier_core::CompositeScorer)
    Composite {
        /// The children with their weights.
        children: Vec<(ScorerPolicy, f64)>,
    },
    /// [`ProductScorer`](pannier_core::ProductScorer)
    Product {
        /// The factors.
        children: Vec<ScorerPolicy>,
    },
    /// [`SumScorer`](pannier_core::SumScorer)
    Sum {
        /// What is added up.
        children: Vec<ScorerPolicy>,
    },
    /// [`ByKindScorer`](pannier_core::ByKindScorer)
    ByKind {
        /// Kinds that are scored together, and by what.
        kinds: Vec<(Vec<ContextKind>, ScorerPolicy)>,
        /// What scores all other kinds.
        otherwise: Option<Box<ScorerPolicy>>,
    },
    /// [`ScaledScorer`](pannier_core::ScaledScorer)
    Scaled {
        /// The scorer that is scaled.
        inner: Box<ScorerPolicy>,
    },
    /// [`MetadataTrustScorer`](pannier_core::MetadataTrustScorer)
    MetadataTrust {
        /// The score of items without a usable value.
        default_score: f64,
    },
    /// [`MetadataKeyScorer`](pannier_core::MetadataKeyScorer)
    MetadataKey {
        /// The key.
        key: String,
        /// The value that is boosted.
        value: String,
        /// The multiplier.
        boost: f64,
    },
    /// [`DecayScorer`](pannier_core::DecayScorer)
    Decay {
        /// What time it is; if absent, whoever builds the pipeline says.
        reference_time: Option<Timestamp>,
        /// How the score falls.
        curve: CurvePolicy,
        /// The score of items without a timestamp.
        null_timestamp_score: f64,
    },
    /// [`KeywordScorer`](pannier_core::KeywordScorer)
    Keyword {
        /// The keywords, as they were given.
        keywords: Vec<String>,
        /// How many of them make a score of 1.
        enough: usize,
    },
    /// [`Bm25Scorer`](pannier_core::Bm25Scorer)
    Lexical {
        /// What is looked for.
        query: String,
    },
    /// [`PrefixStabilityScorer`](pannier_core::PrefixStabilityScorer); what was sent before, whoever builds the pipeline says.
    Stability,
    /// A scorer of your own, from a [`PolicyRegistry`].
    Custom {
        /// The name it is registered under.
        name: String,
    },
}

/// A decay curve, in seconds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CurvePolicy {
    /// Halves with every half-life.
    Exponential {
        /// The half-life.
        half_life_secs: f64,
    },
    /// 1 below an age, 0 from there on.
    Window {
        /// The age.
        max_age_secs: f64,
    },
    /// A score for each window of ages.
    Step {
        /// Ages and scores, from young to old.
        windows: Vec<(f64, f64)>,
    },
}

/// In which order documents get their turn, and when a heading is charged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Packing {
    /// The best first, and a heading once for each document. For a placer by document:
    /// [`DocumentPlacer`](pannier_core::DocumentPlacer).
    #[default]
    Greedy,
    /// The documents in turns, each with its next best, and a heading whenever the document changes. For a placer in
    /// slice order: [`SliceOrderPlacer`](pannier_core::SliceOrderPlacer).
    Interleaved,
    /// The best first, and a heading whenever the document changes. For a placer in slice order.
    ScoreWeighted,
}

/// A slicer and its options.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SlicerPolicy {
    /// [`GreedySlice`](pannier_core::GreedySlice)
    Greedy,
    /// [`RankSlice`](pannier_core::FillSlice)
    Rank,
    /// [`KnapsackSlice`](pannier_core::KnapsackSlice)
    Knapsack {
        /// Tokens in a bucket.
        bucket_size: i64,
    },
    /// [`QuotaSlice`](pannier_core::QuotaSlice)
    Quota {
        /// The shares.
        quotas: Vec<Quota>,
        /// What fills each share.
        inner: Box<SlicerPolicy>,
    },
    /// [`CountQuotaSlice`](pannier_core::CountQuotaSlice)
    CountQuota {
        /// The counts.
        entries: Vec<CountQuotaEntry>,
        /// What happens when there are too few.
        scarcity: ScarcityBehavior,
        /// What spends the rest.
        inner: Box<SlicerPolicy>,
    },
    /// [`CountConstrainedKnapsackSlice`](pannier_core::CountConstrainedKnapsackSlice)
    CountConstrainedKnapsack {
        /// The counts.
        entries: Vec<CountQuotaEntry>,
        /// What happens when there are too few.
        scarcity: ScarcityBehavior,
        /// Tokens in a bucket.
        bucket_size: i64,
    },
    /// [`DocumentSlice`](pannier_core::FillSlice)
    Document {
        /// In which order documents get their turn, and when a heading is paid.
        packing: Packing,
        /// What a heading costs at least.
        overhead: i64,
        /// How many passages of one document may be taken.
        max_per_document: Option<usize>,
    },
    /// [`TieredSlice`](pannier_core::TieredSlice)
    Tiered {
        /// The tiers, the first one first.
        tiers: Vec<Tier>,
        /// How much of a share whole candidates may fill before titles, in percent.
        whole_percent: f64,
    },
}

/// A placer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacerPolicy {
    /// [`ChronologicalPlacer`](pannier_core::ChronologicalPlacer)
    Chronological,
    /// [`UShapedPlacer`](pannier_core::UShapedPlacer)
    UShaped,
    /// [`RankPlacer`](pannier_core::RankPlacer)
    Rank,
    /// [`PrefixStablePlacer`](pannier_core::PrefixStablePlacer), and what was not sent before by time.
    Stable,
    /// [`DocumentPlacer`](pannier_core::DocumentPlacer)
    Document,
    /// [`SliceOrderPlacer`](pannier_core::SliceOrderPlacer)
    Taken,
}

impl serde::Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Policy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = pannier_core::MetadataValue::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}
