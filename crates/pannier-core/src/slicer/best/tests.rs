use std::cmp::Reverse;

use proptest::prelude::*;

use super::problem::{Choice, Relaxed, SHIFT, Section};
use super::*;
use crate::slicer::Move;
use crate::{Candidate, ContextItem, Level, Offer, Offers, ScoredItem, SliceBudget};

/// Forms as tokens and value on the integer scale, and the section of each candidate.
type Pool = Vec<(Vec<(i64, i64)>, u32)>;

fn pools(candidates: usize, forms: usize) -> impl Strategy<Value = Pool> {
    let form = (0_i64..25, prop_oneof![0_i64..12, 0_i64..1_000]);
    let candidate =
        (prop::collection::vec(form, 1..=forms), 0_u32..4).prop_map(|(mut forms, section)| {
            forms.sort_unstable_by_key(|(tokens, _)| Reverse(*tokens));
            forms.dedup_by_key(|(tokens, _)| *tokens);
            (forms, section)
        });
    prop::collection::vec(candidate, 0..=candidates)
}

/// Section 3 has no heading.
fn section(section: u32) -> SectionId {
    if section < 3 { SectionId::new(section) } else { SectionId::NONE }
}

fn offers<'a>(
    pool: &Pool,
    headings: [i64; 3],
    separator: i64,
    item: &'a ContextItem,
) -> Offers<'a> {
    let offer = |(tokens, value): &(i64, i64), of: u32| Offer {
        tokens: *tokens,
        value: (*value as f64 + 0.5) / SCALE,
        section: section(of),
    };
    let candidates = pool.iter().map(|(forms, of)| {
        let Offer { tokens, value, section } = offer(&forms[0], *of);
        let candidate = Candidate::from(ScoredItem { item, score: value });
        Candidate { tokens, value, section, ..candidate }
    });
    let forms = pool
        .iter()
        .map(|(forms, of)| forms[1..].iter().map(|form| offer(form, *of)).collect::<Vec<_>>());
    Offers::new(candidates)
        .with_forms(forms)
        .with_headings(headings.to_vec(), Headings::Once)
        .with_separator(separator)
}

/// The highest value of all combinations.
fn brute_force(pool: &Pool, headings: [i64; 3], separator: i64, target: i64) -> i64 {
    fn search(
        pool: &[(Vec<(i64, i64)>, u32)],
        headings: [i64; 3],
        separator: i64,
        remaining: i64,
    ) -> i64 {
        let Some(((forms, of), rest)) = pool.split_first() else { return 0 };
        let mut best = search(rest, headings, separator, remaining);
        for (tokens, value) in forms {
            let mut paid = headings;
            let heading = paid.get_mut(*of as usize).map_or(0, std::mem::take);
            let remaining = remaining - tokens - heading - separator;
            if remaining >= 0 {
                best = best.max(value + search(rest, paid, separator, remaining));
            }
        }
        best
    }
    search(pool, headings, separator, target + separator)
}

/// The dynamic program over all capacities, section after section.
fn textbook(pool: &Pool, headings: [i64; 3], separator: i64, target: i64) -> i64 {
    let capacity = (target + separator) as usize;
    let add = |best: &[i64], forms: &[(i64, i64)]| {
        let mut with = best.to_vec();
        for (tokens, value) in forms {
            let weight = (tokens + separator) as usize;
            for room in weight..=capacity {
                with[room] = with[room].max(best[room - weight] + value);
            }
        }
        with
    };
    let mut best = vec![0; capacity + 1];
    for of in 0..4 {
        let heading = headings.get(of as usize).map_or(0, |heading| *heading as usize);
        let mut open = vec![i64::MIN / 2; capacity + 1];
        if let Some(rest) = capacity.checked_sub(heading) {
            open[heading..].copy_from_slice(&best[..=rest]);
        }
        for (forms, _) in pool.iter().filter(|(_, section)| *section == of) {
            open = add(&open, forms);
        }
        best.iter_mut().zip(open).for_each(|(best, open)| *best = open.max(*best));
    }
    best[capacity]
}

