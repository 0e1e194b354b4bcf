//! The six stages, one after another, over units: an item, or a group of items that go together.

use pannier_core::item::{OverflowStrategy, ScoredItem, SliceBudget};
use pannier_core::layout::SectionId;
use pannier_core::report::{CountRequirementShortfall, ExclusionReason, InclusionReason};
use pannier_core::slice::{Candidate, Verdict};
use pannier_core::{ContextBudget, ContextItem, Error, Selection};

use super::plan::{PipelinePlan, PlacerPlan, ScorerPlan, SlicerPlan};
use super::{descending, placers, scorers, slicers};

/// Everything a run has to say, with items named by their index in the pool.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// What the slicer could spend.
    pub(crate) effective: SliceBudget,
    /// In the order they are placed.
    pub(crate) included: Vec<(usize, f64, InclusionReason)>,
    pub(crate) excluded: Vec<(usize, f64, ExclusionReason)>,
    pub(crate) total_candidates: usize,
    pub(crate) total_tokens_considered: i64,
    /// How many items entered and left each stage.
    pub(crate) stages: Vec<(String, usize, usize)>,
    /// The kind, how many were required and how many there were.
    pub(crate) shortfalls: Vec<(String, usize, usize)>,
    pub(crate) overflow: Option<Overflow>,
}

/// How far a selection is over its target, and what it holds.
type Overflow = (i64, Vec<usize>);

/// Stages in which items are excluded, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Classify,
    Deduplicate,
    Slice,
    Place,
}

/// Items that go together, in pool order.
#[derive(Clone, Debug)]
struct Unit {
    group: Option<String>,
    members: Vec<usize>,
}

impl Unit {
    fn tokens(&self, items: &[ContextItem]) -> i64 {
        self.members.iter().map(|index| items[*index].tokens()).sum()
    }

    /// The member with the highest score, the first of them on ties.
    fn best(&self, scores: &[f64]) -> usize {
        let mut best = self.members[0];
        for index in &self.members {
            if descending(scores[*index], scores[best]).is_lt() {
                best = *index;
            }
        }
        best
    }

    fn value(&self, scores: &[f64]) -> f64 {
        let mut value = scores[self.members[0]];
        for index in &self.members[1..] {
            value += scores[*index];
        }
        value
    }

    fn contents<'a>(&self, items: &'a [ContextItem]) -> Vec<&'a str> {
        self.members.iter().map(|index| items[*index].content()).collect()
    }
}

/// The units of a pool, in order of their first members.
fn units(items: &[ContextItem]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let group = item.group().map(str::to_owned);
        let same_group = units.iter_mut().find(|unit| group.is_some() && unit.group == group);
        match same_group {
            Some(unit) => unit.members.push(index),
            None => units.push(Unit { group, members: vec![index] }),
        }
    }
    units
}

fn members(units: &[Unit]) -> Vec<usize> {
    units.iter().flat_map(|unit| unit.members.iter().copied()).collect()
}

fn in_pool_order(units: &[Unit]) -> Vec<usize> {
    let mut indices = members(units);
    indices.sort_unstable();
    indices
}

fn tokens(units: &[Unit], items: &[ContextItem]) -> i64 {
    units.iter().map(|unit| unit.tokens(items)).sum()
}

fn effective_budget(budget: &ContextBudget, pinned_tokens: i64) -> SliceBudget {
    let reserved_tokens: i64 = budget.reserved_slots().values().sum();
    let mut effective_max = i64::max(
        0,
        budget.max_tokens() - budget.output_reserve() - pinned_tokens - reserved_tokens,
    );
    let mut effective_target =
        i64::max(0, budget.target_tokens() - pinned_tokens - reserved_tokens);
    effective_target = i64::min(effective_target, effective_max);
    if budget.estimation_safety_margin_percent() > 0.0 {
        let multiplier = 1.0 - budget.estimation_safety_margin_percent() / 100.0;
        effective_max = (effective_max as f64 * multiplier).floor() as i64;
        effective_target = (effective_target as f64 * multiplier).floor() as i64;
        effective_target = i64::min(effective_target, effective_max);
    }
    SliceBudget {
        max_tokens: effective_max,
        target_tokens: effective_target,
        whole_tokens: i64::min(budget.target_tokens(), budget.input_tokens()),
    }
}

