//! Compiles the file of a vocabulary into tables that the encoder uses in place.
//!
//! The build script of this crate compiles the files that are part of the binary, so the first count builds nothing. A file
//! that a program loads is compiled by the program.
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
//!
//! # The tables
//!
//! | bytes | contents |
//! |---|---|
//! | 4, 4, 4, 4 | n; t; s, the number of slots; the length of the longest token |
//! | n | the byte that leads to each node |
//! | 5 (n + 1) | nodes: the first child (20 bits) and the token (20 bits); the last one ends the children of the one before |
//! | 8 t | tokens by rank: the longest other token that starts it, the left and the right token that merge to it (18 bits each), and its length (8 bits) |
//! | 3 s | slots of a hash table: the token that a pair merges to (18 bits), and 6 other bits of the pair's hash; 0 if it is free |

const MAGIC: &[u8; 8] = b"pan-bpe1";
pub(super) const HEADER_BYTES: usize = 32;

pub(super) const LAST_SIBLING: u8 = 1;
pub(super) const HAS_CHILDREN: u8 = 2;
pub(super) const IS_TOKEN: u8 = 4;

/// All single bytes are tokens. They have the lowest ranks and are the first nodes.
pub(super) const BYTES: usize = 256;

/// The size of the header of the tables.
pub(super) const TABLES_HEADER_BYTES: usize = 16;
pub(super) const NODE_BYTES: usize = 5;
pub(super) const TOKEN_BYTES: usize = 8;
pub(super) const SLOT_BYTES: usize = 3;

/// The bits of a slot.
const SLOT_MASK: u32 = (1 << (8 * SLOT_BYTES)) - 1;

const NODE_BITS: u32 = 20;
const RANK_BITS: u32 = 18;

/// No token.
pub(super) const NONE: u32 = (1 << RANK_BITS) - 1;

/// A node of the trie.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// The first child. The children end where those of the next node start.
    pub(super) children: u32,
    pub(super) token: u32,
}

impl Node {
    fn to_bytes(self) -> [u8; NODE_BYTES] {
        let word = u64::from(self.children) | u64::from(self.token) << NODE_BITS;
        let [a, b, c, d, e, ..] = word.to_le_bytes();
        [a, b, c, d, e]
    }

    #[inline]
    pub(super) fn from_bytes([a, b, c, d, e]: [u8; NODE_BYTES]) -> Self {
        let low = u32::from_le_bytes([a, b, c, d]);
        let word = u64::from(low) | u64::from(e) << 32;
        let children = low & ((1 << NODE_BITS) - 1);
        Self { children, token: (word >> NODE_BITS) as u32 }
    }
}

/// A token.
#[derive(Clone, Copy)]
pub(super) struct Token(u64);

impl Token {
    fn new(prefix: u32, left: u32, right: u32, length: u8) -> Self {
        let ranks = u64::from(prefix) | u64::from(left) << RANK_BITS;
        Self(ranks | u64::from(right) << (2 * RANK_BITS) | u64::from(length) << (3 * RANK_BITS))
    }

    #[inline]
    pub(super) fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    #[inline]
    fn rank(self, field: u32) -> u32 {
        (self.0 >> (field * RANK_BITS)) as u32 & NONE
    }

    /// Returns the longest other token that starts this one, or `NONE`.
    #[inline]
    pub(super) fn prefix(self) -> u32 {
        self.rank(0)
    }

    /// Returns the left token of the pair that merges to this one. Of a byte, it is the byte.
    #[inline]
    pub(super) fn left(self) -> u32 {
        self.rank(1)
    }

    /// Returns the right token of the pair that merges to this one. Of a byte, it is the byte.
    #[inline]
    pub(super) fn right(self) -> u32 {
        self.rank(2)
    }

    /// Returns the length in bytes.
    #[inline]
    pub(super) fn length(self) -> usize {
        (self.0 >> (3 * RANK_BITS)) as usize
    }

    /// Returns whether a pair merges to this token.
    #[inline]
    pub(super) fn merges(self, left: u32, right: u32) -> bool {
        (self.0 >> RANK_BITS) & ((1 << (2 * RANK_BITS)) - 1) == Pair::new(left, right).0
    }
}

/// A pair of tokens, the key of the hash table.
#[derive(Clone, Copy)]
pub(super) struct Pair(u64);

impl Pair {
    #[inline]
    pub(super) fn new(left: u32, right: u32) -> Self {
        Self(u64::from(left) | u64::from(right) << RANK_BITS)
    }

    /// Returns the first slot of the pair among `slots`, and the bits that its slot has besides the token.
    #[inline]
    pub(super) fn slot(self, slots: usize) -> (usize, u32) {
        let hash = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = ((hash >> 32) * slots as u64) >> 32;
        (slot as usize, hash as u32 & SLOT_MASK & !NONE)
    }
}

/// Returns the token of a slot, and its other bits in their position.
#[inline]
pub(super) fn read_slot([a, b, c]: [u8; SLOT_BYTES]) -> (u32, u32) {
    let word = u32::from_le_bytes([a, b, c, 0]);
    (word & NONE, word & !NONE)
}

