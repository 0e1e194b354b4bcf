//! Embeddings by a server with OpenAI's interface.
//!
//! A server may run any version of a model, on any processor, so its vectors are not equal to the bit. A [`Model`] identifies
//! them by the model's name, its dimensions and a fingerprint: the SimHash of the vector of a fixed text. Vectors that differ
//! only by rounding have nearly equal fingerprints; those of another model differ in half of the bits.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use pannier_docs::{Embedder, EmbedderError, Model, quantize};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::{Endpoint, HttpError, Limits};

const CALL: &str = "embeddings";

/// The number of texts in a call. Servers limit it, TEI to 32 by default; a build embeds 64 at once, which fills four calls.
const BATCH_TEXTS: usize = 16;

/// The number of calls at once.
const MAX_CALLS: usize = 4;

/// The text whose vector identifies a model.
const FINGERPRINT_TEXT: &str = "The quick brown fox jumps over the lazy dog.";

const FINGERPRINT_BYTES: usize = 32;

/// The number of bits in which fingerprints of one model may differ: vectors at an angle of a tenth, a cosine of 0.995.
const MAX_DIFFERENT_BITS: u32 = 8;

/// Computes vectors by calls to `/embeddings`, as OpenAI defined it.
#[derive(Debug)]
pub struct HttpEmbedder {
    client: Client,
    model: Model,
}

#[derive(Serialize)]
struct Request<'t> {
    model: &'t str,
    input: &'t [&'t str],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl HttpEmbedder {
    /// Connects to a server: asks for the vector of a fixed text, and identifies the model by it.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if the server cannot be reached, refuses the call or sends an invalid answer.
    pub fn open(endpoint: Endpoint, limits: Limits) -> Result<Self, HttpError> {
        let client = Client::new(endpoint, limits);
        let vectors = vectors(&client, &[FINGERPRINT_TEXT], None)?;
        let vector = vectors.into_iter().next().unwrap_or_default();
        let model =
            Model::new(client.endpoint().model(), fingerprint(&vector), vector.len() as u32);
        Ok(Self { client, model })
    }

    /// Takes the identity of the vectors in an index, if they are compatible. So an update does not change the version of the
    /// index only because the server rounds differently.
    pub fn with_model_of_index(mut self, model: &Model) -> Self {
        if self.is_compatible(model) {
            self.model = model.clone();
        }
        self
    }
}

impl Embedder for HttpEmbedder {
    fn model(&self) -> &Model {
        &self.model
    }

    /// Sends batches of 16 texts, four at a time. If calls fail, returns the error of the first batch that failed.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        let dimensions = self.model.dimensions as usize;
        // Servers refuse empty texts.
        let is_empty = |text: &str| text.trim().is_empty();
        let sent: Vec<&str> = texts.iter().copied().filter(|text| !is_empty(text)).collect();
        let batches: Vec<&[&str]> = sent.chunks(BATCH_TEXTS).collect();
        let results =
            in_parallel(&batches, |batch| vectors(&self.client, batch, Some(dimensions)))?;
        let mut computed = results.into_iter().flatten();
        let vector = |text: &&str| match is_empty(text) {
            true => vec![0; dimensions],
            false => computed.next().unwrap_or_default(),
        };
        Ok(texts.iter().map(vector).collect())
    }

    fn is_compatible(&self, model: &Model) -> bool {
        self.model.name == model.name
            && self.model.dimensions == model.dimensions
            && different_bits(&self.model.hash, &model.hash) <= MAX_DIFFERENT_BITS
    }

    fn is_reproducible(&self) -> bool {
        false
    }
}

/// Calls a function for each batch on a few threads. Returns the results in order, or the error of the first batch that fails:
/// batches start in order, and none starts after an error.
fn in_parallel<B: Sync, T: Send>(
    batches: &[B],
    call: impl Fn(&B) -> Result<T, HttpError> + Sync,
) -> Result<Vec<T>, HttpError> {
    if let [batch] = batches {
        return Ok(vec![call(batch)?]);
    }
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T, HttpError>>>> =
        batches.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..MAX_CALLS.min(batches.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(batch), Some(slot)) = (batches.get(index), results.get(index)) else {
                        return;
                    };
                    let result = call(batch);
                    if result.is_err() {
                        next.store(batches.len(), Ordering::Relaxed);
                    }
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let results = results
        .into_iter()
        .filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.collect()
}

