//! A vocabulary of byte pair encoding, in a file that is read in some milliseconds, and the encoding of a piece.
//!
//! Byte pair encoding starts with the bytes of a piece and merges the adjacent pair whose token has the lowest rank, until
//! no pair is a token. Two facts make it linear. Whether the border between two tokens stays depends on these two alone
//! ([`Vocabulary::is_border`]), and tokens whose borders all stay are the encoding. So the encoder takes the longest token
//! that may follow the previous one, and steps back where none may. A position it stepped back from is not tried again.
//!
//! # The file
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `pan-bpe1` |
//! | 8 | the name of the encoding, filled with zeros |
//! | 4, 4 | n, the number of nodes; t, the number of tokens; little-endian as all numbers |
//! | 8 | the checksum of the rest |
//! | n | a trie of the tokens, without its root, in level order: the byte that leads to each node |
//! | ⌈n / 2⌉ | flags of the nodes, four bits each, the lower first: 1 = last sibling, 2 = has children, 4 = is a token |
//! | 3 t | the rank of each token, in the order of the nodes |
//! | 3 t | the rank of the right token of the pair that merges to each token; a byte has its own rank |
//!
//! In level order the children of a node are adjacent, and so are those of consecutive nodes. `tests/vocabularies.rs`
//! writes the files.

use std::borrow::Cow;
use std::ops::Range;

use crate::TokenError;

const MAGIC: &[u8; 8] = b"pan-bpe1";
pub(super) const HEADER_BYTES: usize = 32;

pub(super) const LAST_SIBLING: u8 = 1;
pub(super) const HAS_CHILDREN: u8 = 2;
pub(super) const IS_TOKEN: u8 = 4;

/// All single bytes are tokens. They have the lowest ranks and are the first nodes.
pub(super) const BYTES: usize = 256;
/// The maximum number of bits of a rank: two ranks and that of their merge fit a word of the pair table.
const RANK_BITS: u32 = 20;
/// No token, or no node.
const NONE: u32 = u32::MAX;

/// A vocabulary that is ready to encode.
#[derive(Default)]
pub(super) struct Vocabulary {
    file: Cow<'static, [u8]>,
    /// The range of the labels of the nodes in the file.
    labels: Range<usize>,
    nodes: Vec<Node>,
    /// The nodes of two bytes, by these bytes.
    second_level: Vec<u32>,
    tokens: Vec<Token>,
    /// The lengths of the tokens in bytes, apart from them: these stay in a processor's cache. 0: not read yet.
    lengths: Vec<u8>,
    pairs: PairTable,
    max_token_bytes: usize,
}

#[derive(Clone, Copy)]
struct Node {
    /// The first child. The children end where those of the next node start.
    children: u32,
    token: u32,
}

/// A token, at the index of its rank.
#[derive(Clone, Copy, Default)]
struct Token {
    /// The longest other token that starts this one.
    prefix: u32,
    /// The pair that merges to this token. Of a byte, both are the byte.
    left: u32,
    right: u32,
}

/// Buffers of the encoder.
#[derive(Default)]
pub(super) struct Scratch {
    tokens: Vec<u32>,
    /// Positions from which the rest of the piece cannot be encoded, one bit each.
    dead: Vec<u64>,
}

