//! Parses entries that are list items: rules, conventions and tasks.
//!
//! An item includes its further lines and its sub-items. Rules and conventions are the outermost items, with or without a
//! checkbox. A task is an item with an open checkbox, at any depth, that is not part of another task.

use crate::date::{self, ParsedDate};
use crate::entry::Draft;
use crate::markdown::{Item, Outline};
use crate::memory::Problem;

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
pub(crate) fn rules(outline: &Outline) -> Vec<Draft> {
    let outermost = outline.items.iter().filter(|item| item.depth == 0);
    let rules = outermost.filter_map(|item| {
        let skip = match Checkbox::parse(outline.item_start(item)) {
            (Checkbox::Open | Checkbox::Done, length) => length,
            _ => 0,
        };
        draft(outline, item, skip)
    });
    rules.collect()
}

/// Returns the open tasks of a file.
pub(crate) fn tasks(outline: &Outline, problems: &mut Vec<Problem>) -> Vec<Draft> {
    let mut tasks = Vec::new();
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
        if checkbox != Checkbox::Open {
            continue;
        }
        end = item.range.end;
        let Some(mut task) = draft(outline, item, length) else { continue };
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
        tasks.push(task);
    }
    tasks
}

/// Returns whether an item begins with a misspelled open checkbox.
fn resembles_checkbox(item: &str) -> bool {
    item.starts_with("[]") || item.starts_with("[ ]") || item.starts_with("[_]")
}

/// Returns an item as an entry, unless its text is empty.
fn draft(outline: &Outline, item: &Item, skip: usize) -> Option<Draft> {
    let text = outline.item_text(item, skip);
    let title = text.lines().map(str::trim).find(|line| !line.is_empty());
    let title = title.unwrap_or_default().to_owned();
    let line = outline.line(item.range.start);
    let is_empty = title.is_empty() || Checkbox::parse(&text).1 == text.len();
    let list_intro = item.list_intro.clone();
    (!is_empty).then_some(Draft { list_intro, title, text, date: None, is_superseded: false, line })
}

/// Returns the date of a task's `#added:` tag.
fn date_added(text: &str) -> Option<ParsedDate> {
    let tags = text.split_whitespace().filter_map(|word| word.strip_prefix("#added:"));
    tags.into_iter().find_map(date::parse)
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
        rules(&Outline::new(text)).into_iter().map(|rule| rule.text).collect()
    }

    fn tasks_of(text: &str) -> Vec<Draft> {
        let mut problems = Vec::new();
        let tasks = tasks(&Outline::new(text), &mut problems);
        assert_eq!(problems, [], "{text}");
        tasks
    }

    fn task_texts(text: &str) -> Vec<String> {
        tasks_of(text).into_iter().map(|task| task.text).collect()
    }

    #[test]
    fn misspelled_checkboxes_are_reported() {
        let mut problems = Vec::new();
        let text = "- [] no\n- [ ]no\n- plain\n- [/] half\n- [ ] yes\n  - [] part of it\n";
        assert_eq!(tasks(&Outline::new(text), &mut problems).len(), 1);
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
            let rules = rules(&Outline::new(text)).into_iter();
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
        assert_eq!(rules_of("- <!-- only -->\n- <!-- open\n  and on\n- next\n"), ["next"]);
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
        let tasks = tasks(&Outline::new("\n- [ ] a #added:2026-02-30\n"), &mut problems);
        assert_eq!((tasks[0].date, problems[0].line), (None, 2));
    }
}
