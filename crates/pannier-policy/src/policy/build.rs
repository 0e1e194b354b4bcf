//! From data to parts.

use std::time::Duration;

use super::{CurvePolicy, Packing, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};
use pannier_core::{
    Bm25Scorer, ByKindScorer, ChronologicalPlacer, CompositeScorer, CountConstrainedKnapsackSlice,
    CountQuotaSlice, DecayCurve, DecayScorer, DocumentPlacer, Error, FillOrder, FillSlice,
    FrequencyScorer, GreedySlice, Headings, KeywordScorer, KindScorer, KnapsackSlice,
    MetadataKeyScorer, MetadataTrustScorer, Pipeline, Placer, Pool, PrefixStabilityScorer,
    PrefixStablePlacer, PreviousPrompt, PriorityScorer, ProductScorer, QuotaSlice, RankPlacer,
    RecencyScorer, ReflexiveScorer, ScaledScorer, ScoreExplanation, Scorer, SliceOrderPlacer,
    Slicer, SumScorer, TagScorer, TieredSlice, Timestamp, UShapedPlacer,
};
use pannier_layout::DocumentLayout;

/// What a policy leaves to whoever builds the pipeline.
pub(super) struct Surroundings<'s> {
    /// What time it is, for decay scorers that do not say.
    pub(super) now: Option<Timestamp>,
    /// What was sent before, for parts that keep to it.
    pub(super) previous: Option<&'s PreviousPrompt>,
    /// Finds custom scorers by their names.
    pub(super) custom: &'s FindScorer<'s>,
}

impl Surroundings<'_> {
    fn previous(&self) -> PreviousPrompt {
        self.previous.cloned().unwrap_or_default()
    }
}

pub(super) type FindScorer<'f> = dyn Fn(&str) -> Result<Box<dyn Scorer>, Error> + 'f;

impl Policy {
    /// The pipeline that this policy describes.
    ///
    /// # Errors
    ///
    /// Whatever keeps a part from being built; [`Error::NoReferenceTime`] if a decay scorer has no
    /// reference time, or a custom scorer is named: a [`PolicyRegistry`](super::PolicyRegistry)
    /// provides both.
    pub fn pipeline(&self) -> Result<Pipeline, Error> {
        super::PolicyRegistry::empty().pipeline(self, None)
    }

    pub(super) fn build(&self, surroundings: &Surroundings<'_>) -> Result<Pipeline, Error> {
        let scorer = match &self.scorers[..] {
            [(only, _)] => only.build(surroundings)?,
            several => composite(several, surroundings)?,
        };
        let mut pipeline = Pipeline::builder(scorer);
        if let Some(layout) = self.slicer.document_layout(DocumentLayout::uncounted()) {
            pipeline = pipeline.layout(layout);
        }
        Ok(pipeline
            .slicer(self.slicer.build()?)
            .placer(self.placer.build(surroundings))
            .deduplication(self.deduplication)
            .overflow_strategy(self.overflow_strategy)
            .keep_groups_together(self.keep_groups_together)
            .build())
    }
}

fn composite(
    children: &[(ScorerPolicy, f64)],
    surroundings: &Surroundings<'_>,
) -> Result<Box<dyn Scorer>, Error> {
    let mut composite = CompositeScorer::builder();
    for (child, weight) in children {
        composite = composite.add(child.build(surroundings)?, *weight);
    }
    Ok(Box::new(composite.build()?))
}

impl ScorerPolicy {
    pub(super) fn build(&self, surroundings: &Surroundings<'_>) -> Result<Box<dyn Scorer>, Error> {
        Ok(match self {
            Self::Recency => Box::new(RecencyScorer),
            Self::Priority => Box::new(PriorityScorer),
            Self::Kind { weights: None } => Box::new(KindScorer::default()),
            Self::Kind { weights: Some(weights) } => Box::new(KindScorer::new(weights.clone())?),
            Self::Tag { weights, case_insensitive: false } => {
                Box::new(TagScorer::new(weights.clone())?)
            }
            Self::Tag { weights, case_insensitive: true } => {
                Box::new(TagScorer::case_insensitive(weights.clone())?)
            }
            Self::Frequency => Box::new(FrequencyScorer),
            Self::Reflexive => Box::new(ReflexiveScorer),
            Self::Composite { children } => composite(children, surroundings)?,
            Self::Product { children } => {
                let mut product = ProductScorer::builder();
                for child in children {
                    product = product.factor(child.build(surroundings)?);
                }
                Box::new(product.build()?)
            }
            Self::Sum { children } => {
                let mut sum = SumScorer::builder();
                for child in children {
                    sum = sum.add(child.build(surroundings)?);
                }
                Box::new(sum.build()?)
            }
            Self::ByKind { kinds, otherwise } => {
                let mut by_kind = ByKindScorer::builder();
                for (kinds, scorer) in kinds {
                    by_kind = by_kind.kinds(kinds.clone(), scorer.build(surroundings)?);
                }
                if let Some(scorer) = otherwise {
                    by_kind = by_kind.otherwise(scorer.build(surroundings)?);
                }
                Box::new(by_kind.build()?)
            }
            Self::Scaled { inner } => Box::new(ScaledScorer::new(inner.build(surroundings)?)),
            Self::MetadataTrust { default_score } => {
                Box::new(MetadataTrustScorer::new(*default_score)?)
            }
            Self::MetadataKey { key, value, boost } => {
                Box::new(MetadataKeyScorer::new(key.as_str(), value.as_str(), *boost)?)
            }
            Self::Decay { reference_time, curve, null_timestamp_score } => {
                let Some(now) = reference_time.or(surroundings.now) else {
                    return Err(Error::NoReferenceTime);
                };
                let scorer = DecayScorer::new(now, curve.build()?);
                Box::new(scorer.with_null_timestamp_score(*null_timestamp_score)?)
            }
            Self::Keyword { keywords, enough } => Box::new(KeywordScorer::new(keywords, *enough)?),
            Self::Lexical { query } => Box::new(Bm25Scorer::new(query)),
            Self::Stability => Box::new(PrefixStabilityScorer::new(surroundings.previous())),
            Self::Custom { name } => {
                Box::new(Named { name: name.clone(), scorer: (surroundings.custom)(name)? })
            }
        })
    }
}

