//! Fills with forms, headings, kept candidates and shares, against all choices there are.

mod support;

use std::collections::BTreeSet;

use pannier_core::{item::*, layout::*, slice::*, *};
use proptest::prelude::*;
use support::*;

const ORDERS: [FillOrder; 4] =
    [FillOrder::Score, FillOrder::Density, FillOrder::Marginal, FillOrder::Turns];

/// The tokens, score, section and kind of a whole candidate.
type Whole = (i64, u32, u32, usize);

/// The forms of a candidate, whole first: tokens, value and section.
type Forms = Vec<(i64, f64, u32)>;

#[derive(Clone, Debug)]
struct Small {
    candidates: Vec<(Forms, usize)>,
    headings: Vec<i64>,
    separator: i64,
    kept: Vec<u32>,
    shares: Vec<(f64, f64)>,
    max_per_section: Option<usize>,
}

impl Small {
    fn items(&self) -> Vec<ContextItem> {
        let item = |(forms, of): &(Forms, usize)| {
            ContextItem::builder("x", forms[0].0).kind(kinds()[*of].clone()).build().unwrap()
        };
        self.candidates.iter().map(item).collect()
    }

    fn section(&self, section: u32) -> SectionId {
        if self.headings.is_empty() { SectionId::NONE } else { SectionId::new(section) }
    }

    fn offers<'i>(&self, items: &'i [ContextItem]) -> Offers<'i> {
        let candidates = items.iter().zip(&self.candidates).map(|(item, (forms, _))| {
            let (tokens, score, section) = forms[0];
            Candidate { item, tokens, score, value: score, section: self.section(section) }
        });
        let offer = |(tokens, value, section): &(i64, f64, u32)| Offer {
            tokens: *tokens,
            value: *value,
            section: self.section(*section),
        };
        let forms = self.candidates.iter().map(|(forms, _)| forms[1..].iter().map(offer));
        Offers::new(candidates)
            .with_forms(forms)
            .with_headings(self.headings.clone(), Headings::Once)
            .with_separator(self.separator)
            .with_kept(self.kept.iter().copied())
    }

    fn slicer(&self, order: FillOrder) -> FillSlice {
        let shares = self.shares.iter().zip(kinds()).map(|((floor, cap), kind)| Share {
            kind,
            floor_percent: *floor,
            cap_percent: *cap,
        });
        let slicer = FillSlice::new(order).with_shares(shares).unwrap();
        match self.max_per_section {
            Some(max) => slicer.with_max_per_section(max),
            None => slicer,
        }
    }

    /// What a choice costs, counted at once.
    fn cost(&self, choice: &[Option<Level>]) -> i64 {
        let taken: Vec<(i64, f64, u32)> = self.taken(choice);
        let sections: BTreeSet<u32> = taken.iter().map(|form| form.2).collect();
        let headings = sections.iter().filter_map(|section| self.headings.get(*section as usize));
        let separators = self.separator * (taken.len() as i64 - 1).max(0);
        taken.iter().map(|form| form.0).sum::<i64>() + headings.sum::<i64>() + separators
    }

    fn value(&self, choice: &[Option<Level>]) -> f64 {
        self.taken(choice).iter().map(|form| form.1).sum()
    }

    fn taken(&self, choice: &[Option<Level>]) -> Vec<(i64, f64, u32)> {
        let forms = self.candidates.iter().zip(choice);
        forms.filter_map(|((forms, _), level)| Some(forms[level.as_ref()?.get()])).collect()
    }

    /// The value of the best choice there is, without shares.
    fn best_value(&self, target: i64) -> f64 {
        let mut choices = vec![vec![]];
        for (forms, _) in &self.candidates {
            let levels = (0..forms.len() as u8).map(|level| Some(Level::new(level)));
            let levels: Vec<Option<Level>> = levels.chain([None]).collect();
            let longer = |choice: Vec<Option<Level>>| {
                levels
                    .iter()
                    .map(move |level| [&choice[..], &[*level]].concat())
                    .collect::<Vec<_>>()
            };
            choices = choices.into_iter().flat_map(longer).collect();
        }
        let fitting = choices.iter().filter(|choice| self.cost(choice) <= target);
        fitting.map(|choice| self.value(choice)).fold(0.0, f64::max)
    }
}

