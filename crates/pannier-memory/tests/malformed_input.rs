//! Malformed, hostile and very large files. The fuzz target `memory` checks the same invariants for arbitrary bytes.

use std::fmt::Write;
use std::time::Instant;

use pannier_memory::{Memory, Section};
use proptest::prelude::*;

use invariants::{NAMES, check};

#[path = "support/invariants.rs"]
mod invariants;

/// Returns whether a heading printed after `text` still parses as a heading.
fn is_closed(text: &str) -> bool {
    let after = format!("# Before\n\n{text}\n\n## [2026-01-01] After\n");
    let memory = Memory::from_files([("DECISIONS.md", after)]);
    memory.entries().last().is_some_and(|entry| entry.title() == "After")
}

fn fragment() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "- ",
        "- [ ] ",
        "- [x] ",
        "- [-] ",
        "* [ ]",
        "+ ",
        "1. ",
        "10) ",
        "  ",
        "    ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "> ",
        ">",
        "```",
        "````\n",
        "~~~",
        "```sh\n",
        "`",
        "<!--",
        "-->",
        "<!-- x -->",
        "<!-- INDEX:START -->\n",
        "<!-- INDEX:END -->\n",
        "<!-->",
        "<pre>",
        "<script>\n",
        "<?",
        "<![CDATA[",
        "<!X ",
        "<div>\n",
        "## [2026-07-25] T\n",
        "### [2026-07-25-101112] U\n",
        "## [2026-13-45]",
        "## H\n",
        "# ",
        "---\n",
        "===\n",
        "~~Superseded~~\n",
        "**Status**: Superseded\n",
        "#added:2026-07-25",
        "#added:2026-99-99 ",
        "#tag ",
        "[a]: /x\n",
        "[",
        "![",
        "](",
        "\u{feff}",
        "\0",
        "é",
        "漢",
        "\u{2028}",
        "\\",
        "&amp;",
        "| a | b |\n|---|---|\n",
        "word ",
        "word\n",
    ]);
    prop_oneof![8 => fixed.prop_map(str::to_owned), 1 => "[a-zé \n>*-]{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_files_yield_a_valid_memory(
        files in prop::collection::vec(
            (prop::sample::select(NAMES.to_vec()), prop::collection::vec(fragment(), 0..30)),
            0..4,
        ),
        bad: bool,
    ) {
        let mut files: Vec<(&str, Vec<u8>)> =
            files.into_iter().map(|(name, text)| (name, text.concat().into_bytes())).collect();
        files.sort();
        files.dedup_by(|next, kept| next.0 == kept.0);
        if bad && let Some((_, bytes)) = files.first_mut() {
            let middle = bytes.len() / 2;
            bytes.splice(middle..middle, [0xff, b'\n', 0xe6, 0xbc]);
        }
        let memory = check(&files);
        prop_assert_eq!(&memory, &Memory::from_files(files.into_iter().rev()));
        for entry in memory.entries() {
            prop_assert!(is_closed(entry.text()), "{:?}", entry.text());
        }
    }

    #[test]
    fn items_survive_printing_and_parsing(
        text in prop::collection::vec(fragment(), 0..20),
    ) {
        let memory = Memory::from_files([("CONVENTIONS.md", text.concat())]);
        for entry in memory.entries().iter().filter(|entry| entry.is_specified()) {
            let first = entry.text().lines().next().unwrap();
            let is_line = first.chars().all(|character| "-*_ \t".contains(character));
            if is_line || entry.text().contains("<!--") {
                // After a bullet and without its checkbox, this would be a thematic break or a comment.
                continue;
            }
            let printed = format!("- {}\n", entry.text().replace('\n', "\n  "));
            let again = Memory::from_files([("CONVENTIONS.md", printed.clone())]);
            prop_assert_eq!(again.entries().len(), 1, "{:?}", printed);
            // A second checkbox would be parsed as the first.
            if !entry.text().starts_with('[') {
                let words = |text: &str| text.split_whitespace().collect::<String>();
                prop_assert_eq!(words(again.entries()[0].text()), words(entry.text()));
            }
        }
    }
}

/// Returns a folder with `count` decisions, learnings and tasks.
fn large(count: usize) -> Vec<(&'static str, String)> {
    let mut texts = [const { String::new() }; 3];
    for number in 0..count {
        let (day, month) = (1 + number % 28, 1 + number % 12);
        let [decisions, learnings, tasks] = &mut texts;
        write!(decisions, "## [2026-{month:02}-{day:02}-101112] Decision {number}\n\n**Status**: Accepted\n\n**Context**: What led to {number}, <!-- aside --> in `some` words.\n\n- one\n- two\n\n```sh\nrun {number}\n```\n\n---\n\n").unwrap();
        write!(learnings, "## [2026-{month:02}-{day:02}] Learning {number}\n\n**Lesson**: What was learned from {number}.\n\n**Application**: What to do.\n\n").unwrap();
        write!(tasks, "- [ ] Task {number} #added:2026-{month:02}-{day:02}\n  goes on\n  - [ ] part\n  - [x] part\n").unwrap();
    }
    let [decisions, learnings, tasks] = texts;
    vec![("DECISIONS.md", decisions), ("LEARNINGS.md", learnings), ("TASKS.md", tasks)]
}

#[test]
fn a_large_folder_parses() {
    let memory = Memory::from_files(large(1_000));
    for section in [Section::Tasks, Section::Decisions, Section::Learnings] {
        assert_eq!(memory.section(section).len(), 1_000);
    }
    assert_eq!(memory.warnings(), []);
}

#[test]
fn hostile_nesting_neither_overflows_the_stack_nor_takes_quadratic_time() {
    let deep = |marker: &str| marker.repeat(100_000);
    let lines = |line: &str| line.repeat(20_000);
    let nested: String = (0..1_500).map(|depth| format!("{}- x\n", "  ".repeat(depth))).collect();
    for text in [
        format!("{}x{}", deep("- "), lines("\n")),
        format!("{}x{}", deep("> "), lines("\n> x")),
        format!("{}x{}", deep(">"), lines("\nx")),
        format!("{}x{}", deep("1. "), lines("\n")),
        format!("{nested}{}", lines("\n")),
        deep("["),
        deep("!["),
        deep("[a]("),
        lines("*a_ "),
        lines("<!--"),
        lines("<!-- "),
        lines("a <!-- "),
        lines("a <b "),
        lines("`a``"),
        lines("- <!-- x -->\n"),
        lines("- [ ] a\n"),
        lines("## [2026-07-25] a\n"),
        lines("~~~\n"),
        lines("<pre>\n"),
        lines("[a]: b\n"),
        lines("&"),
        lines("\\"),
    ] {
        for name in ["TASKS.md", "CONVENTIONS.md", "DECISIONS.md"] {
            let start = Instant::now();
            check(&[(name, text.clone().into_bytes())]);
            let took = start.elapsed();
            let shown: String = text.chars().take(20).collect();
            assert!(took.as_secs() < 20, "{name}: {shown:?} took {took:?}");
        }
    }
    let memory =
        check(&[("TASKS.md", format!("- [ ] a\n{}x\n- [ ] b\n", deep("- ")).into_bytes())]);
    assert_eq!(memory.section(Section::Tasks).len(), 2);
    assert_eq!(memory.warnings()[0].line, Some(2));
}