fn best(offers: &Offers<'_>, target: i64) -> (i64, Option<f64>) {
    let mut tally = Tally::new(offers, SliceBudget::new(target));
    BestSlice.slice(&mut tally).unwrap();
    assert!(tally.remaining() >= 0);
    let nothing = Problem::new(&Tally::new(offers, SliceBudget::new(target)));
    (nothing.value_of(&tally), tally.gap())
}

proptest! {
    #[test]
    fn the_choice_is_the_best_of_all(
        pool in pools(8, 3),
        headings in [0_i64..15, 0_i64..15, 0_i64..15],
        separator in 0_i64..3,
        target in 1_i64..90,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let (value, gap) = best(&offers(&pool, headings, separator, &item), target);
        prop_assert_eq!(value, brute_force(&pool, headings, separator, target));
        prop_assert_eq!(gap, Some(0.0));
    }

    #[test]
    fn the_choice_is_the_textbooks(
        pool in pools(60, 4),
        headings in [0_i64..40, 0_i64..40, 0_i64..40],
        separator in 0_i64..3,
        target in 1_i64..600,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let (value, gap) = best(&offers(&pool, headings, separator, &item), target);
        prop_assert_eq!(value, textbook(&pool, headings, separator, target));
        prop_assert_eq!(gap, Some(0.0));
    }

    /// With few states, and from any start that is not better than the best.
    #[test]
    fn a_gap_is_an_upper_bound(
        pool in pools(40, 4),
        headings in [0_i64..40, 0_i64..40, 0_i64..40],
        target in 1_i64..400,
        start in 0.0..=1.0,
        max_states in 1_usize..40,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let offers = offers(&pool, headings, 1, &item);
        let problem = Problem::new(&Tally::new(&offers, SliceBudget::new(target)));
        let expected = textbook(&pool, headings, 1, target);
        let start = (expected as f64 * start) as i64;
        let solution = problem.solve(&problem.best_price(), start, max_states);
        prop_assert!(solution.value >= start && solution.value <= expected);
        prop_assert!(solution.bound >= expected, "{} < {}", solution.bound, expected);
        if let Some(choices) = solution.choices {
            let value: i64 = choices.iter().map(|choice| choice.value).sum();
            prop_assert_eq!(value, solution.value);
        }
    }

    #[test]
    fn few_states_take_no_less_than_the_marginal_fill(
        pool in pools(40, 4),
        headings in [0_i64..40, 0_i64..40, 0_i64..40],
        target in 1_i64..400,
        max_states in 1_usize..10,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let offers = offers(&pool, headings, 1, &item);
        let mut tally = Tally::new(&offers, SliceBudget::new(target));
        let (problem, mut marginal) = (Problem::new(&tally), tally.clone());
        BestSlice::slice_with(&mut tally, max_states).unwrap();
        FillSlice::new(FillOrder::Marginal).slice(&mut marginal).unwrap();
        let value = problem.value_of(&tally);
        prop_assert!(value >= problem.value_of(&marginal));
        let (expected, bound) =
            (textbook(&pool, headings, 1, target), (problem.best_price().bound >> SHIFT) as i64);
        let with_gap = value + (tally.gap().unwrap() * SCALE).round() as i64;
        prop_assert!((expected..=bound.max(expected)).contains(&with_gap), "{with_gap}");
    }

    /// The bound has one minimum, so it is enough to compare with the prices next to it.
    #[test]
    fn no_price_has_a_smaller_bound(
        pool in pools(20, 4),
        headings in [0_i64..40, 0_i64..40, 0_i64..40],
        target in 1_i64..300,
        other in 0_i64..1 << 30,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let offers = offers(&pool, headings, 1, &item);
        let problem = Problem::new(&Tally::new(&offers, SliceBudget::new(target)));
        let capacity = i128::from(problem.capacity);
        // The bound at a price, and the fewest tokens of a choice that attains it.
        let relax = |price: i64| {
            let price = i128::from(price);
            let (mut bound, mut tokens) = (price * capacity, 0);
            for section in &problem.sections {
                let best = section.classes.iter().filter_map(|class| {
                    let reduced = |choice: &Choice| {
                        let tokens = i128::from(choice.tokens);
                        ((i128::from(choice.value) << SHIFT) - price * tokens, -tokens)
                    };
                    problem.class(class).iter().map(reduced).chain([(0, 0)]).max()
                });
                let heading = i128::from(section.heading);
                let (gain, saved) = best.fold((-price * heading, -heading), |sum, best| {
                    (sum.0 + best.0, sum.1 + best.1)
                });
                if gain > 0 {
                    (bound, tokens) = (bound + gain, tokens - saved);
                }
            }
            (bound, tokens)
        };
        let price = problem.best_price();
        let next = [price.best - 1, price.best, price.best + 1, price.fitting, other, 0];
        for other in next.into_iter().filter(|price| *price >= 0) {
            let Relaxed { bound, tokens } = problem.relax(other);
            prop_assert_eq!((bound, tokens), relax(other));
            prop_assert!(price.bound <= bound, "{} at {}", bound, other);
        }
        prop_assert_eq!(price.bound, relax(price.best).0);
        let (bound, tokens) = relax(price.fitting);
        prop_assert!(tokens <= capacity);
        prop_assert!(price.fitting == 1 || relax(price.fitting - 1).1 > capacity);
        // The choices attain the bound.
        let choices = problem.fitting_choices(&price);
        let gains: i128 = choices.iter().map(|choice| choice.reduced(price.fitting)).sum();
        let mut used: i128 = choices.iter().map(|choice| i128::from(choice.tokens)).sum();
        let opens = |section: &&Section| {
            let of = |choice: &Choice| offers.candidates()[choice.position as usize].section;
            let first = section.classes.first().map(|class| of(&problem.class(class)[0]));
            choices.iter().any(|choice| Some(of(choice)) == first)
        };
        let headings = problem.sections[1..].iter().filter(opens);
        let headings: i128 = headings.map(|section| i128::from(section.heading)).sum();
        used += headings;
        let price = i128::from(price.fitting);
        prop_assert_eq!((price * (capacity - headings) + gains, used), (bound, tokens));
    }

    /// Decisions hold below the target that the tally certifies.
    #[test]
    fn a_certificate_holds(
        pool in pools(8, 3),
        headings in [0_i64..15, 0_i64..15, 0_i64..15],
        target in 1_i64..60,
    ) {
        let item = ContextItem::new("text", 1).unwrap();
        let offers = offers(&pool, headings, 1, &item);
        let slice = |target| {
            let mut tally = Tally::new(&offers, SliceBudget::new(target));
            BestSlice.slice(&mut tally).unwrap();
            let levels: Vec<_> = (0..pool.len()).map(|position| tally.level(position)).collect();
            (levels, tally.holds_below())
        };
        let (levels, holds_below) = slice(target);
        prop_assert!(holds_below > target);
        for larger in target..holds_below.min(target + 100) {
            prop_assert_eq!(&slice(larger).0, &levels);
        }
    }

    /// A slice that goes on takes the best of what is left, and proves nothing about the whole.
    #[test]
    fn going_on_takes_the_best_of_the_rest(
        pool in pools(6, 3),
        headings in [0_i64..15, 0_i64..15, 0_i64..15],
        taken in any::<prop::sample::Index>(),
        blocked in any::<prop::sample::Index>(),
        target in 1_i64..90,
    ) {
        if pool.is_empty() {
            return Ok(());
        }
        let item = ContextItem::new("text", 1).unwrap();
        let offers = offers(&pool, headings, 1, &item);
        let position = taken.index(pool.len());
        let mut tally = Tally::new(&offers, SliceBudget::new(target));
        tally.commit(position, Level::last(offers.levels(position)));
        if tally.remaining() < 0 {
            return Ok(());
        }
        let blocked = blocked.index(pool.len());
        tally.block(Move { position: blocked as u32, level: Level::WHOLE });
        let problem = Problem::new(&tally);
        BestSlice.slice(&mut tally).unwrap();
        prop_assert_eq!(tally.gap(), None);
        prop_assert!(tally.remaining() >= 0);
        // The others with their forms, and the longer forms of the one that is taken.
        let (tokens, value) = *pool[position].0.last().unwrap();
        let mut rest = pool.clone();
        rest[blocked].0.remove(0);
        let mut paid = headings;
        let heading = paid.get_mut(pool[position].1 as usize).map_or(0, std::mem::take);
        rest[position].1 = 3;
        let forms = rest[position].0.iter().map(|(t, v)| (t - tokens - 1, v - value));
        rest[position].0 = forms.filter(|(_, value)| *value > 0).collect();
        let remaining = target - tokens - heading;
        let expected = brute_force(&rest, paid, 1, remaining - 1);
        prop_assert_eq!(problem.value_of(&tally), expected);
    }
}

