//! Every assertion: success, the exact message of a failure, and the edge cases that the specification lists.

use pannier_core::{place::*, report::*, score::*, *};
use pannier_testing::*;

fn item(kind: &str, tokens: i64) -> ContextItem {
    let kind = ContextKind::new(kind).unwrap();
    ContextItem::builder(format!("{kind} of {tokens}"), tokens).kind(kind).build().unwrap()
}

fn kind(text: &str) -> ContextKind {
    ContextKind::new(text).unwrap()
}

fn over_budget(item_tokens: i64, available_tokens: i64) -> ExclusionReason {
    ExclusionReason::BudgetExceeded { item_tokens, available_tokens, outcompeted: false }
}

fn duplicate() -> ExclusionReason {
    ExclusionReason::Deduplicated { deduplicated_against: "Message of 1".into() }
}

fn empty() -> SelectionReport {
    ReportBuilder::new().build()
}

/// Three included items (two messages and a document) and three excluded ones.
fn report() -> SelectionReport {
    ReportBuilder::new()
        .include(item("Message", 10), 0.9)
        .include_for(item("Document", 20), 1.0, InclusionReason::Pinned)
        .include(item("message", 30), 0.5)
        .exclude(item("Memory", 40), 0.8, over_budget(40, 7))
        .exclude(item("Message", 50), 0.25, duplicate())
        .exclude(item("Memory", 60), 0.125, over_budget(60, 5))
        .build()
}

/// Returns the message of a failed assertion.
fn message<T>(result: Result<T, SelectionReportAssertionError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_chain_continues_while_assertions_hold() {
    let report = report();
    report
        .should()
        .include_item_with_kind(ContextKind::MESSAGE)
        .include_item_matching(|entry| entry.score > 0.8 && entry.item.tokens() == 10)
        .include_exactly_n_items_with_kind(ContextKind::MESSAGE, 2)
        .exclude_item_with_reason(ExclusionVariant::Deduplicated)
        .exclude_item_matching_with_reason(
            |item| item.tokens() == 50,
            ExclusionVariant::Deduplicated,
        )
        .exclude_item_with_budget_details(|item| item.tokens() == 60, 60, 5)
        .have_no_exclusions_for_kind(ContextKind::DOCUMENT)
        .have_at_least_n_exclusions(3)
        .excluded_items_are_sorted_by_score_descending()
        .have_budget_utilization_above(0.6, &ContextBudget::new(100, 50).unwrap())
        .have_kind_coverage_count(2)
        .place_item_at_edge(|entry| entry.score == 0.5)
        .place_top_n_scored_at_edges(0);
}

#[test]
fn an_assertion_panics_with_the_message_of_its_error() {
    let report = empty();
    let caught = std::panic::catch_unwind(|| report.should().have_at_least_n_exclusions(1));
    let panic = caught.map(|_| ()).unwrap_err();
    assert_eq!(
        panic.downcast_ref::<String>().unwrap(),
        "HaveAtLeastNExclusions(1) failed: expected at least 1 excluded items, but Excluded had 0."
    );
    let error = report.should().try_have_at_least_n_exclusions(1).map(|_| ()).unwrap_err();
    assert_eq!(error.assertion, "HaveAtLeastNExclusions");
    assert_eq!(&error.message, panic.downcast_ref::<String>().unwrap());
}

#[test]
fn the_panic_location_is_the_call() {
    let location = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let seen = std::sync::Arc::clone(&location);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map(|location| location.file().to_owned());
        *seen.lock().unwrap() = file.unwrap_or_default();
    }));
    let report = empty();
    let caught = std::panic::catch_unwind(|| report.should().place_top_n_scored_at_edges(1));
    std::panic::set_hook(before);
    assert!(caught.is_err());
    assert!(location.lock().unwrap().ends_with("vocabulary.rs"));
}

#[test]
fn include_item_with_kind() {
    let report = report();
    assert!(
        report.should().try_include_item_with_kind(kind("DOCUMENT")).is_ok(),
        "kinds ignore case"
    );
    assert_eq!(
        message(report.should().try_include_item_with_kind(ContextKind::MEMORY)),
        "IncludeItemWithKind(Memory) failed: Included contained 0 items with Kind=Memory. Included had 3 \
         items with kinds: [Message, Document]."
    );
    assert_eq!(
        message(empty().should().try_include_item_with_kind(ContextKind::MEMORY)),
        "IncludeItemWithKind(Memory) failed: Included contained 0 items with Kind=Memory. Included had 0 \
         items with kinds: []."
    );
}

