//! One test for each decision that the engine makes where its specification is silent or says two
//! things. The names and the questions are those of `docs/internals/spec-decisions.md`.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pannier_core::{item::*, place::*, report::*, score::*, slice::*, *};
use support::*;

fn entry(text: &str, require: usize, cap: usize) -> CountQuotaEntry {
    CountQuotaEntry::new(kind(text), require, cap).unwrap()
}

fn count_quota(entries: Vec<CountQuotaEntry>, scarcity: ScarcityBehavior) -> CountQuotaSlice {
    CountQuotaSlice::new(entries, GreedySlice, scarcity).unwrap()
}

#[test]
fn c1_slots_and_margin_reduce_the_effective_budget_and_both_are_floored() {
    let budget = ContextBudget::builder(1_000, 900)
        .output_reserve(50)
        .reserved_slot(kind("Memory"), 33)
        .reserved_slot(kind("Tool"), 20)
        .estimation_safety_margin_percent(7.5)
        .build()
        .unwrap();
    // max: (1000 - 50 - 100 - 53) * 0.925 = 737.225; target: (900 - 100 - 53) * 0.925 = 690.975.
    let expected = SliceBudget { max_tokens: 737, target_tokens: 690, whole_tokens: 900 };
    assert_eq!(budget.effective(100), expected);
}

#[test]
fn c2_identity_is_the_index_so_equal_contents_stay_two_items() {
    let items = [item("same", 10, 0.2), item("same", 10, 0.9), item("same", 10, 0.5)];
    let pipeline = pipeline().deduplication(false).build();
    let report = pipeline.run(&items, &budget(20)).unwrap().report();
    let included: Vec<_> = report.included.iter().map(|entry| (entry.index, entry.score)).collect();
    assert_eq!(included, [(Some(1), 0.9), (Some(2), 0.5)]);
    let excluded: Vec<_> = report.excluded.iter().map(|entry| (entry.index, entry.score)).collect();
    assert_eq!(excluded, [(Some(0), 0.2)]);
}

#[test]
fn c3_merged_items_are_pinned_first_and_then_by_score_whatever_the_slicer_returned() {
    // Greedy takes c first (density), but the merged list goes by score.
    let items = [
        item("a", 50, 0.9),
        item("b", 40, 0.9),
        item("c", 1, 0.3),
        scored("pin", 5, 0.0).pinned(true).build().unwrap(),
    ];
    // Without timestamps the chronological placer keeps the merged order.
    assert_eq!(select(pipeline(), &items, 200).unwrap(), ["pin", "a", "b", "c"]);
}

#[test]
fn c4_truncate_keeps_pins_and_then_what_fits_in_merged_order() {
    let over = count_quota(vec![entry("doc", 3, 3)], ScarcityBehavior::Degrade);
    let doc = |content, tokens, score| scored(content, tokens, score).kind(kind("doc"));
    let items = [
        doc("big", 70, 0.9).build().unwrap(),
        doc("too much", 60, 0.8).build().unwrap(),
        doc("small", 20, 0.1).build().unwrap(),
        scored("pin", 10, 0.0).pinned(true).build().unwrap(),
    ];
    let builder = pipeline().slicer(over).overflow_strategy(OverflowStrategy::Truncate);
    assert_eq!(select(builder, &items, 100).unwrap(), ["pin", "big", "small"]);
}

#[test]
fn c5_scores_in_the_report() {
    let items = [
        scored("pinned", 1, 0.4).pinned(true).build().unwrap(),
        item("free", 0, 0.3),
        item("negative", -1, 0.8),
        item("twice", 1, 0.6),
        item("twice", 1, 0.2),
    ];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    let score = |content: &str| {
        let included = report.included.iter().find(|entry| entry.item.content() == content);
        included.map(|entry| (entry.score, entry.reason))
    };
    assert_eq!(score("pinned"), Some((1.0, InclusionReason::Pinned)));
    assert_eq!(score("free"), Some((0.3, InclusionReason::ZeroToken)));
    let out: Vec<_> =
        report.excluded.iter().map(|entry| (entry.item.content(), entry.score)).collect();
    assert_eq!(out, [("twice", 0.2), ("negative", 0.0)]);
}