/// `FillOrder::Marginal` without sections and limits, step by step.
impl Small {
    /// The forms after `current` on the upper hull: each time the one with the steepest rise, of several the longest.
    fn next_on_hull(&self, position: usize, current: Option<Level>) -> Option<Level> {
        let forms = &self.candidates[position].0;
        let (mut tokens, mut value, mut end) = (0, 0.0, forms.len());
        loop {
            let rise = |level: &usize| {
                let (width, height) =
                    (forms[*level].0 + self.separator - tokens, forms[*level].1 - value);
                density(height, width)
            };
            let longer = (0..end).filter(|level| forms[*level].1 > value);
            let next = longer.max_by(|a, b| rise(a).total_cmp(&rise(b)).then(b.cmp(a)))?;
            if current.is_none_or(|current| next < current.get()) {
                return Some(Level::new(next as u8));
            }
            (tokens, value, end) = (forms[next].0 + self.separator, forms[next].1, next);
        }
    }

    fn with(&self, choice: &[Option<Level>], position: usize, level: Level) -> Vec<Option<Level>> {
        let mut with = choice.to_vec();
        with[position] = Some(level);
        with
    }

    /// The longer forms of each candidate, longest first, with the gain of those that are taken.
    fn longer(&self, choice: &[Option<Level>]) -> Vec<Vec<(Level, Option<f64>)>> {
        let forms = self.candidates.iter().zip(choice);
        let longer = |((forms, _), current): (&(Forms, usize), &Option<Level>)| {
            let levels = 0..current.map_or(forms.len(), Level::get);
            let gain = |level: usize| current.map(|c| forms[level].1 - forms[c.get()].1);
            levels.map(|level| (Level::new(level as u8), gain(level))).collect()
        };
        forms.map(longer).collect()
    }

    fn take_steps(&self, mut choice: Vec<Option<Level>>, target: i64) -> Vec<Option<Level>> {
        let mut is_open = vec![true; choice.len()];
        loop {
            let step = |position: usize| {
                let (forms, current) = (&self.candidates[position].0, choice[position]);
                let next = self.next_on_hull(position, current).filter(|_| is_open[position])?;
                let (before, value) = current
                    .map_or((-self.separator, 0.0), |c| (forms[c.get()].0, forms[c.get()].1));
                let rise = density(forms[next.get()].1 - value, forms[next.get()].0 - before);
                Some((rise, position, next))
            };
            let steps = (0..choice.len()).filter_map(step);
            let Some((_, position, level)) =
                steps.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
            else {
                break;
            };
            let with = self.with(&choice, position, level);
            is_open[position] = self.cost(&with) <= target;
            choice = if is_open[position] { with } else { choice };
        }
        for is_enough in [|gain: f64| gain > 0.0, |gain: f64| gain == 0.0] {
            for position in 0..choice.len() {
                let longer = self.longer(&choice).swap_remove(position);
                let longer = longer.into_iter().filter(|(_, gain)| is_enough(gain.unwrap_or(1.0)));
                let mut with = longer.map(|(level, _)| self.with(&choice, position, level));
                choice = with.find(|with| self.cost(with) <= target).unwrap_or(choice);
            }
        }
        choice
    }

    fn marginal(&self, kept: &[Option<Level>], target: i64) -> Vec<Option<Level>> {
        let steps = self.take_steps(kept.to_vec(), target);
        // The best single form, the first of several.
        let mut single = kept.to_vec();
        for position in 0..kept.len() {
            for (level, _) in self.longer(kept).swap_remove(position) {
                let with = self.with(kept, position, level);
                let gain = self.value(&with) - self.value(kept);
                if self.cost(&with) <= target && gain > self.value(&single) - self.value(kept) {
                    single = with;
                }
            }
        }
        match self.value(&single) > self.value(&steps) {
            true => self.take_steps(single, target),
            false => steps,
        }
    }
}

