//! Scorers as data.

use std::time::Duration;

use pannier_core::item::{Metadata, MetadataValue};
use pannier_core::score::{
    Bm25Scorer, ByKindScorer, CompositeScorer, DecayCurve, DecayScorer, FrequencyScorer,
    KeywordScorer, KindScorer, MetadataKeyScorer, MetadataTrustScorer, Pool, PrefixStabilityScorer,
    PriorityScorer, ProductScorer, RecencyScorer, ReflexiveScorer, ScaledScorer, ScoreExplanation,
    SumScorer, TagScorer,
};
use pannier_core::{ContextKind, Error, Scorer, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::component::{BuildContext, Component, components, read, records};
use crate::registry::CustomOptions;
use crate::tree::{self, ReadError, checked};

components! {
    /// A scorer and its options.
    pub enum ScorerPolicy("scorer", "inner_scorer") -> Box<dyn Scorer>, |context, options| {
        plain {
            /// Scores by the rank of the timestamp.
            "recency" => Recency = Box::new(RecencyScorer);
            /// Scores by the rank of the priority.
            "priority" => Priority = Box::new(PriorityScorer);
            /// Scores by the share of other items with a common tag.
            "frequency" => Frequency = Box::new(FrequencyScorer);
            /// Scores by the item's own `futureRelevanceHint`.
            "reflexive" => Reflexive = Box::new(ReflexiveScorer);
            /// Scores items of the previous prompt, the first one highest; others score 0.
            "prefix_stability" | "stability" => PrefixStability =
                Box::new(PrefixStabilityScorer::new(context.previous()));
        }
        options {
            /// Scores by a weight for each kind.
            "kind" => Kind(KindOptions {
                /// The weights; default: SystemPrompt 1, Memory 0.8, ToolOutput 0.6, Document 0.4, Message 0.2.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub weights: Option<Vec<KindWeight>>,
            }) = match &options.weights {
                None => Box::new(KindScorer::default()),
                Some(weights) => {
                    let weights = weights.iter().map(|entry| (entry.kind.clone(), entry.weight));
                    Box::new(KindScorer::new(weights)?)
                }
            };
            /// Scores by the weights of matching tags.
            "tag" => Tag(TagOptions {
                /// The tags that count.
                #[serde(default)] pub tag_weights: Vec<TagWeight>,
                /// Whether case is ignored; default: false.
                #[serde(default, skip_serializing_if = "std::ops::Not::not")]
                pub case_insensitive: bool,
            }) = {
                let weights = options.tag_weights.iter();
                let weights = weights.map(|entry| (entry.tag.as_str(), entry.weight));
                Box::new(match options.case_insensitive {
                    true => TagScorer::case_insensitive(weights)?,
                    false => TagScorer::new(weights)?,
                })
            };
            /// Scores by age.
            "decay" => Decay(DecayOptions {
                /// The time from which ages are measured; default: the caller's.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[cfg_attr(feature = "schema", schemars(with = "Option<String>", extend("format" = "date-time")))]
                pub reference_time: Option<Timestamp>,
                /// The curve along which the score falls.
                pub curve: CurvePolicy,
                /// The score of items without a timestamp; default: 0.5.
                #[serde(default = "half")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
                pub null_timestamp_score: f64,
            }) = {
                let now = options.reference_time.or(context.now).ok_or(Error::NoReferenceTime)?;
                let scorer = DecayScorer::new(now, options.curve.build(context)?);
                Box::new(scorer.with_null_timestamp_score(options.null_timestamp_score)?)
            };
            /// Scores by the number of keywords in the content, as whole words in any case.
            "keyword" => Keyword(KeywordOptions {
                /// The keywords.
                pub keywords: Vec<String>,
                /// The number of keywords that makes a score of 1.
                #[serde(alias = "enough")]
                #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
                pub saturation: usize,
            }) = Box::new(KeywordScorer::new(&options.keywords, options.saturation)?);
            /// Scores by BM25 of the content for a query; the highest is 1.
            "bm25" | "lexical" => Bm25(Bm25Options {
                /// The query.
                pub query: String,
            }) = Box::new(Bm25Scorer::new(&options.query));
            /// Scores by the number under the metadata key `cupel:trust`.
            "metadata_trust" => MetadataTrust(MetadataTrustOptions {
                /// The score of items without a usable value; default: 0.5.
                #[serde(default = "half")]
                #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
                pub default_score: f64,
            }) = Box::new(MetadataTrustScorer::new(options.default_score)?);
            /// Multiplies the score of items with one value under one metadata key.
            "metadata_key" => MetadataKey(MetadataKeyOptions {
                /// The key.
                pub key: String,
                /// The value that is boosted.
                pub value: String,
                /// The factor.
                #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
                pub boost: f64,
            }) = Box::new(MetadataKeyScorer::new(&*options.key, &*options.value, options.boost)?);
            /// Averages other scorers by weight.
            "composite" => Composite(CompositeOptions {
                /// The scorers and their weights.
                #[serde(default)] pub children: Vec<WeightedScorer>,
            }) = average(&options.children, context)?;
            /// Multiplies the scores of other scorers.
            "product" => Product(ProductOptions {
                /// The factors.
                #[serde(default)] pub children: Vec<ScorerPolicy>,
            }) = {
                let mut product = ProductScorer::builder();
                for child in &options.children {
                    product = product.factor(child.build(context)?);
                }
                Box::new(product.build()?)
            };
            /// Adds up the scores of other scorers.
            "sum" => Sum(SumOptions {
                /// The summands.
                #[serde(default)] pub children: Vec<ScorerPolicy>,
            }) = {
                let mut sum = SumScorer::builder();
                for child in &options.children {
                    sum = sum.add(child.build(context)?);
                }
                Box::new(sum.build()?)
            };
            /// Scores each kind by a scorer of its own, among the items of that kind.
            "by_kind" => ByKind(ByKindOptions {
                /// Kinds that are scored together, and their scorer.
                #[serde(default, deserialize_with = "checked_kinds")] pub kinds: Vec<KindsScorer>,
                /// The scorer of all other kinds; default: they score 0.
                #[serde(default, alias = "otherwise", skip_serializing_if = "Option::is_none")]
                pub default: Option<Box<ScorerPolicy>>,
            }) = {
                let mut by_kind = ByKindScorer::builder();
                for entry in &options.kinds {
                    by_kind = by_kind.kinds(entry.kinds(), entry.scorer.build(context)?);
                }
                if let Some(scorer) = &options.default {
                    by_kind = by_kind.default_scorer(scorer.build(context)?);
                }
                Box::new(by_kind.build()?)
            };
            /// Stretches the scores of another scorer from 0 to 1.
            "scaled" => Scaled(ScaledOptions {
                /// The scorer, by its name or as a table.
                pub inner_scorer: Box<ScorerPolicy>,
            }) = Box::new(ScaledScorer::new(options.inner_scorer.build(context)?));
            /// Scores by a custom scorer of a registry.
            "custom" => Custom(CustomOptions) = match context.registry {
                Some(registry) => {
                    let (name, scorer) = (options.name.clone(), registry.custom_scorer(options)?);
                    Box::new(NamedScorer { name, scorer })
                }
                None => Box::new(ReflexiveScorer),
            };
        }
    }
}

components! {
    /// A curve along which a score falls with age.
    pub enum CurvePolicy("curve", "") -> DecayCurve, |_context, options| {
        plain {}
        options {
            /// Halves with every half-life.
            "exponential" => Exponential(ExponentialOptions {
                /// The half-life in seconds.
                #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
                pub half_life_secs: f64,
            }) = DecayCurve::exponential(seconds("half_life_secs", options.half_life_secs)?)?;
            /// Is 1 below an age, and 0 above it.
            "window" => Window(WindowOptions {
                /// The age in seconds.
                #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
                pub max_age_secs: f64,
            }) = DecayCurve::window(seconds("max_age_secs", options.max_age_secs)?)?;
            /// Has a score for each window of ages.
            "step" => Step(StepOptions {
                /// The windows, youngest first.
                #[serde(default)] pub windows: Vec<StepWindow>,
            }) = {
                let window = |window: &StepWindow| Ok((seconds("max_age_secs", window.max_age_secs)?, window.score));
                DecayCurve::step(options.windows.iter().map(window).collect::<Result<Vec<_>, Error>>()?)?
            };
        }
    }
}

records! {
    /// The weight of a kind.
    pub struct KindWeight {
        /// The kind.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        pub kind: ContextKind,
        /// Its weight.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub weight: f64,
    }

    /// The weight of a tag.
    pub struct TagWeight {
        /// The tag.
        pub tag: String,
        /// Its weight.
        #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
        pub weight: f64,
    }

    /// The score of items up to an age.
    pub struct StepWindow {
        /// The age in seconds.
        #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
        pub max_age_secs: f64,
        /// The score.
        pub score: f64,
    }

    struct Weight {
        #[serde(default = "one")] weight: f64,
    }

    /// One or several kinds, and the scorer of their items.
    pub struct KindsScorer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        kind: Option<ContextKind>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>"))]
        kinds: Option<Vec<ContextKind>>,
        scorer: ScorerPolicy,
    }
}

