//! Scores by how connected an item is: the share of its peers that have a tag in common with it.
//!
//! For each item this counts the others whose tags meet its own. Comparing every pair would be
//! quadratic. Two ways to count avoid it, and the cheaper one is chosen by what each would cost:
//!
//! - **By tag.** Of the items of a group, those that meet `s` are found tag by tag: everybody who
//!   has the tag, less those who will be met again through a later one. "Met again" is the same
//!   question, asked of the smaller group of items that share this tag and of the tags after it, so
//!   it is a recursion. An item with `k` tags is touched `2^k` times at the most, whatever the size
//!   of the pool. That is linear for short tag lists.
//! - **By bitmap.** Each tag has a bitmap of the items that carry it, and the items that `s` meets
//!   are the union of its tags' bitmaps. That is quadratic, but 64 items a step, and does not
//!   explode with the number of tags; it serves small groups and long lists.
//!
//! Both count whole numbers, so the result does not depend on the way.

use super::{Pool, Scorer};
use crate::Error;
use crate::model::cmp_ignore_ascii_case;

/// The share of peers with at least one tag in common, without regard to ASCII case.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrequencyScorer;

impl Scorer for FrequencyScorer {
    fn name(&self) -> &str {
        "frequency"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let rows = TagRows::new(pool);
        let mut count = MeetingCount::new(&rows);
        let tagged = (0..pool.len() as u32).filter(|item| !rows.of(*item).is_empty());
        let member = |item| Member { item, tail: rows.start(item), end: rows.end(item) };
        count.members.extend(tagged.map(member));
        count.add(0, count.members.len(), 1);

        let peers = pool.len().saturating_sub(1) as f64;
        for (item, score) in scores.iter_mut().enumerate() {
            // Every tagged item meets itself, and is no peer of itself.
            let others = count.meetings[item] - 1;
            *score = if others > 0 { others as f64 / peers } else { 0.0 };
        }
        Ok(())
    }
}

/// The tags of each item that it might share: folded to one number a spelling, in ascending order,
/// without repeats.
struct TagRows {
    starts: Vec<u32>,
    tags: Vec<u32>,
    distinct: usize,
}

impl TagRows {
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
            for spelling in spellings {
                folded[*spelling as usize] = distinct as u32;
            }
            distinct += 1;
        }

        let mut occurrences = vec![0_u32; distinct];
        for item in 0..pool.len() {
            for tag in index.of(item) {
                let occurrences = &mut occurrences[folded[*tag as usize] as usize];
                *occurrences = occurrences.saturating_add(1);
            }
        }
        let mut starts = Vec::with_capacity(pool.len() + 1);
        let mut tags = Vec::with_capacity(index.total());
        starts.push(0);
        for item in 0..pool.len() {
            let start = tags.len();
            let row = index.of(item).iter().map(|tag| folded[*tag as usize]);
            // A tag that occurs once is shared with nobody.
            tags.extend(row.filter(|tag| occurrences[*tag as usize] > 1));
            sort_and_deduplicate(&mut tags, start);
            starts.push(tags.len() as u32);
        }
        Self { starts, tags, distinct }
    }

    fn start(&self, item: u32) -> u32 {
        self.starts[item as usize]
    }

    fn end(&self, item: u32) -> u32 {
        self.starts[item as usize + 1]
    }

    fn of(&self, item: u32) -> &[u32] {
        &self.tags[self.start(item) as usize..self.end(item) as usize]
    }
}

/// Puts what follows `start` in order, and drops repeats.
fn sort_and_deduplicate(tags: &mut Vec<u32>, start: usize) {
    if tags.len() - start < 2 {
        return;
    }
    tags[start..].sort_unstable();
    let mut kept = start + 1;
    for i in start + 1..tags.len() {
        if tags[i] != tags[kept - 1] {
            tags[kept] = tags[i];
            kept += 1;
        }
    }
    tags.truncate(kept);
}

/// An item of a group, and which tags of its row the group has not yet looked at.
#[derive(Clone, Copy, Default)]
struct Member {
    item: u32,
    tail: u32,
    end: u32,
}

