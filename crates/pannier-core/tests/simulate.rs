//! What if: marginal items, and where policies differ.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use pannier_core::{item::*, place::*, slice::*, whatif::*, *};
use proptest::prelude::*;
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
fn c19_the_minimum_is_true_although_inclusion_comes_and_goes() {
    // c is in at 40-49, out at 50-99, in at 100-109, and in again from 150.
    let items = pool();
    let pipeline = pipeline().build();
    let sweep = pipeline.budget_sweep(&items, &budget(0), 0..=200).unwrap();
    assert_eq!(sweep[2], [40..=49, 100..=109, 150..=200]);
    let find = |index, ceiling| pipeline.find_min_budget_for(&items, &budget(0), index, ceiling);
    assert_eq!(find(2, 200), Ok(Some(40)));
    assert_eq!(find(1, 200), Ok(Some(50)));
    assert_eq!(find(0, 60), Ok(Some(60)));
    assert_eq!(find(0, 59), Err(Error::CeilingTooLow));
    assert_eq!(find(3, 200), Err(Error::NoSuchItem));
    assert_eq!(find(0, 59).unwrap_err().to_string(), "searchCeiling must be >= targetItem.Tokens");
}

#[test]
fn a_rendered_sweep_reaches_the_largest_budget_there_is() {
    let items = [item("a", 3, 0.5), item("b", 4, 0.4)];
    let pipeline = rendered(pipeline().build(), 2);
    let swept = pipeline.budget_sweep(&items, &budget(10), 0..=i64::MAX).unwrap();
    assert!(swept.iter().all(|ranges| ranges.last().is_some_and(|last| *last.end() == i64::MAX)));
    let first = pipeline.find_min_budget_for(&items, &budget(10), 0, i64::MAX).unwrap();
    // The text of an item may be shorter than its tokens say; a minimum is searched from those on.
    assert_eq!(first, swept[0].iter().cloned().flatten().find(|budget| *budget >= 3));
}

#[test]
fn a_sweep_reaches_the_largest_budget_there_is() {
    let sweep = pipeline().build().budget_sweep(&pool(), &budget(0), 140..=i64::MAX).unwrap();
    assert_eq!(sweep[2], [150..=i64::MAX]);
}

#[test]
fn c19_a_search_without_a_ceiling_ends() {
    let items = pool();
    for slicer in [
        Box::new(GreedySlice) as Box<dyn Slicer>,
        Box::new(KnapsackSlice::exact()),
        Box::new(KnapsackSlice::new(100).unwrap()),
        Box::new(KnapsackSlice::default()),
    ] {
        let pipeline = pipeline().slicer(slicer).build();
        let find = |items: &[ContextItem], ceiling| {
            pipeline.find_min_budget_for(items, &budget(0), 0, ceiling)
        };
        assert_eq!(find(&items, i64::MAX), find(&items, 10_000));
        let huge = [item("huge", i64::MAX, 0.5), item("small", 1, 0.1)];
        assert!(!matches!(find(&huge, i64::MAX), Ok(Some(0..=1_000_000))));
    }
}

#[test]
fn c19_counts_and_shares_are_guarded_unless_the_search_is_exhaustive() {
    let items = pool();
    let entry = CountQuotaEntry::new(kind("Message"), 1, 2).unwrap();
    let quota = QuotaSlice::new([], GreedySlice).unwrap();
    let counted = CountQuotaSlice::new([entry], quota, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline().slicer(counted).build();
    let guarded = pipeline.find_min_budget_for(&items, &budget(0), 2, 200).unwrap_err();
    assert_eq!(
        guarded.to_string(),
        "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and CountQuotaSlice produce \
         non-monotonic inclusion as budget changes shift allocations. Use a GreedySlice or \
         KnapsackSlice inner slicer for budget simulation."
    );
    let found = smallest(&pipeline, &items, &budget(0), 1, 50..=200);
    let is_in = |tokens| {
        let run = pipeline.run(&items, &budget(tokens));
        run.is_ok_and(|selection| selection.indices().any(|index| index == 1))
    };
    let smallest = found.unwrap();
    assert!(is_in(smallest) && !(50..smallest).any(is_in));
}

/// The smallest budget that selects an item, with enough steps to prove it.
fn smallest(
    pipeline: &Pipeline,
    items: &[ContextItem],
    base: &ContextBudget,
    index: usize,
    within: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let mut search = Search::new(Search::DEFAULT_STEPS);
    let prepared = pipeline.prepare(items).unwrap();
    match prepared.smallest_budget(base, index, within.clone(), &mut search).unwrap() {
        Found::At { tokens, is_proven } => {
            assert!(is_proven);
            Some(tokens)
        }
        Found::NotWithin { tried } => {
            assert_eq!(tried, within);
            None
        }
        _ => None,
    }
}

/// For each item, the budgets at which a run selects it, one run for each.
fn brute_force(
    pipeline: &Pipeline,
    items: &[ContextItem],
    base: impl Fn(i64) -> Result<ContextBudget, Error>,
    budgets: std::ops::RangeInclusive<i64>,
) -> Vec<Vec<i64>> {
    let mut at = vec![Vec::new(); items.len()];
    for tokens in budgets {
        let selection = base(tokens).and_then(|budget| pipeline.run(items, &budget));
        // A short form is not the item.
        let whole = |s: Selection<'_>| -> Vec<usize> {
            s.sent().filter(Sent::is_whole).map(|sent| sent.index).collect()
        };
        let selected = selection.map_or(Vec::new(), whole);
        selected.into_iter().for_each(|index| at[index].push(tokens));
    }
    at
}

