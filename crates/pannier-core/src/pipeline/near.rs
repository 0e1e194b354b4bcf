//! The second half of stage 3: drops units of which too much is found in a better one.
//!
//! To compare every unit with every better one would take a step for each pair. Instead, each content becomes a
//! sorted array of hashes, once, and a unit is compared only with those that it meets at its rarest hashes: if more
//! than so many of its parts must be shared, then so many can be missing, and of one more than that at least one is
//! there. Rare ones are met by few.
//!
//! Hashes only find. Before a unit is dropped, both contents are compared by their words, so that no two texts that
//! happen to have the same hash can cost an item its place.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::units::Units;
use crate::{ContextItem, Passage};

/// How many words in a row are one part.
const WORDS_IN_A_PART: usize = 5;

/// Words and runs of words are hashed apart: a text of one word is not a run.
const WORD: u64 = 1;
const RUN: u64 = WORDS_IN_A_PART as u64;

/// Stands for no document.
const NONE: u32 = u32::MAX;

/// How much of a unit is found in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overlap {
    pub(crate) shared: u64,
    pub(crate) own: u64,
}

impl Overlap {
    /// Whether that is more than so many thousandths of it.
    fn exceeds(self, threshold: u16) -> bool {
        1_000 * u128::from(self.shared) > u128::from(threshold) * u128::from(self.own)
    }
}

/// A content as its words: lower-cased, with a space between them, so that a run of words is a slice.
struct Words {
    text: String,
    bounds: Vec<(usize, usize)>,
}

impl Words {
    fn of(content: &str) -> Self {
        let (mut text, mut bounds) = (String::with_capacity(content.len()), Vec::new());
        for word in words(content) {
            if !text.is_empty() {
                text.push(' ');
            }
            let start = text.len();
            if word.is_ascii() {
                text.push_str(word);
                text[start..].make_ascii_lowercase();
            } else {
                text.push_str(&word.to_lowercase());
            }
            bounds.push((start, text.len()));
        }
        Self { text, bounds }
    }

    fn is_short(&self) -> bool {
        self.bounds.len() < WORDS_IN_A_PART
    }

    /// The words, each after its hash.
    fn words(&self) -> impl Iterator<Item = (u64, &str)> {
        let words = self.bounds.iter().map(|(start, end)| &self.text[*start..*end]);
        words.map(|word| (xxh3_64_with_seed(word.as_bytes(), WORD), word))
    }

    /// The runs of words, each after its hash.
    fn runs(&self) -> impl Iterator<Item = (u64, &str)> {
        let runs = self.bounds.windows(WORDS_IN_A_PART);
        let runs = runs.map(|run| &self.text[run[0].0..run[WORDS_IN_A_PART - 1].1]);
        runs.map(|run| (xxh3_64_with_seed(run.as_bytes(), RUN), run))
    }
}

/// The maximal runs of letters and digits.
fn words(content: &str) -> impl Iterator<Item = &str> {
    content.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn sorted<T: Ord>(parts: impl Iterator<Item = T>) -> Vec<T> {
    let mut parts: Vec<T> = parts.collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// How much of one content is found in another, by their words. Hashes come first only because they are faster to
/// sort.
fn compare(new: &str, kept: &str) -> Overlap {
    let (new, kept) = (Words::of(new), Words::of(kept));
    let (own, others) = match new.is_short() {
        true => (sorted(new.words()), sorted(kept.words())),
        false => (sorted(new.runs()), sorted(kept.runs())),
    };
    let shared = own.iter().filter(|part| others.binary_search(part).is_ok()).count();
    Overlap { shared: shared as u64, own: own.len() as u64 }
}

/// What the items of a pool are compared by. Scores play no part in it.
pub(crate) struct Fingerprints<'a> {
    items: &'a [&'a ContextItem],
    prints: Vec<Print>,
    /// Where the units that are met at a part are written down; one place more than there are parts.
    starts: Vec<usize>,
    passages: Passages<'a>,
}

/// One item. Parts that no other item has are only counted.
#[derive(Clone, Default)]
struct Print {
    /// How many parts it has.
    own_count: u64,
    /// Those that others have, too.
    own: Vec<u32>,
    /// All that it can be met at: its own parts, and words that are all that a short item has.
    all: Vec<u32>,
}

/// The hash of a part, the item that has it, and whether it is one of its own or a word at which it is only met. One
/// wide integer, because sorting is what takes the time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part(u128);

impl Part {
    fn own(hash: u64, index: u32) -> Self {
        Self(u128::from(hash) << 64 | u128::from(index) << 1)
    }

    fn met_at(hash: u64, index: u32) -> Self {
        Self(Self::own(hash, index).0 | 1)
    }

