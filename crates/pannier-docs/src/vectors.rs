//! The vectors of chunks, and exact nearest-neighbor search.
//!
//! A vector has length 1 and 16-bit integer components, so a dot product is exact in 32 bits regardless of the order of
//! additions. A query is compared with all vectors, in O(chunks · dimensions): exact, vectorized by the compiler, and fast
//! enough for hundreds of thousands of chunks.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;

use crate::vector_log::VectorLog;
use crate::{DocsError, DocumentIndex, Embedder, Model, quantize};

/// The length of the text hash that identifies a vector for reuse.
pub(crate) const KEY_BYTES: usize = 16;

/// The hash of the text that a vector was computed from.
pub(crate) type VectorKey = [u8; KEY_BYTES];

/// An encoded vector with its key.
pub(crate) type KeyedVector = (VectorKey, Vec<u8>);

/// The number of vectors that a thread compares at once.
const VECTORS_PER_BATCH: usize = 4_096;

/// The model name of imported vectors.
pub(crate) const IMPORTED_MODEL: &str = "given";

/// The maximum length of a line with a vector.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The maximum number of dimensions of an imported vector.
const MAX_DIMENSIONS: usize = 16_384;

/// The source of chunk vectors.
#[derive(Clone, Copy, Debug, Default)]
pub enum VectorSource<'v> {
    /// Not specified: a new index has no vectors, and a build of an index with vectors fails.
    #[default]
    Unspecified,
    /// No vectors.
    None,
    /// An embedder computes them.
    Embedder(&'v dyn Embedder),
    /// The caller computed them.
    Imported(&'v ImportedVectors),
}

impl<'v> VectorSource<'v> {
    /// Returns the model of the vectors.
    pub fn model(self) -> Option<&'v Model> {
        match self {
            Self::Unspecified | Self::None => None,
            Self::Embedder(embedder) => Some(embedder.model()),
            Self::Imported(imported) => Some(&imported.model),
        }
    }
}

/// Vectors that the caller computed, by chunk id.
#[derive(Clone, Debug)]
pub struct ImportedVectors {
    model: Model,
    vectors: BTreeMap<String, Vec<i16>>,
}

impl ImportedVectors {
    /// Reads lines of the form `{"id": "…", "vector": [0.1, …]}`: the id of a chunk, and its vector, which is scaled to length
    /// 1.
    ///
    /// # Errors
    ///
    /// [`DocsError::Vectors`] with the first line that is malformed or whose number of dimensions differs, and
    /// [`DocsError::Io`].
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
            let length = vector.len();
            let expected = *dimensions.get_or_insert(length);
            if length != expected {
                return Err(invalid(format!(
                    "the vector has {length} dimensions, but earlier ones have {expected}"
                )));
            }
            if !(1..=MAX_DIMENSIONS).contains(&length) {
                return Err(invalid(format!(
                    "the vector has {length} dimensions; 1 to {MAX_DIMENSIONS} are allowed"
                )));
            }
            let zeros = vec![0; length];
            let vector = match vector.iter().all(|number| *number == 0.0) {
                true => Some(zeros),
                false => quantize(&vector),
            };
            let vector = vector
                .ok_or_else(|| invalid("the vector has a number that is not finite".to_owned()))?;
            if vectors.insert(id.clone(), vector).is_some() {
                return Err(invalid(format!("there is a second vector for {id}")));
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

impl ImportedVectors {
    /// Returns the vector of a chunk.
    pub fn get(&self, id: &str) -> Option<&[i16]> {
        self.vectors.get(id).map(Vec::as_slice)
    }
}

fn bytes(vector: &[i16]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The vectors of chunks during a build: reused from the previous version or from a build that was interrupted, or new.
pub(crate) struct ChunkVectors<'v> {
    vectors: VectorSource<'v>,
    /// The previous version, and the segment and chunk of each of its vectors, ordered by the hash of the text.
    previous: Option<&'v DocumentIndex>,
    stored: Vec<(VectorKey, u32, u32)>,
    log: Option<VectorLog>,
    embedded: u64,
    /// The first chunk without an imported vector, and the number of such chunks.
    missing: Option<(String, String)>,
    missing_count: u64,
}

impl<'v> ChunkVectors<'v> {
    pub(crate) fn new(
        vectors: VectorSource<'v>,
        index: &Path,
        previous: Option<&'v DocumentIndex>,
    ) -> Result<Self, DocsError> {
        let same =
            previous.filter(|previous| previous.manifest().model.as_ref() == vectors.model());
        let (mut stored, mut log) = (Vec::new(), None);
        if let VectorSource::Embedder(embedder) = vectors {
            log = Some(VectorLog::open(index, embedder.model())?);
            for (segment, number) in same.iter().flat_map(|same| same.segments()).zip(0..) {
                // Damaged vectors are recomputed.
                let keys = segment.vector_keys().unwrap_or_default();
                stored.extend(keys.into_iter().zip(0..).map(|(key, chunk)| (key, number, chunk)));
            }
            stored.sort_unstable();
        }
        Ok(Self {
            vectors,
            previous: same,
            stored,
            log,
            embedded: 0,
            missing: None,
            missing_count: 0,
        })
    }

    pub(crate) fn model(&self) -> Option<&'v Model> {
        self.vectors.model()
    }

    /// Fails if a chunk has no vector.
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

    /// Returns the number of chunks that the embedder computed a vector for.
    pub(crate) fn embedded(&self) -> u64 {
        self.embedded
    }

    /// Returns the keys and the vectors of the next chunks, given by id and text.
    pub(crate) fn next(
        &mut self,
        chunks: &[(String, String)],
    ) -> Result<(Vec<u8>, Vec<u8>), DocsError> {
        let keys: Vec<VectorKey> = chunks.iter().map(|(_, text)| key(text)).collect();
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
                let mut known = BTreeMap::new();
                let mut new: BTreeMap<VectorKey, &str> = BTreeMap::new();
                for (key, (_, text)) in keys.iter().zip(chunks) {
                    match self.find(key)? {
                        Some(vector) => _ = known.insert(*key, vector),
                        None => _ = new.insert(*key, text),
                    }
                }
                known.extend(self.embed(embedder, &new)?);
                all.extend(keys.iter().flat_map(|key| known.get(key).into_iter().flatten()));
            }
        }
        Ok((keys.concat(), all))
    }

    /// Returns the vector of a text that was embedded before.
    fn find(&mut self, key: &VectorKey) -> Result<Option<Vec<u8>>, DocsError> {
        if let Some(log) = &mut self.log
            && let Some(vector) = log.get(key)?
        {
            return Ok(Some(vector));
        }
        let position = self.stored.partition_point(|(other, ..)| other < key);
        let stored = self.stored.get(position).filter(|(other, ..)| other == key);
        let (Some((_, segment, chunk)), Some(previous)) = (stored, self.previous) else {
            return Ok(None);
        };
        let dimensions = self.model().map_or(0, |model| model.dimensions as usize);
        // Damaged vectors are recomputed.
        let vectors = previous.segments()[*segment as usize].vectors().unwrap_or_default();
        let start = *chunk as usize * dimensions;
        Ok(vectors.get(start..start + dimensions).map(bytes))
    }

    /// Embeds texts, and appends the vectors to the log.
    fn embed(
        &mut self,
        embedder: &dyn Embedder,
        texts: &BTreeMap<VectorKey, &str>,
    ) -> Result<Vec<KeyedVector>, DocsError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let all: Vec<&str> = texts.values().copied().collect();
        let computed = embedder.embed(&all).map_err(DocsError::Embedder)?;
        let dimensions = embedder.model().dimensions as usize;
        if computed.len() != all.len() || computed.iter().any(|vector| vector.len() != dimensions) {
            let name = &embedder.model().name;
            let problem =
                format!("it did not return a vector of {dimensions} dimensions for each text");
            return Err(DocsError::model(Path::new(name), problem));
        }
        self.embedded += all.len() as u64;
        let vectors = computed.iter().map(|vector| bytes(vector));
        let vectors: Vec<_> = texts.keys().copied().zip(vectors).collect();
        self.log.as_mut().map_or(Ok(()), |log| log.append(&vectors))?;
        Ok(vectors)
    }
}

