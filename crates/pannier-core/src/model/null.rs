//! Meanings of JSON's `null`, for `deserialize_with`.

use serde::{Deserialize, Deserializer};

/// Reads a field; `null` gives its default, as if the field were absent.
pub(crate) fn as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a number; `null` gives NaN, because JSON writes a number that is not finite as `null`.
pub(crate) fn as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