#[test]
fn c6_available_tokens_are_what_was_left_at_the_moment() {
    let items = [item("dense", 60, 0.9), item("large", 80, 0.8), item("late", 41, 0.1)];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    assert_eq!(
        excluded(&report),
        [
            ("large", "BudgetExceeded: 80 tokens requested, 40 available".to_owned()),
            ("late", "BudgetExceeded: 41 tokens requested, 40 available".to_owned()),
        ]
    );
    // A knapsack has no such moment: what is left in the end, and whether it would have fitted.
    let items = [item("a", 60, 0.5), item("b", 40, 0.5), item("worthless", 1, 0.0)];
    let knapsack = pipeline().slicer(KnapsackSlice::exact()).build();
    let report = knapsack.run(&items, &budget(101)).unwrap().report();
    let reason = &report.excluded[0].reason;
    let outcompeted =
        ExclusionReason::BudgetExceeded { item_tokens: 1, available_tokens: 1, outcompeted: true };
    assert_eq!(*reason, outcompeted);
    // Under a quota: what is left of the kind's own budget.
    let quotas = [Quota { kind: kind("x"), require_percent: 0.0, cap_percent: 30.0 }];
    let quota = QuotaSlice::new(quotas, GreedySlice).unwrap();
    let x =
        |content, tokens, score| scored(content, tokens, score).kind(kind("x")).build().unwrap();
    let items = [x("first", 20, 0.9), x("second", 20, 0.8)];
    let report = pipeline().slicer(quota).build().run(&items, &budget(100)).unwrap().report();
    assert_eq!(excluded(&report)[0].1, "BudgetExceeded: 20 tokens requested, 10 available");
}

#[test]
fn c7_pinned_override_only_where_pins_make_the_difference() {
    let pin = scored("the pin", 40, 0.0).pinned(true).build().unwrap();
    let items =
        [pin, item("displaced", 70, 0.9), item("hopeless", 101, 0.8), item("late", 30, 0.1)];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    assert_eq!(
        report.excluded[0].reason,
        ExclusionReason::PinnedOverride { displaced_by: "the pin".into() }
    );
    assert_eq!(report.excluded[1].reason.name(), "BudgetExceeded");
    assert_eq!(report.excluded.len(), 2);
}

#[test]
fn c8_a_count_cap_has_a_reason_of_its_own() {
    let capped = count_quota(vec![entry("Doc", 0, 1)], ScarcityBehavior::Degrade);
    let doc = |content, score| scored(content, 10, score).kind(kind("dOC")).build().unwrap();
    let items = [doc("best", 0.9), doc("second", 0.8)];
    let report = pipeline().slicer(capped).build().run(&items, &budget(100)).unwrap().report();
    assert_eq!(
        report.excluded[0].reason,
        ExclusionReason::CountCapExceeded { kind: "dOC".to_owned(), cap: 1, count: 1 }
    );
}

#[test]
fn c9_a_required_kind_without_candidates_is_a_shortfall_or_an_error() {
    let items = [item("only a message", 10, 0.5)];
    let missing =
        |scarcity| pipeline().slicer(count_quota(vec![entry("Tool", 2, 3)], scarcity)).build();
    let report = missing(ScarcityBehavior::Degrade).run(&items, &budget(100)).unwrap().report();
    let shortfall =
        CountRequirementShortfall { kind: kind("Tool"), required_count: 2, satisfied_count: 0 };
    assert_eq!(report.count_requirement_shortfalls, [shortfall]);
    let error = missing(ScarcityBehavior::Throw).run(&items, &budget(100)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CountQuotaSlice: candidate pool for kind 'Tool' has 0 items but RequireCount is 2."
    );
}

#[test]
fn c9_the_constrained_knapsack_has_the_specified_message() {
    let slicer = CountConstrainedKnapsackSlice::new(
        [entry("tool", 3, 5)],
        KnapsackSlice::default(),
        ScarcityBehavior::Throw,
    );
    let items = [scored("one", 10, 0.5).kind(kind("tool")).build().unwrap()];
    let error = select(pipeline().slicer(slicer.unwrap()), &items, 100).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CountConstrainedKnapsackSlice: candidate pool for kind 'tool' has 1 items but \
         RequireCount is 3."
    );
}

