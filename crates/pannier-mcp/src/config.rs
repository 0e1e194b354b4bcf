//! What a server serves, and its limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pannier::ops::Control;
use pannier::{Defaults, Failure, NamedFolder, NamedSettings, Shelf};
use pannier_docs::Embedder;
use pannier_memory::UserFolder;

use crate::CallTelemetry;

/// The name of a default tokenizer from a file.
const DEFAULT_TOKENIZER: &str = "default";

/// The folders of a server, and its limits.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Document caches.
    pub caches: Vec<NamedFolder>,
    /// Roots of snippets.
    pub docs: Vec<NamedFolder>,
    /// Projects with a `.context` folder, or these folders.
    pub contexts: Vec<NamedFolder>,
    /// The user's own folder, which every packet has; by default none.
    pub user_memory: Option<UserFolder>,
    /// The folder that records which snippets each session received.
    pub state: Option<PathBuf>,
    /// The folder of cut blocks. If it is set, `recall` is the only tool.
    pub recall: Option<PathBuf>,
    /// The user's home, which `@~/` in snippets means.
    pub home: Option<PathBuf>,
    /// The model that embeds queries.
    pub embedder: Option<Box<dyn Embedder>>,
    /// The budget of a packet, in tokens, if neither the call nor the project has one.
    pub packet_budget: Option<usize>,
    /// The settings that calls leave open, such as the tokenizer.
    pub defaults: Defaults,
    /// Policies, templates, tokenizers and models that calls may name.
    pub named: NamedSettings,
    /// Whether the names `context.*` of the specification are listed, too.
    pub spec_names: bool,
    /// What observes calls over standard streams; default: nothing.
    pub telemetry: Option<Arc<dyn CallTelemetry>>,
    /// The limits of a call.
    pub limits: Limits,
}

impl ServerConfig {
    /// Observes calls over standard streams.
    #[must_use]
    pub fn with_telemetry(self, telemetry: Option<Arc<dyn CallTelemetry>>) -> Self {
        Self { telemetry, ..self }
    }

    /// Opens all folders.
    pub(crate) fn open(mut self) -> Result<(Shelf, Limits), Failure> {
        if let Some(tokenizer) = &mut self.defaults.tokenizer
            && tokenizer.trim_start().to_ascii_lowercase().starts_with("file:")
        {
            // It is read once, and answers name it without its path.
            self.named.add_tokenizer(DEFAULT_TOKENIZER, tokenizer)?;
            DEFAULT_TOKENIZER.clone_into(tokenizer);
        }
        let shelf = Shelf::default()
            .with_named(self.named)
            .with_defaults(self.defaults)
            .with_documents(&self.caches)?
            .with_snippets(&self.docs, self.home)?
            .with_memories(&self.contexts)?
            .with_user_memory(self.user_memory)
            .with_state_folder(self.state)
            .with_recall_folder(self.recall)
            .with_embedder(self.embedder)
            .with_packet_budget(self.packet_budget);
        if let Some(tokenizer) = &shelf.defaults().tokenizer {
            // An unknown one fails at once, not at each call.
            shelf.counter(None, tokenizer, &Control::default())?;
        }
        Ok((shelf, self.limits))
    }
}

/// The limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest time from a request to its answer, waiting included; default 60 seconds.
    pub time: Duration,
    /// The number of calls that run at once; default 16.
    pub calls: usize,
    /// The largest request, in bytes; default 4 MiB.
    pub input: usize,
    /// The largest text of an answer, in bytes; default 8 MiB.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), calls: 16, input: 4 << 20, output: 8 << 20 }
    }
}
