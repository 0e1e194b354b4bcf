//! Scorers, slicers and placers from their names and options.

use std::time::Duration;

use pannier_core::{
    Bm25Scorer, ByKindScorer, ChronologicalPlacer, CompositeScorer, ContextKind,
    CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, DecayCurve, DecayScorer,
    DocumentPlacer, Error, FillOrder, FillSlice, FrequencyScorer, GreedySlice, Headings,
    KeywordScorer, KindScorer, KnapsackSlice, MetadataKeyScorer, MetadataTrustScorer, Placer,
    PriorityScorer, ProductScorer, Quota, QuotaSlice, RankPlacer, RecencyScorer, ReflexiveScorer,
    ScaledScorer, ScarcityBehavior, Scorer, SliceOrderPlacer, Slicer, SumScorer, TagScorer, Tier,
    TieredSlice, UShapedPlacer,
};
use pannier_layout::DocumentLayout;
use serde::Deserialize;

use crate::vector::Moment;

/// Why a part could not be built: the vector is not understood, or the engine refused.
pub(crate) enum Problem {
    NotUnderstood(String),
    Refused(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn unknown<T>(what: &str, name: &str) -> Result<T, Problem> {
    Err(Problem::NotUnderstood(format!("unknown {what} '{name}'")))
}

fn need<T>(part: &str, key: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::NotUnderstood(format!("{part} needs '{key}'")))
}

/// A number that must not be negative to mean anything.
fn natural(part: &'static str, key: &str, value: i64) -> Result<usize, Problem> {
    usize::try_from(value).map_err(|_| {
        let problem = format!("{key} is {value}; it must be 0 or more");
        Problem::Refused(Error::InvalidSlicer { slicer: part, problem })
    })
}

/// A part is its name, if it needs no options, or a table with a `type`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum NameOr<T> {
    Name(String),
    Table(T),
}

/// The options of every scorer.
#[derive(Deserialize, Default)]
pub(crate) struct ScorerConfig {
    #[serde(rename = "type")]
    name: Option<String>,
    weight: Option<f64>,
    use_default_weights: Option<bool>,
    weights: Option<Vec<KindWeight>>,
    #[serde(default)]
    tag_weights: Vec<TagWeight>,
    #[serde(default)]
    case_insensitive: bool,
    #[serde(default)]
    scorers: Vec<ScorerConfig>,
    #[serde(default)]
    children: Vec<ScorerConfig>,
    inner_scorer: Option<NameOr<Box<ScorerConfig>>>,
    reference_time: Option<Moment>,
    null_timestamp_score: Option<f64>,
    curve: Option<Curve>,
    default_score: Option<f64>,
    key: Option<String>,
    value: Option<String>,
    boost: Option<f64>,
    #[serde(default)]
    kinds: Vec<ScorerOfKinds>,
    otherwise: Option<Box<ScorerConfig>>,
    keywords: Option<Vec<String>>,
    enough: Option<i64>,
    query: Option<String>,
}

/// What scores a kind, or several together.
#[derive(Deserialize)]
struct ScorerOfKinds {
    kind: Option<String>,
    #[serde(default)]
    kinds: Vec<String>,
    scorer: ScorerConfig,
}

#[derive(Deserialize)]
struct KindWeight {
    kind: String,
    weight: f64,
}

#[derive(Deserialize)]
struct TagWeight {
    tag: String,
    weight: f64,
}

#[derive(Deserialize)]
struct Curve {
    #[serde(rename = "type")]
    name: String,
    half_life_secs: Option<f64>,
    max_age_secs: Option<f64>,
    #[serde(default)]
    windows: Vec<Window>,
}

#[derive(Deserialize)]
struct Window {
    max_age_secs: f64,
    score: f64,
}

impl ScorerConfig {
    /// The scorer of a pipeline: the only one, or the composite of several.
    pub(crate) fn pipeline_scorer(&self) -> Result<Box<dyn Scorer>, Problem> {
        match &self.scorers[..] {
            [only] => only.build(),
            several => composite(several),
        }
    }

    fn build(&self) -> Result<Box<dyn Scorer>, Problem> {
        self.scorer(need("a scorer", "type", self.name.as_deref())?)
    }

