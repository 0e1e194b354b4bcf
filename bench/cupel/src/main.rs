//! Selects by the crate `cupel`: reads pools from standard input, one JSON object a line with `budget` and `items` (`content`,
//! `tokens`, `score`), and prints for each the positions that its greedy slicer and its knapsack take.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::HashMap;
use std::io::BufRead;

use serde_json::{Value, json};

fn main() {
    for line in std::io::stdin().lock().lines() {
        let pool: Value = serde_json::from_str(&line.expect("a line")).expect("a pool");
        let budget = pool["budget"].as_i64().expect("a budget");
        let items: Vec<cupel::ContextItem> =
            pool["items"].as_array().expect("items").iter().map(item).collect();
        let knapsack = cupel::KnapsackSlice::new(100).expect("it is valid");
        let greedy = select(&items, budget, Box::new(cupel::GreedySlice));
        println!(
            "{}",
            json!({ "greedy": greedy, "knapsack": select(&items, budget, Box::new(knapsack)) })
        );
    }
}

fn item(value: &Value) -> cupel::ContextItem {
    let content = value["content"].as_str().expect("a content");
    cupel::ContextItemBuilder::new(content, value["tokens"].as_i64().expect("tokens"))
        .future_relevance_hint(value["score"].as_f64().expect("a score"))
        .build()
        .expect("an item")
}

/// The default bucket of the knapsack is 100 tokens, and equal contents are dropped.
fn select(items: &[cupel::ContextItem], budget: i64, slicer: Box<dyn cupel::Slicer>) -> Vec<usize> {
    let pipeline = cupel::Pipeline::builder()
        .scorer(Box::new(cupel::ReflexiveScorer))
        .slicer(slicer)
        .placer(Box::new(cupel::ChronologicalPlacer))
        .deduplication(true)
        .build()
        .expect("the pipeline is valid");
    let budget = cupel::ContextBudget::new(budget, budget, 0, HashMap::new(), 0.0);
    let selected = pipeline.run(items, &budget.expect("it is valid")).expect("it fits");
    let position = |taken: &cupel::ContextItem| {
        items.iter().position(|item| item.content() == taken.content()).expect("one of ours")
    };
    selected.iter().map(position).collect()
}
