//! The part of a vocabulary that can occur in given texts.
//!
//! Of 200,000 tokens, a small pool needs some thousands. A token occurs in a text only if each two adjacent bytes of it do. So
//! the subset has the tokens whose pairs of bytes all occur in the parts, or where one part follows another. It encodes every
//! sequence of these parts as the whole vocabulary does: the tokens of which a token is made have no other pairs.

use super::compile::{
    BYTES, HAS_CHILDREN, HEADER_BYTES, IS_TOKEN, LAST_SIBLING, u24, u32_at, write_file,
};

/// Returns the file of the tokens that can occur in a text which consists of these parts, in any order.
///
/// `file` is the valid file of the vocabulary of this name.
pub(super) fn subset<'p>(
    name: &str,
    file: &[u8],
    parts: impl IntoIterator<Item = &'p str>,
) -> Vec<u8> {
    let pairs = BytePairs::new(parts);
    let (nodes, tokens) = (u32_at(file, 16) as usize, u32_at(file, 20) as usize);
    let (labels, rest) = file[HEADER_BYTES..].split_at(nodes);
    let (packed_flags, rest) = rest.split_at(nodes.div_ceil(2));
    let (ranks, rights) = rest.split_at(3 * tokens);
    let mut flags: Vec<u8> =
        (0..nodes).map(|node| packed_flags[node / 2] >> (node % 2 * 4) & 15).collect();

    // Children are behind their parents, so one pass decides.
    let mut is_kept = vec![true; nodes];
    let mut next = BYTES;
    for node in 0..nodes {
        if flags[node] & HAS_CHILDREN == 0 {
            continue;
        }
        flags[node] &= !HAS_CHILDREN;
        let mut last_kept = None;
        loop {
            let (child, is_last) = (next, flags[next] & LAST_SIBLING != 0);
            next += 1;
            is_kept[child] = is_kept[node] && pairs.contains(labels[node], labels[child]);
            flags[child] &= !LAST_SIBLING;
            if is_kept[child] {
                last_kept = Some(child);
            }
            if is_last {
                break;
            }
        }
        if let Some(child) = last_kept {
            flags[child] |= LAST_SIBLING;
            flags[node] |= HAS_CHILDREN;
        }
    }

    let token_nodes = (0..nodes).filter(|node| flags[*node] & IS_TOKEN != 0);
    let all = token_nodes.zip(ranks.as_chunks().0.iter().zip(rights.as_chunks().0));
    let kept = all.filter(|(node, _)| is_kept[*node]);
    let kept: Vec<(u32, u32)> = kept.map(|(_, (rank, right))| (u24(rank), u24(right))).collect();
    // Ranks are consecutive, in the same order.
    let mut order: Vec<u32> = kept.iter().map(|(rank, _)| *rank).collect();
    order.sort_unstable();
    let rank = |old: u32| order.binary_search(&old).map_or(0, |rank| rank as u32);

    let nodes: Vec<usize> = (0..nodes).filter(|node| is_kept[*node]).collect();
    let labels: Vec<u8> = nodes.iter().map(|node| labels[*node]).collect();
    let flags: Vec<u8> = nodes.iter().map(|node| flags[*node]).collect();
    let old = kept.iter().map(|(rank, _)| *rank).chain(kept.iter().map(|(_, right)| *right));
    let ranks: Vec<u8> = old.flat_map(|old| rank(old).to_le_bytes().into_iter().take(3)).collect();
    write_file(name, &labels, &flags, &ranks)
}

/// The pairs of adjacent bytes, one bit each.
struct BytePairs(Vec<u64>);

impl BytePairs {
    fn new<'p>(parts: impl IntoIterator<Item = &'p str>) -> Self {
        let mut pairs = Self(vec![0; BYTES * BYTES / 64]);
        let (mut first, mut last) = ([false; BYTES], [false; BYTES]);
        for part in parts {
            let bytes = part.as_bytes();
            bytes.windows(2).for_each(|pair| pairs.insert(pair[0], pair[1]));
            if let (Some(start), Some(end)) = (bytes.first(), bytes.last()) {
                first[usize::from(*start)] = true;
                last[usize::from(*end)] = true;
            }
        }
        for end in (0..=u8::MAX).filter(|byte| last[usize::from(*byte)]) {
            for start in (0..=u8::MAX).filter(|byte| first[usize::from(*byte)]) {
                pairs.insert(end, start);
            }
        }
        pairs
    }

    fn insert(&mut self, left: u8, right: u8) {
        let bit = usize::from(left) * BYTES + usize::from(right);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn contains(&self, left: u8, right: u8) -> bool {
        let bit = usize::from(left) * BYTES + usize::from(right);
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }
}

#[cfg(all(test, feature = "openai"))]
mod tests {
    use super::super::split::{Pieces, Rules};
    use super::super::vocabulary::{Scratch, Vocabulary};
    use super::super::vocabulary_file;
    use super::*;

    const PARTS: [&str; 9] = [
        "Refunds: within 30 days of delivery; the money is back in 5 days.",
        "fn main() {\n    println!(\"{:?}\", 1 + 2);\n}\n",
        "\n\n",
        " ",
        "Überraschung! 東京 и 😀",
        "",
        "</item>\n<item id=\"a-1\">",
        "GET /health 200 in 3 ms\r\n\tGET",
        "s'll 12345 ...",
    ];

    fn count(vocabulary: &Vocabulary, rules: Rules, text: &str) -> usize {
        let mut scratch = Scratch::default();
        let encoder = vocabulary.encoder();
        Pieces::new(text, rules).map(|piece| encoder.count(piece.as_bytes(), &mut scratch)).sum()
    }

    #[test]
    fn every_sequence_of_the_parts_has_the_counts_of_the_whole_vocabulary() {
        for (name, rules) in [("o200k", Rules::O200k), ("cl100k", Rules::Cl100k)] {
            let file = vocabulary_file(name).unwrap();
            let (_, whole) = Vocabulary::read(&file).unwrap();
            let smaller = subset(name, &file, PARTS);
            assert!(smaller.len() < file.len() / 4, "{} of {}", smaller.len(), file.len());
            let (own, part) = Vocabulary::read(&smaller).unwrap();
            assert_eq!(name, own);
            let mut state = 7_u64;
            for _ in 0..2_000 {
                let mut text = String::new();
                for _ in 0..1 + (state >> 40) % 6 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    text.push_str(PARTS[(state >> 33) as usize % PARTS.len()]);
                }
                assert_eq!(count(&whole, rules, &text), count(&part, rules, &text), "{text:?}");
            }
        }
    }

    #[test]
    fn all_pairs_give_the_whole_vocabulary() {
        let all: Vec<String> = (0..=u8::MAX).map(|byte| char::from(byte).to_string()).collect();
        // Only pairs of whole characters: bytes above 127 are parts of characters.
        let whole = vocabulary_file("o200k").unwrap();
        let ascii = subset("o200k", &whole, all.iter().map(String::as_str).take(128));
        assert!(ascii.len() > whole.len() / 4 && ascii.len() < whole.len());
        assert!(Vocabulary::read(&ascii).is_ok());
        let none = subset("o200k", &whole, []);
        assert_eq!(u32_at(&none, 20), 256);
        assert!(Vocabulary::read(&none).is_ok());
    }
}
