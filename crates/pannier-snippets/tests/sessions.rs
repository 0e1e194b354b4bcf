//! Sessions: snippets that a session received are not sent again.

mod helper;

use std::collections::BTreeMap;

use helper::{Scratch, fetch, ids, options, sent, warnings};
use pannier_snippets::{
    ContextFormat, DeliveryLog, GetResponse, Roots, SessionId, SnippetList, SnippetsError, TextHash,
};
use pannier_tokens::{BytesOverFour, TokenCounter};

/// Builds the record of delivered texts.
fn delivered(texts: &[(&str, &str)]) -> BTreeMap<String, TextHash> {
    texts.iter().map(|(id, text)| ((*id).to_owned(), TextHash::of(text))).collect()
}

#[test]
fn delivered_snippets_are_listed_and_not_sent_again() {
    let scratch = Scratch::new("delivered");
    scratch.snippet("a", "global", &["c"], "A\n");
    scratch.snippet("b", "global", &["c"], "B\n");
    scratch.snippet("c", "global", &[], "C\n");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    options.delivered = delivered(&[("a", "A\n"), ("c", "C\n")]);
    let fetched = fetch(&catalog, &["b"], &options).unwrap();
    assert_eq!(sent(&fetched), ["b"]);
    assert_eq!(fetched.bundle.delivered, ["c"]);
    // Only snippets that are sent have a chain.
    assert!(fetched.text.starts_with("requested: b\nsent before: c\n\n[SNIPPET: b]"));
    assert!(fetched.bundle.added.is_empty());
    // The budget limits this response, not earlier ones.
    options.budget = Some(fetched.tokens);
    assert!(fetch(&catalog, &["b"], &options).is_ok());
    options.budget = None;
    options.resend = true;
    assert_eq!(sent(&fetch(&catalog, &["b"], &options).unwrap()), ["c", "b"]);
}

#[test]
fn a_changed_text_is_sent_again_and_reported() {
    let scratch = Scratch::new("changed");
    scratch.snippet("a", "global", &["b", "c"], "A\n");
    scratch.snippet("b", "global", &[], "B, and more\n");
    scratch.snippet("c", "global", &[], "C\n");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    options.delivered = delivered(&[("a", "A\n"), ("b", "B\n"), ("c", "C\n")]);
    let fetched = fetch(&catalog, &["a"], &options).unwrap();
    assert_eq!(
        fetched.text,
        "requested: a\n\
         added: b, required by a\n\
         sent before: c\nsent before: a\n\
         sent again, because it changed: b\n\
         \n[SNIPPET: b]\nB, and more\n"
    );
    assert_eq!(fetched.bundle.changed, ["b"]);
    assert_eq!(fetched.bundle.delivered, ["c", "a"]);
    // Only the text that was sent is recorded.
    let log = DeliveryLog::in_folder(scratch.path("state"));
    let session = SessionId::new("s").unwrap();
    let response = catalog.get(&ids(&["a"]), &options, &BytesOverFour).unwrap();
    log.record(&session, indexes.roots(), &response).unwrap();
    let recorded = log.read(&session, indexes.roots()).unwrap();
    assert_eq!(recorded, delivered(&[("b", "B, and more\n")]));
    // `resend` still reports changed texts.
    options.resend = true;
    let fetched = fetch(&catalog, &["a"], &options).unwrap();
    assert_eq!(sent(&fetched), ["b", "c", "a"]);
    assert_eq!(fetched.bundle.changed, ["b"]);
    // An unreadable file counts as delivered, even though it may have changed.
    options.resend = false;
    std::fs::remove_file(scratch.path("docs/b.md")).unwrap();
    let fetched = fetch(&catalog, &["a"], &options).unwrap();
    assert_eq!(fetched.bundle.delivered, ["b", "c", "a"]);
    assert!(warnings(&fetched)[0].contains("it does not exist"));
}