    fn hash(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn index(self) -> usize {
        (self.0 as u64 >> 1) as usize
    }

    fn is_own(self) -> bool {
        self.0 & 1 == 0
    }
}

impl<'a> Fingerprints<'a> {
    /// Of the items in these units.
    pub(crate) fn new(items: &'a [&'a ContextItem], units: &Units) -> Self {
        let members = units.in_pool_order();
        let content = |index: u32| items[index as usize].content();
        // Single words matter only where an item has no more than a few.
        let short = members
            .iter()
            .filter(|index| words(content(**index)).nth(WORDS_IN_A_PART - 1).is_none());
        let short_words = sorted(short.flat_map(|index| {
            let words = Words::of(content(*index));
            words.words().map(|(hash, _)| hash).collect::<Vec<_>>()
        }));

        let mut prints = vec![Print::default(); items.len()];
        let mut parts: Vec<Part> = Vec::new();
        for index in &*members {
            let words = Words::of(content(*index));
            if words.is_short() {
                parts.extend(words.words().map(|(hash, _)| Part::own(hash, *index)));
                continue;
            }
            parts.extend(words.runs().map(|(hash, _)| Part::own(hash, *index)));
            if !short_words.is_empty() {
                let hashes = words.words().map(|(hash, _)| hash);
                let met_at = hashes.filter(|hash| short_words.binary_search(hash).is_ok());
                parts.extend(met_at.map(|hash| Part::met_at(hash, *index)));
            }
        }
        parts.sort_unstable();
        parts.dedup();

        let mut starts = vec![0];
        for equal in parts.chunk_by(|a, b| a.hash() == b.hash()) {
            for part in equal.iter().filter(|part| part.is_own()) {
                prints[part.index()].own_count += 1;
            }
            if equal.len() < 2 {
                continue;
            }
            // Far fewer than there are bytes in memory.
            let (number, start) = (starts.len() as u32 - 1, starts[starts.len() - 1]);
            starts.push(start + equal.len());
            for part in equal {
                let print = &mut prints[part.index()];
                print.all.push(number);
                if part.is_own() {
                    print.own.push(number);
                }
            }
        }
        Self { items, prints, starts, passages: Passages::new(items, &members) }
    }

    /// Which of these items have more than so many thousandths of them in a better one that is kept. They come best
    /// first. Told are the places of both, and how much it is.
    pub(super) fn find(&self, ranked: &[u32], threshold: u16) -> Vec<(usize, usize, Overlap)> {
        let mut found = Vec::new();
        let mut kept = Kept {
            fingerprints: self,
            ranked,
            threshold,
            places: vec![NONE; self.items.len()],
            met: vec![0; self.starts.last().copied().unwrap_or_default()],
            filled: vec![0; self.starts.len()],
        };
        for (place, index) in ranked.iter().enumerate() {
            match kept.first_like(*index) {
                Some((better, overlap)) => found.push((place, better, overlap)),
                None => kept.push(place, *index),
            }
        }
        found
    }

    /// How often a part occurs.
    fn frequency(&self, part: u32) -> usize {
        self.starts[part as usize + 1] - self.starts[part as usize]
    }

    /// How much of an item is found in another, if it is more than so many thousandths of it.
    fn overlap(&self, new: u32, kept: u32, threshold: u16) -> Option<Overlap> {
        if let Some(overlap) = self.passages.overlap(new, kept) {
            return Some(overlap).filter(|overlap| overlap.exceeds(threshold));
        }
        let (print, other) = (&self.prints[new as usize], &self.prints[kept as usize]);
        let is_shared = |part: &&u32| other.all.binary_search(part).is_ok();
        let shared = print.own.iter().filter(is_shared).count() as u64;
        if !(Overlap { shared, own: print.own_count }).exceeds(threshold) {
            return None;
        }
        let content = |index: u32| self.items[index as usize].content();
        Some(compare(content(new), content(kept))).filter(|overlap| overlap.exceeds(threshold))
    }
}

/// The items that are kept so far.
struct Kept<'f, 'a> {
    fingerprints: &'f Fingerprints<'a>,
    ranked: &'f [u32],
    threshold: u16,
    /// By pool index, each one's place in the order of ranks.
    places: Vec<u32>,
    /// For each part, the places of those that have it, in ascending order, and how many they are.
    met: Vec<u32>,
    filled: Vec<u32>,
}

impl Kept<'_, '_> {
    fn push(&mut self, place: usize, index: u32) {
        self.places[index as usize] = place as u32;
        for part in &self.fingerprints.prints[index as usize].all {
            let part = *part as usize;
            let slot = self.fingerprints.starts[part] + self.filled[part] as usize;
            self.met[slot] = place as u32;
            self.filled[part] += 1;
        }
    }

