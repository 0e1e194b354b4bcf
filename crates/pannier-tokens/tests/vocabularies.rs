//! The vocabularies of this crate are those of `bpe-openai`, and the classes of characters those of `regex-syntax`.
//! This also writes the files: `OVERWRITE=1 cargo test -p pannier-tokens --features openai --test vocabularies`.
//!
//! The format is described in `src/encoding/compile.rs`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bpe_openai::Tokenizer;
use pannier_tokens::{TokenError, load_vocabulary};

#[test]
fn the_vocabularies_are_up_to_date() {
    compare("vocabularies/o200k.bpe", &vocabulary_file("o200k", bpe_openai::o200k_base()));
    compare("vocabularies/cl100k.bpe", &vocabulary_file("cl100k", bpe_openai::cl100k_base()));
}

#[test]
fn the_tables_have_the_whole_file() {
    for name in ["o200k", "cl100k"] {
        let path = format!("{}/vocabularies/{name}.bpe", env!("CARGO_MANIFEST_DIR"));
        assert!(pannier_tokens::vocabulary_file(name) == Some(std::fs::read(path).unwrap()));
    }
    assert_eq!(pannier_tokens::vocabulary_file("p50k"), None);
}

#[test]
fn the_classes_are_up_to_date() {
    compare("src/encoding/classes.bin", &classes_file());
}

fn compare(path: &str, expected: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("OVERWRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == expected, "{} is outdated", path.display());
}

fn vocabulary_file(name: &str, tokenizer: &Tokenizer) -> Vec<u8> {
    let tokens: Vec<&[u8]> = (0..tokenizer.bpe.num_tokens() as u32)
        .map(|rank| tokenizer.bpe.token_bytes(rank))
        .collect();
    let ranks: HashMap<&[u8], u32> = tokens.iter().copied().zip(0..).collect();
    // The trie: every prefix of a token is a node. Ordered by length, then by bytes, they are in level order.
    let mut nodes: BTreeMap<(usize, &[u8]), Option<u32>> = BTreeMap::new();
    for (token, rank) in &ranks {
        for length in 1..token.len() {
            nodes.entry((length, &token[..length])).or_default();
        }
        nodes.insert((token.len(), token), Some(*rank));
    }
    let keys: Vec<&[u8]> = nodes.keys().map(|(_, bytes)| *bytes).collect();
    let has_children: std::collections::HashSet<&[u8]> =
        keys.iter().map(|bytes| &bytes[..bytes.len() - 1]).collect();
    let mut body: Vec<u8> = keys.iter().map(|bytes| bytes[bytes.len() - 1]).collect();
    let flags: Vec<u8> = keys
        .iter()
        .enumerate()
        .map(|(index, bytes)| {
            let parent = &bytes[..bytes.len() - 1];
            let next = keys.get(index + 1);
            let is_last = next.is_none_or(|next| next[..next.len() - 1] != *parent);
            let is_token = ranks.contains_key(bytes);
            u8::from(is_last)
                | u8::from(has_children.contains(bytes)) << 1
                | u8::from(is_token) << 2
        })
        .collect();
    body.extend(flags.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |high| high << 4)));
    let ranks_in_order: Vec<u32> = nodes.values().copied().flatten().collect();
    let rights = ranks_in_order.iter().map(|rank| right_part(tokens[*rank as usize], &ranks));
    for number in ranks_in_order.iter().copied().chain(rights) {
        body.extend_from_slice(&number.to_le_bytes()[..3]);
    }
    let mut file = b"pan-bpe1".to_vec();
    file.extend_from_slice(name.as_bytes());
    file.resize(16, 0);
    file.extend_from_slice(&(keys.len() as u32).to_le_bytes());
    file.extend_from_slice(&(tokens.len() as u32).to_le_bytes());
    file.extend_from_slice(&checksum(&body).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

/// The right token of the last merge of byte pair encoding, by its definition.
fn right_part(token: &[u8], ranks: &HashMap<&[u8], u32>) -> u32 {
    let mut parts: Vec<&[u8]> = token.chunks(1).collect();
    let mut starts: Vec<usize> = (0..=token.len()).collect();
    while parts.len() > 2 {
        let pairs = (0..parts.len() - 1).filter_map(|index| {
            let merged = &token[starts[index]..starts[index + 2]];
            Some((*ranks.get(merged)?, index))
        });
        let (_, index) = pairs.min().expect("every token is made of merges");
        starts.remove(index + 1);
        parts[index] = &token[starts[index]..starts[index + 1]];
        parts.remove(index + 1);
    }
    ranks[parts[parts.len() - 1]]
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut padded = bytes.to_vec();
    // Whole words are followed by an empty one.
    padded.resize(bytes.len() / 8 * 8 + 8, 0);
    padded.chunks_exact(8).fold(bytes.len() as u64, |sum, word| {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn classes_file() -> Vec<u8> {
    let mut classes = vec![0_u8; 0x11_0000];
    // As in `src/encoding/classes.rs`.
    for (pattern, class) in [
        (r"[\p{Lu}\p{Lt}]", 1),
        (r"\p{Ll}", 2),
        (r"[\p{Lm}\p{Lo}]", 4),
        (r"\p{M}", 8),
        (r"\p{N}", 16),
        (r"[\s--\r\n]", 32),
        (r"[\r\n]", 64),
    ] {
        let hir = regex_syntax::parse(pattern).unwrap();
        let regex_syntax::hir::HirKind::Class(set) = hir.kind() else { panic!("{pattern}") };
        let ranges: Vec<(u32, u32)> = match set {
            regex_syntax::hir::Class::Unicode(set) => set
                .ranges()
                .iter()
                .map(|range| (range.start().into(), range.end().into()))
                .collect(),
            regex_syntax::hir::Class::Bytes(set) => set
                .ranges()
                .iter()
                .map(|range| (range.start().into(), range.end().into()))
                .collect(),
        };
        for (start, end) in ranges {
            for point in start..=end {
                let known = std::mem::replace(&mut classes[point as usize], class);
                assert_eq!(known, 0, "{point:x} has two classes");
            }
        }
    }
    let mut runs = Vec::new();
    for run in classes.chunk_by(|left, right| left == right) {
        for part in run.chunks(usize::from(u16::MAX)) {
            runs.push(part[0]);
            runs.extend_from_slice(&(part.len() as u16).to_le_bytes());
        }
    }
    runs
}

#[test]
fn damaged_files_are_rejected() {
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("vocabularies/cl100k.bpe"))
        .unwrap();
    assert_eq!(load_vocabulary(file.clone()), Ok("cl100k"));
    let rejected =
        |bytes: Vec<u8>| matches!(load_vocabulary(bytes), Err(TokenError::Vocabulary { .. }));
    assert!(
        [0, 7, 31, 32, 40, file.len() - 1].iter().all(|length| rejected(file[..*length].to_vec()))
    );
    // With a correct checksum, the contents are checked.
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..200 {
        let mut damaged = file.clone();
        let index = draw(file.len());
        damaged[index] ^= 1 << draw(8);
        assert!(rejected(damaged.clone()) || index < 8, "{index}");
        let sum = checksum(&damaged[32..]);
        damaged[24..32].copy_from_slice(&sum.to_le_bytes());
        // It is an error, or a vocabulary of other tokens; never a panic.
        let _ = load_vocabulary(damaged);
    }
}