pub(crate) fn run(
    plan: &PipelinePlan,
    items: &[ContextItem],
    budget: &ContextBudget,
) -> Result<Account, Error> {
    let mut run = Run::classify(items, budget)?;
    run.score(&plan.scorer);
    let unique = if plan.deduplication { run.deduplicate() } else { run.scoreable.clone() };
    let sorted = run.sort(unique.clone());
    let (sliced, shortfalls) = run.slice(&sorted, &plan.slicer)?;
    let (kept, overflow) = run.handle_overflow(sliced.clone(), plan.overflow_strategy)?;
    let placed = if plan.keep_groups_together {
        run.place_units(&kept, plan.placer)
    } else {
        run.place_items(&kept, plan.placer)
    };

    run.excluded.sort_by(|left, right| {
        descending(run.scores[left.1], run.scores[right.1])
            .then(left.0.cmp(&right.0))
            .then(left.1.cmp(&right.1))
    });
    let scored_items = members(&run.scoreable).len();
    let pinned_items = members(&run.pinned).len();
    let (unique_items, sliced_items) = (members(&unique).len(), members(&sliced).len());
    let stages = [
        ("Classify", items.len(), pinned_items + scored_items),
        ("Score", scored_items, scored_items),
        ("Deduplicate", scored_items, unique_items),
        ("Slice", unique_items, sliced_items),
        ("Place", pinned_items + sliced_items, placed.len()),
    ];
    Ok(Account {
        effective: run.effective,
        total_candidates: placed.len() + run.excluded.len(),
        total_tokens_considered: items.iter().map(ContextItem::tokens).sum(),
        included: placed
            .into_iter()
            .map(|index| (index, run.scores[index], run.inclusion_reason(index)))
            .collect(),
        excluded: run
            .excluded
            .iter()
            .map(|(_, index, reason)| (*index, run.scores[*index], reason.clone()))
            .collect(),
        stages: stages
            .into_iter()
            .map(|(stage, items_in, items_out)| (stage.to_owned(), items_in, items_out))
            .collect(),
        shortfalls: shortfalls.iter().map(shortfall).collect(),
        overflow,
    })
}

/// What is known once items are classified.
struct Run<'a> {
    items: &'a [ContextItem],
    budget: &'a ContextBudget,
    /// What is left for a slicer.
    effective: SliceBudget,
    /// In order of their first members.
    pinned: Vec<Unit>,
    pinned_tokens: i64,
    /// In order of their first members.
    scoreable: Vec<Unit>,
    /// One for each item of the pool; 0 where there is none.
    scores: Vec<f64>,
    excluded: Vec<(Stage, usize, ExclusionReason)>,
}

impl<'a> Run<'a> {
    fn classify(items: &'a [ContextItem], budget: &'a ContextBudget) -> Result<Self, Error> {
        let mut pinned: Vec<Unit> = Vec::new();
        let mut scoreable: Vec<Unit> = Vec::new();
        let mut excluded = Vec::new();
        for unit in units(items) {
            if unit.members.iter().any(|index| items[*index].tokens() < 0) {
                for index in unit.members {
                    excluded.push((Stage::Classify, index, invalid(&items[index])));
                }
            } else if unit.members.iter().any(|index| items[*index].is_pinned()) {
                pinned.push(unit);
            } else {
                scoreable.push(unit);
            }
        }
        let pinned_tokens = tokens(&pinned, items);
        let available_tokens = budget.max_tokens() - budget.output_reserve();
        if pinned_tokens > available_tokens {
            return Err(Error::PinnedOverBudget { pinned_tokens, available_tokens });
        }
        Ok(Self {
            items,
            budget,
            effective: effective_budget(budget, pinned_tokens),
            pinned,
            pinned_tokens,
            scoreable,
            scores: vec![0.0; items.len()],
            excluded,
        })
    }

    fn score(&mut self, scorer: &ScorerPlan) {
        let indices = in_pool_order(&self.scoreable);
        let items: Vec<&ContextItem> = indices.iter().map(|index| &self.items[*index]).collect();
        for (index, score) in indices.into_iter().zip(scorers::scores(scorer, &items)) {
            self.scores[index] = score;
        }
        for index in members(&self.pinned) {
            self.scores[index] = 1.0;
        }
    }

    fn deduplicate(&mut self) -> Vec<Unit> {
        let mut unique = Vec::new();
        for unit in self.scoreable.clone() {
            let survivor = self.survivor(&unit);
            if survivor.members == unit.members {
                unique.push(unit);
                continue;
            }
            for (index, kept) in unit.members.iter().zip(&survivor.members) {
                let reason = ExclusionReason::Deduplicated {
                    deduplicated_against: self.items[*kept].content().into(),
                };
                self.excluded.push((Stage::Deduplicate, *index, reason));
            }
        }
        unique
    }