impl Vocabulary {
    /// Reads a file, and checks it so far that encoding ends and stays within bounds. Returns the encoding's name, too.
    pub(super) fn read(file: Cow<'static, [u8]>) -> Result<(String, Self), TokenError> {
        let problem = |problem| TokenError::Vocabulary { problem };
        let header = file.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(MAGIC));
        let header = header.ok_or(problem("it does not start as one"))?;
        let name = header[8..16].iter().take_while(|byte| **byte > 0);
        let name: String = name.map(|byte| char::from(*byte)).collect();
        let (nodes, tokens) = (u32_at(header, 16) as usize, u32_at(header, 20) as usize);
        let size = nodes.checked_add(nodes.div_ceil(2)).zip(tokens.checked_mul(6));
        let size =
            size.and_then(|(nodes, tokens)| nodes.checked_add(tokens)?.checked_add(HEADER_BYTES));
        if size != Some(file.len()) || checksum(&file[HEADER_BYTES..]).to_le_bytes() != header[24..]
        {
            return Err(problem("it is incomplete or damaged"));
        }
        if tokens < BYTES || nodes < tokens || tokens >= 1 << RANK_BITS {
            return Err(problem("its numbers of nodes and tokens are impossible"));
        }
        let mut vocabulary = Self {
            labels: HEADER_BYTES..HEADER_BYTES + nodes,
            nodes: vec![Node { children: nodes as u32, token: NONE }; nodes + 1],
            second_level: vec![NONE; BYTES * BYTES],
            tokens: vec![Token::default(); tokens],
            lengths: vec![0; tokens],
            pairs: PairTable::with_capacity(tokens),
            max_token_bytes: 1,
            file: Cow::Borrowed(&[]),
        };
        vocabulary
            .fill(&file[HEADER_BYTES..])
            .ok_or(problem("its tokens contradict each other"))?;
        vocabulary.file = file;
        Ok((name, vocabulary))
    }

    /// Fills the tables in one pass over the nodes. `None` if the file is not valid.
    fn fill(&mut self, body: &[u8]) -> Option<()> {
        let count = self.nodes.len() - 1;
        let (labels, rest) = body.split_at(count);
        let (flags, rest) = rest.split_at(count.div_ceil(2));
        let (ranks, rights) = rest.split_at(3 * self.tokens.len());
        let flags = |node: usize| flags[node / 2] >> (node % 2 * 4);
        let mut ranks = ranks.as_chunks().0.iter().zip(rights.as_chunks().0);
        // For each node: its token, or the longest token on the path to it.
        let mut nearest = vec![NONE; count];
        for byte in 0..BYTES {
            let (rank, _) = ranks.next()?;
            nearest[byte] = self.add_token(u24(rank), u24(rank), 1, NONE)?;
            self.nodes[byte].token = nearest[byte];
            if flags(byte) & IS_TOKEN == 0 || usize::from(labels[byte]) != byte {
                return None;
            }
        }
        let (mut next, mut length, mut level_end) = (BYTES, 1_u8, BYTES);
        for node in 0..count {
            if node == level_end {
                (length, level_end) = (length.checked_add(1)?, next);
            }
            self.nodes[node].children = next as u32;
            let mut is_last = flags(node) & HAS_CHILDREN == 0;
            while !is_last {
                // A child is behind its parent, because the nodes are a tree.
                let child = next;
                if child >= count || child <= node {
                    return None;
                }
                nearest[child] = nearest[node];
                if flags(child) & IS_TOKEN != 0 {
                    let (rank, right) = ranks.next()?;
                    nearest[child] = self.add_token(
                        u24(rank),
                        u24(right),
                        length.checked_add(1)?,
                        nearest[node],
                    )?;
                    self.nodes[child].token = nearest[child];
                }
                if node < BYTES {
                    self.second_level[node * BYTES + usize::from(labels[child])] = child as u32;
                }
                is_last = flags(child) & LAST_SIBLING != 0;
                next += 1;
            }
        }
        self.max_token_bytes = length.into();
        (next == count && ranks.next().is_none()).then_some(())
    }

    /// Adds a token of `length` bytes whose longest prefix is `prefix`. Shorter tokens precede it.
    fn add_token(&mut self, rank: u32, right: u32, length: u8, prefix: u32) -> Option<u32> {
        if *self.lengths.get(rank as usize)? > 0 || (length == 1) != ((rank as usize) < BYTES) {
            return None;
        }
        let mut left = rank;
        if length > 1 {
            let left_length = length.checked_sub(*self.lengths.get(right as usize)?)?;
            left = prefix;
            while *self.lengths.get(left as usize)? != left_length {
                left = self.tokens[left as usize].prefix;
            }
            if left >= rank || right >= rank {
                return None;
            }
            self.pairs.insert(left, right, rank);
        }
        self.tokens[rank as usize] = Token { prefix, left, right };
        self.lengths[rank as usize] = length;
        Some(rank)
    }

    /// Returns the length of the longest token.
    pub(super) fn max_token_bytes(&self) -> usize {
        self.max_token_bytes
    }

    /// Returns the length of a token of this vocabulary.
    pub(super) fn token_bytes(&self, token: u32) -> usize {
        self.lengths[token as usize].into()
    }

    /// Counts the tokens of a piece.
    pub(super) fn count(&self, piece: &[u8], scratch: &mut Scratch) -> usize {
        self.encode(piece, scratch).len()
    }

    /// Returns the tokens of a piece.
    pub(super) fn encode<'s>(&self, piece: &[u8], scratch: &'s mut Scratch) -> &'s [u32] {
        let Scratch { tokens, dead } = scratch;
        tokens.clear();
        dead.clear();
        dead.resize(piece.len() / 64 + 1, 0);
        let mut position = 0;
        let mut longest = self.longest_token(piece);
        while position < piece.len() {
            let previous = tokens.last().copied();
            let mut token = longest;
            while token != NONE {
                let end = position + self.token_bytes(token);
                let is_dead = dead[end / 64] >> (end % 64) & 1 == 1;
                if !is_dead && previous.is_none_or(|previous| self.is_border(previous, token)) {
                    break;
                }
                token = self.tokens[token as usize].prefix;
            }
            if token != NONE {
                tokens.push(token);
                position += self.token_bytes(token);
                longest = self.longest_token(&piece[position..]);
            } else if let Some(previous) = tokens.pop() {
                dead[position / 64] |= 1 << (position % 64);
                position -= self.token_bytes(previous);
                longest = previous;
            } else {
                // Not with a valid vocabulary: every piece has an encoding.
                tokens.extend(piece.iter().map(|byte| u32::from(*byte)));
                break;
            }
        }
        tokens
    }

    /// Returns the longest token at the start of `bytes`, or `NONE` if there are no bytes.
    fn longest_token(&self, bytes: &[u8]) -> u32 {
        let [first, rest @ ..] = bytes else { return NONE };
        let mut longest = self.nodes[usize::from(*first)].token;
        let [second, rest @ ..] = rest else { return longest };
        let mut node = self.second_level[usize::from(*first) * BYTES + usize::from(*second)];
        let labels = &self.file[self.labels.clone()];
        let mut rest = rest.iter();
        while node != NONE {
            let Node { children, token } = self.nodes[node as usize];
            if token != NONE {
                longest = token;
            }
            let Some(byte) = rest.next() else { break };
            let siblings =
                &labels[children as usize..self.nodes[node as usize + 1].children as usize];
            node = match siblings.iter().position(|label| label == byte) {
                Some(index) => children + index as u32,
                None => NONE,
            };
        }
        longest
    }

    /// Returns whether the border between two tokens stays.
    ///
    /// It does unless a merge across it would come before a merge that made one of the tokens. So this undoes the merges
    /// next to the border, the latest first, and looks for a pair across it with a lower rank.
    fn is_border(&self, mut left: u32, mut right: u32) -> bool {
        let mut limit = NONE;
        loop {
            if self.pairs.get(left, right).is_some_and(|merged| merged < limit) {
                return false;
            }
            let last = left.max(right) as usize;
            if last < BYTES {
                return true;
            }
            if left > right {
                limit = left;
                left = self.tokens[last].right;
            } else {
                // Of equal merges the left one is first, so this one may come before.
                limit = right + 1;
                right = self.tokens[last].left;
            }
        }
    }
}

