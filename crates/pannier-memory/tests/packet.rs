//! Contents, formats and budgets of packets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pannier_core::report::{IncludedItem, InclusionReason, SelectionReport};
use pannier_core::whatif::{Decision, Search};
use pannier_core::{ContextItem, TokenCounter};
use pannier_memory::{
    Folder, Memory, MemoryError, Packet, PacketBuilder, PacketFormat, PacketOptions, PacketPolicy,
    Section,
};
use pannier_policy::{Receipt, Replay};
use pannier_tokens::BytesOverFour;

#[path = "support/data.rs"]
mod data;

const NOW: &str = "2026-11-16T09:30:00Z";

fn options(budget: usize) -> PacketOptions {
    let mut options = PacketOptions::new(NOW.parse().unwrap());
    options.budget = budget;
    options.policy = PacketPolicy::PacketSeed;
    options
}

fn json_options(budget: usize) -> PacketOptions {
    let mut options = options(budget);
    options.format = PacketFormat::Json;
    options
}

fn pack(memory: &Memory, options: PacketOptions) -> Packet {
    PacketBuilder::new(memory, options, Arc::new(BytesOverFour)).unwrap().packet().unwrap()
}

fn packet(memory: &Memory, budget: usize) -> String {
    pack(memory, options(budget)).text
}

fn json(memory: &Memory, budget: usize) -> serde_json::Value {
    serde_json::from_str(&pack(memory, json_options(budget)).text).unwrap()
}

