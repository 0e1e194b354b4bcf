//! Chunks as vectors: where they come from, and which are nearest to a query.
//!
//! A vector has length 1 and is kept as whole numbers of 16 bits, so its product with another is exact, whatever the order
//! of the additions, and fits 32 bits. All vectors are compared with a query: no graph, nothing approximate, and the
//! compiler makes it fast.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;

use crate::{DocsError, DocumentIndex, Embedder, Model, quantize};

/// How many bytes of a text's hash its vector is found again by.
pub(crate) const KEY_BYTES: usize = 16;

/// How many vectors a thread compares at once.
const VECTORS_PER_BATCH: usize = 4_096;

/// What stands for the model of vectors that the caller has made.
pub(crate) const IMPORTED_MODEL: &str = "given";

/// The longest line of a file with vectors.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The most numbers that a vector may have.
const MAX_DIMENSIONS: usize = 16_384;

/// Where the vectors of chunks come from.
#[derive(Clone, Copy, Debug, Default)]
pub enum VectorSource<'v> {
    /// Nothing is said: there are none, and a cache that has some is left alone.
    #[default]
    Unspecified,
    /// There are none.
    None,
    /// A model makes them.
    Embedder(&'v dyn Embedder),
    /// The caller has made them.
    Imported(&'v ImportedVectors),
}

impl<'v> VectorSource<'v> {
    pub(crate) fn model(self) -> Option<&'v Model> {
        match self {
            Self::Unspecified | Self::None => None,
            Self::Embedder(embedder) => Some(embedder.model()),
            Self::Imported(imported) => Some(&imported.model),
        }
    }
}

/// Vectors that the caller has made, by the ids of chunks.
#[derive(Clone, Debug)]
pub struct ImportedVectors {
    model: Model,
    vectors: BTreeMap<String, Vec<i16>>,
}

impl ImportedVectors {
    /// Reads lines of the form `{"id": "…", "vector": [0.1, …]}`: the id of a chunk, and numbers of any length, which
    /// are scaled.
    ///
    /// # Errors
    ///
    /// [`DocsError::Vectors`] with the first line that is not one, or has another number of dimensions than those before,
    /// and [`DocsError::Io`].
    pub fn read(mut lines: impl BufRead) -> Result<Self, DocsError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            id: String,
            vector: Vec<f32>,
        }
        let mut vectors = BTreeMap::new();
        let mut dimensions = None;
        let mut text = Vec::new();
        for number in 1.. {
            let invalid = |problem: String| DocsError::Vectors { line: number, problem };
            text.clear();
            let read =
                std::io::Read::take(&mut lines, MAX_LINE_BYTES + 1).read_until(b'\n', &mut text);
            let failed = |error| DocsError::io("read", Path::new("the vectors"), error);
            match read.map_err(failed)? as u64 {
                0 => break,
                length if length > MAX_LINE_BYTES => {
                    return Err(invalid(format!("it is longer than {MAX_LINE_BYTES} bytes")));
                }
                _ if text.trim_ascii().is_empty() => continue,
                _ => {}
            }
            let Line { id, vector } =
                serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
            let found = vector.len();
            let expected = *dimensions.get_or_insert(found);
            if found != expected {
                return Err(invalid(format!(
                    "the vector has {found} numbers, and those before {expected}"
                )));
            }
            if !(1..=MAX_DIMENSIONS).contains(&found) {
                return Err(invalid(format!(
                    "a vector has {found} numbers; 1 to {MAX_DIMENSIONS} are possible"
                )));
            }
            let zeros = vec![0; found];
            let vector = match vector.iter().all(|number| *number == 0.0) {
                true => Some(zeros),
                false => quantize(&vector),
            };
            let vector =
                vector.ok_or_else(|| invalid("a number of the vector is too large".to_owned()))?;
            if vectors.insert(id.clone(), vector).is_some() {
                return Err(invalid(format!(
                    "there is a second vector for {id}; give one for each chunk"
                )));
            }
        }
        let mut hash = blake3::Hasher::new();
        for (id, vector) in &vectors {
            hash.update(&(id.len() as u64).to_le_bytes())
                .update(id.as_bytes())
                .update(&bytes(vector));
        }
        let dimensions = dimensions.unwrap_or_default() as u32;
        Ok(Self {
            model: Model::new(IMPORTED_MODEL, hash.finalize().to_hex().as_str(), dimensions),
            vectors,
        })
    }
}