fn density(value: f64, tokens: i64) -> f64 {
    if tokens <= 0 { f64::MAX } else { value / tokens as f64 }
}

fn kinds() -> [ContextKind; 3] {
    [ContextKind::MESSAGE, ContextKind::MEMORY, ContextKind::DOCUMENT]
}

fn levels(tally: &Tally<'_, '_>) -> Vec<Option<Level>> {
    (0..tally.candidates().len()).map(|position| tally.level(position)).collect()
}

fn slice<'o, 'a>(slicer: &FillSlice, offers: &'o Offers<'a>, target: i64) -> Tally<'o, 'a> {
    let mut tally = Tally::new(offers, SliceBudget::new(target));
    slicer.slice(&mut tally).unwrap();
    tally
}

/// Candidates in order of score, with up to `forms` forms below the whole, in up to three sections.
fn small(max_forms: usize, max_sections: usize) -> impl Strategy<Value = Small> {
    // Eighths of a score are exact, so that equal values per token are equal numbers.
    let form = (1_i64..25, 0_u32..=8);
    let candidate =
        ((0_i64..40, 0_u32..=20, 0..3_u32, 0..3_usize), prop::collection::vec(form, 0..=max_forms));
    let shares = prop::collection::vec((0_u8..=33, 0_u8..=60), 0..=3);
    (
        prop::collection::vec(candidate, 0..=8),
        prop::collection::vec(0_i64..15, max_sections..=max_sections),
        0_i64..3,
        prop::collection::vec(0_u32..8, 0..2),
        shares,
        prop::option::of(1_usize..4),
    )
        .prop_map(|(mut candidates, headings, separator, kept, shares, max_per_section)| {
            candidates.sort_by_key(|((_, score, ..), _)| std::cmp::Reverse(*score));
            let candidate = |((tokens, score, section, kind), forms): (Whole, Vec<(i64, u32)>)| {
                let whole: (i64, f64, u32) = (tokens, f64::from(score), section);
                let mut shorter: Vec<(i64, f64, u32)> = forms
                    .into_iter()
                    .map(|(less, worth)| {
                        (whole.0 - less, whole.1 * f64::from(worth) / 8.0, whole.2)
                    })
                    .filter(|form| form.0 > 0)
                    .collect();
                shorter.sort_by_key(|form| std::cmp::Reverse(form.0));
                shorter.dedup_by_key(|form| form.0);
                ([vec![whole], shorter].concat(), kind)
            };
            let shares = shares.into_iter().map(|(floor, more)| {
                (f64::from(floor), f64::from(floor.saturating_add(more).min(100)))
            });
            Small {
                candidates: candidates.into_iter().map(candidate).collect(),
                headings,
                separator,
                kept,
                shares: shares.collect(),
                max_per_section,
            }
        })
}

