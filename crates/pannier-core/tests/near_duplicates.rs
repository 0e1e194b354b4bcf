//! Near duplicates, against their definition.

mod support;

use std::collections::BTreeSet;

use pannier_core::{item::*, place::*, report::*, score::*, slice::*, whatif::*, *};
use proptest::prelude::*;
use support::*;

fn words(content: &str) -> Vec<String> {
    let words = content.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// What is shared, and of how much.
fn overlap(new: &ContextItem, kept: &ContextItem) -> (u64, u64) {
    let (own, others) = (words(new.content()), words(kept.content()));
    if own.is_empty() {
        return (0, 0);
    }
    if let (Some(new), Some(kept)) = (Passage::from_item(new), Passage::from_item(kept))
        && new.document == kept.document
    {
        let own = new.range.clone().count() as u64;
        return (new.range.filter(|byte| kept.range.contains(byte)).count() as u64, own);
    }
    let parts = |words: &[String], length: usize| -> BTreeSet<Vec<String>> {
        words.windows(length).map(<[String]>::to_vec).collect()
    };
    let length = if own.len() < 5 { 1 } else { 5 };
    let (own, others) = (parts(&own, length), parts(&others, length));
    (own.intersection(&others).count() as u64, own.len() as u64)
}

/// An item that goes, the content that it goes for, and how much of it is there, if that is not all.
type Dropped = (usize, String, Option<(u64, u64)>);

fn oracle(items: &[ContextItem], threshold: u64) -> Vec<Dropped> {
    let content = |index: usize| items[index].content().to_owned();
    let score = |index: &usize| items[*index].future_relevance_hint().unwrap();
    let mut ranked: Vec<usize> = (0..items.len()).collect();
    ranked.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let (mut unique, mut dropped): (Vec<usize>, Vec<Dropped>) = (Vec::new(), Vec::new());
    for index in ranked {
        let equal = |other: &&usize| items[**other].content() == items[index].content();
        match unique.iter().find(equal) {
            Some(kept) => dropped.push((index, content(*kept), None)),
            None => unique.push(index),
        }
    }
    let mut kept: Vec<usize> = Vec::new();
    for index in unique {
        let enough = kept.iter().find_map(|other| {
            let (shared, own) = overlap(&items[index], &items[*other]);
            (1_000 * shared > threshold * own).then_some((*other, shared, own))
        });
        match enough {
            Some((other, shared, own)) => {
                dropped.push((index, content(other), Some((shared, own))));
            }
            None => kept.push(index),
        }
    }
    dropped.sort_unstable();
    dropped
}

fn dropped(pipeline: &Pipeline, items: &[ContextItem], tokens: i64) -> Vec<Dropped> {
    let report = pipeline.dry_run(items, &budget(tokens)).unwrap();
    let mut dropped: Vec<Dropped> = report
        .excluded
        .iter()
        .filter_map(|entry| match &entry.reason {
            ExclusionReason::Deduplicated { deduplicated_against } => {
                Some((entry.index.unwrap(), deduplicated_against.to_string(), None))
            }
            ExclusionReason::NearDuplicate { near_duplicate_of, shared, total: own } => {
                Some((entry.index.unwrap(), near_duplicate_of.to_string(), Some((*shared, *own))))
            }
            _ => None,
        })
        .collect();
    dropped.sort_unstable();
    dropped
}

fn pools() -> impl Strategy<Value = Vec<ContextItem>> {
    // Few words, so that much is shared; some punctuation and case that must not matter.
    let word =
        prop::sample::select(vec!["a", "A", "b", "c", "d", "e", "É", "é", "2", "...", "x-y"]);
    let content = prop::collection::vec(word, 1..12).prop_map(|words| words.join(" "));
    let document = prop::option::weighted(0.4, (0..2_u8, 0..20_u64, 0..12_u64));
    let item = (content, 0..6_u8, document);
    prop::collection::vec(item, 0..30).prop_map(|items| {
        let build = |(content, score, document): (String, u8, Option<(u8, u64, u64)>)| {
            let item = scored(&content, 3, f64::from(score) / 5.0);
            match document {
                Some((document, start, length)) => {
                    let (document, range) = (format!("{document}.md"), start..start + length);
                    item.passage(&Passage { document: &document, sequence: start, range })
                }
                None => item,
            }
            .build()
            .unwrap()
        };
        items.into_iter().map(build).collect()
    })
}

/// The threshold is in thousandths.
fn near_duplicates(threshold: u16) -> Deduplication {
    Deduplication::NearDuplicates { threshold: f64::from(threshold) / 1_000.0 }
}

fn thresholds() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(500), Just(800), Just(999), Just(1_000), 0..=1_000_u16]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn near_duplicates_are_found_as_defined(items in pools(), threshold in thresholds()) {
        let pipeline = pipeline().deduplication(near_duplicates(threshold)).build();
        let expected = oracle(&items, u64::from(threshold));
        prop_assert_eq!(dropped(&pipeline, &items, 10_000), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn explanations_know_that_another_score_changes_what_is_a_duplicate(
        items in pools(),
        threshold in thresholds(),
        tokens in 0..60_i64,
        index in any::<prop::sample::Index>(),
    ) {
        if items.is_empty() {
            return Ok(());
        }
        let index = index.index(items.len());
        let scorer = FnScorer(|item: &ContextItem| item.future_relevance_hint().unwrap());
        let near = near_duplicates(threshold);
        let pipeline = Pipeline::builder(scorer).slicer(FillSlice::default()).deduplication(near).build();
        let with_score = |score: f64| {
            let mut items = items.clone();
            let item = &items[index];
            let mut builder = scored(item.content(), item.tokens(), score);
            if let Some(passage) = Passage::from_item(item) {
                builder = builder.passage(&passage);
            }
            items[index] = builder.build().unwrap();
            items
        };
        let selected = |items: &[ContextItem]| -> Vec<usize> {
            pipeline.run(items, &budget(tokens)).unwrap().indices().collect()
        };
        let is_in = |score: f64| selected(&with_score(score)).contains(&index);
        let answer = pipeline.explain(&items, &budget(tokens), index).unwrap();
        match answer.smallest_score {
            Some(score) => {
                prop_assert!(is_in(score));
                prop_assert!(score == 0.0 || !is_in(score.next_down()));
            }
            None => prop_assert!((0..=8).all(|step| !is_in(f64::from(step) / 8.0))),
        }
        let lost_to: Vec<usize> = answer.lost_to.iter().map(|rival| rival.index).collect();
        match answer.decision {
            Decision::Excluded { reason: ExclusionReason::NearDuplicate { near_duplicate_of, .. } } => {
                prop_assert_eq!(lost_to.len(), 1);
                prop_assert_eq!(items[lost_to[0]].content(), &*near_duplicate_of);
                prop_assert!(answer.smallest_budget.is_none());
            }
            Decision::Excluded { reason: ExclusionReason::BudgetExceeded { .. } } => {
                let now = selected(&items);
                prop_assert!(lost_to.iter().all(|other| now.contains(other)));
                if let Some(score) = answer.smallest_score {
                    let then = selected(&with_score(score));
                    let gone = now.into_iter().filter(|other| !then.contains(other));
                    prop_assert_eq!(lost_to, gone.collect::<Vec<_>>());
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_best_of_what_is_nearly_equal_stays_and_the_reason_says_why() {
    let text = "The quick brown fox jumps over the lazy dog and runs away";
    let items = [
        item(&format!("{text}."), 12, 0.4),
        item(&text.to_uppercase(), 12, 0.9),
        item("Something else entirely, with words of its own.", 9, 0.5),
        item("Quick! Fox!", 2, 0.3),
        item("---", 1, 0.2),
    ];
    let near = Deduplication::NearDuplicates { threshold: 0.8 };
    let pipeline = pipeline().deduplication(near).placer(RankPlacer).build();
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(selection.indices().collect::<Vec<_>>(), [1, 2, 4]);
    let report = selection.report();
    assert_eq!(
        report.excluded[0].reason.to_string(),
        "NearDuplicate: 8 of its 8 shingles are in an item that ranks higher"
    );
    assert_eq!(report.stages[2].items_out, 3);
}

#[test]
fn a_group_goes_by_its_best_member_and_as_a_whole() {
    let items = [
        item("one two three four five six", 6, 0.9),
        scored("One, two, three, four, five, six!", 6, 0.5).group("g").build().unwrap(),
        scored("what else it says", 4, 0.4).group("g").build().unwrap(),
    ];
    let near = Deduplication::NearDuplicates { threshold: 0.8 };
    let report = pipeline().deduplication(near).build().dry_run(&items, &budget(100)).unwrap();
    assert_eq!(report.included.len(), 1);
    assert!(report.excluded.iter().all(|entry| entry.reason.name() == "NearDuplicate"));
}

#[test]
fn many_that_are_alike_are_not_compared_with_each_other() {
    // A template of 150 words before 50 of its own, and every third has the same: pair by pair, this would take minutes.
    let template: String = (0..150).map(|word| format!("word{word} ")).collect();
    let items: Vec<ContextItem> = (0..1_800)
        .map(|i| {
            let own = if i % 3 == 0 { 7 } else { i };
            let own: String = (0..50).map(|word| format!("own{own}x{word} ")).collect();
            item(&format!("{template}{own}{i}"), 1, f64::from(i % 10) / 10.0)
        })
        .collect();
    let near = Deduplication::NearDuplicates { threshold: 0.8 };
    let pipeline = pipeline().deduplication(near).build();
    let counts = pipeline.run(&items, &budget(10_000)).unwrap().exclusion_counts();
    assert_eq!(counts.get(&ExclusionVariant::NearDuplicate), Some(&600));
}

#[test]
fn duplicates_of_some_kinds_are_kept() {
    let item = |content: &str, of: &str| scored(content, 5, 0.5).kind(kind(of)).build().unwrap();
    let items = [item("a", "note"), item("a", "note"), item("b", "log"), item("b", "log")];
    let pipeline = pipeline().keep_duplicates([kind("note")]).build();
    let mut indices: Vec<usize> = pipeline.run(&items, &budget(100)).unwrap().indices().collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
}
