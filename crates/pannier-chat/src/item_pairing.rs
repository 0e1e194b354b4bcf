//! Pairs calls with outputs and reasoning with items, for the Responses API.
//!
//! Every call has an output after it with the same id, though not directly after it. Reasoning must be sent with the item that
//! follows it, and an item with the reasoning before it. So what the model wrote between two inputs, a step, stays together.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Message, PartKind, Role};
use crate::tool_pairing::{ORPHAN_RESULT, ToolPairing, UNANSWERED_CALL};
use crate::transcript::Repair;

const LONE_REASONING: &str = "reasoning has no item after it";

impl<'p, 't> ToolPairing<'p, 't> {
    /// Applies the rules of the Responses API. If the request `is_continued`, the call of an output may be on the server.
    pub(crate) fn responses(messages: &'p mut [Message<'t>], is_continued: bool) -> Vec<Repair> {
        let mut pairing = Self { messages, repairs: Vec::new() };
        let calls = pairing.pair_items(is_continued);
        pairing.reject_empty();
        let mut steps = pairing.steps();
        pairing.reject_lone_reasoning(&steps);
        for (message, step) in pairing.messages.iter().zip(&mut steps) {
            *step = step.filter(|_| message.rejection_rule.is_none());
        }
        let with_calls: BTreeSet<usize> = calls.keys().filter_map(|call| steps[*call]).collect();
        for (message, step) in pairing.messages.iter_mut().zip(&steps) {
            message.group = step.filter(|step| with_calls.contains(step));
        }
        for (call, output) in calls {
            pairing.messages[output].group = steps[call];
        }
        pairing.group_turns();
        pairing.group_reasoning(&steps);
        pairing.into_repairs()
    }

    /// Rejects calls without an output, outputs without a call, and second ones with the same id. Returns the positions of
    /// the outputs by those of their calls.
    fn pair_items(&mut self, is_continued: bool) -> BTreeMap<usize, usize> {
        let mut open: BTreeMap<String, usize> = BTreeMap::new();
        let (mut used, mut calls) = (BTreeSet::new(), BTreeMap::new());
        for (index, message) in self.messages.iter_mut().enumerate() {
            if let Some(id) = call_id(message).map(str::to_owned) {
                message.rejection_rule = Some(UNANSWERED_CALL);
                if used.insert(id.clone()) {
                    open.insert(id, index);
                }
            } else if let Some(id) = &message.answers {
                match open.remove(id) {
                    Some(call) => _ = calls.insert(call, index),
                    None if is_continued && used.insert(id.clone()) => {}
                    None => message.rejection_rule = Some(ORPHAN_RESULT),
                }
            }
        }
        calls.keys().for_each(|call| self.messages[*call].rejection_rule = None);
        calls
    }

    /// Returns for each item of the model the first one of its step. Reasoning starts a step.
    fn steps(&self) -> Vec<Option<usize>> {
        let (mut step, mut is_after_reasoning) = (None, false);
        let mut steps = Vec::with_capacity(self.messages.len());
        for (index, message) in self.messages.iter().enumerate() {
            let is_reasoning = message.starts_with_thinking();
            if message.role == Role::Assistant {
                let is_start = is_reasoning && !is_after_reasoning;
                step = step.filter(|_| !is_start).or(Some(index));
                steps.push(step);
            } else {
                // An input that is not sent does not end a step.
                step = step.filter(|_| message.rejection_rule.is_some());
                steps.push(None);
            }
            is_after_reasoning = is_reasoning;
        }
        steps
    }

    /// Rejects reasoning if nothing else of its step can be sent.
    fn reject_lone_reasoning(&mut self, steps: &[Option<usize>]) {
        let messages = self.messages.iter().zip(steps);
        let led_to = messages.filter(|(message, _)| {
            message.rejection_rule.is_none() && !message.starts_with_thinking()
        });
        let led_to: BTreeSet<usize> = led_to.filter_map(|(_, step)| *step).collect();
        for (message, step) in self.messages.iter_mut().zip(steps) {
            if message.starts_with_thinking() && step.is_none_or(|step| !led_to.contains(&step)) {
                message.rejection_rule = Some(LONE_REASONING);
            }
        }
    }

    /// Groups reasoning with its step, which may be the answer in the group of a question.
    fn group_reasoning(&mut self, steps: &[Option<usize>]) {
        let mut groups: BTreeMap<usize, usize> = BTreeMap::new();
        for (message, step) in self.messages.iter().zip(steps) {
            let Some(step) = *step else { continue };
            if let Some(group) = message.group {
                groups.insert(step, group);
            } else if message.starts_with_thinking() {
                groups.entry(step).or_insert(step);
            }
        }
        for (message, step) in self.messages.iter_mut().zip(steps) {
            message.group = step.and_then(|step| groups.get(&step).copied()).or(message.group);
        }
    }
}

/// Returns the id of the call that an item is.
fn call_id<'m>(message: &'m Message<'_>) -> Option<&'m str> {
    message.parts.iter().find_map(|part| match &part.kind {
        PartKind::ToolCall { id } => Some(id.as_str()),
        _ => None,
    })
}
