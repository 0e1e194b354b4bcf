//! A hash table from ids to positions, with linear probing and a load factor of at most one half.
//!
//! Building a dependency closure looks up every reference. A binary search would compare many long ids with a common
//! prefix; the table compares one on average. Nothing iterates over the table, so its order is not observable.

use xxhash_rust::xxh3::xxh3_64;

/// The positions of ids, by hash.
#[derive(Debug)]
pub(crate) struct IdTable {
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl IdTable {
    /// Builds the table of distinct ids; the first has position 0.
    pub(crate) fn new<'n>(ids: impl ExactSizeIterator<Item = &'n str>) -> Self {
        let mut slots = vec![EMPTY; (2 * ids.len() + 1).next_power_of_two()];
        for (position, id) in (0..).zip(ids) {
            let mut slot = first_slot(id, slots.len());
            while slots[slot] != EMPTY {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = position;
        }
        Self { slots }
    }

    /// Returns the position of `id`. `id_at` returns the id at a position.
    pub(crate) fn find<'n>(&self, id: &str, id_at: impl Fn(u32) -> &'n str) -> Option<u32> {
        let mut slot = first_slot(id, self.slots.len());
        // Ends, because at least half of the slots are empty.
        while self.slots[slot] != EMPTY {
            if id_at(self.slots[slot]) == id {
                return Some(self.slots[slot]);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }
}

/// Returns the first slot to probe. `slots` is a power of two.
fn first_slot(id: &str, slots: usize) -> usize {
    xxh3_64(id.as_bytes()) as usize & (slots - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_the_table_are_found_and_others_are_not() {
        for count in [0, 1, 2, 1_000] {
            let ids: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
            let table = IdTable::new(ids.iter().map(String::as_str));
            let find = |id: &str| table.find(id, |position| ids[position as usize].as_str());
            for (position, id) in (0..).zip(&ids) {
                assert_eq!(find(id), Some(position));
            }
            for number in count..count + 100 {
                assert_eq!(find(&format!("n{number}")), None);
            }
            assert_eq!(find(""), None);
        }
    }
}
