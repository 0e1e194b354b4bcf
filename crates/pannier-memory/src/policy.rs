//! The policies of packets.
//!
//! `memory` shares what the rules leave between tasks, conventions, decisions and learnings. Each kind ranks by the query,
//! fused with recency and keywords. Nothing depends on the budget but how far the order is filled.
//!
//! `packet-seed` is the formula of the format's specification. Tasks form the first tier, conventions the second;
//! decisions and learnings share the remaining budget. Tasks rank by recency, conventions by file order, decisions and
//! learnings by recency plus keyword matches with the selected tasks.

use std::str::FromStr;
use std::time::Duration;

use pannier_core::{ContextKind, Timestamp};
use pannier_policy::{
    Bm25Options, ByKindOptions, CompositeOptions, DecayOptions, FairOptions, KeywordOptions,
    KindWeight, KindsScorer, MetadataTrustOptions, PlacerPolicy, Policy, ProductOptions,
    ScorerPolicy, StepOptions, StepWindow, SumOptions, TierOptions, TieredOptions, WeightedScorer,
};
use serde::{Deserialize, Serialize};

use crate::{Entry, MemoryError, PacketOptions, Section};

/// The policy that selects the entries of a packet, and how the packet shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PacketPolicy {
    /// Every section has a share of what the rules leave, and ranks by the query. Entries that are not whole are listed
    /// with ids.
    #[default]
    Memory,
    /// The formula and the text of the format's specification.
    PacketSeed,
}

impl PacketPolicy {
    /// Returns whether packets have entries of this form.
    pub(crate) fn includes(self, entry: &Entry) -> bool {
        self == Self::Memory || entry.is_specified()
    }

    /// Returns the policy of receipts that do not name one.
    pub(crate) fn of_old_receipts() -> Self {
        Self::PacketSeed
    }

    pub(crate) fn is_seed(&self) -> bool {
        *self == Self::PacketSeed
    }
}

impl FromStr for PacketPolicy {
    type Err = MemoryError;

    fn from_str(name: &str) -> Result<Self, MemoryError> {
        match name {
            "memory" => Ok(Self::Memory),
            "packet-seed" => Ok(Self::PacketSeed),
            _ => Err(MemoryError::UnknownPolicy { name: name.to_owned() }),
        }
    }
}

/// The shares of instructions and of skills, on top of the percentages of other sections.
const SOURCE_SHARES: [(Section, f64); 2] = [(Section::Instructions, 20.0), (Section::Skills, 5.0)];

/// The weight of the query next to recency and keywords, which sum up to at most 2.
const QUERY_WEIGHT: f64 = 4.0;

/// The weight of the open tasks as a query. It is below the smallest difference of two scores, so it only breaks ties.
const TASKS_WEIGHT: f64 = 0.03;

/// The trust in superseded entries.
pub(crate) const SUPERSEDED_TRUST: f64 = 0.5;

/// The number of matched task keywords at which the keyword score reaches 1.
const KEYWORD_SATURATION: usize = 3;

/// Recency scores: maximum age in days, score. Older and undated entries get the last score.
const RECENCY_STEPS: [(u64, f64); 4] = [(8, 1.0), (31, 0.7), (91, 0.4), (92, 0.2)];

/// The minimum share of decisions and of learnings in their common tier, as far as either can use it.
const FLOOR_PERCENT: f64 = 30.0;

/// The part of a share that whole entries may fill if not all fit; titles get the rest.
const FULL_TEXT_PERCENT: f64 = 80.0;

const DAY_SECONDS: u64 = 86_400;

/// Returns the kind of a section's items. Rules never become items: they are in every packet.
pub(crate) fn kind(section: Section) -> Result<ContextKind, MemoryError> {
    let name = match section {
        Section::Constitution => "Rule",
        Section::Tasks => "Task",
        Section::Conventions => "Convention",
        Section::Decisions => "Decision",
        Section::Learnings => "Learning",
        Section::Instructions => "Instruction",
        Section::Skills => "Skill",
    };
    Ok(ContextKind::new(name)?)
}

/// Builds the policy `memory` from the options of a packet and the open tasks.
pub(crate) fn memory_policy(
    options: &PacketOptions,
    keywords: Vec<String>,
    tasks: &str,
) -> Result<Policy, MemoryError> {
    let others = SOURCE_SHARES.iter().filter(|_| !options.sources.is_folder());
    let (query, weight) = match &options.query {
        Some(query) => (query.clone(), QUERY_WEIGHT),
        None => (tasks.to_owned(), TASKS_WEIGHT),
    };
    let fused = |score: ScorerPolicy| -> ScorerPolicy {
        let bm25 = Bm25Options { query: query.clone() }.into();
        let children = [(score, 1.0), (bm25, weight)];
        let children = children.map(|(scorer, weight)| WeightedScorer { scorer, weight });
        CompositeOptions { children: children.into() }.into()
    };
    let trust = MetadataTrustOptions { default_score: 1.0 };
    let score = SumOptions { children: seed_scores(options, keywords) };
    let dated = ProductOptions { children: vec![fused(score.into()), trust.into()] };
    let scorers = [
        (Section::Tasks, fused(ScorerPolicy::Priority)),
        (Section::Conventions, fused(ScorerPolicy::Priority)),
        (Section::Decisions, dated.clone().into()),
        (Section::Learnings, dated.into()),
    ];
    let other_scorers =
        others.clone().map(|(section, _)| (*section, fused(ScorerPolicy::Priority)));
    let scorers = scorers.into_iter().chain(other_scorers);
    let kinds = scorers.map(|(section, scorer)| Ok(KindsScorer::new([kind(section)?], scorer)));
    let kinds = kinds.collect::<Result<_, MemoryError>>()?;
    let weights = [
        (Section::Tasks, options.task_percent),
        (Section::Conventions, options.convention_percent),
        (Section::Decisions, options.decision_percent),
        (Section::Learnings, options.learning_percent),
    ];
    let weights = weights.into_iter().chain(others.copied());
    let weights = weights.map(|(section, weight)| Ok(KindWeight { kind: kind(section)?, weight }));
    let weights = weights.collect::<Result<_, MemoryError>>()?;
    Ok(Policy::new([(ByKindOptions { kinds, default: None }, 1.0)])
        .with_name("memory")
        .with_description(
            "A project's memory: a share of the budget for each section, ranked by the query.",
        )
        .with_slicer(FairOptions { weights, full_text_percent: FULL_TEXT_PERCENT })
        .with_placer(PlacerPolicy::Rank)
        .with_deduplication(false))
}