fn bytes(vector: &[i16]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The vectors of chunks while a cache is built: those of the cache before, and new ones.
pub(crate) struct ChunkVectors<'v> {
    vectors: VectorSource<'v>,
    before: BTreeMap<[u8; KEY_BYTES], Vec<u8>>,
    embedded: u64,
    /// The first chunk that has no vector among those that were given, and how many there are.
    missing: Option<(String, String)>,
    missing_count: u64,
}

impl<'v> ChunkVectors<'v> {
    pub(crate) fn new(vectors: VectorSource<'v>, before: Option<&DocumentIndex>) -> Self {
        let same = before.filter(|before| before.manifest().model.as_ref() == vectors.model());
        let kept = match (same, vectors) {
            // Anything wrong with them, and they are made again.
            (Some(cache), VectorSource::Embedder(_)) => kept(cache).unwrap_or_default(),
            _ => BTreeMap::new(),
        };
        Self { vectors, before: kept, embedded: 0, missing: None, missing_count: 0 }
    }

    pub(crate) fn model(&self) -> Option<&'v Model> {
        self.vectors.model()
    }

    /// Whether every chunk has got one.
    pub(crate) fn check(&self) -> Result<(), DocsError> {
        match &self.missing {
            None => Ok(()),
            Some((id, text)) => Err(DocsError::NoVector {
                count: self.missing_count,
                id: id.clone(),
                text: text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .chars()
                    .take(40)
                    .collect(),
            }),
        }
    }

    /// How many chunks have got a vector from the model.
    pub(crate) fn embedded(&self) -> u64 {
        self.embedded
    }

    /// The keys and the vectors of chunks that follow those before, given by their ids and texts.
    pub(crate) fn next(
        &mut self,
        chunks: &[(String, String)],
    ) -> Result<(Vec<u8>, Vec<u8>), DocsError> {
        let keys: Vec<[u8; KEY_BYTES]> = chunks.iter().map(|(_, text)| key(text)).collect();
        let mut all = Vec::new();
        match self.vectors {
            VectorSource::Unspecified | VectorSource::None => {}
            VectorSource::Imported(imported) => {
                for chunk in chunks {
                    match imported.vectors.get(&chunk.0) {
                        Some(vector) => all.extend(bytes(vector)),
                        None => {
                            self.missing.get_or_insert_with(|| chunk.clone());
                            self.missing_count += 1;
                        }
                    }
                }
            }
            VectorSource::Embedder(embedder) => {
                let is_new = |key: &[u8; KEY_BYTES]| !self.before.contains_key(key);
                let new: Vec<&str> = keys
                    .iter()
                    .zip(chunks)
                    .filter(|(key, _)| is_new(key))
                    .map(|(_, (_, text))| text.as_str())
                    .collect();
                let made = embedder.embed(&new).map_err(DocsError::Embedder)?;
                let dimensions = embedder.model().dimensions as usize;
                if made.len() != new.len() || made.iter().any(|vector| vector.len() != dimensions) {
                    let name = &embedder.model().name;
                    let problem =
                        format!("it did not give each text a vector of {dimensions} numbers");
                    return Err(DocsError::model(Path::new(name), problem));
                }
                self.embedded += new.len() as u64;
                let mut made = made.iter();
                for key in &keys {
                    let kept = self.before.get(key).cloned();
                    all.extend(
                        kept.or_else(|| made.next().map(|vector| bytes(vector)))
                            .unwrap_or_default(),
                    );
                }
            }
        }
        Ok((keys.concat(), all))
    }
}

