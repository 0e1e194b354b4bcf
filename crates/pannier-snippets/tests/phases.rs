//! Phase 1 (list) and phase 2 (get).

mod helper;

use helper::{Scratch, get, ids, options, sent, snippet, warnings};
use pannier_snippets::{
    ContextFormat, ListOptions, Roots, Scope, SnippetIndexes, SnippetType, SnippetsError, index,
};
use pannier_tokens::{BytesOverFour, ScriptEstimate, TokenCounter};

fn listed(catalog: &pannier_snippets::SnippetCatalog<'_>, options: &ListOptions) -> Vec<String> {
    let listing = catalog.list(options, &BytesOverFour).unwrap();
    listing.snippets.iter().map(|snippet| snippet.id.to_string()).collect()
}

#[test]
fn a_list_is_sorted_by_scope_and_id_and_filtered_by_type_and_scope() {
    let scratch = Scratch::new("list");
    scratch.snippet("p/b", "project", &["p/c"], "text\n");
    scratch.snippet("p/c", "project", &[], "text\n");
    scratch.snippet("z", "global", &[], "text\n");
    scratch.write("docs/d.md", snippet("d", "domain", &[], "").replace("policy", "concept"));
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = ListOptions::default();
    assert_eq!(listed(&catalog, &options), ["z", "d", "p/b", "p/c"]);
    options.areas = vec![SnippetType::Policy];
    assert_eq!(listed(&catalog, &options), ["z", "p/b", "p/c"]);
    options.scopes = vec![Scope::Project, Scope::Domain];
    assert_eq!(listed(&catalog, &options), ["p/b", "p/c"]);
    options.areas = vec![SnippetType::Spec];
    assert_eq!(listed(&catalog, &options), [""; 0]);
    let empty = catalog.list(&options, &BytesOverFour).unwrap();
    assert_eq!(empty.text(), "No snippet matches these types and scopes.\n\n");
}

#[test]
fn a_list_reads_files_only_for_another_tokenizer() {
    let scratch = Scratch::new("list-index");
    scratch.snippet("a", "global", &[], "twelve bytes\n");
    let indexes = scratch.indexes();
    std::fs::remove_file(scratch.path("docs/a.md")).unwrap();
    let catalog = indexes.catalog().unwrap();
    let tokens = |counter: &dyn TokenCounter| {
        catalog.list(&ListOptions::default(), counter).unwrap().snippets[0].tokens
    };
    assert_eq!(tokens(&BytesOverFour), Some(4));
    assert_eq!(catalog.counter().unwrap().name(), "bytes/4");
    assert_eq!(tokens(&ScriptEstimate), None);
    let listing = catalog.list(&ListOptions::default(), &ScriptEstimate).unwrap();
    assert!(listing.warnings[0].message().starts_with("a cannot be counted: "));
    scratch.snippet("a", "global", &[], "twelve bytes\n");
    assert_eq!(tokens(&ScriptEstimate), Some(ScriptEstimate.count("twelve bytes\n")));
}

