//! Parses entries that are list items: rules, conventions and tasks.
//!
//! An item includes its further lines and its sub-items. Rules and conventions are the outermost items, with or without a
//! checkbox. A task is an item with an open checkbox, at any depth, that is not part of another task.
//!
//! Text outside of items becomes an entry, too: a rule or convention for each block, and a note for the blocks under each
//! heading above tasks.

use std::ops::Range;
use std::sync::Arc;

use crate::date::{self, ParsedDate};
use crate::entry::{Draft, Labels, Phase};
use crate::line_map::{LineKind, LineMap};
use crate::markdown::{Heading, Item, Outline, close_open_blocks};
use crate::memory::Problem;
use crate::text::{strip_blockquote, trimmed};

/// The state of an item's checkbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checkbox {
    Open,
    Done,
    Skipped,
    None,
}

impl Checkbox {
    /// Parses the checkbox at the beginning of an item. Returns it with its length in bytes, trailing whitespace included.
    fn parse(item: &str) -> (Self, usize) {
        let checkbox = match item.get(..3) {
            Some("[ ]") => Self::Open,
            Some("[x]" | "[X]") => Self::Done,
            Some("[-]") => Self::Skipped,
            _ => return (Self::None, 0),
        };
        let rest = &item[3..];
        let whitespace = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        match rest.is_empty() || rest.starts_with('\n') || whitespace > 0 {
            true => (checkbox, 3 + whitespace),
            false => (Self::None, 0),
        }
    }
}

/// Returns the rules or conventions of a file. Their texts have no checkbox, except for skipped ones (`[-]`).
pub(crate) fn rules(outline: &Outline, lines: &mut LineMap) -> Vec<Draft> {
    let mut rules = Vec::new();
    let phases = Phases::new(outline, &mut Vec::new());
    let below_heading = |rule: Draft, start: usize| {
        let phase = phases.above(start).and_then(|(_, phase)| phase);
        Draft { phase, ..rule }
    };
    for item in outline.items.iter().filter(|item| item.depth == 0) {
        let skip = match Checkbox::parse(outline.item_start(item)) {
            (Checkbox::Open | Checkbox::Done, length) => length,
            _ => 0,
        };
        match draft(outline, item, skip) {
            Some(rule) => {
                mark_item(outline, item, lines);
                rules.push(below_heading(rule, item.range.start));
            }
            None => lines.mark(outline, &item.range, LineKind::Empty),
        }
    }
    for block in lines.blocks(outline) {
        if let Some(rule) = block_draft(outline, &block) {
            lines.mark(outline, &block, LineKind::Entry);
            rules.push(below_heading(rule, block.start));
        }
    }
    rules.sort_by_key(|rule| rule.line);
    rules
}

/// Marks the lines of an item and of the introduction of its list.
fn mark_item(outline: &Outline, item: &Item, lines: &mut LineMap) {
    lines.mark(outline, &item.range, LineKind::Entry);
    if item.depth == 0
        && let Some(Some(intro)) = outline.intros.get(item.list)
    {
        lines.mark(outline, intro, LineKind::Entry);
    }
}

/// Returns a block of text as an entry, unless it has nothing but markers.
pub(crate) fn block_draft(outline: &Outline, block: &Range<usize>) -> Option<Draft> {
    let text = outline.without_comments(block.clone());
    let is_quote = text.lines().all(|line| line.trim_start().starts_with('>'));
    let text = match is_quote {
        true => text.lines().map(|line| strip_blockquote(line, 1)).collect::<Vec<_>>().join("\n"),
        false => text,
    };
    let text = close_open_blocks(trimmed(&text));
    let title = first_line(&text)?;
    let line = outline.line(block.start);
    let end_line = outline.line(outline.trimmed_end(block).max(block.start + 1) - 1);
    Some(Draft { title, text, line, end_line, ..Draft::default() })
}

/// Returns the first line with a letter or a digit, or else the first that is not blank.
fn first_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let has_word = |line: &&str| line.contains(char::is_alphanumeric);
    Some(Some(first).filter(has_word).or_else(|| lines.find(has_word)).unwrap_or(first).to_owned())
}