    /// Of a unit and all its duplicates, the one that stays.
    fn survivor(&self, unit: &Unit) -> Unit {
        let mut duplicates = self.scoreable.iter().filter(|other| {
            other.group.is_some() == unit.group.is_some()
                && other.contents(self.items) == unit.contents(self.items)
        });
        let mut survivor = duplicates.next().unwrap();
        for other in duplicates {
            if descending(self.best_score(other), self.best_score(survivor)).is_lt() {
                survivor = other;
            }
        }
        survivor.clone()
    }

    fn best_score(&self, unit: &Unit) -> f64 {
        self.scores[unit.best(&self.scores)]
    }

    fn sort(&self, mut units: Vec<Unit>) -> Vec<Unit> {
        units.sort_by(|left, right| {
            descending(self.best_score(left), self.best_score(right))
                .then(left.best(&self.scores).cmp(&right.best(&self.scores)))
        });
        units
    }

    /// The units that were taken, in the order of `sorted`, whatever order they were taken in.
    fn slice(
        &mut self,
        sorted: &[Unit],
        slicer: &SlicerPlan,
    ) -> Result<(Vec<Unit>, Vec<CountRequirementShortfall>), Error> {
        let candidates: Vec<Candidate<'_>> = sorted
            .iter()
            .map(|unit| Candidate {
                item: &self.items[unit.best(&self.scores)],
                tokens: unit.tokens(self.items),
                section: SectionId::NONE,
                score: self.best_score(unit),
                value: unit.value(&self.scores),
            })
            .collect();
        let outcome = slicers::slice(slicer, &candidates, self.effective)?;
        let mut taken = Vec::new();
        for ((unit, candidate), verdict) in sorted.iter().zip(&candidates).zip(outcome.verdicts) {
            let reason = match verdict {
                Verdict::Taken(_) => {
                    taken.push(unit.clone());
                    continue;
                }
                Verdict::Left { available_tokens } => self.did_not_fit(unit, available_tokens),
                Verdict::Outcompeted { available_tokens } => ExclusionReason::BudgetExceeded {
                    item_tokens: candidate.tokens,
                    available_tokens,
                    outcompeted: true,
                },
                Verdict::Capped { cap, count } => ExclusionReason::CountCapExceeded {
                    kind: candidate.item.kind().as_str().to_owned(),
                    cap,
                    count,
                },
                other => unreachable!("the oracle's slicers do not say {other:?}"),
            };
            self.exclude(Stage::Slice, unit, &reason);
        }
        Ok((taken, outcome.shortfalls))
    }

    fn did_not_fit(&self, unit: &Unit, available_tokens: i64) -> ExclusionReason {
        let item_tokens = unit.tokens(self.items);
        if self.pinned_tokens > 0
            && item_tokens > self.effective.target_tokens
            && item_tokens <= effective_budget(self.budget, 0).target_tokens
        {
            let first_pinned = in_pool_order(&self.pinned)[0];
            return ExclusionReason::PinnedOverride {
                displaced_by: self.items[first_pinned].content().into(),
            };
        }
        ExclusionReason::BudgetExceeded { item_tokens, available_tokens, outcompeted: false }
    }

    fn exclude(&mut self, stage: Stage, unit: &Unit, reason: &ExclusionReason) {
        for index in &unit.members {
            self.excluded.push((stage, *index, reason.clone()));
        }
    }

    /// The units that stay, and how far over the target they are if that is accepted.
    fn handle_overflow(
        &mut self,
        sliced: Vec<Unit>,
        strategy: OverflowStrategy,
    ) -> Result<(Vec<Unit>, Option<Overflow>), Error> {
        let target_tokens = self.budget.target_tokens();
        let merged_tokens = self.pinned_tokens + tokens(&sliced, self.items);
        let mut kept = sliced;
        let mut overflow = None;
        if merged_tokens > target_tokens {
            match strategy {
                OverflowStrategy::Throw => {
                    return Err(Error::OverTarget {
                        selected_tokens: merged_tokens,
                        target_tokens,
                    });
                }
                OverflowStrategy::Truncate => kept = self.truncate(kept),
                OverflowStrategy::Proceed => {
                    overflow = Some((merged_tokens - target_tokens, self.merged(&kept)));
                }
            }
        }
        let selected_tokens = self.pinned_tokens + tokens(&kept, self.items);
        let input_tokens = self.budget.max_tokens() - self.budget.output_reserve();
        if selected_tokens > input_tokens {
            return Err(Error::OverWindow { selected_tokens, input_tokens });
        }
        Ok((kept, overflow))
    }

