//! The failures of a request, one test each.

mod helper;

use std::fs;

use helper::{Scratch, fetch, get, ids, options, sent, warnings};
use pannier_snippets::{
    DeliveryLog, GetResponse, SessionId, SnippetId, SnippetIndexes, SnippetsError, index,
};
use pannier_tokens::BytesOverFour;

#[test]
fn snippet_not_found() {
    let scratch = Scratch::new("not-found");
    for id in ["general/policy/autonomy", "general/policy/versions", "project/design/index"] {
        scratch.snippet(id, "global", &[], "");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let requested = ["general/policy/autonomie", "project/design/index", "policy/versions", "zzz"];
    let error = fetch(&catalog, &requested, &options()).unwrap_err();
    let SnippetsError::UnknownIds { ids } = &error else { panic!("{error}") };
    let suggestions: Vec<(&str, String)> =
        ids.iter().map(|unknown| (unknown.id.as_str(), unknown.close.join(" "))).collect();
    assert_eq!(
        suggestions,
        [
            ("general/policy/autonomie", "general/policy/autonomy".to_owned()),
            ("policy/versions", "general/policy/versions".to_owned()),
            ("zzz", String::new()),
        ]
    );
    assert!(error.to_string().contains("did you mean general/policy/autonomy?"), "{error}");
}

#[test]
fn file_read_error() {
    let scratch = Scratch::new("unreadable");
    scratch.snippet("a", "global", &["b", "c"], "A\n");
    scratch.snippet("b", "global", &["d"], "B\n");
    scratch.snippet("c", "global", &[], "C\n");
    scratch.snippet("d", "global", &[], "D\n");
    let indexes = scratch.indexes();
    fs::remove_file(scratch.path("docs/b.md")).unwrap();
    scratch.write("docs/c.md", b"\xff\xfe");
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["a"]);
    assert_eq!(sent(&fetched), ["d", "a"]);
    let warnings = warnings(&fetched);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("c is left out: ") && warnings[0].ends_with("it is not UTF-8"));
    assert!(
        warnings[1].starts_with("b is left out: ")
            && warnings[1].ends_with("it does not exist; if it was removed, index the root again")
    );
    assert!(fetched.text.contains("warning: b is left out"));
}

#[test]
fn a_file_that_differs_from_the_index_is_reported() {
    let scratch = Scratch::new("outdated");
    scratch.snippet("a", "global", &["b"], "A\n");
    scratch.snippet("b", "global", &[], "B\n");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let stale_warnings = |file: &str| {
        scratch.write("docs/a.md", file);
        warnings(&get(&catalog, &["a"]))
    };
    let file = scratch.read("docs/a.md");
    // Neither a changed text nor an equivalent reference matters to the index.
    for same in [file.clone(), file.replace("A\n", "More.\n"), file.replace("- b", "- '@b.md'")] {
        assert_eq!(stale_warnings(&same), [""; 0], "{same}");
    }
    for other in [
        file.replace("id: a", "id: c"),
        file.replace("- b", "- c"),
        file.replace("scope: global", "scope: project"),
        file.replacen("---\n", "", 1),
        format!("{file}\n## Required reads\n- @z\n"),
    ] {
        let warnings = stale_warnings(&other);
        assert!(
            warnings.len() == 1 && warnings[0].contains("index the root again"),
            "{other}: {warnings:?}"
        );
    }
}

#[test]
fn invalid_id_format() {
    for bad in ["../a", "a b", "A", "", "a\n", "/etc/passwd"] {
        let error = SnippetId::new(bad).unwrap_err();
        assert!(matches!(error, SnippetsError::InvalidId { .. }), "{bad}");
    }
}

