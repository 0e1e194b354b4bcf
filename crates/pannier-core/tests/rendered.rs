//! The text itself keeps the budget.

mod support;

use pannier_core::*;
use proptest::prelude::*;
use support::*;

/// Counts characters in groups of so many, so that parts do not add up to the whole: short of it where a group
/// ends with its part, and beyond it where parts share one.
#[derive(Debug)]
struct Groups(usize);

impl TokenCounter for Groups {
    fn name(&self) -> &str {
        "groups"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        text.chars().count().div_ceil(self.0)
    }
}

fn template(before: &str, separator: &str, after: &str) -> Template {
    let mut template = Template::default();
    template.before = before.to_owned();
    template.separator = separator.to_owned();
    template.after = after.to_owned();
    template
}

fn by_hint(slicer: usize, overflow: OverflowStrategy) -> Pipeline {
    let builder = pipeline().overflow_strategy(overflow).deduplication(false);
    let entries = [CountQuotaEntry::new(kind("Message"), 2, 9).unwrap()];
    match slicer {
        0 => builder.slicer(GreedySlice).placer(UShapedPlacer),
        1 => builder.slicer(KnapsackSlice::exact()),
        _ => builder
            .slicer(CountQuotaSlice::new(entries, GreedySlice, ScarcityBehavior::Degrade).unwrap())
            .placer(RankPlacer),
    }
    .build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_text_is_never_over_its_target(
        items in prop::collection::vec(
            ("[a-c ]{1,12}", 0..=8_u8, any::<bool>(), prop::option::weighted(0.3, 0..3_u8), 0..12_u8),
            0..14,
        ),
        tokens in 0..60_i64,
        reserve in 0..10_i64,
        group in 1..5_usize,
        frame in prop::sample::select(vec![("", "\n\n", ""), ("", "", ""), ("<<", " | ", ">>"), ("long heading\n", "\n", "\nend")]),
        slicer in 0..3_usize,
        overflow in prop::sample::select(vec![OverflowStrategy::Throw, OverflowStrategy::Truncate, OverflowStrategy::Proceed]),
    ) {
        let counter = Groups(group);
        let template = template(frame.0, frame.1, frame.2);
        let items: Vec<ContextItem> = items
            .into_iter()
            .map(|(content, score, is_true, group, pin)| {
                // Some counts are true, some are too low.
                let tokens = if is_true { counter.count(&content) as i64 } else { 1 };
                let item = scored(&content, tokens, f64::from(score) / 8.0).pinned(pin == 0);
                match group {
                    Some(group) => item.group(format!("group {group}")),
                    None => item,
                }
                .build()
                .unwrap()
            })
            .collect();
        let Ok(budget) = ContextBudget::builder(tokens, tokens).output_reserve(reserve).build() else {
            return Ok(());
        };
        let pipeline = by_hint(slicer, overflow);
        let limit = budget.target_tokens().min(budget.input_tokens());
        let plain = pipeline.run(&items, &budget);
        let rendered = match pipeline.run_rendered(&items, &budget, &template, &counter) {
            Ok(rendered) => rendered,
            Err(Error::FixedOverBudget { fixed_tokens, target_tokens }) => {
                // What is left is what cannot go.
                let is_pinned = |item: &&ContextItem| {
                    item.is_pinned()
                        || items.iter().any(|other| {
                            other.is_pinned() && other.group().is_some() && other.group() == item.group()
                        })
                };
                prop_assert_eq!(target_tokens, limit);
                prop_assert!(fixed_tokens > limit);
                let pinned: Vec<&str> = items.iter().filter(is_pinned).map(ContextItem::content).collect();
                let least: usize = pinned.iter().map(|content| content.chars().count()).sum();
                prop_assert!(fixed_tokens >= (least / group) as i64);
                return Ok(());
            }
            Err(error) => {
                prop_assert_eq!(plain.map(|_| ()).unwrap_err(), error);
                return Ok(());
            }
        };
        let plain = plain.unwrap();
        let count = counter.count(&rendered.text) as i64;
        prop_assert_eq!(&rendered.text, &template.render(&rendered.selection));
        if overflow != OverflowStrategy::Proceed {
            prop_assert!(count <= limit, "{} of {}", count, limit);
        }

        // The lines add up, and say what was counted.
        let ledger = &rendered.ledger;
        prop_assert_eq!(ledger.rendered(), count);
        prop_assert_eq!(
            ledger.window,
            ledger.output_reserve + ledger.fixed + ledger.framing + ledger.items + ledger.joins + ledger.slack
        );

        // What left is the tail of the ranking, as little as is needed, and it says why.
        let report = rendered.selection.report();
        prop_assert_eq!(report.included.len() + report.excluded.len(), items.len());
        let left: Vec<usize> = report
            .excluded
            .iter()
            .filter(|entry| entry.reason.variant() == ExclusionVariant::RenderedOverBudget)
            .filter_map(|entry| entry.index)
            .collect();
        let mut expected: Vec<usize> = plain.indices().filter(|index| !left.contains(index)).collect();
        let found: Vec<usize> = rendered.selection.indices().collect();
        prop_assert_eq!(&found, &expected, "the rest keeps its order");
        if left.is_empty() {
            let over = counter.count(&template.render(&plain)) as i64 > limit;
            prop_assert!(!over || overflow == OverflowStrategy::Proceed);
        } else {
            expected.extend(&left);
            expected.sort_unstable();
            let mut before: Vec<usize> = plain.indices().collect();
            before.sort_unstable();
            prop_assert_eq!(expected, before);
            let lowest_kept = found.iter().filter(|index| {
                report.included.iter().any(|entry| entry.index == Some(**index) && entry.reason != InclusionReason::Pinned)
            });
            // Without groups, nothing that stays ranks below what left.
            if items.iter().all(|item| item.group().is_none()) {
                for kept in lowest_kept {
                    for gone in &left {
                        let score = |index: usize| items[index].future_relevance_hint().unwrap();
                        prop_assert!((score(*kept), usize::MAX - kept) > (score(*gone), usize::MAX - gone));
                    }
                }
            }
        }
    }
}

