//! The same run with another score, or another size, for one item.
//!
//! Scoring is the most expensive stage, and a change of one score touches no other. So a change is decided from
//! deduplication on, by the same code as any run.

use super::super::classify::classify;
use super::super::deduplicate::{deduplicate, find_near_duplicates};
use super::super::floor::FloorCut;
use super::super::near_duplicates::ShingleIndex;
use super::super::sort::{self, Sorted};
use super::super::{Contest, Counts, Pipeline, PreparedRun, RunState};
use crate::{Candidate, Deduplication, Error, ExclusionReason, Level, Offers, Search, order};

/// How near-duplicates are found, if they are dropped. The same for every item of a run, at any score.
pub(super) struct NearDuplicateInputs<'r> {
    fingerprints: ShingleIndex<'r>,
    threshold: f64,
}

impl<'r> NearDuplicateInputs<'r> {
    pub(super) fn new(pipeline: &Pipeline, run: &'r PreparedRun<'_>) -> Option<Self> {
        let Deduplication::NearDuplicates { threshold } = pipeline.deduplication else {
            return None;
        };
        let fingerprints = ShingleIndex::new(&run.items, &run.classified.scoreable);
        Some(Self { fingerprints, threshold })
    }
}

/// The same run with another score, or another size, for one item.
pub(super) struct ItemCounterfactual<'r, 'a> {
    pipeline: &'r Pipeline,
    run: &'r RunState<'a>,
    index: u32,
    unit: u32,
    /// The best of the other units with the same content, which is in if this one does not win.
    rival: Option<u32>,
    /// The scores of the pool, the item's own among them, which changes.
    scores: Vec<f64>,
    /// Everybody else who competes, in order; one position is filled for each match.
    keys: Vec<u128>,
    units: Vec<u32>,
    offers: Offers<'a>,
    /// Whether the one who is missing is kept.
    is_kept: bool,
    /// If near-duplicates are dropped, another score may change what becomes of any other item.
    near: Option<&'r NearDuplicateInputs<'r>>,
    counts: Counts,
}

impl<'r, 'a> ItemCounterfactual<'r, 'a> {
    pub(super) fn new(
        pipeline: &'r Pipeline,
        run: &'r RunState<'a>,
        near: Option<&'r NearDuplicateInputs<'r>>,
        index: u32,
        counts: Counts,
    ) -> Option<Self> {
        let prepared = &run.prepared;
        let scoreable = &prepared.classified.scoreable;
        let unit = scoreable.unit_of(index)?;
        let duplicates = &prepared.duplicates;
        let dropped = duplicates.binary_search_by_key(&unit, |duplicate| duplicate.unit);
        let kept = dropped.map_or(unit, |dropped| duplicates[dropped].kept);
        let best = |unit: u32| scoreable.best_member(unit, &prepared.scores);
        let strength = |unit: u32| order::pack_key(prepared.scores[best(unit) as usize], 0, unit);
        let copies = duplicates.iter().filter(|duplicate| duplicate.kept == kept);
        let equals = copies.map(|duplicate| duplicate.unit).chain([kept]);
        let rival = equals.filter(|other| *other != unit).min_by_key(|other| strength(*other));

        let (mut units, mut offers) = (prepared.sorted.clone(), prepared.offers.clone());
        let mut is_kept = false;
        if let Some(position) = units.iter().position(|other| *other == kept) {
            units.remove(position);
            is_kept = offers.remove(position);
        }
        let key =
            |unit: &u32| order::pack_key(prepared.scores[best(*unit) as usize], best(*unit), *unit);
        let keys = units.iter().map(key).collect();
        let scores = prepared.scores.clone();
        Some(Self {
            pipeline,
            run,
            index,
            unit,
            rival,
            scores,
            keys,
            units,
            offers,
            is_kept,
            near,
            counts,
        })
    }

