//! One run of the engine over a generated pool, for counting instructions and allocations.
//!
//! `pannier-bench-engine CASE ITEMS` runs one case once and prints its allocations. `bench/compare` runs it under
//! valgrind, built from two commits, so the names of the cases and what they do must stay:
//!
//! - `pool` only generates the pool; its instructions are subtracted from those of the others
//! - `floor` hashes every content and sorts as many keys: the least that any engine must do
//! - `greedy-5`: five scorers, greedy, u-shaped, exact deduplication
//! - `knapsack`: the same with the exact knapsack
//! - `near-duplicates`: greedy with near-duplicates removed
//!
//! `pannier-bench-engine distance ITEMS` prints the times of `floor` and `greedy-5` and their ratio, and
//! `pannier-bench-engine stages ITEMS` the times of the stages and scorers of `greedy-5`. `pannier-bench-engine growth`
//! prints how times grow with the pool; see `growth.rs`.
//!
//! It depends on the engine alone, so it builds in seconds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod growth;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pannier_core::item::Deduplication;
use pannier_core::place::UShapedPlacer;
use pannier_core::report::{PipelineStage, TraceCollector};
use pannier_core::score::{
    CompositeScorer, FrequencyScorer, KindScorer, Pool, PriorityScorer, RecencyScorer, TagScorer,
};
use pannier_core::slice::KnapsackSlice;
use pannier_core::{
    ContextBudget, ContextItem, ContextKind, Error, Pipeline, PipelineBuilder, Scorer, Timestamp,
};
use xxhash_rust::xxh3::xxh3_64;