impl KindsScorer {
    /// Scores items of these kinds together.
    pub fn new(
        kinds: impl IntoIterator<Item = ContextKind>,
        scorer: impl Into<ScorerPolicy>,
    ) -> Self {
        let (mut kinds, scorer) = (Vec::from_iter(kinds), scorer.into());
        match kinds.len() {
            1 => Self { kind: kinds.pop(), kinds: None, scorer },
            _ => Self { kind: None, kinds: Some(kinds), scorer },
        }
    }

    fn kinds(&self) -> Vec<ContextKind> {
        self.kind.iter().chain(self.kinds.iter().flatten()).cloned().collect()
    }
}

fn checked_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KindsScorer>, D::Error> {
    checked(deserializer, |entry: &KindsScorer| match (&entry.kind, &entry.kinds) {
        (None, None) => Err(ReadError::missing("kind")),
        (Some(_), Some(_)) => {
            Err(ReadError::new("kinds", "there is a kind, too; list all kinds here, or none"))
        }
        _ => Ok(()),
    })
}

/// A custom scorer, under its name in policies.
struct NamedScorer {
    name: String,
    scorer: Box<dyn Scorer>,
}

impl Scorer for NamedScorer {
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

fn one() -> f64 {
    1.0
}

fn half() -> f64 {
    0.5
}

fn seconds(key: &str, seconds: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let problem = format!("{key} is {seconds}; it must be a time in seconds above 0");
        Error::InvalidScorer { scorer: "DecayScorer", problem }
    })
}

