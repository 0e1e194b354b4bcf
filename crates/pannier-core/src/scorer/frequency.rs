//! Scores by how connected an item is: the share of its peers that have a tag in common with it.
//!
//! For each item this counts the others that share a tag with it. Items with the same tags get the same count, so the
//! work is done once for each distinct set of tags. Comparing every pair of sets would be quadratic. Two ways to count
//! avoid it, and the estimated cost decides between them:
//!
//! - **Inclusion and exclusion.** The items that share a tag with set `s` are found tag by tag: all items with the tag,
//!   less those that share a later tag of `s`, too. Those are counted the same way among the items with this tag, by
//!   recursion. A set of `k` tags is touched at most `2^k` times, regardless of the size of the pool: linear for short lists.
//! - **Bitmaps.** Each tag has a bitmap of the items that carry it, and the items that share a tag with `s` are the union
//!   of its tags' bitmaps. Quadratic, but 64 items a step, without the factor `2^k`: for small groups and long lists.
//!
//! Both count whole numbers, so the result does not depend on the way. For long lists that differ in most items nothing
//! faster than quadratic is known; beyond `MAX_BITMAP_STEPS` the scorer returns an error.

use std::ops::Range;

use super::pool::Interner;
use super::{Pool, Scorer};
use crate::Error;
use crate::model::cmp_ignore_ascii_case;

/// The share of peers with at least one tag in common, without regard to ASCII case.
///
/// Scoring fails for pools of which the bitmaps would take more than 2^40 steps, such as five million items with
/// thirty tags each, in lists that all differ.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{FrequencyScorer, Pool};
///
/// let item = |tags: [&str; 1]| ContextItem::builder("text", 1).tags(tags).build();
/// let items = [item(["billing"])?, item(["Billing"])?, item(["login"])?];
/// assert_eq!(Pool::new(&items).scores(&FrequencyScorer)?, [0.5, 0.5, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FrequencyScorer;

impl Scorer for FrequencyScorer {
    fn name(&self) -> &str {
        "frequency"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let rows = TagRows::new(pool);
        let TagSets { set_of, sets } = TagSets::new(&rows);
        let mut counter = SharedTagCounter::new(&rows, &sets);
        let weight = counter.members.iter().map(|member| member.weight as usize).sum();
        let len = counter.members.len();
        counter.add(Bucket { len, weight, max_tail: u32::MAX, ..Bucket::default() }, 1)?;

        let peers = pool.len().saturating_sub(1) as f64;
        for (score, set) in scores.iter_mut().zip(set_of) {
            // Every tagged item shares its tags with itself, and is no peer of itself.
            let others = counter.shared[set as usize] - 1;
            *score = if others > 0 { others as f64 / peers } else { 0.0 };
        }
        Ok(())
    }
}

/// The tags of each item that it might share: folded to one number a spelling, in ascending order, without repeats.
struct TagRows {
    starts: Vec<u32>,
    tags: Vec<u32>,
    distinct: usize,
}

impl TagRows {
    const NOT_SHARED: u32 = u32::MAX;

    fn new(pool: &Pool<'_>) -> Self {
        let index = pool.tags();
        let names = &index.names;
        let mut by_folded: Vec<u32> = (0..names.len() as u32).collect();
        let compare =
            |a: &u32, b: &u32| cmp_ignore_ascii_case(names[*a as usize], names[*b as usize]);
        by_folded.sort_unstable_by(compare);
        let mut folded = vec![0; names.len()];
        let mut distinct = 0;
        for spellings in by_folded.chunk_by(|a, b| compare(a, b).is_eq()) {
            // A tag that occurs once is shared with nobody.
            let is_single = matches!(spellings, [only] if index.occurrences[*only as usize] == 1);
            for spelling in spellings {
                folded[*spelling as usize] = if is_single { Self::NOT_SHARED } else { distinct };
            }
            distinct += u32::from(!is_single);
        }

        let mut starts = Vec::with_capacity(pool.len() + 1);
        let mut tags: Vec<u32> = Vec::with_capacity(index.total());
        starts.push(0);
        for item in 0..pool.len() {
            let (start, mut end) = (tags.len(), tags.len());
            let row = index.of(item).iter().map(|tag| folded[*tag as usize]);
            tags.extend(row.filter(|tag| *tag != Self::NOT_SHARED));
            tags[start..].sort_unstable();
            for i in start..tags.len() {
                if end == start || tags[i] != tags[end - 1] {
                    tags[end] = tags[i];
                    end += 1;
                }
            }
            tags.truncate(end);
            starts.push(tags.len() as u32);
        }
        let distinct = distinct as usize;
        Self { starts, tags, distinct }
    }
}

/// The distinct rows.
struct TagSets {
    /// For each item, the number of its set.
    set_of: Vec<u32>,
    sets: Vec<Member>,
}

