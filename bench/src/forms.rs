//! Fills with forms: by marginal value, against greedy over the whole items of the same pool.

use pannier_core::item::{ScoredItem, SliceBudget};
use pannier_core::layout::{Headings, SectionId};
use pannier_core::slice::{Candidate, FillOrder, FillSlice, GreedySlice, Offer, Offers, Tally};
use pannier_core::{ContextItem, Slicer};

use crate::measure::{mebibytes, peak_memory, ratio, show, side_by_side};
use crate::pools::Numbers;

const ITEMS: usize = 10_000;
const FORMS: u64 = 4;
const SECTIONS: u64 = 500;
const TARGET: i64 = 50_000;

pub(crate) fn run() {
    println!(
        "Forms, {ITEMS} items with {FORMS} forms, {TARGET} tokens, {SECTIONS} sections where there are any."
    );
    println!("Greedy takes whole items. Memory is the peak beyond the offers.\n");
    println!(
        "{:>24} {:>11} {:>11} {:>8} {:>8} {:>10} {:>10}",
        "", "marginal", "greedy", "ratio", "MiB", "value", "greedy"
    );
    for (name, forms, sections) in
        [("forms", FORMS, 0), ("sections", 0, SECTIONS), ("forms and sections", FORMS, SECTIONS)]
    {
        let mut numbers = Numbers::new(17);
        let items: Vec<ContextItem> = (0..ITEMS)
            .map(|i| {
                let tokens = 20 + numbers.below(500) as i64;
                ContextItem::new(format!("item {i}"), tokens).expect("it is valid")
            })
            .collect();
        let offers = offers(&items, &mut numbers, forms, sections);
        let slice = |slicer: &dyn Slicer| {
            let mut tally = Tally::new(&offers, SliceBudget::new(TARGET));
            slicer.slice(&mut tally).expect("it decides");
            tally
        };
        let marginal = FillSlice::new(FillOrder::Marginal);
        let value = |tally: &Tally<'_, '_>| -> f64 {
            let taken = (0..ITEMS).filter_map(|p| offers.offer(p, tally.level(p)?));
            taken.map(|offer| offer.value).sum()
        };
        let values = [value(&slice(&marginal)), value(&slice(&GreedySlice))];
        let bytes = peak_memory(|| slice(&marginal));
        let (time, greedy) = side_by_side(|| slice(&marginal), || slice(&GreedySlice));
        println!(
            "{name:>24} {:>11} {:>11} {:>8.1} {:>8.1} {:>10.1} {:>10.1}",
            show(time),
            show(greedy),
            ratio(time, greedy),
            mebibytes(bytes),
            values[0],
            values[1]
        );
    }
    println!();
}

/// Candidates in order of score, with forms of random lengths and a share of the value each, in random sections.
fn offers<'i>(
    items: &'i [ContextItem],
    numbers: &mut Numbers,
    forms: u64,
    sections: u64,
) -> Offers<'i> {
    let mut scored: Vec<ScoredItem<'i>> =
        items.iter().map(|item| ScoredItem { item, score: numbers.unit() }).collect();
    scored.sort_by(|one, two| two.score.total_cmp(&one.score));
    let candidates: Vec<Candidate<'i>> = scored
        .into_iter()
        .map(|scored| {
            let section = match sections {
                0 => SectionId::NONE,
                _ => SectionId::new(numbers.below(sections) as u32),
            };
            Candidate { section, ..scored.into() }
        })
        .collect();
    let shorter: Vec<Vec<Offer>> = candidates
        .iter()
        .map(|candidate| {
            let mut tokens = candidate.tokens;
            let mut value = candidate.value;
            let form = |_| {
                tokens = 1 + numbers.below(tokens.max(2) as u64 - 1) as i64;
                value *= 0.3 + 0.6 * numbers.unit();
                Offer { tokens, value, section: candidate.section }
            };
            (0..forms).map(form).collect()
        })
        .collect();
    let headings: Vec<i64> = (0..sections).map(|_| 5 + numbers.below(20) as i64).collect();
    Offers::new(candidates).with_forms(shorter).with_headings(headings, Headings::Once)
}
