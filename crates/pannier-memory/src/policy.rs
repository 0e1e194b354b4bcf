//! Which parts of the engine make a packet.
//!
//! Tasks come before conventions, and those before decisions and learnings, which share what is left. The newest tasks
//! and the first conventions are taken; decisions and learnings by how recent they are and how much they have to do with
//! the tasks.

use std::time::Duration;

use pannier_core::{ContextKind, Timestamp};
use pannier_policy::{
    Bm25Options, ByKindOptions, DecayOptions, KeywordOptions, KindsScorer, MetadataTrustOptions,
    PlacerPolicy, Policy, ProductOptions, ScorerPolicy, StepOptions, StepWindow, SumOptions,
    TierOptions, TieredOptions,
};

use crate::{MemoryError, Section};

/// How many keywords of the tasks make an entry as relevant as can be.
const ENOUGH_KEYWORDS: usize = 3;

/// What entries score that are younger than so many days. What is older than all of them scores as the last.
const RECENCY: [(u64, f64); 4] = [(8, 1.0), (31, 0.7), (91, 0.4), (92, 0.2)];

/// Of what decisions and learnings share, neither gets less than this, in percent, while it can use it.
const FLOOR_PERCENT: f64 = 30.0;

/// Of a share that is too small, whole entries may fill this much before titles, in percent.
const WHOLE_PERCENT: f64 = 80.0;

const DAY: u64 = 86_400;

/// What decides about a packet, besides its entries and its budget.
pub(crate) struct Choice<'c> {
    pub(crate) task_percent: f64,
    pub(crate) convention_percent: f64,
    /// Of the tasks that are in.
    pub(crate) keywords: Vec<String>,
    /// What somebody is about to do, if that is known.
    pub(crate) query: Option<&'c str>,
    pub(crate) now: Timestamp,
}

/// What the entries of a section are to the engine. Rules are none of its business: they are always there.
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

impl Choice<'_> {
    pub(crate) fn policy(&self) -> Result<Policy, MemoryError> {
        let (tasks, conventions) = (kind(Section::Tasks)?, kind(Section::Conventions)?);
        let scored = vec![kind(Section::Decisions)?, kind(Section::Learnings)?];
        let window = |(days, score)| StepWindow { max_age_secs: (days * DAY) as f64, score };
        let mut relevance: Vec<ScorerPolicy> = vec![
            DecayOptions {
                reference_time: Some(end_of_day(self.now)),
                curve: StepOptions { windows: RECENCY.map(window).to_vec() }.into(),
                null_timestamp_score: RECENCY[RECENCY.len() - 1].1,
            }
            .into(),
            KeywordOptions { keywords: self.keywords.clone(), saturation: ENOUGH_KEYWORDS }.into(),
        ];
        let bm25 = self.query.map(|query| Bm25Options { query: query.to_owned() });
        relevance.extend(bm25.map(ScorerPolicy::from));
        let relevance = SumOptions { children: relevance };
        // What is superseded is not to be trusted at all, and so scores 0.
        let trust = MetadataTrustOptions { default_score: 1.0 };
        let relevance = ProductOptions { children: vec![relevance.into(), trust.into()] };
        let tier =
            |kind: &ContextKind, cap| TierOptions { cap, ..TierOptions::new([kind.clone()]) };
        let tiers = vec![
            tier(&tasks, self.task_percent),
            tier(&conventions, self.convention_percent),
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
            .with_slicer(TieredOptions { tiers, full_text_percent: WHOLE_PERCENT })
            .with_placer(PlacerPolicy::SliceOrder)
            .with_deduplication(false))
    }
}

/// The last second of a day in UTC. From there, whole days of age are whole days between two dates: what was written
/// today is less than a day old, whatever the hour.
fn end_of_day(now: Timestamp) -> Timestamp {
    let day = Duration::from_secs(DAY).as_nanos() as i128;
    let days = now.unix_nanoseconds().div_euclid(day);
    let last = (days + 1) * i128::from(DAY) - 1;
    // A timestamp of any year is far within 64 bits of seconds. The last day that there is ends early.
    Timestamp::from_unix_seconds(last as i64).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_with_its_last_second() {
        let end = |text: &str| end_of_day(text.parse().unwrap()).to_string();
        assert_eq!(end("2026-11-16T00:00:00Z"), "2026-11-16T23:59:59Z");
        assert_eq!(end("2026-11-16T23:59:59.5Z"), "2026-11-16T23:59:59Z");
        assert_eq!(end("1969-12-31T05:00:00Z"), "1969-12-31T23:59:59Z");
    }
}