#[test]
fn c10_committed_items_may_exceed_the_target_but_never_the_window() {
    let tool = |content, score| scored(content, 60, score).kind(kind("tool")).build().unwrap();
    let items = [tool("a", 0.9), tool("b", 0.8)];
    let run = |strategy, max, target, reserve| {
        let slicer = count_quota(vec![entry("tool", 2, 2)], ScarcityBehavior::Degrade);
        let budget = ContextBudget::builder(max, target).output_reserve(reserve).build().unwrap();
        let pipeline = pipeline().slicer(slicer).overflow_strategy(strategy).build();
        pipeline.run(&items, &budget).map(|selection| selection.tokens())
    };
    use OverflowStrategy::{Proceed, Throw, Truncate};
    let over_target = Err(Error::OverTarget { selected_tokens: 120, target_tokens: 100 });
    assert_eq!(run(Throw, 200, 100, 0), over_target);
    assert_eq!(run(Truncate, 200, 100, 0), Ok(60));
    assert_eq!(run(Proceed, 200, 100, 0), Ok(120));
    let over_window = |input| Err(Error::OverWindow { selected_tokens: 120, input_tokens: input });
    assert_eq!(run(Proceed, 110, 100, 0), over_window(110));
    // Within the target, but the reserve leaves less.
    assert_eq!(run(Throw, 200, 150, 100), over_window(100));
}

#[test]
fn c11_proceed_reports_the_overflow_and_tells_the_observer() {
    let pin = |content| scored(content, 60, 0.0).pinned(true).build().unwrap();
    let items = [pin("a"), pin("b")];
    let over = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&over);
    let pipeline = pipeline()
        .overflow_strategy(OverflowStrategy::Proceed)
        .on_overflow(move |event| seen.store(event.tokens_over_budget as usize, Relaxed))
        .build();
    let budget = ContextBudget::new(200, 100).unwrap();
    let report = pipeline.run(&items, &budget).unwrap().report();
    let event = report.overflow.unwrap();
    assert_eq!(event.tokens_over_budget, 20);
    assert_eq!(event.overflowing_items, [&items[0], &items[1]]);
    assert_eq!(event.budget, budget);
    assert_eq!(over.load(Relaxed), 20);
    // Nothing of the sort without an overflow.
    assert!(pipeline.run(&items[..1], &budget).unwrap().overflow().is_none());
}

#[test]
fn c12_the_tag_scorer_minds_case_unless_told_otherwise() {
    let items = [ContextItem::builder("text", 1).tags(["Rust"]).build().unwrap()];
    let pool = Pool::new(&items);
    assert_eq!(pool.scores(&TagScorer::new([("rust", 1.0)]).unwrap()).unwrap(), [0.0]);
    assert_eq!(pool.scores(&TagScorer::case_insensitive([("rust", 1.0)]).unwrap()).unwrap(), [1.0]);
    let pair = [items[0].clone(), ContextItem::builder("b", 1).tags(["RUST"]).build().unwrap()];
    assert_eq!(Pool::new(&pair).scores(&FrequencyScorer).unwrap(), [1.0, 1.0]);
}

#[test]
fn c13_a_multiplier_multiplies_in_a_product_and_averages_in_a_composite() {
    let items = [scored("text", 1, 0.4).metadata("cupel:priority", "high").build().unwrap()];
    let pool = Pool::new(&items);
    let boost = || MetadataKeyScorer::new("cupel:priority", "high", 1.5).unwrap();
    let composite = CompositeScorer::builder().add(ReflexiveScorer, 1.0).add(boost(), 1.0).build();
    assert!((pool.scores(&composite.unwrap()).unwrap()[0] - 0.95).abs() < 1e-12);
    let product = ProductScorer::builder().factor(ReflexiveScorer).factor(boost()).build();
    assert!((pool.scores(&product.unwrap()).unwrap()[0] - 0.6).abs() < 1e-12);
}

