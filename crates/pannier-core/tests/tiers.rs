//! Tiers and short forms: what is taken whole, what is shortened, and that nothing is shortened without need.

mod support;

use std::sync::Arc;

use pannier_core::{item::*, layout::*, place::*, report::*, slice::*, whatif::*, *};
use pannier_layout::TextLayout;
use proptest::prelude::*;
use support::*;

fn task(content: &str, tokens: i64, score: f64, title_tokens: i64) -> ContextItem {
    let title = format!("title of {content}");
    scored(content, tokens, score)
        .kind(kind("task"))
        .form(FormName::SHORT, title, title_tokens)
        .build()
        .unwrap()
}

const SHORTENED: Verdict = Verdict::Taken(Level::new(1));

fn forty_percent() -> TieredSlice {
    let tasks = Tier { cap_percent: 40.0, ..Tier::new([kind("task")]) };
    TieredSlice::new([tasks]).unwrap()
}

fn forms(selection: &Selection<'_>) -> Vec<(String, bool)> {
    let contents = selection.items().map(|item| item.content().to_owned());
    contents.zip(selection.sent().map(|sent| !sent.is_whole())).collect()
}

#[test]
fn a_tier_over_its_cap_keeps_the_best_whole_and_the_titles_of_others() {
    let items = [
        task("one", 100, 0.9, 10),
        task("two", 100, 0.8, 10),
        task("three", 100, 0.7, 10),
        task("four", 300, 0.6, 10),
        scored("rest", 500, 0.1).build().unwrap(),
    ];
    let pipeline = pipeline().slicer(forty_percent()).placer(SliceOrderPlacer).build();
    // 400 for tasks, of which 320 may be whole: three of them, and the title of the last.
    let selection = pipeline.run(&items, &budget(1_000)).unwrap();
    let expected = ["one", "two", "three", "title of four", "rest"];
    assert_eq!(placed(&selection), expected);
    let report = selection.report();
    assert_eq!(report.included[3].reason, InclusionReason::Shortened);
    assert_eq!(report.included[3].item.original_tokens(), Some(300));
    assert_eq!((selection.tokens(), report.total_tokens_considered), (810, 1_100));
    // As soon as everything fits, the cap is nobody's business.
    let selection = pipeline.run(&items, &budget(1_100)).unwrap();
    assert_eq!(placed(&selection), ["one", "two", "three", "four", "rest"]);
}

#[test]
fn what_titles_do_not_need_goes_back_to_what_was_shortened() {
    // 80 of 100 for whole ones: the second does not fit that, and yet it fits what the titles leave.
    let items = [task("one", 60, 0.9, 5), task("two", 30, 0.8, 5), task("three", 90, 0.7, 5)];
    let slicer = TieredSlice::new([Tier::new([kind("task")])]).unwrap();
    let pipeline = pipeline().slicer(slicer).placer(SliceOrderPlacer).build();
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&selection), ["one", "two", "title of three"]);
    // With two tokens less it does not.
    let selection = pipeline.run(&items, &budget(94)).unwrap();
    assert_eq!(placed(&selection), ["one", "title of two", "title of three"]);
}

#[test]
fn an_explanation_of_a_shortened_item_says_what_makes_it_whole() {
    let items = [task("one", 100, 0.9, 10), task("two", 100, 0.8, 10), task("three", 90, 0.3, 10)];
    let slicer = TieredSlice::new([Tier::new([kind("task")])]).unwrap();
    let pipeline = pipeline().slicer(slicer).placer(SliceOrderPlacer).build();
    let answer = pipeline.explain(&items, &budget(150), 1).unwrap();
    let Decision::Included { reason, position, form } = answer.decision else { panic!() };
    assert_eq!((reason, position), (InclusionReason::Shortened, 1));
    assert_eq!(form.map(|form| (form.name, form.tokens)), Some((FormName::SHORT, 10)));
    let found = answer.smallest_budget.unwrap();
    assert!(found.is_proven && found.max_tokens > 150);
    for (tokens, is_whole) in [(found.max_tokens - 1, false), (found.max_tokens, true)] {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        assert_eq!(forms(&selection).contains(&("two".to_owned(), false)), is_whole, "{tokens}");
    }
    // With a better score it would be whole, and the one that is whole now would not.
    assert_eq!(answer.lost_to[0].item.content(), "one");
    let score = answer.smallest_score.unwrap();
    assert!(score > 0.9 && score < 0.91, "{score}");
}

#[test]
fn a_sweep_tells_where_items_are_whole() {
    let items = [
        task("one", 100, 0.9, 10),
        task("two", 70, 0.8, 10),
        task("three", 90, 0.3, 10),
        scored("rest", 40, 0.1).build().unwrap(),
    ];
    let pipeline = pipeline().slicer(forty_percent()).build();
    let base = budget(400);
    let swept = pipeline.budget_sweep(&items, &base, 0..=400).unwrap();
    for tokens in 1..=400 {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        for (index, ranges) in swept.iter().enumerate() {
            let mut sent = selection.sent().map(|sent| (sent.index, !sent.is_whole()));
            let is_whole = sent.any(|(other, is_short)| other == index && !is_short);
            let is_told = ranges.iter().any(|range| range.contains(&tokens));
            assert_eq!(is_told, is_whole, "{index} at {tokens}");
        }
    }
}