#[test]
fn a_response_without_texts_is_small() {
    let scratch = Scratch::new("everything");
    let name =
        |number: usize| format!("{}/{number:03}", "long-name-of-a-folder/".repeat(7) + "last");
    let names: Vec<String> = (0..40).map(name).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for (position, name) in all.iter().enumerate() {
        let next: Vec<&str> = all.get(position + 1).copied().into_iter().collect();
        scratch.snippet(name, "global", &next, "text\n");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    options.delivered = delivered(&all.iter().map(|name| (*name, "text\n")).collect::<Vec<_>>());
    // One line for each id, and one for the requested id.
    let bytes: usize = all.iter().map(|name| name.len() + "sent before: \n".len()).sum();
    options.budget = Some((bytes + "requested: \n".len() + all[0].len()).div_ceil(4));
    let fetched = fetch(&catalog, &all[..1], &options).unwrap();
    assert_eq!(fetched.bundle.delivered.len(), 40);
    // If the ids alone exceed the budget, the error says that there are no texts.
    options.budget = Some(100);
    let message = fetch(&catalog, &all[..1], &options).unwrap_err().to_string();
    assert!(
        message.contains("above the budget of 100, and no text: only what was asked for"),
        "{message}"
    );
    assert!(message.ends_with("\nraise the budget"), "{message}");
}

#[test]
fn the_budget_limits_phase_1() {
    let scratch = Scratch::new("first-phase");
    for number in 0..60 {
        scratch.snippet(&format!("s{number:02}"), "global", &[], "text\n");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    for format in [ContextFormat::Text, ContextFormat::Json] {
        let mut options = options();
        options.format = format;
        options.delivered = delivered(&[("gone/a", ""), ("gone/b", ""), ("s00", "text\n")]);
        let mut get = |budget: Option<usize>| {
            options.budget = budget;
            catalog.get(&ids(&["s01"]), &options, &BytesOverFour)
        };
        let tokens = |listing: &SnippetList<'_>| BytesOverFour.count(&listing.render(format));
        let Ok(GetResponse::Discovery { listing: all, .. }) = get(None) else { panic!() };
        assert_eq!(all.snippets.len(), 60);
        let message = all.message.clone().unwrap();
        assert!(
            message.contains("gone/a, gone/b, which this session received, no longer exist"),
            "{message}"
        );
        let exactly = get(Some(tokens(&all))).unwrap();
        assert!(matches!(exactly, GetResponse::Discovery { listing, .. } if listing == all));
        let mut shortest = usize::MAX;
        for budget in (0..tokens(&all)).rev() {
            match get(Some(budget)) {
                Ok(GetResponse::Discovery { gone, listing }) => {
                    assert_eq!((gone.len(), listing.snippets.len()), (2, 0));
                    assert!(tokens(&listing) <= budget, "{}", listing.render(format));
                    assert!(listing.message.as_ref().unwrap().contains("list the snippets again"));
                    shortest = tokens(&listing);
                }
                Err(SnippetsError::MessageOverBudget { tokens, .. }) => {
                    assert_eq!((tokens, budget + 1), (shortest, shortest));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(shortest < 60, "{shortest}");
    }
}

#[test]
fn deliveries_are_separate_for_each_session_and_set_of_roots() {
    let scratch = Scratch::new("apart");
    scratch.snippet("a", "global", &[], "A\n");
    scratch.write("other/x.md", "");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let log = DeliveryLog::in_folder(scratch.path("state"));
    let session = |id: &str| SessionId::new(id).unwrap();
    let response = catalog.get(&ids(&["a"]), &options(), &BytesOverFour).unwrap();
    log.record(&session("one"), indexes.roots(), &response).unwrap();
    let other = Roots::open([scratch.path("docs"), scratch.path("other")], None).unwrap();
    let read = |id: &str, roots: &Roots| log.read(&session(id), roots).unwrap().len();
    assert_eq!(read("one", indexes.roots()), 1);
    assert_eq!(read("two", indexes.roots()), 0);
    assert_eq!(read("ONE", indexes.roots()), 0);
    assert_eq!(read("one", &other), 0);
    // A damaged file counts as empty.
    let file = std::fs::read_dir(scratch.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_string_lossy().ends_with(".snippets")).unwrap();
    for damaged in
        [&b"a\n"[..], b"\xff", b"pannier snippets 9\na\n", b"pannier snippets 2\na\n", b""]
    {
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(read("one", indexes.roots()), 0, "{damaged:?}");
    }
    std::fs::write(&file, "pannier snippets 2\na af1349b9f5f9a1a6\n../b af1349b9f5f9a1a6\nb 0\n")
        .unwrap();
    assert_eq!(read("one", indexes.roots()), 1);
    assert!(matches!(
        SessionId::new("../x").map_err(SnippetsError::from),
        Err(SnippetsError::Session(_))
    ));
}

#[test]
fn concurrent_calls_do_not_lose_deliveries() {
    let scratch = Scratch::new("at-once");
    let names: Vec<String> = (0..40).map(|number| format!("s{number:02}")).collect();
    for name in &names {
        scratch.snippet(name, "global", &[], "");
    }
    let indexes = scratch.indexes();
    let session = SessionId::new("s").unwrap();
    std::thread::scope(|scope| {
        for part in names.chunks(5) {
            let (indexes, session) = (&indexes, &session);
            let log = DeliveryLog::in_folder(scratch.path("state"));
            scope.spawn(move || {
                let catalog = indexes.catalog().unwrap();
                for name in part {
                    let mut options = options();
                    options.delivered = log.read(session, indexes.roots()).unwrap();
                    let response = catalog.get(&ids(&[name]), &options, &BytesOverFour).unwrap();
                    assert!(
                        matches!(&response, GetResponse::Snippets(bundle) if bundle.snippets.len() == 1)
                    );
                    log.record(session, indexes.roots(), &response).unwrap();
                }
            });
        }
    });
    let log = DeliveryLog::in_folder(scratch.path("state"));
    let delivered = log.read(&session, indexes.roots()).unwrap();
    assert!(delivered.into_keys().eq(names));
}
