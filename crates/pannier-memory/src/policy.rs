//! The policy of packets.
//!
//! Tasks form the first tier, conventions the second; decisions and learnings share the remaining budget. Tasks rank by
//! recency, conventions by file order, decisions and learnings by recency plus keyword matches with the selected tasks.

use std::time::Duration;

use pannier_core::{ContextKind, Timestamp};
use pannier_policy::{
    Bm25Options, ByKindOptions, DecayOptions, KeywordOptions, KindsScorer, MetadataTrustOptions,
    PlacerPolicy, Policy, ProductOptions, ScorerPolicy, StepOptions, StepWindow, SumOptions,
    TierOptions, TieredOptions,
};

use crate::{MemoryError, PacketOptions, Section};

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
    };
    Ok(ContextKind::new(name)?)
}

/// Builds the policy from the options of a packet and the keywords of the selected tasks.
pub(crate) fn packet_policy(
    options: &PacketOptions,
    keywords: Vec<String>,
) -> Result<Policy, MemoryError> {
    let (tasks, conventions) = (kind(Section::Tasks)?, kind(Section::Conventions)?);
    let scored = vec![kind(Section::Decisions)?, kind(Section::Learnings)?];
    let window = |(days, score)| StepWindow { max_age_secs: (days * DAY_SECONDS) as f64, score };
    let mut relevance: Vec<ScorerPolicy> = vec![
        DecayOptions {
            reference_time: Some(end_of_day(options.now)),
            curve: StepOptions { windows: RECENCY_STEPS.map(window).to_vec() }.into(),
            null_timestamp_score: RECENCY_STEPS[RECENCY_STEPS.len() - 1].1,
        }
        .into(),
        KeywordOptions { keywords, saturation: KEYWORD_SATURATION }.into(),
    ];
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
}
