//! Pairs tool calls with their results and drops parts that the provider rejects.
//!
//! Providers require that every call is directly followed by its results, and that every result answers such a call.
//! Unpaired parts are dropped once, before selection. A call and its results then form a group, which the engine selects or
//! drops together. One pass over `n` parts takes O(n log n) for lookups by call id.

use std::collections::{BTreeSet, HashSet};

use crate::Provider;
use crate::message::{Message, Part, PartKind, Role};
use crate::transcript::Repair;

// Reports contain these rules, so their texts do not change.
pub(crate) const FIRST_NOT_USER: &str = "the first message must have the role `user`";
pub(crate) const ORPHAN_RESULT: &str = "tool result has no preceding tool call";
pub(crate) const UNANSWERED_CALL: &str = "tool call has no result directly after it";
const NO_CONTENT: &str = "message has no content";
const MISPLACED_SYSTEM: &str = "a system message must directly follow a user message";

/// The rule that a part of a message violates.
#[derive(Clone, Copy)]
enum Violation {
    OrphanResult,
    UnansweredCall,
    DuplicateCallId,
    WrongRole,
    MisplacedCall,
}

impl Violation {
    /// Returns the rule in the names of this part and its message.
    fn describe(self, part: &Part<'_>, role: Role) -> String {
        let name = match &part.kind {
            PartKind::ToolCall { id } | PartKind::ServerToolCall { id } if id.is_empty() => {
                &part.text
            }
            PartKind::ToolCall { id }
            | PartKind::ServerToolCall { id }
            | PartKind::ToolResult { id }
            | PartKind::ServerToolResult { id } => id,
            _ => "",
        };
        let what = match &part.kind {
            PartKind::ToolCall { .. } | PartKind::ServerToolCall { .. } => "a tool call",
            PartKind::ToolResult { .. } | PartKind::ServerToolResult { .. } => "a tool result",
            _ => "thinking",
        };
        match self {
            Self::OrphanResult => format!("tool result `{name}` has no preceding tool call"),
            Self::UnansweredCall => format!("tool call `{name}` has no result directly after it"),
            Self::DuplicateCallId => format!("duplicate tool call id `{name}`"),
            Self::WrongRole => format!("role `{}` cannot contain {what}", role.name()),
            Self::MisplacedCall => {
                format!("tool call `{name}` does not directly follow a user message or a result")
            }
        }
    }
}

/// Messages and the repairs made to them.
pub(crate) struct ToolPairing<'p, 't> {
    pub(crate) messages: &'p mut [Message<'t>],
    pub(crate) repairs: Vec<Repair>,
}

