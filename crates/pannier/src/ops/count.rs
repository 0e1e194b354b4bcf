//! Counts tokens.

use std::borrow::Cow;

use serde::Serialize;

use super::values::list;
use super::{Answer, Control, Request, pool::DEFAULT_TOKENIZER};
use crate::{Failure, Shelf};

request! {
    /// Count tokens.
    pub struct CountRequest {
        /// Texts to count
        #[arg(skip)]
        #[serde(deserialize_with = "list")]
        pub texts: Vec<String>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,
    }
}

/// The tokens of each text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CountAnswer {
    /// The tokenizer.
    pub tokenizer: String,
    /// Whether the counts are exact, an estimate or an upper bound.
    pub exactness: &'static str,
    /// The counts, in the order of the texts.
    pub counts: Vec<CountedText>,
    /// The sum.
    pub total: u64,
}

/// The size of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CountedText {
    /// Its tokens.
    pub tokens: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Answer for CountAnswer {
    fn text(&self) -> Cow<'_, str> {
        let lines = self.counts.iter().map(|count| format!("{}\n", count.tokens));
        lines.collect::<String>().into()
    }
}

impl Request for CountRequest {
    const ADVERTISED: &'static [&'static str] = &["texts", "tokenizer"];
    const INPUTS: &'static [&'static str] = &["texts"];
    type Answer = CountAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<CountAnswer, Failure> {
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        control.step("counting tokens")?;
        let count = |text: &String| CountedText {
            tokens: counter.count(text) as u64,
            bytes: text.len() as u64,
        };
        let counts: Vec<CountedText> = self.texts.iter().map(count).collect();
        Ok(CountAnswer {
            tokenizer: counter.name().to_owned(),
            exactness: counter.exactness().name(),
            total: counts.iter().map(|count| count.tokens).sum(),
            counts,
        })
    }
}