#[test]
fn include_item_matching() {
    let report = report();
    let pinned = |entry: &IncludedItem| entry.reason == InclusionReason::Pinned;
    assert!(report.should().try_include_item_matching(pinned).is_ok());
    assert_eq!(
        message(report.should().try_include_item_matching(|entry| entry.score < 0.1)),
        "IncludeItemMatching failed: no item in Included matched the predicate. Included had 3 items. They \
         are: (kind=Message, score=0.9, reason=Scored), (kind=Document, score=1, reason=Pinned), \
         (kind=message, score=0.5, reason=Scored)."
    );
    assert_eq!(
        message(empty().should().try_include_item_matching(|_| true)),
        "IncludeItemMatching failed: no item in Included matched the predicate. Included had 0 items."
    );
    let many =
        (0..7).fold(ReportBuilder::new(), |report, _| report.include(item("Message", 1), 0.5));
    let text = message(many.build().should().try_include_item_matching(|_| false));
    assert!(text.contains("Included had 7 items. The first are: "));
    assert_eq!(text.matches("kind=Message").count(), 5);
}

#[test]
fn include_exactly_n_items_with_kind() {
    let report = report();
    let chain = report.should();
    assert!(chain.try_include_exactly_n_items_with_kind(ContextKind::MEMORY, 0).is_ok());
    assert!(chain.try_include_exactly_n_items_with_kind(ContextKind::MESSAGE, 2).is_ok());
    for (n, expected) in [
        (
            1,
            "IncludeExactlyNItemsWithKind(Message, 1) failed: expected 1 items with Kind=Message in Included, \
             but found 2. Included had 3 items total.",
        ),
        (
            0,
            "IncludeExactlyNItemsWithKind(Message, 0) failed: expected 0 items with Kind=Message in Included, \
             but found 2. Included had 3 items total.",
        ),
    ] {
        let result = chain.try_include_exactly_n_items_with_kind(ContextKind::MESSAGE, n);
        assert_eq!(message(result), expected);
    }
    let empty = empty();
    assert!(empty.should().try_include_exactly_n_items_with_kind(ContextKind::MESSAGE, 0).is_ok());
    assert_eq!(
        message(empty.should().try_include_exactly_n_items_with_kind(ContextKind::MESSAGE, 3)),
        "IncludeExactlyNItemsWithKind(Message, 3) failed: expected 3 items with Kind=Message in Included, but \
         found 0. Included had 0 items total."
    );
}

#[test]
fn exclude_item_with_reason() {
    let report = report();
    let chain = report.should();
    assert!(chain.try_exclude_item_with_reason(ExclusionVariant::BudgetExceeded).is_ok());
    // The numbers of a reason are ignored.
    assert!(chain.try_exclude_item_with_reason(&over_budget(0, 0)).is_ok());
    assert_eq!(
        message(chain.try_exclude_item_with_reason(ExclusionVariant::NegativeTokens)),
        "ExcludeItemWithReason(NegativeTokens) failed: no excluded item had reason NegativeTokens. Excluded \
         had 3 items with reasons: [BudgetExceeded, Deduplicated]."
    );
    assert_eq!(
        message(empty().should().try_exclude_item_with_reason(ExclusionVariant::BudgetExceeded)),
        "ExcludeItemWithReason(BudgetExceeded) failed: no excluded item had reason BudgetExceeded. Excluded \
         had 0 items with reasons: []."
    );
}

