//! Forms, kept items and the relevance floor, in a pipeline.

mod support;

use pannier_core::{item::*, place::*, report::*, slice::*, whatif::*, *};
use proptest::prelude::*;
use support::*;

fn with_forms(content: &str, tokens: i64, score: f64) -> ContextItemBuilder {
    scored(content, tokens, score).form(FormName::STUB, format!("{content}…"), 2).form(
        FormName::HEAD_TAIL,
        format!("{content} … end"),
        tokens / 4,
    )
}

fn marginal() -> PipelineBuilder {
    pipeline().slicer(FillSlice::new(FillOrder::Marginal)).placer(RankPlacer)
}

fn sent(selection: &Selection<'_>) -> Vec<(usize, usize)> {
    selection.sent().map(|sent| (sent.index, sent.level.get())).collect()
}

#[test]
fn reports_name_the_form_that_is_sent() {
    let items = [
        with_forms("log", 100, 0.9).build().unwrap(),
        with_forms("diff", 80, 0.2).build().unwrap(),
        scored("note", 5, 0.8).form(FormName::SHORT, "n", 1).build().unwrap(),
    ];
    let selection = marginal().build().run(&items, &budget(40)).unwrap();
    assert_eq!(sent(&selection), [(0, 1), (2, 0), (1, 2)]);
    assert_eq!(selection.tokens(), 25 + 5 + 2);
    assert_eq!((selection.ledger().items, selection.ledger().unused), (32, 8));
    assert_eq!(selection.items().map(ContextItem::content).last(), Some("diff…"));
    let report = selection.report();
    let reasons: Vec<_> =
        report.included.iter().map(|entry| (entry.reason, entry.form.clone())).collect();
    let shortened = |form| (InclusionReason::Shortened, Some(form));
    assert_eq!(
        reasons,
        [
            shortened(FormName::HEAD_TAIL),
            (InclusionReason::Scored, None),
            shortened(FormName::STUB)
        ]
    );
    assert_eq!(report.total_tokens_considered, 185);
}

#[test]
fn a_worth_is_that_of_the_form_or_of_its_name() {
    let form = |worth: Option<f64>| {
        let item = scored("text", 100, 1.0);
        let item = match worth {
            Some(worth) => item.form_with_worth(FormName::TITLE, "t", 10, worth),
            None => item.form(FormName::TITLE, "t", 10),
        };
        item.build().unwrap()
    };
    let other = scored("other", 10, 0.3).build().unwrap();
    let first = |worth, worths: FormWorths| {
        let items = [form(worth), other.clone()];
        let selection = marginal().form_worths(worths).build();
        let selection = selection.run(&items, &budget(10)).unwrap();
        selection.indices().next()
    };
    let default = FormWorths::default;
    // A title is worth 0.25 unless somebody says otherwise, and the other item 0.3.
    assert_eq!(first(None, default()), Some(1));
    assert_eq!(first(Some(0.4), default()), Some(0));
    assert_eq!(first(None, default().with(FormName::TITLE, 0.4).unwrap()), Some(0));
    assert_eq!(first(Some(0.2), default().with(FormName::TITLE, 0.4).unwrap()), Some(1));
    assert!(default().with(FormName::TITLE, 1.5).is_err());
}

#[test]
fn the_members_of_a_group_are_shortened_together() {
    let call = scored("call", 10, 0.5).group("g").build().unwrap();
    let result = with_forms("result", 100, 0.9).group("g").build().unwrap();
    let items = [call, result];
    let at = |tokens| sent(&marginal().build().run(&items, &budget(tokens)).unwrap());
    assert_eq!(at(110), [(1, 0), (0, 0)]);
    assert_eq!(at(109), [(1, 1), (0, 0)]);
    assert_eq!(at(34), [(1, 2), (0, 0)]);
    assert_eq!(at(11), []);
}

