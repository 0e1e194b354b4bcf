//! Policies that the referee replays: the baselines, and the interface of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use pannier_core::item::Exactness;
use pannier_core::{ContextBudget, TokenCounter};
use pannier_policy::{Policy, PolicyRegistry, SessionOptions};

use super::block::{Block, BlockKind, BlockReader, ReplayMessage, request_json};
use super::recorded::RecordedSession;
use crate::message::TOKENS_PER_MESSAGE;
use crate::session::Foresight;
use crate::{ChatError, ChatSession, Provider, Transcript};

/// Decides what to send of a session. One value lives as long as the session.
pub trait ReplayPolicy {
    /// Returns the messages to send, or the reason of a refusal.
    ///
    /// # Errors
    ///
    /// A text for people.
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String>;

    /// Returns the share of the budget up to which a history must be sent unchanged.
    fn pressure_point(&self) -> f64 {
        0.5
    }

    /// Returns the contents that recall ids of a request stand for. `None` if the policy has no recall.
    fn recall(&self, history: &[ReplayMessage], ids: &[&str]) -> Option<Vec<Option<String>>> {
        let _ = (history, ids);
        None
    }

    /// Returns whether the policy has a budget to keep.
    fn has_budget(&self) -> bool {
        true
    }
}

/// Sends everything.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl ReplayPolicy for Everything {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        _: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        Ok(history.to_vec())
    }

    fn has_budget(&self) -> bool {
        false
    }
}

/// Replaces the oldest results by a short text once the history exceeds the budget. The two newest results stay, even
/// above the budget.
#[derive(Debug)]
pub struct OldestFirst {
    budget: i64,
    low_water: f64,
    /// The replaced blocks, by message and position.
    replaced: BTreeMap<(usize, usize), Arc<Block>>,
}

impl OldestFirst {
    /// The text of a replaced result.
    const STUB: &'static str = "[result left out]";

    /// The maximum tokens of a result that is never replaced.
    const MIN_TOKENS: i64 = 30;

    /// Creates a policy that cuts down to a share of the budget. 1 cuts just enough.
    pub fn new(budget: i64, low_water: f64) -> Self {
        Self { budget, low_water, replaced: BTreeMap::new() }
    }
}

impl ReplayPolicy for OldestFirst {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        let mut sent = history.to_vec();
        for ((message, position), block) in &self.replaced {
            let message = sent.get_mut(*message);
            if let Some(sent) = message.and_then(|message| message.blocks.get_mut(*position)) {
                *sent = Arc::clone(block);
            }
        }
        let mut total: i64 = sent.iter().map(ReplayMessage::tokens).sum();
        if total <= self.budget {
            return Ok(sent);
        }
        let mut results = Vec::new();
        for (index, message) in history.iter().enumerate() {
            for (position, block) in message.blocks.iter().enumerate() {
                if let BlockKind::ToolResult { id, is_error } = &block.kind {
                    results.push(((index, position), id, *is_error, block));
                }
            }
        }
        results.truncate(results.len().saturating_sub(super::recorded::NEWEST_RESULTS));
        for (place, id, is_error, block) in results {
            // The first block of a message carries the message's own tokens.
            let own = block.tokens + if place.1 == 0 { TOKENS_PER_MESSAGE } else { 0 };
            if self.replaced.contains_key(&place) || own <= Self::MIN_TOKENS {
                continue;
            }
            let stub = reader.tool_result(id, Self::STUB, is_error);
            if stub.tokens < block.tokens {
                total -= block.tokens - stub.tokens;
                sent[place.0].blocks[place.1] = Arc::clone(&stub);
                self.replaced.insert(place, stub);
            }
            if total as f64 <= self.budget as f64 * self.low_water {
                break;
            }
        }
        Ok(sent)
    }
}

/// Fits each request as a part of its session.
#[derive(Debug)]
pub struct FitSession<'c> {
    session: ChatSession<'c>,
    budget: ContextBudget,
}

impl<'c> FitSession<'c> {
    /// Creates a replay of a session policy. The counter must be that of the reader.
    ///
    /// # Errors
    ///
    /// As [`ContextBudget::new`].
    pub fn new(
        options: SessionOptions,
        counter: &'c dyn TokenCounter,
        budget: i64,
    ) -> Result<Self, ChatError> {
        let budget = ContextBudget::new(budget, budget)?;
        Ok(Self { session: ChatSession::new(options, counter), budget })
    }

    /// Cuts the results of a recorded session in the order of a clairvoyant: those first that supply no later needle, then
    /// those whose next needle is farthest (Belady). No policy can know that; it shows how much a better order could gain.
    #[must_use]
    pub fn with_clairvoyance(mut self, session: &RecordedSession) -> Self {
        let mut foresight = Foresight::default();
        for request in &session.requests {
            let sources = request.needles.iter().flat_map(|needle| &needle.sources);
            for &source in sources {
                let (message, part) = session.position(source);
                foresight.add(message, part, request.messages);
            }
        }
        self.session = self.session.with_foresight(foresight);
        self
    }
}

impl ReplayPolicy for FitSession<'_> {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        fit_transcript(history, reader, |transcript| {
            Ok(self.session.step(transcript, &self.budget)?.json())
        })
    }

    fn recall(&self, history: &[ReplayMessage], ids: &[&str]) -> Option<Vec<Option<String>>> {
        let request = request_json(history);
        let transcript = Transcript::read(Provider::Anthropic, &request, &NoTokens).ok()?;
        Some(ids.iter().map(|id| transcript.recall(id)).collect())
    }

    fn pressure_point(&self) -> f64 {
        self.session.options().pressure
    }
}

/// Counts nothing: recalls do not depend on tokens.
struct NoTokens;

impl TokenCounter for NoTokens {
    fn name(&self) -> &str {
        "none"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Estimate
    }

    fn count(&self, _: &str) -> usize {
        0
    }
}

/// Trims each request for itself.
#[derive(Debug)]
pub struct TrimEachRequest<'p> {
    registry: &'p PolicyRegistry,
    policy: &'p Policy,
    budget: ContextBudget,
}

impl<'p> TrimEachRequest<'p> {
    /// Creates a replay of a policy for single requests.
    ///
    /// # Errors
    ///
    /// As [`ContextBudget::new`].
    pub fn new(
        registry: &'p PolicyRegistry,
        policy: &'p Policy,
        budget: i64,
    ) -> Result<Self, ChatError> {
        Ok(Self { registry, policy, budget: ContextBudget::new(budget, budget)? })
    }
}

impl ReplayPolicy for TrimEachRequest<'_> {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        fit_transcript(history, reader, |transcript| {
            let trimmer = transcript.trimmer(self.registry, self.policy, None)?;
            Ok(trimmer.trim(&self.budget)?.json())
        })
    }
}

/// Writes a history as a request, fits it, and reads the result.
fn fit_transcript(
    history: &[ReplayMessage],
    reader: &mut BlockReader<'_>,
    fit: impl FnOnce(&Transcript<'_>) -> Result<String, ChatError>,
) -> Result<Vec<ReplayMessage>, String> {
    let request = request_json(history);
    let fitted = Transcript::read(Provider::Anthropic, &request, reader.counter())
        .and_then(|transcript| fit(&transcript))
        .and_then(|fitted| reader.read_request(&fitted));
    fitted.map_err(|error| error.to_string())
}