#[test]
fn every_reason_can_be_asserted_including_reserved_ones() {
    let text = || "text".to_owned();
    let reasons = [
        over_budget(1, 0),
        ExclusionReason::ScoredTooLow { score: 0.1, threshold: 0.2 },
        duplicate(),
        ExclusionReason::NearDuplicate { near_duplicate_of: "text".into(), shared: 9, total: 10 },
        ExclusionReason::QuotaCapExceeded { kind: text(), cap: 1, actual: 2 },
        ExclusionReason::QuotaRequireDisplaced { displaced_by_kind: text() },
        ExclusionReason::NegativeTokens { tokens: -1 },
        ExclusionReason::PinnedOverride { displaced_by: "text".into() },
        ExclusionReason::Filtered { filter_name: text() },
        ExclusionReason::CountCapExceeded { kind: text(), cap: 1, count: 1 },
        ExclusionReason::DocumentCapExceeded { document: text(), cap: 1, count: 1 },
        ExclusionReason::GroupExcluded { group: text(), cause: text() },
        ExclusionReason::RenderedOverBudget { rendered_tokens: 12, target_tokens: 10 },
        ExclusionReason::Unknown { reason: text() },
    ];
    for (i, reason) in reasons.iter().enumerate() {
        let report = ReportBuilder::new().exclude(item("Message", 1), 0.5, reason.clone()).build();
        for (j, other) in reasons.iter().enumerate() {
            assert_eq!(report.should().try_exclude_item_with_reason(other).is_ok(), i == j);
        }
        assert!(reason.to_string().starts_with(reason.name()));
    }
    let report = ReportBuilder::new().exclude(item("Message", 1), 0.5, reasons[13].clone()).build();
    let text = message(report.should().try_exclude_item_with_reason(ExclusionVariant::Filtered));
    assert!(text.ends_with("with reasons: [text]."), "{text}");
}

#[test]
fn exclude_item_matching_with_reason() {
    let report = report();
    let chain = report.should();
    let is_memory = |item: &ContextItem| *item.kind() == ContextKind::MEMORY;
    let budget = ExclusionVariant::BudgetExceeded;
    assert!(chain.try_exclude_item_matching_with_reason(is_memory, budget).is_ok());
    assert_eq!(
        message(
            chain.try_exclude_item_matching_with_reason(is_memory, ExclusionVariant::Deduplicated)
        ),
        "ExcludeItemMatchingWithReason(reason=Deduplicated) failed: predicate matched 2 excluded item(s) but \
         none had reason Deduplicated. Matched items had reasons: [BudgetExceeded]."
    );
    assert_eq!(
        message(chain.try_exclude_item_matching_with_reason(|_| false, budget)),
        "ExcludeItemMatchingWithReason(reason=BudgetExceeded) failed: predicate matched 0 excluded item(s) but \
         none had reason BudgetExceeded. Matched items had reasons: []."
    );
    assert_eq!(
        message(empty().should().try_exclude_item_matching_with_reason(|_| true, budget)),
        "ExcludeItemMatchingWithReason(reason=BudgetExceeded) failed: predicate matched 0 excluded item(s) but \
         none had reason BudgetExceeded. Matched items had reasons: []."
    );
}

#[test]
fn exclude_item_with_budget_details() {
    let report = report();
    let chain = report.should();
    let is_memory = |item: &ContextItem| *item.kind() == ContextKind::MEMORY;
    // The second match has these numbers.
    assert!(chain.try_exclude_item_with_budget_details(is_memory, 60, 5).is_ok());
    for (item_tokens, available_tokens) in [(60, 6), (59, 5), (40, 5)] {
        assert_eq!(
            message(chain.try_exclude_item_with_budget_details(
                is_memory,
                item_tokens,
                available_tokens
            )),
            format!(
                "ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with item_tokens={item_tokens}, \
                 available_tokens={available_tokens}, but found item_tokens=40, available_tokens=7."
            )
        );
    }
    assert_eq!(
        message(chain.try_exclude_item_with_budget_details(|item| item.tokens() == 50, 50, 7)),
        "ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with item_tokens=50, available_tokens=7, \
         but no matching item had reason BudgetExceeded. Predicate matched 1 excluded item(s) with reasons: \
         [Deduplicated]."
    );
    assert_eq!(
        message(chain.try_exclude_item_with_budget_details(|_| false, 1, 2)),
        "ExcludeItemWithBudgetDetails failed: expected BudgetExceeded with item_tokens=1, available_tokens=2, \
         but no matching item had reason BudgetExceeded. Predicate matched 0 excluded item(s) with reasons: []."
    );
}

#[test]
fn have_no_exclusions_for_kind() {
    let report = report();
    assert!(report.should().try_have_no_exclusions_for_kind(ContextKind::DOCUMENT).is_ok());
    assert!(empty().should().try_have_no_exclusions_for_kind(ContextKind::MEMORY).is_ok());
    assert_eq!(
        message(report.should().try_have_no_exclusions_for_kind(ContextKind::MEMORY)),
        "HaveNoExclusionsForKind(Memory) failed: found 2 excluded item(s) with Kind=Memory. First: score=0.8, \
         reason=BudgetExceeded."
    );
}