impl<'p, 't> ToolPairing<'p, 't> {
    /// Applies OpenAI's rules: the results of a message's calls are the messages directly after it.
    pub(crate) fn openai(messages: &'p mut [Message<'t>]) -> Vec<Repair> {
        let mut pairing = Self { messages, repairs: Vec::new() };
        let mut index = 0;
        while index < pairing.messages.len() {
            let end = index + pairing.results_after(index);
            let results = pairing.messages[index + 1..=end].iter();
            let answered: BTreeSet<String> =
                results.filter_map(|message| message.answers.clone()).collect();
            let mut open = BTreeSet::new();
            pairing.drop_parts(index, |part| match &part.kind {
                PartKind::ToolCall { id } if !answered.contains(id) => {
                    Some(Violation::UnansweredCall)
                }
                PartKind::ToolCall { id } => {
                    (!open.insert(id.clone())).then_some(Violation::DuplicateCallId)
                }
                _ => None,
            });
            if !open.is_empty() {
                pairing.messages[index].group = Some(index);
            }
            for message in &mut pairing.messages[index + 1..=end] {
                match message.answers.as_ref().is_some_and(|id| open.remove(id)) {
                    true => message.group = Some(index),
                    false => message.rejection_rule = Some(ORPHAN_RESULT),
                }
            }
            if pairing.messages[index].answers.is_some() {
                pairing.messages[index].rejection_rule = Some(ORPHAN_RESULT);
            }
            index = end + 1;
        }
        pairing.finish()
    }

    /// Counts the result messages directly after an assistant message.
    fn results_after(&self, index: usize) -> usize {
        let after = &self.messages[index + 1..];
        match (self.messages[index].role, after.first().map(|next| next.role)) {
            (Role::Assistant, Some(Role::Tool)) => {
                after.iter().take_while(|message| message.role == Role::Tool).count()
            }
            // `function_call` has no ids: one call, one result.
            (Role::Assistant, Some(Role::Function)) => 1,
            _ => 0,
        }
    }

    /// Applies Anthropic's rules: the results of a message's calls are in the next message, before its other parts, and the
    /// first message is the user's.
    pub(crate) fn anthropic(messages: &'p mut [Message<'t>]) -> Vec<Repair> {
        let mut pairing = Self { messages, repairs: Vec::new() };
        pairing.pair_adjacent(Provider::Anthropic);
        pairing.finish()
    }

    /// Applies Gemini's rules: as Anthropic's, but results and other parts are in any order, and a message with calls
    /// directly follows one of the user. Past exchanges are therefore selected or dropped as a whole.
    pub(crate) fn gemini(messages: &'p mut [Message<'t>]) -> Vec<Repair> {
        let mut pairing = Self { messages, repairs: Vec::new() };
        pairing.pair_adjacent(Provider::Gemini);
        pairing.reject_empty();
        pairing.group_turns();
        pairing.group_exchanges();
        pairing.into_repairs()
    }

    /// Pairs the calls of each message with results in the next one.
    fn pair_adjacent(&mut self, provider: Provider) {
        let (mut used, mut last_role) = (HashSet::new(), None);
        // The calls of the previous message, and its position.
        let mut open: (BTreeSet<String>, usize) = (BTreeSet::new(), 0);
        for index in 0..self.messages.len() {
            let (mut expected, caller) = std::mem::take(&mut open);
            let role = self.messages[index].role;
            if role == Role::System {
                self.group_system(index);
                continue;
            }
            if last_role.is_none() && role == Role::Assistant {
                self.messages[index].rejection_rule = Some(FIRST_NOT_USER);
                continue;
            }
            if !expected.is_empty() {
                self.messages[index].group = Some(caller);
            }
            self.drop_parts(index, |part| match &part.kind {
                PartKind::ToolResult { .. } if role != Role::User => Some(Violation::WrongRole),
                PartKind::ToolResult { id } => {
                    (!expected.remove(id)).then_some(Violation::OrphanResult)
                }
                PartKind::Text | PartKind::Media | PartKind::Other => None,
                _ => (role != Role::Assistant).then_some(Violation::WrongRole),
            });
            self.pair_server_tools(index, &mut used);
            let has_calls = |message: &Message<'_>| {
                message.kept().any(|part| matches!(part.kind, PartKind::ToolCall { .. }))
            };
            let next = self.messages.get(index + 1).filter(|_| has_calls(&self.messages[index]));
            let answered = next.map_or_else(BTreeSet::new, Message::answered_call_ids);
            let mut calls = BTreeSet::new();
            let is_misplaced = provider == Provider::Gemini && last_role != Some(Role::User);
            self.drop_parts(index, |part| match &part.kind {
                PartKind::ToolCall { .. } if is_misplaced => Some(Violation::MisplacedCall),
                PartKind::ToolCall { id } if !answered.contains(id) => {
                    Some(Violation::UnansweredCall)
                }
                PartKind::ToolCall { id } if !used.insert(id.clone()) => {
                    Some(Violation::DuplicateCallId)
                }
                PartKind::ToolCall { id } => {
                    calls.insert(id.clone());
                    None
                }
                _ => None,
            });
            if provider == Provider::Anthropic {
                self.order_parts(index);
            }
            if !calls.is_empty() {
                self.messages[index].group = Some(index);
            }
            if self.messages[index].has_content() {
                last_role = Some(role);
            }
            open = (calls, index);
        }
    }

    /// Groups a system message between others with the user message directly before it.
    fn group_system(&mut self, index: usize) {
        let previous = index.checked_sub(1).map(|previous| &mut self.messages[previous]);
        match previous.filter(|previous| previous.role == Role::User && previous.has_content()) {
            Some(previous) => {
                let group = *previous.group.get_or_insert(index - 1);
                self.messages[index].group = Some(group);
            }
            None => self.messages[index].rejection_rule = Some(MISPLACED_SYSTEM),
        }
    }

    /// Pairs calls that the provider executes with their results in the same message.
    fn pair_server_tools(&mut self, index: usize, used: &mut HashSet<String>) {
        let is_server_tool = |part: &Part<'_>| {
            matches!(part.kind, PartKind::ServerToolCall { .. } | PartKind::ServerToolResult { .. })
        };
        if !self.messages[index].parts.iter().any(is_server_tool) {
            return;
        }
        let (mut answered, mut open) = (BTreeSet::new(), BTreeSet::new());
        // In reverse, because a result follows its call.
        for part in self.messages[index].parts.iter().rev().filter(|part| part.is_kept) {
            match &part.kind {
                PartKind::ServerToolResult { id } => _ = answered.insert(id.clone()),
                PartKind::ServerToolCall { id } if answered.remove(id) && !used.contains(id) => {
                    open.insert(id.clone());
                }
                _ => {}
            }
        }
        let is_last = index + 1 == self.messages.len();
        let mut paired = BTreeSet::new();
        self.drop_parts(index, |part| match &part.kind {
            PartKind::ServerToolCall { id } if open.remove(id) => {
                paired.insert(id.clone());
                used.insert(id.clone());
                None
            }
            // The last turn may be paused.
            PartKind::ServerToolCall { id } if is_last && used.insert(id.clone()) => None,
            PartKind::ServerToolCall { .. } => Some(Violation::UnansweredCall),
            PartKind::ServerToolResult { id } => {
                (!paired.remove(id)).then_some(Violation::OrphanResult)
            }
            _ => None,
        });
    }

    /// Drops thinking at the end of a message, and marks whether its results must be moved to the front.
    fn order_parts(&mut self, index: usize) {
        let message = &mut self.messages[index];
        let mut ends_with_thinking = false;
        for part in message.parts.iter_mut().rev().filter(|part| part.is_kept) {
            if part.kind != PartKind::Thinking {
                break;
            }
            part.is_kept = false;
            ends_with_thinking = true;
        }
        let is_result = |part: &&Part<'_>| matches!(part.kind, PartKind::ToolResult { .. });
        let results_first = message.kept().skip_while(is_result).any(|part| is_result(&part));
        message.results_first = results_first;
        if ends_with_thinking {
            self.repair(index, "thinking at the end is dropped: a message must not end with it");
        }
        if results_first {
            self.repair(index, "tool results are moved before the other parts");
        }
    }

    /// Drops the kept parts for which `violation` returns a rule, and records repairs.
    fn drop_parts(
        &mut self,
        index: usize,
        mut violation: impl FnMut(&Part<'_>) -> Option<Violation>,
    ) {
        let (mut repairs, role) = (Vec::new(), self.messages[index].role);
        for part in self.messages[index].parts.iter_mut().filter(|part| part.is_kept) {
            if let Some(violation) = violation(part) {
                part.is_kept = false;
                repairs.push(violation.describe(part, role));
            }
        }
        repairs.iter().for_each(|problem| self.repair(index, problem));
    }

    fn repair(&mut self, message: usize, problem: &str) {
        self.repairs.push(Repair { message, problem: problem.to_owned() });
    }

    /// Groups each user message with the assistant's last message before the next one, so that no question is sent with the
    /// answer to another.
    pub(crate) fn group_turns(&mut self) {
        let mut question: Option<usize> = None;
        let mut answer: Option<usize> = None;
        for index in 0..=self.messages.len() {
            if self.messages.get(index).is_none_or(Message::is_user_turn) {
                if let (Some(question), Some(answer)) = (question.take(), answer.take()) {
                    self.messages[question].group = Some(question);
                    self.messages[answer].group = Some(question);
                }
                answer = None;
            }
            let message =
                self.messages.get(index).filter(|message| message.rejection_rule.is_none());
            let Some(message) = message else { continue };
            match message.role {
                Role::User if message.is_user_turn() => {
                    // A message grouped with a system message is always sent; its answer need not be.
                    question = Some(index).filter(|_| message.group.is_none());
                }
                Role::Assistant if message.group.is_none() => answer = Some(index),
                _ => {}
            }
        }
    }

    /// Groups the messages of each exchange but the last: a question, the calls, their results and the answer.
    fn group_exchanges(&mut self) {
        let is_question =
            |message: &Message<'_>| message.is_user_turn() && !message.answers_calls();
        let last = self.messages.iter().rposition(is_question).unwrap_or(0);
        let mut question = 0;
        for (index, message) in self.messages[..last].iter_mut().enumerate() {
            if is_question(message) {
                question = index;
            }
            message.group = Some(question);
        }
    }

    /// Rejects messages without content, groups turns and returns the repairs by message.
    fn finish(mut self) -> Vec<Repair> {
        self.reject_empty();
        self.group_turns();
        self.into_repairs()
    }

    /// Rejects messages without content, and records what was dropped from others.
    pub(crate) fn reject_empty(&mut self) {
        for index in 0..self.messages.len() {
            let message = &mut self.messages[index];
            if message.rejection_rule.is_some() {
                continue;
            }
            if message.is_empty_tool_result() {
                self.repair(index, "empty tool result is replaced by `(no output)`");
            } else if !message.has_content() {
                let has_calls = |part: &Part<'_>| matches!(part.kind, PartKind::ToolCall { .. });
                let has_results =
                    |part: &Part<'_>| matches!(part.kind, PartKind::ToolResult { .. });
                message.rejection_rule = Some(match &message.parts {
                    parts if parts.iter().any(has_calls) => UNANSWERED_CALL,
                    parts if parts.iter().any(has_results) => ORPHAN_RESULT,
                    _ => NO_CONTENT,
                });
            } else if message.has_empty_arrays
                || message.parts.iter().any(|part| !part.is_kept && part.kind == PartKind::Text)
            {
                self.repair(index, "empty text or list is dropped");
            }
            let merged = self.messages[index].merged;
            if merged > 0 {
                self.repair(
                    index,
                    &format!("{merged} following messages of the same role are joined to it"),
                );
            }
        }
    }

    /// Returns the repairs by message.
    pub(crate) fn into_repairs(mut self) -> Vec<Repair> {
        // Rejected messages are not sent, so their repairs do not matter.
        self.repairs.retain(|repair| self.messages[repair.message].rejection_rule.is_none());
        for repair in &mut self.repairs {
            repair.message = self.messages[repair.message].number;
        }
        self.repairs.sort_by_key(|repair| repair.message);
        self.repairs
    }
}

