//! The forms in which people write entries, and what is read of any Markdown.

use std::collections::BTreeSet;

use pannier_memory::{Entry, Memory};
use proptest::prelude::*;

/// A file, its text, and the titles of its entries with their days.
type Form = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const FORMS: [Form; 27] = [
    // Decisions and learnings.
    ("DECISIONS.md", "## [2026-07-21] Row east\n\nWind.\n", &[("Row east", "2026-07-21")]),
    ("DECISIONS.md", "### [2026-07-21-101112] Row east\n", &[("Row east", "2026-07-21")]),
    ("DECISIONS.md", "## ADR-001: Row east\n\nWind.\n", &[("ADR-001: Row east", "")]),
    (
        "DECISIONS.md",
        "## DEC-001\n\nRow east.\n\n## DEC-002\n\nRest.\n",
        &[("DEC-001", ""), ("DEC-002", "")],
    ),
    ("DECISIONS.md", "## Log\n\n### D-0001 - Row east\n\nWind.\n", &[("D-0001 - Row east", "")]),
    ("DECISIONS.md", "## 2026-07-21 \u{2014} Row east\n\nWind.\n", &[("Row east", "2026-07-21")]),
    ("DECISIONS.md", "## 2026-07-21: Row east\n\nWind.\n", &[("Row east", "2026-07-21")]),
    ("DECISIONS.md", "## Row east (2026-07-21)\n\nWind.\n", &[("Row east", "2026-07-21")]),
    (
        "DECISIONS.md",
        "## Row east\n\n**Date**: 2026-07-21\n\nWind.\n",
        &[("Row east", "2026-07-21")],
    ),
    (
        "DECISIONS.md",
        "## Row east\n\nWind.\n\n## Rest\n\nNoon.\n",
        &[("Row east", ""), ("Rest", "")],
    ),
    (
        "DECISIONS.md",
        "## Row east\n\n### Context\n\nWind.\n\n### Decision\n\nRow.\n",
        &[("Row east", "")],
    ),
    (
        "decisions/0001-row.md",
        "# Row east\n\n## Status\n\nAccepted\n\n## Context\n\nWind.\n",
        &[("Row east", "")],
    ),
    (
        "decisions/0002.md",
        "# ADR 2: Rest\n\nDate: 2026-07-21\n\nNoon.\n",
        &[("ADR 2: Rest", "2026-07-21")],
    ),
    (
        "DECISIONS.md",
        "| Date | Decision | Why |\n|---|---|---|\n| 2026-07-21 | Row east | Wind |\n",
        &[("Row east", "2026-07-21")],
    ),
    (
        "DECISIONS.md",
        "## Log\n\n| # | What | Status |\n|--|--|--|\n| 1 | Row east | Done |\n| 2 | Rest | |\n",
        &[("Row east", ""), ("Rest", "")],
    ),
    (
        "LEARNINGS.md",
        "# Learnings\n\n- 2026-07-21: Fog comes late\n  at noon\n- Pumps need water\n",
        &[("Fog comes late", "2026-07-21"), ("Pumps need water", "")],
    ),
    ("LEARNINGS.md", "# Learnings\n\nFog comes late.\n\nPumps need water.\n", &[("Learnings", "")]),
    ("LEARNINGS.md", "## Weather\n\n### Fog comes late\n\nAt noon.\n", &[("Fog comes late", "")]),
    (
        "LEARNINGS.md",
        "<!-- never closed\n\n## [2026-07-21] Fog comes late\n",
        &[("Fog comes late", "2026-07-21")],
    ),
    // Rules and conventions.
    (
        "CONSTITUTION.md",
        "# Rules\n\nNever row alone.\n\nWear a vest.\n",
        &[("Never row alone.", ""), ("Wear a vest.", "")],
    ),
    ("CONSTITUTION.md", "> Never row\n> alone.\n", &[("Never row", "")]),
    (
        "CONSTITUTION.md",
        "1. Never row alone.\n2. Wear a vest.\n",
        &[("Never row alone.", ""), ("Wear a vest.", "")],
    ),
    (
        "CONVENTIONS.md",
        "| Thing | Name |\n|---|---|\n| boat | river |\n",
        &[("| Thing | Name |", "")],
    ),
    ("CONVENTIONS.md", "## Names\n\n```sh\nname boat\n\nname oar\n```\n", &[("```sh", "")]),
    // Tasks.
    ("TASKS.md", "## Phase 1 #added:2026-07-21\n\n- [ ] Row\n- [x] Rest\n", &[("Row", "")]),
    ("TASKS.md", "## Later\n\n* plain\n\nWords.\n", &[("* plain", "")]),
    ("TASKS.md", "## Phase\n\n1. [ ] Row\n   - [ ] east\n", &[("Row", "")]),
];

