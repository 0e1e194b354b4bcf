//! The terms of a query in results.

use pannier_text::{for_each_term, is_stop_word};
use xxhash_rust::xxh3::xxh3_64;

use super::density::STEPS;

/// Returns the hashes of a query's terms, ascending.
pub(super) fn query_terms(query: &str) -> Vec<u64> {
    let mut terms = Vec::new();
    for_each_term(query, 0, |term| {
        if !is_stop_word(term.text) {
            terms.push(xxh3_64(term.text.as_bytes()));
        }
    });
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// Returns, for each text, the share of a query's terms that it contains, in steps. Terms of fewer texts weigh more.
pub(super) fn query_shares<'t>(
    texts: impl ExactSizeIterator<Item = &'t str>,
    query: &[u64],
) -> Vec<i64> {
    if query.is_empty() {
        return vec![0; texts.len()];
    }
    let mut frequency = vec![0_i64; query.len()];
    let contained: Vec<Vec<bool>> = texts
        .map(|text| {
            let mut contained = vec![false; query.len()];
            for_each_term(text, 0, |term| {
                if let Ok(index) = query.binary_search(&xxh3_64(term.text.as_bytes())) {
                    contained[index] = true;
                }
            });
            for (frequency, is_contained) in frequency.iter_mut().zip(&contained) {
                *frequency += i64::from(*is_contained);
            }
            contained
        })
        .collect();
    let weights: Vec<i64> = frequency
        .iter()
        .map(|texts| if *texts == 0 { 0 } else { (STEPS * STEPS) / texts })
        .collect();
    let sum: i64 = weights.iter().sum();
    let share = |contained: &Vec<bool>| {
        let own = weights.iter().zip(contained).filter(|(_, is_contained)| **is_contained);
        STEPS * own.map(|(weight, _)| weight).sum::<i64>() / sum.max(1)
    };
    contained.iter().map(share).collect()
}
