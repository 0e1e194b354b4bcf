use std::collections::BTreeMap;

use super::rank::positions_by_score;
use super::{Placer, Placing};
use crate::{Error, Passage};

/// One document after the other, the one with the best item first; inside a document, as it reads.
///
/// Inside a document, [passages](Passage) stand by their sequence, then by where they start; what is still equal, by
/// rank. An item that is no passage is a document of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DocumentPlacer;

impl Placer for DocumentPlacer {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        let mut documents = BTreeMap::new();
        let mut keys: Vec<(u32, u64, u64, u32)> = Vec::with_capacity(items.len());
        // The place of a document's best item is the document's.
        for (position, place) in positions_by_score(items).into_iter().zip(0_u32..) {
            let passage = Passage::from_item(items[position as usize].item);
            keys.push(match passage {
                Some(Passage { document, sequence, range }) => {
                    let document = *documents.entry(document).or_insert(place);
                    (document, sequence, range.start, position)
                }
                None => (place, 0, 0, position),
            });
        }
        keys.sort_unstable();
        Ok(keys.into_iter().map(|(_, _, _, position)| position).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, ScoredItem};

    #[test]
    fn documents_stand_by_their_best_and_read_in_order() {
        let passage = |document, sequence, start| {
            let passage = Passage { document, sequence, range: start..start + 10 };
            ContextItem::builder("text", 1).passage(&passage).build().unwrap()
        };
        let items = [
            passage("b.md", 3, 90),
            ContextItem::new("no passage", 1).unwrap(),
            passage("a.md", 0, 0),
            passage("b.md", 1, 7),
            passage("b.md", 1, 5),
            ContextItem::new("neither", 1).unwrap(),
        ];
        let scores = [0.7, 0.5, 0.9, 0.1, 0.2, 0.8];
        let scored: Vec<Placing<'_>> = items
            .iter()
            .zip(scores)
            .map(|(item, score)| ScoredItem { item, score }.into())
            .collect();
        assert_eq!(DocumentPlacer.place(&scored).unwrap(), [2, 5, 4, 3, 0, 1]);
    }
}