    pub(crate) fn scorer(&self, name: &str) -> Result<Box<dyn Scorer>, Problem> {
        // Children of a composite stand under `scorers` at the top, under `children` below.
        let children = || {
            if self.scorers.is_empty() { &self.children } else { &self.scorers }
        };
        Ok(match name {
            "recency" => Box::new(RecencyScorer),
            "priority" => Box::new(PriorityScorer),
            "kind" => match &self.weights {
                Some(weights) if self.use_default_weights != Some(true) => {
                    let weights = weights
                        .iter()
                        .map(|entry| Ok((ContextKind::new(entry.kind.as_str())?, entry.weight)))
                        .collect::<Result<Vec<_>, Error>>()?;
                    Box::new(KindScorer::new(weights)?)
                }
                _ if self.use_default_weights == Some(false) => Box::new(KindScorer::new([])?),
                _ => Box::new(KindScorer::default()),
            },
            "tag" => {
                let weights =
                    self.tag_weights.iter().map(|entry| (entry.tag.as_str(), entry.weight));
                Box::new(if self.case_insensitive {
                    TagScorer::case_insensitive(weights)?
                } else {
                    TagScorer::new(weights)?
                })
            }
            "frequency" => Box::new(FrequencyScorer),
            "reflexive" => Box::new(ReflexiveScorer),
            "composite" => composite(children())?,
            "product" => {
                let mut product = ProductScorer::builder();
                for child in children() {
                    product = product.factor(child.build()?);
                }
                Box::new(product.build()?)
            }
            "sum" => {
                let mut sum = SumScorer::builder();
                for child in children() {
                    sum = sum.add(child.build()?);
                }
                Box::new(sum.build()?)
            }
            "by_kind" => self.by_kind()?,
            "scaled" => {
                let inner =
                    match need("a scaled scorer", "inner_scorer", self.inner_scorer.as_ref())? {
                        NameOr::Name(inner) => self.scorer_inside(name, inner)?,
                        NameOr::Table(inner) => inner.build()?,
                    };
                Box::new(ScaledScorer::new(inner))
            }
            "metadata_trust" => {
                Box::new(MetadataTrustScorer::new(self.default_score.unwrap_or(0.5))?)
            }
            "metadata_key" => Box::new(MetadataKeyScorer::new(
                need("a metadata_key scorer", "key", self.key.as_deref())?,
                need("a metadata_key scorer", "value", self.value.as_deref())?,
                need("a metadata_key scorer", "boost", self.boost)?,
            )?),
            "decay" => {
                let now = need("a decay scorer", "reference_time", self.reference_time.as_ref())?;
                let curve = need("a decay scorer", "curve", self.curve.as_ref())?.build()?;
                let scorer = DecayScorer::new(now.build()?, curve);
                Box::new(
                    scorer.with_null_timestamp_score(self.null_timestamp_score.unwrap_or(0.5))?,
                )
            }
            "keyword" => {
                let keywords = need("a keyword scorer", "keywords", self.keywords.as_ref())?;
                let enough = need("a keyword scorer", "enough", self.enough)?;
                // What is negative is refused as nothing is.
                let enough = usize::try_from(enough).unwrap_or(0);
                Box::new(KeywordScorer::new(keywords, enough)?)
            }
            "lexical" => {
                let query = need("a lexical scorer", "query", self.query.as_deref())?;
                Box::new(Bm25Scorer::new(query))
            }
            other => return unknown("scorer", other),
        })
    }

    fn by_kind(&self) -> Result<Box<dyn Scorer>, Problem> {
        let mut by_kind = ByKindScorer::builder();
        for entry in &self.kinds {
            let kinds = entry.kind.iter().chain(&entry.kinds).map(ContextKind::new);
            let kinds = kinds.collect::<Result<Vec<_>, Error>>()?;
            by_kind = by_kind.kinds(kinds, entry.scorer.build()?);
        }
        if let Some(scorer) = &self.otherwise {
            by_kind = by_kind.otherwise(scorer.build()?);
        }
        Ok(Box::new(by_kind.build()?))
    }

    /// An inner scorer that is only a name takes its options from the same table.
    fn scorer_inside(&self, outer: &str, inner: &str) -> Result<Box<dyn Scorer>, Problem> {
        if outer == inner {
            let problem = format!("a {outer} scorer inside a {outer} scorer needs a table");
            return Err(Problem::NotUnderstood(problem));
        }
        self.scorer(inner)
    }
}

