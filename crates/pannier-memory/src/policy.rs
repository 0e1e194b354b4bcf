//! The policy of packets.
//!
//! Tasks form the first tier, conventions the second; decisions and learnings share the remaining budget. Tasks rank by
//! recency, conventions by file order, decisions and learnings by recency plus keyword matches with the selected tasks.

use std::time::Duration;

use pannier_core::{ContextKind, Deduplication, OverflowStrategy, Tier, Timestamp};
use pannier_policy::{CurvePolicy, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};

use crate::{MemoryError, Section};

/// The number of matched task keywords at which the keyword score reaches 1.
const KEYWORD_SATURATION: usize = 3;

/// Recency scores: maximum age in days, score. Older and undated entries get the last score.
const RECENCY_STEPS: [(u64, f64); 4] = [(8, 1.0), (31, 0.7), (91, 0.4), (92, 0.2)];

/// The minimum share of decisions and of learnings in their common tier, as far as either can use it.
const FLOOR_PERCENT: f64 = 30.0;

/// The part of a share that whole entries may fill if not all fit; titles get the rest.
const FULL_TEXT_PERCENT: f64 = 80.0;

const DAY_SECONDS: u64 = 86_400;

/// The inputs of the policy, apart from entries and budget.
pub(crate) struct PacketPolicyInputs<'c> {
    pub(crate) task_percent: f64,
    pub(crate) convention_percent: f64,
    /// The keywords of the selected tasks.
    pub(crate) keywords: Vec<String>,
    pub(crate) query: Option<&'c str>,
    pub(crate) now: Timestamp,
}

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

impl PacketPolicyInputs<'_> {
    pub(crate) fn policy(&self) -> Result<Policy, MemoryError> {
        let (tasks, conventions) = (kind(Section::Tasks)?, kind(Section::Conventions)?);
        let scored = vec![kind(Section::Decisions)?, kind(Section::Learnings)?];
        let mut relevance = vec![ScorerPolicy::Decay {
            reference_time: Some(end_of_day(self.now)),
            curve: CurvePolicy::Step {
                windows: RECENCY_STEPS
                    .map(|(days, score)| ((days * DAY_SECONDS) as f64, score))
                    .to_vec(),
            },
            null_timestamp_score: RECENCY_STEPS[RECENCY_STEPS.len() - 1].1,
        }];
        let keywords = self.keywords.clone();
        relevance.push(ScorerPolicy::Keyword { keywords, enough: KEYWORD_SATURATION });
        relevance.extend(self.query.map(|query| ScorerPolicy::Lexical { query: query.to_owned() }));
        let relevance = ScorerPolicy::Sum { children: relevance };
        // Superseded entries have trust 0, so they score 0.
        let trust = ScorerPolicy::MetadataTrust { default_score: 1.0 };
        let relevance = ScorerPolicy::Product { children: vec![relevance, trust] };
        let tier =
            |kind: &ContextKind, cap_percent| Tier { cap_percent, ..Tier::new([kind.clone()]) };
        let tiers = vec![
            tier(&tasks, self.task_percent),
            tier(&conventions, self.convention_percent),
            Tier {
                floor_percent: FLOOR_PERCENT,
                drop_zero_score: true,
                ..Tier::new(scored.clone())
            },
        ];
        let kinds = vec![
            (vec![tasks], ScorerPolicy::Priority),
            (vec![conventions], ScorerPolicy::Priority),
            (scored, relevance),
        ];
        let by_kind = ScorerPolicy::ByKind { kinds, otherwise: None };
        Ok(Policy {
            name: Some("packet".to_owned()),
            description: Some(
                "What a project remembers: tasks, conventions, decisions, learnings.".to_owned(),
            ),
            slicer: SlicerPolicy::Tiered { tiers, whole_percent: FULL_TEXT_PERCENT },
            placer: PlacerPolicy::Rank,
            deduplication: Deduplication::Off,
            overflow_strategy: OverflowStrategy::Throw,
            ..Policy::new([(by_kind, 1.0)])
        })
    }
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
