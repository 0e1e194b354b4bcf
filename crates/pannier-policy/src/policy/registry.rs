//! Policies and custom scorers by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Policy;
use super::build::Surroundings;
use super::presets::presets;
use pannier_core::{Error, Pipeline, PreviousPrompt, Scorer, Timestamp};

/// What a policy leaves to the moment at which it is used.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Moment {
    /// What time it is, for decay scorers that do not say.
    pub now: Option<Timestamp>,
    /// What was sent before, for parts that keep to it.
    pub previous: PreviousPrompt,
}

impl From<Option<Timestamp>> for Moment {
    fn from(now: Option<Timestamp>) -> Self {
        Self { now, previous: PreviousPrompt::default() }
    }
}

impl From<PreviousPrompt> for Moment {
    fn from(previous: PreviousPrompt) -> Self {
        Self { now: None, previous }
    }
}

/// Finds policies and scorers by name, without regard to ASCII case.
///
/// ```
/// use pannier_core::{ContextItem, FnScorer};
/// use pannier_policy::{Policy, PolicyRegistry, ScorerPolicy};
///
/// let mut registry = PolicyRegistry::default();
/// registry.add_scorer("brevity", FnScorer(|item: &ContextItem| 1.0 / (1.0 + item.tokens() as f64)))?;
/// let brevity = ScorerPolicy::Custom { name: "brevity".to_owned() };
/// registry.add("short-first", Policy::new([(brevity, 1.0)]))?;
///
/// let pipeline = registry.pipeline(registry.policy("Short-First")?, None)?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone)]
pub struct PolicyRegistry {
    policies: BTreeMap<String, Policy>,
    scorers: BTreeMap<String, Arc<dyn Scorer>>,
}

impl Default for PolicyRegistry {
    /// A registry with the presets: `assemble`, `chat`, `code-review`, `debugging`, `document-qa`,
    /// `long-running`, `rag`, `tool-use` and `transcript`.
    fn default() -> Self {
        let named = |policy: Policy| (policy.name.clone().unwrap_or_default(), policy);
        Self { policies: presets().map(named).into(), scorers: BTreeMap::new() }
    }
}

impl PolicyRegistry {
    /// A registry with nothing in it.
    pub fn empty() -> Self {
        Self { policies: BTreeMap::new(), scorers: BTreeMap::new() }
    }

    /// Adds a policy.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] if there is one of that name.
    pub fn add(&mut self, name: &str, policy: Policy) -> Result<(), Error> {
        add(&mut self.policies, "policy", name, policy)
    }

    /// Adds a scorer that policies can name.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] if there is one of that name.
    pub fn add_scorer(&mut self, name: &str, scorer: impl Scorer + 'static) -> Result<(), Error> {
        add(&mut self.scorers, "scorer", name, Arc::new(scorer))
    }

    /// The policy of this name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownName`] with the names there are.
    pub fn policy(&self, name: &str) -> Result<&Policy, Error> {
        find(&self.policies, "policy", name)
    }

    /// All policies with their names, in order of the names.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.policies.iter().map(|(name, policy)| (name.as_str(), policy))
    }

    /// The pipeline that a policy describes, at a moment. An optional time is a moment before which nothing was
    /// sent.
    ///
    /// # Errors
    ///
    /// Whatever keeps a part from being built.
    pub fn pipeline(&self, policy: &Policy, moment: impl Into<Moment>) -> Result<Pipeline, Error> {
        let Moment { now, previous } = moment.into();
        let custom = |name: &str| -> Result<Box<dyn Scorer>, Error> {
            Ok(Box::new(Arc::clone(find(&self.scorers, "scorer", name)?)))
        };
        policy.build(&Surroundings { now, previous: Some(&previous), custom: &custom })
    }
}

fn add<T>(
    entries: &mut BTreeMap<String, T>,
    what: &'static str,
    name: &str,
    entry: T,
) -> Result<(), Error> {
    let key = name.to_ascii_lowercase();
    if entries.contains_key(&key) {
        return Err(Error::NameTaken { what, name: name.to_owned() });
    }
    entries.insert(key, entry);
    Ok(())
}

fn find<'e, T>(
    entries: &'e BTreeMap<String, T>,
    what: &'static str,
    name: &str,
) -> Result<&'e T, Error> {
    entries.get(&name.to_ascii_lowercase()).ok_or_else(|| Error::UnknownName {
        what,
        name: name.to_owned(),
        known: entries.keys().cloned().collect::<Vec<_>>().join(", "),
    })
}

impl std::fmt::Debug for PolicyRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyRegistry")
            .field("policies", &self.policies.keys())
            .field("scorers", &self.scorers.keys())
            .finish()
    }
}