fn small_any() -> impl Strategy<Value = Small> {
    (0_usize..=3, 0_usize..=1).prop_flat_map(|(forms, sections)| small(forms, sections * 3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_fill_keeps_its_limits_and_strands_nothing_that_fits(pool in small_any(), target in 1_i64..120) {
        let items = pool.items();
        let offers = pool.offers(&items);
        let kept: Vec<Option<Level>> = levels(&Tally::new(&offers, SliceBudget::new(target)));
        for order in ORDERS {
            let tally = slice(&pool.slicer(order), &offers, target);
            let choice = levels(&tally);
            prop_assert!(pool.cost(&choice) <= target || choice == kept, "{:?} over {}", choice, target);
            for position in offers.kept() {
                prop_assert!(choice[*position as usize].is_some());
            }
            let used = |choice: &[Option<Level>], of: usize| -> i64 {
                let of_kind = choice.iter().zip(&pool.candidates).map(|(level, (_, kind))| level.filter(|_| *kind == of));
                pool.taken(&of_kind.collect::<Vec<_>>()).iter().map(|form| form.0).sum()
            };
            let cap = |of: usize| pool.shares.get(of).map_or(i64::MAX, |share| (share.1 / 100.0 * target as f64).floor() as i64);
            for of in 0..3 {
                prop_assert!(used(&choice, of) <= cap(of).max(used(&kept, of)), "kind {of}");
            }
            let in_section = |choice: &[Option<Level>], section: u32| pool.taken(choice).iter().filter(|form| form.2 == section).count();
            if let (Some(max), false) = (pool.max_per_section, pool.headings.is_empty()) {
                prop_assert!((0..3).all(|section| in_section(&choice, section) <= max.max(in_section(&kept, section))));
            }
            for (position, (forms, of)) in pool.candidates.iter().enumerate() {
                let current = choice[position];
                for level in 0..current.map_or(forms.len(), Level::get) {
                    let mut more = choice.clone();
                    more[position] = Some(Level::new(level as u8));
                    let is_better = pool.value(&more) > pool.value(&choice) || current.is_none();
                    let is_capped = current.is_none() && !pool.headings.is_empty()
                        && pool.max_per_section.is_some_and(|max| in_section(&choice, forms[0].2) >= max);
                    let is_full = pool.shares.get(*of).is_some() && used(&more, *of) > cap(*of);
                    prop_assert!(!is_better || is_capped || is_full || pool.cost(&more) > target,
                        "{order:?} takes {choice:?} of {target}, and {position} fits at {level}");
                }
            }
        }
    }

    #[test]
    fn a_certificate_holds_at_every_smaller_target(pool in small_any()) {
        let items = pool.items();
        let offers = pool.offers(&items);
        for order in ORDERS {
            let slicer = pool.slicer(order);
            let mut last: Option<(Vec<Verdict>, i64, i64)> = None;
            for target in 0..140 {
                let tally = slice(&slicer, &offers, target);
                let is_taken: Vec<_> = tally.verdicts().iter().map(|verdict| if verdict.is_taken() { verdict.clone() } else { Verdict::Left { available_tokens: 0 } }).collect();
                if let Some((before, at, holds_below)) = &last && target < *holds_below {
                    prop_assert_eq!(before, &is_taken, "{:?} at {} holds below {}, but not at {}", order, at, holds_below, target);
                } else {
                    last = Some((is_taken, target, tally.holds_below()));
                }
            }
        }
    }

    #[test]
    fn marginal_is_worth_as_much_as_any_single_form_and_at_most_the_best(pool in small_any(), target in 1_i64..120) {
        let pool = Small { shares: Vec::new(), max_per_section: None, kept: Vec::new(), ..pool };
        let items = pool.items();
        let offers = pool.offers(&items);
        if offers.has_forms() || !pool.headings.is_empty() {
            let value = pool.value(&levels(&slice(&pool.slicer(FillOrder::Marginal), &offers, target)));
            prop_assert!(value <= pool.best_value(target) + 1e-9);
            for position in 0..items.len() {
                for level in 0..offers.levels(position) {
                    let mut single = vec![None; items.len()];
                    single[position] = Some(Level::new(level as u8));
                    prop_assert!(pool.cost(&single) > target || pool.value(&single) <= value + 1e-9);
                }
            }
        }
    }

    #[test]
    fn marginal_takes_the_steps_of_its_definition(pool in small(3, 0), target in 1_i64..150) {
        let pool = Small { shares: Vec::new(), max_per_section: None, ..pool };
        let items = pool.items();
        let offers = pool.offers(&items);
        if offers.has_forms() {
            let kept = levels(&Tally::new(&offers, SliceBudget::new(target)));
            let found = levels(&slice(&pool.slicer(FillOrder::Marginal), &offers, target));
            prop_assert_eq!(found, pool.marginal(&kept, target));
        }
    }

    #[test]
    fn without_forms_and_headings_marginal_and_density_are_greedy(pool in small(0, 0), target in 0_i64..150) {
        let pool = Small { shares: Vec::new(), max_per_section: None, ..pool };
        let items = pool.items();
        let offers = pool.offers(&items);
        let mut greedy = Tally::new(&offers, SliceBudget::new(target));
        GreedySlice.slice(&mut greedy).unwrap();
        for order in [FillOrder::Density, FillOrder::Marginal] {
            let tally = slice(&pool.slicer(order), &offers, target);
            prop_assert_eq!(tally.verdicts(), greedy.verdicts());
            prop_assert_eq!(tally.moves(), greedy.moves());
        }
    }
}

#[test]
fn marginal_prefers_what_a_token_brings() {
    // A stub of each, then the longer form that brings most: not the whole of the best.
    let forms = |score: f64, tokens: &[(i64, f64)]| -> (Forms, usize) {
        (tokens.iter().map(|(tokens, worth)| (*tokens, worth * score, 0)).collect(), 0)
    };
    let pool = Small {
        candidates: vec![
            forms(1.0, &[(100, 1.0), (20, 0.6), (2, 0.1)]),
            forms(0.9, &[(40, 1.0), (2, 0.1)]),
            forms(0.1, &[(100, 1.0), (2, 0.1)]),
        ],
        headings: Vec::new(),
        separator: 0,
        kept: Vec::new(),
        shares: Vec::new(),
        max_per_section: None,
    };
    let items = pool.items();
    let offers = pool.offers(&items);
    let level = |level| Some(Level::new(level));
    let at = |order, target| levels(&slice(&FillSlice::new(order), &offers, target));
    assert_eq!(at(FillOrder::Marginal, 64), [level(1), level(0), level(1)]);
    assert_eq!(at(FillOrder::Marginal, 4), [level(2), level(1), None]);
    assert_eq!(at(FillOrder::Score, 100), [level(0), None, None]);
    assert_eq!(at(FillOrder::Score, 130), [level(0), level(1), level(1)]);
    assert_eq!(at(FillOrder::Density, 64), [level(1), level(0), level(1)]);
}

#[test]
fn a_section_opens_for_its_best_candidates_together() {
    // Alone, none of the three brings as much as the single candidate; together they bring more.
    let mut candidates: Vec<(Forms, usize)> = vec![(vec![(20, 0.5, 1)], 0)];
    candidates.extend((0..3).map(|_| (vec![(5, 0.4, 0)], 0)));
    let pool = Small {
        candidates,
        headings: vec![10, 0],
        separator: 0,
        kept: Vec::new(),
        shares: Vec::new(),
        max_per_section: None,
    };
    let items = pool.items();
    let offers = pool.offers(&items);
    let is_taken = |offers: &Offers<'_>, target| -> Vec<bool> {
        let taken = levels(&slice(&FillSlice::new(FillOrder::Marginal), offers, target));
        taken.iter().map(Option::is_some).collect()
    };
    assert_eq!(is_taken(&offers, 30), [false, true, true, true]);
    // A heading of 40 makes them dearer than the single one.
    let dear = pool.offers(&items).with_headings([40, 0], Headings::Once);
    assert_eq!(is_taken(&dear, 75), [true, true, true, true]);
    assert_eq!(is_taken(&dear, 50), [true, false, false, false]);
}

#[test]
fn marginal_counts_what_a_step_adds_in_value_and_headings() {
    let take = |candidates: Vec<(Forms, usize)>, headings: &[i64], kept: &[u32], target| {
        let pool = Small {
            candidates,
            headings: headings.to_vec(),
            separator: 0,
            kept: kept.to_vec(),
            shares: Vec::new(),
            max_per_section: None,
        };
        let items = pool.items();
        let levels =
            levels(&slice(&FillSlice::new(FillOrder::Marginal), &pool.offers(&items), target));
        levels.into_iter().map(|level| level.map(Level::get)).collect::<Vec<_>>()
    };
    // The section opens at 1.0 of 25 tokens. Once it is open, its second member comes before the last one.
    let members = vec![(vec![(5, 0.5, 0)], 0), (vec![(10, 0.5, 0)], 0), (vec![(10, 0.35, 1)], 0)];
    assert_eq!(take(members, &[10, 0], &[], 25), [Some(0), Some(0), None]);
    // The whole of the first has a heading of its own, which its short form has not.
    let raised = vec![(vec![(20, 0.9, 1), (10, 0.5, 0)], 0), (vec![(20, 0.4, 0)], 0)];
    assert_eq!(take(raised, &[0, 30], &[], 50), [Some(1), Some(0)]);
    // A longer form competes with what it adds: 3 for 10 tokens, against 4 for 14.
    let longer = vec![(vec![(20, 10.0, 0), (10, 7.0, 0)], 0), (vec![(14, 4.0, 0)], 0)];
    assert_eq!(take(longer, &[], &[], 24), [Some(0), None]);
    // Of single forms, the second gains most. A kept one gains the difference.
    let kept =
        vec![(vec![(30, 0.9, 0), (5, 0.5, 0)], 0), (vec![(25, 0.6, 0)], 0), (vec![(1, 0.1, 0)], 0)];
    assert_eq!(take(kept, &[], &[0], 30), [Some(1), Some(0), None]);
}

#[test]
fn candidates_in_any_order_are_taken_by_score() {
    let items: Vec<ContextItem> = [0.1, 0.5, 0.9].map(|score| item("x", 5, score)).into();
    let score = |item: &ContextItem| item.future_relevance_hint().unwrap();
    let offers =
        Offers::new(items.iter().map(|item| ScoredItem { item, score: score(item) }.into()));
    assert_eq!(taken(&slice(&FillSlice::default(), &offers, 10)), [2, 1]);
    let one = CountQuotaEntry::new(ContextKind::MESSAGE, 1, 1).unwrap();
    let slicer = CountQuotaSlice::new([one], GreedySlice, ScarcityBehavior::Degrade).unwrap();
    let mut tally = Tally::new(&offers, SliceBudget::new(15));
    slicer.slice(&mut tally).unwrap();
    assert_eq!(taken(&tally), [2]);
}

#[test]
fn without_sections_documents_have_the_maximum() {
    let passage = |document: &str, sequence: u64| {
        let passage = Passage { document, sequence, range: 0..1 };
        scored(&format!("{document} {sequence}"), 5, 0.5).passage(&passage).build().unwrap()
    };
    let items = [passage("a", 0), passage("b", 0), passage("a", 1), item("other", 5, 0.4)];
    let pipeline = pipeline().slicer(FillSlice::default().with_max_per_section(1)).build();
    let selection = pipeline.run(&items, &budget(100)).unwrap();
    let mut indices: Vec<usize> = selection.indices().collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 3]);
}