fn kept(cache: &DocumentIndex) -> Result<BTreeMap<[u8; KEY_BYTES], Vec<u8>>, DocsError> {
    let dimensions = cache.manifest().model.as_ref().map_or(0, |model| model.dimensions as usize);
    let vectors = cache.vectors()?.chunks_exact(dimensions.max(1));
    Ok(cache.vector_keys()?.into_iter().zip(vectors.map(bytes)).collect())
}

fn key(text: &str) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..KEY_BYTES]);
    key
}

/// The exact product of two vectors of length 1. Products of others wrap, and mean nothing.
pub(crate) fn dot_product(left: &[i16], right: &[i16]) -> i32 {
    let products = left.iter().zip(right).map(|(a, b)| i32::from(*a) * i32::from(*b));
    products.fold(0, i32::wrapping_add)
}

/// The vectors whose product with a query is greatest, and above zero, as numbers of chunks with the product: by product
/// and then by `order`, of those that are allowed.
pub(crate) fn nearest(
    vectors: &[i16],
    query: &[i16],
    count: usize,
    is_allowed: impl Fn(u32) -> bool + Sync,
    order: impl Fn(u32) -> (u32, u32) + Sync,
) -> Vec<(u32, i32)> {
    if query.is_empty() {
        return Vec::new();
    }
    let key = |(chunk, product): &(u32, i32)| (-i64::from(*product), order(*chunk));
    let best = |mut found: Vec<(u32, i32)>| {
        if found.len() > count {
            found.select_nth_unstable_by_key(count, key);
            found.truncate(count);
        }
        found
    };
    let runs =
        vectors.par_chunks(VECTORS_PER_BATCH * query.len()).enumerate().map(|(run, vectors)| {
            let first = (run * VECTORS_PER_BATCH) as u32;
            let products =
                vectors.chunks_exact(query.len()).map(|vector| dot_product(vector, query));
            let found = (first..)
                .zip(products)
                .filter(|(chunk, product)| *product > 0 && is_allowed(*chunk));
            best(found.collect())
        });
    let mut found = best(runs.collect::<Vec<_>>().concat());
    found.sort_unstable_by_key(key);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_closest_are_those_of_a_full_sort(
            vectors in prop::collection::vec(prop::collection::vec(-3_i16..4, 3), 0..60),
            query in prop::collection::vec(-3_i16..4, 3),
            count in 0..20_usize,
        ) {
            let mut all: Vec<(u32, i32)> = (0..)
                .zip(&vectors)
                .map(|(chunk, vector)| (chunk, dot_product(vector, &query)))
                .filter(|(chunk, product)| *product > 0 && chunk % 3 != 0)
                .collect();
            all.sort_by_key(|(chunk, product)| (-product, u32::MAX - chunk));
            all.truncate(count);
            let found = nearest(
                &vectors.concat(), &query, count, |chunk| chunk % 3 != 0, |chunk| (0, u32::MAX - chunk),
            );
            prop_assert_eq!(found, all);
        }
    }

    #[test]
    fn given_vectors_are_read_line_by_line() {
        let read = |text: &str| ImportedVectors::read(text.as_bytes());
        let given =
            read("{\"id\":\"a\",\"vector\":[3,4]}\n\n{\"id\":\"b\",\"vector\":[0,0]}").unwrap();
        assert_eq!(given.vectors["a"], [19660, 26214]);
        assert_eq!((given.model.dimensions, given.vectors["b"].as_slice()), (2, &[0, 0][..]));
        for (text, problem) in [
            (
                "{\"id\":\"a\",\"vector\":[3,4]}\n{\"id\":\"b\",\"vector\":[1]}",
                "line 2 of the vectors: the vector has 1 number",
            ),
            ("{\"id\":\"a\",\"vector\":[1]}\n{\"id\":\"a\",\"vector\":[1]}", "second vector"),
            ("{\"id\":\"a\",\"vector\":[]}", "0 numbers"),
            ("[1]", "line 1"),
            ("\u{fffd}", "line 1"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
