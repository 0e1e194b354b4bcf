//! Knapsacks: the exact one, which the peer refuses, and the coarse one.

use std::collections::HashMap;

use cupel::Slicer as _;
use pannier_core::{Candidate, ContextItem, KnapsackSlice, ScoredItem, SliceBudget, Slicer};

use crate::measure::{median, mebibytes, peak_memory, ratio, show};
use crate::pools::Numbers;

const ITEMS: usize = 10_000;
const TARGET: i64 = 128_000;

pub(crate) fn run() {
    println!("Knapsack, {ITEMS} items, {TARGET} tokens. A cell is one item at one capacity; cells are");
    println!("counted as if all of them were computed. Memory is the peak beyond the input.\n");
    println!(
        "{:>34} {:>11} {:>11} {:>10} {:>10}",
        "", "time", "ps/cell", "MiB", "value"
    );
    let varied = pool(|numbers| (20 + numbers.below(500) as i64, numbers.unit()));
    // Worth by weight: nothing can be proven beforehand, and the whole table is computed.
    let stubborn = pool(|numbers| {
        let tokens = 20 + numbers.below(500) as i64;
        (tokens, tokens as f64 / 1_000.0)
    });

    let exact = report("pannier, bucket 1", &varied, 1, None);
    report("pannier, bucket 1, worst case", &stubborn, 1, None);
    let coarse = report("pannier, bucket 100", &varied, 100, None);
    report("pannier, bucket 100, worst case", &stubborn, 100, None);
    let peer = report_peer("cupel, bucket 100", &varied);
    let refused = cupel::KnapsackSlice::new(1)
        .and_then(|slicer| slicer.slice(&peer_candidates(&varied), &peer_budget()))
        .is_err();
    println!("{:>34} {:>11}\n", "cupel, bucket 1", if refused { "refused" } else { "not refused" });

    println!("  a cell at bucket 1 costs {:.3} of cupel's at bucket 100", exact.cell / peer.cell);
    println!(
        "  at bucket 100: {:.1}x faster, {:.3} of the memory\n",
        ratio(peer.time, coarse.time),
        coarse.bytes as f64 / peer.bytes as f64
    );
}

struct Figures {
    time: std::time::Duration,
    cell: f64,
    bytes: usize,
}

/// Items and their scores, best first.
fn pool(mut next: impl FnMut(&mut Numbers) -> (i64, f64)) -> Vec<(ContextItem, f64)> {
    let mut numbers = Numbers::new(11);
    let mut pool: Vec<_> = (0..ITEMS)
        .map(|i| {
            let (tokens, score) = next(&mut numbers);
            (ContextItem::new(format!("item {i}"), tokens).expect("it is valid"), score)
        })
        .collect();
    pool.sort_by(|a, b| b.1.total_cmp(&a.1));
    pool
}

fn report(
    name: &str,
    pool: &[(ContextItem, f64)],
    bucket: i64,
    check: Option<&[u32]>,
) -> Figures {
    let candidates: Vec<Candidate<'_>> =
        pool.iter().map(|(item, score)| ScoredItem { item, score: *score }.into()).collect();
    let budget = SliceBudget { max_tokens: TARGET, target_tokens: TARGET };
    let slicer = KnapsackSlice::new(bucket).expect("it is valid");
    let outcome = slicer.slice(&candidates, budget).expect("it fits");
    if let Some(check) = check {
        assert_eq!(outcome.taken(), check);
    }
    let value: f64 = outcome.taken().iter().map(|taken| pool[*taken as usize].1).sum();
    let bytes = peak_memory(|| slicer.slice(&candidates, budget));
    let time = median(3, || slicer.slice(&candidates, budget));
    figures(name, time, bytes, bucket, value)
}

fn peer_candidates(pool: &[(ContextItem, f64)]) -> Vec<cupel::ScoredItem> {
    pool.iter()
        .map(|(item, score)| cupel::ScoredItem {
            item: cupel::ContextItemBuilder::new(item.content(), item.tokens())
                .build()
                .expect("it is valid"),
            score: *score,
        })
        .collect()
}

fn peer_budget() -> cupel::ContextBudget {
    cupel::ContextBudget::new(TARGET, TARGET, 0, HashMap::new(), 0.0).expect("it is valid")
}

fn report_peer(name: &str, pool: &[(ContextItem, f64)]) -> Figures {
    let (candidates, budget) = (peer_candidates(pool), peer_budget());
    let slicer = cupel::KnapsackSlice::new(100).expect("it is valid");
    let selected = slicer.slice(&candidates, &budget).expect("it fits");
    // Both must have chosen the same items.
    let ours = {
        let candidates: Vec<Candidate<'_>> =
            pool.iter().map(|(item, score)| ScoredItem { item, score: *score }.into()).collect();
        let budget = SliceBudget { max_tokens: TARGET, target_tokens: TARGET };
        let slicer = KnapsackSlice::new(100).expect("it is valid");
        slicer.slice(&candidates, budget).expect("it fits")
    };
    let mut contents: Vec<_> = selected.iter().map(cupel::ContextItem::content).collect();
    let mut our_contents: Vec<_> =
        ours.taken().iter().map(|taken| pool[*taken as usize].0.content()).collect();
    contents.sort_unstable();
    our_contents.sort_unstable();
    assert_eq!(our_contents, contents, "both must choose the same items");

    let score_of: HashMap<&str, f64> =
        pool.iter().map(|(item, score)| (item.content(), *score)).collect();
    let value = contents.iter().map(|content| score_of[content]).sum();
    let bytes = peak_memory(|| slicer.slice(&candidates, &budget));
    let time = median(3, || slicer.slice(&candidates, &budget));
    figures(name, time, bytes, 100, value)
}

fn figures(
    name: &str,
    time: std::time::Duration,
    bytes: usize,
    bucket: i64,
    value: f64,
) -> Figures {
    let cells = ITEMS as f64 * (TARGET / bucket) as f64;
    let cell = time.as_secs_f64() / cells;
    println!(
        "{:>34} {:>11} {:>11.1} {:>10.1} {:>10.2}",
        name,
        show(time),
        cell * 1e12,
        mebibytes(bytes),
        value
    );
    Figures { time, cell, bytes }
}