#[test]
fn a_query_sorts_by_score_and_omits_nothing() {
    let scratch = Scratch::new("query");
    for (id, scope) in [("a/lunch", "global"), ("b/deploy", "project"), ("c/other", "domain")] {
        scratch.snippet(id, scope, &[], "");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let options = |query: &str| {
        let mut options = ListOptions::default();
        options.query = Some(query.to_owned());
        options
    };
    assert_eq!(listed(&catalog, &options("deploying")), ["b/deploy", "a/lunch", "c/other"]);
    assert_eq!(listed(&catalog, &options("")), ["a/lunch", "c/other", "b/deploy"]);
    let listing = catalog.list(&options("deploying"), &BytesOverFour).unwrap();
    assert_eq!(listing.snippets[0].score, Some(1.0));
    assert_eq!(listing.message, None);
    let unmatched = catalog.list(&options("zzz"), &BytesOverFour).unwrap();
    assert!(unmatched.message.unwrap().starts_with("No id or description contains a word"));
    let mut few = options("deploying");
    few.limit = Some(1);
    assert_eq!(listed(&catalog, &few), ["b/deploy"]);
}

#[test]
fn hostile_paths_in_an_index_are_rejected() {
    let scratch = Scratch::new("path-bomb");
    let entry = |id: &str, path: &str| {
        format!("- id: {id}\n  description: B\n  type: policy\n  scope: global\n  path: {path}\n")
    };
    let long = "a/".repeat(1_000_000) + "b.md";
    let deep = "a/".repeat(2_000) + "b.md";
    scratch
        .write("docs/index.yaml", format!("snippets:\n{}{}", entry("a", &long), entry("b", &deep)));
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    assert_eq!(catalog.snippets().len(), 1);
    assert_eq!(warnings(&get(&catalog, &["b"])).len(), 2);
}

#[cfg(unix)]
#[test]
fn references_may_use_the_name_of_a_link_to_the_root() {
    let scratch = Scratch::new("linked-root");
    scratch.write(
        "real/a.md",
        snippet("a", "global", &[], "## Required reads\n- @docs/b.md\n- @real/c.md\n"),
    );
    scratch.write("real/b.md", snippet("b", "global", &[], ""));
    scratch.write("real/c.md", snippet("c", "global", &[], ""));
    std::os::unix::fs::symlink("real", scratch.path("docs")).unwrap();
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    assert_eq!(sent(&get(&catalog, &["a"])), ["b", "c", "a"]);
}

#[test]
fn the_baseline_is_the_references_of_manifests() {
    let scratch = Scratch::new("baseline");
    for id in ["a", "b", "c", "d"] {
        scratch.snippet(id, "global", &[], "");
    }
    scratch.write(
        "docs/baseline.md",
        "# Baseline\n\n@a.md\n@docs/b.md\n@missing.md\n@sub/baseline.md\n",
    );
    scratch.write("docs/sub/baseline.md", "@c\n```\n@d\n```\n");
    let indexes = scratch.indexes();
    let mut options = ListOptions::default();
    options.baseline_only = true;
    let catalog = indexes.catalog().unwrap();
    assert_eq!(listed(&catalog, &options), ["a", "b", "c"]);
    // If the index has no baseline, the manifests are read.
    let foreign: String = scratch
        .read("docs/index.yaml")
        .lines()
        .filter(|line| !line.starts_with("baseline:"))
        .map(|line| format!("{line}\n"))
        .collect();
    scratch.write("docs/index.yaml", foreign);
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    assert_eq!(listed(&indexes.catalog().unwrap(), &options), ["a", "b", "c"]);
}

#[test]
fn dependencies_are_sent_once_and_before_their_dependents() {
    let scratch = Scratch::new("closure");
    scratch.snippet("p/a", "project", &["p/z", "g/b", "d/c"], "A\n");
    scratch.snippet("p/b", "project", &["p/a", "g/b"], "B\n");
    scratch.snippet("p/z", "project", &["d/c"], "Z\n");
    scratch.snippet("d/c", "domain", &["g/b"], "C\n");
    scratch.snippet("g/b", "global", &[], "G\n");
    scratch.snippet("g/a", "global", &[], "no\n");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["p/b", "p/b"]);
    assert_eq!(sent(&fetched), ["g/b", "d/c", "p/z", "p/a", "p/b"]);
    assert_eq!(fetched.bundle.requested, ["p/b"]);
    let added = |id: &str| {
        let mut added = fetched.bundle.added.iter();
        added.find(|added| added.id == id).map(|added| added.chain.join(" "))
    };
    assert_eq!(added("g/b").as_deref(), Some("p/b"));
    assert_eq!(added("p/z").as_deref(), Some("p/b p/a"));
    assert_eq!(added("p/b"), None);
    assert_eq!(
        fetched.text,
        "requested: p/b\n\
         added: g/b, required by p/b\n\
         added: d/c, required by p/b -> p/a\n\
         added: p/z, required by p/b -> p/a\n\
         added: p/a, required by p/b\n\
         \n[SNIPPET: g/b]\nG\n\n[SNIPPET: d/c]\nC\n\n[SNIPPET: p/z]\nZ\n\n[SNIPPET: p/a]\nA\n\n[SNIPPET: p/b]\nB\n"
    );
    assert_eq!(fetched.tokens, fetched.text.len().div_ceil(4));
}

#[test]
fn references_are_resolved_against_the_root_and_its_name() {
    let scratch = Scratch::new("reads");
    let body = "\n# A\n\n## Required reads\n\n- @docs/project/b.md\n@project/c.md\n- @d/id\n- @docs/missing.md\n```\n@project/no.md\n```\n\n## Purpose\n\nKept.\n";
    scratch.write("docs/project/a.md", snippet("a", "project", &["docs/e.md"], body));
    for (id, path) in
        [("b", "project/b"), ("c", "project/c"), ("d/id", "x"), ("e", "e"), ("no", "project/no")]
    {
        scratch.write(&format!("docs/{path}.md"), snippet(id, "project", &[], ""));
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["a"]);
    assert_eq!(sent(&fetched), ["b", "c", "d/id", "e", "a"]);
    assert_eq!(warnings(&fetched), ["a requires '@docs/missing.md', which is in no index"]);
    assert_eq!(&*fetched.bundle.snippets[4].text, body);
}

