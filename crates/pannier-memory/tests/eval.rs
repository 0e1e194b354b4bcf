//! The known-item test, the use of larger budgets, and coverage, on generated folders and on a real one.

use std::io::Write;
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_memory::eval::{MemoryReport, measure};
use pannier_memory::{Folder, Memory, PacketOptions, Section};
use pannier_tokens::BytesOverFour;

#[path = "support/data.rs"]
mod data;
#[path = "support/generate.rs"]
mod generate;

fn report(memory: &Memory) -> MemoryReport {
    let options = PacketOptions::new("2026-11-16T12:00:00Z".parse().unwrap());
    let counter: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
    measure(memory, &options, &counter).unwrap()
}

fn print(name: &str, report: &MemoryReport) {
    let mut stderr = std::io::stderr();
    let MemoryReport { entries, distinct_packets, steps, monotonic_steps, .. } = report;
    let MemoryReport { query_steps, monotonic_query_steps, .. } = report;
    let _ = writeln!(stderr, "{name}: {entries} entries");
    for known in &report.known_items {
        let (budget, queries, whole) = (known.budget, known.queries, known.whole);
        let answered = known.answered();
        let _ = writeln!(stderr, "  at {budget}: {answered} of {queries}, {whole} whole");
    }
    let _ = writeln!(
        stderr,
        "  {distinct_packets} packets, {monotonic_steps} of {steps} steps, with queries {monotonic_query_steps} of {query_steps}"
    );
}

/// Checks a generated folder against the shares that packets must answer.
fn check(entries: usize, seed: u64) {
    let memory = Memory::from_files(generate::folder(entries, seed));
    let report = report(&memory);
    print(&format!("generated {entries}"), &report);
    let rules = memory.section(Section::Constitution).len();
    assert_eq!(memory.entries().len() - rules, entries);
    for (known, share) in report.known_items.iter().zip([0.90, 0.95, 0.98]) {
        let answered = known.answered() as f64 / known.queries as f64;
        assert!(answered >= share, "{entries} entries: {known:?}");
    }
    let queries = report.known_items[0].queries;
    assert!(report.distinct_packets * 100 >= queries * 95, "{report:?}");
    assert_eq!(report.monotonic_steps, report.steps, "{report:?}");
    assert_eq!(report.monotonic_query_steps, report.query_steps, "{report:?}");
    assert!(report.coverage.iter().all(|file| file.uncovered.is_empty()), "{report:?}");
}

#[test]
fn packets_of_generated_folders_answer() {
    for (entries, seed) in [(100, 1), (160, 2)] {
        check(entries, seed);
    }
}

/// Takes minutes without optimization, so it runs only if `PANNIER_LONG` is set.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test may look at its environment")]
fn packets_of_large_generated_folders_answer() {
    if std::env::var_os("PANNIER_LONG").is_none_or(|long| long.is_empty()) {
        return;
    }
    for (entries, seed) in [(250, 3), (500, 4), (1_000, 5)] {
        check(entries, seed);
    }
}

/// Skipped without test data.
#[test]
fn packets_of_a_real_folder_answer() {
    let Some(folder) = data::real_folder() else { return };
    let report = report(&Folder::find(folder).unwrap().read().unwrap());
    print("real", &report);
    let answered: Vec<usize> = report.known_items.iter().map(|known| known.answered()).collect();
    let queries = report.known_items[0].queries;
    assert!(answered[0] * 14 >= queries * 13 && answered[1] == queries, "{report:?}");
    assert_eq!(report.monotonic_steps, report.steps, "{report:?}");
    assert_eq!(report.monotonic_query_steps, report.query_steps, "{report:?}");
    assert!(report.coverage.iter().all(|file| file.uncovered.is_empty()), "{report:?}");
}
