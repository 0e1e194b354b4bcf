//! Slicers and placers from outside: what they can say, and what happens when they break the rules.

mod support;

use std::sync::Arc;

use pannier_core::{item::*, layout::*, place::*, report::*, score::*, slice::*, *};
use support::*;

/// A slicer that takes scores above a threshold, whatever they cost.
struct Threshold(f64);

impl Slicer for Threshold {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        for (position, candidate) in tally.candidates().iter().enumerate() {
            if candidate.score > self.0 {
                tally.commit(position, Level::WHOLE);
                tally.commit(position, Level::WHOLE);
            } else {
                let (score, threshold) = (candidate.score, self.0);
                let reason = ExclusionReason::ScoredTooLow { score, threshold };
                tally.exclude(position, Verdict::Excluded(Arc::new(reason)));
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }
}

#[test]
fn a_slicer_of_ones_own_can_give_reserved_reasons() {
    let items = [item("good", 10, 0.9), item("bad", 10, 0.1)];
    let pipeline = pipeline().slicer(Threshold(0.5)).build();
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&selection), ["good"]);
    let reason = &selection.report().excluded[0].reason;
    assert_eq!(*reason, ExclusionReason::ScoredTooLow { score: 0.1, threshold: 0.5 });
    assert_eq!(reason.to_string(), "ScoredTooLow: score 0.1, threshold 0.5");
}

#[test]
fn a_slicer_that_ignores_the_budget_meets_the_overflow_strategy() {
    let items = [item("a", 60, 0.9), item("b", 50, 0.8), item("c", 40, 0.7)];
    let run = |strategy| {
        let builder = pipeline().slicer(Threshold(0.0)).overflow_strategy(strategy);
        let pipeline = builder.build();
        let budget = ContextBudget::new(1_000, 100).unwrap();
        pipeline.run(&items, &budget).map(|selection| placed(&selection).join(" "))
    };
    let error = run(OverflowStrategy::Throw).unwrap_err();
    assert_eq!(
        error.to_string(),
        "selected items require 150 tokens, exceeding the target budget of 100; raise targetTokens, \
         or choose another overflow strategy"
    );
    assert_eq!(run(OverflowStrategy::Truncate).unwrap(), "a c");
    assert_eq!(run(OverflowStrategy::Proceed).unwrap(), "a b c");
}

/// Decides nothing.
struct Forgetful;

