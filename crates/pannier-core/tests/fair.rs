//! `FairSlice`: shares of kinds, forms, and selections that only grow with the budget.

use pannier_core::{item::*, slice::*, *};
use proptest::prelude::*;

fn kinds() -> [ContextKind; 3] {
    [ContextKind::MESSAGE, ContextKind::MEMORY, ContextKind::DOCUMENT]
}

/// The kind and the tokens of each candidate, whole first, in order of score.
type Pool = Vec<(usize, Vec<i64>)>;

fn items(pool: &Pool) -> Vec<ContextItem> {
    let item = |(kind, tokens): &(usize, Vec<i64>)| {
        ContextItem::builder("x", tokens[0]).kind(kinds()[*kind].clone()).build().unwrap()
    };
    pool.iter().map(item).collect()
}

fn levels(pool: &Pool, slicer: &FairSlice, target: i64) -> Vec<Option<usize>> {
    let items = items(pool);
    let candidates = items.iter().enumerate().map(|(index, item)| Candidate {
        item,
        tokens: item.tokens(),
        score: -(index as f64),
        value: 1.0,
        section: layout::SectionId::NONE,
    });
    let form =
        |tokens: &i64| Offer { tokens: *tokens, value: 1.0, section: layout::SectionId::NONE };
    let forms = pool.iter().map(|(_, tokens)| tokens[1..].iter().map(form));
    let offers = Offers::new(candidates).with_forms(forms);
    let mut tally = Tally::new(&offers, SliceBudget::new(target));
    slicer.slice(&mut tally).unwrap();
    assert!(tally.remaining() >= 0);
    (0..pool.len()).map(|position| tally.level(position).map(|level| level.get())).collect()
}

fn slicer(weights: [f64; 3]) -> FairSlice {
    FairSlice::new(kinds().into_iter().zip(weights)).unwrap()
}

/// The tokens of the whole candidates of each kind.
fn whole_tokens(pool: &Pool, levels: &[Option<usize>]) -> [i64; 3] {
    let mut tokens = [0; 3];
    for ((kind, forms), level) in pool.iter().zip(levels) {
        tokens[*kind] += if *level == Some(0) { forms[0] } else { 0 };
    }
    tokens
}

fn pools() -> impl Strategy<Value = Pool> {
    let forms = prop::collection::btree_set(1_i64..60, 1..4);
    let forms = forms.prop_map(|forms| forms.into_iter().rev().collect::<Vec<_>>());
    prop::collection::vec((0..3_usize, forms), 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whole_candidates_stay_whole_at_every_larger_target(
        pool in pools(),
        weights in prop::array::uniform3(0_u8..5),
        percent in 0_u8..=100,
    ) {
        let slicer = slicer(weights.map(f64::from)).with_full_text_percent(percent.into()).unwrap();
        let mut before = vec![None; pool.len()];
        for target in 0..400 {
            let levels = levels(&pool, &slicer, target);
            for (level, before) in levels.iter().zip(&before) {
                prop_assert!(*before != Some(0) || *level == Some(0), "{target}: {levels:?}");
            }
            before = levels;
        }
        let all: i64 = pool.iter().map(|(_, forms)| forms[0]).sum();
        let is_everything = levels(&pool, &slicer, all.max(1)).iter().all(|level| *level == Some(0));
        prop_assert!(is_everything);
    }
}

#[test]
fn kinds_get_their_shares_and_what_others_leave() {
    let pool: Pool = (0..60).map(|index| (index % 2, vec![10])).collect();
    let full = |weights| slicer(weights).with_full_text_percent(100.0).unwrap();
    let tokens = |weights, target| whole_tokens(&pool, &levels(&pool, &full(weights), target));
    assert_eq!(tokens([60.0, 20.0, 20.0], 200), [150, 50, 0]);
    assert_eq!(tokens([1.0, 1.0, 0.0], 200), [100, 100, 0]);
    // A kind that is used up, and a kind of weight 0.
    assert_eq!(tokens([60.0, 20.0, 20.0], 500), [300, 200, 0]);
    assert_eq!(tokens([1.0, 0.0, 0.0], 350), [300, 50, 0]);
}

#[test]
fn the_best_is_shortened_rather_than_replaced() {
    let pool: Pool = vec![(0, vec![90, 20, 5]), (0, vec![10, 4]), (0, vec![50, 30, 5])];
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 50), [Some(1), Some(1), Some(2)]);
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 10), [Some(2), Some(1), None]);
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 120), [Some(0), Some(1), Some(2)]);
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 150), [Some(0), Some(0), Some(0)]);
    // All others get their shortest form before one gets a longer form.
    let pool: Pool = vec![(0, vec![90, 20, 5]); 3];
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 44), [Some(1), Some(2), Some(2)]);
    assert_eq!(levels(&pool, &slicer([1.0; 3]), 45), [Some(1), Some(1), Some(2)]);
}

#[test]
fn whole_candidates_exceed_their_part_if_all_others_have_their_longest_form() {
    let half = slicer([1.0; 3]).with_full_text_percent(50.0).unwrap();
    let pool: Pool = vec![(0, vec![30, 10]), (1, vec![30, 10])];
    assert_eq!(levels(&pool, &half, 40), [Some(0), Some(1)]);
    assert_eq!(levels(&pool, &half, 39), [Some(1), Some(1)]);
    let pool: Pool = vec![(0, vec![30, 10]), (0, vec![40, 20, 5])];
    assert_eq!(levels(&pool, &half, 34), [Some(1), Some(1)]);
    assert_eq!(levels(&pool, &half, 50), [Some(0), Some(1)]);
    // One without forms has no longer one.
    let pool: Pool = vec![(0, vec![30]), (1, vec![30, 10])];
    assert_eq!(levels(&pool, &half, 40), [Some(0), Some(1)]);
    assert_eq!(levels(&pool, &half, 39), [None, Some(1)]);
    // Kinds without a weight are last, also if they cost nothing.
    let pool: Pool = vec![(0, vec![30]), (1, vec![0])];
    assert_eq!(levels(&pool, &slicer([1.0, 0.0, 0.0]), 20), [None, None]);
}

#[test]
fn invalid_weights_are_an_error() {
    for weight in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(FairSlice::new([(ContextKind::MESSAGE, weight)]).is_err());
    }
    let twice = [(ContextKind::MESSAGE, 1.0), (ContextKind::MESSAGE, 1.0)];
    assert!(FairSlice::new(twice).is_err());
    assert!(FairSlice::default().with_full_text_percent(101.0).is_err());
}
