//! Indexing, and the problems that `check` reports.

mod helper;

use std::fs;

use helper::{Scratch, snippet};
use pannier_snippets::{Roots, SnippetsError, check, index};
use pannier_tokens::{BytesOverFour, ScriptEstimate};

fn problems(scratch: &Scratch) -> Vec<String> {
    let docs = scratch.path("docs").display().to_string();
    let problems = check(&scratch.roots()).unwrap().problems;
    problems.iter().map(|problem| problem.to_string().replace(&docs, "docs")).collect()
}

#[test]
fn an_index_is_written_from_front_matter_and_only_if_it_changed() {
    let scratch = Scratch::new("index");
    scratch.snippet(
        "b/c",
        "project",
        &["a"],
        "12345678\n## Required reads\n@docs/z.md\n@a.md\n@~/x.md\n",
    );
    scratch.write(
        "docs/a.md",
        snippet("a", "global", &[], "").replace("What a is.", "'It''s \"a\": \\ # ä'"),
    );
    scratch.write("docs/README.md", "# No snippet\n");
    scratch.write("docs/page.md", "---\ntitle: No snippet\ndescription: x\n---\n");
    scratch.write("docs/notes.txt", snippet("no", "global", &[], ""));
    scratch.write("docs/.hidden/no.md", snippet("no", "global", &[], ""));
    scratch.write("docs/baseline.md", "@a.md\n@a\n");
    let indexed = index(&scratch.roots(), &BytesOverFour).unwrap();
    assert_eq!((indexed[0].snippets, indexed[0].is_unchanged), (2, false));
    let text = scratch.read("docs/index.yaml");
    assert_eq!(
        text,
        r#"# Written by `pannier snippets index` from the front matter of the files below this folder.
tokenizer: "bytes/4"
baseline: ["a"]
snippets:
  - id: "a"
    description: "It's \"a\": \\ # ä"
    type: policy
    scope: global
    path: "a.md"
    requires: []
    tokens: 0
    hash: "6cbb07227eb6dcc8"
  - id: "b/c"
    description: "What b/c is."
    type: policy
    scope: project
    path: "b/c.md"
    requires: ["a", "@docs/z.md", "@~/x.md"]
    tokens: 13
    hash: "955a8d9607dff2a9"
"#
    );
    let modified = || fs::metadata(scratch.path("docs/index.yaml")).unwrap().modified().unwrap();
    let before = modified();
    assert!(index(&scratch.roots(), &BytesOverFour).unwrap()[0].is_unchanged);
    assert_eq!(modified(), before);
    assert_eq!(fs::read_dir(scratch.path("docs")).unwrap().count(), 8, "no temporary file remains");
    // The index depends on the name of the folder, but not on its location.
    scratch.write("elsewhere/docs/a.md", scratch.read("docs/a.md"));
    scratch.write("elsewhere/docs/b/c.md", scratch.read("docs/b/c.md"));
    scratch.write("elsewhere/docs/baseline.md", scratch.read("docs/baseline.md"));
    let elsewhere = Roots::open([scratch.path("elsewhere/docs")], Some(scratch.path("elsewhere")));
    index(&elsewhere.unwrap(), &BytesOverFour).unwrap();
    assert_eq!(scratch.read("elsewhere/docs/index.yaml"), text);
}

#[test]
fn an_empty_root_has_an_empty_index() {
    let scratch = Scratch::new("empty");
    scratch.write("docs/x.txt", "");
    index(&scratch.roots(), &BytesOverFour).unwrap();
    assert!(scratch.read("docs/index.yaml").ends_with("baseline: []\nsnippets: []\n"));
    assert_eq!(problems(&scratch), [""; 0]);
}

#[test]
fn check_reports_all_problems_with_their_locations() {
    let scratch = Scratch::new("check");
    scratch.write("docs/1.md", "---\nid: one\ndescription: x\nscope: global\n---\n");
    scratch.write(
        "docs/2.md",
        "---\nid: Two\ndescription: ''\ntype: a rule\nscope: team\nrequires: {a: b}\n---\n",
    );
    scratch.write("docs/3.md", "---\nid: [\n---\n");
    scratch.write("docs/4.md", b"---\nid: \xff\n---\n");
    scratch.write("docs/5.md", snippet("same", "global", &[], ""));
    scratch.write("docs/6.md", snippet("same", "global", &[], ""));
    scratch.write(
        "docs/7.md",
        snippet("c", "global", &["gone"], "\n## Required reads\n\n- @docs/8.md\n- @docs/none.md\n"),
    );
    scratch.write("docs/8.md", snippet("b", "global", &["d", "c"], ""));
    scratch.write("docs/9.md", snippet("d", "global", &["d"], ""));
    scratch.write("docs/sub/baseline.md", "@docs/5.md\n\n@gone.md\n");
    assert_eq!(
        problems(&scratch),
        [
            "docs/1.md:1: it has no 'type'; add one",
            "docs/2.md:2: 'Two' is not a valid id; use up to 200 lowercase letters, digits, '.', '_' and '-', in segments separated by '/'",
            "docs/2.md:3: its 'description' is not a string; write one, in quotes if YAML reads it as another type",
            "docs/2.md:4: 'a rule' is not a type; use one word, such as principle, concept, policy, procedure, design, spec",
            "docs/2.md:5: unknown scope 'team'; use one of global, domain, project",
            "docs/2.md:6: its 'requires' is not a list of strings; write one",
            "docs/3.md:2: its front matter cannot be read: unclosed bracket '['",
            "docs/4.md: it is not UTF-8",
            "docs/6.md:2: the id 'same' is also the id of docs/5.md; rename one",
            "docs/7.md:7: it requires 'gone', which is not a snippet of these roots",
            "docs/7.md:13: it requires '@docs/none.md', which is not a snippet of these roots",
            "docs/8.md:8: dependency cycle: b -> c -> b",
            "docs/9.md:7: dependency cycle: d -> d",
            "docs/index.yaml: it is missing; index the root",
            "docs/sub/baseline.md:3: it refers to '@gone.md', which is not a snippet of these roots",
        ]
    );
    let error = index(&scratch.roots(), &BytesOverFour).unwrap_err();
    assert!(matches!(error, SnippetsError::DuplicateIds { .. }), "{error}");
    assert!(!helper::exists(&scratch.path("docs/index.yaml")), "nothing is written");
}

