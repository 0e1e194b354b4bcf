//! The text itself keeps the budget.

mod support;

use std::sync::Arc;

use pannier_core::{item::*, layout::*, place::*, report::*, score::*, slice::*, *};
use pannier_layout::{Template, TextLayout};
use proptest::prelude::*;
use support::*;

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
        frame in prop::sample::select(vec![
            ("", "{content}", "\n\n", ""),
            ("", "{content}", "", ""),
            ("<<", "{content}", " | ", ">>"),
            ("long heading\n", "{content}", "\n", "\nend"),
            ("", "<{kind}>\n{content}", "\n", ""),
        ]),
        slicer in 0..3_usize,
        overflow in prop::sample::select(vec![OverflowStrategy::Throw, OverflowStrategy::Truncate, OverflowStrategy::Proceed]),
    ) {
        let counter = Groups(group);
        let template = template(frame.0, frame.1, frame.2, frame.3);
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
        let limit = match overflow {
            OverflowStrategy::Proceed => budget.input_tokens(),
            _ => budget.target_tokens().min(budget.input_tokens()),
        };
        // What the frame takes is taken off first, as a slot would be.
        let frame_tokens = match template.render(&pipeline.run(&[], &budget).unwrap()) {
            empty if empty.is_empty() => 0,
            frame => counter.count(&frame) as i64,
        };
        let reserved = ContextBudget::builder(tokens, tokens)
            .output_reserve(reserve)
            .reserved_slot(kind("Frame"), frame_tokens)
            .build();
        // And what stands around an item is a part of it.
        let framing = |item: &ContextItem| {
            let frame = template.item.to_string().replace("{content}", "").replace("{kind}", item.kind().as_str());
            (counter.count(&frame) + counter.count(&template.separator)) as i64
        };
        let framed: Vec<ContextItem> = items
            .iter()
            .map(|item| {
                let framed = scored(item.content(), item.tokens() + framing(item), item.future_relevance_hint().unwrap());
                let framed = framed.kind(item.kind().clone()).pinned(item.is_pinned());
                match item.group() {
                    Some(group) => framed.group(group),
                    None => framed,
                }
                .build()
                .unwrap()
            })
            .collect();
        let plain = pipeline.run(&framed, reserved.as_ref().unwrap_or(&budget));
        let is_pinned = |item: &ContextItem| {
            let same = |other: &ContextItem| other.group().is_some() && other.group() == item.group();
            item.is_pinned() || items.iter().any(|other| other.is_pinned() && same(other))
        };
        let rendering = TextLayout::new(template.clone(), Arc::new(Groups(group)));
        let pipeline = by_hint(slicer, overflow).into_builder().closing(Closing::DropOnly);
        let pipeline = pipeline.layout(rendering).build();
        let selection = match pipeline.run(&items, &budget) {
            Ok(selection) => selection,
            Err(Error::RequiredTextOverBudget { fixed_tokens, target_tokens }) => {
                // What is left is what cannot go.
                prop_assert_eq!(target_tokens, limit);
                prop_assert!(fixed_tokens > limit);
                let pinned = items.iter().filter(|item| is_pinned(item));
                let pinned: usize = pinned.map(|item| item.content().chars().count()).sum();
                prop_assert!(fixed_tokens >= (pinned / group) as i64);
                return Ok(());
            }
            // The items' own tokens do not fit, and neither do they with what stands around them.
            Err(_) => {
                prop_assert!(plain.is_err() || slicer == 2);
                return Ok(());
            }
        };
        let text = template.render(&selection);
        let count = counter.count(&text) as i64;
        prop_assert!(count <= limit, "{} of {}", count, limit);
        if overflow == OverflowStrategy::Proceed && count > budget.target_tokens() {
            let over = selection.overflow().map(|event| event.tokens_over_budget);
            prop_assert_eq!(over, Some(count - budget.target_tokens()));
        }

        // The lines add up, and say what was counted.
        let ledger = selection.ledger();
        prop_assert_eq!(ledger.sent(), count);
        prop_assert_eq!(ledger.items, selection.tokens());
        prop_assert_eq!(ledger.fixed, frame_tokens);
        prop_assert_eq!(
            ledger.window,
            ledger.output_reserve + ledger.slots + ledger.margin + ledger.fixed + ledger.framing + ledger.items + ledger.merge_adjustment + ledger.unused
        );

        // What left is the tail of the ranking, as little as is needed, and it says why.
        let Ok(plain) = plain else { return Ok(()) };
        let report = selection.report();
        prop_assert_eq!(report.ledger.as_ref(), Some(ledger));
        prop_assert_eq!(report.included.len() + report.excluded.len(), items.len());
        let left: Vec<usize> = report
            .excluded
            .iter()
            .filter(|entry| entry.reason.variant() == ExclusionVariant::RenderedOverBudget)
            .filter_map(|entry| entry.index)
            .collect();
        // Where counts are guaranteed, overflow handling goes by the items' own tokens.
        if slicer == 2 {
            return Ok(());
        }
        let mut expected: Vec<usize> = plain.indices().filter(|index| !left.contains(index)).collect();
        let found: Vec<usize> = selection.indices().collect();
        prop_assert_eq!(&found, &expected, "the rest keeps its order");
        if left.is_empty() {
            let over = counter.count(&template.render(&plain)) as i64 > limit;
            prop_assert!(!over);
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
    let counter = Arc::new(Counting(AtomicUsize::new(0)));
    let rendering =
        TextLayout::new(Template::default(), Arc::clone(&counter) as Arc<dyn TokenCounter>);
    let pipeline = pipeline().build().with_layout(rendering);
    let selection = pipeline.run(&items, &budget(10_000)).unwrap();
    assert!(selection.len() > 1_500, "{}", selection.len());
    assert!((8_500..=10_000).contains(&selection.ledger().sent()));
    assert!(counter.0.load(Ordering::Relaxed) < 40, "{:?}", counter.0);
}

fn text(template: Template, group: usize) -> TextLayout {
    TextLayout::new(template, Arc::new(Groups(group)))
}

#[test]
fn what_cannot_go_is_an_error_with_the_numbers() {
    let items =
        [scored("pinned text", 1, 0.5).pinned(true).build().unwrap(), item("other", 1, 0.5)];
    let pipeline = pipeline().build().with_layout(text(Template::default(), 4));
    let error = pipeline.run(&items, &budget(2)).unwrap_err();
    assert_eq!(error, Error::RequiredTextOverBudget { fixed_tokens: 3, target_tokens: 2 });
    assert_eq!(error.kind(), ErrorKind::BudgetNotMet);
}

#[test]
fn a_frame_is_taken_off_before_items_are_chosen() {
    // Without the frame, two would fit, and the better two would be taken; with it, there is room for one, and a
    // knapsack takes the one that is worth most.
    let items = [item("aaaa", 4, 0.6), item("bbbb", 4, 0.5), item("cccccccc", 8, 0.9)];
    let frame = template("1234567", "{content}", "", "");
    let pipeline = pipeline().slicer(KnapsackSlice::exact()).build().with_layout(text(frame, 1));
    let selection = pipeline.run(&items, &budget(16)).unwrap();
    assert_eq!(placed(&selection), ["aaaa", "bbbb"]);
    let ledger = selection.ledger();
    assert_eq!((ledger.fixed, ledger.items, ledger.merge_adjustment, ledger.unused), (8, 8, 0, 0));
}

#[test]
fn what_cannot_be_sent_is_out_and_says_by_which_rule() {
    struct NoFirst;

    impl Layout for NoFirst {
        fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
            let mut plan = Plan::default();
            let is_never = |item: &&ContextItem| item.content() == "never";
            let never = pool.items().iter().position(is_never);
            plan.rejected =
                never.map(|at| (at as u32, "it is never sent".into())).into_iter().collect();
            plan.not_first = (0..3).map(|index| (index, "it cannot be first".into())).collect();
            Ok(plan)
        }
    }

    let items = [
        item("one", 1, 0.5),
        scored("two", 1, 0.5).group("pair").build().unwrap(),
        item("three", 1, 0.5),
        item("four", 1, 0.5),
        scored("five", 1, 0.5).group("pair").build().unwrap(),
        item("never", 1, 0.9),
    ];
    let pipeline = pipeline().build().with_layout(NoFirst);
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&selection), ["four"]);
    // It is not measured, so the plan is the cost.
    assert_eq!(selection.ledger().sent(), 1);
    let report = selection.report();
    assert_eq!(
        excluded(&report),
        [
            ("one", "Refused: it cannot be first".to_owned()),
            ("two", "Refused: it cannot be first".to_owned()),
            ("three", "Refused: it cannot be first".to_owned()),
            ("five", "Refused: it cannot be first".to_owned()),
            ("never", "Refused: it is never sent".to_owned()),
        ]
    );
    // A pinned item is sent, whatever the rules, but it is not the first that the others need.
    let mut items = items.to_vec();
    items[0] = scored("one", 1, 0.5).pinned(true).build().unwrap();
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&selection), ["one", "four"]);
}

