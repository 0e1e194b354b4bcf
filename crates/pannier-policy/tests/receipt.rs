//! Receipts: recording, replaying, comparing and reading.

#[path = "../../pannier-core/tests/support/items.rs"]
mod support;

use std::sync::Arc;

use pannier_core::{item::*, place::*, score::*, slice::*, *};
use pannier_layout::*;
use pannier_policy::*;
use proptest::prelude::*;
use support::*;

fn chat_policy() -> Policy {
    PolicyRegistry::default().policy("chat").unwrap().clone()
}

fn receipt(items: &[ContextItem], policy: Policy, tokens: i64) -> Receipt {
    let pipeline = policy.pipeline().unwrap();
    let selection = pipeline.run(items, &budget(tokens)).unwrap();
    Receipt::new(&selection, RunConfig::new(policy))
}

fn pool() -> Vec<ContextItem> {
    ["one", "two", "three", "four"].map(|text| ContextItem::new(text, 10).unwrap()).into()
}

fn counter() -> Arc<dyn TokenCounter> {
    Arc::new(Groups(3))
}

fn replay(receipt: &Receipt, items: &[ContextItem]) -> Replay {
    receipt.replay(items, &PolicyRegistry::default(), &counter()).unwrap()
}

#[test]
fn a_replay_reports_the_first_difference() {
    let items = pool();
    let original = receipt(&items, chat_policy(), 25);
    assert_eq!(replay(&original, &items), Replay::Identical);

    assert_eq!(replay(&original, &items[..3]), Replay::ItemCount { recorded: 4, found: 3 });

    let mut changed = items.clone();
    changed[2] = scored("three", 10, 0.5).build().unwrap();
    let name = Digest::of(b"three").to_string()[..12].to_owned();
    assert_eq!(replay(&original, &changed), Replay::Item { index: 2, name });

    // What a changed engine would have done.
    let mut other = original.clone();
    other.selected = vec![0, 2];
    let expected = Replay::Selection { position: 1, recorded: Some(2), found: Some(1) };
    assert_eq!(replay(&other, &items), expected);
    other.selected = vec![0];
    let expected = Replay::Selection { position: 1, recorded: None, found: Some(1) };
    assert_eq!(replay(&other, &items), expected);

    let mut other = original.clone();
    other.result = Digest::of(b"another text");
    assert_eq!(replay(&other, &items), Replay::Result);
    let mut other = original.clone();
    other.report = Digest::of(b"another report");
    assert_eq!(replay(&other, &items), Replay::Report);
}

#[test]
fn a_changed_receipt_is_rejected() {
    let receipt = receipt(&pool(), chat_policy(), 25);
    let good = serde_json::to_value(&receipt).unwrap();
    assert_eq!(serde_json::from_value::<Receipt>(good.clone()).unwrap(), receipt);
    for (path, value) in [
        ("/engine", serde_json::Value::from("9.9.9")),
        ("/source/version", "x".into()),
        ("/policy/name", "mine".into()),
        ("/budget/maxTokens", 26.into()),
        ("/items/3/tokens", 11.into()),
        ("/items/3/item", Digest::of(b"x").to_string().into()),
        ("/items/3/content", Digest::of(b"x").to_string().into()),
        ("/selected", serde_json::json!([1, 0])),
        ("/result", Digest::of(b"x").to_string().into()),
        ("/report", Digest::of(b"x").to_string().into()),
        ("/seal", Digest::of(b"x").to_string().into()),
    ] {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        let error = serde_json::from_value::<Receipt>(changed).unwrap_err().to_string();
        assert!(error.contains("it was changed after it was written"), "{path}: {error}");
    }
}

