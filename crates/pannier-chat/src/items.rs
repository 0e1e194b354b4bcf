//! Messages as items: what they cost, which must be sent, and what a provider wants to know of the rest.

use pannier_core::{
    ContextItem, ContextKind, ContextSource, Cost, Placed, Rendering, Timestamp, TokenCounter,
};

use crate::message::{TOKENS_PER_MESSAGE, Message, Role};
use crate::tool_pairing::FIRST_NOT_USER;
use crate::{ChatError, Provider};

/// Tokens by which a provider makes the model answer.
pub(crate) const PRIMING_TOKENS: i64 = 3;

/// A field of a request that is sent with every message list.
pub(crate) struct FixedField {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) tokens: i64,
}

/// The messages as items, then the fixed fields.
pub(crate) fn items(
    provider: Provider,
    fixed: &[FixedField],
    messages: &[Message<'_>],
    counter: &dyn TokenCounter,
) -> Result<Vec<ContextItem>, ChatError> {
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    let all = texts.iter().chain(fixed.iter().map(|field| &field.text)).map(String::as_str);
    let counts = counter.count_each(&all.collect::<Vec<_>>());
    let mut counts = counts.into_iter().map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let mut count = || counts.next().unwrap_or_default();
    // Times only tell the order in which things are sent: first the fixed fields, then the messages.
    let time = |place: usize| Timestamp::from_unix_seconds(place as i64);
    let pinned = pinned_messages(provider, messages);
    let mut items = Vec::with_capacity(messages.len() + fixed.len());
    for (at, (message, text)) in messages.iter().zip(texts).enumerate() {
        let (kind, source) = match message.role {
            Role::System => (ContextKind::SYSTEM_PROMPT, ContextSource::CHAT),
            _ if message.is_tool_results_only() => (ContextKind::TOOL_OUTPUT, ContextSource::TOOL),
            _ => (ContextKind::MESSAGE, ContextSource::CHAT),
        };
        let mut item = ContextItem::builder(text, count().saturating_add(message.tokens()))
            .kind(kind)
            .source(source)
            .id(format!("message-{}", message.number))
            .pinned(pinned.binary_search(&at).is_ok())
            .timestamp(time(fixed.len() + at)?);
        if let Some(group) = message.group {
            item = item.group(format!("turn-{group}"));
        }
        items.push(item.build()?);
    }
    for (at, field) in fixed.iter().enumerate() {
        let kind = match field.name.as_str() {
            "system" => ContextKind::SYSTEM_PROMPT,
            _ => ContextKind::new("Tools")?,
        };
        let item = ContextItem::builder(&field.text, count().saturating_add(field.tokens));
        items.push(item.kind(kind).id(&field.name).pinned(true).timestamp(time(at)?).build()?);
    }
    Ok(items)
}

fn can_be_first(provider: Provider, message: &Message<'_>) -> bool {
    match provider {
        Provider::OpenAi => true,
        Provider::Anthropic => message.role == Role::User && message.answered_call_ids().is_empty(),
    }
}

/// The messages that must be sent: the system's, the user's last, and the results at the end, if the model is to answer
/// those; or the last message, if the user says nothing. Where none of them can be the first, one before them that can.
fn pinned_messages(provider: Provider, messages: &[Message<'_>]) -> Vec<usize> {
    let sent = || messages.iter().enumerate().filter(|(_, message)| message.rejection_rule.is_none());
    let mut pinned: Vec<usize> =
        sent().filter(|(_, message)| message.role == Role::System).map(|(at, _)| at).collect();
    let users = sent().rfind(|(_, message)| message.is_users_turn());
    let last = || sent().rfind(|(_, message)| message.role != Role::System);
    let Some((last_turn, message)) = users.or_else(last) else {
        return pinned;
    };
    pinned.push(last_turn);
    if !can_be_first(provider, message) {
        let first = sent().filter(|(at, other)| *at < last_turn && can_be_first(provider, other));
        pinned.extend(first.map(|(at, _)| at).next_back());
    }
    pinned.extend(last().filter(|(_, message)| message.is_tool_results_only()).map(|(at, _)| at));
    // What the model thought at the beginning of a turn stands for all of it, and must be sent with any of it.
    let mut steps =
        sent().filter(|(at, message)| *at > last_turn && message.role == Role::Assistant);
    let first = steps.next().filter(|(_, message)| message.starts_with_thinking());
    if let Some((first, _)) = first
        && steps.any(|(_, message)| !message.starts_with_thinking())
    {
        pinned.push(first);
    }
    pinned.sort_unstable();
    pinned.dedup();
    pinned
}

/// How messages are sent: one after the other, with nothing between them that merges.
pub(crate) struct ChatRendering {
    /// Of each message, the rule by which it cannot be sent, and whether it can be the first.
    messages: Vec<(Option<&'static str>, bool)>,
}

impl ChatRendering {
    pub(crate) fn new(provider: Provider, messages: &[Message<'_>]) -> Self {
        let rules = |message: &Message<'_>| (message.rejection_rule, can_be_first(provider, message));
        Self { messages: messages.iter().map(rules).collect() }
    }
}

impl Rendering for ChatRendering {
    fn cost(&self, items: &Placed<'_>) -> Cost {
        let mut cost = Cost { fixed: PRIMING_TOKENS, ..Cost::default() };
        for (index, item) in items.indices().zip(items.items()) {
            if index < self.messages.len() {
                cost.framing = cost.framing.saturating_add(TOKENS_PER_MESSAGE);
                cost.items = cost.items.saturating_add(item.tokens() - TOKENS_PER_MESSAGE);
            } else {
                cost.fixed = cost.fixed.saturating_add(item.tokens());
            }
        }
        cost
    }

    fn effort(&self, _: i64) -> u64 {
        self.messages.len() as u64
    }

    fn refuses(&self, index: usize, _: &ContextItem) -> Option<&str> {
        self.messages.get(index).and_then(|(rejection_rule, _)| *rejection_rule)
    }

    fn refuses_first(&self, index: usize, _: &ContextItem) -> Option<&str> {
        let can_be_first = self.messages.get(index).is_some_and(|(_, first)| *first);
        (!can_be_first).then_some(FIRST_NOT_USER)
    }
}