fn strings(value: &serde_json::Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

/// Returns the scores by title.
fn scores(memory: &Memory) -> BTreeMap<String, f64> {
    let builder = PacketBuilder::new(memory, options(1 << 30), Arc::new(BytesOverFour)).unwrap();
    let all: Vec<usize> = (0..builder.pool().len()).collect();
    let explanations =
        builder.explain(&all, &mut Search::new(Search::DEFAULT_STEPS)).unwrap().into_iter();
    let titles = builder.entries().iter().map(|entry| entry.title().to_owned());
    titles.zip(explanations.map(|explanation| explanation.score.unwrap().score)).collect()
}

fn decisions(days: &[(&str, &str)]) -> Memory {
    let text: String =
        days.iter().map(|(day, title)| format!("## [{day}] {title}\n\nbody of it\n\n")).collect();
    Memory::from_files([("DECISIONS.md", text)])
}

// Scores, as specified.

#[test]
fn recency_steps_are_whole_days() {
    let memory = decisions(&[
        ("2026-11-17", "tomorrow"),
        ("2026-11-16-235959", "later today"),
        ("2026-11-09-000000", "seven days"),
        ("2026-11-08-235959", "eight days"),
        ("2026-10-17", "thirty days"),
        ("2026-10-16", "thirty-one days"),
        ("2026-08-18", "ninety days"),
        ("2026-08-17", "ninety-one days"),
        ("1999-01-01", "long ago"),
        ("2026-13-01", "never"),
    ]);
    let expected = [
        ("tomorrow", 1.0),
        ("later today", 1.0),
        ("seven days", 1.0),
        ("eight days", 0.7),
        ("thirty days", 0.7),
        ("thirty-one days", 0.4),
        ("ninety days", 0.4),
        ("ninety-one days", 0.2),
        ("long ago", 0.2),
        ("never", 0.2),
    ];
    let expected = expected.map(|(title, score)| (title.to_owned(), score));
    assert_eq!(scores(&memory), BTreeMap::from(expected));
}

#[test]
fn task_keywords_count_once_and_saturate_at_three() {
    let body = |words: &str| format!("{words}\n");
    let memory = Memory::from_files([
        (
            "TASKS.md",
            "- [ ] Deploy the gateway with retries #added:2026-11-01 #deploy\n- [x] ignore done\n"
                .to_owned(),
        ),
        (
            "LEARNINGS.md",
            [
                ("none", "nothing of it; deployment is not it"),
                ("one", "deploy deploy DEPLOY"),
                ("two", "the gateway, (deploy)"),
                ("three", "`gateway` deploy; retries"),
                ("Retries, deploy", "gateway"),
            ]
            .iter()
            .map(|(title, words)| format!("## [2020-01-01] {title}\n\n{}\n", body(words)))
            .collect(),
        ),
    ]);
    let scores = scores(&memory);
    let near = |title: &str, score: f64| (scores[title] - score).abs() < 1e-12;
    assert!(near("none", 0.2), "{scores:?}");
    assert!(near("one", 0.2 + 1.0 / 3.0), "{scores:?}");
    assert!(near("two", 0.2 + 2.0 / 3.0), "{scores:?}");
    assert!(near("three", 1.2), "{scores:?}");
    assert!(near("Retries, deploy", 1.2), "{scores:?}");
}

#[test]
fn superseded_entries_score_zero_and_are_dropped_unless_everything_fits() {
    let text = "## [2026-11-10] Old way\n\n**Status**: Superseded\n\nold body\n\n\
                ## [2026-11-11] Older way\n\n~~Superseded by the new way~~\n\nolder body\n\n\
                ## [2026-11-12] New way\n\nnew body\n";
    let memory = Memory::from_files([("DECISIONS.md", text)]);
    let scores = scores(&memory);
    assert_eq!((scores["Old way"], scores["Older way"]), (0.0, 0.0));
    assert!(scores["New way"] > 0.9);
    let full = packet(&memory, 8_000);
    assert!(full.contains("old body") && full.contains("older body") && full.contains("new body"));
    let tight = (0..200).rev().map(|budget| packet(&memory, budget));
    let tight = tight.into_iter().find(|text| !text.contains("old body")).unwrap();
    assert!(tight.contains("new body"), "{tight}");
    assert!(!tight.contains("Old way") && !tight.contains("Older way"), "{tight}");
    assert!(!tight.contains("more"), "superseded entries do not count as omitted: {tight}");
}

#[test]
fn recent_and_relevant_entries_rank_first() {
    let memory = Memory::from_files([
        ("TASKS.md", "- [ ] Deploy gateway retries\n"),
        (
            "DECISIONS.md",
            "## [2026-01-01] Old and irrelevant\n\nx\n\n## [2026-01-02] Old and relevant\n\ndeploy gateway retries\n\n\
             ## [2026-11-15] New and relevant\n\ndeploy gateway retries\n\n## [2026-11-14] New and irrelevant\n\nx\n",
        ),
    ]);
    let text = packet(&memory, 8_000);
    let position = |title: &str| text.find(title).unwrap();
    let order =
        ["New and relevant", "Old and relevant", "New and irrelevant", "Old and irrelevant"];
    assert!(order.is_sorted_by_key(|title| position(title)), "{text}");
}

// Budgets, as specified.

/// Returns a folder with `count` entries in each section, each with `words` words.
fn folder(count: usize, words: usize) -> Memory {
    let body = |number: usize| {
        let word = |index: usize| ["oak", "elm", "ash", "fir", "yew"][(number * 7 + index * 3) % 5];
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    };
    let dated = |name: &str, shift: usize| -> String {
        let entry = |number: usize| {
            let (month, day) = (1 + (number + shift) % 11, 1 + number % 28);
            let status = if number % 9 == 4 { "**Status**: Superseded\n\n" } else { "" };
            format!(
                "## [2026-{month:02}-{day:02}] {name} number {number}\n\n{status}{}\n\n",
                body(number)
            )
        };
        (0..count).map(entry).collect()
    };
    let tasks = (0..count).map(|number| {
        format!("- [ ] Task number {number}\n  {}\n  - part of {number}\n", body(number))
    });
    let conventions = (0..count).map(|number| format!("- Convention {number}: {}\n", body(number)));
    Memory::from_files([
        ("CONSTITUTION.md", "# Rules\n\n- [ ] Never row\n  alone.\n- Wear the vest.\n".to_owned()),
        ("TASKS.md", tasks.collect()),
        ("CONVENTIONS.md", conventions.collect()),
        ("DECISIONS.md", dated("Decision", 0)),
        ("LEARNINGS.md", dated("Learning", 3)),
    ])
}

const SECTIONS: [&str; 4] =
    ["## Current Tasks", "## Key Conventions", "## Recent Decisions", "## Recent Learnings"];

/// Returns a packet's text from one heading to the next.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let Some(start) = text.find(heading) else { return "" };
    let rest = &text[start..];
    let end = ["\n## ", "\nAlso noted:", "\nBefore you begin"];
    &rest[..end.iter().filter_map(|end| rest.find(end)).min().unwrap()]
}

