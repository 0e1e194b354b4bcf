//! A session turn by turn: what each request reads from the prompt cache, writes and drops, and where its prefix breaks.
//!
//! Forms are written as changes: a block keeps its form until a later turn names it again. So a trace of many turns is not
//! much larger than its history.

use std::collections::BTreeMap;
use std::sync::Arc;

use pannier_core::ContextBudget;
use pannier_policy::SessionOptions;
use serde::Serialize;

use super::block::{Block, BlockKind, BlockReader, ReplayMessage, Role, request_json};
use super::{Prices, RecordedSession, Sent};
use crate::{ChatError, ChatSession, CutForm, Provider, Transcript};

/// The characters of a block's text in a trace.
const MAX_TEXT_CHARS: usize = 400;

/// A session, turn by turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SessionTrace {
    /// The version of this format.
    #[serde(rename = "session")]
    pub format: u32,
    /// The name of the session.
    pub name: String,
    /// The name of the policy.
    pub policy: String,
    /// The budget in tokens.
    pub budget: i64,
    /// The name of the token counter.
    pub tokenizer: String,
    /// The prices.
    pub prices: Prices,
    /// The price of sending everything in all turns.
    pub everything_price: f64,
    /// The blocks of the whole history.
    pub blocks: Vec<TracedBlock>,
    /// The turns.
    pub turns: Vec<TracedTurn>,
}

/// A block of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TracedBlock {
    /// The position of its message.
    pub message: usize,
    /// The role of its message.
    pub role: &'static str,
    /// `text`, `call`, `result` or `other`.
    pub kind: &'static str,
    /// The tool of a call or a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its tokens.
    pub tokens: i64,
    /// The beginning of its text.
    pub text: String,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TracedTurn {
    /// The number of blocks of its history.
    pub blocks: usize,
    /// The tokens of its history.
    pub history: i64,
    /// The tokens that are sent.
    pub tokens: i64,
    /// The tokens of the prefix that the previous request had: they are read from the cache.
    pub read: i64,
    /// All other tokens that are sent.
    pub written: i64,
    /// The tokens of the history that are not sent.
    pub dropped: i64,
    /// The price of the request.
    pub price: f64,
    /// Where the prefix broke.
    #[serde(rename = "break", skip_serializing_if = "Option::is_none")]
    pub prefix_break: Option<PrefixBreak>,
    /// The blocks whose form changed since the previous turn. New blocks are listed unless they are whole.
    pub changes: Vec<FormChange>,
    /// Why the policy refused the request. Nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// The first block that the previous request contained in another form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PrefixBreak {
    /// The block.
    pub block: usize,
    /// What changed, and why.
    pub why: String,
    /// The tokens that the cache had, and that are written again in another form or position.
    pub rewritten: i64,
}

/// A block in another form than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FormChange {
    /// The block.
    pub block: usize,
    /// The form: `whole`, or that of the cut.
    pub form: String,
    /// Its tokens in this form.
    pub tokens: i64,
    /// Why it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl SessionTrace {
    /// The version of the format that Pannier writes.
    pub const FORMAT: u32 = 1;

    /// Replays a session with a session policy. `step` is called before each request and may stop the replay.
    ///
    /// # Errors
    ///
    /// The errors of `step`, or of a budget that is out of range.
    pub fn new<E: From<ChatError>>(
        session: &RecordedSession,
        (policy, options): (&str, SessionOptions),
        budget: i64,
        prices: Prices,
        reader: &mut BlockReader<'_>,
        mut step: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let window = ContextBudget::new(budget, budget).map_err(ChatError::from)?;
        let mut chat = ChatSession::new(options, reader.counter());
        let mut trace = Self {
            format: Self::FORMAT,
            name: session.name.clone(),
            policy: policy.to_owned(),
            budget,
            tokenizer: reader.counter().name().to_owned(),
            prices,
            everything_price: 0.0,
            blocks: traced_blocks(&session.blocks, &session.messages),
            turns: Vec::with_capacity(session.requests.len()),
        };
        let mut state = State::default();
        for request in &session.requests {
            step()?;
            let history = &session.messages[..request.messages];
            let mut turn = TracedTurn {
                blocks: request.blocks,
                history: history.iter().map(ReplayMessage::tokens).sum(),
                ..TracedTurn::default()
            };
            trace.everything_price += prices.cost(state.history, turn.history - state.history);
            state.history = turn.history;
            let json = request_json(history);
            let fitted = Transcript::read(Provider::Anthropic, &json, reader.counter()).and_then(
                |transcript| {
                    let fitted = chat.step(&transcript, &window)?;
                    let cuts = fitted.cuts().iter().map(|cut| {
                        let form = if cut.form == CutForm::Omitted {
                            "out".to_owned()
                        } else {
                            cut.form.to_string()
                        };
                        (
                            (cut.message, cut.part),
                            (form, cut.tokens_after, Some(cut.reason.to_string())),
                        )
                    });
                    Ok((cuts.collect(), reader.read_request(&fitted.json())?))
                },
            );
            match fitted {
                Ok((cuts, sent)) => state.add(session, &mut turn, &cuts, Sent::new(sent), prices),
                Err(error) => {
                    turn.refusal = Some(error.to_string());
                    turn.dropped = turn.history;
                    state.previous = None;
                }
            }
            trace.turns.push(turn);
        }
        Ok(trace)
    }
}

