//! Fits every request of an agent session into a token budget, so that the prompt cache still hits.
//!
//! A session sends its history again with every request. Trimming each request anew would change the beginning each
//! time, and the provider would read it at the full price. A session therefore decides in batches: nothing changes until
//! the request exceeds the budget. Then blocks are cut down to a low-water mark, so that the next requests fit again.
//!
//! The decisions are a fold over the history, with a step before every assistant message: the same history and budget
//! always give the same request. A session needs no state; [`ChatSession::step`] only saves time.

mod call;
mod density;
mod digest;
mod fitted;
mod fold;
mod foresight;
mod form;
mod id;
mod query;
mod recall;
mod store;
mod terms;

use pannier_core::{ContextBudget, TokenCounter};
use pannier_policy::SessionOptions;
use xxhash_rust::xxh3::Xxh3Default;

pub use self::fitted::{BlockPosition, Cut, CutForm, CutReason, Fitted, SentBlock};
use self::fold::{Fold, Rules};
pub(crate) use self::foresight::Foresight;
use self::query::query_terms;
pub use self::recall::RecallRange;
pub use self::store::{RecallStore, RecallStoreOptions};
use crate::message::{Message, Role};
use crate::{ChatError, Transcript};

/// Fits the requests of a session by a policy.
///
/// ```
/// use pannier_chat::{ChatSession, Provider, Transcript};
/// use pannier_core::ContextBudget;
/// use pannier_policy::SessionOptions;
/// use pannier_tokens::BytesOverFour;
///
/// let messages = r#"[{ "role": "user", "content": "Fix the build." }]"#;
/// let transcript = Transcript::read(Provider::Anthropic, messages, &BytesOverFour)?;
/// let session = ChatSession::new(SessionOptions::default(), &BytesOverFour);
///
/// let fitted = session.fit(&transcript, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(fitted.json(), messages);
/// assert!(fitted.cuts().is_empty());
/// # Ok::<(), pannier_chat::ChatError>(())
/// ```
#[derive(Debug)]
pub struct ChatSession<'c> {
    options: SessionOptions,
    /// The hashes of the query's terms.
    query: Vec<u64>,
    counter: &'c dyn TokenCounter,
    /// Whether the agent can recall what was cut.
    is_recallable: bool,
    /// What only a replay can know.
    foresight: Option<Foresight>,
    /// The last history that was fitted step by step.
    known: Option<Known>,
}

/// A history and the decisions about it.
#[derive(Debug)]
struct Known {
    available: i64,
    fixed_tokens: i64,
    fingerprints: Vec<u64>,
    fold: Fold,
}

impl<'c> ChatSession<'c> {
    /// Returns a session. The counter must be the one that reads the transcripts.
    pub fn new(options: SessionOptions, counter: &'c dyn TokenCounter) -> Self {
        let (query, is_recallable) = (Vec::new(), true);
        Self { options, query, counter, is_recallable, foresight: None, known: None }
    }

    /// Cuts results with terms of a query later. The same query in all requests of a session keeps their prefix.
    #[must_use]
    pub fn with_query(mut self, query: &str) -> Self {
        (self.query, self.known) = (query_terms(query), None);
        self
    }

    /// Leaves recall ids out of what is sent, for agents that cannot recall.
    #[must_use]
    pub fn without_recall(mut self) -> Self {
        (self.is_recallable, self.known) = (false, None);
        self
    }

    /// Cuts the results first that the agent uses last.
    pub(crate) fn with_foresight(mut self, foresight: Foresight) -> Self {
        (self.foresight, self.known) = (Some(foresight), None);
        self
    }

    /// Returns the options.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Returns whether the request is so short that no step of the history cuts anything.
    ///
    /// Lower counts of the same texts cut nothing either. So if this holds for upper bounds of all counts, it holds for
    /// the counts themselves, and they need not be known.
    pub fn is_below_pressure(&self, transcript: &Transcript<'_>, budget: &ContextBudget) -> bool {
        Fold::new(transcript, available(budget)).stays_below_pressure(transcript, &self.options)
    }