    /// The units that are selected if the item has this score, and the steps it took. None if the run fails.
    fn rerun_with_score(&mut self, score: f64, counts: Counts) -> (Vec<u32>, u64) {
        let prepared = &*self.run.prepared;
        let (budget, scoreable) = (&self.run.budget, &prepared.classified.scoreable);
        self.scores[self.index as usize] = score;
        let scores = &self.scores;
        // A run that fails selects nothing.
        let select = |sorted: &[u32], offers: &Offers<'a>| {
            let contest = Contest { prepared, scores, sorted, offers, counts };
            let (selected, steps) = self.pipeline.select_units(&contest, budget);
            (selected.map(|(units, _)| units).unwrap_or_default(), steps)
        };
        let contents = self.pipeline.unit_contents(prepared);
        let near = self.near.map(|NearDuplicateInputs { fingerprints, threshold }| {
            find_near_duplicates(&contents, scores, fingerprints, *threshold)
        });
        if near.is_some() || self.pipeline.floor.is_some() {
            let duplicates =
                near.unwrap_or_else(|| deduplicate(&contents, scores, self.pipeline.deduplication));
            let floor = self.pipeline.floor;
            let floor = floor.map(|floor| FloorCut::new(floor, prepared, scores, &duplicates));
            let Sorted { units, offers } =
                sort::sort(prepared, scores, &duplicates, floor.as_ref());
            return select(&units, &offers);
        }
        let best = |unit: u32| scoreable.best_member(unit, scores);
        let strength = |unit: &u32| order::pack_key(scores[best(*unit) as usize], 0, *unit);
        let winner = self.rival.into_iter().chain([self.unit]).min_by_key(strength);
        let winner = winner.unwrap_or(self.unit);