/// Up to three quotas, some of which require or cap the same as others, and all of them together at most 100 %.
fn any_quotas() -> impl Strategy<Value = Vec<Quota>> {
    let percent = || prop::sample::select(vec![0.0, 7.0, 20.0, 33.3]);
    prop::collection::vec((percent(), prop_oneof![percent(), Just(66.7)]), 0..4).prop_map(
        |shares| {
            let kinds = ["Document", "Memory", "Message"].into_iter().map(kind);
            let quotas = kinds.zip(shares).map(|(kind, (require_percent, more))| Quota {
                kind,
                require_percent,
                cap_percent: require_percent + more,
            });
            quotas.collect()
        },
    )
}

fn tiers() -> TieredSlice {
    let documents = Tier { cap_percent: 40.0, ..Tier::new([kind("Document")]) };
    TieredSlice::new([documents]).unwrap()
}

fn any_item() -> impl Strategy<Value = ContextItem> {
    let group = prop::option::weighted(0.2, 0..3_u8);
    let title = prop::option::weighted(0.2, 1..6_i64);
    (0..12_u8, -1..30_i64, 0..6_u8, prop::bool::weighted(0.05), (group, title, 0..3_usize))
        .prop_map(|(content, tokens, score, pinned, (group, title, sort))| {
            let mut item = scored(&format!("item {content}"), tokens, f64::from(score) / 5.0)
                .kind(kind(["Message", "Document", "Memory"][sort]));
            if let Some(title) = title.filter(|title| *title < tokens) {
                item = item.form(FormName::SHORT, format!("{content}"), title);
            }
            let item = match group {
                Some(group) => item.group(format!("group {group}")),
                None => item,
            };
            let item = match content % 3 {
                0 => item,
                document => {
                    let (document, sequence) = (format!("{document}.md"), u64::from(content));
                    let range = 5 * sequence..5 * sequence + 6;
                    item.passage(&Passage { document: &document, sequence, range })
                }
            };
            item.pinned(pinned).build().unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sweep_is_a_run_at_every_budget(
        items in prop::collection::vec(any_item(), 0..12),
        slicer in 0..13_u8,
        reserve in 0..15_i64,
        slot in 0..10_i64,
        margin in prop_oneof![Just(0.0), Just(7.5), Just(50.0)],
        deduplication: bool,
        way in 0..RENDERINGS,
        quotas in any_quotas(),
    ) {
        let placer: Box<dyn Placer> = match slicer {
            0 | 6 => Box::new(SliceOrderPlacer),
            5 | 7 => Box::new(DocumentPlacer),
            _ => Box::new(ChronologicalPlacer),
        };
        let packing = match slicer {
            5 => Some(Packing::Greedy),
            6 => Some(Packing::Interleaved),
            7 => Some(Packing::ScoreWeighted),
            _ => None,
        };
        let slicer: Box<dyn Slicer> = match slicer {
            5 => Box::new(Packing::Greedy.slicer()),
            6 => Box::new(Packing::Interleaved.slicer()),
            7 => Box::new(Packing::ScoreWeighted.slicer().with_max_per_section(2)),
            0 => Box::new(GreedySlice),
            1 => Box::new(KnapsackSlice::exact()),
            2 => Box::new(KnapsackSlice::new(7).unwrap()),
            3 => Box::new(FillSlice::default()),
            4 => Box::new(QuotaSlice::new([], GreedySlice).unwrap()),
            8 => Box::new(QuotaSlice::new(quotas, GreedySlice).unwrap()),
            9 => Box::new(QuotaSlice::new(quotas, KnapsackSlice::exact()).unwrap()),
            10 => {
                let entry = CountQuotaEntry::new(kind("Document"), 1, 2).unwrap();
                let degrade = ScarcityBehavior::Degrade;
                Box::new(CountQuotaSlice::new([entry], GreedySlice, degrade).unwrap())
            }
            11 => Box::new(BestSlice),
            _ => Box::new(tiers()),
        };
        let mut builder = pipeline().slicer(slicer).placer(placer).deduplication(deduplication);
        if let Some(packing) = packing {
            builder = builder.layout(packing.layout(3));
        }
        let pipeline = rendered(builder.build(), way);
        let base = |tokens| {
            ContextBudget::builder(tokens, tokens)
                .output_reserve(reserve)
                .reserved_slot(kind("Memory"), slot)
                .estimation_safety_margin_percent(margin)
                .build()
        };
        let swept = pipeline.budget_sweep(&items, &base(1_000).unwrap(), 0..=160).unwrap();
        let expected = brute_force(&pipeline, &items, base, 0..=160);
        for (index, (ranges, expected)) in swept.iter().zip(&expected).enumerate() {
            let budgets: Vec<i64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(&budgets, expected, "item {}", index);
            prop_assert!(ranges.is_sorted_by(|a, b| *a.end() + 1 < *b.start()), "{:?}", ranges);
        }
        // The minimum for one item is the first of them that is not below its own tokens.
        if let Some(item) = items.first()
            && item.tokens() <= 160
        {
            let first = expected[0].iter().copied().find(|budget| *budget >= item.tokens());
            match pipeline.find_min_budget_for(&items, &base(1_000).unwrap(), 0, 160) {
                Ok(found) => prop_assert_eq!(found, first),
                Err(error) => prop_assert!(matches!(error, Error::NotMonotonic { .. }), "{}", error),
            }
            let from = item.tokens();
            prop_assert_eq!(smallest(&pipeline, &items, &base(1_000).unwrap(), 0, from..=160), first);
        }
    }

    #[test]
    fn what_few_steps_answer_is_true(
        items in prop::collection::vec(any_item(), 1..12),
        slicer in 0..5_u8,
        quotas in any_quotas(),
        steps in prop_oneof![0..3_000_u64, 0..30_000_u64],
        checks in prop::option::of(0..60_usize),
    ) {
        let slicer: Box<dyn Slicer> = match slicer {
            0 => Box::new(GreedySlice),
            1 => Box::new(KnapsackSlice::exact()),
            2 => Box::new(QuotaSlice::new(quotas, GreedySlice).unwrap()),
            3 => Box::new(tiers()),
            _ => Box::new(FillSlice::new(FillOrder::Turns).with_max_per_section(1)),
        };
        let pipeline = pipeline().slicer(slicer).build();
        let prepared = pipeline.prepare(&items).unwrap();
        let expected = brute_force(&pipeline, &items, |tokens| ContextBudget::new(tokens, tokens), 0..=160);
        let calls = AtomicUsize::new(0);
        let stop = || checks.is_some_and(|checks| calls.fetch_add(1, Ordering::Relaxed) >= checks);
        let limited = || {
            calls.store(0, Ordering::Relaxed);
            Search::new(steps).until(&stop)
        };
        let goes_on = || checks.is_some_and(|checks| calls.load(Ordering::Relaxed) > checks + 2);

        let swept = prepared.sweep(&budget(0), 0..=160, &mut limited());
        prop_assert!(!goes_on());
        prop_assert_eq!(*swept.budgets.start(), 0);
        for (ranges, expected) in swept.selected.iter().zip(&expected) {
            let budgets: Vec<i64> = ranges.iter().cloned().flatten().collect();
            let known = expected.iter().copied().filter(|budget| swept.budgets.contains(budget));
            prop_assert_eq!(budgets, known.collect::<Vec<_>>());
        }

        let found = prepared.smallest_budget(&budget(0), 0, 0..=160, &mut limited()).unwrap();
        prop_assert!(!goes_on());
        let is_in = |budget: i64| expected[0].contains(&budget);
        match found {
            Found::At { tokens, is_proven: true } => prop_assert_eq!(Some(&tokens), expected[0].first()),
            Found::At { tokens, .. } => {
                prop_assert!(is_in(tokens));
                prop_assert!(checks.is_some() || !is_in(tokens - 1));
            }
            Found::NotWithin { tried } => prop_assert!(!tried.into_iter().any(is_in)),
            _ => prop_assert!(expected[0].is_empty()),
        }
    }
}