#[test]
fn certificates_of_shares_follow_their_rounding() {
    let kinds = kinds();
    let share = |kind: usize, floor_percent, cap_percent| Share {
        kind: kinds[kind].clone(),
        floor_percent,
        cap_percent,
    };
    let holds_below = |shares: Vec<Share>, candidates: &[(usize, i64)], target| {
        let items: Vec<ContextItem> = candidates
            .iter()
            .map(|(kind, tokens)| {
                scored("x", *tokens, 0.5).kind(kinds[*kind].clone()).build().unwrap()
            })
            .collect();
        let offers = Offers::new(items.iter().map(|item| ScoredItem { item, score: 0.5 }.into()));
        let slicer = FillSlice::default().with_shares(shares).unwrap();
        let tally = slice(&slicer, &offers, target);
        (taken(&tally), tally.holds_below())
    };
    // 60 percent of 150 are 90. A float may be a token off.
    let capped = || vec![share(0, 0.0, 60.0)];
    assert_eq!(holds_below(capped(), &[(0, 90)], 100), (vec![], 149));
    let large = 1 << 40;
    assert_eq!(holds_below(capped(), &[(0, large)], large), (vec![], large + 1));
    // With one token more, both floors have one more, and none is left for the first candidate.
    let halves = vec![share(0, 50.0, 100.0), share(1, 50.0, 100.0)];
    assert_eq!(holds_below(halves, &[(2, 1), (0, 30), (1, 30)], 9), (vec![0], 10));
}