/// A scorer, and its weight in an average.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedScorer {
    /// The scorer.
    pub scorer: ScorerPolicy,
    /// The weight, above 0.
    pub weight: f64,
}

impl<S: Into<ScorerPolicy>> From<(S, f64)> for WeightedScorer {
    fn from((scorer, weight): (S, f64)) -> Self {
        Self { scorer: scorer.into(), weight }
    }
}

impl Serialize for WeightedScorer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = self.scorer.to_table();
        table.insert("weight".to_owned(), self.weight.into());
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WeightedScorer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = MetadataValue::deserialize(deserializer)?;
        let weight = match &mut value {
            MetadataValue::Object(table) => table.remove_entry("weight"),
            _ => None,
        };
        let weight = tree::read(Metadata::from_iter(weight).into());
        let Weight { weight } = weight.map_err(D::Error::custom)?;
        if !(weight > 0.0 && weight.is_finite()) {
            let problem = format!("expected a finite number above 0, found {weight}");
            return Err(D::Error::custom(ReadError::new("weight", problem)));
        }
        let scorer = read(value, &["weight"]).map_err(D::Error::custom)?;
        Ok(Self { scorer, weight })
    }
}

/// Builds the average of several scorers.
pub(crate) fn average(
    scorers: &[WeightedScorer],
    context: &BuildContext<'_>,
) -> Result<Box<dyn Scorer>, Error> {
    let mut composite = CompositeScorer::builder();
    for WeightedScorer { scorer, weight } in scorers {
        composite = composite.add(scorer.build(context)?, *weight);
    }
    Ok(Box::new(composite.build()?))
}
