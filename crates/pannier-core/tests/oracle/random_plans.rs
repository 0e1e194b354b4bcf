//! Random configurations, in which every part occurs inside every other that takes it.

use pannier_core::item::OverflowStrategy;
use pannier_core::slice::{CountQuotaEntry, Quota, ScarcityBehavior};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::plan::{CurvePlan, PipelinePlan, PlacerPlan, ScorerPlan, SlicerPlan};
use super::pools::{TAGS, kind};

/// No two of them the same kind, and spelled unlike those of the pools; the last is in no pool.
const KINDS: &[&str] = &["MESSAGE", "document", "LOG", "Nowhere"];

fn weight() -> impl Strategy<Value = f64> {
    select(&[0.1, 0.3, 1.0, 1.0, 2.0, 7.0][..])
}

/// A weight for some of these names, 0 among them.
fn weights(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, f64)>> {
    let one = select(&[0.0, 0.2, 0.5, 1.0, 1.7][..]);
    (subsequence(names, 0..=names.len()), vec(one, names.len()))
        .prop_map(|(names, weights)| names.into_iter().zip(weights).collect())
}

fn default_score() -> impl Strategy<Value = f64> {
    select(&[0.0, 0.5, 0.8][..])
}

pub(crate) fn kind_scorer() -> impl Strategy<Value = ScorerPlan> {
    weights(KINDS).prop_map(ScorerPlan::Kind)
}

pub(crate) fn tag_scorer() -> impl Strategy<Value = ScorerPlan> {
    weights(TAGS).prop_map(|weights| ScorerPlan::Tag { weights, fold_case: false })
}

pub(crate) fn folded_tag_scorer() -> impl Strategy<Value = ScorerPlan> {
    weights(&["RUST", "async", "é", "É"])
        .prop_map(|weights| ScorerPlan::Tag { weights, fold_case: true })
}

pub(crate) fn trust_scorer() -> impl Strategy<Value = ScorerPlan> {
    default_score().prop_map(|default_score| ScorerPlan::MetadataTrust { default_score })
}

pub(crate) fn key_scorer() -> impl Strategy<Value = ScorerPlan> {
    let value = select(&["high", "1", "true", "1.5"][..]);
    (value, weight()).prop_map(|(value, boost)| ScorerPlan::MetadataKey {
        key: "cupel:priority",
        value,
        boost,
    })
}

pub(crate) fn keyword_scorer() -> impl Strategy<Value = ScorerPlan> {
    const KEYWORDS: &[&str] = &[
        "alpha",
        "Alpha.",
        "text",
        "7",
        "Größe",
        "ΑΣ",
        "b_c",
        "auth/login.rs",
        "login",
        "two words",
        "…",
        "İ",
    ];
    (subsequence(KEYWORDS, 0..=KEYWORDS.len()).prop_shuffle(), 1..5_usize)
        .prop_map(|(keywords, enough)| ScorerPlan::Keyword { keywords, enough })
}

pub(crate) fn lexical_scorer() -> impl Strategy<Value = ScorerPlan> {
    let queries = &[
        "",
        "the how",
        "nowhere",
        "alpha",
        "text 7 text",
        "Alphas, \"two words\" of auth",
        "ing_ing authLogin b_c größe",
        "ΑΣ i login rs login",
    ];
    select(&queries[..]).prop_map(ScorerPlan::Lexical)
}

fn decay_scorer(curve: impl Strategy<Value = CurvePlan>) -> impl Strategy<Value = ScorerPlan> {
    (curve, default_score())
        .prop_map(|(curve, null_timestamp_score)| ScorerPlan::Decay { curve, null_timestamp_score })
}