#[test]
fn have_at_least_n_exclusions() {
    let report = report();
    for n in 0..=3 {
        assert!(report.should().try_have_at_least_n_exclusions(n).is_ok());
    }
    assert!(empty().should().try_have_at_least_n_exclusions(0).is_ok());
    assert_eq!(
        message(report.should().try_have_at_least_n_exclusions(4)),
        "HaveAtLeastNExclusions(4) failed: expected at least 4 excluded items, but Excluded had 3."
    );
}

#[test]
fn excluded_items_are_sorted_by_score_descending() {
    let scored = |scores: &[f64]| {
        let add = |report: ReportBuilder, score: &f64| {
            report.exclude(item("Message", 1), *score, duplicate())
        };
        scores.iter().fold(ReportBuilder::new(), add).build()
    };
    for scores in [&[][..], &[0.5], &[0.5, 0.5], &[0.9, 0.5, 0.5, 0.1], &[0.1, -0.0, 0.0, f64::NAN]]
    {
        let report = scored(scores);
        let sorted = report.should().try_excluded_items_are_sorted_by_score_descending();
        assert!(sorted.is_ok(), "{scores:?}");
    }
    assert_eq!(
        message(
            scored(&[0.9, 0.5, 0.75, 0.8])
                .should()
                .try_excluded_items_are_sorted_by_score_descending()
        ),
        "ExcludedItemsAreSortedByScoreDescending failed: item at index 2 (score=0.75) is higher than item at \
         index 1 (score=0.5). Expected non-increasing scores."
    );
}

#[test]
fn have_budget_utilization_above() {
    let report = report();
    // Utilization is relative to the window, not to the target.
    let budget = ContextBudget::new(80, 60).unwrap();
    assert!(report.should().try_have_budget_utilization_above(0.75, &budget).is_ok(), "exactly");
    assert_eq!(
        message(report.should().try_have_budget_utilization_above(0.76, &budget)),
        "HaveBudgetUtilizationAbove(0.76) failed: computed utilization was 0.750000 (includedTokens=60, \
         budget.MaxTokens=80)."
    );
    let empty = empty();
    assert!(empty.should().try_have_budget_utilization_above(0.0, &budget).is_ok());
    assert_eq!(
        message(empty.should().try_have_budget_utilization_above(0.1, &budget)),
        "HaveBudgetUtilizationAbove(0.1) failed: computed utilization was 0.000000 (includedTokens=0, \
         budget.MaxTokens=80)."
    );
    let over = ContextBudget::new(50, 50).unwrap();
    assert!(report.should().try_have_budget_utilization_above(1.1, &over).is_ok());
    assert!(report.should().try_have_budget_utilization_above(1.1, &budget).is_err());
    let zero = ContextBudget::new(0, 0).unwrap();
    assert!(empty.should().try_have_budget_utilization_above(0.0, &zero).is_ok());
    assert!(empty.should().try_have_budget_utilization_above(0.1, &zero).is_err());
}

#[test]
fn have_kind_coverage_count() {
    let report = report();
    for n in 0..=2 {
        assert!(report.should().try_have_kind_coverage_count(n).is_ok());
    }
    assert_eq!(
        message(report.should().try_have_kind_coverage_count(3)),
        "HaveKindCoverageCount(3) failed: expected at least 3 distinct ContextKind values in Included, but \
         found 2: [Message, Document]."
    );
    let empty = empty();
    assert!(empty.should().try_have_kind_coverage_count(0).is_ok());
    assert_eq!(
        message(empty.should().try_have_kind_coverage_count(1)),
        "HaveKindCoverageCount(1) failed: expected at least 1 distinct ContextKind values in Included, but \
         found 0: []."
    );
}

/// Builds a report of included items with these scores, in this order.
fn placed(scores: &[f64]) -> SelectionReport {
    let add = |report: ReportBuilder, score: &f64| report.include(item("Message", 1), *score);
    scores.iter().fold(ReportBuilder::new(), add).build()
}

