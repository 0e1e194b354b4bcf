//! Holds the engine against the specification's pseudocode, on random pools full of ties.

mod oracle;

use std::collections::BTreeSet;

use oracle::pipeline::Account;
use oracle::plan::{PipelinePlan, PlacerPlan, ScorerPlan, SlicerPlan};
use oracle::pools::{self, CandidatePlan, ItemPlan};
use oracle::{random_plans, scorers, slicers};
use pannier_core::item::{ScoredItem, SliceBudget};
use pannier_core::place::Placing;
use pannier_core::report::{CountRequirementShortfall, ExclusionReason};
use pannier_core::score::{Pool, ReflexiveScorer};
use pannier_core::slice::{
    Candidate, CountQuotaEntry, CountQuotaSlice, GreedySlice, Offers, ScarcityBehavior, Tally,
};
use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

/// As many percent of the cases that `PROPTEST_CASES` asks for, which are 256 if it does not.
fn percent_of_cases(percent: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: (config.cases * percent).div_ceil(100),
        failure_persistence: None,
        ..config
    }
}

/// Within the specification's tolerance; what is not a number equals itself.
fn close(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits()
        || (left - right).abs() <= 1e-9
        || (left.is_nan() && right.is_nan())
}

fn check_scores(plan: &ScorerPlan, items: &[ItemPlan]) -> TestCaseResult {
    let items = pools::build_all(items);
    let borrowed: Vec<&ContextItem> = items.iter().collect();
    let expected = scorers::scores(plan, &borrowed);
    let scores = Pool::new(&items).scores(&plan.build()).unwrap();
    prop_assert_eq!(scores.len(), expected.len());
    for (index, (score, expected)) in scores.iter().zip(&expected).enumerate() {
        prop_assert!(close(*score, *expected), "item {}: {} instead of {}", index, score, expected);
    }
    Ok(())
}

fn check_slices(
    plan: &SlicerPlan,
    candidates: &[CandidatePlan],
    budget: SliceBudget,
) -> TestCaseResult {
    let candidates: Vec<Candidate<'_>> = candidates.iter().map(CandidatePlan::build).collect();
    let expected = slicers::slice(plan, &candidates, budget);
    let slicer = plan.build();
    let offers = Offers::new(candidates.iter().copied());
    let mut tally = Tally::new(&offers, budget);
    let expected = match (slicer.slice(&mut tally), expected) {
        (Ok(()), Ok(expected)) => expected,
        (outcome, expected) => {
            // Messages, because kinds are equal in every spelling.
            let outcome = outcome.map_err(|error| error.to_string());
            let expected = expected.map_err(|error| error.to_string());
            prop_assert_eq!(outcome.err(), expected.err());
            return Ok(());
        }
    };
    let moves = tally.moves().iter();
    let taken: Vec<usize> = moves.map(|made| made.position as usize).collect();
    prop_assert_eq!(taken, expected.taken);
    prop_assert_eq!(tally.verdicts(), expected.verdicts);
    let spelled = |shortfalls: &[CountRequirementShortfall]| format!("{shortfalls:?}");
    prop_assert_eq!(spelled(tally.shortfalls()), spelled(&expected.shortfalls));
    Ok(())
}

fn check_pipeline(
    plan: &PipelinePlan,
    items: &[ItemPlan],
    budget: &ContextBudget,
) -> TestCaseResult {
    let items = pools::build_all(items);
    let expected = oracle::pipeline::run(plan, &items, budget);
    let pipeline = plan.build();
    let (selection, expected) = match (pipeline.run(&items, budget), expected) {
        (Ok(selection), Ok(expected)) => (selection, expected),
        (selection, expected) => {
            let selection = selection.map_err(|error| (error.to_string(), error));
            let expected = expected.map_err(|error| (error.to_string(), error));
            prop_assert_eq!(selection.err(), expected.err());
            return Ok(());
        }
    };
    let account = Account::of(&selection);
    let placed: Vec<usize> = account.included.iter().map(|entry| entry.0).collect();
    prop_assert_eq!(selection.indices().collect::<Vec<_>>(), placed);

    let included = |account: &Account| -> Vec<_> {
        let entries = account.included.iter();
        entries.map(|(index, _, reason)| (*index, *reason)).collect()
    };
    let excluded = |account: &Account| -> Vec<_> {
        let entries = account.excluded.iter();
        entries.map(|(index, _, reason)| (*index, reason.clone())).collect()
    };
    let scores = |account: &Account| -> Vec<f64> {
        let included = account.included.iter().map(|entry| entry.1);
        included.chain(account.excluded.iter().map(|entry| entry.1)).collect()
    };
    prop_assert_eq!(included(&account), included(&expected));
    prop_assert_eq!(excluded(&account), excluded(&expected));
    for (score, expected) in scores(&account).into_iter().zip(scores(&expected)) {
        prop_assert!(close(score, expected), "{} instead of {}", score, expected);
    }
    prop_assert_eq!(account.effective, expected.effective);
    prop_assert_eq!(account.total_candidates, expected.total_candidates);
    prop_assert_eq!(account.total_tokens_considered, expected.total_tokens_considered);
    prop_assert_eq!(account.stages, expected.stages);
    prop_assert_eq!(account.shortfalls, expected.shortfalls);
    prop_assert_eq!(account.overflow, expected.overflow);
    Ok(())
}

