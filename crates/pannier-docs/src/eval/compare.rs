//! The difference between two runs over the same queries, with a bootstrap interval.

use std::collections::BTreeMap;

use serde::Serialize;

use super::QueryOutcome;

/// The number of resamples.
const RESAMPLES: usize = 2_000;
/// The seed of the resamples, so that equal runs have equal intervals.
const SEED: u64 = 21;

/// The difference of a measure between two runs, over the queries that both judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The measure, such as `gold_in_context at 800`.
    pub measure: String,
    /// The number of queries that both runs judged.
    pub queries: usize,
    /// The mean of the other run.
    pub before: f64,
    /// The mean of this run.
    pub after: f64,
    /// The limits that contain the difference in 95 of 100 resamples of the queries.
    pub interval: [f64; 2],
}

/// Compares the outcomes of this run with those of another. Measures without a common query are left out.
pub(super) fn compare(after: &[QueryOutcome], before: &[QueryOutcome]) -> Vec<Difference> {
    let before: BTreeMap<(&str, &str), &QueryOutcome> =
        before.iter().map(|outcome| (outcome.key(), outcome)).collect();
    let mut pairs: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for outcome in after {
        let Some(other) = before.get(&outcome.key()) else { continue };
        let others = other.measures();
        for (name, value) in outcome.measures() {
            if let (Some(value), Some(Some(other))) = (value, others.get(&name)) {
                pairs.entry(name).or_default().push((*other, value));
            }
        }
    }
    pairs.into_iter().map(|(measure, pairs)| Difference::new(measure, &pairs)).collect()
}

impl Difference {
    fn new(measure: String, pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len() as f64;
        let mean = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
        let differences: Vec<f64> = pairs.iter().map(|(before, after)| after - before).collect();
        let mut random = SEED;
        let mut resample = || {
            let drawn = (0..differences.len()).map(|_| {
                let index = (u128::from(next(&mut random)) * differences.len() as u128) >> 64;
                differences[index as usize]
            });
            drawn.sum::<f64>() / count
        };
        let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
        means.sort_by(f64::total_cmp);
        let interval = [means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]];
        let (before, after) = (mean(|pair| pair.0), mean(|pair| pair.1));
        Self { measure, queries: pairs.len(), before, after, interval }
    }
}

/// Returns the next number of a SplitMix64 sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(ndcgs: &[f64]) -> Vec<QueryOutcome> {
        let outcome = |(number, ndcg): (usize, &f64)| QueryOutcome {
            set: "set".to_owned(),
            query: number.to_string(),
            ndcg_at_10: Some(*ndcg),
            recall_at_100: Some(1.0),
            contexts: BTreeMap::new(),
        };
        ndcgs.iter().enumerate().map(outcome).collect()
    }

    #[test]
    fn an_interval_contains_the_difference_and_narrows_with_queries() {
        let values = |count: usize, gain: f64| -> Vec<f64> {
            (0..count).map(|i| (i % 7) as f64 / 10.0 + gain * f64::from(i % 2 == 0)).collect()
        };
        let width = |count| {
            let (before, after) = (outcomes(&values(count, 0.0)), outcomes(&values(count, 0.2)));
            let differences = compare(&after, &before);
            assert_eq!(compare(&after, &before), differences);
            assert_eq!(differences.len(), 2);
            let Difference { measure, queries, before, after, interval } = &differences[0];
            assert_eq!((measure.as_str(), *queries), ("ndcg_at_10", count));
            let difference = after - before;
            assert!((difference - 0.1).abs() < 1e-9, "{difference}");
            assert!(interval[0] < difference && difference < interval[1], "{interval:?}");
            assert_eq!(differences[1].interval, [0.0, 0.0]);
            interval[1] - interval[0]
        };
        assert!(width(1_000) < width(40) / 2.0);
        assert_eq!(compare(&outcomes(&[1.0]), &[]), []);
    }
}