fn composite(children: &[ScorerConfig]) -> Result<Box<dyn Scorer>, Problem> {
    let mut composite = CompositeScorer::builder();
    for child in children {
        composite = composite.add(child.build()?, child.weight.unwrap_or(1.0));
    }
    Ok(Box::new(composite.build()?))
}

impl Curve {
    fn build(&self) -> Result<DecayCurve, Problem> {
        Ok(match self.name.as_str() {
            "exponential" => {
                let half_life =
                    need("an exponential curve", "half_life_secs", self.half_life_secs)?;
                DecayCurve::exponential(seconds(half_life)?)?
            }
            "window" => {
                let max_age = need("a window curve", "max_age_secs", self.max_age_secs)?;
                DecayCurve::window(seconds(max_age)?)?
            }
            "step" => {
                let windows: Result<Vec<_>, Problem> = self
                    .windows
                    .iter()
                    .map(|window| Ok((seconds(window.max_age_secs)?, window.score)))
                    .collect();
                DecayCurve::step(windows?)?
            }
            other => return unknown("curve", other),
        })
    }
}

fn seconds(seconds: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(seconds).map_err(|error| {
        let problem = format!("a duration of {seconds} seconds is not possible: {error}");
        Problem::Refused(Error::InvalidScorer { scorer: "DecayScorer", problem })
    })
}

/// The options of every slicer.
#[derive(Deserialize, Default)]
pub(crate) struct SlicerConfig {
    #[serde(rename = "type")]
    name: Option<String>,
    bucket_size: Option<i64>,
    memory_limit: Option<u64>,
    inner_slicer: Option<NameOr<Box<SlicerConfig>>>,
    #[serde(default)]
    quotas: Vec<QuotaConfig>,
    #[serde(default)]
    entries: Vec<EntryConfig>,
    scarcity_behavior: Option<String>,
    packing: Option<String>,
    overhead: Option<i64>,
    max_per_document: Option<i64>,
    #[serde(default)]
    tiers: Vec<TierConfig>,
    whole: Option<f64>,
}

#[derive(Deserialize)]
struct TierConfig {
    kinds: Vec<String>,
    cap: Option<f64>,
    floor: Option<f64>,
    #[serde(default)]
    drop_worthless: bool,
}

#[derive(Deserialize)]
struct QuotaConfig {
    kind: String,
    require: Option<f64>,
    cap: Option<f64>,
}

#[derive(Deserialize)]
struct EntryConfig {
    kind: String,
    #[serde(default)]
    require_count: i64,
    cap_count: i64,
}

impl SlicerConfig {
    pub(crate) fn slicer(&self, name: &str) -> Result<Box<dyn Slicer>, Problem> {
        Ok(match name {
            "greedy" => Box::new(GreedySlice),
            "knapsack" => Box::new(self.knapsack()?),
            "quota" => {
                let quotas: Result<Vec<_>, Error> = self
                    .quotas
                    .iter()
                    .map(|quota| {
                        Ok(Quota {
                            kind: ContextKind::new(quota.kind.as_str())?,
                            require_percent: quota.require.unwrap_or(0.0),
                            cap_percent: quota.cap.unwrap_or(100.0),
                        })
                    })
                    .collect();
                Box::new(QuotaSlice::new(quotas?, self.inner(name)?)?)
            }
            "count_quota" => {
                let inner = self.inner(name)?;
                Box::new(CountQuotaSlice::new(self.entries()?, inner, self.scarcity()?)?)
            }
            "count_constrained_knapsack" => {
                let (entries, knapsack) = (self.entries()?, self.knapsack()?);
                Box::new(CountConstrainedKnapsackSlice::new(entries, knapsack, self.scarcity()?)?)
            }
            "document" => Box::new(self.document()?),
            "tiered" => Box::new(self.tiered()?),
            other => return unknown("slicer", other),
        })
    }

