//! Receipts of trimmed transcripts, and their replay.

use pannier_core::Error;
use pannier_policy::{Digest, Receipt, ReceiptSource, Replay, RunConfig};
use serde::{Deserialize, Serialize};

use crate::{ChatError, Provider, Transcript, TrimmedTranscript, Trimmer};

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
        let options = SourceOptions { provider, pins, previous };
        let options = serde_json::to_value(options).ok();
        config.source = Some(ReceiptSource {
            kind: KIND.to_owned(),
            version: self.transcript().digest().to_string(),
            query: None,
            options: options.and_then(|options| serde_json::from_value(options).ok()),
        });
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
        let recorded = SourceOptions::from_receipt(receipt)?.previous;
        if recorded != previous.map(Transcript::digest) {
            let problem = match recorded {
                Some(_) => "it was made with another previous request; give that one",
                None => "it was made without a previous request; omit it",
            };
            return Err(Error::InvalidReceipt { problem: problem.to_owned() });
        }
        let transcript = self.transcript();
        receipt.replay_for_text(transcript.items(), self.pipeline(), |selection| {
            transcript.json(selection)
        })
    }
}