/// A scorer from a registry, under the name that the policy knows it by.
struct Named {
    name: String,
    scorer: Box<dyn Scorer>,
}

impl Scorer for Named {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        self.scorer.score(pool, scores)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let inner = self.scorer.explain(pool, item)?;
        Ok(ScoreExplanation::new(&self.name, inner.score).with_children(inner.children))
    }
}

fn decay_problem<T>(problem: String) -> Result<T, Error> {
    Err(Error::InvalidScorer { scorer: "DecayScorer", problem })
}

impl CurvePolicy {
    fn build(&self) -> Result<DecayCurve, Error> {
        match self {
            Self::Exponential { half_life_secs } => {
                DecayCurve::exponential(seconds("half_life_secs", *half_life_secs)?)
            }
            Self::Window { max_age_secs } => {
                DecayCurve::window(seconds("max_age_secs", *max_age_secs)?)
            }
            Self::Step { windows } => {
                let windows: Result<Vec<_>, Error> = windows
                    .iter()
                    .map(|(age, score)| Ok((seconds("max_age_secs", *age)?, *score)))
                    .collect();
                DecayCurve::step(windows?)
            }
        }
    }
}

fn seconds(key: &str, seconds: f64) -> Result<Duration, Error> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(duration),
        Err(_) => {
            decay_problem(format!("{key} is {seconds}; it must be a time in seconds above 0"))
        }
    }
}

impl SlicerPolicy {
    pub(super) fn build(&self) -> Result<Box<dyn Slicer>, Error> {
        Ok(match self {
            Self::Greedy => Box::new(GreedySlice),
            Self::Rank => Box::new(FillSlice::default()),
            Self::Knapsack { bucket_size } => Box::new(KnapsackSlice::new(*bucket_size)?),
            Self::Quota { quotas, inner } => {
                Box::new(QuotaSlice::new(quotas.clone(), inner.build()?)?)
            }
            Self::CountQuota { entries, scarcity, inner } => {
                Box::new(CountQuotaSlice::new(entries.clone(), inner.build()?, *scarcity)?)
            }
            Self::CountConstrainedKnapsack { entries, scarcity, bucket_size } => {
                let knapsack = KnapsackSlice::new(*bucket_size)?;
                Box::new(CountConstrainedKnapsackSlice::new(entries.clone(), knapsack, *scarcity)?)
            }
            Self::Document { packing, overhead, max_per_document } => {
                if *overhead < 0 {
                    let problem = format!("overhead is {overhead}; it must be 0 or more tokens");
                    return Err(Error::InvalidSlicer { slicer: "DocumentSlice", problem });
                }
                let slicer = FillSlice::new(match packing {
                    Packing::Interleaved => FillOrder::Turns,
                    Packing::Greedy | Packing::ScoreWeighted => FillOrder::Score,
                });
                Box::new(match max_per_document {
                    Some(passages) => slicer.with_max_per_section(*passages),
                    None => slicer,
                })
            }
            Self::Tiered { tiers, whole_percent } => {
                Box::new(TieredSlice::new(tiers.clone())?.with_full_text_percent(*whole_percent)?)
            }
        })
    }
}

impl SlicerPolicy {
    /// A layout with the headings that this slicer, or the one inside it, packs documents for.
    pub fn document_layout(&self, layout: DocumentLayout) -> Option<DocumentLayout> {
        match self {
            Self::Document { packing, overhead, .. } => {
                Some(layout.with_min_heading_tokens(*overhead).with_headings(packing.headings()))
            }
            Self::Quota { inner, .. } | Self::CountQuota { inner, .. } => {
                inner.document_layout(layout)
            }
            _ => None,
        }
    }
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

impl PlacerPolicy {
    fn build(self, surroundings: &Surroundings<'_>) -> Box<dyn Placer> {
        match self {
            Self::Chronological => Box::new(ChronologicalPlacer),
            Self::UShaped => Box::new(UShapedPlacer),
            Self::Rank => Box::new(RankPlacer),
            Self::Document => Box::new(DocumentPlacer),
            Self::Taken => Box::new(SliceOrderPlacer),
            Self::Stable => {
                Box::new(PrefixStablePlacer::new(surroundings.previous(), ChronologicalPlacer))
            }
        }
    }
}
