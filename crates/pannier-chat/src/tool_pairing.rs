//! Which calls and results belong together, and what cannot be sent.
//!
//! A provider wants every call answered directly after it, and every result to answer such a call. What does not come
//! in pairs is left out here, once, before anything is selected; from then on a call and its results are one group, and
//! no selection can part them.

use std::collections::BTreeSet;

use crate::message::{PartKind, Message, Part, Role};
use crate::transcript::Repair;

pub(crate) const FIRST_NOT_USER: &str = "the first message must be the user's";
const ORPHAN_RESULT: &str = "a result must directly follow its call";
const UNANSWERED_CALL: &str = "a call must be directly followed by its result";
const DUPLICATE_CALL_ID: &str = "it has the id of another";
const WRONG_ROLE: &str = "who speaks here cannot say this";
const NO_CONTENT: &str = "it has no content";
const MISPLACED_SYSTEM: &str = "the system's words must directly follow the user's";

/// Messages, and what has been left out of them.
pub(crate) struct ToolPairing<'p, 't> {
    messages: &'p mut [Message<'t>],
    repairs: Vec<Repair>,
}

impl<'p, 't> ToolPairing<'p, 't> {
    /// By the rules of OpenAI: the results of a message's calls are the messages directly after it.
    pub(crate) fn openai(messages: &'p mut [Message<'t>]) -> Vec<Repair> {
        let mut pairs = Self { messages, repairs: Vec::new() };
        let mut at = 0;
        while at < pairs.messages.len() {
            let answers = pairs.answers_after(at);
            let given = pairs.messages[at + 1..=at + answers].iter();
            let given: BTreeSet<String> =
                given.filter_map(|message| message.answers.clone()).collect();
            let mut open = BTreeSet::new();
            pairs.drop_parts(at, |part| match &part.kind {
                PartKind::ToolCall { id } if !given.contains(id) => Some(UNANSWERED_CALL),
                PartKind::ToolCall { id } => (!open.insert(id.clone())).then_some(DUPLICATE_CALL_ID),
                _ => None,
            });
            if !open.is_empty() {
                pairs.messages[at].group = Some(at);
            }
            for message in &mut pairs.messages[at + 1..=at + answers] {
                match message.answers.as_ref().is_some_and(|id| open.remove(id)) {
                    true => message.group = Some(at),
                    false => message.rejection_rule = Some(ORPHAN_RESULT),
                }
            }
            if pairs.messages[at].answers.is_some() {
                pairs.messages[at].rejection_rule = Some(ORPHAN_RESULT);
            }
            at += 1 + answers;
        }
        pairs.finish()
    }

    /// How many of the messages after an assistant's answer it.
    fn answers_after(&self, at: usize) -> usize {
        let after = &self.messages[at + 1..];
        match (self.messages[at].role, after.first().map(|next| next.role)) {
            (Role::Assistant, Some(Role::Tool)) => {
                after.iter().take_while(|message| message.role == Role::Tool).count()
            }
            // Before there were ids, there was one call and one result.
            (Role::Assistant, Some(Role::Function)) => 1,
            _ => 0,
        }
    }

    /// By the rules of Anthropic: the results of a message's calls are in the next message, before anything else, and
    /// the first message is the user's.
    pub(crate) fn anthropic(messages: &'p mut [Message<'t>]) -> Vec<Repair> {
        let mut pairs = Self { messages, repairs: Vec::new() };
        let (mut used, mut has_begun) = (BTreeSet::new(), false);
        // The calls of the message before, and where it is.
        let mut open: (BTreeSet<String>, usize) = (BTreeSet::new(), 0);
        for at in 0..pairs.messages.len() {
            let (mut expected, caller) = std::mem::take(&mut open);
            let role = pairs.messages[at].role;
            if role == Role::System {
                pairs.join_system(at);
                continue;
            }
            if !has_begun && role == Role::Assistant {
                pairs.messages[at].rejection_rule = Some(FIRST_NOT_USER);
                continue;
            }
            if !expected.is_empty() {
                pairs.messages[at].group = Some(caller);
            }
            pairs.drop_parts(at, |part| match &part.kind {
                PartKind::ToolResult { .. } if role != Role::User => Some(WRONG_ROLE),
                PartKind::ToolResult { id } => (!expected.remove(id)).then_some(ORPHAN_RESULT),
                PartKind::Text | PartKind::Media | PartKind::Other => None,
                _ => (role != Role::Assistant).then_some(WRONG_ROLE),
            });
            pairs.pair_within(at, &mut used);
            let given = pairs.messages.get(at + 1).map_or_else(BTreeSet::new, Message::answered_call_ids);
            let mut calls = BTreeSet::new();
            pairs.drop_parts(at, |part| match &part.kind {
                PartKind::ToolCall { id } if !given.contains(id) => Some(UNANSWERED_CALL),
                PartKind::ToolCall { id } if !used.insert(id.clone()) => Some(DUPLICATE_CALL_ID),
                PartKind::ToolCall { id } => {
                    calls.insert(id.clone());
                    None
                }
                _ => None,
            });
            pairs.order(at);
            if !calls.is_empty() {
                pairs.messages[at].group = Some(at);
            }
            has_begun |= pairs.messages[at].has_content();
            open = (calls, at);
        }
        pairs.finish()
    }

    /// Words of the system in the middle stay with those of the user before them.
    fn join_system(&mut self, at: usize) {
        let before = at.checked_sub(1).map(|before| &mut self.messages[before]);
        match before.filter(|before| before.role == Role::User && before.has_content()) {
            Some(before) => {
                let group = *before.group.get_or_insert(at - 1);
                self.messages[at].group = Some(group);
            }
            None => self.messages[at].rejection_rule = Some(MISPLACED_SYSTEM),
        }
    }

    /// ToolPairing calls that the provider answers itself, within one message.
    fn pair_within(&mut self, at: usize, used: &mut BTreeSet<String>) {
        let (mut answered, mut open) = (BTreeSet::new(), BTreeSet::new());
        // From behind, because a result stands behind its call.
        for part in self.messages[at].parts.iter().rev().filter(|part| part.is_kept) {
            match &part.kind {
                PartKind::ServerToolResult { id } => _ = answered.insert(id.clone()),
                PartKind::ServerToolCall { id } if answered.remove(id) && !used.contains(id) => {
                    open.insert(id.clone());
                }
                _ => {}
            }
        }
        let mut closed = BTreeSet::new();
        self.drop_parts(at, |part| match &part.kind {
            PartKind::ServerToolCall { id } if open.remove(id) => {
                closed.insert(id.clone());
                used.insert(id.clone());
                None
            }
            PartKind::ServerToolCall { .. } => Some(UNANSWERED_CALL),
            PartKind::ServerToolResult { id } => (!closed.remove(id)).then_some(ORPHAN_RESULT),
            _ => None,
        });
    }

    /// Puts results before everything else; and a message does not end with a thought.
    fn order(&mut self, at: usize) {
        let message = &mut self.messages[at];
        let mut has_thought = false;
        for part in message.parts.iter_mut().rev().filter(|part| part.is_kept) {
            if part.kind != PartKind::Thinking {
                break;
            }
            part.is_kept = false;
            has_thought = true;
        }
        let is_answer = |part: &&Part<'_>| matches!(part.kind, PartKind::ToolResult { .. });
        let is_behind = message.kept().skip_while(is_answer).any(|part| is_answer(&part));
        message.results_first = is_behind;
        if has_thought {
            self.repair(
                at,
                "what it thinks in the end is left out: a message does not end with that",
            );
        }
        if is_behind {
            self.repair(at, "its results now stand before everything else");
        }
    }

    /// Leaves out the parts that are refused, and says why.
    fn drop_parts(&mut self, at: usize, mut refuse: impl FnMut(&Part<'_>) -> Option<&'static str>) {
        let mut repairs = Vec::new();
        for part in self.messages[at].parts.iter_mut().filter(|part| part.is_kept) {
            if let Some(rule) = refuse(part) {
                part.is_kept = false;
                let what = match &part.kind {
                    PartKind::ToolCall { id } | PartKind::ServerToolCall { id } if !id.is_empty() => {
                        format!("the call {id}")
                    }
                    PartKind::ToolResult { id } | PartKind::ServerToolResult { id } => {
                        format!("the result of {id}")
                    }
                    PartKind::ToolCall { .. } | PartKind::ServerToolCall { .. } => {
                        format!("the call {}", part.text)
                    }
                    _ => "a part".to_owned(),
                };
                repairs.push(format!("{what} is left out: {rule}"));
            }
        }
        repairs.iter().for_each(|problem| self.repair(at, problem));
    }

    fn repair(&mut self, message: usize, problem: &str) {
        self.repairs.push(Repair { message, problem: problem.to_owned() });
    }

    /// Joins what the user says with what the assistant answers in the end, so that no question gets the answer to
    /// another one.
    fn group_turns(&mut self) {
        let mut question: Option<usize> = None;
        let mut answer: Option<usize> = None;
        for at in 0..=self.messages.len() {
            if self.messages.get(at).is_none_or(Message::is_users_turn) {
                if let (Some(question), Some(answer)) = (question.take(), answer.take()) {
                    self.messages[question].group = Some(question);
                    self.messages[answer].group = Some(question);
                }
                answer = None;
            }
            let message = self.messages.get(at).filter(|message| message.rejection_rule.is_none());
            let Some(message) = message else { continue };
            match message.role {
                Role::User if message.is_users_turn() => {
                    // With words of the system it is sent in any case, and its answer need not be.
                    question = Some(at).filter(|_| message.group.is_none());
                }
                Role::Assistant if message.group.is_none() => answer = Some(at),
                _ => {}
            }
        }
    }

    /// Refuses what has nothing left to say, and tells what else is not as it came.
    fn finish(mut self) -> Vec<Repair> {
        for at in 0..self.messages.len() {
            let message = &mut self.messages[at];
            if message.rejection_rule.is_some() {
                continue;
            }
            if message.is_empty_tool_result() {
                self.repair(at, "it was empty, and now says so");
            } else if !message.has_content() {
                let has_calls = |part: &Part<'_>| matches!(part.kind, PartKind::ToolCall { .. });
                let has_results = |part: &Part<'_>| matches!(part.kind, PartKind::ToolResult { .. });
                message.rejection_rule = Some(match &message.parts {
                    parts if parts.iter().any(has_calls) => UNANSWERED_CALL,
                    parts if parts.iter().any(has_results) => ORPHAN_RESULT,
                    _ => NO_CONTENT,
                });
            } else if message.has_empty_arrays
                || message.parts.iter().any(|part| !part.is_kept && part.kind == PartKind::Text)
            {
                self.repair(at, "an empty text or list is left out");
            }
            if self.messages[at].merged > 0 {
                let problem =
                    format!("the {} messages after it are joined to it", self.messages[at].joined);
                self.repair(at, &problem);
            }
        }
        self.group_turns();
        // Of what is not sent at all, no part is missed.
        self.repairs.retain(|repair| self.messages[repair.message].rejection_rule.is_none());
        for repair in &mut self.repairs {
            repair.message = self.messages[repair.message].number;
        }
        self.repairs.sort_by_key(|repair| repair.message);
        self.repairs
    }
}

/// Joins messages of one speaker that follow each other, where a call and its result would otherwise not be in messages
/// that do. Anthropic does the same.
pub(crate) fn merge_same_role(messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut merged: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    let binds = |message: &Message<'_>| {
        message.parts.iter().any(|part| matches!(part.kind, PartKind::ToolCall { .. } | PartKind::Thinking))
    };
    // Whether the last one has calls or thoughts, which belong to the same turn as what follows them.
    let mut is_bound = false;
    for mut message in messages {
        let is_next = match message.role {
            Role::Assistant => is_bound,
            // Results stand at the beginning of a turn.
            Role::User => !message.answered_call_ids().is_empty(),
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