#[test]
fn place_item_at_edge() {
    let report = placed(&[0.9, 0.1, 0.5, 0.8]);
    for score in [0.9, 0.8] {
        assert!(report.should().try_place_item_at_edge(|entry| entry.score == score).is_ok());
    }
    assert_eq!(
        message(report.should().try_place_item_at_edge(|entry| entry.score < 0.6)),
        "PlaceItemAtEdge failed: item matching predicate was at index 1 (not at edge). Edge positions: 0 and \
         3. Included had 4 items."
    );
    // The first match is in the middle, a later one at the edge.
    assert!(report.should().try_place_item_at_edge(|entry| entry.score != 0.9).is_ok());
    // Having the same score as an edge item is not enough.
    let tied = placed(&[0.5, 0.5, 0.5]);
    let middle = std::cell::Cell::new(0);
    let is_second = |_: &IncludedItem| {
        middle.set(middle.get() + 1);
        middle.get() == 2
    };
    assert!(tied.should().try_place_item_at_edge(is_second).is_err());
    assert!(placed(&[0.5]).should().try_place_item_at_edge(|_| true).is_ok());
    for report in [empty(), report] {
        assert_eq!(
            message(report.should().try_place_item_at_edge(|_| false)),
            "PlaceItemAtEdge failed: no item in Included matched the predicate."
        );
    }
    assert!(empty().should().try_place_item_at_edge(|_| true).is_err());
}

#[test]
fn place_top_n_scored_at_edges() {
    let report = placed(&[0.9, 0.7, 0.2, 0.1, 0.6, 0.8]);
    for n in [0, 1, 2, 3, 4, 5, 6] {
        assert!(report.should().try_place_top_n_scored_at_edges(n).is_ok(), "{n}");
    }
    let report = placed(&[0.9, 0.1, 0.8, 0.2]);
    assert!(report.should().try_place_top_n_scored_at_edges(1).is_ok());
    assert_eq!(
        message(report.should().try_place_top_n_scored_at_edges(2)),
        "PlaceTopNScoredAtEdges(2) failed: 1 of the top-2 scored items were not at expected edge positions. \
         Top-2 items (by score): [(kind=Message, score=0.9, idx=0), (kind=Message, score=0.8, idx=2)]. \
         Expected edge positions: [0, 3]."
    );
    assert!(empty().should().try_place_top_n_scored_at_edges(0).is_ok());
    assert_eq!(
        message(placed(&[0.5, 0.9]).should().try_place_top_n_scored_at_edges(3)),
        "PlaceTopNScoredAtEdges(3) failed: 1 of the top-3 scored items were not at expected edge positions. \
         Top-3 items (by score): [(kind=Message, score=0.9, idx=1), (kind=Message, score=0.5, idx=0)]. \
         Expected edge positions: [0, 1]. Included had 2 items, fewer than 3."
    );
    assert!(empty().should().try_place_top_n_scored_at_edges(1).is_err());
}

#[test]
fn any_tied_item_may_have_the_last_edge_position() {
    // 0.9 must be at an edge; any of the three 0.5 may be at the other.
    for scores in [[0.9, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.9]] {
        assert!(placed(&scores).should().try_place_top_n_scored_at_edges(2).is_ok());
    }
    // Both edge items tie for the second-highest score, but the highest is not at an edge.
    let hidden = placed(&[0.5, 0.9, 0.5]);
    assert_eq!(
        message(hidden.should().try_place_top_n_scored_at_edges(2)),
        "PlaceTopNScoredAtEdges(2) failed: 1 of the top-2 scored items were not at expected edge positions. \
         Top-2 items (by score): [(kind=Message, score=0.9, idx=1), (kind=Message, score=0.5, idx=0)]. \
         Expected edge positions: [0, 2]."
    );
}

#[test]
fn the_u_shaped_placer_places_the_best_at_the_edges() {
    let items: Vec<_> = (1..=9_u32)
        .map(|i| {
            let item = ContextItem::builder(format!("text {i}"), 1);
            item.future_relevance_hint(f64::from(i * 7 % 10) / 10.0).build().unwrap()
        })
        .collect();
    let pipeline = Pipeline::builder(ReflexiveScorer).placer(UShapedPlacer).build();
    let report = pipeline.dry_run(&items, &ContextBudget::new(7, 7).unwrap()).unwrap();
    for n in 0..=7 {
        report.should().place_top_n_scored_at_edges(n);
    }
    report.should().excluded_items_are_sorted_by_score_descending().have_at_least_n_exclusions(2);
}