#[test]
fn c14_negative_zero_equals_zero_and_what_is_no_number_comes_last() {
    let scores = [f64::NAN, -0.0, 0.0, -1.0, f64::INFINITY];
    let items: Vec<_> = (0..5)
        .map(|i| ContextItem::builder(i.to_string(), 1).priority(i).build().unwrap())
        .collect();
    let scorer = FnScorer(move |item: &ContextItem| scores[item.priority().unwrap() as usize]);
    let pipeline = Pipeline::builder(scorer).placer(RankPlacer).build();
    let selection = pipeline.run(&items, &budget(10)).unwrap();
    assert_eq!(placed(&selection), ["4", "1", "2", "3", "0"]);
    // It never wins: not a place, and not against a copy of itself.
    assert_eq!(placed(&pipeline.run(&items, &budget(4)).unwrap()), ["4", "1", "2", "3"]);
    let copy = |priority| ContextItem::builder("copy", 1).priority(priority).build().unwrap();
    let copies = [copy(0), copy(3)];
    assert_eq!(pipeline.run(&copies, &budget(4)).unwrap().indices().collect::<Vec<_>>(), [1]);
}

#[test]
fn c15_a_window_of_zero_is_valid_and_its_utilization_is_zero() {
    let items = [item("text", 1, 0.5), item("free", 0, 0.5)];
    let selection = pipeline().build().run(&items, &budget(0)).unwrap();
    assert!(selection.is_empty());
    assert_eq!(selection.report().budget_utilization(&budget(0)), 0.0);
}

#[test]
fn c16_free_items_are_not_selected_without_a_target() {
    let items = [item("free", 0, 0.5)];
    for slicer in [
        Box::new(GreedySlice) as Box<dyn Slicer>,
        Box::new(KnapsackSlice::exact()),
        Box::new(QuotaSlice::new([], GreedySlice).unwrap()),
        Box::new(count_quota(vec![entry("Message", 1, 1)], ScarcityBehavior::Degrade)),
    ] {
        assert!(select(pipeline().slicer(slicer), &items, 0).unwrap().is_empty());
    }
}

#[test]
fn c17_a_knapsack_never_takes_what_is_worth_nothing() {
    let items = [item("worth", 10, 0.5), item("nothing", 10, 0.00009), item("free", 0, 0.0)];
    let selected = select(pipeline().slicer(KnapsackSlice::exact()), &items, 100).unwrap();
    assert_eq!(selected, ["worth", "free"]);
}

#[test]
fn c18_a_knapsack_is_refused_by_memory_not_by_cells() {
    // 200 items and a million tokens: four times the cells that the published engine refuses.
    let items: Vec<_> =
        (0..200).map(|i| item(&i.to_string(), 9_001 + i, (9_001 + i) as f64 / 10_000.0)).collect();
    assert!(select(pipeline().slicer(KnapsackSlice::exact()), &items, 1_000_000).is_ok());
    let tight = KnapsackSlice::exact().with_memory_limit(1 << 20);
    let error = select(pipeline().slicer(tight), &items, 1_000_000).unwrap_err();
    assert!(matches!(error, Error::TableTooLarge { limit: 1_048_576, .. }), "{error}");
}

#[test]
fn c21_equal_scores_in_the_constrained_knapsack_go_by_position() {
    let slicer = CountConstrainedKnapsackSlice::new(
        [entry("t", 0, 2)],
        KnapsackSlice::exact(),
        ScarcityBehavior::Degrade,
    );
    let t = |content| scored(content, 10, 0.5).kind(kind("t")).build().unwrap();
    let items = [t("a"), t("b"), t("c")];
    assert_eq!(select(pipeline().slicer(slicer.unwrap()), &items, 100).unwrap(), ["a", "b"]);
}

#[test]
fn c22_two_quotas_for_one_kind_are_refused_whatever_their_case() {
    let quota = |text| Quota { kind: kind(text), require_percent: 10.0, cap_percent: 50.0 };
    let error = QuotaSlice::new([quota("tool"), quota("TOOL")], GreedySlice).err().unwrap();
    assert_eq!(error.to_string(), "QuotaSlice: kind 'TOOL' has two quotas; give it one");
    let entries = [entry("tool", 0, 1), entry("Tool", 0, 1)];
    assert!(CountQuotaSlice::new(entries, GreedySlice, ScarcityBehavior::Degrade).is_err());
}

#[test]
fn c26_pinned_items_take_no_part_in_deduplication() {
    let items = [
        scored("same", 10, 0.0).pinned(true).build().unwrap(),
        item("same", 10, 0.5),
        scored("same", 10, 0.0).pinned(true).build().unwrap(),
    ];
    assert_eq!(select(pipeline(), &items, 100).unwrap(), ["same", "same", "same"]);
}

