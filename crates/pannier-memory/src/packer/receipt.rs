//! Receipts of packets.

use pannier_core::Selection;
use pannier_policy::{Receipt, ReceiptSource, Replay, RunConfig};

use super::PacketBuilder;
use crate::{MemoryError, PacketOptions};

/// The source kind in receipts of packets.
const KIND: &str = "memory";

impl PacketBuilder<'_> {
    /// Returns a receipt, from which the packet can be replayed and compared.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn receipt(&self) -> Result<Receipt, MemoryError> {
        let packet = self.select(self.effective_budget())?;
        let mut config = RunConfig::new(packet.policy.clone());
        config.tokenizer = self.counter.name().to_owned();
        let options = serde_json::to_value(&self.options).ok();
        config.source = Some(ReceiptSource {
            kind: KIND.to_owned(),
            version: self.memory.version().to_owned(),
            query: self.options.query.clone(),
            options: options.and_then(|options| serde_json::from_value(options).ok()),
        });
        Ok(Receipt::for_text(&packet.selection, config, &packet.text().0))
    }

    /// Returns the options recorded in the receipt of a packet.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoPacket`] if the receipt has another source.
    pub fn options_from_receipt(receipt: &Receipt) -> Result<PacketOptions, MemoryError> {
        let options = receipt.source.options.as_ref().filter(|_| receipt.source.kind == KIND);
        let options = options.and_then(|options| serde_json::to_value(options).ok());
        options
            .and_then(|options| serde_json::from_value(options).ok())
            .ok_or(MemoryError::NoPacket)
    }

    /// Replays the packet of a receipt and compares the two.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn replay(&self, receipt: &Receipt) -> Result<Replay, MemoryError> {
        if receipt.format < 2 {
            let problem = "packets of format 1 were selected by other rules, and cannot be replayed; write a new \
                           receipt"
                .to_owned();
            return Err(pannier_core::Error::InvalidReceipt { problem }.into());
        }
        let packet = self.select(self.effective_budget())?;
        let write = |selection: &Selection<'_>| packet.layout.text(&selection.placed()).0;
        Ok(receipt.replay_for_text(&self.pool, &packet.pipeline, write)?)
    }
}
