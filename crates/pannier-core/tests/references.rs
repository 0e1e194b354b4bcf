//! Items whose content is elsewhere.

use pannier_core::{item::*, report::*, score::*, *};

/// Two references to `a`, one to `b`, and an item whose content is the text `a`.
fn pool() -> [ContextItem; 4] {
    let reference = |id: &str| ContextItem::reference(id, 2).unwrap();
    [reference("a"), reference("b"), reference("a"), ContextItem::new("a", 2).unwrap()]
}

fn select(deduplication: impl Into<Deduplication>) -> (Vec<usize>, Vec<ExclusionReason>) {
    let items = pool();
    let pipeline = Pipeline::builder(ReflexiveScorer).deduplication(deduplication).build();
    let selection = pipeline.run(&items, &ContextBudget::new(10, 10).unwrap()).unwrap();
    let excluded = selection.report().excluded.into_iter().map(|entry| entry.reason);
    (selection.indices().collect(), excluded.collect())
}

#[test]
fn references_are_duplicates_by_id_and_never_of_contents() {
    let duplicate = ExclusionReason::Deduplicated { deduplicated_against: "a".into() };
    let expected = (vec![0, 1, 3], vec![duplicate]);
    assert_eq!(select(true), expected);
    assert_eq!(select(Deduplication::NearDuplicates { threshold: 0.0 }), expected);
    assert_eq!(select(false).0, [0, 1, 2, 3]);
}

#[cfg(feature = "serde")]
#[test]
fn references_are_written_by_id_and_not_read() {
    let written = serde_json::to_string(&pool()[0]).unwrap();
    assert_eq!(written, r#"{"content":"","tokens":2,"kind":"Message","id":"a"}"#);
    let error = serde_json::from_str::<ContextItem>(&written).unwrap_err().to_string();
    assert!(error.contains("an item has no content"), "{error}");
}