impl Slicer for Forgetful {
    fn slice(&self, _: &mut Tally<'_, '_>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_candidate_without_a_decision_is_left_with_nothing_available() {
    let items = [item("a", 60, 0.9)];
    let quota = QuotaSlice::new([], Forgetful).unwrap();
    assert_eq!(select(pipeline().slicer(quota), &items, 100).unwrap(), Vec::<&str>::new());
    let selection = pipeline().slicer(Forgetful).build();
    let selection = selection.run(&items, &budget(100)).unwrap();
    let reason = &selection.report().excluded[0].reason;
    assert_eq!(reason.to_string(), "BudgetExceeded: 60 tokens requested, 0 available");
}

/// Fails where it should score, slice, place or plan.
struct Broken;

fn broken<T>(component: &str) -> Result<T, Error> {
    Err(Error::custom(component, std::io::Error::other("no connection")))
}

impl Scorer for Broken {
    fn score(&self, _: &Pool<'_>, _: &mut [f64]) -> Result<(), Error> {
        broken("the scorer")
    }
}

impl Slicer for Broken {
    fn slice(&self, _: &mut Tally<'_, '_>) -> Result<(), Error> {
        broken("the slicer")
    }
}

impl Placer for Broken {
    fn place(&self, _: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        broken("the placer")
    }
}

impl Layout for Broken {
    fn plan(&self, _: &Pool<'_>) -> Result<Plan, Error> {
        broken("the layout")
    }
}

#[test]
fn an_error_of_a_component_is_the_error_of_the_run_with_its_source() {
    let items = [item("a", 10, 0.9)];
    for (component, builder) in [
        ("the scorer", Pipeline::builder(Broken)),
        ("the scorer", Pipeline::builder(SumScorer::builder().add(Broken).build().unwrap())),
        ("the slicer", pipeline().slicer(Broken)),
        ("the slicer", pipeline().slicer(QuotaSlice::new([], Broken).unwrap())),
        ("the placer", pipeline().placer(Broken)),
        ("the layout", pipeline().layout(Broken)),
    ] {
        let error = select(builder, &items, 100).unwrap_err();
        assert_eq!(error.to_string(), format!("{component} failed: no connection"));
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "no connection");
        assert_eq!(error, Error::custom(component, "no connection"));
    }
}

#[test]
fn components_are_used_by_reference_box_and_arc_and_pipelines_share_them() {
    let items = [item("a", 10, 0.9), item("b", 10, 0.8)];
    let shared: Arc<dyn Slicer> = Arc::new(GreedySlice);
    let boxed: Box<dyn Placer> = Box::new(RankPlacer);
    let scorer: &'static dyn Scorer = &ReflexiveScorer;
    let first = Pipeline::builder(scorer).slicer(Arc::clone(&shared)).placer(boxed).build();
    let by_reference: &'static dyn Slicer = &GreedySlice;
    let second = first.clone().into_builder().slicer(by_reference).build();
    let references: Vec<&ContextItem> = items.iter().rev().collect();
    assert_eq!(placed(&first.run(&items, &budget(20)).unwrap()), ["a", "b"]);
    assert_eq!(placed(&second.run(references, &budget(20)).unwrap()), ["a", "b"]);
    // A selection outlives its pipeline, and a prepared pool serves many budgets.
    let selection = {
        let pipeline = first;
        pipeline.prepare(&items).unwrap().select(&budget(10)).unwrap()
    };
    assert_eq!(placed(&selection), ["a"]);
}

/// Answers with a fixed order.
struct Fixed(Vec<u32>);

impl Placer for Fixed {
    fn place(&self, _: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_placer_must_place_every_item_once() {
    let items = [item("a", 10, 0.9), item("b", 10, 0.8)];
    let place = |order: &[u32]| select(pipeline().placer(Fixed(order.to_vec())), &items, 100);
    assert_eq!(place(&[1, 0]).unwrap(), ["b", "a"]);
    for broken in [&[0][..], &[0, 0], &[0, 1, 1], &[0, 2], &[u32::MAX, 0]] {
        let error = place(broken).unwrap_err();
        assert!(error.to_string().starts_with("the placer failed: it "), "{broken:?}: {error}");
    }
}

#[test]
fn a_count_quota_refuses_a_slicer_in_no_order_at_any_depth() {
    let refused = |inner: Box<dyn Slicer>| {
        CountQuotaSlice::new([], inner, ScarcityBehavior::Degrade).err().map(|e| e.to_string())
    };
    let message = refused(Box::new(KnapsackSlice::exact())).unwrap();
    assert!(message.contains("CountConstrainedKnapsackSlice instead"), "{message}");
    assert!(refused(Box::new(QuotaSlice::new([], KnapsackSlice::exact()).unwrap())).is_some());
    assert!(refused(Box::new(QuotaSlice::new([], GreedySlice).unwrap())).is_none());
}

#[test]
fn wrappers_pass_on_what_the_inner_slicer_says() {
    let quota = QuotaSlice::new([], GreedySlice).unwrap();
    assert!(quota.properties().splits_budget_by_kind && !quota.properties().guarantees_counts);
    let counted = CountQuotaSlice::new([], quota, ScarcityBehavior::Degrade).unwrap();
    assert!(counted.properties().splits_budget_by_kind && counted.properties().guarantees_counts);
    assert!(counted.properties().is_score_ordered);
    // A quota shows each kind by itself, and counts could not be kept.
    let error = QuotaSlice::new([], counted).err().unwrap();
    assert!(error.to_string().ends_with("put the quota inside it instead"), "{error}");
}

#[test]
fn sums_of_weights_must_be_numbers() {
    let huge = CompositeScorer::builder().add(RecencyScorer, 1e308).add(PriorityScorer, 1e308);
    assert!(huge.build().is_err());
    assert!(TagScorer::new([("a", 1e308), ("b", 1e308)]).is_err());
    let second = std::time::Duration::from_secs(1);
    assert!(DecayCurve::step([(second, f64::NAN)]).is_err());
}

#[test]
fn negative_tokens_are_left_by_every_slicer() {
    let items =
        [item("negative", i64::MIN, 0.9), item("minus five", -5, 0.8), item("good", 8, 0.1)];
    let candidates: Vec<Candidate<'_>> = items
        .iter()
        .map(|item| ScoredItem { item, score: item.future_relevance_hint().unwrap() }.into())
        .collect();
    let one = || [CountQuotaEntry::new(kind("Message"), 1, 3).unwrap()];
    let degrade = ScarcityBehavior::Degrade;
    let knapsack = KnapsackSlice::exact();
    for slicer in [
        Box::new(GreedySlice) as Box<dyn Slicer>,
        Box::new(knapsack),
        Box::new(CountQuotaSlice::new(one(), GreedySlice, degrade).unwrap()),
        Box::new(CountConstrainedKnapsackSlice::new(one(), knapsack, degrade).unwrap()),
    ] {
        let budget = SliceBudget::new(10);
        assert_eq!(slice(&*slicer, &candidates, budget, taken).unwrap(), [2]);
    }
}
