//! A request that fits its budget.

use std::borrow::Cow;
use std::fmt;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::fold::{Block, Fold, Turn, turns_json};
use super::id::BlockHash;
use crate::message::{Message, PartKind};
use crate::transcript::Field;
use crate::trimmed::{is_rewritten, write_message};
use crate::{Provider, Transcript, anthropic};

/// The form in which a cut block is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CutForm {
    /// The beginning and the end.
    HeadAndTail,
    /// The first line.
    FirstLine,
    /// A reference to an earlier result with the same content.
    Duplicate,
    /// The number of its tokens, its recall id and its rare names.
    Names,
    /// The number of its tokens and its recall id.
    Stub,
    /// The arguments of a call, long ones cut.
    ShortInput,
    /// The first characters of a text.
    Beginning,
    /// Left out, with its whole turn.
    Omitted,
}

impl fmt::Display for CutForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HeadAndTail => "head and tail",
            Self::FirstLine => "first line",
            Self::Duplicate => "duplicate",
            Self::Names => "names",
            Self::Stub => "stub",
            Self::ShortInput => "short input",
            Self::Beginning => "beginning",
            Self::Omitted => "omitted",
        })
    }
}

/// Why a block is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CutReason {
    /// A new result that exceeds its share of the budget.
    NewResult,
    /// A new result that equals an earlier one.
    SameResult,
    /// A new result that only acknowledges an edit.
    Acknowledgement,
    /// A later plan or write replaces it.
    Replaced,
    /// The request exceeded the budget, and the result had the least value per token.
    LeastValue,
    /// The request exceeded the budget, and the block was one of the oldest of its kind.
    Oldest,
    /// The request still exceeded the budget after the cuts of a batch.
    OverBudget,
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NewResult => "a new result above its share of the budget",
            Self::SameResult => "an earlier result is the same",
            Self::Acknowledgement => "it acknowledges an edit",
            Self::Replaced => "a later plan or write replaces it",
            Self::LeastValue => "least value per token in a request over budget",
            Self::Oldest => "oldest of its kind in a request over budget",
            Self::OverBudget => "the request still exceeded the budget",
        })
    }
}

/// A block that is sent in a shorter form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Cut {
    /// The recall id, which the request contains. Blocks of omitted turns have that of all these turns.
    pub id: String,
    /// The position of its message in the history.
    pub message: usize,
    /// The position of its part in the message.
    pub part: usize,
    /// The form in which it is sent.
    pub form: CutForm,
    /// Why it is cut.
    pub reason: CutReason,
    /// The tokens of the whole block.
    pub tokens_before: i64,
    /// The tokens of the form.
    pub tokens_after: i64,
    /// The position of its message in the transcript, and its new text.
    #[serde(skip)]
    index: usize,
    #[serde(skip)]
    text: String,
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

/// A part of a sent request, for comparisons with the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct SentBlock {
    /// The hash of its content and its names. Cache breakpoints do not change it.
    pub hash: u64,
    /// Its tokens.
    pub tokens: i64,
}

impl SentBlock {
    /// Creates a block.
    pub fn new(hash: u64, tokens: i64) -> Self {
        Self { hash, tokens }
    }
}

/// A request that fits its budget.
#[derive(Debug)]
pub struct Fitted<'s, 't> {
    transcript: &'s Transcript<'t>,
    tokens: i64,
    cuts: Vec<Cut>,
    is_batch: bool,
    last_unchanged: Option<BlockPosition>,
    /// The message with the note about omitted turns.
    note: Option<(usize, String)>,
    note_tokens: i64,
    /// The message, part, hash and tokens of each sent block.
    blocks: Vec<(usize, usize, BlockHash, i64)>,
    omitted: Vec<Turn>,
    /// The last unchanged and the last block that can be a cache breakpoint: message and part.
    breakpoints: Vec<(usize, usize)>,
}

