//! Explanations: every claim is checked by doing what it says.

mod support;

use pannier_core::{item::*, place::*, report::*, score::*, slice::*, whatif::*, *};
use proptest::prelude::*;
use support::*;

/// A pipeline that scores by hints as they are, also above 1.
fn by_hint(slicer: usize, overflow: OverflowStrategy) -> Pipeline {
    let scorer = FnScorer(|item: &ContextItem| item.future_relevance_hint().unwrap_or_default());
    let builder = Pipeline::builder(scorer).overflow_strategy(overflow);
    let entries = || {
        [
            CountQuotaEntry::new(kind("Document"), 1, 2).unwrap(),
            CountQuotaEntry::new(kind("Memory"), 0, 1).unwrap(),
        ]
    };
    let degrade = ScarcityBehavior::Degrade;
    let documents = |builder: PipelineBuilder, packing: Packing| {
        builder.slicer(packing.slicer()).layout(packing.layout(4))
    };
    match slicer {
        0 => builder.slicer(GreedySlice),
        6 => builder.slicer(FillSlice::default()),
        1 => builder.slicer(KnapsackSlice::exact()),
        2 => builder.slicer(KnapsackSlice::new(5).unwrap()),
        3 => {
            let quotas =
                [Quota { kind: kind("Document"), require_percent: 20.0, cap_percent: 60.0 }];
            builder.slicer(QuotaSlice::new(quotas, GreedySlice).unwrap())
        }
        7 => documents(builder, Packing::Greedy).placer(DocumentPlacer),
        8 => {
            let slicer = Packing::Interleaved.slicer().with_max_per_section(2);
            documents(builder, Packing::Interleaved).slicer(slicer).placer(SliceOrderPlacer)
        }
        9 => documents(builder, Packing::ScoreWeighted).placer(SliceOrderPlacer),
        4 => builder.slicer(CountQuotaSlice::new(entries(), GreedySlice, degrade).unwrap()),
        _ => {
            let knapsack = KnapsackSlice::exact();
            builder
                .slicer(CountConstrainedKnapsackSlice::new(entries(), knapsack, degrade).unwrap())
        }
    }
    .build()
}

fn with_hint(items: &[ContextItem], index: usize, hint: f64) -> Vec<ContextItem> {
    changed(items, index, items[index].tokens(), hint)
}

fn with_tokens(items: &[ContextItem], index: usize, tokens: i64) -> Vec<ContextItem> {
    changed(items, index, tokens, items[index].future_relevance_hint().unwrap())
}

fn changed(items: &[ContextItem], index: usize, tokens: i64, hint: f64) -> Vec<ContextItem> {
    let mut items = items.to_vec();
    let item = &items[index];
    let mut builder = ContextItem::builder(item.content(), tokens)
        .kind(item.kind().clone())
        .pinned(item.is_pinned())
        .future_relevance_hint(hint);
    if let Some(group) = item.group() {
        builder = builder.group(group);
    }
    if let Some(passage) = Passage::from_item(item) {
        builder = builder.passage(&passage);
    }
    items[index] = builder.build().unwrap();
    items
}

fn selected(pipeline: &Pipeline, items: &[ContextItem], budget: &ContextBudget) -> Vec<usize> {
    pipeline
        .run(items, budget)
        .map_or_else(|_| Vec::new(), |selection| selection.indices().collect())
}

fn pools() -> impl Strategy<Value = Vec<ContextItem>> {
    // Few contents, few scores and few kinds, so that copies and ties are common.
    let group = prop::option::weighted(0.2, 0..2_u8);
    let document = prop::option::weighted(0.7, (0..3_u8, 0..4_u64));
    let item = (0..12_u8, 0..15_i64, 0..=8_u8, 0..3_u8, group, 0..20_u8, document);
    prop::collection::vec(item, 1..9).prop_map(|items| {
        let items =
            items.into_iter().map(|(content, tokens, score, sort, group, pin, document)| {
                let sort = ["Message", "Document", "Memory"][sort as usize];
                let mut builder =
                    scored(&format!("text {content}"), tokens, f64::from(score) / 8.0)
                        .kind(kind(sort))
                        .pinned(pin == 0);
                if let Some(group) = group {
                    builder = builder.group(format!("group {group}"));
                }
                if let Some((document, sequence)) = document {
                    let document = format!("{document}.md");
                    let range = sequence * 5..sequence * 5 + 6;
                    builder = builder.passage(&Passage { document: &document, sequence, range });
                }
                builder.build().unwrap()
            });
        items.collect()
    })
}