#[test]
fn a_kept_item_is_sent_in_some_form() {
    let items = [
        scored("best", 50, 0.9).build().unwrap(),
        with_forms("kept", 40, 0.0).keep(true).build().unwrap(),
    ];
    for slicer in 0..4 {
        let slicer: Box<dyn Slicer> = match slicer {
            0 => Box::new(GreedySlice),
            1 => Box::new(KnapsackSlice::exact()),
            2 => Box::new(FillSlice::new(FillOrder::Marginal)),
            _ => Box::new(TieredSlice::new([]).unwrap().with_full_text_percent(100.0).unwrap()),
        };
        let pipeline = pipeline().slicer(slicer).placer(RankPlacer).build();
        let at = |tokens| sent(&pipeline.run(&items, &budget(tokens)).unwrap());
        assert_eq!(at(2), [(1, 2)]);
        assert_eq!(at(52), [(0, 0), (1, 2)]);
        let report = pipeline.dry_run(&items, &budget(52)).unwrap();
        assert_eq!(report.included[1].reason, InclusionReason::Kept);
        assert!(matches!(pipeline.run(&items, &budget(1)), Err(Error::OverTarget { .. })));
    }
    let pipeline = marginal().overflow_strategy(OverflowStrategy::Truncate).build();
    let tight = ContextBudget::new(10, 1).unwrap();
    assert_eq!(sent(&pipeline.run(&items, &tight).unwrap()), [(1, 2)]);
    assert_eq!(sent(&marginal().build().run(&items, &budget(90)).unwrap()), [(0, 0), (1, 0)]);
}

