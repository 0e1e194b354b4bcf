//! Fits every request of an agent session into a token budget, so that the prompt cache still hits.
//!
//! A session sends its history again with every request. Trimming each request anew would change the beginning each
//! time, and the provider would read it at the full price. A session therefore decides in batches: nothing changes until
//! the request exceeds the budget. Then blocks are cut down to a low-water mark, so that the next requests fit again.
//!
//! The decisions are a fold over the history, with a step before every assistant message: the same history and budget
//! always give the same request. A session needs no state; [`ChatSession::step`] only saves time.

mod fitted;
mod fold;
mod policy;

use pannier_core::{ContextBudget, TokenCounter};

pub use self::fitted::{BlockPosition, Cut, CutForm, Fitted};
use self::fold::Fold;
pub use self::policy::SessionPolicy;
use crate::{ChatError, Transcript};

/// Fits the requests of a session by a policy.
///
/// ```
/// use pannier_chat::{ChatSession, Provider, SessionPolicy, Transcript};
/// use pannier_core::ContextBudget;
/// use pannier_tokens::BytesOverFour;
///
/// let messages = r#"[{ "role": "user", "content": "Fix the build." }]"#;
/// let transcript = Transcript::read(Provider::Anthropic, messages, &BytesOverFour)?;
/// let session = ChatSession::new(SessionPolicy::balanced(), &BytesOverFour);
///
/// let fitted = session.fit(&transcript, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(fitted.json(), messages);
/// assert!(fitted.cuts().is_empty());
/// # Ok::<(), pannier_chat::ChatError>(())
/// ```
#[derive(Debug)]
pub struct ChatSession<'c> {
    policy: SessionPolicy,
    counter: &'c dyn TokenCounter,
}

impl<'c> ChatSession<'c> {
    /// Returns a session. The counter must be the one that reads the transcripts.
    pub fn new(policy: SessionPolicy, counter: &'c dyn TokenCounter) -> Self {
        Self { policy, counter }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &SessionPolicy {
        &self.policy
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
        let available = budget.target_tokens().min(budget.input_tokens());
        let mut fold = self.fold(transcript, available);
        if fold.total() <= available {
            return Ok(Fitted::new(transcript, fold));
        }
        // Another budget leads to other decisions, so the one that is named is tried.
        let mut required = fold.total();
        loop {
            fold = self.fold(transcript, required);
            if fold.total() <= required {
                break;
            }
            required = fold.total();
        }
        let smallest_budget = required.saturating_add(budget.output_reserve());
        Err(ChatError::SessionOverBudget {
            required_tokens: required,
            smallest_budget,
            available_tokens: available,
        })
    }

    fn fold(&self, transcript: &Transcript<'_>, available: i64) -> Fold {
        let mut fold = Fold::new(transcript, available);
        fold.run(transcript, &self.policy, self.counter);
        fold
    }
}
