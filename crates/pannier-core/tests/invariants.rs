//! What holds for every run, whatever the pool and the configuration.

#![allow(clippy::disallowed_methods, reason = "the engine starts no threads; this test does")]

mod oracle;

use std::thread;

use oracle::pipeline::Account;
use oracle::plan::{PipelinePlan, SlicerPlan};
use oracle::pools::{self, ItemPlan};
use oracle::random_plans;
use pannier_core::item::OverflowStrategy;
use pannier_core::report::InclusionReason;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Selection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// As many cases as `PROPTEST_CASES` asks for, which are 256 if it does not.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn any_pool() -> impl Strategy<Value = Vec<ItemPlan>> {
    prop_oneof![pools::pool(), pools::pool_with_groups()]
}

/// All that can be seen of a run, as a text: scores that are not numbers are equal there.
fn describe(result: Result<Selection<'_>, pannier_core::Error>) -> String {
    match result {
        Ok(selection) => {
            let placed: Vec<usize> = selection.indices().collect();
            format!("{placed:?} {:?}", selection.report())
        }
        Err(error) => error.to_string(),
    }
}

/// As [`describe`], without the items themselves.
fn accounted(result: Result<Selection<'_>, pannier_core::Error>) -> String {
    match result {
        Ok(selection) => format!("{:?}", Account::of(&selection)),
        Err(error) => error.to_string(),
    }
}

