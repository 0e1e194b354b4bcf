//! A vocabulary of byte pair encoding, in tables that need no building, and the encoding of a piece.
//!
//! Byte pair encoding starts with the bytes of a piece and merges the adjacent pair whose token has the lowest rank, until
//! no pair is a token. Two facts make it linear. Whether the border between two tokens stays depends on these two alone
//! ([`Encoder::is_border`]), and tokens whose borders all stay are the encoding. So the encoder takes the longest token
//! that may follow the previous one, and steps back where none may. A position it stepped back from is not tried again.
//!
//! The tables are read in place: a process that counts a few words reads a few pages of them. `compile.rs` describes them.

use std::borrow::Cow;
use std::ops::Range;

use super::compile::{
    BYTES, NODE_BYTES, NONE, Node, Pair, SLOT_BYTES, TABLES_HEADER_BYTES, TOKEN_BYTES, Token,
    compile, read_slot, u32_at,
};
#[cfg(feature = "openai")]
use super::compile::{HAS_CHILDREN, IS_TOKEN, LAST_SIBLING, write_file};
use crate::TokenError;

/// No node.
const NO_NODE: u32 = u32::MAX;

/// A vocabulary that is ready to encode.
#[derive(Default)]
pub(super) struct Vocabulary {
    tables: Cow<'static, [u8]>,
    /// The nodes of two bytes, by these bytes.
    second_level: Vec<u32>,
}

/// The tables of a vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Encoder<'v> {
    max_token_bytes: usize,
    labels: &'v [u8],
    nodes: &'v [[u8; NODE_BYTES]],
    tokens: &'v [[u8; TOKEN_BYTES]],
    slots: &'v [[u8; SLOT_BYTES]],
    second_level: &'v [u32],
}

/// Buffers of the encoder.
#[derive(Default)]
pub(super) struct Scratch {
    tokens: Vec<u32>,
    /// Positions from which the rest of the piece cannot be encoded, one bit each.
    dead: Vec<u64>,
}

impl Vocabulary {
    /// Compiles a file. Returns the encoding's name, too.
    pub(super) fn read(file: &[u8]) -> Result<(String, Self), TokenError> {
        let (name, tables) = compile(file).map_err(|problem| TokenError::Vocabulary { problem })?;
        Ok((name, Self::new(tables.into())))
    }

    /// Uses compiled tables.
    pub(super) fn new(tables: Cow<'static, [u8]>) -> Self {
        let mut vocabulary = Self { tables, second_level: Vec::new() };
        let encoder = vocabulary.encoder();
        let mut second_level = vec![NO_NODE; BYTES * BYTES];
        for first in 0..BYTES {
            let children = encoder.children(first as u32);
            for (label, node) in encoder.labels[children.clone()].iter().zip(children) {
                second_level[first * BYTES + usize::from(*label)] = node as u32;
            }
        }
        vocabulary.second_level = second_level;
        vocabulary
    }

    /// Returns the encoder of this vocabulary.
    pub(super) fn encoder(&self) -> Encoder<'_> {
        let (header, rest) = self.tables.split_at(TABLES_HEADER_BYTES);
        let [nodes, tokens, slots, max_token_bytes] =
            [0, 4, 8, 12].map(|index| u32_at(header, index) as usize);
        let (labels, rest) = rest.split_at(nodes);
        let (nodes, rest) = rest.split_at((nodes + 1) * NODE_BYTES);
        let (tokens, rest) = rest.split_at(tokens * TOKEN_BYTES);
        let slots = &rest[..slots * SLOT_BYTES];
        Encoder {
            max_token_bytes,
            labels,
            nodes: nodes.as_chunks().0,
            tokens: tokens.as_chunks().0,
            slots: slots.as_chunks().0,
            second_level: &self.second_level,
        }
    }
}

impl Encoder<'_> {
    /// Returns the file that the tables were compiled from.
    #[cfg(feature = "openai")]
    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        let mut flags = vec![0; self.labels.len()];
        flags[BYTES - 1] = LAST_SIBLING;
        let (mut ranks, mut rights) = (Vec::new(), Vec::new());
        for node in 0..self.labels.len() {
            let children = self.children(node as u32);
            if !children.is_empty() {
                flags[node] |= HAS_CHILDREN;
                flags[children.end - 1] |= LAST_SIBLING;
            }
            let token = self.node(node as u32).token;
            if token != NONE {
                flags[node] |= IS_TOKEN;
                ranks.extend_from_slice(&token.to_le_bytes()[..3]);
                rights.extend_from_slice(&self.token(token).right().to_le_bytes()[..3]);
            }
        }
        write_file(name, self.labels, &flags, &[ranks, rights].concat())
    }

    /// Returns the length of the longest token.
    pub(super) fn max_token_bytes(&self) -> usize {
        self.max_token_bytes
    }

    #[inline]
    fn token(&self, token: u32) -> Token {
        Token::from_bytes(self.tokens[token as usize])
    }

    #[inline]
    fn node(&self, node: u32) -> Node {
        Node::from_bytes(self.nodes[node as usize])
    }

    /// Returns the children of a node.
    #[inline]
    fn children(&self, node: u32) -> Range<usize> {
        self.node(node).children as usize..self.node(node + 1).children as usize
    }

    /// Returns the length of a token of this vocabulary.
    pub(super) fn token_bytes(&self, token: u32) -> usize {
        self.token(token).length()
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
                token = self.token(token).prefix();
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
        let mut longest = self.node(u32::from(*first)).token;
        let [second, rest @ ..] = rest else { return longest };
        let mut node = self.second_level[usize::from(*first) * BYTES + usize::from(*second)];
        let mut rest = rest.iter();
        while node != NO_NODE {
            let Node { children, token } = self.node(node);
            if token != NONE {
                longest = token;
            }
            let Some(byte) = rest.next() else { break };
            let end = self.node(node + 1).children;
            let siblings = &self.labels[children as usize..end as usize];
            node = match siblings.iter().position(|label| label == byte) {
                Some(index) => children + index as u32,
                None => NO_NODE,
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
            if self.merged(left, right).is_some_and(|merged| merged < limit) {
                return false;
            }
            let last = left.max(right);
            if (last as usize) < BYTES {
                return true;
            }
            if left > right {
                limit = left;
                left = self.token(last).right();
            } else {
                // Of equal merges the left one is first, so this one may come before.
                limit = right + 1;
                right = self.token(last).left();
            }
        }
    }

    /// Returns the token that a pair merges to.
    fn merged(&self, left: u32, right: u32) -> Option<u32> {
        let (mut slot, bits) = Pair::new(left, right).slot(self.slots.len());
        loop {
            let (merged, other_bits) = read_slot(self.slots[slot]);
            if merged == 0 {
                return None;
            }
            if other_bits == bits && self.token(merged).merges(left, right) {
                return Some(merged);
            }
            slot = if slot + 1 < self.slots.len() { slot + 1 } else { 0 };
        }
    }
}