        let best = best(winner);
        let key = order::pack_key(scores[best as usize], best, winner);
        let position = self.keys.partition_point(|other| *other < key);
        let candidate = Candidate {
            item: prepared.items[best as usize],
            tokens: prepared.unit_tokens(winner),
            score: scores[best as usize],
            value: scoreable.value(winner, scores),
            section: prepared.costs.section(best as usize, Level::WHOLE),
        };
        self.units.insert(position, winner);
        self.offers.insert(position, candidate, prepared.forms(winner, scores), self.is_kept);
        let selected = select(&self.units, &self.offers);
        self.units.remove(position);
        self.offers.remove(position);
        selected
    }

    fn is_in(&mut self, score: f64, search: &mut Search<'_>) -> Result<bool, Error> {
        let (selected, steps) = self.rerun_with_score(score, self.counts);
        search.spend(steps)?;
        Ok(selected.contains(&self.unit))
    }

    /// The highest score that the scorer can give, or gave.
    pub(super) fn max_score(&self) -> f64 {
        let PreparedRun { classified, scores, .. } = &*self.run.prepared;
        let scored = classified.scoreable.in_pool_order();
        let given = scored.iter().map(|index| scores[*index as usize]);
        // The maximum of NaN and a number is the number.
        given.fold(self.pipeline.scorer.max_score(), f64::max)
    }

    /// The smallest score from 0 up with which the item is in.
    ///
    /// A higher score never makes an item lose, with one exception: from the score on with which it leads
    /// its group, the group counts as its kind, which a slicer may treat otherwise. So there are two
    /// searches, below that score and from there on.
    pub(super) fn smallest_score(&mut self, search: &mut Search<'_>) -> Result<Option<f64>, Error> {
        let scoreable = &self.run.prepared.classified.scoreable;
        let others = scoreable.members(self.unit).iter().filter(|member| **member != self.index);
        let key =
            |member: &u32| order::pack_key(self.run.prepared.scores[*member as usize], 0, *member);
        let lead = others.min_by_key(|member| key(member)).copied();
        // The bits of numbers from 0 up are in the order of the numbers.
        let leads_from = lead.map_or(0, |lead| {
            // Adding zero turns -0.0 into 0.0.
            let score = self.run.prepared.scores[lead as usize] + 0.0;
            if score >= 0.0 { score.to_bits() + u64::from(self.index > lead) } else { 0 }
        });
        let mut found = match leads_from.checked_sub(1) {
            Some(last) => self.smallest_within(0, last, search)?,
            None => None,
        };
        if found.is_none() {
            found = self.smallest_within(leads_from, f64::MAX.to_bits(), search)?;
        }
        Ok(found.map(f64::from_bits))
    }

    /// The same by halves, among the numbers with these bits.
    fn smallest_within(
        &mut self,
        first: u64,
        last: u64,
        search: &mut Search<'_>,
    ) -> Result<Option<u64>, Error> {
        if first > last {
            return Ok(None);
        }
        let mut is_in = |bits| self.is_in(f64::from_bits(bits), search);
        if is_in(first)? {
            return Ok(Some(first));
        }
        let (mut out, mut within) = (first, last);
        let one = 1.0_f64.to_bits();
        if (first..last).contains(&one) && is_in(one)? {
            within = one;
        } else if !is_in(last)? {
            return Ok(None);
        }
        while within - out > 1 {
            let middle = out + (within - out) / 2;
            if is_in(middle)? { within = middle } else { out = middle }
        }
        Ok(Some(within))
    }

    /// The largest number of tokens with which the item is in, if it is out with what it has.
    ///
    /// Found by halves: where kinds get shares, an item that is smaller also makes the share of its kind smaller.
    pub(super) fn max_tokens(&self, search: &mut Search<'_>) -> Result<Option<i64>, Error> {
        let run = &self.run.prepared;
        let item = run.items[self.index as usize];
        // A text that is counted has the tokens that it has. And a copy that is dropped is out at any size.
        let is_counted = self.pipeline.layout.is_some() && !run.costs.plan.is_exact;
        if is_counted || run.position_of(self.index).is_none() {
            return Ok(None);
        }
        let is_in = |tokens: i64, search: &mut Search<'_>| {
            let item = item.with_tokens(tokens);
            let mut changed = PreparedRun::clone(run);
            changed.items[self.index as usize] = &item;
            changed.classified = classify(&changed.items, &changed.costs);
            let Sorted { units, offers } =
                sort::sort(&changed, &changed.scores, &changed.duplicates, changed.floor.as_ref());
            (changed.sorted, changed.offers) = (units, offers);
            let contest = Contest::of(&changed, Counts::Whole);
            let (selected, steps) = self.pipeline.select_units(&contest, &self.run.budget);
            search.spend(steps)?;
            Ok(selected.is_ok_and(|(units, _)| units.contains(&self.unit)))
        };
        // An item of no tokens is no item to send, and the whole is longer than another form.
        let mut within = item.forms().first().map_or(1, |form| form.tokens().saturating_add(1));
        let mut out = item.tokens();
        if within >= out || !is_in(within, search)? {
            return Ok(None);
        }
        while out - within > 1 {
            let middle = within + (out - within) / 2;
            if is_in(middle, search)? { within = middle } else { out = middle }
        }
        Ok(Some(within))
    }

    /// The indices of the items that an item lost to.
    pub(super) fn lost_to(
        &mut self,
        reason: &ExclusionReason,
        smallest_score: Option<f64>,
    ) -> Vec<u32> {
        let run = &self.run.prepared;
        let scoreable = &run.classified.scoreable;
        if matches!(reason, ExclusionReason::PinnedOverride { .. }) {
            return run.classified.pinned.in_pool_order().into_owned();
        }
        let dropped = run.duplicates.binary_search_by_key(&self.unit, |duplicate| duplicate.unit);
        let kept = dropped.ok().map(|dropped| run.duplicates[dropped].kept);
        if matches!(reason, ExclusionReason::NearDuplicate { .. }) {
            return kept.map(|kept| scoreable.best_member(kept, &run.scores)).into_iter().collect();
        }
        if matches!(reason, ExclusionReason::Deduplicated { .. }) {
            let own = scoreable.members(self.unit).iter();
            let kept = kept.into_iter().flat_map(|kept| scoreable.members(kept));
            let pairs = own.zip(kept);
            return pairs.filter(|(own, _)| **own == self.index).map(|(_, kept)| *kept).collect();
        }
        self.displaces(smallest_score)
    }

    /// The indices of the items that go, or are shortened, if the item comes in with a score.
    pub(super) fn displaces(&mut self, score: Option<f64>) -> Vec<u32> {
        let Some(score) = score else {
            return Vec::new();
        };
        let mut stays = |counts: Counts| {
            let (still_in, _) = self.rerun_with_score(score, counts);
            let run = &self.run.prepared;
            let members = |unit: &u32| run.classified.scoreable.members(*unit);
            let mut stays = vec![false; run.items.len()];
            let pinned = run.classified.pinned.in_pool_order();
            let still_in = still_in.iter().flat_map(members).chain(&*pinned);
            still_in.for_each(|index| stays[*index as usize] = true);
            stays
        };
        let (stays, stays_whole) = (stays(Counts::AnyForm), stays(Counts::Whole));
        let loses = |index: &u32| {
            let was_whole = self.run.levels.is_whole(*index);
            let index = *index as usize;
            index != self.index as usize && (!stays[index] || was_whole && !stays_whole[index])
        };
        self.run.placed.iter().copied().filter(loses).collect()
    }

    pub(super) fn density(&self) -> Option<f64> {
        let scoreable = &self.run.prepared.classified.scoreable;
        let tokens = self.run.prepared.unit_tokens(self.unit);
        (tokens > 0).then(|| scoreable.value(self.unit, &self.run.prepared.scores) / tokens as f64)
    }
}