fn strategies() -> impl Strategy<Value = OverflowStrategy> {
    prop::sample::select(vec![
        OverflowStrategy::Throw,
        OverflowStrategy::Truncate,
        OverflowStrategy::Proceed,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn counterfactuals_hold_when_they_are_tried(
        items in pools(),
        tokens in 0..60_i64,
        off_target in prop_oneof![Just(0), 0..30_i64],
        slicer in 0..10_usize,
        overflow in strategies(),
        way in 0..RENDERINGS,
        index in any::<prop::sample::Index>(),
    ) {
        let index = index.index(items.len());
        let pipeline = rendered(by_hint(slicer, overflow), way);
        let (reserve, slot) = (tokens.min(3), tokens.min(2));
        let sized = |window, target| {
            let budget = ContextBudget::builder(window, target).output_reserve(reserve);
            budget.reserved_slot(kind("Memory"), slot).build()
        };
        let target = (tokens - off_target).max(0);
        let budget = sized(tokens, target).unwrap();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            prop_assert!(pipeline.explain(&items, &budget, index).is_err());
            return Ok(());
        };
        let answer = pipeline.explain(&items, &budget, index).unwrap();
        let now: Vec<usize> = selection.indices().collect();
        let report = selection.report();

        // The decision is the report's.
        match &answer.decision {
            Decision::Included { reason, position, .. } => {
                prop_assert_eq!(report.included[*position].index, Some(index));
                prop_assert_eq!(report.included[*position].reason, *reason);
            }
            Decision::Excluded { reason } => {
                let entry = report.excluded.iter().find(|entry| entry.index == Some(index)).unwrap();
                prop_assert_eq!(&entry.reason, reason);
            }
            _ => unreachable!(),
        }

        if let Some(score) = &answer.score {
            prop_assert_eq!(score.score, items[index].future_relevance_hint().unwrap());
            let is_in = |hint: f64| {
                selected(&pipeline, &with_hint(&items, index, hint), &budget).contains(&index)
            };
            let is_counted = way >= 2;
            // Every score that could matter, and some between.
            let mut tried: Vec<f64> = (0..=40).map(|step| f64::from(step) / 32.0).collect();
            tried.extend([2.0, 10.0, 100.0, 1e9]);
            let hints = items.iter().filter_map(ContextItem::future_relevance_hint);
            let highest = hints.fold(1.0, f64::max);
            match answer.smallest_score {
                Some(smallest) => {
                    prop_assert!(is_in(smallest), "not in at {smallest}");
                    prop_assert!(smallest <= highest);
                    prop_assert!(smallest == 0.0 || !is_in(smallest.next_down()));
                    // From there on it stays in, unless it comes to lead a group and changes its kind. Where the
                    // text is counted, other rivals may leave or fill what the plan over-estimated.
                    let may_leave = items[index].group().is_some() || is_counted;
                    for hint in tried {
                        if !may_leave || (hint < smallest && !is_counted) {
                            prop_assert_eq!(is_in(hint), hint >= smallest, "{} of {}", hint, smallest);
                        }
                    }
                }
                None => {
                    tried.retain(|hint| *hint <= highest);
                    prop_assert!(is_counted || tried.into_iter().all(|hint| !is_in(hint)));
                }
            }
        } else {
            prop_assert_eq!(answer.smallest_score, None);
        }

        // What it lost to is what goes when it comes in.
        let lost_to: Vec<usize> = answer.lost_to.iter().map(|rival| rival.index).collect();
        match &answer.decision {
            Decision::Excluded { reason: ExclusionReason::Deduplicated { deduplicated_against } } => {
                prop_assert_eq!(lost_to.len(), 1);
                prop_assert_eq!(items[lost_to[0]].content(), &**deduplicated_against);
                prop_assert!(lost_to[0] != index);
            }
            Decision::Excluded { reason: ExclusionReason::PinnedOverride { .. } } => {
                prop_assert!(!lost_to.is_empty());
                let is_pinned = |entry: &IncludedItem<_>| entry.reason == InclusionReason::Pinned;
                let pinned = report.included.iter().filter(|entry| is_pinned(entry));
                prop_assert_eq!(lost_to, pinned.filter_map(|entry| entry.index).collect::<Vec<_>>());
            }
            Decision::Excluded { .. } => {
                let goes = |score| {
                    let then = selected(&pipeline, &with_hint(&items, index, score), &budget);
                    now.iter().copied().filter(|other| !then.contains(other)).collect::<Vec<_>>()
                };
                match answer.smallest_score {
                    Some(score) => prop_assert_eq!(lost_to, goes(score)),
                    // With a score that the scorer cannot give, it may come in.
                    None => prop_assert!(lost_to.iter().all(|other| now.contains(other))),
                }
            }
            _ => prop_assert!(lost_to.is_empty()),
        }

        // Smaller than it is, it would be in.
        let is_in = |tokens: i64| {
            selected(&pipeline, &with_tokens(&items, index, tokens), &budget).contains(&index)
        };
        match answer.max_item_tokens {
            Some(max) => {
                prop_assert!(!now.contains(&index) && way < 2);
                prop_assert!(max < items[index].tokens() && is_in(max) && !is_in(max + 1), "{max}");
            }
            None => prop_assert!(now.contains(&index) || way >= 2 || !is_in(1) || items[index].tokens() <= 1),
        }

        // Every budget from nothing to more than everything.
        let is_target = target < tokens - reserve;
        let sizes = |stand: i64| match is_target {
            true => (tokens.max(stand + reserve), stand),
            false => (stand, (stand - (tokens - target)).max(0)),
        };
        let is_in = |stand: i64| {
            let (window, target) = sizes(stand);
            sized(window, target).is_ok_and(|budget| selected(&pipeline, &items, &budget).contains(&index))
        };
        let present = if is_target { target } else { tokens };
        prop_assert_eq!(is_in(present), now.contains(&index));
        // A window is searched from the item's own tokens on, although its text may be shorter than they say. If it is
        // even shorter than the present window, that one is the answer.
        let from = if is_target { 0 } else { items[index].tokens().min(present) };
        let all: Vec<i64> = (0..260).filter(|stand| is_in(*stand)).collect();
        let first = all.iter().copied().find(|stand| *stand >= from);
        let tokens_of = |found: Option<BudgetThreshold>| {
            found.map(|found| (found.max_tokens, found.target_tokens, found.is_proven))
        };
        let expected = |stand: Option<i64>| stand.map(|stand| (sizes(stand).0, sizes(stand).1, true));
        if answer.stage == PipelineStage::Classify {
            prop_assert_eq!(tokens_of(answer.smaller_budget), None);
            if answer.smallest_budget.is_some() {
                prop_assert_eq!(tokens_of(answer.smallest_budget), expected(first));
            }
        } else if is_in(present) {
            prop_assert_eq!(tokens_of(answer.smallest_budget), expected(first));
            prop_assert_eq!(tokens_of(answer.smaller_budget), None);
        } else {
            let above = all.iter().copied().find(|stand| *stand > present);
            let below = first.filter(|stand| *stand < present);
            prop_assert_eq!(tokens_of(answer.smallest_budget), expected(above));
            prop_assert_eq!(tokens_of(answer.smaller_budget), expected(below));
        }
    }

    #[test]
    fn a_score_tree_adds_up_to_the_score(items in pools(), index in any::<prop::sample::Index>()) {
        let index = index.index(items.len());
        let scorer = CompositeScorer::builder()
            .add(KindScorer::default(), 3.0)
            .add(
                ProductScorer::builder()
                    .factor(ReflexiveScorer)
                    .factor(MetadataKeyScorer::new("a", "b", 1.5).unwrap())
                    .build()
                    .unwrap(),
                0.7,
            )
            .add(ScaledScorer::new(FrequencyScorer), 1.1)
            .build()
            .unwrap();
        let pipeline = Pipeline::builder(scorer).build();
        let budget = budget(200);
        let answer = pipeline.explain(&items, &budget, index).unwrap();
        let report = pipeline.dry_run(&items, &budget).unwrap();
        let included = report.included.iter().map(|entry| (entry.index, entry.score));
        let excluded = report.excluded.iter().map(|entry| (entry.index, entry.score));
        let mut all = included.chain(excluded);
        let score = all.find(|(other, _)| *other == Some(index)).unwrap().1;
        match answer.score {
            Some(tree) => {
                prop_assert_eq!(tree.score.to_bits(), score.to_bits());
                let sum = tree.children.iter().fold(0.0, |sum, child| sum + child.score * child.share.unwrap());
                prop_assert_eq!(sum.to_bits(), score.to_bits());
                let names: Vec<_> = tree.children.iter().map(|child| child.scorer.as_str()).collect();
                prop_assert_eq!(names, ["kind", "product", "scaled"]);
                let weights: Vec<_> = tree.children.iter().filter_map(|child| child.weight).collect();
                prop_assert_eq!(weights, [3.0, 0.7, 1.1]);
            }
            None => prop_assert_eq!(score, 1.0, "only pinned items are not scored here"),
        }
    }
}

#[test]
fn an_answer_says_what_would_let_an_item_in() {
    let items = [item("contract", 60, 0.9), item("letter", 50, 0.6), item("note", 40, 0.2)];
    let answer = pipeline().build().explain(&items, &budget(60), 2).unwrap();
    assert_eq!(answer.stage, PipelineStage::Slice);
    assert_eq!(answer.rank.unwrap().rank, 3);
    assert_eq!(answer.density, Some(0.2 / 40.0));
    assert_eq!(answer.lost_to.iter().map(|rival| rival.index).collect::<Vec<_>>(), [0]);
    assert_eq!(answer.smallest_budget.unwrap().max_tokens, 100);
    assert_eq!(answer.smaller_budget.unwrap().max_tokens, 40);
    // 0.2 / 13 is more a token than 0.9 / 60, and 0.2 / 14 is less.
    assert_eq!(answer.max_item_tokens, Some(13));
    assert!(answer.is_complete);
    // 0.9 / 60 a token, times 40 tokens.
    assert!((answer.smallest_score.unwrap() - 0.6).abs() < 1e-12);
}

#[test]
fn a_smallest_score_is_one_that_the_scorer_can_give() {
    let kinds = [("contract", 60, "a"), ("letter", 90, "b")];
    let items =
        kinds.map(|(text, tokens, of)| scored(text, tokens, 0.9).kind(kind(of)).build().unwrap());
    let smallest = |scorer: Box<dyn Scorer>| {
        let pipeline = Pipeline::builder(scorer).build();
        pipeline.explain(&items, &budget(100), 1).unwrap().smallest_score
    };
    let weights = |a, b| KindScorer::new([(kind("a"), a), (kind("b"), b)]).unwrap();
    // Of 90 tokens, it needs more than 1.5 times the score of the other.
    assert_eq!(smallest(Box::new(ReflexiveScorer)), None);
    assert_eq!(smallest(Box::new(weights(0.8, 0.1))), None);
    let score = smallest(Box::new(weights(0.5, 0.1)));
    assert_eq!(score, None);
    let higher = KindScorer::new([(kind("a"), 0.5), (kind("b"), 0.1), (kind("c"), 0.76)]);
    assert!((smallest(Box::new(higher.unwrap())).unwrap() - 0.75).abs() < 1e-9);
    // The average of both scorers can be at most 0.9, and their sum 1.8.
    let average = CompositeScorer::builder().add(weights(0.8, 0.0), 1.0).add(ReflexiveScorer, 1.0);
    assert_eq!(smallest(Box::new(average.build().unwrap())), None);
    let sum = SumScorer::builder().add(ReflexiveScorer).add(weights(0.0, 0.0)).add(ReflexiveScorer);
    assert_eq!(smallest(Box::new(sum.build().unwrap())), None);
    let sum = SumScorer::builder().add(weights(0.5, 0.0)).add(FnScorer(|_: &ContextItem| 0.0));
    assert!((smallest(Box::new(sum.build().unwrap())).unwrap() - 0.75).abs() < 1e-9);
    let product = ProductScorer::builder().factor(weights(0.5, 0.0));
    let boost = MetadataKeyScorer::new("key", "value", 1.6).unwrap();
    let product = product.factor(boost).build().unwrap();
    assert!((smallest(Box::new(product)).unwrap() - 0.75).abs() < 1e-9);
}

#[test]
fn what_is_not_scored_has_no_score_to_explain() {
    let items = [
        scored("pinned", 10, 0.1).pinned(true).build().unwrap(),
        item("invalid", -1, 0.5),
        item("too large", 95, 0.5),
    ];
    let pipeline = pipeline().build();
    let explain = |index| pipeline.explain(&items, &budget(100), index).unwrap();

    let pinned = explain(0);
    assert_eq!(pinned.stage, PipelineStage::Classify);
    assert_eq!((pinned.score, pinned.rank, pinned.smallest_score), (None, None, None));
    assert_eq!(pinned.smallest_budget.unwrap().max_tokens, 10);

    let invalid = explain(1);
    assert_eq!(invalid.stage, PipelineStage::Classify);
    assert_eq!((invalid.score, invalid.smallest_budget), (None, None));

    let large = explain(2);
    assert_eq!(large.lost_to[0].item.content(), "pinned");
    assert_eq!(large.smallest_score, None);
    assert_eq!(large.smallest_budget.unwrap().max_tokens, 105);

    assert_eq!(pipeline.explain(&items, &budget(100), 3).unwrap_err(), Error::NoSuchItem);
}

#[test]
fn a_pinned_item_is_not_in_where_a_guaranteed_count_makes_the_run_fail() {
    let items = [
        scored("guaranteed", 4, 0.5).kind(kind("Document")).build().unwrap(),
        scored("pinned", 0, 0.5).pinned(true).build().unwrap(),
    ];
    // The text of the pinned item has 3 tokens, although it claims none, and 4 are guaranteed.
    let explain = |overflow| {
        let pipeline = rendered(by_hint(4, overflow), 4);
        pipeline.explain(&items, &budget(20), 1).unwrap().smallest_budget.unwrap()
    };
    let found = explain(OverflowStrategy::Throw);
    assert_eq!((found.max_tokens, found.is_proven), (4, true));
    assert_eq!(explain(OverflowStrategy::Truncate).max_tokens, 3);
}

#[test]
fn no_budget_helps_what_no_budget_can() {
    let items = [item("worthless", 10, 0.0)];
    let knapsack = pipeline().slicer(KnapsackSlice::exact()).build();
    let answer = knapsack.explain(&items, &budget(100), 0).unwrap();
    assert_eq!(answer.smallest_budget, None);
    assert_eq!(answer.smallest_score, Some(0.0001));

    let margin = ContextBudget::builder(100, 100).estimation_safety_margin_percent(100.0).build();
    let answer = pipeline().build().explain(&items, &margin.unwrap(), 0).unwrap();
    assert_eq!((answer.smallest_budget, answer.smallest_score), (None, None));
}

#[test]
fn a_large_pool_is_searched_to_the_end() {
    let items: Vec<_> = (0..20_000)
        .map(|i| item(&format!("text {i}"), 100 + (i * 7_919) % 400, 1.0 / f64::from(i as u32 + 1)))
        .collect();
    let pipeline = pipeline().build();
    let answer = pipeline.explain(&items, &budget(10_000), 9_999).unwrap();
    let found = answer.smallest_budget.unwrap();
    assert!(found.is_proven);
    let is_in = |tokens| {
        pipeline.run(&items, &budget(tokens)).unwrap().indices().any(|index| index == 9_999)
    };
    assert!(is_in(found.max_tokens) && !is_in(found.max_tokens - 1));
}

#[test]
fn e3_both_sides_of_leading_a_group_are_searched() {
    // Below 0.5, a leads the group and it counts as a message; above, as a memory, of which there may be one.
    let of_kind =
        |content: &str, tokens, score, sort: &str| scored(content, tokens, score).kind(kind(sort));
    let items = [
        of_kind("m", 5, 0.9, "Memory").build().unwrap(),
        of_kind("a", 5, 0.5, "Message").group("g").build().unwrap(),
        of_kind("x", 5, 0.0, "Memory").group("g").build().unwrap(),
        of_kind("f", 10, 0.9, "Message").build().unwrap(),
    ];
    let cap = [CountQuotaEntry::new(kind("Memory"), 0, 1).unwrap()];
    let slicer = CountQuotaSlice::new(cap, GreedySlice, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline().slicer(slicer).build();
    let answer = pipeline.explain(&items, &budget(15), 2).unwrap();
    assert_eq!(answer.smallest_score, Some(0.400_000_000_000_000_1));
    // The first member of a group leads it with an equal score, the second does not.
    for (first, second, expected) in [("Memory", "Message", None), ("Message", "Memory", Some(0.5))]
    {
        let items = [
            of_kind("m", 5, 0.9, "Memory").build().unwrap(),
            of_kind("a", 5, 0.5, first).group("g").build().unwrap(),
            of_kind("b", 5, 0.0, second).group("g").build().unwrap(),
        ];
        let asked = if first == "Memory" { 2 } else { 1 };
        let at_tie = with_hint(&items, asked, 0.5);
        let is_in = selected(&pipeline, &at_tie, &budget(15)).contains(&asked);
        assert_eq!(is_in, expected.is_some(), "{first} {second}");
    }
}

#[test]
fn what_needs_many_times_its_tokens_is_found_by_leaps() {
    let quota = Quota { kind: kind("Document"), require_percent: 0.0, cap_percent: 0.01 };
    let slicer = QuotaSlice::new([quota], GreedySlice).unwrap();
    let items = [scored("text", 50, 0.5).kind(kind("Document")).build().unwrap()];
    let pipeline = pipeline().slicer(slicer).build();
    let found = pipeline.explain(&items, &budget(100), 0).unwrap().smallest_budget.unwrap();
    let is_in = |tokens| !selected(&pipeline, &items, &budget(tokens)).is_empty();
    assert!(found.max_tokens > 400_000 && is_in(found.max_tokens) && !is_in(found.max_tokens - 1));
}

#[test]
fn one_absurd_item_does_not_spoil_the_answers_about_others() {
    let items = [item("fine", 10, 0.1), item("better", 8, 0.9), item("absurd", i64::MAX, 0.5)];
    let answer = pipeline().build().explain(&items, &budget(10), 0).unwrap();
    assert_eq!(answer.smallest_budget.unwrap().max_tokens, 18);
}

#[test]
fn an_expensive_slicer_is_not_asked_too_often() {
    // Without a limit on steps this takes minutes.
    let items: Vec<_> = (0..500_u32)
        .map(|i| item(&format!("text {i}"), i64::from(200 + i * 7 % 300), f64::from(i % 97) / 97.0))
        .chain([item("worthless", 50, 0.0)])
        .collect();
    let entries = [CountQuotaEntry::new(kind("Memory"), 0, 1).unwrap()];
    let knapsack = KnapsackSlice::exact();
    let slicer =
        CountConstrainedKnapsackSlice::new(entries, knapsack, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline().slicer(slicer).build();
    let answer = pipeline.explain(&items, &budget(20_000), 500).unwrap();
    assert!(answer.smallest_budget.is_none());
}

#[test]
fn a_search_out_of_steps_still_reports_a_sufficient_budget() {
    let items: Vec<_> = (0..3_000_u32)
        .map(|i| {
            item(
                &format!("text {i}"),
                i64::from(20 + i * 7_919 % 780),
                f64::from(i * 31 % 997) / 997.0,
            )
        })
        .collect();
    let pipeline = pipeline().slicer(KnapsackSlice::exact()).build();
    let last =
        items.iter().position(|item| item.future_relevance_hint().unwrap() < 0.01).unwrap() + 1;
    for index in [last, 2_999] {
        let answer = pipeline.explain(&items, &budget(64_000), index).unwrap();
        let found = answer.smallest_budget.unwrap();
        assert!(selected(&pipeline, &items, &budget(found.max_tokens)).contains(&index));
    }
}

#[test]
fn an_explanation_that_is_stopped_says_what_is_known() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let items: Vec<_> = (0..40_i64)
        .map(|i| item(&format!("text {i}"), 5 + i * 7 % 23, (i * 31 % 17) as f64 / 17.0))
        .collect();
    let quota = Quota { kind: kind("Message"), require_percent: 10.0, cap_percent: 80.0 };
    let slicer = QuotaSlice::new([quota], GreedySlice).unwrap();
    let pipeline = pipeline().slicer(slicer).build();
    let prepared = pipeline.prepare(&items).unwrap();
    let indices: Vec<usize> = (0..items.len()).collect();
    let mut search = Search::new(Search::DEFAULT_STEPS);
    let all = prepared.explain(&budget(100), &indices, &mut search).unwrap();
    for checks in [0, 1, 5, 50, 100, 500, 1_000] {
        let calls = AtomicUsize::new(0);
        let stop = || calls.fetch_add(1, Ordering::Relaxed) >= checks;
        let mut search = Search::new(Search::DEFAULT_STEPS).until(&stop);
        let known = prepared.explain(&budget(100), &indices, &mut search).unwrap();
        assert!(calls.load(Ordering::Relaxed) <= checks + 3, "it goes on after it was stopped");
        let (last, complete) = known.split_last().unwrap();
        assert_eq!(complete, &all[..complete.len()]);
        assert!(!last.is_complete);
        assert_eq!(last.decision, all[complete.len()].decision);
        assert_eq!(last.score, all[complete.len()].score);
    }
}

#[test]
fn a_question_has_no_side_effects() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let entries = [CountQuotaEntry::new(kind("Message"), 1, 9).unwrap()];
    let slicer = CountQuotaSlice::new(entries, GreedySlice, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline()
        .slicer(slicer)
        .overflow_strategy(OverflowStrategy::Proceed)
        .on_overflow(|_| {
            CALLS.fetch_add(1, Ordering::Relaxed);
        })
        .build();
    let (items, budget) = ([item("large", 20, 0.5)], ContextBudget::new(30, 10).unwrap());
    pipeline.explain(&items, &budget, 0).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    pipeline.run(&items, &budget).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Numbers as no sane caller has them: nothing overflows, and what is said still holds.
    #[test]
    fn extreme_numbers_are_survived(
        items in prop::collection::vec((extreme_tokens(), extreme_scores(), prop::option::of(0..2_u8)), 1..5),
        window in extreme_tokens(),
        target in extreme_tokens(),
        reserve in extreme_tokens(),
        margin in prop::sample::select(vec![0.0, 0.1, 7.0, 50.0, 100.0]),
        slicer in 0..10_usize,
        overflow in strategies(),
        way in 0..RENDERINGS,
    ) {
        let budget = ContextBudget::builder(window, target)
            .output_reserve(reserve)
            .estimation_safety_margin_percent(margin)
            .build();
        let Ok(budget) = budget else { return Ok(()) };
        let items: Vec<ContextItem> = items
            .into_iter()
            .enumerate()
            .map(|(i, (tokens, score, group))| {
                let item = scored(&format!("text {i}"), tokens, score);
                match group {
                    Some(group) => item.group(format!("group {group}")),
                    None => item,
                }
                .build()
                .unwrap()
            })
            .collect();
        let pipeline = rendered(by_hint(slicer, overflow), way);
        let Ok(selection) = pipeline.run(&items, &budget) else { return Ok(()) };
        let now: Vec<usize> = selection.indices().collect();
        let all: Vec<usize> = (0..items.len()).collect();
        for answer in pipeline.explain_all(&items, &budget, &all).unwrap() {
            let index = answer.index;
            prop_assert_eq!(matches!(answer.decision, Decision::Included { .. }), now.contains(&index));
            if let (Some(found), Some(_)) = (answer.smallest_budget, &answer.score) {
                let budget = ContextBudget::builder(found.max_tokens, found.target_tokens)
                    .output_reserve(reserve)
                    .estimation_safety_margin_percent(margin)
                    .build()
                    .unwrap();
                prop_assert!(selected(&pipeline, &items, &budget).contains(&index));
            }
            if let Some(score) = answer.smallest_score {
                let changed = with_hint(&items, index, score);
                prop_assert!(selected(&pipeline, &changed, &budget).contains(&index));
            }
        }
    }
}

fn extreme_tokens() -> impl Strategy<Value = i64> {
    prop_oneof![0..20_i64, Just(i64::MAX), Just(i64::MAX - 1), Just(i64::MAX / 4), 0..=i64::MAX]
}

fn extreme_scores() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![0.0, -0.0, 0.5, 1.0, -1.0, 1e300, f64::MAX, f64::NAN, f64::INFINITY])
}