const TARGET_TOKENS: i64 = 128_000;
const CONTENT_BYTES: usize = 200;
const VOCABULARY: u64 = 4_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["growth"] {
        growth::print();
        return ExitCode::SUCCESS;
    }
    let count = arguments.get(1).and_then(|count| count.parse().ok());
    let (Some(case), Some(count)) = (arguments.first(), count) else {
        eprintln!("usage: pannier-bench-engine growth | CASE ITEMS");
        return ExitCode::from(2);
    };
    let items = pool(count);
    match case.as_str() {
        "pool" => report(|| items.len()),
        "floor" => report(|| floor(&items)),
        "greedy-5" => report_run(&five_scorers().build(), &items),
        "knapsack" => {
            report_run(&five_scorers().slicer(KnapsackSlice::exact()).build(), &items);
        }
        "near-duplicates" => {
            let near = Deduplication::NearDuplicates { threshold: 0.8 };
            report_run(&five_scorers().deduplication(near).build(), &items);
        }
        "distance" => distance(&items),
        "stages" => stages(&items),
        _ => {
            eprintln!("error: unknown case '{case}'; see the head of bench/engine/src/main.rs");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn five_scorers() -> PipelineBuilder {
    scorers(|_, scorer| scorer)
}

/// A pipeline of five scorers, each wrapped.
fn scorers(wrap: fn(&'static str, Box<dyn Scorer>) -> Box<dyn Scorer>) -> PipelineBuilder {
    let tags = (0..8).map(|tag| (format!("tag-{tag}"), 0.25 * f64::from(tag + 1)));
    let tags = TagScorer::new(tags).expect("the weights are valid");
    let scorer = CompositeScorer::builder()
        .add(wrap("  recency", Box::new(RecencyScorer)), 3.0)
        .add(wrap("  priority", Box::new(PriorityScorer)), 2.0)
        .add(wrap("  kind", Box::<KindScorer>::default()), 1.0)
        .add(wrap("  tag", Box::new(tags)), 1.0)
        .add(wrap("  frequency", Box::new(FrequencyScorer)), 1.0)
        .build()
        .expect("the weights are valid");
    Pipeline::builder(scorer).placer(UShapedPlacer)
}

fn run(pipeline: &Pipeline, items: &[ContextItem]) -> usize {
    let budget = ContextBudget::new(TARGET_TOKENS, TARGET_TOKENS).expect("the budget is valid");
    pipeline.run(items, &budget).expect("nothing is pinned").len()
}

fn floor(items: &[ContextItem]) -> usize {
    let hashes = items.iter().fold(0, |all, item| all ^ xxh3_64(item.content().as_bytes()));
    let mut numbers = Numbers(7);
    let mut keys: Vec<(f64, u32)> =
        (0..items.len() as u32).map(|index| (numbers.unit(), index)).collect();
    keys.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    std::hint::black_box((hashes, keys)).1.len()
}

/// Prints the best times of the floor and of a run, measured in turns: other processes only add to a time.
fn distance(items: &[ContextItem]) {
    let pipeline = five_scorers().build();
    let time = |work: &dyn Fn() -> usize| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed()
    };
    let (mut floors, mut runs) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while runs.len() < 7 || start.elapsed() < Duration::from_secs(1) {
        floors.push(time(&|| floor(items)));
        runs.push(time(&|| run(&pipeline, items)));
    }
    let best =
        |times: Vec<Duration>| times.into_iter().min().unwrap_or_default().as_secs_f64() * 1e3;
    let (floor, run) = (best(floors), best(runs));
    println!("floor {floor:.3} ms, greedy-5 {run:.3} ms, ratio {:.2}", run / floor);
}

/// The times of the parts of a run, in their order.
static TIMES: Mutex<Vec<(&str, Duration)>> = Mutex::new(Vec::new());

fn record(part: &'static str, start: Instant) {
    TIMES.lock().expect("nothing panics").push((part, start.elapsed()));
}

/// A scorer whose time is recorded.
struct Timed(&'static str, Box<dyn Scorer>);

impl Scorer for Timed {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.1.score(pool, scores);
        record(self.0, start);
        result
    }
}

/// Records the time of each stage. Sorting is between two stages.
struct StageTimes(Instant);

impl TraceCollector for StageTimes {
    fn is_enabled(&self) -> bool {
        true
    }

    fn stage_started(&mut self, stage: &PipelineStage, _: usize) {
        match stage {
            PipelineStage::Classify => record("collect", self.0),
            PipelineStage::Slice => record("sort", self.0),
            _ => {}
        }
        self.0 = Instant::now();
    }

    fn stage_ended(&mut self, stage: &PipelineStage, _: usize, _: usize) {
        let name = match stage {
            PipelineStage::Classify => "classify",
            PipelineStage::Score => "score",
            PipelineStage::Deduplicate => "deduplicate",
            PipelineStage::Slice => "slice",
            _ => "place",
        };
        record(name, self.0);
        self.0 = Instant::now();
    }
}

/// Prints the best time of each part of a run, in nanoseconds an item.
fn stages(items: &[ContextItem]) {
    let pipeline = scorers(|name, scorer| Box::new(Timed(name, scorer))).build();
    let budget = ContextBudget::new(TARGET_TOKENS, TARGET_TOKENS).expect("the budget is valid");
    let mut best: Vec<(&str, Duration)> = Vec::new();
    let (start, mut runs) = (Instant::now(), 0);
    while runs < 7 || start.elapsed() < Duration::from_secs(1) {
        TIMES.lock().expect("nothing panics").clear();
        let run_start = Instant::now();
        let mut collector = StageTimes(run_start);
        let selection = pipeline.run_traced(items, &budget, &mut collector);
        let drop_start = Instant::now();
        drop(std::hint::black_box(selection));
        record("free", drop_start);
        record("all", run_start);
        let times = TIMES.lock().expect("nothing panics");
        best.resize(times.len(), ("", Duration::MAX));
        for (best, time) in best.iter_mut().zip(&*times) {
            *best = (time.0, best.1.min(time.1));
        }
        runs += 1;
    }
    for (part, time) in best {
        println!("{part:<20} {:>7.1} ns an item", time.as_secs_f64() * 1e9 / items.len() as f64);
    }
}

/// SplitMix64: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

/// Items of 200 bytes and 20 to 79 tokens, with 0 to 3 of 40 tags. 2 % repeat an earlier content, and 5 % repeat one
/// with other last words.
fn pool(count: usize) -> Vec<ContextItem> {
    let kinds = [
        ContextKind::MESSAGE,
        ContextKind::DOCUMENT,
        ContextKind::TOOL_OUTPUT,
        ContextKind::MEMORY,
        ContextKind::SYSTEM_PROMPT,
    ];
    let mut numbers = Numbers(count as u64);
    let mut items: Vec<ContextItem> = Vec::with_capacity(count);
    for index in 0..count as u64 {
        let mut content = match numbers.below(100) {
            repeated @ 0..7 if index > 0 => {
                let earlier = items[numbers.below(index) as usize].content();
                let end = if repeated < 2 { earlier.len() } else { CONTENT_BYTES - 12 };
                earlier[..end].to_owned()
            }
            _ => format!("item {index}"),
        };
        while content.len() < CONTENT_BYTES {
            content.push_str(&format!(" word{}", numbers.below(VOCABULARY)));
        }
        content.truncate(CONTENT_BYTES);
        let tags: Vec<String> =
            (0..numbers.below(4)).map(|_| format!("tag-{}", numbers.below(40))).collect();
        let seconds = 1_750_000_000 + numbers.below(30_000_000) as i64;
        let mut item = ContextItem::builder(content, 20 + numbers.below(60) as i64)
            .kind(kinds[numbers.below(5) as usize].clone())
            .timestamp(Timestamp::from_unix_seconds(seconds).expect("the year is 2025 or 2026"))
            .tags(tags);
        if numbers.below(10) < 7 {
            item = item.priority(numbers.below(20) as i64);
        }
        items.push(item.build().expect("the item is valid"));
    }
    items
}

/// The system's allocator, which counts.
struct CountingAllocator;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    let in_use = IN_USE_BYTES.fetch_add(bytes, Relaxed) + bytes;
    PEAK_BYTES.fetch_max(in_use, Relaxed);
}

#[expect(unsafe_code, reason = "an allocator cannot be written without; all work is the system's")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        IN_USE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn report_run(pipeline: &Pipeline, items: &[ContextItem]) {
    report(|| run(pipeline, items));
}

/// Runs the case; prints its result, how often it allocates, and the peak of the bytes that it has in use.
fn report(case: impl FnOnce() -> usize) {
    let (allocations, in_use) = (ALLOCATIONS.load(Relaxed), IN_USE_BYTES.load(Relaxed));
    PEAK_BYTES.store(in_use, Relaxed);
    let result = case();
    let allocations = ALLOCATIONS.load(Relaxed) - allocations;
    let peak = PEAK_BYTES.load(Relaxed) - in_use;
    println!("{result} items, {allocations} allocations, peak {} KiB", peak / 1024);
}
