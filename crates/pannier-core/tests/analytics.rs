//! Figures about a report.

mod support;

use pannier_core::{item::*, report::*, slice::*, *};
use support::*;

fn report(items: &[ContextItem]) -> SelectionReport<&ContextItem> {
    pipeline().build().run(items, &budget(1_000)).unwrap().report()
}

#[test]
fn utilization_diversity_and_coverage() {
    let dated = scored("dated", 100, 0.5).timestamp("2026-01-01T00:00:00Z".parse().unwrap());
    let items = [
        dated.build().unwrap(),
        scored("a", 50, 0.5).kind(kind("Doc")).build().unwrap(),
        scored("b", 50, 0.5).kind(kind("dOC")).build().unwrap(),
        item("too large", 5_000, 0.9),
    ];
    let report = report(&items);
    assert_eq!(report.included_tokens(), 200);
    assert_eq!(report.budget_utilization(&budget(1_000)), 0.2);
    assert_eq!(report.kind_diversity(), 2);
    assert_eq!(report.timestamp_coverage(), 1.0 / 3.0);
}

#[test]
fn an_empty_selection_has_figures_too() {
    let report = report(&[]);
    assert_eq!(report.budget_utilization(&budget(1_000)), 0.0);
    assert_eq!((report.kind_diversity(), report.timestamp_coverage()), (0, 0.0));
}

#[test]
fn utilization_exceeds_one_where_overflow_was_allowed() {
    let items = [scored("pin", 150, 0.0).pinned(true).build().unwrap()];
    let budget = ContextBudget::new(200, 100).unwrap();
    let pipeline = pipeline().overflow_strategy(OverflowStrategy::Proceed).build();
    let report = pipeline.run(&items, &budget).unwrap().report();
    assert_eq!(report.budget_utilization(&ContextBudget::new(100, 100).unwrap()), 1.5);
}

#[test]
fn quotas_of_both_sorts() {
    let items = [
        scored("a", 100, 0.5).kind(kind("tool")).build().unwrap(),
        scored("b", 150, 0.5).kind(kind("Tool")).build().unwrap(),
        item("message", 10, 0.5),
    ];
    let report = report(&items);
    let quota = Quota { kind: kind("TOOL"), require_percent: 10.0, cap_percent: 50.0 };
    let count = CountQuotaEntry::new(kind("Message"), 1, 4).unwrap();
    let none = CountQuotaEntry::new(kind("Absent"), 0, 0).unwrap();
    let limits = [(&quota).into(), (&count).into(), (&none).into()];
    let used: Vec<_> = report
        .quota_utilization(limits, &budget(1_000))
        .into_iter()
        .map(|used| (used.limit.kind.to_string(), used.actual, used.utilization))
        .collect();
    let expected = [("Absent", 0.0, 0.0), ("Message", 1.0, 0.25), ("TOOL", 25.0, 0.5)];
    assert_eq!(used, expected.map(|(kind, actual, used)| (kind.to_owned(), actual, used)));
}
