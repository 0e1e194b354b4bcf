//! Policies, templates, tokenizers and models that requests name as the server does.
//!
//! A server opens them once, when it starts. So a request cannot choose a file, a variable or a server, and a mistake in a file
//! is reported before the first request.

use std::collections::BTreeMap;
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_core::item::Exactness;
#[cfg(feature = "docs")]
use pannier_docs::{Embedder, Reranker};
use pannier_layout::Template;
use pannier_policy::PolicyRegistry;

use super::settings::read_settings;
use crate::Failure;

/// Policies, templates, tokenizers and models by name.
#[derive(Debug, Default)]
pub struct NamedSettings {
    pub(super) registry: PolicyRegistry,
    templates: BTreeMap<String, Template>,
    tokenizers: BTreeMap<String, Arc<dyn TokenCounter>>,
    #[cfg(feature = "docs")]
    embedders: BTreeMap<String, Arc<dyn Embedder>>,
    #[cfg(feature = "docs")]
    rerankers: BTreeMap<String, Arc<dyn Reranker>>,
}

impl NamedSettings {
    /// Adds the policy of a file to the presets.
    ///
    /// # Errors
    ///
    /// [`Failure::File`] or [`Failure::Read`], or an error of the engine if a preset has the name.
    pub fn add_policy(&mut self, name: &str, path: &str) -> Result<(), Failure> {
        Ok(self.registry.add(name, read_settings(path)?)?)
    }

    /// Adds the template of a file.
    ///
    /// # Errors
    ///
    /// [`Failure::File`] or [`Failure::Read`].
    pub fn add_template(&mut self, name: &str, path: &str) -> Result<(), Failure> {
        self.templates.insert(name.to_owned(), read_settings(path)?);
        Ok(())
    }

    /// Adds a tokenizer: a model, an encoding or `file:PATH`.
    ///
    /// # Errors
    ///
    /// An error of `pannier-tokens` if there is no such tokenizer.
    pub fn add_tokenizer(&mut self, name: &str, tokenizer: &str) -> Result<(), Failure> {
        let counter = pannier_tokens::counter_by_name(tokenizer)?;
        let counter = NamedCounter { name: name.to_owned(), counter };
        self.tokenizers.insert(name.to_owned(), Arc::new(counter));
        Ok(())
    }

    /// Adds an embedding model. `key_env` names the environment variable with the key of a server.
    ///
    /// # Errors
    ///
    /// An error of the model or the server.
    #[cfg(feature = "docs")]
    pub fn add_embedder(
        &mut self,
        name: &str,
        model: &str,
        key_env: Option<&str>,
    ) -> Result<(), Failure> {
        if let Some(embedder) = crate::ops::open_embedder(model, key_env, None)? {
            self.embedders.insert(name.to_owned(), Arc::from(embedder));
        }
        Ok(())
    }

    /// Adds a reranker. `key_env` names the environment variable with the key of a server.
    ///
    /// # Errors
    ///
    /// An error of the address or the key.
    #[cfg(feature = "docs")]
    pub fn add_reranker(
        &mut self,
        name: &str,
        model: &str,
        key_env: Option<&str>,
    ) -> Result<(), Failure> {
        if let Some(reranker) = crate::ops::open_reranker(model, key_env)? {
            self.rerankers.insert(name.to_owned(), Arc::from(reranker));
        }
        Ok(())
    }

    pub(super) fn tokenizer(&self, name: &str) -> Option<&Arc<dyn TokenCounter>> {
        self.tokenizers.get(name)
    }

    pub(super) fn template(&self, name: &str) -> Result<&Template, Failure> {
        find(&self.templates, "template", name)
    }

    #[cfg(feature = "docs")]
    pub(crate) fn embedder(&self, name: &str) -> Result<&Arc<dyn Embedder>, Failure> {
        find(&self.embedders, "embedder", name)
    }

    #[cfg(feature = "docs")]
    pub(crate) fn reranker(&self, name: &str) -> Result<&Arc<dyn Reranker>, Failure> {
        find(&self.rerankers, "reranker", name)
    }
}

fn find<'s, T>(
    entries: &'s BTreeMap<String, T>,
    option: &'static str,
    name: &str,
) -> Result<&'s T, Failure> {
    entries.get(name).ok_or_else(|| {
        let names = entries.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let name: String = name.chars().take(super::named_folder::MAX_SHOWN_CHARS).collect();
        let problem = match names.is_empty() {
            true => format!("there is no {option} that requests may name; omit it"),
            false => format!("there is no {option} '{name}'; name one of {names}"),
        };
        Failure::Request { path: option.to_owned(), problem }
    })
}

/// A counter under the name that requests know. Its own name may be a path.
struct NamedCounter {
    name: String,
    counter: Box<dyn TokenCounter>,
}

impl TokenCounter for NamedCounter {
    fn name(&self) -> &str {
        &self.name
    }

    fn exactness(&self) -> Exactness {
        self.counter.exactness()
    }

    fn count(&self, text: &str) -> usize {
        self.counter.count(text)
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        self.counter.count_up_to(text, limit)
    }

    fn max_count(&self, bytes: usize) -> Option<usize> {
        self.counter.max_count(bytes)
    }

    fn count_each(&self, texts: &[&str]) -> Vec<usize> {
        self.counter.count_each(texts)
    }

    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        self.counter.truncate(text, limit)
    }
}