impl TagSets {
    fn new(rows: &TagRows) -> Self {
        let mut interner = Interner::with_capacity(rows.tags.len() / 2);
        // Sets of no tag and of one tag are numbered first: they need no hash.
        let short = |tail, end| Member { set: 0, weight: 0, tail, end };
        let mut sets = Vec::with_capacity(rows.distinct + 1 + rows.tags.len() / 2);
        sets.resize(rows.distinct + 1, short(0, 0));
        let ranges = rows.starts.windows(2).map(|range| (range[0], range[1]));
        let set_of = ranges.map(|(tail, end)| {
            let set = match rows.tags[tail as usize..end as usize] {
                [] => 0,
                [tag] => tag + 1,
                ref row => {
                    let hash = row.iter().fold(0, |hash: u64, tag| {
                        (hash.rotate_left(29) ^ u64::from(*tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    });
                    interner.number(row, hash ^ hash >> 32) + rows.distinct as u32 + 1
                }
            };
            if set as usize == sets.len() {
                sets.push(short(tail, end));
            }
            let known = &mut sets[set as usize];
            *known = Member { set, weight: known.weight + 1, tail, end };
            set
        });
        let set_of = set_of.collect();
        Self { set_of, sets }
    }
}

/// A set of tags in a group, and those of its tags that the group has not yet looked at.
#[derive(Clone, Copy, Default)]
struct Member {
    set: u32,
    /// How many items have the set.
    weight: u32,
    /// The range of those tags in `TagRows::tags`.
    tail: u32,
    end: u32,
}

/// The members of a group that have one tag, as a range of the stack of members.
#[derive(Clone, Copy, Default)]
struct Bucket {
    tag: u32,
    start: usize,
    len: usize,
    /// How many of them are in their positions.
    filled: usize,
    /// How many items they stand for.
    weight: usize,
    /// The maximum number of tags that any of them has after this one.
    max_tail: u32,
}

struct SharedTagCounter<'r> {
    tags: &'r [u32],
    /// For each set, how many items share a tag with it, its own included.
    shared: Vec<i64>,
    /// A stack of groups: the subgroups of a group follow it until it is done.
    members: Vec<Member>,
    buckets: Vec<Bucket>,
    /// For each tag, its bucket in the group that is split.
    bucket_of: Vec<u32>,
    bitmaps: Vec<u64>,
    /// The items of tags without a bitmap.
    lists: Vec<u32>,
    /// The union of one member's bitmaps.
    union: Vec<u64>,
    bitmap_steps: u64,
}

impl<'r> SharedTagCounter<'r> {
    const NO_BUCKET: u32 = u32::MAX;

    /// A few minutes.
    const MAX_BITMAP_STEPS: u64 = 1 << 40;

    fn new(rows: &'r TagRows, sets: &[Member]) -> Self {
        // The capacity holds the subgroups of all sets, and those of the largest subgroups.
        let mut members = Vec::with_capacity(sets.len() + 2 * rows.tags.len());
        members.extend(sets.iter().filter(|set| set.tail < set.end));
        Self {
            tags: &rows.tags,
            shared: vec![0; sets.len()],
            members,
            buckets: Vec::with_capacity(2 * rows.distinct),
            bucket_of: vec![Self::NO_BUCKET; rows.distinct],
            bitmaps: Vec::with_capacity(rows.distinct),
            lists: Vec::new(),
            union: Vec::new(),
            bitmap_steps: 0,
        }
    }

    fn remaining_tags(&self, member: Member) -> &'r [u32] {
        &self.tags[member.tail as usize..member.end as usize]
    }

    /// Adds to each member of a group, `sign` times, how many items of the group share a tag of its tail.
    fn add(&mut self, group: Bucket, sign: i64) -> Result<(), Error> {
        let Bucket { start, len, weight, max_tail, .. } = group;
        let group = start..start + len;
        let (first_bucket, first_member) = (self.buckets.len(), self.members.len());
        if max_tail <= 1 {
            self.add_single_tags(group, sign);
            return Ok(());
        } else if weight <= 64 {
            self.add_with_u64_bitmap(group, sign);
            return Ok(());
        }
        self.split(group.clone());
        if let Some(steps) = self.bitmap_steps_if_fewer(group.clone(), weight) {
            self.bitmap_steps = self.bitmap_steps.saturating_add(steps);
            if self.bitmap_steps > Self::MAX_BITMAP_STEPS {
                let problem = format!(
                    "{weight} items have too many tags in lists that differ; give them fewer tags"
                );
                return Err(Error::InvalidScorer { scorer: "FrequencyScorer", problem });
            }
            self.add_by_bitmap(group, weight, sign, first_bucket);
        } else {
            self.forget_buckets(first_bucket);
            self.add_by_tag(first_bucket, sign)?;
        }
        self.buckets.truncate(first_bucket);
        self.members.truncate(first_member);
        Ok(())
    }

