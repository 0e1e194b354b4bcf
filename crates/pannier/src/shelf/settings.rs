//! Settings that requests leave open, and the files that they name.
//!
//! A request names a tokenizer, a policy or a template. On a local shelf, a name may be a path, because the user who wrote
//! the request can read the file anyway. A server's shelf reads no file for a request.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_layout::Template;
use pannier_policy::{Policy, PolicyRegistry};
use serde::de::DeserializeOwned;

use super::{NamedSettings, Shelf};
use crate::Failure;
use crate::ops::{Control, PolicyName, Tokens};

/// The maximum size of a policy or template.
const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// Settings for options that a request leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// The token budget.
    pub budget: Option<Tokens>,
    /// The name of the tokenizer.
    pub tokenizer: Option<String>,
    /// The name of the policy.
    pub policy: Option<String>,
    /// The folder of the document index.
    pub index: Option<PathBuf>,
}

impl Shelf {
    /// A shelf for the user's own requests: names may be paths.
    pub fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Returns the reader of messages about requests.
    #[cfg(feature = "snippets")]
    pub(crate) fn audience(&self) -> crate::Audience {
        if self.is_local { crate::Audience::Command } else { crate::Audience::Agent }
    }

    /// Returns whether names in requests may be paths.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Sets the settings for options that a request leaves open.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Defaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the policies and custom components that requests may name.
    #[must_use]
    pub fn with_registry(mut self, registry: PolicyRegistry) -> Self {
        self.registry = registry;
        self
    }

    /// Sets the policies, templates, tokenizers and models that requests may name.
    #[must_use]
    pub fn with_named(mut self, mut named: NamedSettings) -> Self {
        self.registry = std::mem::take(&mut named.registry);
        self.named = named;
        self
    }

    /// Returns the policies, templates, tokenizers and models that requests may name.
    #[cfg(feature = "docs")]
    pub(crate) fn named(&self) -> &NamedSettings {
        &self.named
    }

    /// Returns the settings for options that a request leaves open.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Returns the policies and custom components that requests may name.
    pub fn registry(&self) -> &PolicyRegistry {
        &self.registry
    }

    /// Returns the requested counter, that of the shelf, or else the operation's default.
    ///
    /// # Errors
    ///
    /// An error of `pannier-tokens` if there is no such counter, or the shelf reads no files.
    pub fn counter(
        &self,
        requested: Option<&str>,
        default: &str,
        control: &Control<'_>,
    ) -> Result<Arc<dyn TokenCounter>, Failure> {
        let (name, is_trusted) = match requested {
            Some(name) => (name, self.is_local),
            None => {
                let name = self.defaults.tokenizer.as_deref().unwrap_or(default);
                control.decide("tokenizer", name);
                (name, true)
            }
        };
        if let Some(counter) = self.named.tokenizer(name) {
            return Ok(Arc::clone(counter));
        }
        let is_file =
            name.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
        if is_file && !is_trusted {
            let name = name.chars().take(super::named_folder::MAX_SHOWN_CHARS).collect();
            let problem =
                "a request reads no tokenizer from files; name an encoding or a model".to_owned();
            return Err(Failure::File { name, problem });
        }
        Ok(Arc::from(match is_trusted {
            true => pannier_tokens::counter_by_name(name)?,
            false => pannier_tokens::builtin_counter(name)?,
        }))
    }

    /// Returns the requested policy, that of the shelf, or else the operation's default.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such policy, or [`Failure::File`] for a file that is not one.
    pub fn policy(
        &self,
        requested: Option<&PolicyName>,
        default: &str,
        control: &Control<'_>,
    ) -> Result<Policy, Failure> {
        let (name, is_trusted) = match requested {
            Some(PolicyName::Inline(policy)) => return Ok((**policy).clone()),
            Some(PolicyName::Name(name)) => (name.as_str(), self.is_local),
            None => {
                let name = self.defaults.policy.as_deref().unwrap_or(default);
                control.decide("policy", name);
                (name, true)
            }
        };
        let unknown = match self.registry.policy(name) {
            Ok(policy) => return Ok(policy.clone()),
            Err(error) => error,
        };
        // A name without a path is a misspelled preset, unless there is such a file.
        match is_trusted && (name.contains(['/', '\\', '.']) || Path::new(name).exists()) {
            true => read_settings(name),
            false => Err(unknown.into()),
        }
    }

    /// Returns a template: on a local shelf that of a file, otherwise the one of this name.
    ///
    /// # Errors
    ///
    /// [`Failure::File`] or [`Failure::Read`]; [`Failure::Request`] if there is no such name.
    pub fn template(&self, name: &str) -> Result<Template, Failure> {
        match self.is_local {
            true => read_settings(name),
            false => self.named.template(name).cloned(),
        }
    }
}

/// Reads a settings file: JSON if the extension is `.json`, otherwise TOML.
pub(super) fn read_settings<T: DeserializeOwned>(name: &str) -> Result<T, Failure> {
    let path = Path::new(name);
    let invalid = |problem: String| Failure::File { name: name.to_owned(), problem };
    let read = |error| Failure::Read { name: name.to_owned(), error };
    let file = File::open(path).map_err(read)?;
    let bytes = pannier_files::read_file_bounded(&file, MAX_SETTINGS_BYTES).map_err(read)?;
    let bytes = bytes.ok_or_else(|| invalid(format!("it exceeds {MAX_SETTINGS_BYTES} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        invalid(format!("it is not UTF-8 at byte {offset}; save it as UTF-8"))
    })?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let settings = match is_json {
        true => serde_json::from_str(&text).map_err(|error| error.to_string()),
        false => toml::from_str(&text).map_err(|error| error.to_string()),
    };
    settings.map_err(|problem| invalid(problem.trim_end().to_owned()))
}