    fn truncate(&mut self, sliced: Vec<Unit>) -> Vec<Unit> {
        let target_tokens = self.budget.target_tokens();
        let mut current_tokens = self.pinned_tokens;
        let mut kept = Vec::new();
        for unit in sliced {
            let unit_tokens = unit.tokens(self.items);
            if current_tokens + unit_tokens <= target_tokens {
                current_tokens += unit_tokens;
                kept.push(unit);
            } else {
                let reason = self.did_not_fit(&unit, i64::max(0, target_tokens - current_tokens));
                self.exclude(Stage::Place, &unit, &reason);
            }
        }
        kept
    }

    /// Pinned items in pool order, then the others in order of their units.
    fn merged(&self, selected: &[Unit]) -> Vec<usize> {
        let mut merged = in_pool_order(&self.pinned);
        merged.extend(members(selected));
        merged
    }

    fn place_items(&self, selected: &[Unit], placer: PlacerPlan) -> Vec<usize> {
        let merged = self.merged(selected);
        self.place(&merged, placer).into_iter().map(|position| merged[position]).collect()
    }

    /// Places one item for each unit, and all its members where that one stands.
    fn place_units(&self, selected: &[Unit], placer: PlacerPlan) -> Vec<usize> {
        let pinned = self.pinned.iter().map(|unit| (unit.members[0], unit));
        let others = selected.iter().map(|unit| (unit.best(&self.scores), unit));
        let (representatives, units): (Vec<usize>, Vec<&Unit>) = pinned.chain(others).unzip();
        self.place(&representatives, placer)
            .into_iter()
            .flat_map(|position| units[position].members.clone())
            .collect()
    }

    fn place(&self, indices: &[usize], placer: PlacerPlan) -> Vec<usize> {
        let scored: Vec<ScoredItem<'_>> = indices
            .iter()
            .map(|index| ScoredItem { item: &self.items[*index], score: self.scores[*index] })
            .collect();
        placers::place(placer, &scored)
    }

    fn inclusion_reason(&self, index: usize) -> InclusionReason {
        if members(&self.pinned).contains(&index) {
            InclusionReason::Pinned
        } else if self.items[index].tokens() == 0 {
            InclusionReason::ZeroToken
        } else {
            InclusionReason::Scored
        }
    }
}

/// Why an item with a negative count is out, or a member of its group.
fn invalid(item: &ContextItem) -> ExclusionReason {
    if item.tokens() < 0 {
        return ExclusionReason::NegativeTokens { tokens: item.tokens() };
    }
    ExclusionReason::GroupExcluded {
        group: item.group().unwrap_or_default().to_owned(),
        cause: "NegativeTokens".to_owned(),
    }
}

fn shortfall(shortfall: &CountRequirementShortfall) -> (String, usize, usize) {
    (shortfall.kind.as_str().to_owned(), shortfall.required_count, shortfall.satisfied_count)
}

impl Account {
    /// What the engine says, in the same words.
    pub(crate) fn of(selection: &Selection<'_>) -> Self {
        let report = selection.report();
        let index_of = |item: &ContextItem| {
            let found = selection.pool().iter().position(|other| std::ptr::eq(item, *other));
            found.unwrap()
        };
        Self {
            effective: selection.effective_budget(),
            included: report
                .included
                .iter()
                .map(|entry| (index_of(entry.item), entry.score, entry.reason))
                .collect(),
            excluded: report
                .excluded
                .iter()
                .map(|entry| (index_of(entry.item), entry.score, entry.reason.clone()))
                .collect(),
            total_candidates: report.total_candidates,
            total_tokens_considered: report.total_tokens_considered,
            stages: report
                .stages
                .iter()
                .map(|count| (count.stage.name().to_owned(), count.items_in, count.items_out))
                .collect(),
            shortfalls: report.count_requirement_shortfalls.iter().map(shortfall).collect(),
            overflow: report.overflow.map(|event| {
                let items = event.overflowing_items.iter();
                (event.tokens_over_budget, items.map(|item| index_of(item)).collect())
            }),
        }
    }
}