#[test]
fn c28_decay_reads_the_time_once_a_run() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reads);
    let time = move || {
        let seconds = counter.fetch_add(1, Relaxed) as i64;
        Timestamp::from_unix_seconds(seconds).unwrap()
    };
    let curve = DecayCurve::window(Duration::from_secs(1)).unwrap();
    let epoch = Timestamp::from_unix_seconds(0).unwrap();
    let dated = ContextItem::builder("text", 1).timestamp(epoch).build().unwrap();
    let scores = Pool::new(&vec![dated; 5]).scores(&DecayScorer::new(time, curve)).unwrap();
    assert_eq!(scores, [1.0; 5]);
    assert_eq!(reads.load(Relaxed), 1);
}

#[test]
fn c29_metadata_is_kept_and_trust_may_be_a_text_or_a_number() {
    let trust = |value: MetadataValue| {
        ContextItem::builder("text", 1).metadata("cupel:trust", value).build().unwrap()
    };
    let list = MetadataValue::Array(vec![MetadataValue::Null, true.into(), 1.5.into()]);
    let items = [trust("0.85".into()), trust(0.25.into()), trust(1.into()), trust(list.clone())];
    let scores = Pool::new(&items).scores(&MetadataTrustScorer::new(0.5).unwrap()).unwrap();
    assert_eq!(scores, [0.85, 0.25, 1.0, 0.5]);
    assert_eq!(items[3].metadata()["cupel:trust"], list);
}

#[test]
fn c30_ties_in_the_excluded_list_go_by_stage_and_then_by_index() {
    let items = [
        item("large", 500, 0.0),
        item("same", 1, 0.0),
        item("same", 1, 0.0),
        item("large too", 500, 0.0),
        item("negative", -1, 0.0),
    ];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    let out: Vec<_> = report.excluded.iter().map(|entry| entry.index.unwrap()).collect();
    assert_eq!(out, [4, 2, 0, 3]);
}

#[test]
fn c31_caps_are_applied_in_the_inner_slicers_order() {
    // By density "dense" comes first, although "best" has the higher score.
    let tool = |content, tokens, score| scored(content, tokens, score).kind(kind("tool"));
    let items = [tool("best", 80, 0.9).build().unwrap(), tool("dense", 10, 0.5).build().unwrap()];
    let capped = count_quota(vec![entry("tool", 0, 1)], ScarcityBehavior::Degrade);
    assert_eq!(select(pipeline().slicer(capped), &items, 100).unwrap(), ["dense"]);
}

#[test]
fn c32_count_slicers_say_nothing_without_candidates_or_a_target() {
    let strict = || count_quota(vec![entry("tool", 1, 1)], ScarcityBehavior::Throw);
    assert_eq!(select(pipeline().slicer(strict()), &[], 100), Ok(vec![]));
    assert_eq!(select(pipeline().slicer(strict()), &[item("a", 1, 0.5)], 0), Ok(vec![]));
}

#[test]
fn c33_a_kind_without_mass_gets_no_share_of_a_quota() {
    let free = scored("free", 0, 0.9).kind(kind("note")).build().unwrap();
    let items = [free, item("paid", 10, 0.5)];
    let quota = QuotaSlice::new([], GreedySlice).unwrap();
    assert_eq!(select(pipeline().slicer(quota), &items, 100).unwrap(), ["paid"]);
}

#[test]
fn c41_reserved_slots_are_subtracted_and_only_require_guarantees() {
    let memory = scored("memory", 20, 0.1).kind(kind("Memory")).build().unwrap();
    let items = [item("a", 40, 0.9), item("b", 40, 0.8), item("c", 40, 0.7), memory];
    let run = |quotas: &[(&str, f64)], slot: i64, target: i64| {
        let quotas = quotas.iter().map(|(name, percent)| Quota {
            kind: kind(name),
            require_percent: *percent,
            cap_percent: 100.0,
        });
        let quota = QuotaSlice::new(quotas.collect::<Vec<_>>(), GreedySlice).unwrap();
        let budget = ContextBudget::builder(target, target).reserved_slot(kind("Memory"), slot);
        let pipeline = pipeline().slicer(quota).build();
        let selection = pipeline.run(&items, &budget.build().unwrap()).unwrap();
        selection.items().map(|item| item.content().to_owned()).collect::<Vec<_>>()
    };
    let all_for_messages = [("Message", 100.0)];
    assert_eq!(run(&all_for_messages, 20, 100), ["a", "b"]);
    assert_eq!(run(&all_for_messages, 0, 80), ["a", "b"], "a slot makes the target smaller");
    let some_for_memory = [("Message", 80.0), ("Memory", 20.0)];
    assert_eq!(run(&some_for_memory, 0, 100), ["a", "b", "memory"]);
}