/// Returns the scorers of recency and of keywords.
fn seed_scores(options: &PacketOptions, keywords: Vec<String>) -> Vec<ScorerPolicy> {
    let window = |(days, score)| StepWindow { max_age_secs: (days * DAY_SECONDS) as f64, score };
    vec![
        DecayOptions {
            reference_time: Some(end_of_day(options.now)),
            curve: StepOptions { windows: RECENCY_STEPS.map(window).to_vec() }.into(),
            null_timestamp_score: RECENCY_STEPS[RECENCY_STEPS.len() - 1].1,
        }
        .into(),
        KeywordOptions { keywords, saturation: KEYWORD_SATURATION }.into(),
    ]
}

/// Builds the policy `packet-seed` from the options of a packet and the keywords of the selected tasks.
pub(crate) fn seed_policy(
    options: &PacketOptions,
    keywords: Vec<String>,
) -> Result<Policy, MemoryError> {
    let (tasks, conventions) = (kind(Section::Tasks)?, kind(Section::Conventions)?);
    let scored = vec![kind(Section::Decisions)?, kind(Section::Learnings)?];
    let mut relevance = seed_scores(options, keywords);
    let bm25 = options.query.clone().map(|query| Bm25Options { query });
    relevance.extend(bm25.map(ScorerPolicy::from));
    let relevance = SumOptions { children: relevance };
    // Superseded entries have trust 0, so they score 0.
    let trust = MetadataTrustOptions { default_score: 1.0 };
    let relevance = ProductOptions { children: vec![relevance.into(), trust.into()] };
    let tier = |kind: &ContextKind, cap| TierOptions { cap, ..TierOptions::new([kind.clone()]) };
    let tiers = vec![
        tier(&tasks, options.task_percent),
        tier(&conventions, options.convention_percent),
        TierOptions {
            floor: FLOOR_PERCENT,
            drop_zero_score: true,
            ..TierOptions::new(scored.clone())
        },
    ];
    let kinds = vec![
        KindsScorer::new([tasks], ScorerPolicy::Priority),
        KindsScorer::new([conventions], ScorerPolicy::Priority),
        KindsScorer::new(scored, relevance),
    ];
    Ok(Policy::new([(ByKindOptions { kinds, default: None }, 1.0)])
        .with_name("packet")
        .with_description("What a project remembers: tasks, conventions, decisions, learnings.")
        .with_slicer(TieredOptions { tiers, full_text_percent: FULL_TEXT_PERCENT })
        .with_placer(PlacerPolicy::Rank)
        .with_deduplication(false))
}

/// Returns the last second of the day in UTC. Ages measured from there count whole days between dates, regardless of the
/// hour.
fn end_of_day(now: Timestamp) -> Timestamp {
    let day = Duration::from_secs(DAY_SECONDS).as_nanos() as i128;
    let days = now.unix_nanoseconds().div_euclid(day);
    let last = (days + 1) * i128::from(DAY_SECONDS) - 1;
    // The seconds of all timestamps fit into an i64. The end of the last representable day may not be a timestamp.
    Timestamp::from_unix_seconds(last as i64).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_day_is_the_last_second_in_utc() {
        let end = |text: &str| end_of_day(text.parse().unwrap()).to_string();
        assert_eq!(end("2026-11-16T00:00:00Z"), "2026-11-16T23:59:59Z");
        assert_eq!(end("2026-11-16T23:59:59.5Z"), "2026-11-16T23:59:59Z");
        assert_eq!(end("1969-12-31T05:00:00Z"), "1969-12-31T23:59:59Z");
    }

    /// Returns a policy without its times and queries, which depend on the run.
    fn template(policy: &Policy) -> serde_json::Value {
        fn clear(value: &mut serde_json::Value) {
            match value {
                serde_json::Value::Object(fields) => {
                    fields.remove("reference_time");
                    fields.values_mut().for_each(clear);
                }
                serde_json::Value::Array(values) => values.iter_mut().for_each(clear),
                _ => {}
            }
        }
        let mut value = serde_json::to_value(policy).unwrap();
        clear(&mut value);
        let fields = value.as_object_mut().unwrap();
        fields.remove("name");
        fields.remove("description");
        value
    }

    #[test]
    fn presets_are_the_policies_of_packets() {
        let options = PacketOptions::new("2026-11-16T00:00:00Z".parse().unwrap());
        let memory = memory_policy(&options, Vec::new(), "").unwrap();
        let seed = seed_policy(&options, Vec::new()).unwrap();
        for (name, policy) in [("packet-seed", seed), ("memory", memory)] {
            let registry = pannier_policy::PolicyRegistry::default();
            let preset = registry.policy(name).ok().map(template);
            assert_eq!(
                preset,
                Some(template(&policy)),
                "{}",
                serde_json::to_string(&policy).unwrap()
            );
        }
    }
}
