//! Turns messages into items: their tokens, pins and groups, and the provider's rules for sending them.

use std::collections::BTreeSet;

use pannier_core::item::ContextSource;
use pannier_core::layout::{PlacedItems, Plan, RenderCost};
use pannier_core::score::Pool;
use pannier_core::{ContextItem, ContextKind, Error, Layout, Timestamp};

use crate::Provider;
use crate::message::{Message, Role, TOKENS_PER_MESSAGE};
use crate::tool_pairing::FIRST_NOT_USER;

/// The tokens that start the model's response.
pub(crate) const PRIMING_TOKENS: i64 = 3;

/// A request field that is sent with every selection: tools, system prompt, response format.
#[derive(Debug)]
pub(crate) struct FixedField {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The tokens besides those of the text.
    pub(crate) own_tokens: i64,
    /// All tokens.
    pub(crate) tokens: i64,
}

impl FixedField {
    /// Returns a field whose text is not yet counted.
    pub(crate) fn new(name: &str, text: String, own_tokens: i64) -> Self {
        Self { name: name.to_owned(), text, own_tokens, tokens: own_tokens }
    }
}

/// Returns the items of the messages, followed by those of the fixed fields. Messages are pinned by their positions.
pub(crate) fn items(
    fixed: &[FixedField],
    messages: &[Message<'_>],
    pinned: &[usize],
) -> Result<Vec<ContextItem>, Error> {
    let pinned: BTreeSet<usize> = pinned.iter().copied().collect();
    let mut items = Vec::with_capacity(messages.len() + fixed.len());
    for (index, message) in messages.iter().enumerate() {
        items.push(item(message, fixed.len() + index, pinned.contains(&index))?);
    }
    for (index, field) in fixed.iter().enumerate() {
        let kind = match field.name.as_str() {
            "system" | "instructions" | "systemInstruction" | "system_instruction" => {
                ContextKind::SYSTEM_PROMPT
            }
            _ => ContextKind::new("Tools")?,
        };
        let item = ContextItem::builder(&field.text, field.tokens);
        items.push(item.kind(kind).id(&field.name).pinned(true).timestamp(time(index)?).build()?);
    }
    Ok(items)
}

/// Returns the item of a message that is sent at a position.
fn item(message: &Message<'_>, position: usize, is_pinned: bool) -> Result<ContextItem, Error> {
    let (kind, source) = match message.role {
        Role::System => (ContextKind::SYSTEM_PROMPT, ContextSource::CHAT),
        _ if message.is_tool_results_only() => (ContextKind::TOOL_OUTPUT, ContextSource::TOOL),
        _ => (ContextKind::MESSAGE, ContextSource::CHAT),
    };
    let mut item = ContextItem::builder(message.text(), message.tokens())
        .kind(kind)
        .source(source)
        .id(format!("message-{}", message.number))
        .pinned(is_pinned)
        .timestamp(time(position)?);
    if let Some(group) = message.group {
        item = item.group(format!("turn-{group}"));
    }
    item.build()
}

/// Timestamps only encode the order of sending: first the fixed fields, then the messages.
fn time(position: usize) -> Result<Timestamp, Error> {
    Timestamp::from_unix_seconds(position as i64)
}

pub(crate) fn can_be_first(provider: Provider, message: &Message<'_>) -> bool {
    match provider {
        Provider::OpenAi | Provider::Responses => true,
        Provider::Anthropic | Provider::Gemini => {
            message.role == Role::User && !message.answers_calls()
        }
    }
}

/// Returns the positions of the messages that must be sent:
///
/// - system messages;
/// - the last user message, or the last message if there is none;
/// - if that cannot be first, the last message before it that can;
/// - tool results at the end, to which the model responds, or a paused turn, which it continues;
/// - for Anthropic, the first thinking of the current turn, if later steps of the turn have none.
pub(crate) fn pinned_messages(provider: Provider, messages: &[Message<'_>]) -> Vec<usize> {
    let sendable =
        || messages.iter().enumerate().filter(|(_, message)| message.rejection_rule.is_none());
    let system = sendable().filter(|(_, message)| message.role == Role::System);
    let mut pinned: Vec<usize> = system.map(|(index, _)| index).collect();
    let last_user = sendable().rfind(|(_, message)| message.is_user_turn());
    let last = || sendable().rfind(|(_, message)| message.role != Role::System);
    let Some((last_turn, message)) = last_user.or_else(last) else {
        return pinned;
    };
    pinned.push(last_turn);
    if !can_be_first(provider, message) {
        let first =
            sendable().filter(|(index, other)| *index < last_turn && can_be_first(provider, other));
        pinned.extend(first.map(|(index, _)| index).next_back());
    }
    let is_continued =
        |message: &Message<'_>| message.is_tool_results_only() || message.is_paused();
    let results = last().filter(|(_, message)| is_continued(message));
    pinned.extend(results.map(|(index, _)| index));
    // Thinking at the start of a turn applies to all steps of the turn, and must be sent with any of them.
    let mut steps =
        sendable().filter(|(index, message)| *index > last_turn && message.role == Role::Assistant);
    let first = steps.next().filter(|(_, message)| message.starts_with_thinking());
    if let Some((first, _)) = first
        && provider == Provider::Anthropic
        && steps.any(|(_, message)| !message.starts_with_thinking())
    {
        pinned.push(first);
    }
    pinned.sort_unstable();
    pinned.dedup();
    pinned
}

/// Plans and counts messages as they are sent: one after the other, without tokens that merge across them.
pub(crate) struct ChatLayout {
    /// For each message: the rule by which it cannot be sent, and whether it can be first.
    messages: Vec<(Option<&'static str>, bool)>,
}

impl ChatLayout {
    pub(crate) fn new(provider: Provider, messages: &[Message<'_>]) -> Self {
        let rules =
            |message: &Message<'_>| (message.rejection_rule, can_be_first(provider, message));
        Self { messages: messages.iter().map(rules).collect() }
    }
}

impl Layout for ChatLayout {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.fixed = PRIMING_TOKENS;
        plan.is_exact = true;
        for index in 0..pool.len() as u32 {
            let (rule, can_be_first) = match self.messages.get(index as usize) {
                Some((rule, can_be_first)) => (*rule, *can_be_first),
                None => (None, false),
            };
            plan.rejected.extend(rule.map(|rule| (index, rule.into())));
            if !can_be_first {
                plan.not_first.push((index, FIRST_NOT_USER.into()));
            }
        }
        Ok(plan)
    }

    fn measure(&self, items: &PlacedItems<'_>, _: i64) -> Result<Option<RenderCost>, Error> {
        let mut cost = RenderCost { fixed: PRIMING_TOKENS, ..RenderCost::default() };
        for (index, item) in items.indices().zip(items.items()) {
            if index < self.messages.len() {
                cost.framing = cost.framing.saturating_add(TOKENS_PER_MESSAGE);
                cost.items = cost.items.saturating_add(item.tokens() - TOKENS_PER_MESSAGE);
            } else {
                cost.fixed = cost.fixed.saturating_add(item.tokens());
            }
        }
        Ok(Some(cost))
    }
}
