//! Compares the engine with its peer `cupel` and with a floor, in one process, over the same pools.
//!
//! `cargo run --release -p pannier-bench` runs everything; name sections to run only those:
//! `pipeline`, `scorers`, `knapsack`, `forms`, `best`, `command`, `tokens`,
//! `chat`, `docs`, `retrieval`, `search`, `memory`, `snippets`, `mcp`, `whatif`. Results are checked for equality before anything is timed.
//! Times are wall-clock medians; the machine's noise is in both columns, so read the ratios.
//!
//! `run-nothing`, `run-plain` and `run-null` run the same pipeline not at all, once without a
//! collector and once with the null collector, for counting instructions; see
//! `bench/null-collector`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its tables")]

mod best;
mod chat;
mod command;
mod docs;
mod forms;
mod knapsack;
mod mcp;
mod measure;
mod memory;
mod pipeline;
mod pools;
mod retrieval;
mod scorers;
mod search;
mod snippets;
mod tokens;
mod whatif;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: measure::CountingAllocator = measure::CountingAllocator;

type Section = (&'static str, fn());

const SECTIONS: [Section; 15] = [
    ("pipeline", pipeline::run),
    ("scorers", scorers::run),
    ("knapsack", knapsack::run),
    ("forms", forms::run),
    ("best", best::run),
    ("command", command::run),
    ("tokens", tokens::run),
    ("chat", chat::run),
    ("docs", docs::run),
    ("retrieval", retrieval::run),
    ("search", search::run),
    ("memory", memory::run),
    ("snippets", snippets::run),
    ("mcp", mcp::run),
    ("whatif", whatif::run),
];

const ONCE: [Section; 5] = [
    ("million", docs::million),
    ("search-million", search::million),
    ("run-nothing", pipeline::run_nothing),
    ("run-plain", pipeline::run_plain),
    ("run-null", pipeline::run_null),
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let known = || SECTIONS.into_iter().chain(ONCE);
    if let Some(name) = names.iter().find(|name| known().all(|(section, _)| section != **name)) {
        let sections: Vec<_> = known().map(|(section, _)| section).collect();
        eprintln!("error: there is no section '{name}'; there are {}", sections.join(", "));
        return ExitCode::from(2);
    }
    if names.is_empty() {
        SECTIONS.into_iter().for_each(|(_, run)| run());
    }
    for name in names {
        known().filter(|(section, _)| *section == name).for_each(|(_, run)| run());
    }
    ExitCode::SUCCESS
}