#[test]
fn a_floor_counts_against_what_is_available_after_the_heading() {
    let pool = Small {
        candidates: vec![(vec![(50, 0.9, 0)], 0), (vec![(40, 0.5, 1)], 1)],
        headings: vec![10, 0],
        separator: 0,
        kept: Vec::new(),
        shares: vec![(0.0, 100.0), (40.0, 100.0)],
        max_per_section: None,
    };
    let items = pool.items();
    let offers = pool.offers(&items);
    let verdict =
        |target| slice(&pool.slicer(FillOrder::Score), &offers, target).verdicts()[0].clone();
    assert_eq!(verdict(100), Verdict::WHOLE);
    // 39 are reserved for the other, and ten are for the heading.
    assert_eq!(verdict(99), Verdict::WHOLE);
    assert_eq!(verdict(98), Verdict::Left { available_tokens: 49 });
}

#[test]
fn a_floor_is_kept_free_and_released_if_nobody_can_use_it() {
    let [message, memory, _] = kinds();
    let share = |kind: &ContextKind, floor_percent, cap_percent| Share {
        kind: kind.clone(),
        floor_percent,
        cap_percent,
    };
    let item = |kind: &ContextKind, tokens, score| {
        scored(&format!("{kind} {score}"), tokens, score).kind(kind.clone()).build().unwrap()
    };
    let messages = (0..5).map(|i| item(&message, 30, 0.9 - f64::from(i) / 10.0));
    let items: Vec<ContextItem> = messages.chain([item(&memory, 25, 0.1)]).collect();
    let with = |shares: Vec<Share>| {
        let slicer = FillSlice::default().with_shares(shares).unwrap();
        let selection_of = |tokens| {
            let pipeline = pipeline().slicer(slicer.clone()).build();
            pipeline.run(&items, &budget(tokens)).unwrap().indices().collect::<Vec<_>>()
        };
        [100, 80].map(selection_of)
    };
    assert_eq!(with(vec![]), [vec![0, 1, 2], vec![0, 1]]);
    // With a target of 80, a quarter is not enough for the memory.
    assert_eq!(with(vec![share(&memory, 25.0, 100.0)]), [vec![0, 1, 5], vec![0, 1]]);
    assert_eq!(with(vec![share(&memory, 35.0, 100.0)]), [vec![0, 1, 5], vec![0, 5]]);
    // Nobody can use the floor below a cap of 20 tokens.
    assert_eq!(with(vec![share(&memory, 20.0, 20.0)]), [vec![0, 1, 2], vec![0, 1]]);
    assert_eq!(with(vec![share(&message, 0.0, 60.0)]), [vec![0, 1, 5], vec![0, 5]]);
    let pipeline = pipeline()
        .slicer(FillSlice::default().with_shares([share(&message, 0.0, 60.0)]).unwrap())
        .build();
    let report = pipeline.dry_run(&items, &budget(100)).unwrap();
    assert_eq!(
        report.excluded[0].reason.to_string(),
        "QuotaCapExceeded: kind Message would be at 90, its cap is 60"
    );
    let halves = [share(&message, 60.0, 100.0), share(&memory, 40.0, 100.0)];
    assert!(FillSlice::default().with_shares(halves).is_ok());
    for shares in [
        vec![share(&message, 60.0, 50.0)],
        vec![share(&message, 60.0, 100.0), share(&memory, 60.0, 100.0)],
        vec![share(&message, 0.0, 100.0), share(&message, 0.0, 100.0)],
        vec![share(&message, f64::NAN, 100.0)],
    ] {
        assert!(FillSlice::default().with_shares(shares).is_err());
    }
}
