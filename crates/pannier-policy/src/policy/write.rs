//! From a policy to values. What has its default is left out.

use super::read::{PACKINGS, PLACERS, SCARCITIES, STRATEGIES};
use super::{CurvePolicy, Packing, Policy, ScorerPolicy, SlicerPolicy};
use pannier_core::{
    ContextKind, CountQuotaEntry, Deduplication, Metadata, MetadataValue, OverflowStrategy,
    ScarcityBehavior, Tier,
};
use pannier_layout::DocumentLayout;

impl Policy {
    /// The policy as a tree of values, which [`from_value`](Self::from_value) reads back.
    pub fn to_value(&self) -> MetadataValue {
        let mut table = self.slicer.to_table("slicer");
        let texts = [("name", &self.name), ("description", &self.description)];
        for (key, text) in texts {
            table.extend(text.as_ref().map(|text| (key.to_owned(), text.as_str().into())));
        }
        put(&mut table, "scorers", weighted(&self.scorers));
        put(&mut table, "placer", name_of(PLACERS, &self.placer));
        match self.deduplication {
            Deduplication::Off => put(&mut table, "deduplication", false),
            Deduplication::Near { threshold } => {
                let mut near = Metadata::new();
                put(&mut near, "near", i64::from(threshold));
                put(&mut table, "deduplication", near);
            }
            _ => {}
        }
        if self.overflow_strategy != OverflowStrategy::Throw {
            put(&mut table, "overflow_strategy", name_of(STRATEGIES, &self.overflow_strategy));
        }
        if self.keep_groups_together {
            put(&mut table, "keep_groups_together", true);
        }
        MetadataValue::Object(table)
    }
}

fn put(table: &mut Metadata, key: &str, value: impl Into<MetadataValue>) {
    table.insert(key.to_owned(), value.into());
}

fn typed(name: &str) -> Metadata {
    Metadata::from([("type".to_owned(), name.into())])
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}

fn weighted(scorers: &[(ScorerPolicy, f64)]) -> Vec<MetadataValue> {
    let scorer = |(scorer, weight): &(ScorerPolicy, f64)| {
        let mut table = scorer.to_table();
        put(&mut table, "weight", *weight);
        table.into()
    };
    scorers.iter().map(scorer).collect()
}

fn plain(scorers: &[ScorerPolicy]) -> Vec<MetadataValue> {
    scorers.iter().map(|scorer| scorer.to_table().into()).collect()
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<MetadataValue> {
    texts.map(Into::into).collect()
}

fn scorer_of_kinds((kinds, scorer): &(Vec<ContextKind>, ScorerPolicy)) -> MetadataValue {
    let mut table = Metadata::new();
    match &kinds[..] {
        [kind] => put(&mut table, "kind", kind.as_str()),
        kinds => put(&mut table, "kinds", texts(kinds.iter().map(ContextKind::as_str))),
    }
    put(&mut table, "scorer", scorer.to_table());
    table.into()
}

fn pairs<'p>(name: &str, pairs: impl Iterator<Item = (&'p str, f64)>) -> Vec<MetadataValue> {
    let pair = |(text, weight): (&str, f64)| {
        let mut table = Metadata::new();
        put(&mut table, name, text);
        put(&mut table, "weight", weight);
        table.into()
    };
    pairs.map(pair).collect()
}

impl ScorerPolicy {
    fn to_table(&self) -> Metadata {
        match self {
            Self::Recency => typed("recency"),
            Self::Priority => typed("priority"),
            Self::Kind { weights } => {
                let mut table = typed("kind");
                if let Some(weights) = weights {
                    let weights = weights.iter().map(|(kind, weight)| (kind.as_str(), *weight));
                    put(&mut table, "weights", pairs("kind", weights));
                }
                table
            }
            Self::Tag { weights, case_insensitive } => {
                let mut table = typed("tag");
                let weights = weights.iter().map(|(tag, weight)| (tag.as_str(), *weight));
                put(&mut table, "tag_weights", pairs("tag", weights));
                if *case_insensitive {
                    put(&mut table, "case_insensitive", true);
                }
                table
            }
            Self::Frequency => typed("frequency"),
            Self::Reflexive => typed("reflexive"),
            Self::Composite { children } => {
                let mut table = typed("composite");
                put(&mut table, "children", weighted(children));
                table
            }
            Self::Product { children } => {
                let mut table = typed("product");
                put(&mut table, "children", plain(children));
                table
            }
            Self::Sum { children } => {
                let mut table = typed("sum");
                put(&mut table, "children", plain(children));
                table
            }
            Self::ByKind { kinds, otherwise } => {
                let mut table = typed("by_kind");
                put(&mut table, "kinds", kinds.iter().map(scorer_of_kinds).collect::<Vec<_>>());
                if let Some(scorer) = otherwise {
                    put(&mut table, "otherwise", scorer.to_table());
                }
                table
            }
            Self::Scaled { inner } => {
                let mut table = typed("scaled");
                put(&mut table, "inner_scorer", inner.to_table());
                table
            }
            Self::MetadataTrust { default_score } => {
                let mut table = typed("metadata_trust");
                put(&mut table, "default_score", *default_score);
                table
            }
            Self::MetadataKey { key, value, boost } => {
                let mut table = typed("metadata_key");
                put(&mut table, "key", key.as_str());
                put(&mut table, "value", value.as_str());
                put(&mut table, "boost", *boost);
                table
            }
            Self::Decay { reference_time, curve, null_timestamp_score } => {
                let mut table = typed("decay");
                if let Some(time) = reference_time {
                    put(&mut table, "reference_time", time.to_string());
                }
                put(&mut table, "curve", curve.to_table());
                put(&mut table, "null_timestamp_score", *null_timestamp_score);
                table
            }
            Self::Keyword { keywords, enough } => {
                let mut table = typed("keyword");
                put(&mut table, "keywords", texts(keywords.iter().map(String::as_str)));
                put(&mut table, "enough", *enough as u64);
                table
            }
            Self::Lexical { query } => {
                let mut table = typed("lexical");
                put(&mut table, "query", query.as_str());
                table
            }
            Self::Stability => typed("stability"),
            Self::Custom { name } => {
                let mut table = typed("custom");
                put(&mut table, "name", name.as_str());
                table
            }
        }
    }
}

