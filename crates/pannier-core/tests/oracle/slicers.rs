//! Every slicer, over candidates in order of score.

use pannier_core::Error;
use pannier_core::item::SliceBudget;
use pannier_core::report::CountRequirementShortfall;
use pannier_core::slice::{Candidate, CountQuotaEntry, Quota, ScarcityBehavior, Verdict};

use super::plan::SlicerPlan;
use super::{descending, same_name};

/// What a slicer decided.
#[derive(Debug)]
pub(crate) struct Sliced {
    /// A verdict for every candidate.
    pub(crate) verdicts: Vec<Verdict>,
    /// The positions of those that were taken, in the slicer's own order.
    pub(crate) taken: Vec<usize>,
    pub(crate) shortfalls: Vec<CountRequirementShortfall>,
}

impl Sliced {
    /// Everything left, with nothing available.
    fn nothing(candidates: usize) -> Self {
        Self { verdicts: vec![left(0); candidates], taken: Vec::new(), shortfalls: Vec::new() }
    }

    fn take(&mut self, position: usize) {
        self.verdicts[position] = Verdict::WHOLE;
        self.taken.push(position);
    }
}

fn left(available_tokens: i64) -> Verdict {
    Verdict::Left { available_tokens }
}

pub(crate) fn slice(
    plan: &SlicerPlan,
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
) -> Result<Sliced, Error> {
    if candidates.is_empty() || budget.target_tokens <= 0 {
        return Ok(Sliced::nothing(candidates.len()));
    }
    match plan {
        SlicerPlan::Greedy => Ok(greedy(candidates, budget)),
        SlicerPlan::Knapsack { bucket_size } => Ok(knapsack(candidates, budget, *bucket_size)),
        SlicerPlan::Quota { quotas, inner } => quota(candidates, budget, quotas, inner),
        SlicerPlan::CountQuota { entries, inner, scarcity } => {
            let slicer = "CountQuotaSlice";
            count(slicer, candidates, budget, entries, *scarcity, |residual, budget| {
                slice(inner, residual, budget)
            })
        }
        SlicerPlan::CountConstrainedKnapsack { entries, bucket_size, scarcity } => {
            let slicer = "CountConstrainedKnapsackSlice";
            let inner = SlicerPlan::Knapsack { bucket_size: *bucket_size };
            count(slicer, candidates, budget, entries, *scarcity, |residual, budget| {
                let mut sliced = slice(&inner, residual, budget)?;
                sliced.taken.sort_by(|left, right| {
                    descending(residual[*left].score, residual[*right].score).then(left.cmp(right))
                });
                Ok(sliced)
            })
        }
    }
}

fn greedy(candidates: &[Candidate<'_>], budget: SliceBudget) -> Sliced {
    let mut densities = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        if candidate.tokens == 0 {
            densities.push((f64::MAX, position));
        } else {
            densities.push((candidate.value / candidate.tokens as f64, position));
        }
    }
    densities.sort_by(|left, right| descending(left.0, right.0).then(left.1.cmp(&right.1)));

    let mut sliced = Sliced::nothing(candidates.len());
    let mut remaining = budget.target_tokens;
    for (_, position) in densities {
        let tokens = candidates[position].tokens;
        if tokens <= remaining {
            sliced.take(position);
            remaining -= tokens;
        } else {
            sliced.verdicts[position] = left(remaining);
        }
    }
    sliced
}

fn knapsack(candidates: &[Candidate<'_>], budget: SliceBudget, bucket_size: i64) -> Sliced {
    let mut sliced = Sliced::nothing(candidates.len());
    let mut positions = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        if candidate.tokens == 0 {
            sliced.take(position);
        } else {
            positions.push(position);
        }
    }

    let capacity = (budget.target_tokens / bucket_size) as usize;
    let mut weights = Vec::new();
    let mut values = Vec::new();
    for position in &positions {
        let candidate = &candidates[*position];
        weights.push(((candidate.tokens + bucket_size - 1) / bucket_size) as usize);
        // The cast makes 0 of what is not a number, and the largest number of infinity.
        values.push(i128::from(i64::max(0, (candidate.value * 10_000.0).floor() as i64)));
    }

    let mut dp = vec![0; capacity + 1];
    let mut keep = vec![vec![false; capacity + 1]; positions.len()];
    for i in 0..positions.len() {
        for w in (weights[i]..=capacity).rev() {
            let with_item = dp[w - weights[i]] + values[i];
            if with_item > dp[w] {
                dp[w] = with_item;
                keep[i][w] = true;
            }
        }
    }

    let mut remaining_capacity = capacity;
    for i in (0..positions.len()).rev() {
        if keep[i][remaining_capacity] {
            sliced.take(positions[i]);
            remaining_capacity -= weights[i];
        }
    }

    let mut available_tokens = budget.target_tokens;
    for position in &sliced.taken {
        available_tokens -= candidates[*position].tokens;
    }
    for (position, candidate) in candidates.iter().enumerate() {
        if sliced.verdicts[position] == Verdict::WHOLE {
            continue;
        }
        sliced.verdicts[position] = if candidate.tokens <= available_tokens {
            Verdict::Outcompeted { available_tokens }
        } else {
            left(available_tokens)
        };
    }
    sliced
}