#[test]
fn near_misses_are_reported() {
    let scratch = Scratch::new("silence");
    let text = snippet("a", "global", &[], "");
    scratch.write("docs/1.md", text.replace("---\n", "").replace("id:", "---\nid:"));
    scratch.write("docs/2.md", format!("\n{text}"));
    scratch.write("docs/baseline.md", &text);
    scratch.write("docs/4.MD", snippet("four", "global", &[], "## Required reading\n- @five\n"));
    let near = "## Required reads\n- see @four\n- @four\n";
    scratch.write("docs/5.markdown", snippet("five", "global", &[], near));
    scratch.write("docs/6.md", snippet("six", "global", &[&"x".repeat(5_000)], ""));
    scratch.write("docs/readme.txt", &text);
    let indexed = index(&scratch.roots(), &BytesOverFour).unwrap();
    assert_eq!(indexed[0].snippets, 2);
    assert_eq!(indexed[0].problems.len(), 4);
    assert_eq!(
        problems(&scratch),
        [
            "docs/1.md:1: its front matter has no end within 64 KiB; add a line '---' after it",
            "docs/2.md:1: its front matter does not start on the first line; remove the lines before it",
            "docs/4.MD:7: this heading does not start the required reads; write '## Required reads'",
            "docs/5.markdown:8: this reference is ignored; write each reference on its own line, as in '- @docs/a.md'",
            "docs/6.md:7: it has a reference longer than 4096 bytes; remove it",
            "docs/baseline.md:1: a file of this name is a manifest, not a snippet; rename it",
        ]
    );
}

#[test]
fn thousands_of_dangling_references_are_reported() {
    let scratch = Scratch::new("nowhere");
    let lines: String = (0..9_000).map(|number| format!("- @nowhere/{number}.md\n")).collect();
    scratch.snippet("a", "global", &[], &format!("## Required reads\n{lines}"));
    index(&scratch.roots(), &BytesOverFour).unwrap();
    let dangling = problems(&scratch);
    assert_eq!(dangling.len(), 9_000);
    assert!(
        dangling[8_999].starts_with("docs/a.md:9007: it requires '@nowhere/8999.md'"),
        "{}",
        dangling[8_999]
    );
    let more = lines.repeat(2);
    scratch.snippet("a", "global", &[], &format!("## Required reads\n{more}"));
    assert!(problems(&scratch)[0].contains("requires more than 10000 snippets"));
}

#[test]
fn check_reports_a_stale_index() {
    let scratch = Scratch::new("stale");
    scratch.snippet("a", "global", &[], "A\n");
    for counter in [&BytesOverFour as &dyn pannier_tokens::TokenCounter, &ScriptEstimate] {
        index(&scratch.roots(), counter).unwrap();
        assert_eq!(problems(&scratch), [""; 0]);
    }
    scratch.snippet("a", "global", &[], "A little more\n");
    assert_eq!(problems(&scratch), ["docs/index.yaml: it is out of date; index the root again"]);
    scratch.write("docs/index.yaml", "{");
    assert_eq!(problems(&scratch).len(), 1);
}

#[cfg(unix)]
#[test]
fn links_are_neither_followed_nor_overwritten() {
    use std::os::unix::fs::symlink;

    let scratch = Scratch::new("links");
    scratch.snippet("a", "global", &[], "");
    scratch.write("outside/b.md", snippet("b", "global", &[], ""));
    scratch.write("outside/index.yaml", "mine");
    symlink(scratch.path("outside"), scratch.path("docs/folder")).unwrap();
    symlink(scratch.path("outside/b.md"), scratch.path("docs/b.md")).unwrap();
    symlink(scratch.path("outside/index.yaml"), scratch.path("docs/index.yaml")).unwrap();
    assert_eq!(index(&scratch.roots(), &BytesOverFour).unwrap()[0].snippets, 1);
    assert_eq!(scratch.read("outside/index.yaml"), "mine");
    assert!(scratch.read("docs/index.yaml").contains("id: \"a\""));
}
