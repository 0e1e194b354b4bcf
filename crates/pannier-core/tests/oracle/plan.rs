//! A configuration as data, and the engine's parts made of it.

use std::time::Duration;

use pannier_core::item::OverflowStrategy;
use pannier_core::place::{ChronologicalPlacer, RankPlacer, UShapedPlacer};
use pannier_core::score::{
    Bm25Scorer, ByKindScorer, CompositeScorer, DecayCurve, DecayScorer, FnScorer, FrequencyScorer,
    KeywordScorer, KindScorer, MetadataKeyScorer, MetadataTrustScorer, PriorityScorer,
    ProductScorer, RecencyScorer, ReflexiveScorer, ScaledScorer, SumScorer, TagScorer,
};
use pannier_core::slice::{
    CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, GreedySlice, KnapsackSlice,
    Quota, QuotaSlice, ScarcityBehavior,
};
use pannier_core::{ContextItem, ContextKind, Pipeline, Placer, Scorer, Slicer, Timestamp};

/// The time to which ages are measured.
pub(crate) const NOW: &str = "2025-01-01T12:00:00Z";

#[derive(Clone, Debug)]
pub(crate) enum ScorerPlan {
    Recency,
    Priority,
    DefaultKind,
    Kind(Vec<(&'static str, f64)>),
    Tag {
        weights: Vec<(&'static str, f64)>,
        fold_case: bool,
    },
    Frequency,
    Reflexive,
    /// The hint as it stands. It is no scorer of the specification; it is what lets negative,
    /// infinite and undefined scores into the later stages.
    RawHint,
    MetadataTrust {
        default_score: f64,
    },
    Decay {
        curve: CurvePlan,
        null_timestamp_score: f64,
    },
    MetadataKey {
        key: &'static str,
        value: &'static str,
        boost: f64,
    },
    Composite(Vec<(ScorerPlan, f64)>),
    Scaled(Box<ScorerPlan>),
    Product(Vec<ScorerPlan>),
    Sum(Vec<ScorerPlan>),
    /// Kinds that share a scorer, each kind once; and the scorer of all others.
    ByKind(Vec<(Vec<&'static str>, ScorerPlan)>, Option<Box<ScorerPlan>>),
    Lexical(&'static str),
    Keyword {
        keywords: Vec<&'static str>,
        enough: usize,
    },
}

/// A curve, with its times in seconds.
#[derive(Clone, Debug)]
pub(crate) enum CurvePlan {
    Exponential { half_life: u64 },
    Step { windows: Vec<(u64, f64)> },
    Window { max_age: u64 },
}

#[derive(Clone, Debug)]
pub(crate) enum SlicerPlan {
    Greedy,
    Knapsack {
        bucket_size: i64,
    },
    Quota {
        quotas: Vec<Quota>,
        inner: Box<SlicerPlan>,
    },
    CountQuota {
        entries: Vec<CountQuotaEntry>,
        inner: Box<SlicerPlan>,
        scarcity: ScarcityBehavior,
    },
    CountConstrainedKnapsack {
        entries: Vec<CountQuotaEntry>,
        bucket_size: i64,
        scarcity: ScarcityBehavior,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PlacerPlan {
    Chronological,
    UShaped,
    /// Best first; a placer of the engine's own.
    Rank,
}

#[derive(Clone, Debug)]
pub(crate) struct PipelinePlan {
    pub(crate) scorer: ScorerPlan,
    pub(crate) slicer: SlicerPlan,
    pub(crate) placer: PlacerPlan,
    pub(crate) deduplication: bool,
    pub(crate) overflow_strategy: OverflowStrategy,
    pub(crate) keep_groups_together: bool,
}

pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

impl ScorerPlan {
    pub(crate) fn build(&self) -> Box<dyn Scorer> {
        match self {
            Self::Recency => Box::new(RecencyScorer),
            Self::Priority => Box::new(PriorityScorer),
            Self::DefaultKind => Box::new(KindScorer::default()),
            Self::Kind(weights) => {
                let weights = weights
                    .iter()
                    .map(|(kind, weight)| (ContextKind::new(*kind).unwrap(), *weight));
                Box::new(KindScorer::new(weights).unwrap())
            }
            Self::Tag { weights, fold_case } => {
                let weights = weights.iter().copied();
                Box::new(if *fold_case {
                    TagScorer::case_insensitive(weights).unwrap()
                } else {
                    TagScorer::new(weights).unwrap()
                })
            }
            Self::Frequency => Box::new(FrequencyScorer),
            Self::Reflexive => Box::new(ReflexiveScorer),
            Self::RawHint => {
                Box::new(FnScorer(|item: &ContextItem| item.future_relevance_hint().unwrap_or(0.0)))
            }
            Self::MetadataTrust { default_score } => {
                Box::new(MetadataTrustScorer::new(*default_score).unwrap())
            }
            Self::Decay { curve, null_timestamp_score } => {
                let scorer = DecayScorer::new(now(), curve.build())
                    .with_null_timestamp_score(*null_timestamp_score)
                    .unwrap();
                Box::new(scorer)
            }
            Self::MetadataKey { key, value, boost } => {
                Box::new(MetadataKeyScorer::new(*key, *value, *boost).unwrap())
            }
            Self::Composite(children) => {
                let builder =
                    children.iter().fold(CompositeScorer::builder(), |builder, (child, weight)| {
                        builder.add(child.build(), *weight)
                    });
                Box::new(builder.build().unwrap())
            }
            Self::Scaled(inner) => Box::new(ScaledScorer::new(inner.build())),
            Self::Product(children) => {
                let product = children
                    .iter()
                    .fold(ProductScorer::builder(), |product, child| product.factor(child.build()));
                Box::new(product.build().unwrap())
            }
            Self::Sum(children) => {
                let sum =
                    children.iter().fold(SumScorer::builder(), |sum, child| sum.add(child.build()));
                Box::new(sum.build().unwrap())
            }
            Self::ByKind(entries, otherwise) => {
                let mut by_kind = ByKindScorer::builder();
                for (kinds, child) in entries {
                    let kinds = kinds.iter().map(|kind| ContextKind::new(*kind).unwrap());
                    by_kind = by_kind.kinds(kinds, child.build());
                }
                if let Some(child) = otherwise {
                    by_kind = by_kind.default_scorer(child.build());
                }
                Box::new(by_kind.build().unwrap())
            }
            Self::Lexical(query) => Box::new(Bm25Scorer::new(query)),
            Self::Keyword { keywords, enough } => {
                Box::new(KeywordScorer::new(keywords, *enough).unwrap())
            }
        }
    }
}

impl CurvePlan {
    fn build(&self) -> DecayCurve {
        match self {
            Self::Exponential { half_life } => {
                DecayCurve::exponential(Duration::from_secs(*half_life)).unwrap()
            }
            Self::Step { windows } => {
                let windows =
                    windows.iter().map(|(max_age, score)| (Duration::from_secs(*max_age), *score));
                DecayCurve::step(windows).unwrap()
            }
            Self::Window { max_age } => DecayCurve::window(Duration::from_secs(*max_age)).unwrap(),
        }
    }
}

impl SlicerPlan {
    pub(crate) fn build(&self) -> Box<dyn Slicer> {
        match self {
            Self::Greedy => Box::new(GreedySlice),
            Self::Knapsack { bucket_size } => Box::new(KnapsackSlice::new(*bucket_size).unwrap()),
            Self::Quota { quotas, inner } => {
                Box::new(QuotaSlice::new(quotas.iter().cloned(), inner.build()).unwrap())
            }
            Self::CountQuota { entries, inner, scarcity } => {
                let entries = entries.iter().cloned();
                Box::new(CountQuotaSlice::new(entries, inner.build(), *scarcity).unwrap())
            }
            Self::CountConstrainedKnapsack { entries, bucket_size, scarcity } => {
                let entries = entries.iter().cloned();
                let knapsack = KnapsackSlice::new(*bucket_size).unwrap();
                Box::new(CountConstrainedKnapsackSlice::new(entries, knapsack, *scarcity).unwrap())
            }
        }
    }
}

impl PlacerPlan {
    pub(crate) fn build(&self) -> Box<dyn Placer> {
        match self {
            Self::Chronological => Box::new(ChronologicalPlacer),
            Self::UShaped => Box::new(UShapedPlacer),
            Self::Rank => Box::new(RankPlacer),
        }
    }
}

impl PipelinePlan {
    pub(crate) fn build(&self) -> Pipeline {
        Pipeline::builder(self.scorer.build())
            .slicer(self.slicer.build())
            .placer(self.placer.build())
            .deduplication(self.deduplication)
            .overflow_strategy(self.overflow_strategy)
            .keep_groups_together(self.keep_groups_together)
            .build()
    }
}