#[test]
fn everything_is_taken_as_soon_as_its_text_fits() {
    // Each is rounded up by itself: together they cost less than their parts.
    let words = ["a", "bb", "ccc", "dddd", "eeeee"];
    let items: Vec<ContextItem> = words
        .iter()
        .zip(1..)
        .map(|(word, score)| {
            let content = word.repeat(5);
            let tokens = content.len().div_ceil(4) as i64;
            let item = scored(&content, tokens, f64::from(score) / 10.0).kind(kind("task"));
            item.form(FormName::SHORT, "x", 1).build().unwrap()
        })
        .collect();
    let rendering = TextLayout::new(template("", "{content}", "", ""), Arc::new(BytesOverFour));
    let pipeline = pipeline().slicer(forty_percent()).build().with_layout(rendering);
    let whole = pipeline.run(&items, &budget(1_000)).unwrap();
    let needed = whole.ledger().sent();
    assert!(needed < sum(&items), "{needed}");
    let selection = pipeline.run(&items, &budget(needed)).unwrap();
    assert_eq!((selection.len(), selection.sent().all(|sent| sent.is_whole())), (5, true));
    let selection = pipeline.run(&items, &budget(needed - 1)).unwrap();
    assert!(selection.ledger().sent() < needed);
    assert!(!selection.sent().all(|sent| sent.is_whole()) || selection.len() < 5);
}

fn sum(items: &[ContextItem]) -> i64 {
    items.iter().map(ContextItem::tokens).sum()
}

#[test]
fn a_form_that_does_not_exist_is_not_taken() {
    struct Shortens;

    impl Slicer for Shortens {
        fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
            for position in 0..tally.candidates().len() {
                tally.take(position, Level::new(1));
                tally.commit(position, Level::new(1));
            }
            Ok(())
        }
    }

    let items = [task("one", 10, 0.9, 1), item("two", 10, 0.5)];
    let pipeline = pipeline().slicer(Shortens).build();
    assert_eq!(placed(&pipeline.run(&items, &budget(30)).unwrap()), ["title of one"]);
}

#[derive(Clone, Debug)]
struct TierPlan {
    /// Kind, tokens, tokens of the short form, score.
    candidates: Vec<(usize, i64, Option<i64>, i32)>,
    headings: [i64; 4],
    cap: f64,
    floor: f64,
    drop_worthless: bool,
    whole: f64,
    target: i64,
    committed: i64,
}

