//! The closing loop with costs that can be added by hand: what is dropped, what is filled, and in how many renderings.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pannier_core::{item::*, layout::*, place::*, report::*, score::*, slice::*, *};
use support::*;

/// Plans a charge around each item, and measures contents as `cost` says.
struct Costs {
    plan: Plan,
    cost: Option<fn(&ContextItem) -> i64>,
    renderings: Arc<AtomicU32>,
}

impl Layout for Costs {
    fn plan(&self, _: &Pool<'_>) -> Result<Plan, Error> {
        Ok(self.plan.clone())
    }

    fn measure(&self, items: &PlacedItems<'_>, _: i64) -> Result<Option<RenderCost>, Error> {
        let Some(cost) = self.cost else {
            return Ok(None);
        };
        self.renderings.fetch_add(1, Ordering::Relaxed);
        let total = items.items().map(cost).sum();
        Ok(Some(RenderCost::from_total(total, 0, 0, items.tokens())))
    }
}

fn costs(around: i64, cost: Option<fn(&ContextItem) -> i64>) -> Costs {
    let mut plan = Plan::default();
    plan.around = Around::Each(around);
    Costs { plan, cost, renderings: Arc::default() }
}

/// Items of five tokens, the best first.
fn fives(contents: &[&str]) -> Vec<ContextItem> {
    let scores = (1..10).map(|rank| 1.0 - f64::from(rank) / 10.0);
    contents.iter().zip(scores).map(|(content, score)| item(content, 5, score)).collect()
}

/// Compares a sweep with a run at every budget: certificates must not skip a change.
fn assert_swept(pipeline: &Pipeline, items: &[ContextItem]) {
    let swept = pipeline.budget_sweep(items, &budget(60), 0..=60).unwrap();
    for tokens in 1..=60 {
        let selection = pipeline.run(items, &budget(tokens)).unwrap();
        let selected: Vec<usize> = selection.indices().collect();
        for (index, ranges) in swept.iter().enumerate() {
            let is_in = ranges.iter().any(|range| range.contains(&tokens));
            assert_eq!(is_in, selected.contains(&index), "{index} at {tokens}");
        }
    }
}

#[test]
fn a_plan_that_is_not_measured_is_exact() {
    let items = fives(&["a", "b", "c"]);
    for slicer in [Box::new(KnapsackSlice::exact()) as Box<dyn Slicer>, Box::new(GreedySlice)] {
        let pipeline = pipeline().slicer(slicer).layout(costs(1, None)).build();
        // Six for each: four tokens stay unused, and no rounding of the plan makes them six.
        let selection = pipeline.run(&items, &budget(16)).unwrap();
        assert_eq!(placed(&selection), ["a", "b"]);
        assert_eq!((selection.ledger().framing, selection.ledger().items), (2, 10));
        assert_swept(&pipeline, &items);
    }
}