pub(crate) fn key(text: &str) -> VectorKey {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..KEY_BYTES]);
    key
}

/// Returns the dot product of two vectors of length 1, which is exact. Longer vectors wrap.
pub fn dot_product(left: &[i16], right: &[i16]) -> i32 {
    let products = left.iter().zip(right).map(|(a, b)| i32::from(*a) * i32::from(*b));
    products.fold(0, i32::wrapping_add)
}

/// Returns the `count` chunks with the largest positive dot products, ordered by product, then by `tie_break`. Chunks that
/// `is_allowed` rejects are skipped.
pub(crate) fn nearest(
    vectors: &[i16],
    query: &[i16],
    count: usize,
    is_allowed: impl Fn(u32) -> bool + Sync,
    tie_break: impl Fn(u32) -> (u32, u32) + Sync,
) -> Vec<(u32, i32)> {
    if query.is_empty() {
        return Vec::new();
    }
    let key = |(chunk, product): &(u32, i32)| (-i64::from(*product), tie_break(*chunk));
    let top = |mut matches: Vec<(u32, i32)>| {
        if matches.len() > count {
            matches.select_nth_unstable_by_key(count, key);
            matches.truncate(count);
        }
        matches
    };
    let batches =
        vectors.par_chunks(VECTORS_PER_BATCH * query.len()).enumerate().map(|(batch, vectors)| {
            let first = (batch * VECTORS_PER_BATCH) as u32;
            let products =
                vectors.chunks_exact(query.len()).map(|vector| dot_product(vector, query));
            let matches = (first..)
                .zip(products)
                .filter(|(chunk, product)| *product > 0 && is_allowed(*chunk));
            top(matches.collect())
        });
    let mut matches = top(batches.collect::<Vec<_>>().concat());
    matches.sort_unstable_by_key(key);
    matches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nearest_equals_a_full_sort(
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
            let nearest = nearest(
                &vectors.concat(), &query, count, |chunk| chunk % 3 != 0, |chunk| (0, u32::MAX - chunk),
            );
            prop_assert_eq!(nearest, all);
        }
    }

    #[test]
    fn imported_vectors_are_read_line_by_line() {
        let read = |text: &str| ImportedVectors::read(text.as_bytes());
        let imported =
            read("{\"id\":\"a\",\"vector\":[3,4]}\n\n{\"id\":\"b\",\"vector\":[0,0]}").unwrap();
        assert_eq!(imported.vectors["a"], [19660, 26214]);
        assert_eq!((imported.model.dimensions, imported.vectors["b"].as_slice()), (2, &[0, 0][..]));
        for (text, problem) in [
            (
                "{\"id\":\"a\",\"vector\":[3,4]}\n{\"id\":\"b\",\"vector\":[1]}",
                "line 2 of the vectors: the vector has 1 dimension",
            ),
            ("{\"id\":\"a\",\"vector\":[1]}\n{\"id\":\"a\",\"vector\":[1]}", "second vector"),
            ("{\"id\":\"a\",\"vector\":[]}", "0 dimensions"),
            ("[1]", "line 1"),
            ("\u{fffd}", "line 1"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