#[test]
fn c34_two_weights_for_one_kind_or_tag_are_refused() {
    let error = KindScorer::new([(kind("a"), 1.0), (kind("A"), 2.0)]).unwrap_err();
    assert_eq!(error.to_string(), "KindScorer: the kind 'A' has two weights; give it one");
    assert!(TagScorer::new([("a", 1.0), ("a", 2.0)]).is_err());
    assert!(TagScorer::new([("a", 1.0), ("A", 2.0)]).is_ok());
    assert!(TagScorer::case_insensitive([("a", 1.0), ("A", 2.0)]).is_err());
}

#[test]
fn c35_windows_of_a_step_curve_go_from_young_to_old() {
    let seconds = Duration::from_secs;
    assert!(DecayCurve::step([(seconds(60), 0.1), (seconds(30), 0.9)]).is_err());
    let curve =
        DecayCurve::step([(seconds(30), 0.9), (seconds(60), 0.5), (seconds(90), 0.1)]).unwrap();
    let scores = [0, 29, 30, 60, 89, 90, 1_000].map(|age| curve.score_at_age(seconds(age)));
    assert_eq!(scores, [0.9, 0.9, 0.5, 0.1, 0.1, 0.1, 0.1]);
}

#[test]
fn c36_metadata_keys_compare_numbers_and_truth_values_by_their_shortest_spelling() {
    let scorer = |value: &str| MetadataKeyScorer::new("k", value, 2.0).unwrap();
    let score = |value: MetadataValue, wanted: &str| {
        let item = ContextItem::builder("text", 1).metadata("k", value).build().unwrap();
        Pool::new([&item]).scores(&scorer(wanted)).unwrap()[0]
    };
    assert_eq!(score(true.into(), "true"), 2.0);
    assert_eq!(score(3.into(), "3"), 2.0);
    assert_eq!(score(1.5.into(), "1.5"), 2.0);
    assert_eq!(score(2.0.into(), "2.0"), 2.0);
    assert_eq!(score(u64::MAX.into(), "18446744073709551615"), 2.0);
    assert_eq!(score(MetadataValue::Null, "null"), 1.0);
}

#[test]
fn c37_knapsack_values_are_clamped_where_they_would_overflow() {
    let scorer = FnScorer(|item: &ContextItem| item.priority().unwrap_or(0) as f64 * 1e300);
    let rated = |content: &str, priority| {
        ContextItem::builder(content, 10).priority(priority).build().unwrap()
    };
    let items = [rated("a", 1), rated("none", 0), rated("b", 2), rated("negative", -1)];
    let pipeline = Pipeline::builder(scorer).slicer(KnapsackSlice::exact()).placer(RankPlacer);
    assert_eq!(select(pipeline, &items, 40).unwrap(), ["b", "a"]);
}

#[test]
fn c38_shares_of_absurd_sums_do_not_overflow() {
    let huge = |content| scored(content, i64::MAX, 0.5).build().unwrap();
    let items = [huge("a"), huge("b"), huge("c"), item("small", 5, 0.9)];
    let half = |text| Quota { kind: kind(text), require_percent: 50.0, cap_percent: 100.0 };
    for quotas in [vec![], vec![half("Message"), half("Other")]] {
        let quota = QuotaSlice::new(quotas, GreedySlice).unwrap();
        let selected = select(pipeline().slicer(quota), &items, i64::MAX - 1).unwrap();
        assert_eq!(selected, ["small"]);
    }
    // A hundred split evenly is a hundred, whatever the sum of the parts says.
    let sixth = |i: i32| Quota {
        kind: kind(&format!("k{i}")),
        require_percent: 100.0 / 6.0,
        cap_percent: 100.0,
    };
    assert!(QuotaSlice::new((0..6).map(sixth), GreedySlice).is_ok());
}