/// The tokens that pairs of tokens merge to: a hash table with linear probing, at most half full.
#[derive(Default)]
struct PairTable {
    /// Left, right and merged rank. 0 is free: only ranks above those of bytes are merged.
    slots: Vec<u64>,
    shift: u32,
}

impl PairTable {
    fn with_capacity(pairs: usize) -> Self {
        let bits = (2 * pairs).next_power_of_two().trailing_zeros();
        Self { slots: vec![0; 1 << bits], shift: u64::BITS - bits }
    }

    fn key(left: u32, right: u32) -> u64 {
        u64::from(left) << RANK_BITS | u64::from(right)
    }

    /// Returns the slot of a pair: its own, or the free one for it.
    fn slot(&self, key: u64) -> usize {
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.slots[slot] != 0 && self.slots[slot] >> RANK_BITS != key {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    fn insert(&mut self, left: u32, right: u32, merged: u32) {
        let key = Self::key(left, right);
        let slot = self.slot(key);
        self.slots[slot] = key << RANK_BITS | u64::from(merged);
    }

    fn get(&self, left: u32, right: u32) -> Option<u32> {
        let found = self.slots[self.slot(Self::key(left, right))];
        (found != 0).then_some((found & ((1 << RANK_BITS) - 1)) as u32)
    }
}

pub(super) fn u24([low, middle, high]: &[u8; 3]) -> u32 {
    u32::from_le_bytes([*low, *middle, *high, 0])
}

pub(super) fn u32_at(bytes: &[u8], index: usize) -> u32 {
    bytes[index..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Hashes a file to detect damage, eight bytes at a time.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(bytes.len() as u64, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}