    /// The best that an item is too much like.
    fn first_like(&self, index: u32) -> Option<(usize, Overlap)> {
        let print = &self.fingerprints.prints[index as usize];
        // No words, nothing to compare.
        if print.own_count == 0 {
            return None;
        }
        let mut candidates = self.fingerprints.passages.near(index);
        candidates.retain_mut(|index| {
            *index = self.places[*index as usize];
            *index != NONE
        });
        let needed = u128::from(self.threshold) * u128::from(print.own_count) / 1_000 + 1;
        // Of so many parts, one must be shared. Those that nobody else has are rarest of all.
        let alone = print.own_count - print.own.len() as u64;
        let probes = (u128::from(print.own_count) + 1).saturating_sub(needed);
        let probes = probes.saturating_sub(u128::from(alone)) as usize;
        if probes > 0 {
            let mut rarest: Vec<(usize, u32)> =
                print.own.iter().map(|part| (self.fingerprints.frequency(*part), *part)).collect();
            rarest.sort_unstable();
            for (_, part) in rarest.into_iter().take(probes) {
                let (start, filled) =
                    (self.fingerprints.starts[part as usize], self.filled[part as usize]);
                candidates.extend(&self.met[start..start + filled as usize]);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.into_iter().find_map(|place| {
            let kept = self.ranked[place as usize];
            let overlap = self.fingerprints.overlap(index, kept, self.threshold)?;
            Some((place as usize, overlap))
        })
    }
}

/// Items that are passages, by document.
struct Passages<'a> {
    /// By pool index.
    passages: Vec<Option<Passage<'a>>>,
    /// By pool index, the number of its document.
    documents: Vec<u32>,
    /// The passages of one document after the other, each by where it starts: the start and the pool index.
    ordered: Vec<(u64, u32)>,
    /// Where each document's begin among them, and how long its longest is.
    spans: Vec<(usize, u64)>,
}

impl<'a> Passages<'a> {
    fn new(items: &'a [&'a ContextItem], members: &[u32]) -> Self {
        let mut passages = vec![None; items.len()];
        let mut keys = Vec::new();
        for index in members {
            let passage = Passage::from_item(items[*index as usize]);
            if let Some(Passage { document, range, .. }) = &passage {
                keys.push((*document, range.start, *index));
            }
            passages[*index as usize] = passage;
        }
        keys.sort_unstable();
        let (mut documents, mut spans) = (vec![NONE; items.len()], Vec::new());
        let mut begin = 0;
        for document in keys.chunk_by(|a, b| a.0 == b.0) {
            let mut longest = 0;
            for (_, _, index) in document {
                documents[*index as usize] = spans.len() as u32;
                longest = longest.max(passages[*index as usize].as_ref().map_or(0, Passage::len));
            }
            spans.push((begin, longest));
            begin += document.len();
        }
        let ordered = keys.into_iter().map(|(_, start, index)| (start, index)).collect();
        Self { passages, documents, ordered, spans }
    }

    /// The passages of the same document that may share bytes with this one.
    fn near(&self, index: u32) -> Vec<u32> {
        let Some(passage) = &self.passages[index as usize] else {
            return Vec::new();
        };
        let document = self.documents[index as usize] as usize;
        let (begin, longest) = self.spans[document];
        let end = self.spans.get(document + 1).map_or(self.ordered.len(), |(begin, _)| *begin);
        let of_document = &self.ordered[begin..end];
        let earliest = passage.range.start.saturating_sub(longest);
        let from = of_document.partition_point(|(start, _)| *start < earliest);
        let to = of_document.partition_point(|(start, _)| *start < passage.range.end);
        of_document[from.min(to)..to].iter().map(|(_, index)| *index).collect()
    }

    /// What one shares with another in bytes, if both are passages of one document.
    fn overlap(&self, new: u32, kept: u32) -> Option<Overlap> {
        if self.documents[new as usize] != self.documents[kept as usize] {
            return None;
        }
        let (new, kept) =
            (self.passages[new as usize].as_ref()?, self.passages[kept as usize].as_ref()?);
        Some(Overlap { shared: new.overlap_bytes(kept), own: new.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        let words = Words::of("Don't STOP—2 Straße\u{130}x");
        let texts = words.words().map(|(_, word)| word);
        assert_eq!(texts.collect::<Vec<_>>(), ["don", "t", "stop", "2", "straßei\u{307}x"]);
        let runs = words.runs().map(|(_, run)| run);
        assert_eq!(runs.collect::<Vec<_>>(), ["don t stop 2 straßei\u{307}x"]);
        assert!(!words.is_short());
        assert!(Words::of("... --- ...").bounds.is_empty());
    }

    #[test]
    fn a_content_is_compared_by_its_own_parts() {
        let overlap = |new, kept| {
            let Overlap { shared, own } = compare(new, kept);
            (shared, own)
        };
        let long = "one two three four five six";
        assert_eq!(overlap(long, "zero one two three four five"), (1, 2));
        // Few words are looked for among the words of the other, however many it has.
        assert_eq!(overlap("Two, six, two!", long), (2, 2));
        assert_eq!(overlap(long, "two six"), (0, 2));
        // A part that comes twice counts once.
        assert_eq!(overlap("a a a a a a a", "a a a a a"), (1, 1));
    }

    #[test]
    fn what_hashes_find_is_proven_by_the_words() {
        let items = ["a b c d e", "f g h i j"].map(|text| ContextItem::new(text, 1).unwrap());
        let mut units = Units::default();
        (0..2).for_each(|index| units.push_item(index));
        let items: Vec<&ContextItem> = items.iter().collect();
        let mut collided = Fingerprints::new(&items, &units);
        let same = Print { own_count: 1, own: vec![0], all: vec![0] };
        collided.prints = vec![same.clone(), same];
        collided.starts = vec![0, 2];
        assert_eq!(collided.find(&[0, 1], 800), []);
    }
}