#[test]
fn c38_sums_of_tokens_do_not_wrap_around() {
    let items = [item("a", i64::MAX, 0.5), item("b", i64::MAX, 0.4), item("c", 1, 0.1)];
    let report = pipeline().build().run(&items, &budget(i64::MAX)).unwrap().report();
    assert_eq!(report.total_tokens_considered, i64::MAX);
    let pinned = |content| scored(content, i64::MAX, 0.1).pinned(true).build().unwrap();
    let error = pipeline().build().run(&[pinned("a"), pinned("b")], &budget(100)).unwrap_err();
    assert!(matches!(error, Error::PinnedOverBudget { pinned_tokens: i64::MAX, .. }));
}

fn member(content: &str, tokens: i64, score: f64, group: &str) -> ContextItem {
    scored(content, tokens, score).group(group).build().unwrap()
}

#[test]
fn g1_a_group_is_one_unit_with_the_sum_of_its_tokens_and_scores() {
    // Together the members are worth 0.8 for 40 tokens, more per token than the single item.
    let items =
        [item("single", 60, 0.9), member("call", 10, 0.5, "g"), member("result", 30, 0.3, "g")];
    assert_eq!(select(pipeline(), &items, 40).unwrap(), ["call", "result"]);
    assert_eq!(select(pipeline(), &items, 60).unwrap(), ["call", "result"]);
    // It counts once against a cap, as the kind of its best member.
    let tool = |content, score, group: &str| {
        scored(content, 10, score).kind(kind("tool")).group(group).build().unwrap()
    };
    let items = [
        tool("a1", 0.9, "a"),
        member("a2", 10, 0.1, "a"),
        tool("b1", 0.8, "b"),
        tool("c", 0.1, "c"),
    ];
    let capped = count_quota(vec![entry("tool", 0, 2)], ScarcityBehavior::Degrade);
    assert_eq!(select(pipeline().slicer(capped), &items, 100).unwrap(), ["a1", "a2", "b1"]);
}

#[test]
fn g2_groups_are_duplicates_only_as_a_whole() {
    let items = [
        member("call", 10, 0.2, "first"),
        member("result", 10, 0.2, "first"),
        member("call", 10, 0.9, "second"),
        member("result", 10, 0.1, "second"),
        member("call", 10, 0.5, "third"),
        item("call", 10, 0.4),
    ];
    let pipeline = pipeline().build();
    let report = pipeline.run(&items, &budget(100)).unwrap().report();
    let out: Vec<_> = report.excluded.iter().map(|entry| entry.index.unwrap()).collect();
    assert_eq!(out, [0, 1]);
    assert!(report.excluded.iter().all(|entry| entry.reason.name() == "Deduplicated"));
}

#[test]
fn g3_one_pinned_member_pins_a_group_and_one_invalid_member_excludes_it() {
    let pinned = scored("p1", 30, 0.1).group("pinned").pinned(true).build().unwrap();
    let items = [
        pinned,
        member("p2", 30, 0.1, "pinned"),
        member("valid", 10, 0.9, "broken"),
        member("invalid", -1, 0.9, "broken"),
    ];
    let report = pipeline().build().run(&items, &budget(60)).unwrap().report();
    let included: Vec<_> = report
        .included
        .iter()
        .map(|entry| (entry.item.content(), entry.reason, entry.score))
        .collect();
    let pinned = InclusionReason::Pinned;
    assert_eq!(included, [("p1", pinned, 1.0), ("p2", pinned, 1.0)]);
    let reason = |group: &str| ExclusionReason::GroupExcluded {
        group: group.to_owned(),
        cause: "NegativeTokens".to_owned(),
    };
    assert_eq!(report.excluded[0].reason, reason("broken"));
    assert_eq!(report.excluded[1].reason, ExclusionReason::NegativeTokens { tokens: -1 });
}

#[test]
fn g4_members_of_a_group_that_did_not_fit_carry_its_tokens() {
    let items = [member("a", 60, 0.9, "g"), member("b", 50, 0.8, "g")];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    let reason = "BudgetExceeded: 110 tokens requested, 100 available".to_owned();
    assert_eq!(excluded(&report), [("a", reason.clone()), ("b", reason)]);
}

