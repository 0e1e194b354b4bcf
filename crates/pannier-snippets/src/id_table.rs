//! Finding snippets by their ids.
//!
//! A closure looks up every requirement of everything in it, and a binary search over ids that begin alike compares many
//! long texts each time. A table of hashes compares one. Nothing ever goes through the table in its own order.

use xxhash_rust::xxh3::xxh3_64;

/// The numbers of texts, by their hashes. Collisions take the next place.
#[derive(Debug)]
pub(crate) struct IdTable {
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl IdTable {
    /// Numbers these texts, which differ, from 0 on.
    pub(crate) fn new<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Self {
        let mut slots = vec![EMPTY; (2 * names.len() + 1).next_power_of_two()];
        for (number, name) in (0..).zip(names) {
            let mut place = place(name, slots.len());
            while slots[place] != EMPTY {
                place = (place + 1) & (slots.len() - 1);
            }
            slots[place] = number;
        }
        Self { slots }
    }

    /// The number of a text, if it has one.
    pub(crate) fn find<'n>(&self, name: &str, text: impl Fn(u32) -> &'n str) -> Option<u32> {
        let mut place = place(name, self.slots.len());
        // At most half of all places are taken.
        while self.slots[place] != EMPTY {
            if text(self.slots[place]) == name {
                return Some(self.slots[place]);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        None
    }
}

/// Where to look first. The number of places is a power of two.
fn place(name: &str, places: usize) -> usize {
    // Its lowest bits are as good as any.
    xxh3_64(name.as_bytes()) as usize & (places - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_others_are_not() {
        for count in [0, 1, 2, 1_000] {
            let texts: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
            let names = IdTable::new(texts.iter().map(String::as_str));
            let find = |text: &str| names.find(text, |number| texts[number as usize].as_str());
            for (number, text) in (0..).zip(&texts) {
                assert_eq!(find(text), Some(number));
            }
            for number in count..count + 100 {
                assert_eq!(find(&format!("n{number}")), None);
            }
            assert_eq!(find(""), None);
        }
    }
}