impl CurvePolicy {
    fn to_table(&self) -> Metadata {
        match self {
            Self::Exponential { half_life_secs } => {
                let mut table = typed("exponential");
                put(&mut table, "half_life_secs", *half_life_secs);
                table
            }
            Self::Window { max_age_secs } => {
                let mut table = typed("window");
                put(&mut table, "max_age_secs", *max_age_secs);
                table
            }
            Self::Step { windows } => {
                let window = |(age, score): &(f64, f64)| {
                    let mut table = Metadata::new();
                    put(&mut table, "max_age_secs", *age);
                    put(&mut table, "score", *score);
                    table.into()
                };
                let mut table = typed("step");
                put(&mut table, "windows", windows.iter().map(window).collect::<Vec<_>>());
                table
            }
        }
    }
}

impl SlicerPolicy {
    /// Its name under `key`, and its options beside it.
    fn to_table(&self, key: &str) -> Metadata {
        let mut table = Metadata::new();
        let name = match self {
            Self::Greedy => "greedy",
            Self::Rank => "rank",
            Self::Knapsack { bucket_size } => {
                put(&mut table, "bucket_size", *bucket_size);
                "knapsack"
            }
            Self::Quota { quotas, inner } => {
                let quota = |quota: &pannier_core::Quota| {
                    let mut table = Metadata::new();
                    put(&mut table, "kind", quota.kind.as_str());
                    put(&mut table, "require", quota.require_percent);
                    put(&mut table, "cap", quota.cap_percent);
                    table.into()
                };
                put(&mut table, "quotas", quotas.iter().map(quota).collect::<Vec<_>>());
                put(&mut table, "inner_slicer", inner.to_table("type"));
                "quota"
            }
            Self::CountQuota { entries, scarcity, inner } => {
                put_counts(&mut table, entries, *scarcity);
                put(&mut table, "inner_slicer", inner.to_table("type"));
                "count_quota"
            }
            Self::CountConstrainedKnapsack { entries, scarcity, bucket_size } => {
                put_counts(&mut table, entries, *scarcity);
                put(&mut table, "bucket_size", *bucket_size);
                "count_constrained_knapsack"
            }
            Self::Document { packing, overhead, max_per_document } => {
                if *packing != Packing::Greedy {
                    put(&mut table, "packing", name_of(PACKINGS, packing));
                }
                if *overhead != DocumentLayout::MIN_HEADING_TOKENS {
                    put(&mut table, "overhead", *overhead);
                }
                if let Some(passages) = max_per_document {
                    put(&mut table, "max_per_document", *passages as u64);
                }
                "document"
            }
            Self::Tiered { tiers, whole_percent } => {
                let tier = |tier: &Tier| {
                    let kinds: Vec<MetadataValue> =
                        tier.kinds.iter().map(|kind| kind.as_str().into()).collect();
                    let mut table = Metadata::new();
                    put(&mut table, "kinds", kinds);
                    put(&mut table, "cap", tier.cap_percent);
                    put(&mut table, "floor", tier.floor_percent);
                    put(&mut table, "drop_worthless", tier.drop_zero_score);
                    table.into()
                };
                put(&mut table, "tiers", tiers.iter().map(tier).collect::<Vec<_>>());
                put(&mut table, "whole", *whole_percent);
                "tiered"
            }
        };
        put(&mut table, key, name);
        table
    }
}

fn put_counts(table: &mut Metadata, entries: &[CountQuotaEntry], scarcity: ScarcityBehavior) {
    let entry = |entry: &CountQuotaEntry| {
        let mut table = Metadata::new();
        put(&mut table, "kind", entry.kind().as_str());
        put(&mut table, "require_count", entry.require_count() as u64);
        put(&mut table, "cap_count", entry.cap_count() as u64);
        table.into()
    };
    put(table, "entries", entries.iter().map(entry).collect::<Vec<_>>());
    if scarcity != ScarcityBehavior::Degrade {
        put(table, "scarcity_behavior", name_of(SCARCITIES, &scarcity));
    }
}
