//! A request that fits its budget.

use std::borrow::Cow;

use super::fold::Fold;
use crate::Transcript;
use crate::message::Message;

/// The form in which a cut block is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CutForm {
    /// The number of its tokens and its recall id.
    Stub,
}

/// A block that is sent in a shorter form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Cut {
    /// The recall id, which the shorter form contains.
    pub id: String,
    /// The position of its message in the history.
    pub message: usize,
    /// The form in which it is sent.
    pub form: CutForm,
    /// The tokens of the whole block.
    pub tokens_before: i64,
    /// The tokens of the form.
    pub tokens_after: i64,
}

/// The position of a content block in the sent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BlockPosition {
    /// The position among all blocks.
    pub block: usize,
    /// The position of its message among the sent messages.
    pub message: usize,
}

/// A request that fits its budget.
#[derive(Debug)]
pub struct Fitted<'s, 't> {
    transcript: &'s Transcript<'t>,
    fold: Fold,
}

impl<'s, 't> Fitted<'s, 't> {
    pub(super) fn new(transcript: &'s Transcript<'t>, fold: Fold) -> Self {
        Self { transcript, fold }
    }

    /// Returns the tokens of the request: messages, tools, system prompt, and the start of the response.
    pub fn tokens(&self) -> i64 {
        self.fold.total()
    }

    /// Returns the cut blocks in the order of the history.
    pub fn cuts(&self) -> &[Cut] {
        self.fold.cuts()
    }

    /// Returns whether blocks were cut that an earlier request contained.
    pub fn is_batch(&self) -> bool {
        self.fold.first_changed().is_some()
    }

    /// Returns the last block that the previous request of the session contained in the same form, with all blocks
    /// before it.
    pub fn last_unchanged(&self) -> Option<BlockPosition> {
        self.fold.last_unchanged()
    }

    /// Returns the messages, or the request that contains them, as JSON. Without changes, it is the input itself.
    pub fn json(&self) -> String {
        let transcript = self.transcript;
        let is_rejected = |message: &Message<'_>| message.rejection_rule.is_some();
        let is_unchanged = self.cuts().is_empty()
            && transcript.repairs().is_empty()
            && !transcript.messages.iter().any(is_rejected);
        if is_unchanged {
            return transcript.text.to_owned();
        }
        transcript.write(|index| {
            let mut message = Cow::Borrowed(&transcript.messages[index]);
            if is_rejected(&message) {
                return None;
            }
            for (part, text) in self.fold.replacements(index) {
                message.to_mut().parts[part].replacement = Some(text.to_owned());
            }
            Some(message)
        })
    }
}