#[test]
fn the_constitution_is_always_whole() {
    let memory = folder(20, 30);
    for budget in [1, 50, 100] {
        let packet = pack(&memory, options(budget));
        let text = &packet.text;
        assert!(text.contains("- Never row\n  alone.\n- Wear the vest.\n"), "{text}");
        assert!(
            text.contains("1. .context/CONSTITUTION.md\n") && text.contains("Before you begin")
        );
        assert!(SECTIONS.iter().all(|heading| !text.contains(heading)), "{text}");
        assert_eq!(packet.is_over_budget, packet.tokens_used > budget);
        assert_eq!(text.contains("over budget"), packet.is_over_budget, "{text}");
    }
}

#[test]
fn a_budget_of_zero_gives_the_constitution_and_the_instruction() {
    let text = packet(&folder(5, 10), 0);
    assert!(text.contains("Wear the vest") && text.contains("Before you begin"), "{text}");
    assert!(!text.contains("Read These Files") && !text.contains("Also noted"), "{text}");
    let json = json(&folder(5, 10), 0);
    assert_eq!(strings(&json["constitution"]), ["Never row\nalone.", "Wear the vest."]);
    for empty in ["read_order", "tasks", "conventions", "decisions", "learnings"] {
        assert!(strings(&json[empty]).is_empty(), "{json}");
    }
}

#[test]
fn tasks_are_capped_at_forty_percent_newest_first_and_others_are_noted() {
    let memory = folder(60, 40);
    let budget = 4_000;
    let text = packet(&memory, budget);
    let tasks = section(&text, "## Current Tasks");
    assert!(tasks.len() / 4 <= budget * 40 / 100, "{}", tasks.len() / 4);
    assert!(tasks.len() / 4 > budget * 30 / 100, "{}", tasks.len() / 4);
    assert!(tasks.contains("Task number 59\n") && !tasks.contains("Task number 0\n"), "{tasks}");
    // In file order and whole.
    assert!(tasks.find("Task number 58\n") < tasks.find("Task number 59\n"));
    assert!(tasks.contains("  - part of 59\n"));
    let noted = &text[text.find("Also noted:").unwrap()..];
    assert!(noted.contains("- Task number 0\n"), "{noted}");
}

#[test]
fn undated_tasks_take_the_date_of_the_preceding_task() {
    let text = "- [ ] a #added:2026-03-01\n- [ ] b\n- [ ] c #added:2026-01-01\n- [ ] d\n- [ ] e #added:2026-02-01-120000\n";
    let memory = Memory::from_files([("TASKS.md", text)]);
    let builder = PacketBuilder::new(&memory, options(8_000), Arc::new(BytesOverFour)).unwrap();
    let mut tasks: Vec<_> = builder.pool().iter().zip(builder.entries()).collect();
    tasks.sort_by_key(|(item, _)| std::cmp::Reverse(item.priority()));
    let titles: Vec<&str> = tasks.iter().map(|(_, entry)| entry.title()).collect();
    assert_eq!(titles, ["b", "a", "e", "d", "c"]);
}

