//! Knapsacks: the exact one, which the peer refuses, and the coarse one.

use std::collections::HashMap;
use std::time::Duration;

use cupel::Slicer as _;
use pannier_core::item::{ScoredItem, SliceBudget};
use pannier_core::slice::{KnapsackSlice, Offers, Tally};
use pannier_core::{ContextItem, Slicer};

use crate::measure::{mebibytes, median, peak_memory, ratio, show};
use crate::pools::Numbers;

const ITEMS: usize = 10_000;
const TARGET: i64 = 128_000;

/// Items and their scores, best first.
type ScoredPool = Vec<(ContextItem, f64)>;

pub(crate) fn run() {
    println!(
        "Knapsack, {ITEMS} items, {TARGET} tokens. A cell is one item at one capacity; cells are"
    );
    println!("counted as if all of them were computed. Memory is the peak beyond the input.\n");
    println!("{:>34} {:>11} {:>11} {:>10} {:>10}", "", "time", "ps/cell", "MiB", "value");
    let varied = pool(|numbers| (20 + numbers.below(500) as i64, numbers.unit()));
    // Worth by weight: nothing can be proven beforehand, and the whole table is computed.
    let stubborn = pool(|numbers| {
        let tokens = 20 + numbers.below(500) as i64;
        (tokens, tokens as f64 / 1_000.0)
    });

    let exact = ours("pannier, bucket 1", &varied, 1);
    let worst = ours("pannier, bucket 1, worst case", &stubborn, 1);
    let coarse = ours("pannier, bucket 100", &varied, 100);
    let worst_coarse = ours("pannier, bucket 100, worst case", &stubborn, 100);
    let peer = theirs("cupel, bucket 100", &varied);
    let refused = cupel::KnapsackSlice::new(1)
        .and_then(|slicer| slicer.slice(&peer_candidates(&varied), &peer_budget()))
        .is_err();
    println!("{:>34} {:>11}\n", "cupel, bucket 1", if refused { "refused" } else { "not refused" });

    println!(
        "  a cell at bucket 1 costs {:.4} of cupel's at bucket 100, in the worst case {:.2}",
        exact.cell / peer.cell,
        worst.cell / peer.cell
    );
    println!(
        "  at bucket 100: {:.1}x faster with {:.3} of the memory, in the worst case {:.1}x with {:.3}\n",
        ratio(peer.time, coarse.time),
        coarse.bytes as f64 / peer.bytes as f64,
        ratio(peer.time, worst_coarse.time),
        worst_coarse.bytes as f64 / peer.bytes as f64,
    );
}

struct Figures {
    time: Duration,
    cell: f64,
    bytes: usize,
}

fn pool(mut next: impl FnMut(&mut Numbers) -> (i64, f64)) -> ScoredPool {
    let mut numbers = Numbers::new(11);
    let mut pool: ScoredPool = (0..ITEMS)
        .map(|i| {
            let (tokens, score) = next(&mut numbers);
            (ContextItem::new(format!("item {i}"), tokens).expect("it is valid"), score)
        })
        .collect();
    pool.sort_by(|a, b| b.1.total_cmp(&a.1));
    pool
}

fn ours(name: &str, pool: &ScoredPool, bucket: i64) -> Figures {
    let candidates = pool.iter().map(|(item, score)| ScoredItem { item, score: *score }.into());
    let offers = Offers::new(candidates);
    let budget = SliceBudget::new(TARGET);
    let slicer = KnapsackSlice::new(bucket).expect("it is valid");
    let run = || {
        let mut tally = Tally::new(&offers, budget);
        slicer.slice(&mut tally).expect("it fits");
        tally
    };
    let taken: Vec<u32> = run().moves().iter().map(|made| made.position).collect();
    assert!(taken == textbook(pool, bucket), "the choice must be the textbook's");
    let value = taken.iter().map(|taken| pool[*taken as usize].1).sum();
    figures(name, bucket, value, run)
}

fn theirs(name: &str, pool: &ScoredPool) -> Figures {
    let (candidates, budget) = (peer_candidates(pool), peer_budget());
    let slicer = cupel::KnapsackSlice::new(100).expect("it is valid");
    let run = || slicer.slice(&candidates, &budget).expect("it fits");
    let selected = run();
    let selected: Vec<&str> = selected.iter().map(cupel::ContextItem::content).collect();
    let textbook = textbook(pool, 100);
    let expected = textbook.iter().map(|taken| pool[*taken as usize].0.content());
    assert!(expected.eq(selected), "the peer must choose what we choose");
    let value = textbook.iter().map(|taken| pool[*taken as usize].1).sum();
    figures(name, 100, value, run)
}

fn figures<T>(name: &str, bucket: i64, value: f64, run: impl Fn() -> T) -> Figures {
    let bytes = peak_memory(&run);
    let time = median(3, run);
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

/// The specification's dynamic program, word for word except for the table, which has one bit per cell.
/// Positions come in the order in which it finds them.
fn textbook(pool: &ScoredPool, bucket: i64) -> Vec<u32> {
    let capacity = (TARGET / bucket) as usize;
    let weight = |i: usize| (pool[i].0.tokens() as usize).div_ceil(bucket as usize);
    let words = capacity / 64 + 1;
    let mut best = vec![0_u64; capacity + 1];
    let mut keep = vec![0_u64; pool.len() * words];
    for (i, (_, score)) in pool.iter().enumerate() {
        let (weight, value) = (weight(i), (score * 10_000.0).floor() as u64);
        for room in (weight..=capacity).rev() {
            let with = best[room - weight] + value;
            if with > best[room] {
                best[room] = with;
                keep[i * words + room / 64] |= 1 << (room % 64);
            }
        }
    }
    let mut room = capacity;
    let mut taken = Vec::new();
    for i in (0..pool.len()).rev() {
        if keep[i * words + room / 64] >> (room % 64) & 1 == 1 {
            taken.push(i as u32);
            room -= weight(i);
        }
    }
    taken
}

fn peer_candidates(pool: &ScoredPool) -> Vec<cupel::ScoredItem> {
    let build = |(item, score): &(ContextItem, f64)| {
        let item = cupel::ContextItemBuilder::new(item.content(), item.tokens()).build();
        cupel::ScoredItem { item: item.expect("it is valid"), score: *score }
    };
    pool.iter().map(build).collect()
}

fn peer_budget() -> cupel::ContextBudget {
    cupel::ContextBudget::new(TARGET, TARGET, 0, HashMap::new(), 0.0).expect("it is valid")
}