/// Counts how often a layout is asked to measure.
struct Measured(TextLayout, Arc<std::sync::atomic::AtomicU32>);

impl Layout for Measured {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        self.0.plan(pool)
    }

    fn measure(&self, items: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.measure(items, up_to)
    }
}

/// Records the most moves that a slice makes.
struct Moving(Box<dyn Slicer>, Arc<std::sync::atomic::AtomicUsize>);

impl Slicer for Moving {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.0.slice(tally)?;
        self.1.fetch_max(tally.moves().len(), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        self.0.properties()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_run_renders_at_most_4_plus_2_log2_of_its_moves(
        items in prop::collection::vec((1..40_usize, 0..3_i64, 0..100_u8, 0..8_u8, 0..3_u8), 1..60),
        tokens in 1..900_i64,
        tiered in any::<bool>(),
        group in 1..5_usize,
    ) {
        use std::sync::atomic::Ordering::Relaxed;

        let items: Vec<ContextItem> = items
            .into_iter()
            .map(|(length, wrong, score, title, sort)| {
                // Counts that are too low or too high make a plan that is far from the truth.
                let content = "x".repeat(length);
                let count = (length.div_ceil(group) as i64 * (wrong + 1) / 2).max(1);
                let item = scored(&content, count, f64::from(score) / 100.0);
                let item = item.kind(kind(["a", "b", "c"][usize::from(sort)]));
                if title == 0 { item } else { item.form(FormName::SHORT, "t", 1) }.build().unwrap()
            })
            .collect();
        let renderings = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let layout = Measured(
            TextLayout::new(template("<", "{content}", "\n", ">"), Arc::new(Groups(group))),
            Arc::clone(&renderings),
        );
        let builder = pipeline().deduplication(false).overflow_strategy(OverflowStrategy::Truncate);
        let tier = Tier { cap_percent: 40.0, ..Tier::new([kind("a")]) };
        let slicer: Box<dyn Slicer> = match tiered {
            true => Box::new(TieredSlice::new([tier, Tier::new([kind("b")])]).unwrap()),
            false => Box::new(FillSlice::default()),
        };
        let moves = Arc::new(std::sync::atomic::AtomicUsize::new(1));
        let slicer = Moving(slicer, Arc::clone(&moves));
        let pipeline = builder.slicer(slicer).layout(layout).build();
        let Ok(selection) = pipeline.run(&items, &budget(tokens)) else { return Ok(()) };
        prop_assert!(selection.ledger().sent() <= tokens);
        let moves = moves.load(Relaxed);
        prop_assert!(renderings.load(Relaxed) <= 4 + 2 * moves.ilog2(), "{} of {moves}", renderings.load(Relaxed));
    }
}