impl<'s, 't> Fitted<'s, 't> {
    pub(super) fn new(transcript: &'s Transcript<'t>, fold: &Fold) -> Self {
        let note = fold.note().map(|(message, note)| (message, note.to_owned()));
        let omitted_id = fold.omitted_id();
        let mut cuts = Vec::new();
        for block in &fold.blocks {
            let (form, reason, id, text) = match &block.cut {
                // An empty result loses nothing.
                _ if block.is_gone && block.whole_tokens == 0 => continue,
                _ if block.is_gone => {
                    let (form, reason) = (CutForm::Omitted, CutReason::OverBudget);
                    (form, reason, omitted_id.clone(), String::new())
                }
                Some((form, reason, text)) => (*form, *reason, fold.id(block.hash), text.clone()),
                None => continue,
            };
            cuts.push(Cut {
                id,
                message: transcript.messages[block.message].number,
                part: block.part,
                form,
                reason,
                tokens_before: block.whole_tokens,
                tokens_after: if block.is_gone { 0 } else { block.tokens },
                index: block.message,
                text,
            });
        }
        let (_, first_changed) = fold.change();
        let last_unchanged = last_unchanged(transcript, fold);
        let (tokens, is_batch) = (fold.total(), first_changed.is_some());
        let omitted = fold.omitted_turns().to_vec();
        let (sent, _) = fold.change();
        let can_be = |block: &&Block| {
            let part = &transcript.messages[block.message].parts[block.part];
            !block.is_gone && part.kind != PartKind::Thinking
        };
        let last = |end: usize| fold.blocks[..end].iter().rfind(can_be);
        let breakpoints = [first_changed.unwrap_or(sent), fold.blocks.len()].map(last);
        let breakpoints = breakpoints.into_iter().flatten();
        let mut breakpoints: Vec<(usize, usize)> =
            breakpoints.map(|block| (block.message, block.part)).collect();
        breakpoints.dedup();
        let sent = fold.blocks.iter().filter(|block| !block.is_gone);
        let blocks =
            sent.map(|block| (block.message, block.part, block.hash, block.tokens)).collect();
        let note_tokens = fold.note_tokens();
        Self {
            transcript,
            tokens,
            cuts,
            is_batch,
            last_unchanged,
            note,
            note_tokens,
            blocks,
            omitted,
            breakpoints,
        }
    }

    pub(crate) fn transcript(&self) -> &'s Transcript<'t> {
        self.transcript
    }

    /// Returns the positions of the items that are sent.
    pub(crate) fn sent_items(&self) -> Vec<usize> {
        (0..self.transcript.messages.len() + self.transcript.fixed.len())
            .filter(|item| self.is_sent(*item))
            .collect()
    }

    fn is_omitted(&self, message: usize) -> bool {
        let turn = self.omitted.partition_point(|turn| turn.end <= message);
        self.omitted.get(turn).is_some_and(|turn| turn.start <= message)
    }

    /// Returns the tokens of the request: messages, tools, system prompt, and the start of the response.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Returns the cut blocks in the order of the history.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Returns the cut blocks of a message, by its position among the items.
    pub fn cuts_of(&self, item: usize) -> impl Iterator<Item = &Cut> {
        self.cuts.iter().filter(move |cut| cut.index == item)
    }

    /// Returns whether an item is sent.
    pub fn is_sent(&self, item: usize) -> bool {
        let message = self.transcript.messages.get(item);
        message.is_none_or(|message| message.rejection_rule.is_none()) && !self.is_omitted(item)
    }

    /// Returns the blocks that are sent, in the order of the request: its fixed fields, such as `tools`, then its messages,
    /// each as a block for its role that is followed by its parts. The longest common beginning of two requests is what a prompt cache can serve.
    pub fn blocks(&self) -> Vec<SentBlock> {
        let transcript = self.transcript;
        let mut blocks = Vec::with_capacity(self.blocks.len() + transcript.fixed.len() + 1);
        for field in &transcript.fixed {
            let hash = hash_of(&[field.name.as_bytes(), field.text.as_bytes()]);
            blocks.push(SentBlock::new(hash, field.tokens));
        }
        let mut cuts = self.cuts.iter().filter(|cut| cut.form != CutForm::Omitted).peekable();
        let mut parts = self.blocks.iter().peekable();
        for (index, message) in transcript.messages.iter().enumerate() {
            if message.rejection_rule.is_some() || self.is_omitted(index) {
                continue;
            }
            // An empty result has no part, and is sent as a message.
            let [role, name] = [message.role.name(), message.name.as_str()].map(str::as_bytes);
            blocks.push(SentBlock::new(hash_of(&[role, name]), message.own_tokens));
            while let Some(&(_, part, content, tokens)) = parts.next_if(|part| part.0 == index) {
                let cut = cuts.next_if(|cut| (cut.index, cut.part) == (index, part));
                let content = match cut {
                    Some(cut) => xxh3_128(cut.text.as_bytes()).to_le_bytes(),
                    None => content.bytes(),
                };
                let part = &message.parts[part];
                // Media and reasoning have no text.
                let raw = if part.body.is_none() { part.raw.get() } else { "" };
                let id = match &part.kind {
                    PartKind::ToolCall { id } | PartKind::ToolResult { id } => id.as_str(),
                    _ => "",
                };
                let [id, tool, raw] = [id, part.tool.as_str(), raw].map(str::as_bytes);
                blocks.push(SentBlock::new(hash_of(&[id, tool, raw, &content]), tokens));
            }
            if let Some((_, note)) = self.note.as_ref().filter(|(task, _)| *task == index) {
                blocks.push(SentBlock::new(hash_of(&[note.as_bytes()]), self.note_tokens));
            }
        }
        blocks
    }

    /// Returns whether blocks were cut that the previous request of the session contained.
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// Returns the last block that the previous request of the session contained in the same form, with all blocks
    /// before it.
    pub fn last_unchanged(&self) -> Option<BlockPosition> {
        self.last_unchanged
    }