#[test]
fn the_marginal_fill_is_the_answer_if_no_known_choice_is_better() {
    let item = ContextItem::new("text", 1).unwrap();
    let pool = vec![(vec![(23, 29), (7, 14)], 0), (vec![(19, 32), (5, 16)], 2)];
    let offers = offers(&pool, [2, 6, 4], 1, &item);
    let mut tally = Tally::new(&offers, SliceBudget::new(26));
    let problem = Problem::new(&tally);
    BestSlice::slice_with(&mut tally, 1).unwrap();
    // Both short forms have 30.
    assert_eq!((problem.value_of(&tally), tally.gap()), (32, Some(0.0006)));
}

#[test]
fn the_choice_of_everything_holds_for_all_larger_targets() {
    let item = ContextItem::new("text", 1).unwrap();
    let pool = vec![(vec![(10, 5)], 0), (vec![(8, 4)], 1)];
    let offers = offers(&pool, [4, 4, 4], 0, &item);
    for (target, holds_below) in [(25, 26), (26, i64::MAX)] {
        let mut tally = Tally::new(&offers, SliceBudget::new(target));
        BestSlice.slice(&mut tally).unwrap();
        assert_eq!(tally.holds_below(), holds_below);
    }
}

#[test]
fn bounds_strike_most_states() {
    let item = ContextItem::new("text", 1).unwrap();
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((random >> 33) % limit) as i64
    };
    let pool: Pool = (0..300)
        .map(|_| {
            let (tokens, value) = (20 + below(80), 100 + below(900));
            (vec![(tokens, value), (tokens / 3, value / 2)], below(4) as u32)
        })
        .collect();
    let slice = |headings, target, max_states| {
        let offers = offers(&pool, headings, 1, &item);
        let mut tally = Tally::new(&offers, SliceBudget::new(target));
        BestSlice::slice_with(&mut tally, max_states).unwrap();
        (tally.steps(), tally.gap().unwrap())
    };
    let (low, high) = ([90, 60, 30], [900, 600, 300]);
    // Each has 16,800 to find the price.
    for (headings, target, max_steps) in [
        (low, 1_000, 41_000),
        (low, 2_000, 17_300),
        (low, 3_000, 17_000),
        (low, 5_000, 31_000),
        (low, 6_000, 52_000),
        (high, 2_000, 18_800),
        (high, 3_000, 19_100),
        (high, 5_000, 25_300),
    ] {
        let (steps, gap) = slice(headings, target, 2_500);
        assert!((16_800..=max_steps).contains(&steps), "{steps} at {target}");
        assert_eq!(gap, 0.0);
    }
    assert_eq!(slice(low, 1_000, 400).1, 0.0099);
}

#[test]
fn headings_at_every_change_and_forms_in_several_sections_have_no_gap() {
    let item = ContextItem::new("text", 1).unwrap();
    let pool = vec![(vec![(10, 5), (3, 2)], 0), (vec![(8, 4)], 1)];
    let at_every_change =
        offers(&pool, [4, 4, 4], 0, &item).with_headings([4, 4], Headings::AtEveryChange);
    assert_eq!(best(&at_every_change, 14), (5, None));
    let without_tokens = at_every_change.with_headings([0, 0], Headings::AtEveryChange);
    assert_eq!(best(&without_tokens, 14), (6, Some(0.0)));
    let stub = Offer { tokens: 3, value: 2.0 / SCALE, section: SectionId::new(1) };
    let in_both = offers(&pool, [4, 4, 4], 0, &item).with_forms([vec![stub], Vec::new()]);
    assert_eq!(best(&in_both, 14), (5, None));
    let without_tokens = in_both.with_headings([0, 0], Headings::Once);
    assert_eq!(best(&without_tokens, 14), (6, Some(0.0)));
    assert_eq!(best(&offers(&pool, [4, 4, 4], 0, &item), 14), (5, Some(0.0)));
}
