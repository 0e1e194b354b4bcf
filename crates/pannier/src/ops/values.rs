//! Values of options, as people and models write them.

use std::fmt;
use std::str::FromStr;

use pannier_core::{ContextKind, Timestamp};
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

/// A number of tokens: `8000`, `8k`, `128k`, `1m` or `200_000`.
///
/// ```
/// use pannier::ops::Tokens;
///
/// assert_eq!("128k".parse(), Ok(Tokens(128_000)));
/// assert_eq!("1.5m".parse(), Ok(Tokens(1_500_000)));
/// assert!("many".parse::<Tokens>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokens(pub i64);

/// A number of things, 0 or more: `50` or `1_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub usize);

const TOKENS_FORM: &str = "write a number of tokens, as in 8000 or 128k";
const COUNT_FORM: &str = "write a non-negative integer, as in 50";

/// Parses a decimal number with an optional unit, exactly.
fn parse_scaled(text: &str, units: &[(char, u32)]) -> Option<i128> {
    let text = text.trim().replace('_', "");
    let last = text.chars().next_back()?.to_ascii_lowercase();
    let unit = units.iter().find(|(unit, _)| *unit == last);
    let (number, zeros) = match unit {
        Some((_, zeros)) => (&text[..text.len() - 1], *zeros),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let has_point = number.contains('.');
    if digits.is_empty() || !is_digits(digits) || !is_digits(fraction) || text.len() > 30 {
        return None;
    }
    // A fraction that is longer than the unit would be cut. "5." has a point and no fraction.
    if has_point && fraction.is_empty() || fraction.len() > zeros as usize {
        return None;
    }
    let rest = zeros - fraction.len() as u32;
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    number.checked_mul(10_i128.checked_pow(rest)?)
}

impl FromStr for Tokens {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let tokens = parse_scaled(text, &[('k', 3), ('m', 6)]);
        tokens.and_then(|tokens| tokens.try_into().ok()).map(Self).ok_or(TOKENS_FORM)
    }
}

impl FromStr for Count {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = parse_scaled(text, &[]);
        count.and_then(|count| count.try_into().ok()).map(Self).ok_or(COUNT_FORM)
    }
}

/// Reads a number, or a text that is parsed as on the command line.
struct Number<T>(&'static str, std::marker::PhantomData<T>);

impl<T: FromStr<Err = &'static str>> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        number.to_string().parse().map_err(|_| E::custom(self.0))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        number.to_string().parse().map_err(|_| E::custom(self.0))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        // Models write 600.0. Above 2^53, the number may have been rounded.
        match number.fract() == 0.0 && number.abs() < 9e15 {
            true => self.visit_i64(number as i64),
            false => Err(E::custom(self.0)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<T, E> {
        Err(E::custom(self.0))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<T, E> {
        Err(E::custom(self.0))
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Number(TOKENS_FORM, std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Number(COUNT_FORM, std::marker::PhantomData))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tokens that stay free for items of a kind: `Document=500`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The kind.
    pub kind: ContextKind,
    /// The tokens.
    pub tokens: Tokens,
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write a kind and its tokens, as in Document=500";
        let (kind, tokens) = text.split_once('=').ok_or(form)?;
        let kind = ContextKind::new(kind).map_err(|error| error.to_string())?;
        Ok(Self { kind, tokens: tokens.parse().map_err(|_| form)? })
    }
}

/// A date or a time: `2026-03-01` or `2026-03-01T12:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub Timestamp);

impl FromStr for Date {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut forms = ["", "Z", "T00:00Z"].iter();
        let time = forms.find_map(|end| format!("{}{end}", text.trim()).parse().ok());
        time.map(Self).ok_or("write a date, as in 2026-03-01 or 2026-03-01T12:00:00Z")
    }
}

/// Reads a value from the text that its flag takes.
macro_rules! deserialize_from_text {
    ($($type:ty),+) => {
        $(impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        })+
    };
}

deserialize_from_text!(Slot, Date);

#[cfg(feature = "schema")]
macro_rules! schema_as {
    ($($type:ty => $name:literal),+) => {
        $(impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": $name })
            }

            fn inline_schema() -> bool {
                true
            }
        })+
    };
}

#[cfg(feature = "schema")]
schema_as!(Tokens => "integer", Count => "integer", Slot => "string", Date => "string");

/// Returns a number of tokens that is 0 or more.
#[cfg(any(feature = "memory", feature = "snippets"))]
pub(super) fn non_negative(Tokens(tokens): Tokens) -> Result<usize, crate::Failure> {
    let negative = || pannier_core::Error::NegativeTokens { field: "maxTokens".to_owned(), tokens };
    Ok(usize::try_from(tokens).map_err(|_| negative())?)
}

/// Reads a list, or one element in place of a list of one.
pub(super) fn list<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    use serde_json::Value;
    let one = |value| serde_json::from_value(value).map_err(D::Error::custom);
    match Value::deserialize(deserializer)? {
        Value::Array(values) => values.into_iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_people_write_them() {
        for (text, tokens) in [
            ("8000", 8_000),
            ("8k", 8_000),
            ("128K", 128_000),
            ("1m", 1_000_000),
            ("1.5m", 1_500_000),
            ("0.25k", 250),
            ("200_000", 200_000),
            (" 600 ", 600),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Tokens(tokens)), "{text}");
        }
        for text in ["", "k", "many", "1.5", "1.0005k", "1e3", "8 k k", "5.", ".5k", "+5", "9m9"] {
            assert_eq!(text.parse::<Tokens>(), Err(TOKENS_FORM), "{text}");
        }
        assert!("9223372036854775807k".parse::<Tokens>().is_err());
        assert!("9".repeat(1_000).parse::<Tokens>().is_err());
    }

    #[test]
    fn json_numbers_may_be_texts_and_whole_floats() {
        for json in ["600", "600.0", "\"600\"", "\"0.6k\""] {
            assert_eq!(serde_json::from_str::<Tokens>(json).unwrap(), Tokens(600), "{json}");
        }
        for json in ["1.5", "true", "[1]", "1e300", "\"many\""] {
            assert!(serde_json::from_str::<Tokens>(json).is_err(), "{json}");
        }
        assert!(serde_json::from_str::<Count>("-1").is_err());
    }

    #[test]
    fn dates_have_a_time_or_start_at_midnight() {
        let date: Date = "2026-03-01".parse().unwrap();
        assert_eq!(Ok(date), "2026-03-01T00:00:00Z".parse());
        for text in ["", "March", "2026-13-01", "2026-3-1"] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