    /// Returns the content of a cut block, or of all omitted turns.
    pub(super) fn content(&self, cut: &Cut) -> Option<String> {
        let messages = &self.transcript.messages;
        match cut.form {
            CutForm::Omitted => Some(turns_json(self.transcript.provider, messages, &self.omitted)),
            _ => Some(messages.get(cut.index)?.parts.get(cut.part)?.recalled().into_owned()),
        }
    }

    /// Returns the messages, or the request that contains them, as JSON. Without changes, it is the input itself.
    pub fn json(&self) -> String {
        self.write(&[])
    }

    /// Returns the request as [`json`](Self::json) does, with Anthropic's cache breakpoints of the messages moved to the last
    /// unchanged block, which the provider has cached, and to the last block. For other providers, it is the same.
    pub fn json_with_cache_control(&self) -> String {
        if self.transcript.provider != Provider::Anthropic {
            return self.json();
        }
        let fixed = self.transcript.request.iter().flatten().map(|field| match field {
            Field::Other(_, raw) => raw.get().matches("\"cache_control\"").count(),
            Field::Changed(_, value) => value.matches("\"cache_control\"").count(),
            Field::Messages => 0,
        });
        let free = anthropic::MAX_BREAKPOINTS.saturating_sub(fixed.sum());
        let mut breakpoints = self.breakpoints.clone();
        breakpoints.truncate(free);
        self.write(&breakpoints)
    }

    /// Writes the request. Breakpoints are messages and parts; without any, the blocks keep theirs.
    fn write(&self, breakpoints: &[(usize, usize)]) -> String {
        let transcript = self.transcript;
        let is_rejected = |message: &Message<'_>| message.rejection_rule.is_some();
        let is_unchanged = breakpoints.is_empty()
            && self.cuts.is_empty()
            && transcript.repairs().is_empty()
            && !transcript.messages.iter().any(is_rejected);
        if is_unchanged {
            return transcript.text.to_owned();
        }
        let mut cuts = &self.cuts[..];
        let provider = transcript.provider;
        transcript.write(|index, text| {
            let mut message = Cow::Borrowed(&transcript.messages[index]);
            let count = cuts.iter().take_while(|cut| cut.index == index).count();
            let (own, rest) = cuts.split_at(count);
            cuts = rest;
            if self.is_omitted(index) || is_rejected(&message) {
                return false;
            }
            let note = self.note.as_ref().filter(|(task, _)| *task == index);
            let bodies = own.iter().map(|cut| (cut.part, cut.text.as_str()));
            // Everything else stays as the client wrote it.
            if note.is_none()
                && breakpoints.is_empty()
                && (own.is_empty() || !is_rewritten(provider, &message))
                && message.write_with_bodies(bodies, text)
            {
                return true;
            }
            if note.is_none() && !own.is_empty() {
                message = Cow::Owned(message.without_texts());
            }
            for cut in own {
                message.to_mut().parts[cut.part].replacement = Some(cut.text.clone());
            }
            if !breakpoints.is_empty() {
                for (part, content) in message.to_mut().parts.iter_mut().enumerate() {
                    content.breakpoint = Some(breakpoints.contains(&(index, part)));
                }
            }
            if let Some((_, note)) = note {
                message.to_mut().note = Some(note.clone());
            }
            write_message(provider, &message, text);
            true
        })
    }
}

/// Returns the hash of byte strings with their lengths.
fn hash_of(strings: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3Default::new();
    for bytes in strings {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.digest()
}

fn last_unchanged(transcript: &Transcript<'_>, fold: &Fold) -> Option<BlockPosition> {
    let (sent, first_changed) = fold.change();
    let last = first_changed.unwrap_or(sent);
    let unchanged = || fold.blocks[..last].iter().filter(|block| !block.is_gone);
    let message = unchanged().next_back()?.message;
    let omitted = fold.omitted_turns();
    let is_sent = |index: &usize| {
        let turn = omitted.partition_point(|turn| turn.end <= *index);
        transcript.messages[*index].rejection_rule.is_none()
            && omitted.get(turn).is_none_or(|turn| *index < turn.start)
    };
    // An empty result has no part, but is sent as a block.
    let end = fold.blocks.get(last).map_or(fold.messages, |block| block.message).max(message + 1);
    let is_empty = |index: &usize| transcript.messages[*index].is_empty_tool_result();
    let empty: Vec<usize> = (0..end).filter(|index| is_empty(index) && is_sent(index)).collect();
    let message = empty.last().map_or(message, |last| message.max(*last));
    let is_block = matches!(transcript.provider, Provider::Anthropic | Provider::Gemini);
    let note = fold.note().filter(|(task, _)| is_block && message > *task);
    let block = unchanged().count() + empty.len() + usize::from(note.is_some()) - 1;
    Some(BlockPosition { block, message: (0..=message).filter(is_sent).count() - 1 })
}
