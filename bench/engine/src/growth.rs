//! How the time of a run grows with the pool, where every part of it that could be quadratic is large.
//!
//! A time of `n log n` keeps the last column at 1. A little more is the cache: 1,000 items fit it, 100,000 do not.

use std::time::{Duration, Instant};

use pannier_core::score::{
    ByKindScorer, FrequencyScorer, KindScorer, PriorityScorer, ReflexiveScorer, TagScorer,
};
use pannier_core::slice::{
    CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, GreedySlice, KnapsackSlice,
    Quota, QuotaSlice, ScarcityBehavior,
};
use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};

use crate::Numbers;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// Prints the time of each case for each size, and its growth against `n log n`.
pub(crate) fn print() {
    println!("{:<52} {:>9} {:>9} {:>9}   growth / (n log n)", "case", 1_000, 10_000, 100_000);
    for (name, build) in CASES {
        let times = SIZES.map(|count| {
            let (pipeline, items) = build(count);
            let budget = ContextBudget::new(128_000, 128_000).expect("the budget is valid");
            best_time(|| pipeline.run(&items, &budget).expect("the run succeeds").len())
        });
        let steps = SIZES.map(|count| count as f64 * (count as f64).log2());
        let growth = |last: usize| {
            let ratio = times[last].as_secs_f64() / times[last - 1].as_secs_f64();
            ratio / (steps[last] / steps[last - 1])
        };
        let [a, b, c] = times.map(|time| format!("{:.2} ms", time.as_secs_f64() * 1e3));
        println!("{name:<52} {a:>9} {b:>9} {c:>9}   {:>6.2} {:>6.2}", growth(1), growth(2));
    }
}

/// The shortest time of several runs: other processes only add to a time.
fn best_time(run: impl Fn() -> usize) -> Duration {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while best == Duration::MAX || start.elapsed() < Duration::from_millis(500) {
        let run_start = Instant::now();
        std::hint::black_box(run());
        best = best.min(run_start.elapsed());
    }
    best
}

type Case = fn(usize) -> (Pipeline, Vec<ContextItem>);

const CASES: [(&str, Case); 10] = [
    ("plain: hints, greedy", |n| (hints().build(), kinds(n))),
    ("kind scorer, n/10 kinds", |n| {
        let weights = all_kinds(n).enumerate().map(|(i, kind)| (kind, i as f64));
        let scorer = KindScorer::new(weights).expect("the weights are valid");
        (Pipeline::builder(scorer).build(), kinds(n))
    }),
    ("scorers by kind, n/10 kinds", |n| {
        let scorer = all_kinds(n)
            .fold(ByKindScorer::builder(), |builder, kind| builder.kind(kind, PriorityScorer))
            .build();
        (Pipeline::builder(scorer.expect("the kinds differ")).build(), kinds(n))
    }),
    ("quotas, n/10 kinds", |n| {
        let quota = |kind| Quota { kind, require_percent: 0.0, cap_percent: 10.0 };
        let slicer = QuotaSlice::new(all_kinds(n).map(quota), GreedySlice);
        (hints().slicer(slicer.expect("the quotas are valid")).build(), kinds(n))
    }),
    ("required counts, n/10 kinds, all met", |n| {
        let slicer = CountQuotaSlice::new(entries(n, 1), GreedySlice, ScarcityBehavior::Degrade);
        (cheap(hints().slicer(slicer.expect("greedy goes by score"))), kinds(n))
    }),
    ("required counts, n/10 kinds, all short", |n| {
        let slicer =
            CountQuotaSlice::new(entries(n, 1_000), GreedySlice, ScarcityBehavior::Degrade);
        (cheap(hints().slicer(slicer.expect("greedy goes by score"))), kinds(n))
    }),
    ("required counts and knapsack, n/10 kinds, all short", |n| {
        let knapsack = KnapsackSlice::default();
        let slicer = CountConstrainedKnapsackSlice::new(
            entries(n, 1_000),
            knapsack,
            ScarcityBehavior::Degrade,
        );
        (cheap(hints().slicer(slicer.expect("the kinds differ"))), kinds(n))
    }),
    ("tag scorer, thirty of n/10 tags an item", |n| {
        let weights = (0..n / 10).map(|tag| (format!("tag-{tag}"), 1.0));
        let scorer = TagScorer::new(weights).expect("the weights are valid");
        (Pipeline::builder(scorer).build(), tagged(n, 30))
    }),
    ("frequency scorer, six of n/10 tags an item", |n| {
        (Pipeline::builder(FrequencyScorer).build(), tagged(n, 6))
    }),
    ("frequency scorer, thirty of n/10 tags an item", |n| {
        (Pipeline::builder(FrequencyScorer).build(), tagged(n, 30))
    }),
];

fn hints() -> pannier_core::PipelineBuilder {
    Pipeline::builder(ReflexiveScorer)
}

/// Required items may exceed the target.
fn cheap(builder: pannier_core::PipelineBuilder) -> Pipeline {
    builder.overflow_strategy(pannier_core::item::OverflowStrategy::Truncate).build()
}

fn all_kinds(count: usize) -> impl Iterator<Item = ContextKind> {
    (0..count / 10).map(|i| ContextKind::new(format!("kind-{i}")).expect("the kind is valid"))
}

fn entries(count: usize, required: usize) -> impl Iterator<Item = CountQuotaEntry> {
    all_kinds(count)
        .map(move |kind| CountQuotaEntry::new(kind, required, 2_000).expect("the cap is larger"))
}

/// Items of `count / 10` kinds.
fn kinds(count: usize) -> Vec<ContextItem> {
    let all: Vec<ContextKind> = all_kinds(count).collect();
    let mut numbers = Numbers(count as u64);
    let mut item = |index: usize| {
        let kind = all[numbers.below(all.len() as u64) as usize].clone();
        let item = ContextItem::builder(format!("content {index}"), 1 + numbers.below(60) as i64);
        let item = item.kind(kind).priority(numbers.below(1 << 20) as i64);
        item.future_relevance_hint(numbers.unit()).build().expect("the item is valid")
    };
    (0..count).map(&mut item).collect()
}

/// Items with some of `count / 10` tags, in lists that mostly differ.
fn tagged(count: usize, tags: usize) -> Vec<ContextItem> {
    let mut numbers = Numbers(count as u64);
    let mut item = |index: usize| {
        let tags: Vec<String> =
            (0..tags).map(|_| format!("tag-{}", numbers.below(count as u64 / 10))).collect();
        let item = ContextItem::builder(format!("content {index}"), 1 + numbers.below(60) as i64);
        item.tags(tags).build().expect("the item is valid")
    };
    (0..count).map(&mut item).collect()
}