fn plans() -> impl Strategy<Value = TierPlan> {
    let candidate = (0..4_usize, 0..60_i64, prop::option::of(0..9_i64), 0..4_i32);
    let candidates = prop::collection::vec(candidate, 0..30);
    let percents = (0..=100_u32, 0..=50_u32, 0..=100_u32);
    let tokens = (0..900_i64, 0..200_i64);
    (candidates, prop::array::uniform4(0..6_i64), percents, any::<bool>(), tokens).prop_map(
        |(mut candidates, headings, (cap, floor, whole), drop_worthless, (target, committed))| {
            candidates.sort_by_key(|candidate| -candidate.3);
            let (cap, floor, whole) = (f64::from(cap), f64::from(floor), f64::from(whole));
            TierPlan { candidates, headings, cap, floor, drop_worthless, whole, target, committed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn budgets_hold_and_nothing_is_shortened_without_need(plan in plans()) {
        // The last kind is of no tier.
        let kinds = ["task", "decision", "learning", "other"].map(kind);
        let items: Vec<ContextItem> = plan
            .candidates
            .iter()
            .map(|(of, tokens, _, _)| {
                ContextItem::builder("text", *tokens).kind(kinds[*of].clone()).build().unwrap()
            })
            .collect();
        let candidates: Vec<Candidate<'_>> = items
            .iter()
            .zip(&plan.candidates)
            .map(|(item, (of, tokens, _, score))| Candidate {
                item,
                tokens: *tokens,
                score: f64::from(*score),
                value: f64::from(*score),
                section: SectionId::new(*of as u32),
            })
            .collect();
        let short_tokens: Vec<Option<i64>> = plan.candidates.iter().map(|candidate| candidate.2).collect();
        let short_forms = short_tokens.iter().map(|tokens| {
            tokens.map(|tokens| Offer { tokens, value: 0.0, section: SectionId::NONE })
        });
        let offers = Offers::new(candidates.iter().copied())
            .with_forms(short_forms)
            .with_headings(plan.headings.to_vec(), Headings::Once);
        let first = Tier { cap_percent: plan.cap, ..Tier::new([kinds[0].clone()]) };
        let second = Tier {
            floor_percent: plan.floor,
            drop_zero_score: plan.drop_worthless,
            ..Tier::new(kinds[1..3].iter().cloned())
        };
        let slicer = TieredSlice::new([first, second]).unwrap();
        let slicer = slicer.with_full_text_percent(plan.whole).unwrap();
        let whole_tokens = plan.target + plan.committed;
        let budget = SliceBudget { whole_tokens, ..SliceBudget::new(plan.target) };
        let mut tally = Tally::new(&offers, budget);
        slicer.slice(&mut tally).unwrap();
        let verdicts = tally.verdicts();

        // What a kind costs as it was taken, and what it would cost as a whole.
        let members_of: [Vec<usize>; 4] = std::array::from_fn(|of| {
            (0..candidates.len()).filter(|at| plan.candidates[*at].0 == of).collect()
        });
        let members = |of: usize| members_of[of].iter().copied();
        let used = |of: usize| -> i64 {
            let whole = members(of).filter(|at| verdicts[*at] == Verdict::WHOLE);
            let short = members(of).filter(|at| verdicts[*at] == SHORTENED);
            let heading = if whole.clone().next().is_some() { plan.headings[of] } else { 0 };
            heading
                + whole.map(|at| candidates[at].tokens).sum::<i64>()
                + short.map(|at| short_tokens[at].unwrap()).sum::<i64>()
        };
        let need = |of: usize| -> i64 {
            let heading = if members(of).next().is_some() { plan.headings[of] } else { 0 };
            heading + members(of).map(|at| candidates[at].tokens).sum::<i64>()
        };
        let all: i64 = (0..4).map(need).sum();
        if plan.target > 0 && all <= plan.target {
            prop_assert!(verdicts.iter().all(|verdict| *verdict == Verdict::WHOLE));
            return Ok(());
        }
        let cap = ((plan.cap / 100.0 * whole_tokens as f64).floor() as i64).min(plan.target);
        let mut left = plan.target;
        for (tier, share) in [(0..1, cap), (1..3, i64::MAX), (3..4, i64::MAX)] {
            let share = share.min(left);
            let spent: i64 = tier.clone().map(used).sum();
            prop_assert!(spent <= share || share <= 0 && spent == 0, "{spent} of {share}");
            let fits = tier.clone().map(need).sum::<i64>() <= share;
            for of in tier.clone() {
                let is_open = members(of).any(|at| verdicts[at] == Verdict::WHOLE);
                for at in members(of) {
                    let candidate = &candidates[at];
                    let heading = if is_open { 0 } else { plan.headings[of] };
                    let is_worthless = plan.drop_worthless && of != 0 && of != 3 && candidate.score <= 0.0;
                    match &verdicts[at] {
                        Verdict::Taken(Level::WHOLE) => prop_assert!(fits || !is_worthless),
                        Verdict::Taken(_) => {
                            prop_assert!(!fits && !is_worthless);
                            let more = candidate.tokens + heading - short_tokens[at].unwrap();
                            prop_assert!(more > share - spent, "{at} would fit: {more}");
                        }
                        Verdict::Excluded(_) => prop_assert!(is_worthless && !fits),
                        Verdict::Left { .. } => {
                            prop_assert!(!is_worthless || plan.target == 0);
                            if plan.target > 0 {
                                prop_assert!(candidate.tokens + heading > share - spent);
                                let is_shorter = |short: &i64| *short < candidate.tokens;
                                let short = short_tokens[at].filter(is_shorter);
                                let short = short.unwrap_or(i64::MAX);
                                prop_assert!(short > share - spent, "{at} has a title");
                            }
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
            }
            left -= spent;
        }
        // The best of the first tier are whole, as long as they fit the part that is theirs.
        let part = (plan.whole / 100.0 * cap as f64).floor() as i64;
        let mut total = plan.headings[0];
        let fit = members(0).take_while(|at| {
            total += candidates[*at].tokens;
            total <= part
        });
        for at in fit.filter(|_| plan.target > 0) {
            prop_assert_eq!(&verdicts[at], &Verdict::WHOLE);
        }
        // Tier after tier.
        let tier_of = |at: &usize| [0, 1, 1, 2][plan.candidates[*at].0];
        prop_assert!(taken(&tally).is_sorted_by_key(tier_of));
    }
}

#[test]
fn candidates_without_a_score_stay_if_everything_fits_exactly() {
    let items = [task("one", 50, 0.9, 5), task("none", 50, 0.0, 5)];
    let tier = Tier { drop_zero_score: true, ..Tier::new([kind("task")]) };
    let builder = || pipeline().slicer(TieredSlice::new([tier.clone()]).unwrap());
    assert_eq!(select(builder(), &items, 100).unwrap().len(), 2);
    assert_eq!(select(builder(), &items, 99).unwrap(), ["one"]);
}