#[test]
fn entries_are_read_in_the_forms_that_people_write() {
    for (name, text, expected) in FORMS {
        let memory = Memory::from_files([(name, text)]);
        let day = |entry: &Entry| entry.date().map(|date| date.to_string()[..10].to_owned());
        let entries = memory.entries().iter();
        let entries: Vec<(String, String)> = entries
            .map(|entry| (entry.title().to_owned(), day(entry).unwrap_or_default()))
            .collect();
        let expected = expected.iter().map(|(title, day)| (title.to_string(), day.to_string()));
        assert_eq!(entries, expected.collect::<Vec<_>>(), "{text}");
        assert_eq!(memory.coverage()[0].uncovered, [0; 0], "{text}");
    }
}

/// Returns the titles of a file's entries with their texts.
fn entries(text: &str) -> Vec<(String, String)> {
    let memory = Memory::from_files([("DECISIONS.md", text)]);
    let entries = memory.entries().iter();
    entries.map(|entry| (entry.title().to_owned(), entry.text().to_owned())).collect()
}

#[test]
fn only_rows_whose_cells_are_in_their_entry_are_an_index() {
    let table = |row: &str| {
        let table = "| Date | Decision | Status |\n|---|---|---|\n";
        entries(&format!("{table}{row}\n\n## [2026-07-21] Row east\n\n**Status**: Accepted\n"))
    };
    assert_eq!(table("| 2026-07-21 | Row east | Accepted |").len(), 1);
    let kept = table("| 2026-07-21 | Row east | Rejected by the crew |");
    assert_eq!(kept[0].1, "**Date**: 2026-07-21\n\n**Status**: Rejected by the crew");
    let numbers = entries("| Knots | Hours |\n|---|---|\n| 12 | 34 |\n| | |\n");
    assert_eq!(numbers, [("12".to_owned(), "**Hours**: 34".to_owned())]);
}