/// One of each curve, with times that are the very ages of some items.
pub(crate) fn decay_scorers() -> impl Strategy<Value = [ScorerPlan; 3]> {
    const HOUR: u64 = 3600;
    let time = || select(&[1, 6 * HOUR, 24 * HOUR, 72 * HOUR][..]);
    let windows = vec![(6 * HOUR, 0.9), (24 * HOUR, 0.5), (72 * HOUR, 0.1), (96 * HOUR, 0.6)];
    let windows = subsequence(windows, 1..=4);
    [
        decay_scorer(time().prop_map(|half_life| CurvePlan::Exponential { half_life })).boxed(),
        decay_scorer(time().prop_map(|max_age| CurvePlan::Window { max_age })).boxed(),
        decay_scorer(windows.prop_map(|windows| CurvePlan::Step { windows })).boxed(),
    ]
}

/// Any scorer that has no children.
fn simple_scorer() -> impl Strategy<Value = ScorerPlan> {
    prop_oneof![
        Just(ScorerPlan::Recency),
        Just(ScorerPlan::Priority),
        Just(ScorerPlan::DefaultKind),
        kind_scorer(),
        tag_scorer(),
        folded_tag_scorer(),
        Just(ScorerPlan::Frequency),
        Just(ScorerPlan::Reflexive),
        Just(ScorerPlan::RawHint),
        trust_scorer(),
        (decay_scorers(), 0..3_usize).prop_map(|(scorers, choice)| scorers[choice].clone()),
        key_scorer(),
        keyword_scorer(),
        lexical_scorer(),
    ]
}

fn composite(depth: u32) -> impl Strategy<Value = ScorerPlan> {
    vec((scorer(depth), weight()), 1..4).prop_map(ScorerPlan::Composite)
}

fn scaled(depth: u32) -> impl Strategy<Value = ScorerPlan> {
    scorer(depth).prop_map(|inner| ScorerPlan::Scaled(Box::new(inner)))
}

fn product(depth: u32) -> impl Strategy<Value = ScorerPlan> {
    vec(scorer(depth), 1..4).prop_map(ScorerPlan::Product)
}

fn sum(depth: u32) -> impl Strategy<Value = ScorerPlan> {
    vec(scorer(depth), 1..4).prop_map(ScorerPlan::Sum)
}

/// The kinds cut in two, so that some scorers have several.
fn by_kind(depth: u32) -> impl Strategy<Value = ScorerPlan> {
    let kinds = subsequence(KINDS, 2..=KINDS.len());
    let otherwise = option::of(scorer(depth).prop_map(Box::new));
    (kinds, 1..KINDS.len(), vec(scorer(depth), 2), otherwise).prop_map(
        |(mut first, cut, children, otherwise)| {
            let second = first.split_off(cut.min(first.len() - 1));
            let entries = [first, second].into_iter().zip(children).collect();
            ScorerPlan::ByKind(entries, otherwise)
        },
    )
}

/// One of each scorer that has children, with children down to this depth.
pub(crate) fn nested_scorers(depth: u32) -> impl Strategy<Value = [ScorerPlan; 5]> {
    [
        composite(depth).boxed(),
        scaled(depth).boxed(),
        product(depth).boxed(),
        sum(depth).boxed(),
        by_kind(depth).boxed(),
    ]
}

/// Any scorer, with children down to this depth.
fn scorer(depth: u32) -> BoxedStrategy<ScorerPlan> {
    let Some(below) = depth.checked_sub(1) else {
        return simple_scorer().boxed();
    };
    prop_oneof![
        2 => simple_scorer(),
        2 => composite(below),
        1 => scaled(below),
        1 => product(below),
        1 => sum(below),
        1 => by_kind(below),
    ]
    .boxed()
}

fn quotas() -> impl Strategy<Value = Vec<Quota>> {
    let share = (
        select(&[0.0, 0.0, 10.0, 20.5, 25.0][..]),
        select(&[0.0, 15.0, 33.3, 60.0, 100.0, 100.0][..]),
    );
    let names = subsequence(KINDS, 0..=KINDS.len());
    let some = (names, vec(share, KINDS.len())).prop_map(|(names, shares)| {
        names
            .into_iter()
            .zip(shares)
            .map(|(name, (require, cap))| Quota {
                kind: kind(name),
                require_percent: require,
                cap_percent: f64::max(require, cap),
            })
            .collect()
    });
    let all = select(KINDS).prop_map(|name| {
        vec![Quota { kind: kind(name), require_percent: 100.0, cap_percent: 100.0 }]
    });
    prop_oneof![9 => some, 1 => all]
}

