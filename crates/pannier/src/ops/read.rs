//! Reads requests from JSON, with the path to every mistake.
//!
//! `#[serde(flatten)]` would lose the path inside a group of options. So the keys of a group are moved into a nested object
//! before serde reads the request, and the name of the group is taken off the path of an error.

use serde::de::value::Error as KeysError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::Request;
use crate::Failure;

/// Returns the keys of a struct, former names included.
pub(super) fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut keys: &'static [&'static str] = &[];
    // The error only ends the reading.
    let _ = T::deserialize(Keys(&mut keys));
    keys
}

/// Learns the keys of the struct that is read.
struct Keys<'k>(&'k mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Keys<'_> {
    type Error = KeysError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, KeysError> {
        Err(KeysError::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, KeysError> {
        *self.0 = keys;
        Err(KeysError::custom("its keys are known"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Returns all keys that a request takes, those of its groups in their places.
pub(super) fn all_keys<R: Request>() -> Vec<&'static str> {
    let group = |key: &str| R::GROUPS.iter().find(|group| group.name == key);
    let keys = keys::<R>().iter().flat_map(|key| match group(key) {
        Some(group) => (group.keys)(),
        None => std::slice::from_ref(key),
    });
    keys.copied().collect()
}

/// Reads a request. `null` is an absent option; inside an option, such as a policy, it keeps its meaning.
pub(super) fn request<R: Request>(value: Value) -> Result<R, Failure> {
    let Value::Object(mut table) = value else {
        return Err(invalid("", "expected an object with options".to_owned()));
    };
    table.retain(|_, value| !value.is_null());
    let known = all_keys::<R>();
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(invalid("", unknown_key(key, &known)));
    }
    for group in R::GROUPS {
        let keys = (group.keys)().iter().filter_map(|key| table.remove_entry(*key));
        let own: Map<String, Value> = keys.collect();
        table.insert(group.name.to_owned(), own.into());
    }
    serde_path_to_error::deserialize(Value::Object(table)).map_err(|error| {
        let path = error.path().to_string();
        let in_group = |name: &str| path.strip_prefix(name)?.strip_prefix('.');
        let is_group = R::GROUPS.iter().any(|group| group.name == path);
        let own = R::GROUPS.iter().find_map(|group| in_group(group.name));
        let own = if is_group { "" } else { own.unwrap_or(&path) };
        invalid(own.trim_matches('.'), error.inner().to_string())
    })
}

fn invalid(path: &str, problem: String) -> Failure {
    Failure::Request { path: path.to_owned(), problem }
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let shown: String = key.chars().take(80).collect();
    let distance = |known: &&str| strsim::osa_distance(&shown, known);
    let is_similar = |known: &&str| distance(known) * 3 <= shown.chars().count();
    match known.iter().filter(|known| is_similar(known)).min_by_key(|known| distance(known)) {
        Some(similar) => format!("unknown option `{shown}`; did you mean `{similar}`?"),
        None => format!("unknown option `{shown}`; expected one of {}", known.join(", ")),
    }
}
