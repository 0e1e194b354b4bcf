//! The whole pipeline: five scorers, greedy, u-shaped, with deduplication.

use std::collections::HashMap;
use std::time::Duration;

use pannier_core::{
    CompositeScorer, ContextBudget, ContextItem, FrequencyScorer, KindScorer, NullTraceCollector,
    Pipeline, PriorityScorer, RecencyScorer, TagScorer, UShapedPlacer,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::measure::{median, ratio, show};
use crate::pools::{self, tag_weights};

const TARGET: i64 = 128_000;

fn our_pipeline() -> Pipeline {
    let tags = TagScorer::new(tag_weights()).expect("the weights are valid");
    let scorer = CompositeScorer::builder()
        .add(RecencyScorer, 3.0)
        .add(PriorityScorer, 2.0)
        .add(KindScorer::default(), 1.0)
        .add(tags, 1.0)
        .add(FrequencyScorer, 1.0)
        .build();
    Pipeline::builder(scorer.expect("the weights are valid")).placer(UShapedPlacer).build()
}

fn our_budget() -> ContextBudget {
    ContextBudget::new(TARGET, TARGET).expect("the budget is valid")
}

fn their_pipeline() -> cupel::Pipeline {
    let tags = cupel::TagScorer::new(tag_weights().collect()).expect("the weights are valid");
    let scorer = cupel::CompositeScorer::new(vec![
        (Box::new(cupel::RecencyScorer), 3.0),
        (Box::new(cupel::PriorityScorer), 2.0),
        (Box::new(cupel::KindScorer::with_default_weights()), 1.0),
        (Box::new(tags), 1.0),
        (Box::new(cupel::FrequencyScorer), 1.0),
    ]);
    cupel::Pipeline::builder()
        .scorer(Box::new(scorer.expect("the weights are valid")))
        .slicer(Box::new(cupel::GreedySlice))
        .placer(Box::new(cupel::UShapedPlacer))
        .deduplication(true)
        .build()
        .expect("the pipeline is valid")
}

/// The least that any engine must do: look at every content once, and sort as many numbers.
fn floor(items: &[ContextItem]) -> Duration {
    let mut numbers = pools::Numbers::new(7);
    let pairs: Vec<(f64, u32)> = (0..items.len() as u32).map(|i| (numbers.unit(), i)).collect();
    median(5, || {
        let hashes = items.iter().fold(0, |all, item| all ^ xxh3_64(item.content().as_bytes()));
        let mut pairs = pairs.clone();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (hashes, pairs)
    })
}

pub(crate) fn run() {
    println!("Full pipeline: composite of recency 3, priority 2, kind 1, tag 1, frequency 1; greedy;");
    println!("u-shaped; deduplication on; target {TARGET} tokens. Medians of at least 5 runs.\n");
    println!(
        "{:>9} {:>11} {:>11} {:>9} {:>9} {:>8} {:>11} {:>8}",
        "items", "pannier", "cupel", "ratio", "ns/item", "growth", "floor", "x floor"
    );
    let (ours, budget) = (our_pipeline(), our_budget());
    let theirs = their_pipeline();
    let their_budget =
        cupel::ContextBudget::new(TARGET, TARGET, 0, HashMap::new(), 0.0).expect("it is valid");
    let mut previous: Option<Duration> = None;
    for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let raw = pools::raw(count);
        let items = pools::ours(&raw);
        let peer = (count <= 10_000).then(|| pools::theirs(&raw));
        drop(raw);
        if let Some(peer) = &peer {
            let selection = ours.run(&items, &budget).expect("it fits");
            let expected = theirs.run(peer, &their_budget).expect("it fits");
            let contents: Vec<_> = selection.items().map(ContextItem::content).collect();
            let expected: Vec<_> = expected.iter().map(cupel::ContextItem::content).collect();
            assert_eq!(contents, expected, "both must select the same items in the same order");
        }
        let our_time = median(5, || ours.run(&items, &budget));
        let their_time = peer.as_ref().map(|peer| {
            median(if count < 10_000 { 5 } else { 3 }, || theirs.run(peer, &their_budget))
        });
        let floor = floor(&items);
        println!(
            "{:>9} {:>11} {:>11} {:>9} {:>9.0} {:>8} {:>11} {:>8.2}",
            count,
            show(our_time),
            their_time.map_or("-".to_owned(), show),
            their_time.map_or("-".to_owned(), |time| format!("{:.0}x", ratio(time, our_time))),
            our_time.as_nanos() as f64 / count as f64,
            previous.map_or("-".to_owned(), |time| format!("{:.1}x", ratio(our_time, time))),
            show(floor),
            ratio(our_time, floor),
        );
        previous = Some(our_time);
    }
    println!();
}

fn run_once(run: impl FnOnce(&Pipeline, &[ContextItem], &ContextBudget) -> usize) {
    let items = pools::ours(&pools::raw(10_000));
    println!("{} selected", run(&our_pipeline(), &items, &our_budget()));
}

pub(crate) fn run_plain() {
    run_once(|pipeline, items, budget| pipeline.run(items, budget).expect("it fits").len());
}

pub(crate) fn run_null() {
    run_once(|pipeline, items, budget| {
        let selection = pipeline.run_traced(items, budget, &mut NullTraceCollector);
        selection.expect("it fits").len()
    });
}