/// Asks the server for the vectors of a batch.
fn vectors(
    client: &Client,
    texts: &[&str],
    dimensions: Option<usize>,
) -> Result<Vec<Vec<i16>>, HttpError> {
    let request =
        Request { model: client.endpoint().model(), input: texts, encoding_format: "float" };
    let Answer { data } = client.post(CALL, &request)?;
    let invalid = |problem: String| client.invalid(CALL, problem);
    if data.len() != texts.len() {
        let (sent, received) = (texts.len(), data.len());
        return Err(invalid(format!("it has {received} embeddings for {sent} texts")));
    }
    let mut vectors = vec![Vec::new(); texts.len()];
    let mut expected = dimensions;
    for Embedding { index, embedding } in data {
        let length = embedding.len();
        let expected = *expected.get_or_insert(length);
        let slot = vectors.get_mut(index).filter(|slot| slot.is_empty());
        let slot = slot.ok_or_else(|| {
            invalid(format!("the index {index} of an embedding is out of range or appears twice"))
        })?;
        if !(1..=Model::MAX_DIMENSIONS).contains(&length) {
            let max = Model::MAX_DIMENSIONS;
            return Err(invalid(format!(
                "an embedding has {length} dimensions; 1 to {max} are allowed"
            )));
        }
        if length != expected {
            return Err(invalid(format!(
                "an embedding has {length} dimensions instead of {expected}; check that the server has not changed its model"
            )));
        }
        *slot = match embedding.iter().all(|number| *number == 0.0) {
            true => vec![0; length],
            false => quantize(&embedding).ok_or_else(|| {
                invalid("an embedding has a number that is not finite".to_owned())
            })?,
        };
    }
    Ok(vectors)
}

/// Returns the SimHash of a vector in hexadecimal digits: each bit is the sign of its product with a fixed vector of signs.
fn fingerprint(vector: &[i16]) -> String {
    let mut signs = blake3::Hasher::new().update(b"pannier fingerprint 1").finalize_xof();
    let mut sums = [0_i64; 8 * FINGERPRINT_BYTES];
    let mut bytes = [0; FINGERPRINT_BYTES];
    for number in vector {
        signs.fill(&mut bytes);
        for (bit, sum) in sums.iter_mut().enumerate() {
            let is_negative = (bytes[bit / 8] >> (bit % 8)) & 1 == 1;
            *sum += i64::from(*number) * if is_negative { -1 } else { 1 };
        }
    }
    let byte =
        |sums: &[i64]| sums.iter().rev().fold(0_u8, |byte, sum| (byte << 1) | u8::from(*sum > 0));
    sums.chunks(8).map(|sums| format!("{:02x}", byte(sums))).collect()
}

/// Counts the bits in which two fingerprints differ; all of them if one is not a fingerprint.
fn different_bits(one: &str, other: &str) -> u32 {
    let digits = |text: &str| -> Option<Vec<u32>> {
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        digits.filter(|digits| digits.len() == 2 * FINGERPRINT_BYTES)
    };
    match (digits(one), digits(other)) {
        (Some(one), Some(other)) => {
            one.iter().zip(&other).map(|(one, other)| (one ^ other).count_ones()).sum()
        }
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector of pseudo-random numbers.
    fn vector(seed: u64, dimensions: usize) -> Vec<f32> {
        let mut bytes = vec![0; dimensions];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes.iter().map(|byte| f32::from(*byte) - 127.5).collect()
    }

    #[test]
    fn fingerprints_tolerate_rounding_and_detect_other_models() {
        for dimensions in [64, 384, 1536] {
            let one = vector(1, dimensions);
            let print = |vector: &[f32]| fingerprint(&quantize(vector).unwrap());
            let noise = vector(2, dimensions);
            let near: Vec<f32> = one.iter().zip(&noise).map(|(a, b)| a + 0.01 * b).collect();
            let far: Vec<f32> = one.iter().zip(&noise).map(|(a, b)| a + 0.5 * b).collect();
            assert_eq!(print(&one).len(), 64);
            assert!(different_bits(&print(&one), &print(&near)) <= MAX_DIFFERENT_BITS);
            assert!(different_bits(&print(&one), &print(&far)) > MAX_DIFFERENT_BITS);
            assert!(different_bits(&print(&one), &print(&noise)) > 64);
        }
        assert_eq!(different_bits("00", "00"), u32::MAX);
    }

    #[test]
    fn results_are_in_order_and_the_first_error_is_returned() {
        let batches: Vec<usize> = (0..100).collect();
        let doubled = in_parallel(&batches, |batch| Ok(batch * 2)).unwrap();
        assert_eq!(doubled, (0..100).map(|batch| batch * 2).collect::<Vec<_>>());
        for _ in 0..20 {
            let failed = in_parallel(&batches, |&batch| match batch {
                37 | 38 | 40 => {
                    Err(HttpError::TooLarge { url: String::new(), max_bytes: batch as u64 })
                }
                _ => Ok(()),
            });
            assert!(matches!(failed, Err(HttpError::TooLarge { max_bytes: 37, .. })));
        }
        assert!(in_parallel(&[] as &[u8], |_| Ok(())).unwrap().is_empty());
    }
}