fn entries() -> impl Strategy<Value = Vec<CountQuotaEntry>> {
    let names = subsequence(KINDS, 0..=KINDS.len());
    let counts = (0..4_usize, 0..3_usize);
    (names, vec(counts, KINDS.len())).prop_map(|(names, counts)| {
        names
            .into_iter()
            .zip(counts)
            .map(|(name, (require, more))| {
                CountQuotaEntry::new(kind(name), require, require + more).unwrap()
            })
            .collect()
    })
}

fn scarcity() -> impl Strategy<Value = ScarcityBehavior> {
    prop_oneof![
        3 => Just(ScarcityBehavior::Degrade),
        1 => Just(ScarcityBehavior::Throw),
    ]
}

fn bucket_size() -> impl Strategy<Value = i64> {
    select(&[1_i64, 7, 100][..])
}

pub(crate) fn knapsack() -> impl Strategy<Value = SlicerPlan> {
    bucket_size().prop_map(|bucket_size| SlicerPlan::Knapsack { bucket_size })
}

/// A quota around a slicer.
pub(crate) fn quota(inner: BoxedStrategy<SlicerPlan>) -> impl Strategy<Value = SlicerPlan> {
    (quotas(), inner)
        .prop_map(|(quotas, inner)| SlicerPlan::Quota { quotas, inner: Box::new(inner) })
}

pub(crate) fn any_quota() -> impl Strategy<Value = SlicerPlan> {
    let simple = prop_oneof![Just(SlicerPlan::Greedy), knapsack()].boxed();
    let nested = quota(simple.clone()).boxed();
    quota(prop_oneof![2 => simple, 1 => nested].boxed())
}

pub(crate) fn count_quota() -> impl Strategy<Value = SlicerPlan> {
    let greedy = Just(SlicerPlan::Greedy).boxed();
    let inner = prop_oneof![2 => greedy.clone(), 1 => quota(greedy)];
    (entries(), inner, scarcity()).prop_map(|(entries, inner, scarcity)| SlicerPlan::CountQuota {
        entries,
        inner: Box::new(inner),
        scarcity,
    })
}

pub(crate) fn count_constrained_knapsack() -> impl Strategy<Value = SlicerPlan> {
    (entries(), bucket_size(), scarcity()).prop_map(|(entries, bucket_size, scarcity)| {
        SlicerPlan::CountConstrainedKnapsack { entries, bucket_size, scarcity }
    })
}

pub(crate) fn slicer() -> impl Strategy<Value = SlicerPlan> {
    prop_oneof![
        Just(SlicerPlan::Greedy),
        knapsack(),
        any_quota(),
        count_quota(),
        count_constrained_knapsack(),
    ]
}

pub(crate) fn placer() -> impl Strategy<Value = PlacerPlan> {
    select(&[PlacerPlan::Chronological, PlacerPlan::UShaped, PlacerPlan::Rank][..])
}

pub(crate) fn pipeline() -> impl Strategy<Value = PipelinePlan> {
    let strategy = select(
        &[OverflowStrategy::Throw, OverflowStrategy::Truncate, OverflowStrategy::Proceed][..],
    );
    let flags = (prop::bool::ANY, prop::bool::ANY);
    (scorer(2), slicer(), placer(), strategy, flags).prop_map(
        |(scorer, slicer, placer, overflow_strategy, (deduplication, keep_groups_together))| {
            PipelinePlan {
                scorer,
                slicer,
                placer,
                deduplication,
                overflow_strategy,
                keep_groups_together,
            }
        },
    )
}