#[test]
fn g4_members_of_a_group_above_a_cap_carry_its_kind() {
    let tool = scored("call", 10, 0.9).kind(kind("tool")).group("g").build().unwrap();
    let items = [member("note", 10, 0.1, "g"), tool];
    let none = count_quota(vec![entry("TOOL", 0, 0)], ScarcityBehavior::Degrade);
    let report = pipeline().slicer(none).build().run(&items, &budget(100)).unwrap().report();
    let reason = ExclusionReason::CountCapExceeded { kind: "tool".to_owned(), cap: 0, count: 0 };
    assert!(report.excluded.iter().all(|entry| entry.reason == reason));
}

#[test]
fn g5_members_are_placed_apart_or_together() {
    let items =
        [member("call", 10, 0.3, "g"), item("other", 10, 0.5), member("result", 10, 0.9, "g")];
    let ranked = || pipeline().placer(RankPlacer);
    assert_eq!(select(ranked(), &items, 100).unwrap(), ["result", "other", "call"]);
    let together = ranked().keep_groups_together(true);
    assert_eq!(select(together, &items, 100).unwrap(), ["call", "result", "other"]);
}

#[test]
fn g6_members_that_are_in_have_their_own_reasons() {
    let items = [member("free", 0, 0.1, "g"), member("paid", 10, 0.9, "g")];
    let report = pipeline().build().run(&items, &budget(100)).unwrap().report();
    let reasons: Vec<_> = report.included.iter().map(|entry| entry.reason.name()).collect();
    assert_eq!(reasons, ["ZeroToken", "Scored"]);
}

#[test]
fn s1_a_sum_divides_by_nothing() {
    let items = [item("text", 1, 0.75)];
    let sum = SumScorer::builder().add(ReflexiveScorer).add(ReflexiveScorer).build().unwrap();
    assert_eq!(Pool::new(&items).scores(&sum).unwrap(), [1.5]);
}

#[test]
fn s2_kinds_that_share_a_scorer_are_one_pool() {
    let of = |name: &str, priority| {
        ContextItem::builder("text", 1).kind(kind(name)).priority(priority).build().unwrap()
    };
    let items = [of("a", 1), of("b", 2), of("A", 3), of("c", 9), of("d", 8)];
    let by_kind = ByKindScorer::builder().kinds([kind("a"), kind("b")], PriorityScorer);
    let scores =
        Pool::new(&items).scores(&by_kind.default_scorer(PriorityScorer).build().unwrap()).unwrap();
    assert_eq!(scores, [0.0, 0.5, 1.0, 1.0, 0.0]);
    let twice = ByKindScorer::builder().kinds([kind("a"), kind("A")], PriorityScorer);
    assert!(matches!(twice.build(), Err(Error::InvalidScorer { .. })));
}

fn has_keyword(content: &str, keyword: &str) -> bool {
    let items = [item(content, 1, 0.0)];
    Pool::new(&items).scores(&KeywordScorer::new([keyword], 1).unwrap()).unwrap() == [1.0]
}

#[test]
fn s3_a_word_is_found_as_a_whole_and_by_its_parts() {
    assert!(has_keyword("(auth/login.rs)", "auth/login.rs") && has_keyword("auth/login.rs", "rs"));
    // A full stop does not end a word for a small sigma, but it ends a part.
    assert!(has_keyword("\u{391}\u{3a3}.x", "\u{3b1}\u{3c2}"));
    assert!(has_keyword("_b", "b") && !has_keyword("a/_b", "b"));
}

#[test]
fn s4_a_keyword_is_trimmed_and_not_parted() {
    assert!(has_keyword("Deploy now", " \"DEPLOY\", "));
    assert!(!has_keyword("auth login rs", "auth/login.rs"));
    assert!(!has_keyword("roll back", "roll back"));
}

#[test]
fn s5_words_that_say_little_never_count_in_a_query() {
    let items = [item("how to do that", 1, 0.0), item("deployments", 1, 0.0)];
    let scores = |query| Pool::new(&items).scores(&Bm25Scorer::new(query)).unwrap();
    assert_eq!(scores("how to do that"), [0.0, 0.0]);
    assert_eq!(scores("how to \"deploy that\""), [0.0, 1.0]);
}