fn quota(
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
    quotas: &[Quota],
    inner: &SlicerPlan,
) -> Result<Sliced, Error> {
    let target_tokens = budget.target_tokens;
    let percent = |percent: f64| (percent / 100.0 * target_tokens as f64).floor() as i64;
    let quota_of = |kind: &str| quotas.iter().find(|quota| same_name(quota.kind.as_str(), kind));
    let require_of = |kind: &str| quota_of(kind).map_or(0, |quota| percent(quota.require_percent));
    let cap_of =
        |kind: &str| quota_of(kind).map_or(target_tokens, |quota| percent(quota.cap_percent));

    // Kinds in order of their first candidate.
    let mut partitions: Vec<(&str, Vec<usize>)> = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        let kind = candidate.item.kind().as_str();
        match partitions.iter_mut().find(|(other, _)| same_name(other, kind)) {
            Some((_, positions)) => positions.push(position),
            None => partitions.push((kind, vec![position])),
        }
    }
    let mass_of = |positions: &[usize]| -> i64 {
        positions.iter().map(|position| candidates[*position].tokens).sum()
    };

    let mut total_required = 0;
    for quota in quotas {
        total_required += percent(quota.require_percent);
    }
    let unassigned_budget = i64::max(0, target_tokens - total_required);
    let mut total_mass = 0;
    for (kind, positions) in &partitions {
        if cap_of(kind) > require_of(kind) {
            total_mass += mass_of(positions);
        }
    }

    let mut sliced = Sliced::nothing(candidates.len());
    for (kind, positions) in &partitions {
        let require = require_of(kind);
        let cap = cap_of(kind);
        let mut proportional = 0;
        if total_mass > 0 && cap > require {
            proportional = unassigned_budget * mass_of(positions) / total_mass;
        }
        let kind_budget = i64::min(require + proportional, cap);
        if kind_budget <= 0 {
            continue;
        }
        let sub_budget = SliceBudget { max_tokens: cap, target_tokens: kind_budget, ..budget };
        let selected = slice(inner, &at(candidates, positions), sub_budget)?;
        for position in selected.taken {
            sliced.taken.push(positions[position]);
        }
        for (position, verdict) in positions.iter().zip(selected.verdicts) {
            sliced.verdicts[*position] = verdict;
        }
        sliced.shortfalls.extend(selected.shortfalls);
    }
    Ok(sliced)
}

/// Both slicers that count: they differ in what fills the residual budget.
fn count<'a>(
    slicer: &'static str,
    candidates: &[Candidate<'a>],
    budget: SliceBudget,
    entries: &[CountQuotaEntry],
    scarcity: ScarcityBehavior,
    fill: impl Fn(&[Candidate<'a>], SliceBudget) -> Result<Sliced, Error>,
) -> Result<Sliced, Error> {
    let mut sliced = Sliced::nothing(candidates.len());
    // How many of the kind of each entry are selected.
    let mut selected_count = vec![0; entries.len()];
    let mut pre_allocated_tokens = 0;

    for (entry, count) in entries.iter().zip(&mut selected_count) {
        let mut of_kind: Vec<usize> = (0..candidates.len())
            .filter(|position| is_of_kind(&candidates[*position], entry))
            .collect();
        of_kind.sort_by(|left, right| {
            descending(candidates[*left].score, candidates[*right].score).then(left.cmp(right))
        });
        for position in of_kind {
            if *count < entry.require_count() {
                sliced.take(position);
                pre_allocated_tokens += candidates[position].tokens;
                *count += 1;
            }
        }
        if *count < entry.require_count() {
            if scarcity == ScarcityBehavior::Throw {
                return Err(Error::Scarcity {
                    slicer,
                    kind: entry.kind().clone(),
                    satisfied: *count,
                    required: entry.require_count(),
                });
            }
            sliced.shortfalls.push(CountRequirementShortfall {
                kind: entry.kind().clone(),
                required_count: entry.require_count(),
                satisfied_count: *count,
            });
        }
    }

    let residual: Vec<usize> = (0..candidates.len())
        .filter(|position| sliced.verdicts[*position] != Verdict::WHOLE)
        .collect();
    let residual_target = i64::max(0, budget.target_tokens - pre_allocated_tokens);
    let residual_budget =
        SliceBudget { target_tokens: i64::min(residual_target, budget.max_tokens), ..budget };
    let filled = fill(&at(candidates, &residual), residual_budget)?;
    for (position, verdict) in residual.iter().zip(filled.verdicts) {
        sliced.verdicts[*position] = verdict;
    }
    sliced.shortfalls.extend(filled.shortfalls);

    for position in filled.taken {
        let position = residual[position];
        let entry = entries.iter().position(|entry| is_of_kind(&candidates[position], entry));
        let Some(entry) = entry else {
            sliced.take(position);
            continue;
        };
        let count = selected_count[entry];
        let cap = entries[entry].cap_count();
        if count >= cap {
            sliced.verdicts[position] = Verdict::Capped { cap, count };
        } else {
            sliced.take(position);
            selected_count[entry] += 1;
        }
    }
    Ok(sliced)
}

fn is_of_kind(candidate: &Candidate<'_>, entry: &CountQuotaEntry) -> bool {
    same_name(candidate.item.kind().as_str(), entry.kind().as_str())
}

fn at<'a>(candidates: &[Candidate<'a>], positions: &[usize]) -> Vec<Candidate<'a>> {
    positions.iter().map(|position| candidates[*position]).collect()
}
