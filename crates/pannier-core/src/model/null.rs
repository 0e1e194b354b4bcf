//! Reading `null` as an absent field.

use serde::{Deserialize, Deserializer};

/// Reads a field; `null` gives its default. For `deserialize_with`.
pub(crate) fn as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