/// The members of a group that have one tag, as a range of the stack of members.
struct Bucket {
    tag: u32,
    start: usize,
    len: usize,
    /// How many of them are in their places.
    filled: usize,
    /// Whether any of them has tags after this one.
    has_tails: bool,
}

struct MeetingCount<'r> {
    rows: &'r TagRows,
    /// For each item, how many items its tags meet, itself included.
    meetings: Vec<i64>,
    /// Groups on groups: a group's sub-groups are pushed behind it, and popped when it is done.
    members: Vec<Member>,
    buckets: Vec<Bucket>,
    /// For each tag, its bucket in the group being split.
    bucket_of: Vec<u32>,
    bitmaps: Vec<u64>,
    met: Vec<u64>,
}

impl<'r> MeetingCount<'r> {
    const NO_BUCKET: u32 = u32::MAX;

    fn new(rows: &'r TagRows) -> Self {
        Self {
            rows,
            meetings: vec![0; rows.starts.len() - 1],
            members: Vec::with_capacity(rows.starts.len() + 2 * rows.tags.len()),
            buckets: Vec::with_capacity(2 * rows.distinct),
            bucket_of: vec![Self::NO_BUCKET; rows.distinct],
            bitmaps: Vec::with_capacity(rows.distinct),
            met: Vec::new(),
        }
    }

