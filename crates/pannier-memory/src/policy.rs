//! Which parts of the engine make a packet.
//!
//! Tasks come before conventions, and those before decisions and learnings, which share what is left. The newest tasks
//! and the first conventions are taken; decisions and learnings by how recent they are and how much they have to do with
//! the tasks.

use std::time::Duration;

use pannier_core::{ContextKind, Deduplication, OverflowStrategy, Tier, Timestamp};
use pannier_policy::{CurvePolicy, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};

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
        let mut relevance = vec![ScorerPolicy::Decay {
            reference_time: Some(end_of_day(self.now)),
            curve: CurvePolicy::Step {
                windows: RECENCY.map(|(days, score)| ((days * DAY) as f64, score)).to_vec(),
            },
            null_timestamp_score: RECENCY[RECENCY.len() - 1].1,
        }];
        let keywords = self.keywords.clone();
        relevance.push(ScorerPolicy::Keyword { keywords, enough: ENOUGH_KEYWORDS });
        relevance.extend(self.query.map(|query| ScorerPolicy::Lexical { query: query.to_owned() }));
        let relevance = ScorerPolicy::Sum { children: relevance };
        // What is superseded is not to be trusted at all, and so scores 0.
        let trust = ScorerPolicy::MetadataTrust { default_score: 1.0 };
        let relevance = ScorerPolicy::Product { children: vec![relevance, trust] };
        let tier =
            |kind: &ContextKind, cap_percent| Tier { cap_percent, ..Tier::new([kind.clone()]) };
        let tiers = vec![
            tier(&tasks, self.task_percent),
            tier(&conventions, self.convention_percent),
            Tier {
                floor_percent: FLOOR_PERCENT,
                drop_worthless: true,
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
            slicer: SlicerPolicy::Tiered { tiers, whole_percent: WHOLE_PERCENT },
            placer: PlacerPolicy::Taken,
            deduplication: Deduplication::Off,
            overflow_strategy: OverflowStrategy::Throw,
            ..Policy::new([(by_kind, 1.0)])
        })
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
