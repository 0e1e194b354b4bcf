//! Stand-in until the embedders land.
use serde::{Deserialize, Serialize};

/// Turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Which model it is.
    fn model(&self) -> &Model;
    /// One vector for each text.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedError>;
}

/// Which model made vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The hash of everything that its vectors depend on.
    pub hash: String,
    /// How many numbers a vector has.
    pub dimensions: u32,
}

impl Model {
    /// A model.
    pub fn new(name: impl Into<String>, hash: impl Into<String>, dimensions: u32) -> Self {
        Self { name: name.into(), hash: hash.into(), dimensions }
    }
}

/// Why.
#[derive(Debug, thiserror::Error)]
#[error("no")]
pub struct EmbedError;

impl EmbedError {
    /// Category.
    pub fn category(&self) -> pannier_core::ErrorCategory {
        pannier_core::ErrorCategory::Io
    }
}

/// Length 1.
pub fn quantise(vector: &[f32]) -> Option<Vec<i16>> {
    let sum: f64 = vector.iter().fold(0.0, |sum, x| sum + f64::from(*x) * f64::from(*x));
    let length = sum.sqrt();
    (length > 0.0 && length.is_finite())
        .then(|| vector.iter().map(|x| (f64::from(*x) / length * 32767.0).round() as i16).collect())
}