/// Returns the open tasks of a file, and a note for other text under each heading.
pub(crate) fn tasks(
    outline: &Outline,
    lines: &mut LineMap,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let mut tasks = Vec::new();
    let phases = Phases::new(outline, problems);
    // The end of the last task. Items that start before it are part of that task.
    let mut end = 0;
    for (index, item) in outline.items.iter().enumerate() {
        let (checkbox, length) = Checkbox::parse(outline.item_start(item));
        if item.range.start < end {
            continue;
        }
        if checkbox == Checkbox::None && resembles_checkbox(outline.item_start(item)) {
            let problem = "this resembles a task but is not one; write '- [ ] text'".to_owned();
            problems.push(Problem { line: outline.line(item.range.start), problem });
        }
        if matches!(checkbox, Checkbox::Done | Checkbox::Skipped) {
            lines.mark(outline, &item.range, LineKind::Done);
        }
        if checkbox != Checkbox::Open {
            continue;
        }
        end = item.range.end;
        let Some(mut task) = draft(outline, item, length) else {
            lines.mark(outline, &item.range, LineKind::Empty);
            continue;
        };
        mark_item(outline, item, lines);
        let title = without_tags(&task.title);
        if !title.is_empty() {
            task.title = title;
        }
        // Tags of sub-items do not apply to the task.
        let next = outline.items.get(index + 1).map_or(end, |next| next.range.start.min(end));
        if let Some(added) = date_added(&outline.text()[item.range.start..next]) {
            task.date = added.date;
            problems.extend(added.problem.map(|problem| Problem { line: task.line, problem }));
        }
        task.phase = phases.above(item.range.start).and_then(|(_, phase)| phase);
        tasks.push(task);
    }
    tasks.extend(notes(outline, lines, &phases));
    tasks.sort_by_key(|task| task.line);
    tasks
}

/// Returns one note for the text under each heading that is no task.
fn notes(outline: &Outline, lines: &mut LineMap, phases: &Phases<'_>) -> Vec<Draft> {
    let mut notes: Vec<(Option<usize>, Draft)> = Vec::new();
    for block in lines.blocks(outline) {
        let Some(draft) = block_draft(outline, &block) else { continue };
        let is_blank_item = draft.text.chars().all(|mark| !mark.is_alphanumeric());
        if is_blank_item {
            continue;
        }
        lines.mark(outline, &block, LineKind::Entry);
        let (heading, phase) = phases.above(block.start).unzip();
        let heading = heading.map(|heading| heading.range.start);
        match notes.last_mut().filter(|(last, _)| *last == heading) {
            Some((_, note)) => {
                note.text = format!("{}\n\n{}", note.text, draft.text);
                note.end_line = draft.end_line;
            }
            None => notes.push((heading, Draft { phase: phase.flatten(), ..draft })),
        }
    }
    notes.into_iter().map(|(_, note)| note).collect()
}

/// The headings above list items.
struct Phases<'o> {
    headings: Vec<(&'o Heading, Option<Arc<Phase>>)>,
}

impl<'o> Phases<'o> {
    /// Parses all headings. The title of the file is no phase.
    fn new(outline: &'o Outline, problems: &mut Vec<Problem>) -> Self {
        let headings = outline.headings.iter().map(|heading| {
            let text = outline.without_comments(heading.range.clone());
            let text = text.trim().trim_matches('#').trim();
            // Tags of headings are often code, so that they are no links.
            let words = text.split_whitespace().filter(|word| !is_tag(word.trim_matches('`')));
            let title = words.collect::<Vec<_>>().join(" ");
            let text = text.replace('`', " ");
            if heading.level < 2 || title.is_empty() {
                return (heading, None);
            }
            let added = date_added(&text);
            let problem = added.as_ref().and_then(|added| added.problem.clone());
            let line = outline.line(heading.range.start);
            problems.extend(problem.map(|problem| Problem { line, problem }));
            let date = added.and_then(|added| added.date);
            (heading, Some(Arc::new(Phase { title, date, labels: Labels::parse(&text) })))
        });
        Self { headings: headings.collect() }
    }

    /// Returns the last heading before a position.
    fn above(&self, position: usize) -> Option<(&'o Heading, Option<Arc<Phase>>)> {
        let after = self.headings.partition_point(|(heading, _)| heading.range.start <= position);
        after.checked_sub(1).map(|last| self.headings[last].clone())
    }
}

/// Returns whether an item begins with a misspelled open checkbox.
fn resembles_checkbox(item: &str) -> bool {
    item.starts_with("[]") || item.starts_with("[ ]") || item.starts_with("[_]")
}

