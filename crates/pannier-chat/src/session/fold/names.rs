//! The names of a history: in how many blocks each occurs, and which block used it last.
//!
//! A long history has hundreds of thousands of names, so most of the time goes to cache misses. The table is therefore
//! small: 8 bytes for each slot, of which 4 tell most names apart without a look at the name itself.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::session::terms::for_each_name;

/// The slots of a new table.
const MIN_SLOTS: usize = 64;

/// A name in a text, by its number and its first position.
#[derive(Clone, Debug)]
pub(super) struct Name {
    number: u32,
    start: u32,
    end: u32,
}

impl Name {
    /// Returns its position in the text of its block.
    pub(super) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Where a name occurs.
#[derive(Clone, Debug)]
pub(super) struct Occurrences {
    hash: u64,
    /// The number of blocks that contain it, and the last of them.
    pub(super) blocks: u32,
    last: u32,
    /// The last of them that is not a result. No block precedes block 0, so 0 also means no block.
    pub(super) last_use: u32,
}

/// The names of a history. Names are compared by their hashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// An open-addressing hash table with linear probing.
    slots: Vec<Slot>,
    /// Where each name occurs, by its number.
    occurrences: Vec<Occurrences>,
    /// The names of the last block, each once.
    of_block: Vec<Name>,
}

/// The upper half of a name's hash, and its number plus 1; 0 if the slot is free.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    next_number: u32,
}

impl Slot {
    fn tag(hash: u64) -> u32 {
        (hash >> 32) as u32
    }
}

impl Names {
    /// Adds the names in the text of a block, which follows all blocks that were added. Returns them, each once.
    pub(super) fn add(&mut self, text: &str, block: usize, is_result: bool) -> &[Name] {
        self.of_block.clear();
        // No history has as many blocks, and names beyond 4 GiB of one text are not worth larger numbers.
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        for_each_name(text, |range| {
            let (Ok(start), Ok(end)) = (u32::try_from(range.start), u32::try_from(range.end))
            else {
                return;
            };
            let number = self.number(xxh3_64(&text.as_bytes()[range]));
            let name = &mut self.occurrences[number as usize];
            if name.last == block && name.blocks > 0 {
                return;
            }
            (name.blocks, name.last) = (name.blocks.saturating_add(1), block);
            if !is_result {
                name.last_use = block;
            }
            self.of_block.push(Name { number, start, end });
        });
        &self.of_block
    }

    /// Returns the number of a name. That of a new name is the next one.
    fn number(&mut self, hash: u64) -> u32 {
        if self.slots.len() <= 2 * self.occurrences.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index];
            let Some(number) = slot.next_number.checked_sub(1) else { break };
            if slot.tag == Slot::tag(hash) && self.occurrences[number as usize].hash == hash {
                return number;
            }
            index = (index + 1) & mask;
        }
        let number = self.occurrences.len() as u32;
        self.slots[index] = Slot { tag: Slot::tag(hash), next_number: number + 1 };
        self.occurrences.push(Occurrences { hash, blocks: 0, last: 0, last_use: 0 });
        number
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let length = (2 * self.slots.len()).max(MIN_SLOTS);
        self.slots = vec![Slot::default(); length];
        for (name, next_number) in self.occurrences.iter().zip(1..) {
            let mut index = name.hash as usize & (length - 1);
            while self.slots[index].next_number > 0 {
                index = (index + 1) & (length - 1);
            }
            self.slots[index] = Slot { tag: Slot::tag(name.hash), next_number };
        }
    }

    pub(super) fn occurrences(&self, name: &Name) -> &Occurrences {
        &self.occurrences[name.number as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map of all names.
        #[test]
        fn occurrences_are_those_of_a_map(
            blocks in prop::collection::vec(("([ab]{7,9} ){0,40}", any::<bool>()), 1..20),
        ) {
            let mut names = Names::default();
            let mut expected: BTreeMap<String, (u32, usize)> = BTreeMap::new();
            for (block, (text, is_result)) in blocks.iter().enumerate() {
                let found = names.add(text, block, *is_result).to_vec();
                let mut different: Vec<&str> = Vec::new();
                for_each_name(text, |range| {
                    if !different.contains(&&text[range.clone()]) {
                        different.push(&text[range]);
                    }
                });
                let shown: Vec<&str> = found.iter().map(|name| &text[name.range()]).collect();
                prop_assert_eq!(&shown, &different);
                for name in different {
                    let entry = expected.entry(name.to_owned()).or_default();
                    entry.0 += 1;
                    if !is_result {
                        entry.1 = block;
                    }
                }
                for name in &found {
                    let Occurrences { blocks, last_use, .. } = names.occurrences(name);
                    let expected = expected[&text[name.range()]];
                    prop_assert_eq!((*blocks, *last_use as usize), expected);
                }
            }
        }
    }
}