/// The form of a block: its name, its tokens, and why it is cut.
type Form = (String, i64, Option<String>);

/// The previous request.
#[derive(Default)]
struct State {
    previous: Option<Sent>,
    /// The tokens of the previous history.
    history: i64,
    /// The forms of cut blocks.
    forms: BTreeMap<usize, Form>,
    /// The number of blocks that were sent.
    blocks: usize,
}

impl State {
    fn add(
        &mut self,
        session: &RecordedSession,
        turn: &mut TracedTurn,
        cuts: &BTreeMap<(usize, usize), Form>,
        sent: Sent,
        prices: Prices,
    ) {
        let common = self.previous.as_ref().map_or(0, |previous| {
            let pairs = sent.blocks.iter().zip(&previous.blocks);
            pairs.take_while(|(block, other)| block.is(other.role, &other.block)).count()
        });
        turn.tokens = sent.tokens;
        turn.read = sent.blocks[..common].iter().map(|block| block.tokens).sum();
        turn.written = turn.tokens - turn.read;
        turn.dropped = (turn.history - turn.tokens).max(0);
        turn.price = prices.cost(turn.read, turn.written);

        let mut forms = BTreeMap::new();
        let mut part = (usize::MAX, 0);
        for (block, (message, whole)) in session.blocks[..turn.blocks].iter().enumerate() {
            part = (*message, if part.0 == *message { part.1 + 1 } else { 0 });
            let now = cuts.get(&part);
            let before = self.forms.get(&block);
            if now != before {
                let (form, tokens, why) =
                    now.cloned().unwrap_or_else(|| ("whole".to_owned(), whole.tokens, None));
                turn.changes.push(FormChange { block, form, tokens, why });
            }
            if let Some(now) = now {
                forms.insert(block, now.clone());
            }
        }
        if let Some(previous) =
            self.previous.as_ref().filter(|previous| common < previous.blocks.len())
        {
            let first = turn.changes.iter().find(|change| change.block < self.blocks);
            let end = previous.blocks.len().min(sent.blocks.len()).max(common);
            let why = first.map(|change| match &change.why {
                Some(why) => {
                    format!("sent as {}, {} tokens; {why}", change.form, change.tokens)
                }
                None => format!("sent as {}, {} tokens", change.form, change.tokens),
            });
            turn.prefix_break = Some(PrefixBreak {
                block: first.map_or(0, |change| change.block),
                why: why.unwrap_or_else(|| "the note about omitted turns changed".to_owned()),
                rewritten: sent.blocks[common..end].iter().map(|block| block.tokens).sum(),
            });
        }
        (self.previous, self.forms, self.blocks) = (Some(sent), forms, turn.blocks);
    }
}

fn traced_blocks(blocks: &[(usize, Arc<Block>)], messages: &[ReplayMessage]) -> Vec<TracedBlock> {
    let mut tools = BTreeMap::new();
    let mut traced = Vec::with_capacity(blocks.len());
    for (message, block) in blocks {
        let (kind, name) = match &block.kind {
            BlockKind::Text => ("text", None),
            BlockKind::ToolUse { id, name, .. } => {
                tools.insert(id.as_str(), name.as_str());
                ("call", Some(name.clone()))
            }
            BlockKind::ToolResult { id, .. } => {
                ("result", tools.get(id.as_str()).map(|name| (*name).to_owned()))
            }
            BlockKind::Other => ("other", None),
        };
        let role = match messages.get(*message).map(|message| message.role) {
            Some(Role::Assistant) => "assistant",
            _ => "user",
        };
        let text = block.text.chars().take(MAX_TEXT_CHARS).collect();
        traced.push(TracedBlock {
            message: *message,
            role,
            kind,
            name,
            tokens: block.tokens,
            text,
        });
    }
    traced
}