#[test]
fn counting_is_done_a_few_times_and_not_for_every_item() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counting(AtomicUsize);

    impl TokenCounter for Counting {
        fn name(&self) -> &str {
            "counting"
        }

        fn exactness(&self) -> Exactness {
            Exactness::Exact
        }

        fn count(&self, text: &str) -> usize {
            self.0.fetch_add(1, Ordering::Relaxed);
            text.len().div_ceil(4)
        }
    }

    let items: Vec<_> = (0..4_000_u32)
        .map(|i| item(&format!("item number {i:05}"), 4, f64::from(i % 101) / 101.0))
        .collect();
    let counter = Counting(AtomicUsize::new(0));
    let rendered = pipeline()
        .build()
        .run_rendered(&items, &budget(10_000), &Template::default(), &counter)
        .unwrap();
    assert!(rendered.selection.len() > 1_500, "{}", rendered.selection.len());
    assert!(rendered.ledger.rendered() <= 10_000 && rendered.ledger.rendered() > 9_990);
    assert!(counter.0.load(Ordering::Relaxed) < 40, "{:?}", counter.0);
}

#[test]
fn what_cannot_go_is_an_error_with_the_numbers() {
    let items =
        [scored("pinned text", 1, 0.5).pinned(true).build().unwrap(), item("other", 1, 0.5)];
    let error = pipeline()
        .build()
        .run_rendered(&items, &budget(2), &Template::default(), &Groups(4))
        .unwrap_err();
    assert_eq!(error, Error::FixedOverBudget { fixed_tokens: 3, target_tokens: 2 });
    assert_eq!(error.category(), ErrorCategory::BudgetNotMet);
}