/// Compiles a file, and checks it so far that encoding ends and stays within bounds. Returns the encoding's name and the
/// tables, or the problem.
pub(super) fn compile(file: &[u8]) -> Result<(String, Vec<u8>), &'static str> {
    let header = file.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(MAGIC));
    let header = header.ok_or("it does not start as one")?;
    let name = header[8..16].iter().take_while(|byte| **byte > 0);
    let name = name.map(|byte| char::from(*byte)).collect();
    let (nodes, tokens) = (u32_at(header, 16) as usize, u32_at(header, 20) as usize);
    let size = nodes.checked_add(nodes.div_ceil(2)).zip(tokens.checked_mul(6));
    let size =
        size.and_then(|(nodes, tokens)| nodes.checked_add(tokens)?.checked_add(HEADER_BYTES));
    if size != Some(file.len()) || checksum(&file[HEADER_BYTES..]).to_le_bytes() != header[24..] {
        return Err("it is incomplete or damaged");
    }
    if tokens < BYTES || nodes < tokens || tokens >= NONE as usize || nodes >= 1 << NODE_BITS {
        return Err("its numbers of nodes and tokens are impossible");
    }
    let mut compiler = Compiler {
        nodes: vec![Node { children: nodes as u32, token: NONE }; nodes + 1],
        tokens: vec![Token(0); tokens],
        slots: vec![[0; SLOT_BYTES]; tokens * 7 / 4],
        max_token_bytes: 1,
    };
    let labels = &file[HEADER_BYTES..HEADER_BYTES + nodes];
    compiler.fill(&file[HEADER_BYTES..]).ok_or("its tokens contradict each other")?;
    Ok((name, compiler.tables(labels)))
}

struct Compiler {
    nodes: Vec<Node>,
    /// A token that was not read yet has the length 0.
    tokens: Vec<Token>,
    /// At most four of seven are used.
    slots: Vec<[u8; SLOT_BYTES]>,
    max_token_bytes: u8,
}

impl Compiler {
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
                is_last = flags(child) & LAST_SIBLING != 0;
                next += 1;
            }
        }
        self.max_token_bytes = length;
        (next == count && ranks.next().is_none()).then_some(())
    }

    /// Adds a token of `length` bytes whose longest prefix is `prefix`. Shorter tokens precede it.
    fn add_token(&mut self, rank: u32, right: u32, length: u8, prefix: u32) -> Option<u32> {
        let token = |rank: u32| self.tokens.get(rank as usize).copied();
        if token(rank)?.length() > 0 || (length == 1) != ((rank as usize) < BYTES) {
            return None;
        }
        let mut left = rank;
        if length > 1 {
            let left_length = usize::from(length).checked_sub(token(right)?.length())?;
            left = prefix;
            while token(left)?.length() != left_length {
                left = token(left)?.prefix();
            }
            if left >= rank || right >= rank {
                return None;
            }
            self.insert(left, right, rank);
        }
        self.tokens[rank as usize] = Token::new(prefix, left, right, length);
        Some(rank)
    }

    fn insert(&mut self, left: u32, right: u32, merged: u32) {
        let (mut slot, bits) = Pair::new(left, right).slot(self.slots.len());
        while self.slots[slot] != [0; SLOT_BYTES] {
            slot = if slot + 1 < self.slots.len() { slot + 1 } else { 0 };
        }
        let [a, b, c, _] = (merged | bits).to_le_bytes();
        self.slots[slot] = [a, b, c];
    }

    fn tables(&self, labels: &[u8]) -> Vec<u8> {
        let numbers = [labels.len(), self.tokens.len(), self.slots.len()];
        let header = numbers.map(|number| number as u32);
        let header = header.into_iter().chain([self.max_token_bytes.into()]);
        let mut tables: Vec<u8> = header.flat_map(u32::to_le_bytes).collect();
        tables.extend_from_slice(labels);
        tables.extend(self.nodes.iter().flat_map(|node| node.to_bytes()));
        tables.extend(self.tokens.iter().flat_map(|token| token.0.to_le_bytes()));
        tables.extend(self.slots.as_flattened());
        tables
    }
}

pub(super) fn u24([low, middle, high]: &[u8; 3]) -> u32 {
    u32::from_le_bytes([*low, *middle, *high, 0])
}

pub(super) fn u32_at(bytes: &[u8], index: usize) -> u32 {
    bytes[index..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Returns the file of a vocabulary: the labels of its nodes, their flags, and the ranks of its tokens with their right tokens.
pub(super) fn write_file(name: &str, labels: &[u8], flags: &[u8], ranks: &[u8]) -> Vec<u8> {
    let packed = flags.chunks(2).map(|pair| pair.iter().rev().fold(0, |all, own| all << 4 | own));
    let body: Vec<u8> = labels.iter().copied().chain(packed).chain(ranks.iter().copied()).collect();
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(name.as_bytes());
    file.resize(16, 0);
    for number in [labels.len(), ranks.len() / 6] {
        file.extend_from_slice(&(number as u32).to_le_bytes());
    }
    file.extend_from_slice(&checksum(&body).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

/// Hashes a file to detect damage, eight bytes at a time.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(bytes.len() as u64, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}
