//! What if: marginal items, and where policies differ.

mod support;

use pannier_core::*;
use support::*;

fn pool() -> Vec<ContextItem> {
    vec![item("a", 60, 0.9), item("b", 50, 0.6), item("c", 40, 0.2)]
}

#[test]
fn a_dry_run_is_the_report_of_a_run() {
    let items = pool();
    let pipeline = pipeline().build();
    let report = pipeline.dry_run(&items, &budget(110)).unwrap();
    assert_eq!(report, pipeline.run(&items, &budget(110)).unwrap().report());
}

#[test]
fn marginal_items_are_those_that_the_slack_buys() {
    let items = pool();
    let pipeline = pipeline().build();
    let marginal = |tokens, slack| pipeline.get_marginal_items(&items, &budget(tokens), slack);
    assert_eq!(marginal(150, 0), Ok(vec![]));
    assert_eq!(marginal(150, 1), Ok(vec![2]));
    assert_eq!(marginal(150, 45), Ok(vec![1]));
    assert_eq!(marginal(110, 100), Ok(vec![0, 1]));
    let below = Error::NegativeTokens { field: "maxTokens".to_owned(), tokens: -1 };
    assert_eq!(marginal(150, 151), Err(below));
    assert!(marginal(150, -1).is_err());
}

#[test]
fn c20_marginal_items_keep_reserve_slots_and_margin() {
    let items = pool();
    let budget = ContextBudget::builder(200, 170)
        .output_reserve(30)
        .reserved_slot(kind("Memory"), 20)
        .estimation_safety_margin_percent(0.0)
        .build()
        .unwrap();
    // Effective 150 and 149: only the last item falls out.
    assert_eq!(pipeline().build().get_marginal_items(&items, &budget, 1), Ok(vec![2]));
}

#[test]
fn shares_have_no_marginal_items_at_any_depth() {
    let quota = QuotaSlice::new([], GreedySlice).unwrap();
    let counted = CountQuotaSlice::new([], quota, ScarcityBehavior::Degrade).unwrap();
    let error = pipeline().slicer(counted).build().get_marginal_items(&pool(), &budget(100), 1);
    assert_eq!(
        error.unwrap_err().to_string(),
        "GetMarginalItems requires monotonic item inclusion. QuotaSlice produces non-monotonic \
         inclusion as budget changes shift percentage allocations."
    );
}

#[test]
fn c23_policies_are_compared_by_content_in_pool_order() {
    let rated = |content: &str, priority, hint| {
        scored(content, 40, hint).priority(priority).build().unwrap()
    };
    let items = [
        rated("item-a", 10, 0.1),
        rated("item-b", 1, 0.9),
        rated("both", 20, 1.0),
        rated("item-b", 0, 0.0),
        rated("neither", 0, 0.0),
    ];
    let by_priority = Policy::new([(ScorerPolicy::Priority, 1.0)]);
    let by_hint = Policy::new([(ScorerPolicy::Reflexive, 1.0)]);
    let variants = [("priority", &by_priority), ("reflexive", &by_hint)];
    let report = policy_sensitivity(&items, &budget(80), &variants).unwrap();
    let labels: Vec<_> = report.variants.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["priority", "reflexive"]);
    use ItemStatus::{Excluded, Included};
    let diff = |content: &str, first, second| PolicySensitivityDiffEntry {
        content: content.to_owned(),
        statuses: vec![("priority".to_owned(), first), ("reflexive".to_owned(), second)],
    };
    let expected = [diff("item-a", Included, Excluded), diff("item-b", Excluded, Included)];
    assert_eq!(report.diffs, expected);

    let pipelines = [by_priority.pipeline().unwrap(), by_hint.pipeline().unwrap()];
    let variants = [("priority", &pipelines[0]), ("reflexive", &pipelines[1])];
    let same = policy_sensitivity_from_pipelines(&items, &budget(80), &variants).unwrap();
    assert_eq!(same, report);
}

#[test]
fn c23_a_comparison_needs_two_variants() {
    let policy = Policy::new([(ScorerPolicy::Recency, 1.0)]);
    for variants in [&[][..], &[("only", &policy)]] {
        let error = policy_sensitivity(&pool(), &budget(80), variants).unwrap_err();
        assert_eq!(error.to_string(), "policy_sensitivity requires at least 2 variants");
    }
}