    fn tiered(&self) -> Result<TieredSlice, Problem> {
        let tier = |tier: &TierConfig| -> Result<Tier, Error> {
            let kinds: Result<Vec<_>, Error> = tier.kinds.iter().map(ContextKind::new).collect();
            Ok(Tier {
                cap_percent: tier.cap.unwrap_or(100.0),
                floor_percent: tier.floor.unwrap_or(0.0),
                drop_zero_score: tier.drop_worthless,
                ..Tier::new(kinds?)
            })
        };
        let tiers: Result<Vec<_>, Error> = self.tiers.iter().map(tier).collect();
        let whole = self.whole.unwrap_or(TieredSlice::FULL_TEXT_PERCENT);
        Ok(TieredSlice::new(tiers?)?.with_full_text_percent(whole)?)
    }

    fn document(&self) -> Result<FillSlice, Problem> {
        if let Some(overhead) = self.overhead.filter(|overhead| *overhead < 0) {
            let problem = format!("overhead is {overhead}; it must be 0 or more tokens");
            return Err(Problem::Refused(Error::InvalidSlicer {
                slicer: "DocumentSlice",
                problem,
            }));
        }
        let slicer = match self.packing.as_deref() {
            None | Some("greedy" | "score-weighted") => FillSlice::new(FillOrder::Score),
            Some("interleaved") => FillSlice::new(FillOrder::Turns),
            Some(other) => return unknown("packing", other),
        };
        Ok(match self.max_per_document {
            Some(passages) => {
                slicer.with_max_per_section(natural("DocumentSlice", "max_per_document", passages)?)
            }
            None => slicer,
        })
    }

    /// The headings that are charged for, if the slicer of this name is for documents.
    pub(crate) fn layout(&self, name: &str) -> Option<DocumentLayout> {
        let headings = match self.packing.as_deref() {
            None | Some("greedy") => Headings::Once,
            _ => Headings::AtEveryChange,
        };
        let overhead = self.overhead.unwrap_or(DocumentLayout::MIN_HEADING_TOKENS);
        let layout = DocumentLayout::uncounted().with_min_heading_tokens(overhead);
        (name == "document").then(|| layout.with_headings(headings))
    }

    fn knapsack(&self) -> Result<KnapsackSlice, Problem> {
        let knapsack = self.bucket_size.map_or(Ok(KnapsackSlice::default()), KnapsackSlice::new)?;
        Ok(match self.memory_limit {
            Some(bytes) => knapsack.with_memory_limit(bytes),
            None => knapsack,
        })
    }

    fn inner(&self, outer: &str) -> Result<Box<dyn Slicer>, Problem> {
        match &self.inner_slicer {
            None => Ok(Box::new(GreedySlice)),
            Some(NameOr::Table(inner)) => {
                inner.slicer(need("an inner slicer", "type", inner.name.as_deref())?)
            }
            // An inner slicer that is only a name takes its options from the same table.
            Some(NameOr::Name(inner)) if matches!(inner.as_str(), "greedy" | "knapsack") => {
                self.slicer(inner)
            }
            Some(NameOr::Name(inner)) => {
                let problem = format!("a {inner} slicer inside a {outer} slicer needs a table");
                Err(Problem::NotUnderstood(problem))
            }
        }
    }

    fn entries(&self) -> Result<Vec<CountQuotaEntry>, Problem> {
        let entry = |entry: &EntryConfig| {
            let require = natural("CountQuotaEntry", "require_count", entry.require_count)?;
            let cap = natural("CountQuotaEntry", "cap_count", entry.cap_count)?;
            let kind = ContextKind::new(entry.kind.as_str())?;
            Ok(CountQuotaEntry::new(kind, require, cap)?)
        };
        self.entries.iter().map(entry).collect()
    }

    fn scarcity(&self) -> Result<ScarcityBehavior, Problem> {
        match self.scarcity_behavior.as_deref() {
            None | Some("degrade") => Ok(ScarcityBehavior::Degrade),
            Some("throw") => Ok(ScarcityBehavior::Throw),
            Some(other) => unknown("scarcity_behavior", other),
        }
    }
}

pub(crate) fn placer(name: &str) -> Result<Box<dyn Placer>, Problem> {
    Ok(match name {
        "chronological" => Box::new(ChronologicalPlacer),
        "u-shaped" => Box::new(UShapedPlacer),
        "rank" => Box::new(RankPlacer),
        "document" => Box::new(DocumentPlacer),
        "taken" => Box::new(SliceOrderPlacer),
        other => return unknown("placer", other),
    })
}
