//! Slicers and placers from outside: what they can say, and what happens when they break the rules.

mod support;

use std::sync::Arc;

use pannier_core::*;
use support::*;

/// A slicer that takes scores above a threshold, whatever they cost.
struct Threshold(f64);

impl Slicer for Threshold {
    fn slice(&self, candidates: &[Candidate<'_>], _: SliceBudget) -> Result<SliceOutcome, Error> {
        let mut outcome = SliceOutcome::new(candidates.len());
        for (position, candidate) in candidates.iter().enumerate() {
            if candidate.score > self.0 {
                outcome.take(position);
                outcome.take(position);
            } else {
                let (score, threshold) = (candidate.score, self.0);
                let reason = ExclusionReason::ScoredTooLow { score, threshold };
                outcome.leave(position, Verdict::Excluded(Arc::new(reason)));
            }
        }
        Ok(outcome)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::BEST_FIRST
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

/// Decides about fewer candidates than it was given.
struct Forgetful;

impl Slicer for Forgetful {
    fn slice(&self, _: &[Candidate<'_>], _: SliceBudget) -> Result<SliceOutcome, Error> {
        Ok(SliceOutcome::new(0))
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::UNORDERED
    }
}

#[test]
fn a_slicer_must_decide_about_every_candidate_also_inside_another() {
    let items = [item("a", 60, 0.9)];
    let quota = QuotaSlice::new([], Forgetful).unwrap();
    assert!(matches!(select(pipeline().slicer(quota), &items, 100), Err(Error::CustomPart { .. })));
    let error = select(pipeline().slicer(Forgetful), &items, 100).unwrap_err();
    assert_eq!(error.to_string(), "the slicer failed: it got 1 candidates and decided about 0");
}

/// Answers with a fixed order.
struct Fixed(Vec<u32>);

impl Placer for Fixed {
    fn place(&self, _: &[ScoredItem<'_>]) -> Vec<u32> {
        self.0.clone()
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
    assert!(quota.properties().shares_budget && !quota.properties().commits_counts);
    let counted = CountQuotaSlice::new([], quota, ScarcityBehavior::Degrade).unwrap();
    assert!(counted.properties().shares_budget && counted.properties().commits_counts);
    assert!(counted.properties().takes_best_first);
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
        assert_eq!(slicer.slice(&candidates, budget).unwrap().taken(), [2]);
    }
}
