//! Digests of messages, by which a program recognizes a history that it has seen.

use crate::Transcript;
use crate::message::PartKind;

impl Transcript<'_> {
    /// Returns the BLAKE3 digest of each message: its role, and the kinds, names and contents of its parts. Agents move cache
    /// breakpoints and write a single text as a string or as a list, so neither changes a digest.
    pub fn message_digests(&self) -> Vec<[u8; 32]> {
        let digest = |message: &crate::message::Message<'_>| {
            let mut hasher = blake3::Hasher::new();
            let mut add = |text: &str| {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            };
            for text in [message.role.name(), message.name.as_str()] {
                add(text);
            }
            message.extras.iter().for_each(|extra| add(extra));
            for part in &message.parts {
                let (kind, id) = match &part.kind {
                    PartKind::Text => ("text", ""),
                    PartKind::ToolCall { id } => ("call", id.as_str()),
                    PartKind::ToolResult { id } => ("result", id.as_str()),
                    _ => ("other", part.raw.get()),
                };
                for text in [kind, id, part.tool.as_str(), &part.recalled()] {
                    add(text);
                }
            }
            hasher.finalize().into()
        };
        self.messages.iter().map(digest).collect()
    }
}