/// Returns an item as an entry, unless its text is empty.
pub(crate) fn draft(outline: &Outline, item: &Item, skip: usize) -> Option<Draft> {
    let text = outline.item_text(item, skip);
    let title = text.lines().map(str::trim).find(|line| !line.is_empty());
    let title = title.unwrap_or_default().to_owned();
    let line = outline.line(item.range.start);
    let is_empty = title.is_empty() || Checkbox::parse(&text).1 == text.len();
    let list_intro = item.list_intro.clone();
    let end_line = outline.line(outline.trimmed_end(&item.range).max(item.range.start + 1) - 1);
    let draft = Draft { list_intro, title, text, line, end_line, ..Draft::default() };
    (!is_empty).then_some(Draft { is_specified: true, ..draft })
}

/// Returns the date of a task's `#added:` tag.
fn date_added(text: &str) -> Option<ParsedDate> {
    let mut tags = text.split_whitespace().filter_map(|word| word.strip_prefix("#added:"));
    tags.find_map(date::parse)
}

/// Returns a line without its tags.
fn without_tags(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().filter(|word| !is_tag(word)).collect();
    words.join(" ")
}

/// Returns whether a word is a tag: `#blocked` or `#priority:high`, but not `#42`, which refers to an issue.
fn is_tag(word: &str) -> bool {
    word.strip_prefix('#').is_some_and(|tag| {
        tag.starts_with(|first: char| first.is_alphabetic())
            && !tag.ends_with([',', ';', '.', ')', '?', '!'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(text: &str) -> Vec<String> {
        all_rules(text).into_iter().filter(|rule| rule.is_specified).map(|rule| rule.text).collect()
    }

    fn all_rules(text: &str) -> Vec<Draft> {
        let outline = Outline::new(text);
        rules(&outline, &mut LineMap::new(&outline))
    }

    fn all_tasks(text: &str, problems: &mut Vec<Problem>) -> Vec<Draft> {
        let outline = Outline::new(text);
        tasks(&outline, &mut LineMap::new(&outline), problems)
    }

    fn tasks_of(text: &str) -> Vec<Draft> {
        let mut problems = Vec::new();
        let mut tasks = all_tasks(text, &mut problems);
        assert_eq!(problems, [], "{text}");
        tasks.retain(|task| task.is_specified);
        tasks
    }

    fn task_texts(text: &str) -> Vec<String> {
        tasks_of(text).into_iter().map(|task| task.text).collect()
    }

    #[test]
    fn misspelled_checkboxes_are_reported() {
        let mut problems = Vec::new();
        let text = "- [] no\n- [ ]no\n- plain\n- [/] half\n- [ ] yes\n  - [] part of it\n";
        let tasks = all_tasks(text, &mut problems);
        assert_eq!(tasks.iter().filter(|task| task.is_specified).count(), 1);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2]);
    }

    #[test]
    fn tabs_indent_like_spaces() {
        for (text, tasks) in [
            ("- Phase 2\n\t- [ ] child\n", vec!["child"]),
            ("* Phase 2\n\n\t* [ ] child\n", vec!["child"]),
            (
                "- [x] done\n\t- [ ] child\n\t\t- [ ] grandchild\n",
                vec!["child\n  - [ ] grandchild"],
            ),
            ("- [ ] open\n\tmore\n\t- sub\n", vec!["open\n  more\n  - sub"]),
            ("1. Phase\n\t- [ ] child\n\t- [ ] other\n", vec!["child", "other"]),
        ] {
            assert_eq!(task_texts(text), tasks, "{text:?}");
        }
    }

    #[test]
    fn every_outermost_item_is_a_rule() {
        let text = "# Rules\n## Safety\n- [ ] Wear a vest.\n- [x] Count heads\n  twice.\n\n* plain\n+ plus\n\nWords.\n\n1. first\n2) second\n";
        assert_eq!(
            rules_of(text),
            ["Wear a vest.", "Count heads\ntwice.", "plain", "plus", "first", "second"]
        );
        assert_eq!(rules_of("Do not:\n- this\n- that\n"), ["this", "that"]);
        assert_eq!(rules_of("-\n- [ ]\n- [x] \n-   \n- [ ]<!-- x -->\n"), Vec::<String>::new());
        // A skipped rule keeps its checkbox.
        assert_eq!(
            rules_of("- [-] old\n- [ ]unboxed\n- [1] note\n"),
            ["[-] old", "[ ]unboxed", "[1] note"]
        );
    }

    #[test]
    fn further_lines_and_sub_items_belong_to_their_item() {
        let text = "- one\n  goes on\nlazily\n  - sub\n    - [x] subsub\n\n  A paragraph.\n\n      code\n- two\n";
        assert_eq!(
            rules_of(text),
            ["one\ngoes on\nlazily\n- sub\n  - [x] subsub\n\nA paragraph.\n\n    code", "two"]
        );
        assert_eq!(rules_of("10. ten\n    more\n\n    - sub\n"), ["ten\nmore\n\n- sub"]);
        assert_eq!(rules_of("-\ttab\n\tmore\n\t- sub\n"), ["tab\nmore\n- sub"]);
        assert_eq!(rules_of("- [ ] a\n\n      b\n"), ["a\n\n    b"]);
        assert_eq!(rules_of("-     code\n"), ["    code"]);
        assert_eq!(rules_of("-\n  late\n"), ["late"]);
        assert_eq!(rules_of("   - a\n     b\n"), ["a\nb"]);
    }

    #[test]
    fn list_introductions_are_kept() {
        let intros = |text: &str| -> Vec<Option<String>> {
            let outline = Outline::new(text);
            let rules = rules(&outline, &mut LineMap::new(&outline)).into_iter();
            let rules = rules.filter(|rule| rule.is_specified);
            rules.map(|rule| rule.list_intro.as_deref().map(str::to_owned)).collect()
        };
        let intro = |text: &str| Some(text.to_owned());
        assert_eq!(
            intros("Do not:\n- a\n- b\n\nWords.\n- c\n"),
            [intro("Do not:"), intro("Do not:"), None]
        );
        assert_eq!(intros("# H\nNever\nsay <!-- x -->:\n\n* a\n  - b\n"), [intro("Never say :")]);
        assert_eq!(intros("> Not:\n>\n> - a\n"), [intro("Not:")]);
        assert_eq!(intros("Not:\n\n## H\n- a\n"), [None]);
        assert_eq!(intros("Not:\n```\n```\n- a\n"), [None]);
        assert_eq!(intros("- a\n\n  Not:\n  - b\n\n1. c\n"), [None, None]);
        assert_eq!(intros(&format!("{}:\n- a\n", "x".repeat(400))), [None]);
    }

    #[test]
    fn blockquote_markers_are_removed_from_quoted_lists() {
        let text = "> [!IMPORTANT]\n> - Never row\n>   alone.\n>   - Not even\n> - Swim\nlazily\n";
        assert_eq!(rules_of(text), ["Never row\nalone.\n- Not even", "Swim\nlazily"]);
        // A list in a blockquote in an item is part of the item.
        assert_eq!(rules_of("- a\n  > - b\n"), ["a\n> - b"]);
        assert_eq!(task_texts("- plain\n  > - [ ] quoted\n"), Vec::<String>::new());
    }

    #[test]
    fn comments_and_code_contain_no_items() {
        let text = "<!--\n- decoy\n\n- [ ] decoy\n--> \n- real <!-- aside --> rule\n  <!-- a line\n  or two -->\n  end\n\n```\n- decoy\n```\n\n    - decoy\n";
        assert_eq!(rules_of(text), ["real  rule\nend"]);
        assert_eq!(
            task_texts("```\n- [ ] decoy\n```\n<!-- - [ ] decoy -->\n- [ ] real\n"),
            ["real"]
        );
        assert_eq!(rules_of("- a<!-- x -->b\n"), ["a b"]);
        assert_eq!(rules_of("- <!-- x --> b\n- <!-- x -->\n  c\n"), ["b", "c"]);
        assert_eq!(rules_of("- `<!-- kept -->` is code\n"), ["`<!-- kept -->` is code"]);
        assert_eq!(
            rules_of("- <!-- only -->\n- <!-- open\n  and on\n- next\n"),
            ["and on", "next"]
        );
        assert_eq!(rules_of("- a\n\n  <!-- x -->\n\n  b\n"), ["a\n\nb"]);
    }

    #[test]
    fn code_blocks_in_items_are_kept_and_closed() {
        assert_eq!(
            rules_of("- Run\n  ```sh\n    make\n  ```\n- b\n"),
            ["Run\n```sh\n  make\n```", "b"]
        );
        assert_eq!(rules_of("- Run\n  ````sh\n  make\n- b\n"), ["Run\n````sh\nmake\n````", "b"]);
    }

    #[test]
    fn items_with_open_checkboxes_are_tasks() {
        let text = "# Tasks\n- [ ] one\n- [x] done\n  - [ ] left over\n- [-] skipped\n- plain\n  - [ ] below\n    - [ ] part\n    - [x] done part\n* [ ] star\n1. [ ] first\n";
        assert_eq!(
            task_texts(text),
            ["one", "left over", "below\n- [ ] part\n- [x] done part", "star", "first"]
        );
        let lines: Vec<usize> = tasks_of(text).iter().map(|task| task.line).collect();
        assert_eq!(lines, [2, 4, 7, 10, 11]);
    }

    #[test]
    fn task_titles_have_no_tags() {
        let text = "- [ ] Fix #42 in C# #priority:high #added:2026-07-25-101112 #blocked (see `#x`)\n  and more #tag\n- [ ] #only:tags\n";
        let tasks = tasks_of(text);
        assert_eq!(tasks[0].title, "Fix #42 in C# (see `#x`)");
        assert!(tasks[0].text.contains("#priority:high") && tasks[0].text.contains("#tag"));
        assert_eq!(tasks[0].date, "2026-07-25T10:11:12Z".parse().ok());
        assert_eq!(tasks[1].title, "#only:tags");
    }

    #[test]
    fn tags_of_sub_items_do_not_date_the_task() {
        let date = |text: &str| tasks_of(text)[0].date.map(|date| date.to_string());
        let day = Some("2026-07-25T00:00:00Z".to_owned());
        assert_eq!(date("- [ ] a\n  b #added:2026-07-25\n"), day);
        assert_eq!(date("- [ ] a\n  - [ ] b #added:2026-07-25\n"), None);
        assert_eq!(date("- [ ] a `#added:2026-07-25`\n- [ ] b #added:2026-07-25\n"), None);
        assert_eq!(date("- [ ] a #added:soon\n"), None);
        let mut problems = Vec::new();
        let tasks = all_tasks("\n- [ ] a #added:2026-02-30\n", &mut problems);
        assert_eq!((tasks[0].date, problems[0].line), (None, 2));
    }

    #[test]
    fn other_text_becomes_rules() {
        let text = "# Rules\n\nThese hold\nalways.\n\n## Safety\n\n> Wear\n> a vest.\n\n- Row.\n\n| Do | Not |\n|---|---|\n| a | b |\n\n---\n\n1. First\n\n```sh\nmake\n\ntest\n```\n";
        let rules = all_rules(text);
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "These hold\nalways.",
                "Wear\na vest.",
                "Row.",
                "| Do | Not |\n|---|---|\n| a | b |",
                "First",
                "```sh\nmake\n\ntest\n```"
            ]
        );
        assert_eq!(rules[5].title, "```sh");
        assert_eq!((rules[0].line, rules[0].end_line), (3, 4));
        assert_eq!(rules.iter().filter(|rule| rule.is_specified).count(), 2);
    }

    #[test]
    fn tasks_have_the_phase_above_them() {
        let text = "# Tasks\n- [ ] a\n### Phase 1: Row `#priority:high` #added:2026-07-25\n- [ ] b\n#### East #in-progress\n- [ ] c #priority:low\n";
        let tasks = tasks_of(text);
        let phase = |index: usize| tasks[index].phase.as_deref();
        assert_eq!(phase(0), None);
        assert_eq!(phase(1).unwrap().title, "Phase 1: Row");
        assert_eq!(phase(1).unwrap().date, "2026-07-25T00:00:00Z".parse().ok());
        assert_eq!(phase(1).unwrap().labels, Labels { is_in_progress: false, priority: 1 });
        assert_eq!(phase(2).unwrap().title, "East");
        assert!(phase(2).unwrap().labels.is_in_progress);
    }

    #[test]
    fn other_text_above_tasks_becomes_notes() {
        let text = "# Tasks\n\nHow we work.\n\n- [x] done\n\n## Later\n\n- plain\n- [ ] open\n\nWords.\n\nMore.\n- [ ]\n";
        let mut problems = Vec::new();
        let notes = all_tasks(text, &mut problems);
        let notes: Vec<(&str, usize)> =
            notes.iter().map(|note| (note.text.as_str(), note.line)).collect();
        assert_eq!(notes, [("How we work.", 3), ("- plain\n\nWords.\n\nMore.", 9), ("open", 10)]);
    }
}