#[test]
fn a_kept_duplicate_keeps_the_one_that_stays() {
    let items = [
        scored("same", 10, 0.1).build().unwrap(),
        scored("same", 10, 0.0).keep(true).build().unwrap(),
        scored("best", 10, 0.9).build().unwrap(),
    ];
    let selection = marginal().build().run(&items, &budget(10)).unwrap();
    assert_eq!(selection.indices().collect::<Vec<_>>(), [0]);
    let floor = marginal().floor(Floor::Score(0.5)).build();
    let selection = floor.run(&items, &budget(20)).unwrap();
    assert_eq!(selection.indices().collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn what_is_below_the_floor_does_not_compete() {
    let items = [item("a", 10, 0.8), item("b", 10, 0.4), item("c", 10, 0.39), item("d", 10, -1.0)];
    let at = |floor: Floor| {
        let pipeline = pipeline().floor(floor).build();
        let selection = pipeline.run(&items, &budget(100)).unwrap();
        (selection.indices().collect::<Vec<_>>(), selection.report())
    };
    let (selected, report) = at(Floor::ShareOfBest(0.5));
    assert_eq!(selected, [0, 1]);
    assert_eq!(report.excluded[0].reason, ExclusionReason::BelowFloor { score: 0.39, floor: 0.4 });
    let stages: Vec<_> =
        report.stages.iter().map(|count| (count.stage.name(), count.items_out)).collect();
    assert_eq!(
        stages,
        [
            ("Classify", 4),
            ("Score", 4),
            ("Deduplicate", 4),
            ("Floor", 2),
            ("Slice", 2),
            ("Place", 2)
        ]
    );
    assert_eq!(at(Floor::Score(0.8)).0, [0]);
    assert_eq!(at(Floor::Score(0.9)).0, Vec::<usize>::new());
    assert!(
        Floor::Score(f64::NAN).checked().is_err() && Floor::ShareOfBest(1.1).checked().is_err()
    );

    let pipeline = pipeline().floor(Floor::ShareOfBest(0.5)).build();
    let answer = pipeline.explain(&items, &budget(100), 2).unwrap();
    assert_eq!((answer.stage, answer.smallest_budget), (PipelineStage::Floor, None));
    assert_eq!(answer.smallest_score, Some(0.4));
    // Without a score above 0, there is no best one to compare with.
    let pool = [item("a", 10, 0.0), item("b", 10, 0.0)];
    let selection = pipeline.run(&pool, &budget(100)).unwrap();
    assert_eq!(selection.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What an explanation claims is what a run does.
    #[test]
    fn explanations_of_forms_are_true(
        pool in prop::collection::vec((1_i64..40, 1_u8..100, prop::collection::vec(1_i64..30, 0..3), any::<bool>()), 1..=8),
        slicer in 0_usize..4,
        tokens in 5_i64..80,
        keep in 0_usize..20,
    ) {
        let orders = [FillOrder::Score, FillOrder::Marginal, FillOrder::Density];
        let slicer: Box<dyn Slicer> = match orders.get(slicer) {
            Some(order) => Box::new(FillSlice::new(*order)),
            None => Box::new(BestSlice),
        };
        let items: Vec<ContextItem> = pool.iter().enumerate().map(|(index, (tokens, score, forms, grouped))| {
            let item = scored(&format!("{index}"), *tokens, f64::from(*score) / 100.0);
            let item = forms.iter().fold(item, |item, less| item.form(FormName::STUB, format!("{index}…"), (*tokens - less).max(1)));
            let item = if *grouped { item.group("g") } else { item };
            item.keep(index == keep).build().unwrap()
        }).collect();
        let pipeline = pipeline().slicer(slicer).placer(RankPlacer).build();
        let Ok(selection) = pipeline.run(&items, &budget(tokens)) else { return Ok(()) };
        let level = |tokens: i64, items: &[ContextItem], index: usize| {
            let selection = pipeline.run(items, &budget(tokens)).ok()?;
            selection.sent().find(|sent| sent.index == index).map(|sent| sent.level)
        };
        for index in 0..items.len() {
            let answer = pipeline.explain(&items, &budget(tokens), index).unwrap();
            let sent = selection.sent().find(|sent| sent.index == index);
            let counts = |tokens: i64, items: &[ContextItem]| {
                level(tokens, items, index).is_some_and(|level| sent.is_none() || level == Level::WHOLE)
            };
            if let Decision::Included { form, .. } = &answer.decision {
                let expected = sent.unwrap().form().map(|form| (form.name(), form.tokens()));
                prop_assert_eq!(form.as_ref().map(|form| (&form.name, form.tokens)), expected);
            } else {
                prop_assert!(sent.is_none());
            }
            if let Some(found) = answer.smallest_budget.filter(|found| found.is_proven) {
                prop_assert!(counts(found.max_tokens, &items), "{index} at {}", found.max_tokens);
                let above = if counts(tokens, &items) { 0 } else { tokens + 1 };
                for less in above..found.max_tokens {
                    let own = sent.map_or(0, |_| items[index].tokens());
                    prop_assert!(less < own || !counts(less, &items), "{index} is in at {less}, too");
                }
            }
            // The scorer gives at most 1.
            if let Some(score) = answer.smallest_score.filter(|score| *score <= 1.0) {
                let mut changed = items.clone();
                let other = &items[index];
                let mut builder = scored(other.content(), other.tokens(), score).keep(other.is_kept());
                for form in other.forms() {
                    builder = builder.form(form.name().clone(), form.content(), form.tokens());
                }
                let builder = if let Some(group) = other.group() { builder.group(group) } else { builder };
                changed[index] = builder.build().unwrap();
                prop_assert!(counts(tokens, &changed), "{index} with {score}");
            }
        }
    }
}

#[test]
fn kept_candidates_are_raised_by_value_per_token() {
    let item = |content: &str, tokens, score| {
        let item = scored(content, tokens, score).keep(true);
        item.form(FormName::SHORT, "short", tokens - 5).build().unwrap()
    };
    let items = [item("first", 60, 0.9), item("second", 40, 0.8)];
    // Five tokens are left, and each longer form costs that. The second has more value per token.
    let selection = pipeline().build().run(&items, &budget(95)).unwrap();
    assert_eq!(selection.sent().map(|sent| sent.is_whole()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_kept_candidate_counts_for_its_kind() {
    let item = |content: &str, tokens, score| scored(content, tokens, score).kind(kind("note"));
    let items = [
        item("large", 50, 0.9).build().unwrap(),
        item("small", 5, 0.5).build().unwrap(),
        item("kept", 5, 0.1).keep(true).build().unwrap(),
    ];
    let select = |require, cap| {
        let count = CountQuotaEntry::new(kind("note"), require, cap).unwrap();
        let slicer = CountQuotaSlice::new([count], GreedySlice, ScarcityBehavior::Throw).unwrap();
        select(pipeline().slicer(slicer).placer(RankPlacer), &items, 20).unwrap()
    };
    assert_eq!(select(1, 2), ["small", "kept"]);
    assert_eq!(select(1, 1), ["kept"]);
}

#[test]
fn a_knapsack_raises_the_kept_candidate_that_gains_most() {
    let item = |content: &str, (score, worth)| {
        let item = scored(content, 10, score).keep(true);
        item.form_with_worth(FormName::SHORT, "short", 5, worth).build().unwrap()
    };
    let pipeline = pipeline().slicer(KnapsackSlice::exact()).placer(RankPlacer).build();
    // The gains are 0.09 and 0.45, then 0.45 and 0.18.
    for (first, second, is_whole) in
        [((0.9, 0.9), (0.5, 0.1), [false, true]), ((0.9, 0.5), (0.2, 0.1), [true, false])]
    {
        let items = [item("first", first), item("second", second)];
        let selection = pipeline.run(&items, &budget(15)).unwrap();
        assert_eq!(selection.sent().map(|sent| sent.is_whole()).collect::<Vec<_>>(), is_whole);
    }
}