#[test]
fn a_diff_names_the_removed_item() {
    let sure = |minute, tokens| {
        let at = format!("2026-03-01T12:{minute:02}:00Z").parse().unwrap();
        let item = ContextItem::builder("Sure.", tokens).id(format!("d{minute}")).timestamp(at);
        item.build().unwrap()
    };
    let items = [sure(0, 9), sure(5, 3)];
    let policy = Policy::new([(ScorerPolicy::Recency, 1.0)]).with_deduplication(false);
    let diff = receipt(&items, policy.clone(), 100).diff(&receipt(&items, policy, 3));
    let names: Vec<_> = diff.excluded.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!((names, diff.included.len(), diff.moved.len()), (vec!["d0"], 0, 0));
}

#[test]
fn hashes_are_reproducible_from_json_lines() {
    let items = pool();
    let receipt = receipt(&items, chat_policy(), 25);
    assert_eq!(receipt.result, Digest::of(b"one\n\ntwo\n"));
    let item = serde_json::to_vec(&items[0]).unwrap();
    assert_eq!(receipt.items[0].item, Digest::of(&item));
    assert_eq!(receipt.items[0].content, Digest::of(b"one"));
    let report = chat_policy().pipeline().unwrap().dry_run(&items, &budget(25)).unwrap();
    assert_eq!(receipt.report, Digest::of(&serde_json::to_vec(&report).unwrap()));
    // The published test vector for no bytes at all.
    assert_eq!(
        Digest::of(b"").to_string(),
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
}

#[test]
fn receipts_of_version_1_replay_identically() {
    let lines = include_str!("receipts/v1.jsonl").lines();
    let items: Vec<ContextItem> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let replayed = |text: &str| {
        let receipt: Receipt = serde_json::from_str(text).unwrap();
        assert_eq!(replay(&receipt, &items), Replay::Identical);
        assert_eq!(serde_json::to_string(&receipt).unwrap() + "\n", text, "nothing is lost");
        receipt
    };
    let receipt = replayed(include_str!("receipts/v1.json"));
    assert_eq!(receipt.reference_time, Some("2026-03-01T12:30:00Z".parse().unwrap()));
    // Its policy has former names of components and options. The seal covers them as they are.
    let receipt = replayed(include_str!("receipts/v1-former-names.json"));
    assert_eq!(*receipt.policy().placer(), PlacerPolicy::SliceOrder);
}

#[test]
fn inconsistent_receipts_are_rejected() {
    let good = serde_json::to_value(receipt(&pool(), chat_policy(), 25)).unwrap();
    let refused = |path: &str, value: serde_json::Value| {
        let mut wrong = good.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        serde_json::from_value::<Receipt>(wrong).unwrap_err().to_string()
    };
    assert!(refused("/receipt", 3.into()).contains("its format is 3"));
    assert!(refused("/selected/0", 4.into()).contains("it selects item 4"));
    assert!(refused("/selected/0", 1.into()).contains("more than once"));
    assert!(refused("/result", "00".into()).contains("64 hexadecimal digits"));
    assert!(refused("/result", "é".repeat(32).into()).contains("64 hexadecimal digits"));
    assert!(refused("/policy/slicer", "x".into()).contains("in the policy, slicer"));
    assert!(refused("/budget/maxTokens", (-1).into()).contains("maxTokens"));
    let mut wrong = good.clone();
    wrong["extra"] = 1.into();
    assert!(serde_json::from_value::<Receipt>(wrong).unwrap_err().to_string().contains("extra"));
}

#[test]
fn a_selection_of_documents_replays_with_its_layout() {
    let passage = |content: &str, sequence: u64, score| {
        let passage = Passage { document: "a.md", sequence, range: sequence * 4..sequence * 4 + 6 };
        scored(content, 2, score).passage(&passage).build().unwrap()
    };
    let items = [passage("abcdef", 0, 0.9), passage("efghij", 1, 0.5), passage("ijklmn", 2, 0.7)];
    let policy = PolicyRegistry::default().policy("assemble").unwrap().clone();
    let rendering = DocumentLayout::new(counter());
    let pipeline = policy.pipeline().unwrap().with_layout(rendering.clone());
    let selection = pipeline.run(&items, &budget(20)).unwrap();
    let text = rendering.render(selection.items());
    assert_eq!(text, "[DOC: a.md]\nabcdefghijklmn\n");

    let mut config = RunConfig::new(policy);
    config.budget_scope = BudgetScope::Documents;
    let options = Metadata::from([("limit".to_owned(), MetadataValue::Float(0.5))]);
    config.source = Some(ReceiptSource {
        kind: "documents".to_owned(),
        version: "1".to_owned(),
        query: None,
        options: Some(options.into()),
    });
    let receipt = Receipt::new(&selection, config);
    assert_eq!(receipt.result, Digest::of(text.as_bytes()));
    let written = serde_json::to_value(&receipt).unwrap();
    assert_eq!(written["bound"], "documents");
    assert_eq!(written["source"]["options"]["limit"], 0.5);
    let read: Receipt = serde_json::from_value(written).unwrap();
    assert_eq!(read, receipt);
    assert_eq!(replay(&read, &items), Replay::Identical);
    // With another bound, it is another selection.
    let mut other = read.clone();
    other.budget_scope = BudgetScope::Text;
    assert_ne!(replay(&other, &items), Replay::Identical);
}

#[test]
fn equal_texts_have_no_moves_and_share_the_prefix() {
    let yes = |id: &str| ContextItem::builder("yes", 1).id(id).pinned(true).build().unwrap();
    let policy = || chat_policy().with_deduplication(false);
    let (first, second) = ([yes("a"), yes("b")], [yes("b"), yes("a")]);
    let diff = receipt(&first, policy(), 9).diff(&receipt(&second, policy(), 9));
    assert!(diff.moved.is_empty() && diff.included.is_empty() && diff.excluded.is_empty());
    assert_eq!(diff.unchanged_prefix_items, 2);
    assert!(!diff.same_pool);
    // One of three leaves from the middle: it is named, and the text before it is the same.
    let three = [yes("a"), yes("b"), yes("c")];
    let two = [yes("a"), yes("c")];
    let diff = receipt(&three, policy(), 9).diff(&receipt(&two, policy(), 9));
    assert_eq!((diff.excluded[0].name.as_str(), diff.unchanged_prefix_items), ("b", 2));
}

/// A receipt that selects these contents, in this order.
fn selecting(contents: &[u8]) -> Receipt {
    let items: Vec<_> =
        contents.iter().map(|i| item(&format!("text {i}"), i64::from(*i), 0.5)).collect();
    let pipeline =
        Pipeline::builder(ReflexiveScorer).placer(RankPlacer).deduplication(false).build();
    let selection = pipeline.run(&items, &budget(10_000)).unwrap();
    assert_eq!(selection.indices().collect::<Vec<_>>(), (0..items.len()).collect::<Vec<_>>());
    Receipt::new(&selection, RunConfig::new(chat_policy()))
}

#[test]
fn a_diff_lists_added_removed_and_moved_items() {
    let diff = selecting(&[1, 2, 3, 4, 5]).diff(&selecting(&[1, 2, 5, 3, 4, 6]));
    let names =
        |entries: &[DiffEntry]| entries.iter().map(|entry| entry.tokens).collect::<Vec<_>>();
    assert_eq!(names(&diff.included), [6]);
    assert!(diff.excluded.is_empty());
    assert_eq!(names(&diff.moved), [5]);
    assert_eq!((diff.moved[0].position_before, diff.moved[0].position_after), (Some(4), Some(2)));
    assert_eq!((diff.unchanged_prefix_items, diff.unchanged_prefix_tokens), (2, 3));
    assert_eq!((diff.tokens_before, diff.tokens_after), (15, 21));
    assert!(!diff.included[0].in_both_pools && diff.moved[0].in_both_pools);
    assert!(diff.same_policy && diff.same_budget && !diff.same_pool);
}

#[test]
fn a_new_template_empties_the_common_prefix_and_a_new_time_is_reported() {
    let items = pool();
    let pipeline = chat_policy().pipeline().unwrap();
    let selection = pipeline.run(&items, &budget(25)).unwrap();
    let with = |change: fn(&mut RunConfig)| {
        let mut config = RunConfig::new(chat_policy());
        change(&mut config);
        Receipt::new(&selection, config)
    };
    let plain = with(|_| {});
    let other = with(|config| config.template.separator = "\n---\n".to_owned());
    assert_eq!(plain.diff(&plain).unchanged_prefix_items, 2);
    assert_eq!(plain.diff(&other).unchanged_prefix_items, 0);
    let later = with(|config| config.reference_time = Some(Timestamp::UNIX_EPOCH));
    let diff = plain.diff(&later);
    assert!(diff.same_policy && !diff.same_time && plain.diff(&plain).same_time);
}

#[test]
fn an_unknown_receipt_version_is_rejected() {
    let receipt = receipt(&pool(), chat_policy(), 25);
    let text = serde_json::to_string(&receipt).unwrap();
    let text = text.replace("{\"receipt\":2,", "{\"receipt\":3,\"new\":true,");
    let error = serde_json::from_str::<Receipt>(&text).unwrap_err().to_string();
    assert!(error.contains("its format is 3"), "{error}");
}

proptest! {
    #[test]
    fn a_diff_turns_one_selection_into_the_other(
        before in prop::collection::vec(0..8_u8, 0..8),
        after in prop::collection::vec(0..8_u8, 0..8),
    ) {
        let (first, second) = (selecting(&before), selecting(&after));
        let diff = first.diff(&second);
        // Without what came, went and moved, both are the same.
        let without = |all: &[u8], gone: &[usize]| -> Vec<u8> {
            (0..all.len()).filter(|i| !gone.contains(i)).map(|i| all[i]).collect()
        };
        let places = |entries: &[DiffEntry], place: fn(&DiffEntry) -> Option<usize>| -> Vec<usize> {
            entries.iter().filter_map(place).collect()
        };
        let mut gone = places(&diff.excluded, |entry| entry.position_before);
        gone.extend(places(&diff.moved, |entry| entry.position_before));
        let mut come = places(&diff.included, |entry| entry.position_after);
        come.extend(places(&diff.moved, |entry| entry.position_after));
        prop_assert_eq!(without(&before, &gone), without(&after, &come));
        let prefix = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        prop_assert_eq!(diff.unchanged_prefix_items, prefix);

        // As few as possible move: a longest common part stays, of what is in both.
        let stays = before.len() - gone.len();
        prop_assert_eq!(first.diff(&first).moved.len(), 0);
        let kept_both: Vec<u8> = without(&before, &places(&diff.excluded, |entry| entry.position_before));
        let then: Vec<u8> = without(&after, &places(&diff.included, |entry| entry.position_after));
        prop_assert_eq!(kept_both.len(), then.len());
        if distinct(&kept_both) {
            prop_assert_eq!(stays, longest_common(&kept_both, &then));
        }
    }
}

fn distinct(values: &[u8]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// The length of the longest common subsequence, as everybody writes it.
fn longest_common(left: &[u8], right: &[u8]) -> usize {
    match (left, right) {
        ([], _) | (_, []) => 0,
        ([a, left @ ..], [b, right @ ..]) if a == b => 1 + longest_common(left, right),
        ([_, left_rest @ ..], [_, right_rest @ ..]) => {
            longest_common(left_rest, right).max(longest_common(left, right_rest))
        }
    }
}

#[test]
fn a_receipt_distinguishes_short_forms_from_full_texts() {
    let task = |content: &str, score, title_tokens| {
        let item = scored(content, 100, score).kind(kind("task"));
        item.form(FormName::SHORT, format!("title of {content}"), title_tokens).build().unwrap()
    };
    let items = [task("one", 0.9, 10), task("two", 0.8, 10)];
    let tiers = vec![TierOptions::new([kind("task")])];
    let policy = Policy::new([(ScorerPolicy::Reflexive, 1.0)])
        .with_slicer(TieredOptions { tiers, full_text_percent: 80.0 })
        .with_placer(PlacerPolicy::SliceOrder);
    let registry = PolicyRegistry::default();
    let pipeline = registry.pipeline(&policy, None).unwrap();
    let receipt = |tokens: i64| {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        Receipt::new(&selection, RunConfig::new(policy.clone()))
    };
    let short = receipt(150);
    assert_eq!(short.shortened, [1]);
    let json = serde_json::to_string(&short).unwrap();
    assert_eq!(serde_json::from_str::<Receipt>(&json).unwrap(), short);
    assert_eq!(replay(&short, &items), Replay::Identical);
    let diff = short.diff(&receipt(200));
    let names =
        |entries: &[DiffEntry]| entries.iter().map(|entry| entry.tokens).collect::<Vec<_>>();
    assert_eq!((names(&diff.included), names(&diff.excluded)), (vec![100], vec![10]));
    assert!(diff.included[0].in_both_pools && diff.excluded[0].in_both_pools);
    // Another short form is another item.
    let other = [items[0].clone(), task("two", 0.8, 11)];
    let replay = replay(&short, &other);
    assert!(matches!(replay, Replay::Item { index: 1, .. }), "{replay:?}");
}

#[test]
fn a_receipt_records_the_level_of_each_form() {
    let log = |content: &str, score| {
        scored(content, 100, score)
            .form(FormName::HEAD_TAIL, format!("{content} head"), 20)
            .form(FormName::STUB, format!("{content} stub"), 2)
            .build()
            .unwrap()
    };
    let items = [log("one", 0.9), log("two", 0.1), log("three", 0.8)];
    let policy = Policy::new([(ScorerPolicy::Reflexive, 1.0)]).with_slicer(FillOptions {
        order: FillOrder::Marginal,
        shares: Vec::new(),
        max_per_section: None,
    });
    let pipeline = PolicyRegistry::default().pipeline(&policy, None).unwrap();
    let receipt = |tokens: i64| {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        Receipt::new(&selection, RunConfig::new(policy.clone()))
    };
    let short = receipt(50);
    assert_eq!((&*short.shortened, &*short.levels), (&[0, 1, 2][..], &[1, 2, 1][..]));
    let json = serde_json::to_string(&short).unwrap();
    assert_eq!(serde_json::from_str::<Receipt>(&json).unwrap(), short);
    assert_eq!(replay(&short, &items), Replay::Identical);
    let diff = short.diff(&receipt(122));
    let tokens =
        |entries: &[DiffEntry]| entries.iter().map(|entry| entry.tokens).collect::<Vec<_>>();
    assert_eq!((tokens(&diff.included), tokens(&diff.excluded)), (vec![100], vec![20]));
    assert!(diff.included[0].in_both_pools && diff.excluded[0].in_both_pools);
    // A level that an item does not have is refused.
    let forged = json.replace(r#""levels":[1,2,1]"#, r#""levels":[1,3,1]"#);
    let error = serde_json::from_str::<Receipt>(&forged).unwrap_err().to_string();
    assert!(error.contains("no such form"), "{error}");
}

/// The example of the documentation is a receipt, and is written back as it stands.
#[test]
fn the_documented_receipt_is_valid() {
    let page = include_str!("../../../docs/reference/json.md");
    let mut blocks = page.split("```json").skip(1).map(|block| block.split("```").next().unwrap());
    let block = blocks.find(|block| block.contains("\"receipt\": ")).unwrap();
    let shown: serde_json::Value = serde_json::from_str(block).unwrap();
    let receipt: Receipt = serde_json::from_value(shown.clone()).unwrap();
    assert_eq!(serde_json::to_value(&receipt).unwrap(), shown);
}