    /// Adds the members of each bucket, and subtracts those that share a later tag, too.
    fn add_by_tag(&mut self, first_bucket: usize, sign: i64) -> Result<(), Error> {
        for bucket in first_bucket..self.buckets.len() {
            let bucket = self.buckets[bucket];
            for member in &self.members[bucket.start..bucket.start + bucket.len] {
                self.shared[member.set as usize] += sign * bucket.weight as i64;
            }
            self.add(bucket, -sign)?;
        }
        Ok(())
    }

    /// Estimates the cost of both ways for a group that is split, and returns that of bitmaps, in words, if it is lower.
    /// Only a tag of more than 64 items makes the recursion branch; others end in a word. The factors are instructions:
    /// a step of the recursion costs about as much as sixteen words of a bitmap.
    fn bitmap_steps_if_fewer(&self, group: Range<usize>, weight: usize) -> Option<u64> {
        let words = weight.div_ceil(64) as u64;
        let (mut by_tag, mut by_bitmap, mut steps) = (0_u64, 0_u64, 0_u64);
        for &member in &self.members[group] {
            let tail = self.remaining_tags(member);
            let bucket = |tag: &u32| &self.buckets[self.bucket_of[*tag as usize] as usize];
            let branching = tail.iter().filter(|tag| bucket(tag).weight > 64).count();
            let tags = tail.len() as u64;
            by_tag = by_tag.saturating_add(64 * (tags + (1 << branching.min(40))));
            by_bitmap = by_bitmap.saturating_add(tags * (40 + 4 * words) + 16 * words + 80);
            steps = steps.saturating_add((tags + 1) * words);
        }
        (by_bitmap < by_tag).then_some(steps)
    }

    /// Adds a group in which no tail has more than one tag.
    fn add_single_tags(&mut self, group: Range<usize>, sign: i64) {
        let tagged = self.members[group].iter().filter(|member| member.tail < member.end);
        let tag = |member: &Member| self.tags[member.tail as usize] as usize;
        // No group is split while this one is added, so the entries of its tags are free.
        for member in tagged.clone() {
            let weight = &mut self.bucket_of[tag(member)];
            *weight = weight.wrapping_add(member.weight);
        }
        for member in tagged.clone() {
            let weight = self.bucket_of[tag(member)].wrapping_sub(Self::NO_BUCKET);
            self.shared[member.set as usize] += sign * i64::from(weight);
        }
        tagged.for_each(|member| self.bucket_of[tag(member)] = Self::NO_BUCKET);
    }

    /// Adds a group of at most 64 items: a bitmap is one word, in which each member has as many bits as items.
    fn add_with_u64_bitmap(&mut self, group: Range<usize>, sign: i64) {
        self.bitmaps.clear();
        let mut position = 0;
        for &member in &self.members[group.clone()] {
            let bits = (u64::MAX >> (64 - member.weight)) << position;
            position += member.weight;
            for &tag in self.remaining_tags(member) {
                let bitmap = &mut self.bucket_of[tag as usize];
                if *bitmap == Self::NO_BUCKET {
                    *bitmap = self.bitmaps.len() as u32;
                    self.bitmaps.push(0);
                }
                self.bitmaps[*bitmap as usize] |= bits;
            }
        }
        for &member in &self.members[group.clone()] {
            let bitmaps =
                self.remaining_tags(member).iter().map(|tag| self.bucket_of[*tag as usize]);
            let union = bitmaps.fold(0, |union, bitmap| union | self.bitmaps[bitmap as usize]);
            self.shared[member.set as usize] += sign * i64::from(union.count_ones());
        }
        for &member in &self.members[group] {
            for &tag in self.remaining_tags(member) {
                self.bucket_of[tag as usize] = Self::NO_BUCKET;
            }
        }
    }

    /// Pushes a bucket for each tag in the tails of the group: the members that have the tag, with their tails cut to the
    /// tags after it. `bucket_of` refers to the buckets until [`forget_buckets`](Self::forget_buckets).
    fn split(&mut self, group: Range<usize>) {
        let first_bucket = self.buckets.len();
        for i in group.clone() {
            let member = self.members[i];
            for &tag in self.remaining_tags(member) {
                let bucket = &mut self.bucket_of[tag as usize];
                if *bucket == Self::NO_BUCKET {
                    *bucket = self.buckets.len() as u32;
                    self.buckets.push(Bucket { tag, ..Bucket::default() });
                }
                let bucket = &mut self.buckets[*bucket as usize];
                bucket.len += 1;
                bucket.weight += member.weight as usize;
            }
        }
        let mut next = self.members.len();
        for bucket in &mut self.buckets[first_bucket..] {
            bucket.start = next;
            next += bucket.len;
        }
        self.members.resize(next, Member::default());
        for i in group {
            let member = self.members[i];
            for (tag, tail) in self.remaining_tags(member).iter().zip(member.tail + 1..) {
                let bucket = &mut self.buckets[self.bucket_of[*tag as usize] as usize];
                bucket.max_tail = bucket.max_tail.max(member.end - tail);
                self.members[bucket.start + bucket.filled] = Member { tail, ..member };
                bucket.filled += 1;
            }
        }
    }

