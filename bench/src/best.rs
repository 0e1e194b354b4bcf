//! The best choice of forms, with headings, against greedy and the marginal fill.

use pannier_core::item::{ScoredItem, SliceBudget};
use pannier_core::layout::{Headings, SectionId};
use pannier_core::slice::{
    BestSlice, Candidate, FillOrder, FillSlice, GreedySlice, Offer, Offers, Tally,
};
use pannier_core::{ContextItem, Slicer};

use crate::measure::{mebibytes, median, peak_memory, show};
use crate::pools::Numbers;

const ITEMS: usize = 10_000;
const TARGET: i64 = 50_000;

pub(crate) fn run() {
    println!(
        "Best choice, {ITEMS} items, {TARGET} tokens. Values are shares of the proven bound.\n"
    );
    println!("{:>48} {:>11} {:>9} {:>9} {:>9}", "", "time", "value", "gap", "MiB");
    let random = |numbers: &mut Numbers| (20 + numbers.below(500) as i64, numbers.unit());
    let steps =
        |numbers: &mut Numbers| (20 + numbers.below(500) as i64, numbers.below(10) as f64 / 10.0);
    let by_tokens = |numbers: &mut Numbers| {
        let tokens = 20 + numbers.below(500) as i64;
        (tokens, tokens as f64 / 520.0)
    };
    for (name, forms, sections, next) in [
        ("4 forms", 4, 0, random as fn(&mut Numbers) -> (i64, f64)),
        ("4 forms, 500 sections", 4, 500, random),
        ("4 forms, scores in steps of 0.1", 4, 500, steps),
        ("4 forms, scores follow tokens", 4, 500, by_tokens),
        ("whole items, 500 sections", 1, 500, random),
        ("whole items, scores follow tokens", 1, 0, by_tokens),
    ] {
        let item = ContextItem::new("item", 1).expect("it is valid");
        let offers = pool(&item, forms, sections, next);
        let slicers: [(&str, &dyn Slicer); 3] = [
            ("greedy", &GreedySlice),
            ("marginal", &FillSlice::new(FillOrder::Marginal)),
            ("best", &BestSlice),
        ];
        let bound = {
            let tally = slice(&BestSlice, &offers);
            value(&offers, &tally) + tally.gap().expect("it is known")
        };
        for (slicer_name, slicer) in slicers {
            let tally = slice(slicer, &offers);
            let bytes = peak_memory(|| slice(slicer, &offers));
            let time = median(3, || slice(slicer, &offers));
            let share = 100.0 * value(&offers, &tally) / bound;
            let gap = tally.gap().map_or_else(String::new, |gap| format!("{gap:.4}"));
            println!(
                "{:>48} {:>11} {share:>7.3} % {gap:>9} {:>9.1}",
                format!("{name}: {slicer_name}"),
                show(time),
                mebibytes(bytes)
            );
        }
    }
    println!();
}

fn slice<'o, 'a>(slicer: &dyn Slicer, offers: &'o Offers<'a>) -> Tally<'o, 'a> {
    let mut tally = Tally::new(offers, SliceBudget::new(TARGET));
    slicer.slice(&mut tally).expect("it fits");
    tally
}

/// The value of what is taken, to four decimal places of each form.
fn value(offers: &Offers<'_>, tally: &Tally<'_, '_>) -> f64 {
    let positions = 0..offers.candidates().len();
    let taken = positions.filter_map(|position| offers.offer(position, tally.level(position)?));
    taken.map(|offer| (offer.value * 10_000.0).floor()).sum::<f64>() / 10_000.0
}

fn pool<'a>(
    item: &'a ContextItem,
    forms: usize,
    sections: u64,
    next: impl Fn(&mut Numbers) -> (i64, f64),
) -> Offers<'a> {
    let mut numbers = Numbers::new(7);
    let mut pool: Vec<(Candidate<'_>, Vec<Offer>)> = (0..ITEMS)
        .map(|_| {
            let (tokens, score) = next(&mut numbers);
            let section = match sections {
                0 => SectionId::NONE,
                sections => SectionId::new(numbers.below(sections) as u32),
            };
            let candidate = Candidate::from(ScoredItem { item, score });
            let whole = Candidate { tokens, section, ..candidate };
            let (mut shorter, mut worth) = (tokens, 1.0);
            let forms = (1..forms).map(|_| {
                shorter = (shorter as f64 * (0.2 + 0.6 * numbers.unit())) as i64;
                worth *= 0.4 + 0.5 * numbers.unit();
                Offer { tokens: shorter.max(1), value: score * worth, section }
            });
            (whole, forms.collect())
        })
        .collect();
    pool.sort_by(|a, b| b.0.score.total_cmp(&a.0.score));
    let headings: Vec<i64> = (0..sections).map(|_| 5 + numbers.below(20) as i64).collect();
    let (candidates, forms): (Vec<_>, Vec<_>) = pool.into_iter().unzip();
    Offers::new(candidates).with_forms(forms).with_headings(headings, Headings::Once)
}
