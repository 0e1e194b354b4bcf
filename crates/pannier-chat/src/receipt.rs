//! Receipts of trimmed transcripts, and their replay.

use pannier_core::{ContextBudget, Error, TokenCounter};
use pannier_policy::{Digest, Policy, Receipt, ReceiptSource, Replay, RunConfig, SourceRun};
use serde::{Deserialize, Serialize};

use crate::{ChatError, ChatSession, Fitted, Provider, Transcript, TrimmedTranscript, Trimmer};

/// The source kind in receipts of transcripts.
const KIND: &str = "chat";

/// How the transcripts of a receipt are read.
#[derive(Serialize, Deserialize)]
struct SourceOptions {
    provider: Provider,
    /// The positions of the messages that were pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pins: Vec<usize>,
    /// The hash of the previous transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<Digest>,
    /// Whether it was fitted as a request of a session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_session: bool,
    /// Whether cache breakpoints were moved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cache_control: bool,
}

impl SourceOptions {
    fn from_receipt(receipt: &Receipt) -> Result<Self, Error> {
        let options = receipt.source.options.as_ref().filter(|_| receipt.source.kind == KIND);
        let options = options.and_then(|options| serde_json::to_value(options).ok());
        options.and_then(|options| serde_json::from_value(options).ok()).ok_or_else(|| {
            let problem = "it is not the receipt of a transcript".to_owned();
            Error::InvalidReceipt { problem }
        })
    }

    fn check_previous(&self, previous: Option<&Transcript<'_>>) -> Result<(), Error> {
        if self.previous == previous.map(Transcript::digest) {
            return Ok(());
        }
        let problem = match self.previous {
            Some(_) => "it was made with another previous request; give that one",
            None => "it was made without a previous request; omit it",
        };
        Err(Error::InvalidReceipt { problem: problem.to_owned() })
    }
}

impl Provider {
    /// Returns the provider of the transcript of a receipt.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidReceipt`] if the receipt has another source.
    pub fn from_receipt(receipt: &Receipt) -> Result<Self, Error> {
        Ok(SourceOptions::from_receipt(receipt)?.provider)
    }
}

impl Transcript<'_> {
    /// Pins the messages that were pinned in a receipt.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidReceipt`] if the receipt has another source, and the errors of [`Transcript::pin`].
    pub fn pin_as_in(&mut self, receipt: &Receipt) -> Result<(), ChatError> {
        let pins = SourceOptions::from_receipt(receipt)?.pins;
        pins.into_iter().try_for_each(|index| self.pin(index))
    }

    fn receipt_source(&self, options: SourceOptions, query: Option<&str>) -> ReceiptSource {
        let options = serde_json::to_value(options).ok();
        ReceiptSource {
            kind: KIND.to_owned(),
            version: self.digest().to_string(),
            query: query.map(str::to_owned),
            options: options.and_then(|options| serde_json::from_value(options).ok()),
        }
    }

    /// Returns the hash of the contents of all items.
    fn digest(&self) -> Digest {
        let contents: Vec<&str> = self.items().iter().map(|item| item.content()).collect();
        // Strings always serialize.
        Digest::of(serde_json::to_string(&contents).unwrap_or_default().as_bytes())
    }
}

impl Trimmer<'_, '_> {
    /// Returns a receipt, from which the trimmed transcript can be replayed and compared. `previous` is the transcript whose
    /// prefix the trimmer keeps, if there is one.
    pub fn receipt(
        &self,
        trimmed: &TrimmedTranscript<'_, '_>,
        previous: Option<&Transcript<'_>>,
        tokenizer: &str,
    ) -> Receipt {
        let (policy, now) = self.policy();
        let mut config = RunConfig::new(policy.clone());
        config.reference_time = now;
        config.tokenizer = tokenizer.to_owned();
        let provider = self.transcript().provider;
        let (pins, previous) = (self.transcript().pins.clone(), previous.map(Transcript::digest));
        let (is_session, cache_control) = (false, false);
        let options = SourceOptions { provider, pins, previous, is_session, cache_control };
        config.source = Some(self.transcript().receipt_source(options, None));
        Receipt::for_text(trimmed.selection(), config, &trimmed.json())
    }

    /// Trims the transcript as in a receipt, and compares the two. The trimmer has the policy, the time and the previous
    /// transcript of the receipt.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidReceipt`] if the receipt has another source or another previous transcript, and any error of the run.
    pub fn replay(
        &self,
        receipt: &Receipt,
        previous: Option<&Transcript<'_>>,
    ) -> Result<Replay, Error> {
        SourceOptions::from_receipt(receipt)?.check_previous(previous)?;
        let transcript = self.transcript();
        receipt.replay_for_text(transcript.items(), self.pipeline(), |selection| {
            transcript.json(selection)
        })
    }
}

/// What decides how a request of a session is fitted, for its receipt.
#[derive(Clone, Copy, Debug)]
pub struct FitConfig<'r> {
    /// The policy, which has the options of the session.
    pub policy: &'r Policy,
    /// The query, if there is one.
    pub query: Option<&'r str>,
    /// The budget.
    pub budget: &'r ContextBudget,
    /// Whether cache breakpoints are moved, as [`Fitted::json_with_cache_control`] does.
    pub cache_control: bool,
}

impl Fitted<'_, '_> {
    /// Returns a receipt, from which the request can be fitted again and compared.
    pub fn receipt(&self, config: FitConfig<'_>, tokenizer: &str) -> Receipt {
        let transcript = self.transcript();
        let FitConfig { policy, query, budget, cache_control } = config;
        let mut run = RunConfig::new(policy.clone());
        run.tokenizer = tokenizer.to_owned();
        let (provider, pins) = (transcript.provider, transcript.pins.clone());
        let (previous, is_session) = (None, true);
        let options = SourceOptions { provider, pins, previous, is_session, cache_control };
        run.source = Some(transcript.receipt_source(options, query));
        let (selected, text) = self.recorded(cache_control);
        let source = SourceRun { selected: &selected, text: &text, report: self.cuts() };
        Receipt::of_source(transcript.items(), budget, run, &source)
    }

    /// Returns the items that are sent, and the text.
    fn recorded(&self, cache_control: bool) -> (Vec<usize>, String) {
        let text = if cache_control { self.json_with_cache_control() } else { self.json() };
        (self.sent_items(), text)
    }
}

impl Transcript<'_> {
    /// Fits the request as in a receipt of a session, and compares the two. Returns `None` if the receipt is of a single
    /// request, which a [`Trimmer`] replays.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidReceipt`] if the receipt has another source or another previous transcript, and the errors of
    /// [`ChatSession::fit`].
    pub fn replay_session(
        &self,
        receipt: &Receipt,
        previous: Option<&Transcript<'_>>,
        counter: &dyn TokenCounter,
    ) -> Result<Option<Replay>, ChatError> {
        let options = SourceOptions::from_receipt(receipt)?;
        options.check_previous(previous)?;
        let session = receipt.policy().session().filter(|_| options.is_session);
        let Some(session) = session else { return Ok(None) };
        let query = receipt.source.query.as_deref().unwrap_or_default();
        let session = ChatSession::new(session.clone(), counter).with_query(query);
        let fitted = session.fit(self, &receipt.budget)?;
        let (selected, text) = fitted.recorded(options.cache_control);
        let run = SourceRun { selected: &selected, text: &text, report: fitted.cuts() };
        Ok(Some(receipt.replay_of_source(self.items(), &run)))
    }
}