/// Merges adjacent messages of the same role if they contain calls, thinking, results or a paused turn, so that a call and
/// its result are in adjacent messages. Anthropic does the same. Gemini also requires that calls directly follow a message
/// of the user.
pub(crate) fn merge_same_role(provider: Provider, messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut merged: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    let binds = |message: &Message<'_>| {
        message
            .parts
            .iter()
            .any(|part| matches!(part.kind, PartKind::ToolCall { .. } | PartKind::Thinking))
            || message.is_paused()
    };
    let has_calls = |message: &Message<'_>| {
        message.parts.iter().any(|part| matches!(part.kind, PartKind::ToolCall { .. }))
    };
    // Whether the last message has calls or thinking, which belong to the same turn as the next message.
    let mut is_bound = false;
    for mut message in messages {
        let is_next = match message.role {
            Role::Assistant => is_bound || provider == Provider::Gemini && has_calls(&message),
            // Results come first in a turn.
            Role::User => message.answers_calls(),
            _ => false,
        };
        match merged.last_mut().filter(|last| last.role == message.role && is_next) {
            Some(last) => {
                is_bound |= binds(&message);
                last.parts.append(&mut message.parts);
                last.merged += 1;
            }
            None => {
                is_bound = binds(&message);
                merged.push(message);
            }
        }
    }
    merged
}
