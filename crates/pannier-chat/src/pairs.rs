//! Which calls and results belong together, and what cannot be sent.
//!
//! A provider wants every call answered directly after it, and every result to answer such a call. What does not come
//! in pairs is left out here, once, before anything is selected; from then on a call and its results are one group, and
//! no selection can part them.

use std::collections::BTreeSet;

use crate::message::{Kind, Message, Part, Role};
use crate::transcript::Repair;

pub(crate) const FIRST: &str = "the first message must be the user's";
const NO_CALL: &str = "a result must directly follow its call";
const NO_RESULT: &str = "a call must be directly followed by its result";
const EMPTY: &str = "it has no content";

/// Messages, and what has been left out of them.
pub(crate) struct Pairs<'p, 't> {
    messages: &'p mut [Message<'t>],
    repairs: Vec<Repair>,
}

impl<'p, 't> Pairs<'p, 't> {
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
            pairs.leave_out(at, |part| match &part.kind {
                Kind::Call { id } if !given.contains(id) => Some(NO_RESULT),
                Kind::Call { id } => {
                    (!open.insert(id.clone())).then_some("it has the id of another")
                }
                _ => None,
            });
            if !open.is_empty() {
                pairs.messages[at].group = Some(at);
            }
            for message in &mut pairs.messages[at + 1..=at + answers] {
                match message.answers.as_ref().is_some_and(|id| open.remove(id)) {
                    true => message.group = Some(at),
                    false => message.refused = Some(NO_CALL),
                }
            }
            if pairs.messages[at].answers.is_some() {
                pairs.messages[at].refused = Some(NO_CALL);
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
            if !has_begun && pairs.messages[at].role == Role::Assistant {
                pairs.messages[at].refused = Some(FIRST);
                continue;
            }
            if !expected.is_empty() {
                pairs.messages[at].group = Some(caller);
            }
            pairs.leave_out(at, |part| match &part.kind {
                Kind::Answer { id } => (!expected.remove(id)).then_some(NO_CALL),
                _ => None,
            });
            pairs.pair_within(at, &mut used);
            let given = pairs.messages.get(at + 1).map_or_else(BTreeSet::new, Message::answered);
            let mut calls = BTreeSet::new();
            pairs.leave_out(at, |part| match &part.kind {
                Kind::Call { id } if !given.contains(id) => Some(NO_RESULT),
                Kind::Call { id } if !used.insert(id.clone()) => Some("it has the id of another"),
                Kind::Call { id } => {
                    calls.insert(id.clone());
                    None
                }
                _ => None,
            });
            pairs.order(at);
            if !calls.is_empty() {
                pairs.messages[at].group = Some(at);
            }
            has_begun |= pairs.messages[at].has_something();
            open = (calls, at);
        }
        pairs.finish()
    }

    /// Pairs calls that the provider answers itself, within one message.
    fn pair_within(&mut self, at: usize, used: &mut BTreeSet<String>) {
        let mut answered = BTreeSet::new();
        // From behind, because a result stands behind its call.
        let mut calls = BTreeSet::new();
        for part in self.messages[at].kept().collect::<Vec<_>>().into_iter().rev() {
            match &part.kind {
                Kind::ServerAnswer { id } => _ = answered.insert(id.clone()),
                Kind::ServerCall { id } if answered.remove(id) && !used.contains(id) => {
                    calls.insert(id.clone());
                }
                _ => {}
            }
        }
        let (mut open, mut closed) = (calls, BTreeSet::new());
        self.leave_out(at, |part| match &part.kind {
            Kind::ServerCall { id } if open.remove(id) => {
                closed.insert(id.clone());
                used.insert(id.clone());
                None
            }
            Kind::ServerCall { .. } => Some(NO_RESULT),
            Kind::ServerAnswer { id } => (!closed.remove(id)).then_some(NO_CALL),
            _ => None,
        });
    }

    /// Puts results before everything else; and a message does not end with a thought.
    fn order(&mut self, at: usize) {
        let message = &mut self.messages[at];
        while let Some(last) = message.parts.iter_mut().rfind(|part| part.is_kept)
            && last.kind == Kind::Thought
        {
            last.is_kept = false;
        }
        let is_answer = |part: &&Part<'_>| matches!(part.kind, Kind::Answer { .. });
        let is_behind = message.kept().skip_while(is_answer).any(|part| is_answer(&part));
        if is_behind {
            message.results_first = true;
            self.repair(at, "its results now stand before everything else");
        }
    }

    /// Leaves out the parts that are refused, and says why.
    fn leave_out(&mut self, at: usize, mut refuse: impl FnMut(&Part<'_>) -> Option<&'static str>) {
        let mut repairs = Vec::new();
        for part in self.messages[at].parts.iter_mut().filter(|part| part.is_kept) {
            if let Some(rule) = refuse(part) {
                part.is_kept = false;
                let (what, id) = match &part.kind {
                    Kind::Call { id } | Kind::ServerCall { id } => ("the call", id),
                    Kind::Answer { id } | Kind::ServerAnswer { id } => ("the result of", id),
                    _ => ("a part", &part.text),
                };
                repairs.push(format!("{what} {id} is left out: {rule}"));
            }
        }
        repairs.iter().for_each(|problem| self.repair(at, problem));
    }

    fn repair(&mut self, message: usize, problem: &str) {
        self.repairs.push(Repair { message, problem: problem.trim().to_owned() });
    }

    /// Joins what the user says with what the assistant answers in the end, so that no question gets the answer to
    /// another one.
    fn pair_turns(&mut self) {
        let sent =
            |message: &&mut Message<'_>| message.refused.is_none() && message.group.is_none();
        let mut question: Option<(usize, &mut Message<'_>)> = None;
        let mut answer: Option<&mut Message<'_>> = None;
        for (at, message) in self.messages.iter_mut().enumerate() {
            let is_turn = message.is_users_turn();
            if is_turn
                && let (Some((at, question)), Some(answer)) = (question.take(), answer.take())
            {
                (question.group, answer.group) = (Some(at), Some(at));
            }
            if !sent(&message) {
                continue;
            }
            match message.role {
                Role::User => (question, answer) = (Some((at, message)), None),
                Role::Assistant => answer = Some(message),
                _ => {}
            }
        }
        if let (Some((at, question)), Some(answer)) = (question, answer) {
            (question.group, answer.group) = (Some(at), Some(at));
        }
    }

    /// Refuses what has nothing left to say, and tells what else is not as it came.
    fn finish(mut self) -> Vec<Repair> {
        for at in 0..self.messages.len() {
            let message = &mut self.messages[at];
            if message.refused.is_some() {
                continue;
            }
            if message.is_silent() {
                self.repair(at, "it was empty, and now says so");
            } else if !message.has_something() {
                let has_calls = |part: &Part<'_>| matches!(part.kind, Kind::Call { .. });
                let has_results = |part: &Part<'_>| matches!(part.kind, Kind::Answer { .. });
                message.refused = Some(match &message.parts {
                    parts if parts.iter().any(has_calls) => NO_RESULT,
                    parts if parts.iter().any(has_results) => NO_CALL,
                    _ => EMPTY,
                });
            } else if message.parts.iter().any(|part| !part.is_kept && part.kind == Kind::Said) {
                self.repair(at, "an empty text is left out");
            }
        }
        self.pair_turns();
        // Of what is not sent at all, no part is missed.
        self.repairs.retain(|repair| self.messages[repair.message].refused.is_none());
        self.repairs.sort_by_key(|repair| repair.message);
        self.repairs
    }
}