#[test]
fn a_refused_move_is_not_made_again() {
    let items = fives(&["a", "b", "c"]);
    // The slice, slices with more budget, and the third item, which rounding lets in once.
    let greedy: Box<dyn Slicer> = Box::new(GreedySlice);
    for (slicer, expected) in [(greedy, 4), (Box::new(KnapsackSlice::exact()), 5)] {
        let layout = costs(1, Some(|item| item.tokens() + 1));
        let renderings = Arc::clone(&layout.renderings);
        let pipeline = pipeline().slicer(slicer).layout(layout).build();
        assert_eq!(placed(&pipeline.run(&items, &budget(16)).unwrap()), ["a", "b"]);
        assert_eq!(renderings.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn budget_that_the_plan_over_estimated_is_filled() {
    let items = fives(&["a", "b", "c", "d"]);
    for slicer in [Box::new(KnapsackSlice::exact()) as Box<dyn Slicer>, Box::new(GreedySlice)] {
        let pipeline =
            pipeline().slicer(slicer).layout(costs(3, Some(ContextItem::tokens))).build();
        for (tokens, selected) in [(20, 4), (19, 3), (15, 3), (14, 2), (10, 2)] {
            let selection = pipeline.run(&items, &budget(tokens)).unwrap();
            assert_eq!(placed(&selection), ["a", "b", "c", "d"][..selected], "{tokens}");
            assert_eq!(selection.ledger().sent(), 5 * selected as i64);
        }
        assert_swept(&pipeline, &items);
    }
    // With `DropOnly` a run does not fill; with an exact plan there is nothing to fill.
    let drop_only = pipeline().layout(costs(3, Some(ContextItem::tokens)));
    let drop_only = drop_only.closing(Closing::DropOnly).build();
    assert_eq!(placed(&drop_only.run(&items, &budget(20)).unwrap()), ["a", "b"]);
    let mut exact = costs(3, Some(ContextItem::tokens));
    exact.plan.is_exact = true;
    let exact = pipeline().layout(exact).build();
    assert_eq!(placed(&exact.run(&items, &budget(20)).unwrap()), ["a", "b"]);
}

#[test]
fn a_move_that_exceeds_the_limit_is_blocked_and_the_next_is_tried() {
    let items = fives(&["a", "wide", "b", "c"]);
    let cost = |item: &ContextItem| if item.content() == "wide" { 30 } else { item.tokens() };
    let pipeline = pipeline().layout(costs(6, Some(cost))).build();
    // Eleven for each by the plan: after "a", eight tokens and three of rounding let "wide" in, which is not true.
    let selection = pipeline.run(&items, &budget(13)).unwrap();
    assert_eq!(placed(&selection), ["a", "b"]);
    let report = selection.report();
    let reason = "BudgetExceeded: 11 tokens requested, 8 available";
    assert_eq!(excluded(&report)[0], ("wide", reason.to_owned()));
    assert_swept(&pipeline, &items);
}

#[test]
fn the_lowest_scores_are_dropped_and_the_order_stays() {
    let items = fives(&["a", "b", "c", "d", "e"]);
    let doubled = || costs(0, Some(|item| 2 * item.tokens()));
    let pipeline = pipeline().placer(UShapedPlacer).layout(doubled()).build();
    // By the plan all five fit 25, in the order a c e d b. The text has 50.
    let selection = pipeline.run(&items, &budget(25)).unwrap();
    assert_eq!(placed(&selection), ["a", "b"]);
    let report = selection.report();
    let dropped: Vec<&str> = excluded(&report).iter().map(|(content, _)| *content).collect();
    assert_eq!(dropped, ["c", "d", "e"]);
    let reason = ExclusionReason::RenderedOverBudget { rendered_tokens: 50, target_tokens: 25 };
    assert!(report.excluded.iter().all(|entry| entry.reason == reason));
    // Placed anew, the three best would be a c b as well; the four best would be a c d b.
    let selection = pipeline.run(&items, &budget(49)).unwrap();
    assert_eq!(placed(&selection), ["a", "c", "d", "b"]);
    assert_swept(&pipeline, &items);
}

#[test]
fn text_that_cannot_be_dropped_is_an_error_with_its_cost() {
    let mut items = fives(&["a", "b", "c"]);
    items[2] = scored("c", 5, 0.1).pinned(true).build().unwrap();
    let pipeline = pipeline().layout(costs(0, Some(|item| 2 * item.tokens()))).build();
    let error = pipeline.run(&items, &budget(9)).unwrap_err();
    assert_eq!(error, Error::RequiredTextOverBudget { fixed_tokens: 10, target_tokens: 9 });
    let selection = pipeline.run(&items, &budget(10)).unwrap();
    assert_eq!(placed(&selection), ["c"]);
    // Nothing can be dropped at all.
    let error = pipeline.run(&items[2..], &budget(9)).unwrap_err();
    assert_eq!(error, Error::RequiredTextOverBudget { fixed_tokens: 10, target_tokens: 9 });
}

/// Takes every short form, then every whole, best first.
struct ShortThenWhole(Release);

impl Slicer for ShortThenWhole {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        for level in [Level::new(1), Level::WHOLE] {
            for position in 0..tally.candidates().len() {
                tally.take(position, level);
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        let mut properties = SlicerProperties::UNORDERED;
        properties.release = self.0;
        properties
    }
}

#[test]
fn the_last_moves_go_first_where_the_slicer_says_so() {
    let items = [0.9, 0.8, 0.7].map(|score| {
        scored(&format!("whole {score}"), 5, score)
            .form(FormName::SHORT, format!("short {score}"), 1)
            .build()
            .unwrap()
    });
    let run = |release, tokens| {
        let layout = costs(0, Some(|item| 2 * item.tokens()));
        let pipeline =
            pipeline().slicer(ShortThenWhole(release)).placer(RankPlacer).layout(layout).build();
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        let contents = selection.items().map(|item| item.content().to_owned());
        (contents.collect::<Vec<_>>(), selection.exclusion_counts())
    };
    // Three whole ones cost 30, a whole and two short ones 14.
    for (tokens, contents) in [
        (29, vec!["whole 0.9", "whole 0.8", "short 0.7"]),
        (21, vec!["whole 0.9", "short 0.8", "short 0.7"]),
        (14, vec!["whole 0.9", "short 0.8", "short 0.7"]),
        (13, vec!["short 0.9", "short 0.8", "short 0.7"]),
    ] {
        let (found, out) = run(Release::LastTaken, tokens);
        assert_eq!(
            (found, out.len()),
            (contents.iter().map(|text| (*text).to_owned()).collect(), 0),
            "{tokens}"
        );
    }
    let (found, out) = run(Release::LowestScore, 29);
    assert_eq!(found, ["whole 0.9", "whole 0.8"]);
    assert_eq!(out[&ExclusionVariant::RenderedOverBudget], 1);
}

#[test]
fn a_planned_cost_has_a_line_for_everything() {
    let items = fives(&["a", "b", "c", "d"]);
    for (headings, expected) in [(Headings::Once, 30), (Headings::AtEveryChange, 50)] {
        let mut layout = costs(2, None);
        let (first, second) = (SectionId::new(0), SectionId::new(1));
        layout.plan.fixed = 7;
        layout.plan.separator = 1;
        layout.plan.sections = vec![10, 20];
        layout.plan.section_of = vec![first, second, SectionId::NONE, second];
        layout.plan.headings = headings;
        let pipeline = pipeline().placer(RankPlacer).layout(layout).build();
        let selection = pipeline.run(&items, &budget(100)).unwrap();
        assert_eq!(placed(&selection), ["a", "b", "c", "d"]);
        // Two around each, a separator between two, and the headings.
        let ledger = selection.ledger();
        assert_eq!((ledger.fixed, ledger.items), (7, 20));
        assert_eq!(ledger.framing, 4 * 2 + 3 + expected);
        assert_eq!(selection.effective_budget().target_tokens, 93);
        // One token less than everything, and something is out.
        let tokens = 7 + 20 + 11 + expected;
        assert_eq!(pipeline.run(&items, &budget(tokens)).unwrap().len(), 4);
        assert_eq!(pipeline.run(&items, &budget(tokens - 1)).unwrap().len(), 3);
    }
}

#[test]
fn overflow_that_is_accepted_may_fill_the_window() {
    let items = fives(&["a", "b", "c"]);
    let window = ContextBudget::new(20, 10).unwrap();
    let run = |strategy| {
        let layout = costs(0, Some(|item| 2 * item.tokens()));
        let pipeline = pipeline().overflow_strategy(strategy).layout(layout).build();
        let selection = pipeline.run(&items, &window).unwrap();
        (selection.len(), selection.overflow().map(|event| event.tokens_over_budget))
    };
    assert_eq!(run(OverflowStrategy::Proceed), (2, Some(10)));
    assert_eq!(run(OverflowStrategy::Truncate), (1, None));
    // Nothing overflows if the target is met exactly, with or without a layout.
    let exact = || pipeline().overflow_strategy(OverflowStrategy::Proceed);
    let layout = costs(0, Some(|item| 2 * item.tokens()));
    for (pipeline, tokens) in [(exact().layout(layout).build(), 30), (exact().build(), 16)] {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        assert_eq!((selection.len(), selection.overflow()), (3, None));
    }
}

#[test]
fn a_selection_has_what_is_committed_and_what_the_slicer_records() {
    let pinned = scored("pinned", 5, 0.9).pinned(true).build().unwrap();
    let mut items = vec![pinned];
    items.extend(
        (0..60_i32).map(|i| {
            item(&i.to_string(), 101 + i64::from(i) * 7, f64::from(101 + i * 7) / 1_000.0)
        }),
    );
    let mut layout = costs(2, None);
    layout.plan.fixed = 3;
    let few = CountQuotaEntry::new(kind("none"), 1, 1).unwrap();
    let knapsack = KnapsackSlice::default().with_memory_limit(6_000);
    let slicer =
        CountConstrainedKnapsackSlice::new([few], knapsack, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline().slicer(slicer).layout(layout).build();
    assert!(pipeline.slicer_properties().guarantees_counts);
    let selection = pipeline.run(&items, &budget(9_999)).unwrap();
    assert_eq!((selection.committed_tokens(), selection.is_empty()), (3 + 2 + 5, false));
    assert_eq!(selection.shortfalls().len(), 1);
    assert!(matches!(selection.notes(), [Note::LargerBuckets { .. }]), "{:?}", selection.notes());
}

#[test]
fn each_form_is_charged_its_own_frame_and_section() {
    let item = scored("whole", 50, 0.9).form(FormName::SHORT, "short", 5).build().unwrap();
    let items = [item, fives(&["other"]).remove(0)];
    let mut layout = costs(0, None);
    layout.plan.around = Around::Forms(vec![1, 2, 4]);
    layout.plan.sections = vec![10, 20];
    layout.plan.section_of = vec![SectionId::new(0), SectionId::new(1), SectionId::NONE];
    let pipeline = pipeline().slicer(ShortThenWhole(Release::LowestScore)).layout(layout).build();
    // The other has 9 tokens, the short form 5 + 2 + 20, the whole one 50 + 1 + 10. A heading that was charged for the
    // short form stays charged when it is raised, although it is not sent.
    for (tokens, framing, sent) in [(36, 26, 36), (90, 15, 70)] {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        let ledger = selection.ledger();
        assert_eq!(
            (selection.len(), ledger.framing, ledger.sent()),
            (2, framing, sent),
            "{tokens}"
        );
    }
}

#[test]
fn a_sweep_knows_which_units_cannot_be_first() {
    let items = fives(&["a", "b", "c"]);
    let mut layout = costs(1, Some(ContextItem::tokens));
    layout.plan.not_first = vec![(0, "it cannot be first".into())];
    let pipeline = pipeline().placer(RankPlacer).layout(layout).build();
    assert_eq!(placed(&pipeline.run(&items, &budget(60)).unwrap()), ["b", "c"]);
    assert_swept(&pipeline, &items);
}

#[test]
fn without_a_layout_the_ledger_has_the_items() {
    let items = fives(&["a", "b", "c"]);
    let selection = pipeline().build().run(&items, &budget(12)).unwrap();
    let ledger = selection.ledger();
    assert_eq!((ledger.items, ledger.framing, ledger.sent(), ledger.unused), (10, 0, 10, 2));
}

#[test]
fn no_more_is_dropped_than_needed() {
    let items = fives(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let pipeline = pipeline().layout(costs(0, Some(|item| 2 * item.tokens()))).build();
    for tokens in 45..90 {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        assert_eq!(selection.len() as i64, tokens / 10, "{tokens}");
    }
}

#[test]
fn a_cap_does_not_bind_if_the_text_of_everything_fits() {
    let items = ["a", "b", "c", "d"].map(|content| {
        let item = scored(content, 5, 0.5).kind(kind("task"));
        item.form(FormName::SHORT, format!("{content}'"), 1).build().unwrap()
    });
    let tasks = Tier { cap_percent: 40.0, ..Tier::new([kind("task")]) };
    let layout = costs(4, Some(ContextItem::tokens));
    let pipeline = pipeline().slicer(TieredSlice::new([tasks]).unwrap()).layout(layout).build();
    // Nine for each by the plan, and a cap of eight; the text has 20.
    let whole = |tokens| {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        selection.sent().filter(Sent::is_whole).count()
    };
    assert_eq!((whole(20), whole(19)), (4, 0));
}

#[test]
fn the_best_candidate_gets_the_remaining_budget_first() {
    let items = [item("best", 10, 0.9), item("small", 5, 0.8), item("smaller", 5, 0.7)];
    let layout = costs(3, Some(ContextItem::tokens));
    let pipeline = pipeline().slicer(FillSlice::default()).layout(layout).build();
    // By the plan the best one has 13 tokens, so the first slice takes a small one. Filling after it would take the other.
    assert_eq!(placed(&pipeline.run(&items, &budget(12)).unwrap()), ["best"]);
}

#[test]
fn a_form_that_was_raised_no_longer_pays_for_the_heading_of_its_section() {
    let item = item("text", 5, 0.5);
    let (first, second) = (SectionId::new(0), SectionId::new(1));
    let candidate = |section| Candidate { item: &item, tokens: 5, score: 0.5, value: 0.5, section };
    let short = Offer { tokens: 1, value: 0.5, section: first };
    let offers = Offers::new([candidate(second), candidate(first)])
        .with_forms([Some(short), None])
        .with_headings([10, 20], Headings::Once);
    let mut tally = Tally::new(&offers, SliceBudget::new(100));
    assert_eq!(tally.cost(1, Level::WHOLE), Some(15));
    assert!(tally.take(0, Level::new(1)));
    assert_eq!(tally.cost(1, Level::WHOLE), Some(5));
    assert!(tally.take(0, Level::WHOLE));
    assert_eq!(tally.cost(1, Level::WHOLE), Some(15));
}

#[test]
fn few_renderings_find_how_many_moves_to_drop() {
    let items: Vec<ContextItem> =
        (0..200).map(|i| item(&i.to_string(), 5, 1.0 - f64::from(i) / 1_000.0)).collect();
    let layout = costs(0, Some(|item| 10 * item.tokens()));
    let renderings = Arc::clone(&layout.renderings);
    let selection = pipeline().layout(layout).build().run(&items, &budget(1_000)).unwrap();
    assert_eq!(selection.len(), 20);
    let renderings = renderings.load(Ordering::Relaxed);
    assert!(renderings <= 4 + 2 * 200_u32.ilog2(), "{renderings}");
}

/// Plans eleven tokens for each of 40 items, of which a text has five.
fn everything(tokens: i64) -> (usize, u32) {
    let items: Vec<ContextItem> = (0..40)
        .map(|i| {
            let item = scored(&format!("whole {i}"), 5, 0.5);
            item.form(FormName::SHORT, format!("short {i}"), 1).build().unwrap()
        })
        .collect();
    let layout = costs(6, Some(ContextItem::tokens));
    let renderings = Arc::clone(&layout.renderings);
    let slicer = ShortThenWhole(Release::LastTaken);
    let pipeline = pipeline().slicer(slicer).layout(layout).build();
    let selection = pipeline.run(&items, &budget(tokens)).unwrap();
    (selection.sent().filter(Sent::is_whole).count(), renderings.load(Ordering::Relaxed))
}

#[test]
fn one_rendering_shows_that_everything_fits() {
    // Everything has 440 tokens by the plan, and 200 in the text.
    assert_eq!(everything(220), (40, 1));
    // It is not rendered where half of the plan exceeds the budget.
    let (whole, renderings) = everything(219);
    assert!(whole == 40 && renderings > 1, "{whole} in {renderings} renderings");
}

#[test]
fn moves_are_blocked_until_the_renderings_are_spent() {
    let items: Vec<ContextItem> =
        (0..40).map(|i| item(&format!("wide {i}"), 5, 0.5)).chain([item("a", 5, 0.9)]).collect();
    let cost = |item: &ContextItem| if item.content() == "a" { 5 } else { 30 };
    let layout = costs(6, Some(cost));
    let renderings = Arc::clone(&layout.renderings);
    let selection = pipeline().layout(layout).build().run(&items, &budget(13)).unwrap();
    assert_eq!(placed(&selection), ["a"]);
    // Each wide one is tried alone, as the second of two moves.
    assert_eq!(renderings.load(Ordering::Relaxed), 4 + 2);
}

#[test]
fn kept_items_are_never_dropped() {
    let mut items = fives(&["a", "b", "c"]);
    items[2] = scored("c", 5, 0.1).keep(true).build().unwrap();
    let pipeline = pipeline().layout(costs(0, Some(|item| 2 * item.tokens()))).build();
    for (tokens, selected) in [(20, vec!["a", "c"]), (19, vec!["c"]), (10, vec!["c"])] {
        assert_eq!(placed(&pipeline.run(&items, &budget(tokens)).unwrap()), selected, "{tokens}");
    }
    let error = pipeline.run(&items, &budget(9)).unwrap_err();
    assert_eq!(error, Error::RequiredTextOverBudget { fixed_tokens: 10, target_tokens: 9 });
}

#[test]
fn a_gap_is_known_only_if_everything_that_was_sliced_is_sent() {
    let items = fives(&["a", "b", "c"]);
    let gap = |layout: Costs| {
        let pipeline = pipeline().slicer(BestSlice).placer(RankPlacer).layout(layout);
        pipeline.build().run(&items, &budget(15)).unwrap().gap()
    };
    assert_eq!(gap(costs(0, Some(ContextItem::tokens))), Some(0.0));
    assert_eq!(gap(costs(0, Some(|item| 2 * item.tokens()))), None);
    let mut rejecting = costs(0, None);
    rejecting.plan.not_first = vec![(0, "it cannot be first".into())];
    assert_eq!(gap(rejecting), None);
}

#[test]
fn a_plan_charges_nothing_for_unknown_sections_and_missing_or_negative_entries() {
    let items = fives(&["a", "b", "c"]);
    let mut layout = costs(0, None);
    layout.plan.around = Around::Forms(vec![3, -4]);
    layout.plan.sections = vec![10];
    layout.plan.section_of = vec![SectionId::new(0), SectionId::new(1)];
    let pipeline = pipeline().layout(layout).build();
    assert_eq!(pipeline.run(&items, &budget(28)).unwrap().ledger().framing, 13);
    assert_eq!(pipeline.run(&items, &budget(27)).unwrap().len(), 2);
}

#[test]
fn the_form_of_a_group_opens_the_section_of_its_best_member() {
    let item = |content: &str, score| {
        let item = scored(content, 50, score).group("pair");
        item.form(FormName::SHORT, format!("{content}'"), 1).build().unwrap()
    };
    let items = [item("first", 0.4), item("best", 0.9), item("last", 0.5)];
    let mut layout = costs(0, Some(ContextItem::tokens));
    layout.plan.sections = vec![10, 20];
    let (cheap, dear) = (SectionId::new(0), SectionId::new(1));
    layout.plan.section_of = vec![dear, dear, cheap, cheap, dear, dear];
    let builder = pipeline().slicer(FillSlice::default()).closing(Closing::DropOnly);
    let pipeline = builder.layout(layout).build();
    let len = |tokens| pipeline.run(&items, &budget(tokens)).unwrap().len();
    assert_eq!((len(12), len(13)), (0, 3));
}

#[test]
fn offers_can_be_planned_without_a_pipeline() {
    let items = [
        scored("a", 50, 0.9).form_with_worth(FormName::SHORT, "a'", 5, 0.5).build().unwrap(),
        item("b", 5, 0.5),
    ];
    let mut plan = Plan::default();
    plan.around = Around::Forms(vec![1, 2, 4]);
    plan.separator = 3;
    plan.sections = vec![10, 20];
    plan.section_of = vec![SectionId::new(0), SectionId::new(1), SectionId::NONE];
    plan.headings = Headings::AtEveryChange;
    let scores = [0.8, 0.5];
    let scored: Vec<ScoredItem<'_>> =
        items.iter().zip(scores).map(|(item, score)| ScoredItem { item, score }).collect();
    let offers = Offers::planned(&scored, plan);
    let offer = |tokens, value, section| Some(Offer { tokens, value, section });
    assert_eq!(offers.offer(0, Level::WHOLE), offer(51, 0.8, SectionId::new(0)));
    assert_eq!(offers.offer(0, Level::new(1)), offer(7, 0.4, SectionId::new(1)));
    assert_eq!(offers.offer(1, Level::WHOLE), offer(9, 0.5, SectionId::NONE));
    assert_eq!(offers.levels(1), 1);
    assert_eq!((offers.heading(SectionId::new(1)), offers.separator()), (20, 3));
    assert_eq!(offers.headings(), Headings::AtEveryChange);
}

#[test]
fn a_form_may_cost_nothing() {
    let item = scored("whole", 50, 0.9).form(FormName::SHORT, "short", 0).build().unwrap();
    let pipeline = pipeline().slicer(FillSlice::default()).build();
    let items = [item];
    let selection = pipeline.run(&items, &budget(10)).unwrap();
    assert_eq!(selection.sent().map(|sent| sent.level.get()).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_group_is_out_with_a_member_that_cannot_be_sent() {
    let member = |content: &str, tokens, group: &str| {
        scored(content, tokens, 0.5).group(group).build().unwrap()
    };
    let items = [
        member("a", 5, "first"),
        member("rejected", 5, "first"),
        member("b", 5, "second"),
        member("negative", -5, "second"),
    ];
    let mut layout = costs(0, None);
    layout.plan.rejected = vec![(1, "never".into())];
    let selection = pipeline().layout(layout).build().run(&items, &budget(100)).unwrap();
    let report = selection.report();
    let reason = |content: &str| {
        let excluded = excluded(&report);
        excluded.into_iter().find(|(other, _)| *other == content).map(|(_, reason)| reason).unwrap()
    };
    assert!(reason("a").contains("Refused"), "{}", reason("a"));
    assert!(reason("b").contains("NegativeTokens"), "{}", reason("b"));
}