#[test]
fn conventions_are_capped_at_twenty_percent_in_file_order() {
    let text = packet(&folder(60, 40), 4_000);
    let conventions = section(&text, "## Key Conventions");
    assert!(conventions.len() / 4 <= 800, "{}", conventions.len() / 4);
    assert!(conventions.len() / 4 > 600, "{}", conventions.len() / 4);
    assert!(conventions.contains("Convention 0:") && !conventions.contains("Convention 59:"));
    assert!(text.contains("conventions"), "omitted conventions are counted: {text}");
}

#[test]
fn remaining_budget_is_split_between_decisions_and_learnings() {
    for (decisions, learnings, min_percent) in [(60, 60, 40), (60, 6, 10), (6, 60, 10), (60, 0, 0)]
    {
        let (many, few) = (folder(decisions.max(1), 40), folder(learnings.max(1), 40));
        let text_of = |memory: &Memory, section: Section| -> String {
            let entries = memory.section(section).iter();
            entries
                .map(|entry| format!("## [2026-05-05] {}\n\n{}\n\n", entry.title(), entry.text()))
                .collect()
        };
        let mut files = vec![("DECISIONS.md", text_of(&many, Section::Decisions))];
        if learnings > 0 {
            files.push(("LEARNINGS.md", text_of(&few, Section::Learnings)));
        }
        let memory = Memory::from_files(files);
        let text = packet(&memory, 2_000);
        let (one, two) = (section(&text, SECTIONS[2]).len(), section(&text, SECTIONS[3]).len());
        let smaller = 100 * one.min(two) / (one + two);
        assert!(smaller >= min_percent, "{decisions} and {learnings}: {one} and {two}");
        assert!(pack(&memory, options(2_000)).tokens_used > 1_800);
    }
}

#[test]
fn entries_degrade_from_text_to_title_to_count() {
    let memory = folder(60, 40);
    let text = packet(&memory, 4_000);
    let noted = &text[text.find("Also noted:").unwrap()..];
    assert!(section(&text, SECTIONS[2]).contains("### [2026-"), "{text}");
    assert!(noted.contains("- Decision number"), "{noted}");
    let tiny = packet(&memory, 400);
    let (_, more) = tiny.split_once("- +").unwrap();
    assert!(more.contains("tasks") && more.contains("learnings"), "{tiny}");
    let few = packet(&memory, 40_000);
    assert!(!few.contains("Also noted"), "{few}");
}

#[test]
fn missing_and_empty_files_are_empty_sections() {
    for files in [vec![], vec![("TASKS.md", ""), ("DECISIONS.md", "# D\n"), ("LEARNINGS.md", "\n")]]
    {
        let memory = Memory::from_files(files);
        let text = packet(&memory, 8_000);
        assert!(text.starts_with("# Context Packet\n\nBudget: 8000 tokens | Used: "), "{text}");
        assert_eq!(text.matches("## ").count(), 0, "{text}");
        let json = json(&memory, 8_000);
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "budget",
            "constitution",
            "conventions",
            "decisions",
            "instruction",
            "learnings",
            "read_order",
            "summaries",
            "tasks",
            "tokens_used",
        ];
        expected.sort_unstable();
        assert_eq!(keys, expected);
    }
}

#[test]
fn json_has_its_fields_in_order_and_whole_texts() {
    let memory = Memory::from_files([
        ("CONSTITUTION.md", "- [ ] One \"rule\"\n"),
        (
            "DECISIONS.md",
            "## [2026-11-12-101010] Use SQLite\n\n**Context**: small\n\n**Decision**: it\n",
        ),
        ("LEARNINGS.md", "## [2026-11-12] Undo\n\nbody\n"),
        ("TASKS.md", "- [ ] Do #added:2026-11-11\n  more\n"),
        ("CONVENTIONS.md", "- tabs\n"),
    ]);
    let mut options = json_options(8_000);
    options.include_timestamp = true;
    let packet = pack(&memory, options);
    let text = packet.text;
    let used = packet.tokens_used;
    assert_eq!(used, text.len().div_ceil(4));
    let expected = format!(
        r#"{{"generated":"2026-11-16T09:30:00Z","budget":8000,"tokens_used":{used},"#
    ) + r#""read_order":[".context/CONSTITUTION.md",".context/TASKS.md",".context/CONVENTIONS.md",".context/DECISIONS.md",".context/LEARNINGS.md"],"#
        + r#""constitution":["One \"rule\""],"tasks":["Do #added:2026-11-11\nmore"],"conventions":["tabs"],"#
        + r#""decisions":["[2026-11-12] Use SQLite\n\n**Context**: small\n\n**Decision**: it"],"#
        + r#""learnings":["[2026-11-12] Undo\n\nbody"],"summaries":[],"instruction":""#;
    assert!(text.starts_with(&expected), "{text}\n{expected}");
    assert!(text.ends_with("\"}\n"));
}