    /// Fits the last request of a history into a budget.
    ///
    /// # Errors
    ///
    /// [`ChatError::SessionOverBudget`] with a sufficient budget if the blocks that are never cut exceed it.
    pub fn fit<'s, 't>(
        &self,
        transcript: &'s Transcript<'t>,
        budget: &ContextBudget,
    ) -> Result<Fitted<'s, 't>, ChatError> {
        let fold = self.fold(transcript, available(budget));
        self.check(&fold, transcript, budget)?;
        Ok(Fitted::new(transcript, &fold))
    }

    /// Fits the last request of a history, as [`fit`](Self::fit) does. If the history extends the previous one, only the
    /// new messages are read.
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit).
    pub fn step<'s, 't>(
        &mut self,
        transcript: &'s Transcript<'t>,
        budget: &ContextBudget,
    ) -> Result<Fitted<'s, 't>, ChatError> {
        let messages = &transcript.messages;
        let (available, fixed_tokens) = (available(budget), transcript.fixed_tokens());
        let fingerprints: Vec<u64> = messages.iter().map(fingerprint).collect();
        let known = self.known.take().filter(|known| {
            let length = known.fingerprints.len();
            let is_response = |message: &Message<'_>| {
                let last = length.checked_sub(1).map(|last| messages[last].role);
                message.role == Role::Assistant && last != Some(Role::Assistant)
            };
            // The last step was one of this history only if a response follows.
            (known.available, known.fixed_tokens) == (available, fixed_tokens)
                && known.fold.has_pins_of(transcript)
                && fingerprints.starts_with(&known.fingerprints)
                && messages.get(length).is_none_or(is_response)
        });
        let mut fold =
            known.map_or_else(|| self.new_fold(transcript, available), |known| known.fold);
        fold.run(transcript, self.rules());
        let checked = self.check(&fold, transcript, budget);
        let fitted = checked.map(|()| Fitted::new(transcript, &fold));
        self.known = Some(Known { available, fixed_tokens, fingerprints, fold });
        fitted
    }

    fn rules(&self) -> Rules<'_> {
        let foresight = self.foresight.as_ref();
        Rules { options: &self.options, query: &self.query, counter: self.counter, foresight }
    }

    fn new_fold(&self, transcript: &Transcript<'_>, available: i64) -> Fold {
        let mut fold = Fold::new(transcript, available);
        if !self.is_recallable {
            fold.hide_ids();
        }
        fold
    }

    fn fold(&self, transcript: &Transcript<'_>, available: i64) -> Fold {
        let mut fold = self.new_fold(transcript, available);
        fold.run(transcript, self.rules());
        fold
    }

    /// Returns an error if a request exceeds its budget. It names a budget that suffices, while one token less does not.
    fn check(
        &self,
        fold: &Fold,
        transcript: &Transcript<'_>,
        budget: &ContextBudget,
    ) -> Result<(), ChatError> {
        if !fold.is_over() {
            return Ok(());
        }
        // Another budget leads to other decisions, so the one that is named is tried.
        let mut required_tokens = fold.total();
        loop {
            let fold = self.fold(transcript, required_tokens);
            if !fold.is_over() {
                break;
            }
            required_tokens = fold.total();
        }
        let mut refused_tokens = available(budget);
        while refused_tokens + 1 < required_tokens {
            let tokens = refused_tokens.midpoint(required_tokens);
            match self.fold(transcript, tokens).is_over() {
                true => refused_tokens = tokens,
                false => required_tokens = tokens,
            }
        }
        Err(ChatError::SessionOverBudget {
            required_tokens,
            smallest_budget: required_tokens.saturating_add(budget.output_reserve()),
            available_tokens: available(budget),
        })
    }
}

fn available(budget: &ContextBudget) -> i64 {
    budget.target_tokens().min(budget.input_tokens())
}

/// Returns the hash of what is sent of a message.
fn fingerprint(message: &Message<'_>) -> u64 {
    let mut hasher = Xxh3Default::new();
    let flags = [message.rejection_rule.is_some(), message.results_first];
    hasher.update(&flags.map(u8::from));
    hasher.update(message.raw.get().as_bytes());
    for part in &message.parts {
        hasher.update(&[part.is_kept.into()]);
        hasher.update(part.raw.get().as_bytes());
    }
    hasher.digest()
}