#[test]
fn references_resolve_to_ids_and_similar_ids_are_suggested() {
    let scratch = Scratch::new("resolve-ids");
    for id in
        ["global/policy/logging", "project/design/arch", "project/design/db", "project/spec/api"]
    {
        scratch.snippet(id, "global", &[], "");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let resolve = |name: &str| {
        catalog
            .resolve_ids([name])
            .map(|ids| ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>())
    };
    for name in [
        "project/design/arch",
        "@project/design/arch",
        "project/design/arch.md",
        "docs/project/design/arch.md",
        "@docs/project/design/arch.md",
        " project/design/arch ",
    ] {
        assert_eq!(resolve(name).unwrap(), ["project/design/arch"], "{name}");
    }
    let close = |name: &str| match resolve(name).unwrap_err() {
        SnippetsError::UnknownIds { ids } => ids[0].close.join(" "),
        SnippetsError::InvalidId { close, .. } => close.join(" "),
        other => panic!("{other}"),
    };
    for (name, expected) in [
        ("Project/Design/Arch", "project/design/arch"),
        ("archh", "project/design/arch"),
        ("arch.md", "project/design/arch"),
        ("policy/loging", "global/policy/logging"),
        ("project/design", "project/design/arch project/design/db"),
        ("project/spec/new", ""),
        ("renamed", ""),
        (&"a".repeat(100_000), ""),
    ] {
        assert_eq!(close(name), expected, "{name:.40}");
    }
    let error = catalog.resolve_ids(["none/one", "project/spec/api", "none/two"]).unwrap_err();
    assert!(matches!(&error, SnippetsError::UnknownIds { ids } if ids.len() == 2), "{error}");
}

#[test]
fn index_not_found() {
    let scratch = Scratch::new("no-index");
    scratch.snippet("a", "global", &[], "");
    let error = SnippetIndexes::read(scratch.roots()).unwrap_err();
    assert!(matches!(error, SnippetsError::NoIndex { .. }), "{error}");
    assert!(error.to_string().contains("there is no index at"), "{error}");
    scratch.write("docs/index.yaml", "snippets: [");
    let error = SnippetIndexes::read(scratch.roots()).unwrap().catalog().unwrap_err();
    assert!(matches!(error, SnippetsError::InvalidIndex { .. }), "{error}");
}

#[test]
fn context_too_large() {
    let scratch = Scratch::new("too-large");
    scratch.snippet("a", "global", &["common"], &"a".repeat(400));
    scratch.snippet("b", "global", &["common", "only-b"], &"b".repeat(200));
    scratch.snippet("only-b", "global", &[], &"o".repeat(800));
    scratch.snippet("common", "global", &[], &"c".repeat(1_000));
    scratch.snippet("d", "global", &[], &"d".repeat(40));
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let get = |budget: usize| {
        let mut options = options();
        options.budget = Some(budget);
        fetch(&catalog, &["a", "b", "d"], &options)
    };
    let all = get(10_000).unwrap();
    // A budget of exactly its tokens is enough, and nothing is truncated.
    assert_eq!(get(all.tokens).unwrap(), all);
    let error = get(all.tokens - 1).unwrap_err();
    let SnippetsError::OverBudget(over) = error else { panic!("{error}") };
    assert_eq!((over.tokens, over.budget), (all.tokens, all.tokens - 1));
    assert_eq!(over.snippets.len(), 5);
    assert_eq!(over.snippets.iter().filter(|cost| cost.is_requested).count(), 3);
    // Dropping the smallest snippet is enough and keeps the most.
    assert_eq!((over.drop.as_slice(), over.is_smallest), (&["d".to_owned()][..], true));
    let SnippetsError::OverBudget(over) = get(400).unwrap_err() else { panic!() };
    // Dropping b also drops only-b, but not common, which a requires, too.
    assert_eq!((over.drop.as_slice(), over.is_smallest), (&["b".to_owned()][..], true));
    let message = over.to_string();
    assert!(message.contains("250  common (required)"), "{message}");
    assert!(message.contains("drop b to have"), "{message}");
    // The lines add up to the total.
    let column =
        message.lines().filter_map(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    assert_eq!(column.sum::<usize>(), over.tokens, "{message}");
    assert!(message.contains("  around them: headers, chains, warnings\n"), "{message}");
    let SnippetsError::OverBudget(over) = get(5).unwrap_err() else { panic!() };
    assert!(over.drop.is_empty());
    assert!(over.to_string().contains("raise the budget"));
}

#[test]
fn session_context_loss() {
    let scratch = Scratch::new("loss");
    scratch.snippet("a", "global", &[], "A\n");
    scratch.snippet("b", "global", &[], "B\n");
    let log = DeliveryLog::in_folder(scratch.path("state"));
    let session = SessionId::new("s").unwrap();
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let response = catalog.get(&ids(&["a", "b"]), &options(), &BytesOverFour).unwrap();
    log.record(&session, indexes.roots(), &response).unwrap();

    fs::remove_file(scratch.path("docs/a.md")).unwrap();
    index(&scratch.roots(), &BytesOverFour).unwrap();
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    options.delivered = log.read(&session, indexes.roots()).unwrap();
    let response = catalog.get(&ids(&["b"]), &options, &BytesOverFour).unwrap();
    let GetResponse::Discovery { gone, listing } = &response else { panic!("{response:?}") };
    assert_eq!(gone, &["a"]);
    assert_eq!((listing.phase, &*listing.snippets[0].id), (1, "b"));
    let message = "The index has changed: a, which this session received, no longer exists. Choose";
    assert!(listing.text().starts_with(message), "{}", listing.text());
    log.record(&session, indexes.roots(), &response).unwrap();

    // The session continues with the remaining snippets.
    options.delivered = log.read(&session, indexes.roots()).unwrap();
    let fetched = fetch(&catalog, &["b"], &options).unwrap();
    assert_eq!(fetched.bundle.delivered, ["b"]);
    assert!(fetched.bundle.snippets.is_empty());
}