// Budgets of every size.

/// Checks that a packet is within its budget, unless it is only the frame, and prints its token count.
fn check_budget(
    memory: &Memory,
    builder: &PacketBuilder<'_>,
    packet: &Packet,
    counter: &dyn TokenCounter,
) {
    let (budget, text) = (builder.options().budget, &packet.text);
    assert_eq!(counter.count(text), packet.tokens_used, "at {budget}");
    let is_markdown = builder.options().format == PacketFormat::Markdown;
    if is_markdown {
        assert!(text.contains(&format!("| Used: {} tokens", packet.tokens_used)));
    } else {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["tokens_used"], packet.tokens_used);
        let rules = memory.section(Section::Constitution).iter();
        let is_seed = builder.options().policy == PacketPolicy::PacketSeed;
        let rules = rules.filter(|rule| rule.is_specified() || !is_seed);
        assert_eq!(strings(&value["constitution"]).len(), rules.count());
    }
    if packet.tokens_used > budget {
        let nothing = match is_markdown {
            true => SECTIONS.iter().all(|heading| !text.contains(&format!("\n{heading}\n"))),
            false => text.contains(r#""tasks":[],"conventions":[],"decisions":[],"learnings":[],"#),
        };
        assert!(
            packet.is_over_budget && nothing && text.contains("over budget"),
            "at {budget}: {text}"
        );
    }
}

/// Checks that no entry is shortened although it fits: decisions and learnings into the packet, tasks into their share.
fn check_shares(
    builder: &PacketBuilder<'_>,
    packet: &Packet,
    report: &SelectionReport<&ContextItem>,
) {
    let (budget, pool) = (builder.options().budget, builder.pool());
    let is_markdown = builder.options().format == PacketFormat::Markdown;
    let dated = |kind: &str| if kind == "Task" { 0 } else { "[2026-11-16] ".len() };
    let written = |kind: &str, content: &str| match (is_markdown, kind) {
        (false, _) => serde_json::Value::from(content).to_string().len(),
        (true, "Task") => "- [ ] \n".len() + content.len() + 2 * content.matches('\n').count(),
        (true, _) => "### \n\n".len() + content.len(),
    };
    let is_short = |entry: &&IncludedItem<&ContextItem>| entry.reason == InclusionReason::Shortened;
    let is_open = |kind: &str| {
        let mut whole = report.included.iter().filter(|entry| !is_short(entry));
        whole.any(|entry| entry.item.kind().as_str() == kind)
    };
    // The tokens of the tasks: each counted separately, plus the heading.
    let tasks = report.included.iter().filter(|entry| entry.item.kind().as_str() == "Task");
    let heading = i64::from(is_markdown && is_open("Task")) * 5;
    let tasks = heading + tasks.map(|entry| entry.item.tokens()).sum::<i64>();
    let cap = (budget as i64) * 40 / 100;
    let is_all =
        report.excluded.is_empty() && !report.included.iter().any(|entry| is_short(&entry));
    assert!(tasks <= cap || is_all, "{tasks} at {budget}");
    for entry in report.included.iter().filter(is_short) {
        let kind = entry.item.kind().as_str();
        let whole = &pool[entry.index.unwrap()];
        let more = entry.item.original_tokens().unwrap() - entry.item.tokens();
        if kind == "Task" && tasks + more + 5 > cap {
            continue;
        }
        let opens = if is_markdown && !is_open(kind) { "## Recent Decisions\n\n".len() } else { 0 };
        let short = if is_markdown {
            3 + entry.item.content().len()
        } else {
            written(kind, entry.item.content())
        };
        let bytes =
            packet.text.len() + written(kind, whole.content()) + dated(kind) - short + opens;
        assert!(
            bytes.div_ceil(4) > budget,
            "{kind} at {budget}, {is_markdown}: {bytes} bytes\n{}",
            packet.text
        );
    }
}