proptest! {
    #![proptest_config(percent_of_cases(200))]

    #[test]
    fn ranks(items in pools::pool()) {
        check_scores(&ScorerPlan::Recency, &items)?;
        check_scores(&ScorerPlan::Priority, &items)?;
    }

    #[test]
    fn kinds(items in pools::pool(), scorer in random_plans::kind_scorer()) {
        check_scores(&ScorerPlan::DefaultKind, &items)?;
        check_scores(&scorer, &items)?;
    }

    #[test]
    fn tags(
        items in pools::pool(),
        exact in random_plans::tag_scorer(),
        folded in random_plans::folded_tag_scorer(),
    ) {
        check_scores(&exact, &items)?;
        check_scores(&folded, &items)?;
    }

    #[test]
    fn frequency(items in pools::pool(), tagged in pools::tagged_pool(40)) {
        check_scores(&ScorerPlan::Frequency, &items)?;
        check_scores(&ScorerPlan::Frequency, &tagged)?;
    }

    #[test]
    fn hints(items in pools::pool()) {
        check_scores(&ScorerPlan::Reflexive, &items)?;
    }

    #[test]
    fn metadata(
        items in pools::pool(),
        trust in random_plans::trust_scorer(),
        key in random_plans::key_scorer(),
    ) {
        check_scores(&trust, &items)?;
        check_scores(&key, &items)?;
    }

    #[test]
    fn decay(items in pools::pool(), scorers in random_plans::decay_scorers()) {
        for scorer in &scorers {
            check_scores(scorer, &items)?;
        }
    }

    #[test]
    fn keywords(items in pools::pool_of_prose(), scorer in random_plans::keyword_scorer()) {
        check_scores(&scorer, &items)?;
    }

    #[test]
    fn queries(items in pools::pool_of_prose(), scorer in random_plans::lexical_scorer()) {
        check_scores(&scorer, &items)?;
    }

    #[test]
    fn nested_scorers(
        items in vec(pools::item(), 0..14),
        scorers in random_plans::nested_scorers(2),
    ) {
        for scorer in &scorers {
            check_scores(scorer, &items)?;
        }
    }

    #[test]
    fn explanations_have_the_scores_that_they_explain(
        items in pools::pool_of_prose(),
        scorers in random_plans::nested_scorers(1),
        keyword in random_plans::keyword_scorer(),
        lexical in random_plans::lexical_scorer(),
    ) {
        let items = pools::build_all(&items);
        let pool = Pool::new(&items);
        for plan in scorers.iter().chain([&keyword, &lexical]) {
            let scorer = plan.build();
            for (item, score) in pool.scores(&scorer).unwrap().into_iter().enumerate() {
                let explained = scorer.explain(&pool, item).unwrap().score;
                prop_assert!(explained.to_bits() == score.to_bits() || explained.is_nan() && score.is_nan());
            }
        }
    }

    #[test]
    fn greedy(candidates in pools::candidates(), budget in pools::slice_budget(400)) {
        check_slices(&SlicerPlan::Greedy, &candidates, budget)?;
    }

    #[test]
    fn knapsack(candidates in pools::candidates(), budget in pools::slice_budget(400)) {
        for bucket_size in [1, 7, 100] {
            check_slices(&SlicerPlan::Knapsack { bucket_size }, &candidates, budget)?;
        }
    }

    #[test]
    fn quota(
        slicer in random_plans::any_quota(),
        candidates in pools::candidates(),
        budget in pools::slice_budget(400),
    ) {
        check_slices(&slicer, &candidates, budget)?;
    }

    #[test]
    fn count_quota(
        slicer in random_plans::count_quota(),
        candidates in pools::candidates(),
        budget in pools::slice_budget(400),
    ) {
        check_slices(&slicer, &candidates, budget)?;
    }

    #[test]
    fn count_constrained_knapsack(
        slicer in random_plans::count_constrained_knapsack(),
        candidates in pools::candidates(),
        budget in pools::slice_budget(400),
    ) {
        check_slices(&slicer, &candidates, budget)?;
    }

    #[test]
    fn placers(candidates in pools::candidates()) {
        // In any order: pinned items stand in front with a score that others may exceed.
        let items = candidates.iter().map(|candidate| ScoredItem {
            item: &candidate.item,
            score: candidate.value,
        });
        let items: Vec<ScoredItem<'_>> = items.collect();
        for plan in [PlacerPlan::Chronological, PlacerPlan::UShaped, PlacerPlan::Rank] {
            let placings: Vec<Placing<'_>> = items.iter().copied().map(Placing::from).collect();
            let placed = plan.build().place(&placings).unwrap();
            let placed: Vec<usize> = placed.into_iter().map(|position| position as usize).collect();
            prop_assert_eq!(placed, oracle::placers::place(plan, &items));
        }
    }
}

