//! Parses a small context folder with entries of all sections, decoys and mistakes.

use std::path::{Path, PathBuf};

use pannier_memory::{Config, Entry, Folder, Memory, Section};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small")
}

fn read() -> Memory {
    Folder::find(fixture()).unwrap().read().unwrap()
}

fn texts(memory: &Memory, section: Section) -> Vec<&str> {
    memory.section(section).iter().map(Entry::text).collect()
}

#[test]
fn all_rules_are_parsed_whole() {
    let expected = [
        "These hold on every trip.",
        "Never row alone: two boats, or one boat\nand somebody on the shore who knows.",
        "Everybody wears a vest.",
        "A boat goes out only if\n- its plugs are in,\n- its oars are counted.",
        "lend the key",
        "leave the gate open",
        "```text\n- decoy in a block of code\n```",
        "In fog, nobody leaves the harbour,\nwhoever asks.",
    ];
    let memory = read();
    assert_eq!(texts(&memory, Section::Constitution), expected);
    let intros = memory.section(Section::Constitution).iter().map(Entry::list_intro);
    let expected = [None, None, None, None, Some("Do not:"), Some("Do not:"), None, None];
    assert_eq!(intros.collect::<Vec<_>>(), expected);
    let rules = memory.section(Section::Constitution).iter();
    assert_eq!(rules.filter(|rule| rule.is_specified()).count(), 6);
}

#[test]
fn conventions_have_normalized_line_endings() {
    let expected = [
        "**Boats** are named after rivers:\nthe oldest river, the oldest boat",
        "Oars are numbered from the stern",
        "Write down the wind",
        "and the depth",
    ];
    assert_eq!(texts(&read(), Section::Conventions), expected);
}

#[test]
fn all_open_tasks_are_parsed_whole() {
    let memory = read();
    let shown: Vec<(&str, usize, Option<String>)> = memory
        .section(Section::Tasks)
        .iter()
        .map(|task| (task.title(), task.line(), task.date().map(|date| date.to_string())))
        .collect();
    let date = |date: &str| Some(date.to_owned());
    assert_eq!(
        shown,
        [
            ("Mend the leak of the double scull", 6, date("2026-05-02T08:15:00Z")),
            ("Paint the spare oars as well", 16, date("2026-04-28T00:00:00Z")),
            ("- Notes without a box", 18, None),
            ("Ask the harbour master for another berth", 19, None),
            ("Replace the lock, see #288.", 22, None),
            ("Air the attic", 23, None),
        ]
    );
    assert_eq!(
        texts(&memory, Section::Tasks)[0],
        "Mend the leak of the double scull #priority:high #added:2026-05-02-081500\nIt is under the second seat, and only shows\nwith two people in the boat. #session:6d40ae08\n- [x] take out the seat\n- [ ] seal the seam\n\n```sh\n- [ ] decoy in code\n```"
    );
}

#[test]
fn decisions_and_learnings_are_parsed_from_files_and_pages() {
    let memory = read();
    let shown = |section| -> Vec<(&str, bool, &str)> {
        let entries = memory.section(section).iter();
        entries.map(|entry| (entry.title(), entry.is_superseded(), entry.path())).collect()
    };
    assert_eq!(
        shown(Section::Decisions),
        [
            ("Train in the morning", false, ".context/DECISIONS.md"),
            ("Keep the log on paper", true, ".context/DECISIONS.md"),
            ("Meet on the 45th", false, ".context/DECISIONS.md"),
            ("Themes", false, ".context/DECISIONS.md"),
            ("Two boats are enough", true, ".context/decisions/boats.md"),
            ("Keep the log in a file", false, ".context/decisions/log.md"),
            ("Other notes", false, ".context/decisions/log.md"),
        ]
    );
    assert_eq!(
        shown(Section::Learnings),
        [
            ("The pump needs water before it pumps", false, ".context/LEARNINGS.md"),
            ("Fog comes with the east wind", false, ".context/learnings/weather.md"),
        ]
    );
    let decisions = texts(&memory, Section::Decisions);
    assert!(decisions[0].ends_with("**Decision**: Training begins at seven."));
    assert!(decisions[5].ends_with("A file that everybody can read."));
    assert!(texts(&memory, Section::Learnings)[0].ends_with("```sh\npour --cups 1\n```"));
    let first = &memory.section(Section::Decisions)[0];
    assert!(first.id().starts_with("decision-2026-05-03-"), "{}", first.id());
    assert_eq!(first.line(), 15);
}

#[test]
fn read_order_skips_templates() {
    let expected = ["CONSTITUTION", "TASKS", "CONVENTIONS", "DECISIONS", "LEARNINGS", "GLOSSARY"];
    assert_eq!(read().read_order(), expected.map(|name| format!(".context/{name}.md")));
}

#[test]
fn warnings_report_exactly_the_mistakes() {
    let warnings: Vec<String> = read().warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            ".context/TASKS.md:23: 2026-02-30 is not a valid date, so the entry counts as undated",
            ".context/DECISIONS.md:30: 2026-13-45 is not a valid date, so the entry counts as undated",
            ".context/LEARNINGS.md:9: the code block is not closed, so the rest of the file is code",
        ]
    );
}

#[test]
fn configuration_is_read_from_the_project_root() {
    let config = Config::read(&Folder::find(fixture()).unwrap()).unwrap();
    assert_eq!(config.token_budget, Some(3_000));
    assert_eq!(config.task_budget_pct, Some(0.3));
    assert_eq!(config.convention_budget_pct, None);
    assert_eq!(config.agent_cooldown_minutes, Some(5));
}

#[test]
fn equal_files_have_the_same_version() {
    let memory = read();
    assert_eq!(memory, read());
    assert_eq!(memory.version().len(), 64);
}