/// Returns the tokens of a packet with all entries whole, by budget: bytes / 4, with the digits of budget and count.
fn whole_tokens(memory: &Memory, format: PacketFormat) -> impl Fn(usize) -> usize {
    let digits = |number: usize| number.to_string().len();
    let mut options = options(1 << 30);
    options.format = format;
    let packet = pack(memory, options);
    let bytes = packet.text.len() - digits(1 << 30) - digits(packet.tokens_used);
    move |budget| {
        let count = |used: usize| (bytes + digits(budget) + digits(used)).div_ceil(4);
        (0..).find(|used| count(*used) == *used).unwrap()
    }
}

fn sweep(name: &str, memory: &Memory, budgets: &[usize]) {
    let counter: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
    for format in [PacketFormat::Markdown, PacketFormat::Json] {
        let whole_tokens = whole_tokens(memory, format);
        for budget in budgets.iter().copied() {
            let mut options = options(budget);
            options.format = format;
            let builder = PacketBuilder::new(memory, options, Arc::clone(&counter)).unwrap();
            let packet = builder.packet().unwrap();
            check_budget(memory, &builder, &packet, &*counter);
            let everything_fits = whole_tokens(budget) <= budget && budget > 0;
            let report = builder.report().unwrap();
            let is_whole = report.excluded.is_empty()
                && report.included.iter().all(|entry| entry.reason != InclusionReason::Shortened);
            let is_expected = everything_fits || builder.pool().is_empty();
            assert_eq!(is_whole, is_expected, "{name} at {budget}, {format:?}");
            check_shares(&builder, &packet, &report);
        }
    }
}

/// Returns a folder with entries of very different lengths.
fn uneven(seed: u64) -> Memory {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let words = ["oak", "elm", "gateway", "deploy", "retry", "ash", "cache", "token", "yew"];
    let mut text = |max_log2_words: u64| {
        let log2_words = next(max_log2_words);
        let length = 1 + next(1 << log2_words);
        (0..length).map(|_| words[next(words.len() as u64) as usize]).collect::<Vec<_>>().join(" ")
    };
    let (mut tasks, mut conventions) = (String::new(), String::new());
    let (mut decisions, mut learnings) = (String::new(), String::new());
    for number in 0..(3 + seed % 9) {
        tasks += &format!("- [ ] task{number} {}\n  {}\n", text(3), text(7));
        conventions += &format!("- convention {number} {}\n", text(5));
        let day = format!("2026-{:02}-{:02}", 1 + (number * 5 + seed) % 11, 1 + number);
        decisions += &format!("## [{day}] Decision {number} {}\n\n{}\n\n", text(3), text(9));
        learnings += &format!("## [{day}] Learning {number} {}\n\n{}\n\n", text(3), text(8));
    }
    Memory::from_files([
        ("CONSTITUTION.md", "- Wear the vest.\n".to_owned()),
        ("TASKS.md", tasks),
        ("CONVENTIONS.md", conventions),
        ("DECISIONS.md", decisions),
        ("LEARNINGS.md", learnings),
    ])
}

#[test]
fn budgets_and_shares_hold_for_uneven_folders() {
    for seed in 1..13 {
        let budgets: Vec<usize> = (0..2_000).step_by(37 + seed as usize).collect();
        sweep(&format!("uneven {seed}"), &uneven(seed), &budgets);
    }
}

