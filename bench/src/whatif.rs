//! Questions about many budgets: sweeps, the smallest budget of an item, explanations, and how fast they stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pannier_core::score::ReflexiveScorer;
use pannier_core::slice::{FillSlice, GreedySlice, KnapsackSlice, Quota, QuotaSlice};
use pannier_core::whatif::{Found, Search};
use pannier_core::{ContextBudget, ContextItem, Explanation, Pipeline, Slicer};

use crate::measure::show;
use crate::pools::Numbers;

pub(crate) fn run() {
    println!("What if, items of 1 to 200 tokens (5 % of them up to 1,000), all budgets.\n");
    println!("{:>8} {:>10} {:>12} {:>10} {:>12}", "items", "slicer", "question", "time", "answer");
    for count in [1_000, 10_000, 30_000] {
        let items = pool(count);
        questions("greedy", &items, GreedySlice);
        questions("rank", &items, FillSlice::default());
    }
    let items = pool(300);
    questions("knapsack", &items, KnapsackSlice::exact());
    questions("quota", &items, quota());

    println!("\nHow long a search continues after a stop, the longest of 20:\n");
    let items = pool(30_000);
    stopped("greedy, 30,000 items", &items, GreedySlice);
    stopped("quota, 30,000 items", &items, quota());
    stopped("knapsack, 3,000 items", &items[..3_000], KnapsackSlice::exact());
    println!();
}

/// Items as the design's figures were made with.
fn pool(count: usize) -> Vec<ContextItem> {
    let mut numbers = Numbers::new(count as u64);
    let build = |i| {
        let mut tokens = 1 + numbers.below(200) as i64;
        if numbers.below(20) == 0 {
            tokens += numbers.below(800) as i64;
        }
        let item = ContextItem::builder(format!("item {i}"), tokens);
        item.future_relevance_hint(numbers.unit()).build().expect("it is valid")
    };
    (0..count).map(build).collect()
}

fn quota() -> QuotaSlice {
    let kind = pannier_core::ContextKind::new("Document").expect("it is valid");
    let quota = Quota { kind, require_percent: 20.0, cap_percent: 60.0 };
    QuotaSlice::new([quota], GreedySlice).expect("it is valid")
}

fn questions(name: &str, items: &[ContextItem], slicer: impl Slicer + 'static) {
    let pipeline = Pipeline::builder(ReflexiveScorer).slicer(slicer).build();
    let base = ContextBudget::new(0, 0).expect("it is valid");
    let all: i64 = items.iter().map(ContextItem::tokens).sum();
    let print = |question: &str, time: Duration, answer: String| {
        println!("{:>8} {name:>10} {question:>12} {:>10} {answer:>12}", items.len(), show(time));
    };

    let start = Instant::now();
    let prepared = pipeline.prepare(items).expect("it runs");
    let swept = prepared.sweep(&base, 0..=all, &mut Search::new(Search::DEFAULT_STEPS));
    let time = start.elapsed();
    let ranges: usize = swept.selected.iter().map(Vec::len).sum();
    let is_complete = if *swept.budgets.end() == all { "" } else { " (partial)" };
    print("sweep", time, format!("{ranges} ranges{is_complete}"));

    // The item that is looked at last: the lowest score per token.
    let density =
        |item: &ContextItem| item.future_relevance_hint().unwrap_or(0.0) / item.tokens() as f64;
    let last = (0..items.len())
        .min_by(|a, b| density(&items[*a]).total_cmp(&density(&items[*b])))
        .expect("there are items");
    let start = Instant::now();
    let prepared = pipeline.prepare(items).expect("it runs");
    let mut search = Search::new(Search::DEFAULT_STEPS);
    let found = prepared.smallest_budget(&base, last, 0..=all, &mut search).expect("it is there");
    let time = start.elapsed();
    let answer = match found {
        Found::At { tokens, is_proven: true } => tokens.to_string(),
        Found::At { tokens, .. } => format!("{tokens}, or less"),
        found => format!("{found:?}"),
    };
    print("last item", time, answer);

    let budget = ContextBudget::new(all / 4, all / 4).expect("it is valid");
    let start = Instant::now();
    let explanations = pipeline.explain_all(items, &budget, &[last]).expect("it runs");
    let time = start.elapsed();
    let threshold = explanations[0].smallest_budget;
    let proven =
        threshold.map_or("none", |found| if found.is_proven { "proven" } else { "or less" });
    print("explanation", time, proven.to_owned());
}

/// Asks for a sweep and an explanation, stops them from another thread, and prints the longest delay.
fn stopped(name: &str, items: &[ContextItem], slicer: impl Slicer + 'static) {
    let pipeline = Pipeline::builder(ReflexiveScorer).slicer(slicer).build();
    let all: i64 = items.iter().map(ContextItem::tokens).sum();
    let base = ContextBudget::new(all / 4, all / 4).expect("it is valid");
    let prepared = pipeline.prepare(items).expect("it runs");
    let mut longest = Duration::ZERO;
    for run in 0..20_u64 {
        let is_stopped = AtomicBool::new(false);
        let stop = || is_stopped.load(Ordering::Relaxed);
        let mut search = Search::new(u64::MAX).until(&stop);
        let delay = std::thread::scope(|scope| {
            let stopper = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5 + 7 * run));
                is_stopped.store(true, Ordering::Relaxed);
                Instant::now()
            });
            if run % 2 == 0 {
                prepared.sweep(&base, 0..=all, &mut search);
            } else {
                let indices = [0; 50];
                let explained: Vec<Explanation<_>> =
                    prepared.explain(&base, &indices, &mut search).expect("it runs");
                drop(explained);
            }
            let end = Instant::now();
            stopper.join().map_or(Duration::ZERO, |stopped| end.saturating_duration_since(stopped))
        });
        longest = longest.max(delay);
    }
    println!("{name:>34} {:>10}", show(longest));
}
