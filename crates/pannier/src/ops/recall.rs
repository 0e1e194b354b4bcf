//! Returns what a session cut.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use pannier_chat::{ChatError, ChatInput, RecallRange, RecallStore, RecallStoreOptions};
use serde::Serialize;
use serde_json::Value;

use super::{Answer, Control, Request, Tokens, TranscriptJson, pool::DEFAULT_TOKENIZER};
use crate::{Failure, Shelf};

/// The folder of the store, next to the project's files.
pub const RECALL_FOLDER: &str = ".pannier/recall";

/// The tokens if a request sets no budget.
const DEFAULT_BUDGET: i64 = 8_000;

request! {
    /// Return a block that a session cut, by its recall id.
    pub struct RecallRequest {
        /// Recall id, as the shorter form shows it
        #[arg(value_name = "ID")]
        pub id: String,

        /// Lines to return, e.g. 10-40
        #[arg(long, value_name = "A-B", conflicts_with = "grep")]
        pub lines: Option<String>,

        /// Return only lines that contain a text
        #[arg(long, value_name = "TEXT")]
        pub grep: Option<String>,

        /// Maximum tokens of the answer [default: 8k]
        #[arg(long, short, value_name = "N")]
        pub budget: Option<Tokens>,

        /// The whole history: messages, a request, or a session log
        #[arg(skip)]
        #[schema(with = "Option<Value>")]
        pub session: Option<TranscriptJson>,

        /// Folder of stored blocks [default: .pannier/recall]
        #[arg(long, value_name = "DIR")]
        #[schema(with = "Option<String>")]
        pub store: Option<PathBuf>,

        /// Model, encoding or file:PATH that counts [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,
    }
}

/// A recalled block, or lines of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecallAnswer {
    /// The recall id.
    pub id: String,
    /// The content.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// The lines of the whole block.
    pub lines: usize,
}

impl Answer for RecallAnswer {
    fn text(&self) -> Cow<'_, str> {
        self.content.as_str().into()
    }

    fn details(&self) -> Value {
        let Self { id, lines, .. } = self;
        serde_json::json!({ "id": id, "lines": lines })
    }
}

impl RecallRequest {
    fn range(&self) -> Result<RecallRange, Failure> {
        let invalid = |problem: &str| Failure::Request {
            path: "lines".to_owned(),
            problem: problem.to_owned(),
        };
        Ok(match (&self.lines, &self.grep) {
            (Some(_), Some(_)) => return Err(invalid("use either lines or grep")),
            (None, None) => RecallRange::All,
            (None, Some(text)) => RecallRange::Grep(text.clone()),
            (Some(lines), None) => {
                let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
                let number = |text: &str| text.trim().parse::<NonZeroUsize>().ok();
                let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
                let (first, last) =
                    range.ok_or_else(|| invalid("write two line numbers, as in 10-40"))?;
                RecallRange::Lines(first..=last)
            }
        })
    }

    /// Finds the block in the history, or in the store.
    fn find(&self, shelf: &Shelf, control: &Control<'_>) -> Result<Option<String>, Failure> {
        if self.store.is_some() && !shelf.is_local() {
            let problem = "the server has its own store; omit store".to_owned();
            return Err(Failure::Request { path: "store".to_owned(), problem });
        }
        let Some(TranscriptJson(text)) = &self.session else {
            let own = shelf.recall_folder().map(Into::into);
            let folder = self.store.clone().or(own).unwrap_or_else(|| RECALL_FOLDER.into());
            let store = RecallStore::in_folder(folder, RecallStoreOptions::default());
            return Ok(store.recall(&self.id)?);
        };
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        let input = ChatInput::open(text, None, None)?;
        Ok(input.read(&*counter)?.recall(&self.id))
    }
}

impl Request for RecallRequest {
    const ADVERTISED: &'static [&'static str] = &["id", "lines", "grep", "budget"];
    const INPUTS: &'static [&'static str] = &["session"];
    type Answer = RecallAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<RecallAnswer, Failure> {
        let range = self.range()?;
        control.step("looking up the block")?;
        let unknown = || ChatError::UnknownRecallId { id: self.id.clone() };
        let content = self.find(shelf, control)?.ok_or_else(unknown)?;
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        let budget = self.budget.map_or(DEFAULT_BUDGET, |Tokens(tokens)| tokens);
        control.bound(budget, &counter);
        let lines = content.lines().count();
        let content = range.take(&content, budget, &*counter)?;
        Ok(RecallAnswer { id: self.id, content, lines })
    }
}
