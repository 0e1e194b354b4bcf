//! Packets of the policy `memory`: budgets, shares, queries, and the list of entries that are not whole.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_memory::{
    Memory, Packet, PacketBuilder, PacketFormat, PacketOptions, PacketPolicy, Section,
    render_entries,
};
use pannier_tokens::BytesOverFour;

#[path = "support/generate.rs"]
mod generate;

fn options(budget: usize) -> PacketOptions {
    let mut options = PacketOptions::new("2026-11-16T09:30:00Z".parse().unwrap());
    options.budget = budget;
    options
}

fn pack(memory: &Memory, options: PacketOptions) -> Packet {
    PacketBuilder::new(memory, options, Arc::new(BytesOverFour)).unwrap().packet().unwrap()
}

/// Returns the part of a packet from a heading to the next one.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text.find(heading).unwrap_or_else(|| panic!("no {heading} in {text}"));
    let rest = &text[start + heading.len()..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// Returns the ids of entries that are not whole.
fn noted_ids(text: &str) -> Vec<&str> {
    let lines = section(text, "## Also noted").lines();
    let items = lines.filter_map(|line| line.strip_prefix("- "));
    let ids = items.filter_map(|item| item.split_whitespace().next());
    ids.filter(|id| !id.starts_with('+')).collect()
}

#[test]
fn packets_are_within_the_budget() {
    let memory = Memory::from_files(generate::folder(60, 7));
    let o200k: Arc<dyn TokenCounter> = Arc::from(pannier_tokens::counter_by_name("o200k").unwrap());
    let estimate: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
    for (counter, step) in [(estimate, 197), (o200k, 1_511)] {
        for format in [PacketFormat::Markdown, PacketFormat::Json] {
            for max_characters in [None, Some(6_000)] {
                for budget in (0..9_000).step_by(step) {
                    let mut options = options(budget);
                    (options.format, options.max_characters) = (format, max_characters);
                    let builder =
                        PacketBuilder::new(&memory, options, Arc::clone(&counter)).unwrap();
                    let packet = builder.packet().unwrap();
                    assert_eq!(counter.count(&packet.text), packet.tokens_used, "at {budget}");
                    assert_eq!(packet.is_over_budget, packet.tokens_used > budget);
                    // Only the rules may exceed the budget, and then nothing else is in.
                    assert!(!packet.is_over_budget || budget < packet.min_tokens, "at {budget}");
                    let characters = packet.text.chars().count();
                    assert!(
                        packet.is_over_characters
                            || characters <= max_characters.unwrap_or(usize::MAX)
                    );
                    if format == PacketFormat::Json {
                        serde_json::from_str::<serde_json::Value>(&packet.text).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn rules_and_conventions_keep_the_headings_above_them() {
    let memory = Memory::from_files([
        (
            "CONSTITUTION.md",
            "# Rules\n\n- Count heads.\n\n## Never\n\n- Row alone.\n- Row at night.\n\n## Always\n\nWear a vest.\n",
        ),
        (
            "CONVENTIONS.md",
            "## Avoid\n\n- Long ropes.\n\n## Names\n\n| boat | name |\n|---|---|\n| blue | Ada |\n",
        ),
    ]);
    let text = pack(&memory, options(2_500)).text;
    let rules = "- Count heads.\n\n### Never\n\n- Row alone.\n- Row at night.\n\n### Always\n\n- Wear a vest.\n";
    assert_eq!(section(&text, "## Constitution (NEVER VIOLATE)\n\n"), rules);
    let conventions =
        "- [Avoid] Long ropes.\n- [Names]\n\n  | boat | name |\n  |---|---|\n  | blue | Ada |\n";
    assert!(section(&text, "## Key Conventions\n\n").starts_with(conventions), "{text}");
    let mut json = options(2_500);
    json.format = PacketFormat::Json;
    let text = pack(&memory, json).text;
    assert!(
        text.contains(r#"["Count heads.","[Never] Row alone.","[Never] Row at night.""#),
        "{text}"
    );
    let mut seed = options(2_500);
    seed.policy = PacketPolicy::PacketSeed;
    let text = pack(&memory, seed).text;
    assert!(text.contains("- Count heads.\n- Row alone.\n- Row at night.\n"), "{text}");
}

#[test]
fn a_title_that_is_a_date_is_printed_once() {
    let memory = Memory::from_files([("LEARNINGS.md", "## 2026-11-02\n\n- Ropes shrink.\n")]);
    let text = pack(&memory, options(2_500)).text;
    assert!(text.contains("\n### 2026-11-02\n\n- Ropes shrink.\n"), "{text}");
}

/// A folder with long rules, many tasks and many conventions.
fn crowded() -> Memory {
    let lines = |count: usize, line: &str| -> String {
        (0..count).map(|number| line.replace('@', &number.to_string())).collect()
    };
    Memory::from_files([
        ("CONSTITUTION.md", lines(90, "- Rule @ holds for every boat on this lake.\n")),
        (
            "TASKS.md",
            lines(240, "- [ ] Task @: look after the boat and its oars #added:2026-11-01\n"),
        ),
        ("CONVENTIONS.md", lines(100, "- Convention @ is about the names of things.\n")),
        (
            "DECISIONS.md",
            lines(
                104,
                "## [2026-07-01] Choice @\n\n**Context**: Wind.\n\n**Decision**: Row to pier @.\n\n",
            ),
        ),
        (
            "LEARNINGS.md",
            lines(140, "## [2026-07-01] Insight @\n\n**Lesson**: Pump @ needs water.\n\n"),
        ),
    ])
}

#[test]
fn every_section_has_a_share_of_what_the_rules_leave() {
    let text = pack(&crowded(), options(2_500)).text;
    let tokens = |heading: &str| section(&text, heading).len() / 4;
    let shares =
        ["## Current Tasks", "## Key Conventions", "## Recent Decisions", "## Recent Learnings"]
            .map(tokens);
    let all: usize = shares.iter().sum();
    for (tokens, percent) in shares.into_iter().zip([40, 20, 20, 20]) {
        assert!(tokens * 100 > all * (percent - 5), "{shares:?}");
    }
    // What a section does not use goes to the others.
    let few = Memory::from_files([
        ("TASKS.md", "- [ ] One task\n".to_owned()),
        (
            "LEARNINGS.md",
            (0..200).map(|number| format!("## Insight {number}\n\nWords.\n\n")).collect(),
        ),
    ]);
    let packet = pack(&few, options(1_000));
    assert!(section(&packet.text, "## Recent Learnings").len() / 4 > 600, "{}", packet.text);
}

#[test]
fn a_query_ranks_every_section() {
    let memory = crowded();
    let with_query = |query: &str| pack(&memory, options(2_500).with_query([query])).text;
    for number in [3, 77] {
        let text =
            with_query(&format!("task {number} convention {number} pier {number} pump {number}"));
        for (heading, found) in [
            ("## Current Tasks", format!("Task {number}:")),
            ("## Key Conventions", format!("Convention {number} ")),
            ("## Recent Decisions", format!("Row to pier {number}.")),
            ("## Recent Learnings", format!("Pump {number} needs")),
        ] {
            assert!(section(&text, heading).contains(&found), "{found} in {text}");
        }
    }
    assert_ne!(with_query("pier 3"), with_query("pier 4"));
}

#[test]
fn the_best_entry_is_shortened_rather_than_passed_over() {
    let long = "Some context about the lake. ".repeat(60);
    let files = |more: &str| {
        let decision = format!(
            "## [2026-07-01] Use the east pier\n\n**Context**: {long}\n\n**Decision**: Boats leave from the\neast pier.\n\n{more}"
        );
        Memory::from_files([("DECISIONS.md", decision)])
    };
    let others: String =
        (0..20).map(|number| format!("## [2026-11-10] Other {number}\n\nWords.\n\n")).collect();
    let text = pack(&files(&others), options(400).with_query(["east pier"])).text;
    let noted = section(&text, "## Also noted");
    assert!(
        noted.contains(
            " Use the east pier (2026-07-01)\n  **Decision**: Boats leave from the\n  east pier.\n"
        ),
        "{text}"
    );
}

#[test]
fn ids_open_entries_and_do_not_change_with_other_entries() {
    let memory = crowded();
    let text = pack(&memory, options(4_000)).text;
    let ids = noted_ids(&text);
    assert!(ids.len() > 20, "{text}");
    for id in &ids {
        let entry = memory.entry(id).unwrap();
        assert_eq!((id.len(), entry.short_id()), (7, *id));
        let whole = render_entries(&[entry], 1_000, &BytesOverFour);
        assert!(whole.contains(entry.title()) && whole.contains(entry.text()), "{whole}");
    }
    let first = memory.section(Section::Decisions)[0].short_id();
    let alone = Memory::from_files([(
        "DECISIONS.md",
        "## New\n\nx\n\n## [2026-07-01] Choice 0\n\nother text\n",
    )]);
    assert_eq!(alone.section(Section::Decisions)[1].short_id(), first);
    assert!(memory.entry("d000000").is_none());
}

#[test]
fn entries_are_shortened_to_the_budget() {
    let memory = crowded();
    let entries: Vec<_> = memory.section(Section::Decisions)[..8].iter().collect();
    for budget in (20..400).step_by(10) {
        let text = render_entries(&entries, budget, &BytesOverFour);
        assert!(BytesOverFour.count(&text) <= budget, "{budget}: {text}");
    }
    let text = render_entries(&entries, 120, &BytesOverFour);
    assert!(text.starts_with("### d") && text.contains(".context/DECISIONS.md:1"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("- d")), "{text}");
    assert_eq!(render_entries(&entries, 0, &BytesOverFour), "- +8 more\n");
    assert_eq!(render_entries(&[], 0, &BytesOverFour), "\n");
    // The first entry is shortened after all others.
    let levels = |text: &str| (text.matches("### d").count(), text.matches("\n- d").count());
    let steps: Vec<_> =
        (0..400).map(|budget| levels(&render_entries(&entries, budget, &BytesOverFour))).collect();
    assert!(steps.is_sorted_by_key(|(whole, _)| *whole), "{steps:?}");
    assert!(
        steps.contains(&(1, 7)) && steps.contains(&(1, 3)) && steps.contains(&(8, 0)),
        "{steps:?}"
    );
}

#[test]
fn tasks_show_their_phase_and_rank_by_progress_and_priority() {
    let text = "## Someday `#priority:low`\n- [ ] Paint #added:2026-11-10\n## Now: Repairs\n- [ ] Caulk #in-progress\n- [ ] Sand\n\nWait for the sun.\n";
    let memory = Memory::from_files([("TASKS.md", text)]);
    let whole = pack(&memory, options(1_000)).text;
    assert!(
        whole.contains("- [ ] [Someday] Paint #added:2026-11-10\n- [ ] [Now: Repairs] Caulk"),
        "{whole}"
    );
    assert!(whole.contains("\n- [Now: Repairs] Wait for the sun.\n"), "{whole}");
    let builder = PacketBuilder::new(&memory, options(1_000), Arc::new(BytesOverFour)).unwrap();
    let mut ranked: Vec<_> = builder.pool().iter().collect();
    ranked.sort_by_key(|item| std::cmp::Reverse(item.priority()));
    let ranked: Vec<&str> = ranked.iter().map(|item| item.content()).collect();
    assert!(ranked[0].contains("Caulk") && ranked[1].contains("Sand"), "{ranked:?}");
    assert!(ranked[2].contains("Paint") && ranked[3].contains("Wait"), "{ranked:?}");
}

#[test]
fn titles_are_not_cut_at_line_breaks() {
    let line = "Replace the lock of the boat house,\n  which sticks in the rain";
    let tasks: String = (0..60)
        .map(|number| format!("- [ ] {line} {number}\n\n  {}\n", "More. ".repeat(30)))
        .collect();
    let text = pack(&Memory::from_files([("TASKS.md", tasks)]), options(600)).text;
    assert!(
        section(&text, "## Also noted")
            .contains("lock of the boat house, which sticks in the rain 53"),
        "{text}"
    );
}