    fn tail(&self, member: Member) -> &'r [u32] {
        &self.rows.tags[member.tail as usize..member.end as usize]
    }

    /// Adds to each member of the group, `sign` times, how many members its tail meets.
    fn add(&mut self, start: usize, end: usize, sign: i64) {
        if end - start <= 64 {
            return self.add_by_word(start, end, sign);
        }
        let first_bucket = self.buckets.len();
        let first_member = self.members.len();
        self.split(start, end);
        if self.prefers_bitmaps(start, end) {
            self.add_by_bitmap(start, end, sign, first_bucket);
        } else {
            self.forget(first_bucket);
            for bucket in first_bucket..self.buckets.len() {
                let Bucket { start, len, has_tails, .. } = self.buckets[bucket];
                for member in &self.members[start..start + len] {
                    self.meetings[member.item as usize] += sign * len as i64;
                }
                if has_tails {
                    self.add(start, start + len, -sign);
                }
            }
        }
        self.buckets.truncate(first_bucket);
        self.members.truncate(first_member);
    }

    /// Whether bitmaps are cheaper for a group that has been split. Only a tag that many members have
    /// makes the recursion branch; the others end in a word. A step of it costs about as much as
    /// sixteen words of a bitmap.
    fn prefers_bitmaps(&self, start: usize, end: usize) -> bool {
        let words = (end - start).div_ceil(64) as u64;
        let (mut by_tag, mut by_bitmap) = (0_u64, 0_u64);
        for &member in &self.members[start..end] {
            let tail = self.tail(member);
            let bucket = |tag: &u32| &self.buckets[self.bucket_of[*tag as usize] as usize];
            let branching = tail.iter().filter(|tag| bucket(tag).len > 64).count();
            by_tag = by_tag.saturating_add(16 * (tail.len() as u64 + (1 << branching.min(40))));
            by_bitmap = by_bitmap.saturating_add((tail.len() as u64 + 1) * words);
        }
        by_bitmap < by_tag
    }

    /// The same sum for a group so small that a bitmap is one word: for each tag the members that
    /// have it, and for each member the union over its tags.
    fn add_by_word(&mut self, start: usize, end: usize, sign: i64) {
        self.bitmaps.clear();
        for (position, &member) in self.members[start..end].iter().enumerate() {
            for &tag in self.tail(member) {
                let bitmap = &mut self.bucket_of[tag as usize];
                if *bitmap == Self::NO_BUCKET {
                    *bitmap = self.bitmaps.len() as u32;
                    self.bitmaps.push(0);
                }
                self.bitmaps[*bitmap as usize] |= 1 << position;
            }
        }
        for &member in &self.members[start..end] {
            let bitmaps = self.tail(member).iter().map(|tag| self.bucket_of[*tag as usize]);
            let met = bitmaps.fold(0, |met, bitmap| met | self.bitmaps[bitmap as usize]);
            self.meetings[member.item as usize] += sign * i64::from(met.count_ones());
        }
        for &member in &self.members[start..end] {
            for &tag in self.tail(member) {
                self.bucket_of[tag as usize] = Self::NO_BUCKET;
            }
        }
    }

    /// Pushes a bucket for each tag in the tails of the group: the members that have the tag, with
    /// their tails cut to what follows it. `bucket_of` knows them until they are forgotten.
    fn split(&mut self, start: usize, end: usize) {
        let first_bucket = self.buckets.len();
        for i in start..end {
            for &tag in self.tail(self.members[i]) {
                let bucket = &mut self.bucket_of[tag as usize];
                if *bucket == Self::NO_BUCKET {
                    *bucket = self.buckets.len() as u32;
                    self.buckets.push(Bucket {
                        tag,
                        start: 0,
                        len: 0,
                        filled: 0,
                        has_tails: false,
                    });
                }
                self.buckets[*bucket as usize].len += 1;
            }
        }
        let mut next = self.members.len();
        for bucket in &mut self.buckets[first_bucket..] {
            bucket.start = next;
            next += bucket.len;
        }
        self.members.resize(next, Member::default());
        for i in start..end {
            let member = self.members[i];
            for (tag, tail) in self.tail(member).iter().zip(member.tail + 1..) {
                let bucket = &mut self.buckets[self.bucket_of[*tag as usize] as usize];
                bucket.has_tails |= tail < member.end;
                self.members[bucket.start + bucket.filled] = Member { tail, ..member };
                bucket.filled += 1;
            }
        }
    }

    /// Forgets which tag has which of the last buckets.
    fn forget(&mut self, first_bucket: usize) {
        for bucket in &self.buckets[first_bucket..] {
            self.bucket_of[bucket.tag as usize] = Self::NO_BUCKET;
        }
    }

    /// The same sum by bitmaps over the members of the group. A tag that few of them carry has no
    /// bitmap; its bits are set one by one, so the bitmaps take no more space than the members.
    fn add_by_bitmap(&mut self, start: usize, end: usize, sign: i64, first_bucket: usize) {
        let words = (end - start).div_ceil(64);
        self.bitmaps.clear();
        for bucket in &mut self.buckets[first_bucket..] {
            bucket.filled = 0;
            if bucket.len >= words {
                // From here on the bucket is its bitmap.
                bucket.start = self.bitmaps.len();
                self.bitmaps.resize(bucket.start + words, 0);
            }
        }
        for i in start..end {
            let position = i - start;
            for &tag in self.tail(self.members[i]) {
                let bucket = &mut self.buckets[self.bucket_of[tag as usize] as usize];
                if bucket.len >= words {
                    self.bitmaps[bucket.start + position / 64] |= 1 << (position % 64);
                } else {
                    // Here members are named by their position in the group.
                    self.members[bucket.start + bucket.filled].item = position as u32;
                    bucket.filled += 1;
                }
            }
        }
        for i in start..end {
            self.met.clear();
            self.met.resize(words, 0);
            for &tag in self.tail(self.members[i]) {
                let Bucket { start, len, .. } = self.buckets[self.bucket_of[tag as usize] as usize];
                if len >= words {
                    let bitmap = &self.bitmaps[start..start + words];
                    self.met.iter_mut().zip(bitmap).for_each(|(met, bits)| *met |= bits);
                } else {
                    for member in &self.members[start..start + len] {
                        self.met[member.item as usize / 64] |= 1 << (member.item % 64);
                    }
                }
            }
            let met: u32 = self.met.iter().map(|word| word.count_ones()).sum();
            self.meetings[self.members[i].item as usize] += sign * i64::from(met);
        }
        self.forget(first_bucket);
    }
}