fn pinned_tokens(selection: &Selection<'_>) -> i64 {
    let report = selection.report();
    let pinned = report.included.iter().filter(|entry| entry.reason == InclusionReason::Pinned);
    pinned.map(|entry| entry.item.tokens()).sum()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_item_is_in_one_list(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            return Ok(());
        };
        let report = selection.report();
        let placed: Vec<usize> = selection.indices().collect();
        let included: Vec<usize> = report.included.iter().map(|e| e.index.unwrap()).collect();
        let excluded: Vec<usize> = report.excluded.iter().map(|e| e.index.unwrap()).collect();
        prop_assert_eq!(&placed, &included);

        let mut all = [included, excluded].concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..items.len()).collect::<Vec<_>>());
        prop_assert_eq!(report.total_candidates, items.len());
        let tokens: i64 = items.iter().map(ContextItem::tokens).sum();
        prop_assert_eq!(report.total_tokens_considered, tokens);
    }

    #[test]
    fn selections_keep_to_their_budget(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            return Ok(());
        };
        prop_assert!(selection.tokens() <= budget.max_tokens() - budget.output_reserve());
        match plan.overflow_strategy {
            OverflowStrategy::Throw => prop_assert!(selection.tokens() <= budget.target_tokens()),
            OverflowStrategy::Truncate => {
                let most = i64::max(budget.target_tokens(), pinned_tokens(&selection));
                prop_assert!(selection.tokens() <= most);
            }
            OverflowStrategy::Proceed => {
                let over = selection.tokens() - budget.target_tokens();
                let reported = selection.overflow().map(|event| event.tokens_over_budget);
                prop_assert_eq!(reported, (over > 0).then_some(over));
            }
        }
    }

    #[test]
    fn the_best_excluded_items_come_first(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            return Ok(());
        };
        for pair in selection.report().excluded.windows(2) {
            prop_assert!(oracle::descending(pair[0].score, pair[1].score).is_le());
        }
    }

    #[test]
    fn runs_repeat(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let once = describe(pipeline.run(&items, &budget));
        prop_assert_eq!(&describe(pipeline.run(&items, &budget)), &once);
        prop_assert_eq!(&describe(plan.build().run(&items, &budget)), &once);
    }

    #[test]
    fn groups_are_in_or_out_as_a_whole(
        plan in random_plans::pipeline(),
        items in pools::pool_with_groups(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            return Ok(());
        };
        let placed: Vec<usize> = selection.indices().collect();
        for (index, item) in items.iter().enumerate() {
            let Some(group) = item.group() else {
                continue;
            };
            let first = items.iter().position(|other| other.group() == Some(group)).unwrap();
            prop_assert_eq!(placed.contains(&index), placed.contains(&first));
        }
        if plan.keep_groups_together {
            for pair in placed.windows(2) {
                let group = items[pair[0]].group();
                if group.is_some() && group == items[pair[1]].group() {
                    prop_assert!(pair[0] < pair[1], "members stand in pool order");
                }
            }
            let mut groups: Vec<_> = placed.iter().map(|index| items[*index].group()).collect();
            groups.dedup();
            let mut runs: Vec<&str> = groups.into_iter().flatten().collect();
            let count = runs.len();
            runs.sort_unstable();
            runs.dedup();
            prop_assert_eq!(runs.len(), count, "members stand next to each other");
        }
    }

    #[test]
    fn equal_contents_stay_different_items(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let mut items = items;
        for (index, item) in items.iter_mut().enumerate() {
            item.content = ["one", "other"][index % 2].to_owned();
            item.id = Some(format!("item {index}"));
        }
        let plan = PipelinePlan { deduplication: false, ..plan };
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            return Ok(());
        };
        let report = selection.report();
        let included = report.included.iter().map(|entry| (entry.index, entry.item));
        let excluded = report.excluded.iter().map(|entry| (entry.index, entry.item));
        let mut ids = Vec::new();
        for (index, item) in included.chain(excluded) {
            prop_assert!(std::ptr::eq(item, &items[index.unwrap()]));
            ids.push(item.id().unwrap());
        }
        for (index, item) in selection.indices().zip(selection.items()) {
            prop_assert_eq!(item.id(), items[index].id());
        }
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), items.len());
    }

    /// Among their like, that is: it is no duplicate of an item without a group.
    #[test]
    fn groups_of_one_are_like_items(
        plan in random_plans::pipeline(),
        items in pools::pool(),
        budget in pools::budget(),
    ) {
        let mut grouped = items.clone();
        for (index, item) in grouped.iter_mut().enumerate() {
            item.group = Some(format!("group {index}"));
        }
        let (items, grouped) = (pools::build_all(&items), pools::build_all(&grouped));
        let pipeline = plan.build();
        prop_assert_eq!(
            accounted(pipeline.run(&grouped, &budget)),
            accounted(pipeline.run(&items, &budget))
        );
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn threads_agree(
        plan in random_plans::pipeline(),
        items in any_pool(),
        budget in pools::budget(),
    ) {
        let items = pools::build_all(&items);
        let pipeline = plan.build();
        let alone = describe(pipeline.run(&items, &budget));
        let run = || describe(pipeline.run(&items, &budget));
        let together: Vec<String> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for result in together {
            prop_assert_eq!(&result, &alone);
        }
    }

    /// Without a knapsack, whose table would be as large as the counts.
    #[test]
    fn counts_of_any_size_do_no_harm(
        plan in random_plans::pipeline(),
        slicer in prop_oneof![Just(SlicerPlan::Greedy), random_plans::count_quota()],
        items in any_pool(),
        tokens in vec(huge(), 40),
        limits in [huge(), huge(), huge(), huge()],
    ) {
        let mut items = items;
        for (item, tokens) in items.iter_mut().zip(tokens) {
            item.tokens = tokens;
        }
        let items = pools::build_all(&items);
        // Sums stop at the largest number, so a window as large as that has no limit.
        let [max, target, reserve, slot] = limits.map(|tokens| tokens.clamp(0, i64::MAX - 1));
        let budget = ContextBudget::builder(max, target.min(max))
            .output_reserve(reserve.min(max))
            .reserved_slot(ContextKind::MESSAGE, slot)
            .reserved_slot(ContextKind::DOCUMENT, slot)
            .estimation_safety_margin_percent(10.0)
            .build()
            .unwrap();
        let pipeline = PipelinePlan { slicer, ..plan }.build();
        if let Ok(selection) = pipeline.run(&items, &budget) {
            let tokens: i128 = selection.items().map(|item| i128::from(item.tokens())).sum();
            let window = budget.max_tokens() - budget.output_reserve();
            prop_assert!(tokens <= i128::from(window));
            prop_assert_eq!(selection.report().total_candidates, items.len());
        }
    }
}

fn huge() -> impl Strategy<Value = i64> {
    let largest = i64::MAX;
    select(vec![i64::MIN, -1, 0, 1, 1 << 53, largest / 3, largest / 2, largest - 1, largest])
}