#[test]
fn keywords_are_those_of_the_selected_tasks() {
    for seed in 1..20 {
        let memory = uneven(seed);
        for budget in (60..1_500).step_by(67) {
            let builder =
                PacketBuilder::new(&memory, options(budget), Arc::new(BytesOverFour)).unwrap();
            let report = builder.report().unwrap();
            let whole = report.included.iter().filter(|entry| {
                entry.item.kind().as_str() == "Task" && entry.reason != InclusionReason::Shortened
            });
            let mut indices: Vec<usize> = whole.map(|entry| entry.index.unwrap()).collect();
            indices.sort_unstable();
            let texts = indices.iter().map(|index| builder.entries()[*index].text());
            let expected = pannier_memory::keywords(texts);
            let policy = serde_json::to_string(&builder.policy().unwrap()).unwrap();
            let expected = serde_json::to_string(&expected).unwrap();
            assert!(policy.contains(&format!("\"keywords\":{expected}")), "{seed} at {budget}");
        }
    }
}

/// Returns the fixture with entries of all sections.
fn small() -> Memory {
    Memory::from_files(read_folder(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small/.context"),
    ))
}

fn read_folder(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for below in ["", "decisions/", "learnings/"] {
        for entry in std::fs::read_dir(folder.join(below)).into_iter().flatten() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                files.push((format!("{below}{name}"), std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    files
}

fn every_thirteenth() -> Vec<usize> {
    (0..=20_000).step_by(13).collect()
}

#[test]
fn budgets_hold_at_every_size() {
    for (name, memory) in [("small", small()), ("none", Memory::from_files([("", "")]))] {
        sweep(name, &memory, &(0..900).collect::<Vec<_>>());
        sweep(name, &memory, &every_thirteenth());
    }
    sweep("generated", &folder(10, 30), &every_thirteenth());
}

/// Skipped without test data.
#[test]
fn budgets_hold_for_a_real_folder() {
    let Some(folder) = data::real_folder() else { return };
    let memory = Memory::from_files(read_folder(&folder));
    assert_eq!(memory.warnings(), []);
    let count = |section| memory.section(section).len();
    assert_eq!((count(Section::Decisions), count(Section::Learnings)), (6, 7));
    assert!(count(Section::Constitution) > 20 && count(Section::Tasks) > 0);
    sweep("real", &memory, &every_thirteenth());
}

#[test]
fn budgets_hold_for_bpe_counters() {
    let counter: Arc<dyn TokenCounter> =
        Arc::from(pannier_tokens::counter_by_name("o200k").unwrap());
    for memory in [small(), folder(25, 30)] {
        for format in [PacketFormat::Markdown, PacketFormat::Json] {
            for budget in (0..4_000).step_by(61) {
                let mut options = options(budget);
                options.format = format;
                let builder = PacketBuilder::new(&memory, options, Arc::clone(&counter)).unwrap();
                let packet = builder.packet().unwrap();
                check_budget(&memory, &builder, &packet, &*counter);
            }
        }
    }
}

#[test]
fn packets_are_within_the_character_limit() {
    let memory = folder(25, 30);
    let make = |most: usize| {
        let mut options = options(8_000);
        options.max_characters = Some(most);
        pack(&memory, options)
    };
    let alone = pack(&memory, options(200)).text.chars().count();
    for most in (alone..30_000).step_by(977) {
        let packet = make(most);
        let characters = packet.text.chars().count();
        assert!(characters <= most && !packet.is_over_characters, "{characters} of {most}");
        assert!(packet.text.contains("Budget: 8000 tokens"));
        assert!(characters > most / 2 || most > 24_000, "{characters} of {most}");
    }
    assert!(make(10).is_over_characters);
    assert!(make(10).text.contains("Wear the vest"));
}

#[test]
fn the_query_raises_matching_entries() {
    let entry = |title: &str, body: &str| format!("## [2026-05-05] {title}\n\n{body}\n\n");
    let text: String = (0..30)
        .map(|number| entry(&format!("Learning {number}"), "oak elm ash fir yew, and so on and on"))
        .chain([entry("Rolling back", "Deployments are rolled back with one command.")])
        .collect();
    let memory = Memory::from_files([("LEARNINGS.md", text)]);
    let packet_for = |query: Option<&str>| {
        let mut options = options(300);
        options.query = query.map(str::to_owned);
        pack(&memory, options).text
    };
    assert!(!packet_for(None).contains("one command"));
    let text = packet_for(Some("roll back a deployment"));
    assert!(section(&text, SECTIONS[3]).contains("Rolling back\n\nDeployments are"), "{text}");
    // A query without matches changes nothing.
    assert_eq!(packet_for(Some("zebra")), packet_for(None));
}

#[test]
fn explained_budgets_include_the_entry() {
    let memory = folder(12, 20);
    let builder = PacketBuilder::new(&memory, options(700), Arc::new(BytesOverFour)).unwrap();
    let all: Vec<usize> = (0..builder.pool().len()).step_by(9).collect();
    for explanation in builder.explain(&all, &mut Search::new(Search::DEFAULT_STEPS)).unwrap() {
        let smallest = explanation.smallest_budget.unwrap();
        let is_whole = |budget: i64| {
            let builder =
                PacketBuilder::new(&memory, options(budget as usize), Arc::new(BytesOverFour))
                    .unwrap();
            let report = builder.report().unwrap();
            report.included.iter().any(|entry| {
                entry.index == Some(explanation.index) && entry.reason != InclusionReason::Shortened
            })
        };
        assert!(is_whole(smallest.max_tokens), "{explanation:?}");
        assert!(!is_whole(smallest.max_tokens - 1), "{explanation:?}");
        if let Decision::Included { reason: InclusionReason::Shortened, .. } = explanation.decision
        {
            assert!(smallest.max_tokens > 700);
        }
    }
}

#[test]
fn replay_reproduces_the_packet_and_detects_changes() {
    let memory = folder(25, 30);
    for budget in [0, 50, 150, 1_500, 100_000] {
        for max_characters in [None, Some(2_000)] {
            let mut options = json_options(budget);
            options.max_characters = max_characters;
            options.query = Some("oak and elm".to_owned());
            let counter: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
            let builder =
                PacketBuilder::new(&memory, options.clone(), Arc::clone(&counter)).unwrap();
            let receipt = builder.receipt().unwrap();
            let text = serde_json::to_string(&receipt).unwrap();
            let receipt: Receipt = serde_json::from_str(&text).unwrap();
            assert_eq!(PacketBuilder::options_from_receipt(&receipt).unwrap(), options);
            assert_eq!(builder.replay(&receipt).unwrap(), Replay::Identical, "{options:?}");
            let other = folder(25, 31);
            let other = PacketBuilder::new(&other, options, counter).unwrap();
            assert_ne!(other.replay(&receipt).unwrap(), Replay::Identical);
        }
    }
}

#[test]
fn options_out_of_range_are_an_error() {
    let memory = folder(1, 1);
    for percent in [-1.0, 100.5, f64::NAN] {
        let mut options = options(100);
        options.task_percent = percent;
        let error = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour)).unwrap_err();
        assert!(matches!(error, MemoryError::Engine(_)), "{error}");
    }
}

#[test]
fn documented_json_matches_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/reference/memory-format.md")).unwrap();
    let mut blocks = guide.split("```json\n").skip(1).filter_map(|block| block.split("```").next());
    let documented = blocks.find(|block| block.contains("tokens_used")).unwrap();
    let memory = Folder::find(root.join("examples/harbour")).unwrap().read().unwrap();
    let mut options = PacketOptions::new("2026-11-16T12:00:00Z".parse().unwrap());
    (options.budget, options.format, options.include_timestamp) = (420, PacketFormat::Json, true);
    options.query = Some("back up the database of one harbour".to_owned());
    options.policy = PacketPolicy::Memory;
    let packet = pack(&memory, options);
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(documented), value(&packet.text));
}
