//! What a session has is not sent again.

mod helper;

use std::collections::BTreeSet;

use helper::{Scratch, fetch, ids, options, sent};
use pannier_snippets::{Answer, Deliveries, Roots, SessionId, SnippetsError};
use pannier_tokens::BytesOverFour;

#[test]
fn what_was_delivered_is_listed_and_not_sent_again() {
    let scratch = Scratch::new("delivered");
    scratch.snippet("a", "global", &["c"], "A\n");
    scratch.snippet("b", "global", &["c"], "B\n");
    scratch.snippet("c", "global", &[], "C\n");
    let indexes = scratch.indexes();
    let catalogue = indexes.catalogue().unwrap();
    let mut options = options();
    options.delivered = BTreeSet::from(["a".to_owned(), "c".to_owned()]);
    let fetched = fetch(&catalogue, &["b"], &options).unwrap();
    assert_eq!(sent(&fetched), ["b"]);
    assert_eq!(fetched.context.delivered, ["c"]);
    assert!(fetched.text.contains("sent before: c\n"));
    // The budget bounds what is printed, not what was.
    options.budget = Some(fetched.tokens);
    assert!(fetch(&catalogue, &["b"], &options).is_ok());
    options.budget = None;
    options.resend = true;
    assert_eq!(sent(&fetch(&catalogue, &["b"], &options).unwrap()), ["c", "b"]);
}

#[test]
fn sessions_and_roots_are_kept_apart() {
    let scratch = Scratch::new("apart");
    scratch.snippet("a", "global", &[], "A\n");
    scratch.write("other/x.md", "");
    let indexes = scratch.indexes();
    let catalogue = indexes.catalogue().unwrap();
    let deliveries = Deliveries::in_folder(scratch.path("state"));
    let session = |id: &str| SessionId::new(id).unwrap();
    let answer = catalogue.get(&ids(&["a"]), &options(), &BytesOverFour).unwrap();
    deliveries.record(&session("one"), indexes.roots(), &answer).unwrap();
    let other = Roots::open([scratch.path("docs"), scratch.path("other")], None).unwrap();
    let read = |id: &str, roots: &Roots| deliveries.read(&session(id), roots).unwrap().len();
    assert_eq!(read("one", indexes.roots()), 1);
    assert_eq!(read("two", indexes.roots()), 0);
    assert_eq!(read("ONE", indexes.roots()), 0);
    assert_eq!(read("one", &other), 0);
    // What is damaged says nothing.
    let file = std::fs::read_dir(scratch.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_string_lossy().ends_with(".snippets")).unwrap();
    for damaged in [&b"a\n"[..], b"\xff", b"pannier snippets 9\na\n", b""] {
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(read("one", indexes.roots()), 0, "{damaged:?}");
    }
    std::fs::write(&file, "pannier snippets 1\na\n../b\n").unwrap();
    assert_eq!(read("one", indexes.roots()), 1);
    assert!(matches!(
        SessionId::new("../x").map_err(SnippetsError::from),
        Err(SnippetsError::Session(_))
    ));
}

#[test]
fn calls_at_the_same_time_do_not_lose_each_other() {
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
            let deliveries = Deliveries::in_folder(scratch.path("state"));
            scope.spawn(move || {
                let catalogue = indexes.catalogue().unwrap();
                for name in part {
                    let mut options = options();
                    options.delivered = deliveries.read(session, indexes.roots()).unwrap();
                    let answer = catalogue.get(&ids(&[name]), &options, &BytesOverFour).unwrap();
                    assert!(
                        matches!(&answer, Answer::Snippets(context) if context.snippets.len() == 1)
                    );
                    deliveries.record(session, indexes.roots(), &answer).unwrap();
                }
            });
        }
    });
    let deliveries = Deliveries::in_folder(scratch.path("state"));
    let delivered = deliveries.read(&session, indexes.roots()).unwrap();
    assert!(delivered.into_iter().eq(names));
}
