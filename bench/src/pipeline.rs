//! The whole pipeline: five scorers, greedy, u-shaped, with deduplication.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pannier_core::place::UShapedPlacer;
use pannier_core::report::{DiagnosticTraceCollector, NullTraceCollector, TraceDetailLevel};
use pannier_core::score::{
    CompositeScorer, FrequencyScorer, KindScorer, Pool, PriorityScorer, RecencyScorer, TagScorer,
};
use pannier_core::{ContextBudget, ContextItem, Pipeline, Scorer, Selection};
use xxhash_rust::xxh3::xxh3_64;

use crate::measure::{median, ratio, show, side_by_side};
use crate::pools::{self, tag_weights};

const TARGET: i64 = 128_000;

fn our_pipeline() -> Pipeline {
    let scorer = our_scorers()
        .into_iter()
        .fold(CompositeScorer::builder(), |all, (_, scorer, weight)| all.add(scorer, weight));
    let scorer = scorer.build().expect("the weights are valid");
    Pipeline::builder(scorer).placer(UShapedPlacer).build()
}

fn our_scorers() -> [(&'static str, Box<dyn Scorer>, f64); 5] {
    let tags = TagScorer::new(tag_weights()).expect("the weights are valid");
    [
        ("recency", Box::new(RecencyScorer), 3.0),
        ("priority", Box::new(PriorityScorer), 2.0),
        ("kind", Box::new(KindScorer::default()), 1.0),
        ("tag", Box::new(tags), 1.0),
        ("frequency", Box::new(FrequencyScorer), 1.0),
    ]
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
    println!(
        "Full pipeline: composite of recency 3, priority 2, kind 1, tag 1, frequency 1; greedy;"
    );
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
            same_result(&selection, &expected);
        }
        let (our_time, their_time) = match &peer {
            Some(peer) => {
                let times =
                    side_by_side(|| ours.run(&items, &budget), || theirs.run(peer, &their_budget));
                (times.0, Some(times.1))
            }
            None => (median(5, || ours.run(&items, &budget)), None),
        };
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
        if count == 1_000_000 {
            println!();
            stages(&ours, &items, &budget);
        }
    }
}

/// Both must select the same items and place them alike. Items whose scores are equal to the last
/// bit may change places: the peer merges in the slicer's order, we in the order of the sort stage.
fn same_result(ours: &Selection<'_>, theirs: &[cupel::ContextItem]) {
    let report = ours.report();
    let scores: HashMap<&str, f64> =
        report.included.iter().map(|entry| (entry.item.content(), entry.score)).collect();
    let placed: Vec<f64> = report.included.iter().map(|entry| entry.score).collect();
    let expected: Vec<Option<f64>> =
        theirs.iter().map(|item| scores.get(item.content()).copied()).collect();
    assert!(expected.iter().all(Option::is_some), "both must select the same items");
    let expected: Vec<f64> = expected.into_iter().flatten().collect();
    assert!(placed == expected, "both must place them in the same order");
}

/// Where the time goes.
fn stages(pipeline: &Pipeline, items: &[ContextItem], budget: &ContextBudget) {
    let start = Instant::now();
    let mut collector =
        DiagnosticTraceCollector::new(TraceDetailLevel::Stage).with_clock(move || start.elapsed());
    let run = Instant::now();
    pipeline.run_traced(items, budget, &mut collector).expect("it fits");
    let total = run.elapsed().as_secs_f64() * 1000.0;
    let mut rest = total;
    print!("  of one run over 1,000,000 items:");
    for event in collector.events() {
        print!(" {} {:.0} %,", event.stage, event.duration_ms / total * 100.0);
        rest -= event.duration_ms;
    }
    println!(" sort and the rest {:.0} %", rest / total * 100.0);
    let scored: Vec<(&str, Duration)> = our_scorers()
        .into_iter()
        .map(|(name, scorer, _)| (name, median(3, || Pool::new(items).scores(&scorer))))
        .collect();
    print!("  scorers alone:");
    for (name, time) in scored {
        print!(" {name} {},", show(time));
    }
    println!(" each with its own pool\n");
}

fn run_once(run: impl FnOnce(&Pipeline, &[ContextItem], &ContextBudget) -> usize) {
    let items = pools::ours(&pools::raw(10_000));
    println!("{} selected", run(&our_pipeline(), &items, &our_budget()));
}

pub(crate) fn run_nothing() {
    run_once(|_, items, _| items.len());
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