proptest! {
    #![proptest_config(percent_of_cases(50))]

    #[test]
    fn frequency_in_large_pools(items in pools::tagged_pool(300)) {
        check_scores(&ScorerPlan::Frequency, &items)?;
    }

    #[test]
    fn knapsack_with_large_tables(
        candidates in pools::many_candidates(),
        budget in pools::slice_budget(6_000),
    ) {
        for bucket_size in [1, 7] {
            check_slices(&SlicerPlan::Knapsack { bucket_size }, &candidates, budget)?;
        }
    }
}

proptest! {
    #![proptest_config(percent_of_cases(400))]

    #[test]
    fn pipelines(
        plan in random_plans::pipeline(),
        items in pools::pool(),
        budget in pools::budget(),
    ) {
        check_pipeline(&plan, &items, &budget)?;
    }

    #[test]
    fn pipelines_with_groups(
        plan in random_plans::pipeline(),
        items in pools::pool_with_groups(),
        budget in pools::budget(),
    ) {
        check_pipeline(&plan, &items, &budget)?;
    }
}

/// G1 and G4: a group's kind is that of its best member, and all members carry the group's reason.
#[test]
fn a_capped_group_names_the_kind_that_is_capped() {
    let member = |content: &str, kind: ContextKind, hint: f64| {
        let builder = ContextItem::builder(content, 1).kind(kind).group("group");
        builder.future_relevance_hint(hint).build().unwrap()
    };
    let items =
        [member("best", ContextKind::DOCUMENT, 0.9), member("other", ContextKind::MESSAGE, 0.1)];
    let entry = CountQuotaEntry::new(ContextKind::DOCUMENT, 0, 0).unwrap();
    let slicer = CountQuotaSlice::new([entry], GreedySlice, ScarcityBehavior::Degrade).unwrap();
    let pipeline = Pipeline::builder(ReflexiveScorer).slicer(slicer).build();
    let selection = pipeline.run(&items, &ContextBudget::new(10, 10).unwrap()).unwrap();
    for entry in selection.report().excluded {
        let kind = "Document".to_owned();
        assert_eq!(entry.reason, ExclusionReason::CountCapExceeded { kind, cap: 0, count: 0 });
    }
}

/// Equality on pools in which nothing happens would say little.
#[test]
fn pools_lead_to_every_reason_and_every_error() {
    let mut runner = TestRunner::deterministic();
    let cases = (
        random_plans::pipeline(),
        prop_oneof![pools::pool(), pools::pool_with_groups()],
        pools::budget(),
    );
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for _ in 0..1_000 {
        let (plan, items, budget) = cases.new_tree(&mut runner).unwrap().current();
        let items = pools::build_all(&items);
        let account = match oracle::pipeline::run(&plan, &items, &budget) {
            Ok(account) => account,
            Err(error) => {
                let name = format!("{error:?}");
                seen.extend(name.split_whitespace().next().map(str::to_owned));
                continue;
            }
        };
        for (_, _, reason) in &account.included {
            seen.insert(reason.name().to_owned());
        }
        for (index, _, reason) in &account.excluded {
            let outcompeted =
                matches!(reason, ExclusionReason::BudgetExceeded { outcompeted: true, .. });
            let note = if outcompeted { ", outcompeted" } else { "" };
            let group = items[*index].group().map_or("", |_| " of a group");
            seen.insert(format!("{}{note}{group}", reason.name()));
        }
        let (_, merged, placed) = &account.stages[4];
        let notes = [
            ("truncated", placed < merged),
            ("overflow", account.overflow.is_some()),
            ("shortfall", !account.shortfalls.is_empty()),
        ];
        seen.extend(notes.iter().filter(|(_, is)| *is).map(|(note, _)| (*note).to_owned()));
    }
    let expected = [
        "BudgetExceeded",
        "BudgetExceeded of a group",
        "BudgetExceeded, outcompeted",
        "BudgetExceeded, outcompeted of a group",
        "CountCapExceeded",
        "CountCapExceeded of a group",
        "Deduplicated",
        "Deduplicated of a group",
        "GroupExcluded of a group",
        "NegativeTokens",
        "NegativeTokens of a group",
        "OverTarget",
        "OverWindow",
        "Pinned",
        "PinnedOverBudget",
        "PinnedOverride",
        "PinnedOverride of a group",
        "Scarcity",
        "Scored",
        "ZeroToken",
        "overflow",
        "shortfall",
        "truncated",
    ];
    assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
}