#[test]
fn comments_that_end_with_another_are_reported() {
    let warnings = |name: &str, text: &str| {
        let memory = Memory::from_files([(name, text)]);
        memory.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (name, text) in [
        ("CONSTITUTION.md", "# Rules\n\n<!-- Ours\n\n- Never row alone.\n\n<!-- end -->\n"),
        ("TASKS.md", "# T\n\n<!-- Open\n- [ ] Row\n<!-- end -->\n"),
        ("DECISIONS.md", "# D\n\n<!-- Log\n## Row\n\nEast.\n\n<!-- end -->\n"),
    ] {
        let warnings = warnings(name, text);
        let start = format!(".context/{name}:3: the comment contains the start of another");
        assert!(warnings.len() == 1 && warnings[0].starts_with(&start), "{warnings:?}");
    }
    let numbered = "<!--\n## ADR-001: Row\n\n## DEC-002\n-->\n";
    assert!(warnings("DECISIONS.md", numbered)[0].contains(":2: the comment around this entry"));
    // Templates have examples.
    for text in ["<!-- a -->\n<!-- b\n\n- [ ] Row\n-->\n", "<!-- a <!-- b -->\n"] {
        assert!(warnings("TASKS.md", text).is_empty(), "{text}");
    }
}

#[test]
fn coverage_counts_every_line_once() {
    let text =
        "# Tasks\n\n<!-- c -->\n\n## A\n\nWords.\n\n- [ ] a\n  more\n- [x] b\n- [ ]\n\n---\n";
    let memory =
        Memory::from_files([("TASKS.md", text), ("GLOSSARY.md", "# G\n\nOar: a blade.\n")]);
    let tasks = &memory.coverage()[0];
    assert_eq!((tasks.lines, tasks.entries, tasks.in_entries), (9, 2, 3));
    assert_eq!((tasks.headings, tasks.done, tasks.skipped), (2, 1, 2));
    assert_eq!(tasks.uncovered, [12]);
    let glossary = &memory.coverage()[1];
    assert!(glossary.is_listed && glossary.uncovered.is_empty());
}

/// A block of Markdown, in which `@` is a place for a word that occurs once, and `%` for a number.
fn block() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "# @\n",
        "## @\n",
        "### @ `#priority:high`\n",
        "## [2026-07-21] @\n",
        "## ADR-12: @\n",
        "#### D-3 - @\n",
        "## 2026-07-21 \u{2014} @\n",
        "## Context\n",
        "### Decision\n",
        "Words @\nand @.\n",
        "> Quoted @\n> and @\n",
        "- item @\n  more @\n- item @\n",
        "- [ ] open @\n  - [ ] sub @\n",
        "1. first @\n2) second @\n",
        "| A | B |\n|---|---|\n| x @ | y @ |\n",
        "| Date | Decision | Why |\n|---|---|---|\n| 2026-07-21 | Row | it is @ |\n",
        "## [2026-07-21] Row\n",
        "| A | B |\n|---|---|\n| % | % |\n",
        "```\ncode @\n\nmore @\n```\n",
        "    indented @\n",
        "<details>\n",
        "Do not:\n- this @\n",
        "<!-- hidden -->\n",
        "---\n",
        "Title @\n====\n",
        "**Decision**: @\n",
        "* star @\n\n  para @\n",
        "<!-- never closed\n",
        "\ttab @\n",
        "- plain\n  - [ ] below @\n",
        "[link]: @\n",
        "<b>@</b>\n",
        "Text <!-- c --> @\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_word_is_lost(
        blocks in prop::collection::vec((block(), any::<bool>()), 0..14),
        name in prop::sample::select(vec!["CONSTITUTION.md", "TASKS.md", "CONVENTIONS.md", "DECISIONS.md", "learnings/a.md"]),
    ) {
        let mut text = String::new();
        for (block, has_gap) in blocks {
            text += block;
            text += if has_gap { "\n" } else { "" };
        }
        let mut number = 100;
        while let Some(place) = text.find('@') {
            number += 1;
            text.replace_range(place..=place, &format!("w{number}"));
        }
        while let Some(place) = text.find('%') {
            number += 1;
            text.replace_range(place..=place, &format!("7{number}"));
        }
        let memory = Memory::from_files([(name, &text)]);
        let coverage = &memory.coverage()[0];
        let counted = coverage.in_entries + coverage.headings + coverage.done + coverage.skipped;
        prop_assert_eq!(counted + coverage.uncovered.len(), coverage.lines);
        let read: String = memory
            .entries()
            .iter()
            .map(|entry| {
                let intro = entry.list_intro().unwrap_or_default();
                [intro, entry.title(), entry.text(), entry.phase().unwrap_or_default(), ""].join("\n")
            })
            .collect();
        let is_word = |word: &&str| word.starts_with(['w', '7']) && word[1..].parse::<u32>().is_ok();
        let words = |text: &str| -> BTreeSet<String> {
            let words = text.split(|letter: char| !letter.is_alphanumeric());
            words.filter(is_word).map(str::to_owned).collect()
        };
        // A comment that is not closed ends with the next one, with a warning.
        let mut hidden = BTreeSet::new();
        for warning in memory.warnings().iter().filter(|warning| warning.problem.contains("start of another")) {
            let first = warning.line.unwrap_or_default();
            let last = text.lines().skip(first - 1).position(|line| line.contains("-->"));
            hidden.extend(first..=first + last.unwrap_or_default());
        }
        let read = words(&read);
        for (line, number) in text.lines().zip(1..) {
            // A heading may only group what is below it, or be the title of the file.
            let is_heading = line.trim_start().starts_with('#');
            if is_heading || coverage.uncovered.contains(&number) || hidden.contains(&number) {
                continue;
            }
            for word in words(line) {
                prop_assert!(read.contains(&word), "{word} of {line:?} in {name}:\n{text}");
            }
        }
    }
}