#[test]
fn the_body_is_sent_byte_for_byte() {
    let scratch = Scratch::new("body");
    for (id, body) in [
        ("a", "\n\n# T\n\n## Required reads\n- @b\n\nText below the list.\n\n- more\n"),
        ("b", "no line end"),
        ("c", ""),
        ("d", "\r\nwindows\r\n\u{feff}\u{202e}\u{1b}[31m\0\n---\nid: x\n---\n"),
    ] {
        scratch.snippet(id, "global", &[], body);
        let indexes = scratch.indexes();
        let catalog = indexes.catalog().unwrap();
        let fetched = get(&catalog, &[id]);
        let sent = fetched.bundle.snippets.iter().find(|snippet| snippet.id == id).unwrap();
        assert_eq!(&*sent.text, body, "{id}");
        assert!(fetched.text.contains(&format!("[SNIPPET: {id}]\n{body}")), "{id}");
        let mut options = options();
        options.format = ContextFormat::Json;
        let json = helper::fetch(&catalog, &[id], &options).unwrap().text;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let texts = json["snippets"].as_array().unwrap();
        assert!(texts.iter().any(|snippet| snippet["text"] == body), "{id}");
        assert_eq!(json["phase"], 2);
        assert_eq!(json["tokenizer"], "bytes/4");
        let tokens = texts.iter().map(|snippet| snippet["tokens"].as_u64().unwrap());
        assert_eq!(json["text_tokens"].as_u64(), Some(tokens.sum()));
    }
}

#[test]
fn roots_refer_to_each_other_and_share_no_id() {
    let scratch = Scratch::new("several");
    scratch.write("home/global/docs/g.md", snippet("g", "global", &[], "G\n"));
    scratch.write("home/global/docs/more/h.md", snippet("h", "global", &[], "H\n"));
    let body = "## Required reads\n@~/global/docs/g.md\n@~/global/secret.md\n@more/h.md\n";
    scratch.write("work/docs/p.md", snippet("p", "project", &[], body));
    scratch.write("home/global/secret.md", snippet("secret", "global", &[], ""));
    let paths = [scratch.path("work/docs"), scratch.path("home/global/docs")];
    let open = |home: bool| Roots::open(paths.clone(), home.then(|| scratch.path("home"))).unwrap();
    index(&open(false), &BytesOverFour).unwrap();
    let indexes = SnippetIndexes::read(open(true)).unwrap();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["p"]);
    assert_eq!(sent(&fetched), ["g", "h", "p"]);
    assert_eq!(warnings(&fetched), ["p requires '@~/global/secret.md', which is in no index"]);
    // Without a home folder, `~` matches nothing.
    let indexes = SnippetIndexes::read(open(false)).unwrap();
    assert_eq!(sent(&get(&indexes.catalog().unwrap(), &["p"])).len(), 2);
    // The order of roots does not matter.
    let reversed = Roots::open(paths.iter().rev(), Some(scratch.path("home"))).unwrap();
    let reversed = SnippetIndexes::read(reversed).unwrap();
    assert_eq!(get(&reversed.catalog().unwrap(), &["p"]).text, fetched.text);

    scratch.write("work/docs/also.md", snippet("g", "project", &[], ""));
    let error = index(&open(true), &BytesOverFour).unwrap_err();
    assert!(matches!(&error, SnippetsError::DuplicateIds { ids } if ids[0].id == "g"), "{error}");
    let alone = Roots::open([scratch.path("work/docs")], None).unwrap();
    index(&alone, &BytesOverFour).unwrap();
    let indexes = SnippetIndexes::read(open(true)).unwrap();
    let error = indexes.catalog().unwrap_err().to_string();
    assert!(error.contains("also.md") && error.contains("g.md"), "{error}");
}

#[test]
fn the_index_of_another_tool_is_accepted() {
    let scratch = Scratch::new("foreign");
    scratch.write("docs/a/b.md", snippet("a/b", "global", &[], "B\n"));
    scratch.write(
        "docs/index.yaml",
        "project_root: /somewhere\nsnippets:\n- id: a/b\n  description: B\n  type: policy\n  scope: global\n  path: docs/a/b.md\n- id: a/z\n  description: Z\n  type: policy\n  scope: global\n  path: docs/a/z.md\n  requires: ['@a/b.md']\n- id: c\n  description: C\n  type: a role\n  scope: global\n  path: c.md\n- id: d\n  description: D\n  type: spec\n  scope: team\n  path: d.md\n- id: D\n- id: e\n  description: E\n  type: spec\n  scope: global\n  path: /etc/passwd\n- id: f\n  type: spec\n  scope: global\n  path: f.md\n",
    );
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["a/b"]);
    assert_eq!(&*fetched.bundle.snippets[0].text, "B\n");
    let warnings: Vec<String> =
        catalog.warnings().iter().map(|warning| warning.to_string()).collect();
    let problem = |number: usize| warnings[number].rsplit(": ").next().unwrap();
    assert_eq!(
        [0, 1, 2, 3, 4].map(problem),
        [
            "its type is not a word",
            "its scope is unknown",
            "its id is invalid",
            "its path is outside of the root",
            "it has no description",
        ]
    );
    scratch.write("docs/a/z.md", snippet("a/z", "global", &[], "Z\n"));
    assert_eq!(sent(&get(&catalog, &["a/z"])), ["a/b", "a/z"]);
    assert!(catalog.get(&ids(&["c"]), &options(), &BytesOverFour).is_err());
}