    fn forget_buckets(&mut self, first_bucket: usize) {
        for bucket in &self.buckets[first_bucket..] {
            self.bucket_of[bucket.tag as usize] = Self::NO_BUCKET;
        }
    }

    /// Adds a group by bitmaps of its items. A tag of few items has a list of them instead, and their bits are set one by
    /// one, so the bitmaps take no more memory than the members.
    fn add_by_bitmap(
        &mut self,
        group: Range<usize>,
        weight: usize,
        sign: i64,
        first_bucket: usize,
    ) {
        let words = weight.div_ceil(64);
        self.bitmaps.clear();
        let mut listed = 0;
        // From here on a bucket is its bitmap, or its list.
        for bucket in &mut self.buckets[first_bucket..] {
            bucket.filled = 0;
            if bucket.weight >= words {
                bucket.start = self.bitmaps.len();
                self.bitmaps.resize(bucket.start + words, 0);
            } else {
                bucket.start = listed;
                listed += bucket.weight;
            }
        }
        self.lists.resize(listed, 0);
        let mut position = 0;
        for i in group.clone() {
            let member = self.members[i];
            let items = position..position + member.weight;
            position = items.end;
            for &tag in self.remaining_tags(member) {
                let bucket = &mut self.buckets[self.bucket_of[tag as usize] as usize];
                if bucket.weight >= words {
                    set_bits(&mut self.bitmaps[bucket.start..], items.clone());
                } else {
                    let list = &mut self.lists[bucket.start + bucket.filled..];
                    list.iter_mut().zip(items.clone()).for_each(|(slot, item)| *slot = item);
                    bucket.filled += items.len();
                }
            }
        }
        for i in group {
            let member = self.members[i];
            self.union.clear();
            self.union.resize(words, 0);
            for &tag in self.remaining_tags(member) {
                let Bucket { start, weight, .. } =
                    self.buckets[self.bucket_of[tag as usize] as usize];
                if weight >= words {
                    let bitmap = &self.bitmaps[start..start + words];
                    self.union.iter_mut().zip(bitmap).for_each(|(union, bits)| *union |= bits);
                } else {
                    set_bits(&mut self.union, self.lists[start..start + weight].iter().copied());
                }
            }
            let shared: u32 = self.union.iter().map(|word| word.count_ones()).sum();
            self.shared[member.set as usize] += sign * i64::from(shared);
        }
        self.forget_buckets(first_bucket);
    }
}

fn set_bits(bitmap: &mut [u64], positions: impl Iterator<Item = u32>) {
    for position in positions {
        bitmap[position as usize / 64] |= 1 << (position % 64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::ContextItem;

    /// The definition: for each item, the share of the others that have a tag in common with it.
    fn plain_scores(items: &[ContextItem]) -> Vec<f64> {
        let shares = |a: &ContextItem, b: &ContextItem| {
            a.tags().iter().any(|tag| b.tags().iter().any(|other| tag.eq_ignore_ascii_case(other)))
        };
        let peers = items.len().saturating_sub(1) as f64;
        let score = |(index, item): (usize, &ContextItem)| {
            let others = items.iter().enumerate().filter(|(other, _)| *other != index);
            match others.filter(|(_, other)| shares(item, other)).count() {
                0 => 0.0,
                count => count as f64 / peers,
            }
        };
        items.iter().enumerate().map(score).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few tags and short lists repeat sets and recurse; many tags and long lists take bitmaps.
        #[test]
        fn scores_equal_the_definition(
            (vocabulary, rows) in (1_u32..60, 0_usize..14).prop_flat_map(|(vocabulary, longest)| {
                (Just(vocabulary), vec(vec(0..vocabulary, 0..=longest), 0..400))
            }),
        ) {
            let spell = |tag: &u32| match tag % 2 {
                0 => format!("tag-{tag}"),
                _ => format!("TAG-{tag}"),
            };
            let items: Vec<ContextItem> = rows
                .iter()
                .map(|row| ContextItem::builder("x", 1).tags(row.iter().map(spell)).build().unwrap())
                .collect();
            let scores = Pool::new(&items).scores(&FrequencyScorer).unwrap();
            prop_assert_eq!(scores, plain_scores(&items), "{} tags", vocabulary);
        }
    }
}
