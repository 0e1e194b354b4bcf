//! Policies and custom components by name.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use pannier_core::item::{Metadata, PreviousPrompt};
use pannier_core::{Error, Layout, Pipeline, Placer, Scorer, Slicer, Timestamp};
use serde::de::DeserializeOwned;

use crate::component::{BuildContext, Component, records};
use crate::tree::{self, ReadError};
use crate::{LayoutPolicy, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};

/// Values that a policy leaves to the run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicyInputs {
    /// The current time, for decay scorers without a reference time.
    pub now: Option<Timestamp>,
    /// The previous prompt, for components that preserve its prefix.
    pub previous: PreviousPrompt,
}

impl From<Option<Timestamp>> for PolicyInputs {
    fn from(now: Option<Timestamp>) -> Self {
        Self { now, previous: PreviousPrompt::default() }
    }
}

impl From<PreviousPrompt> for PolicyInputs {
    fn from(previous: PreviousPrompt) -> Self {
        Self { now: None, previous }
    }
}

records! {
    /// The name of a custom component, and its options.
    pub struct CustomOptions {
        /// The name under which it was added to a [`PolicyRegistry`].
        pub name: String,
        /// Options for its factory.
        #[serde(default, skip_serializing_if = "Metadata::is_empty")]
        #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, serde_json::Value>"))]
        pub options: Metadata,
    }
}

impl CustomOptions {
    /// A component without options.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: Metadata::new() }
    }

    /// Reads the options as a struct.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] with the path to a mistake, from `options` on.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        tree::read(self.options.clone().into())
            .map_err(|error: ReadError| error.at("options").into())
    }
}

/// The presets. By score, groups are kept together; by time, a call precedes its result anyway. `transcript` squares
/// recency, which then falls faster than the bonus for the prefix: items in the middle are dropped first, and new items
/// score above old ones.
static PRESETS: LazyLock<Vec<Policy>> =
    // A test reads them all.
    LazyLock::new(|| serde_json::from_str(include_str!("presets.json")).unwrap_or_default());

/// Builds a custom component from its options.
type Factory<T> = dyn Fn(&CustomOptions) -> Result<Box<T>, Error> + Send + Sync;

/// Finds policies and custom components by name, without regard to ASCII case.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::FnScorer;
/// use pannier_policy::{Policy, PolicyRegistry};
///
/// #[derive(serde::Deserialize)]
/// struct Brevity {
///     half: f64,
/// }
///
/// let mut registry = PolicyRegistry::default();
/// registry.add_scorer_factory("brevity", |options| {
///     let Brevity { half } = options.read()?;
///     Ok(Box::new(FnScorer(move |item: &ContextItem| half / (half + item.tokens() as f64))))
/// })?;
/// let policy: Policy = serde_json::from_str(
///     r#"{ "scorers": [{ "type": "custom", "name": "brevity", "options": { "half": 50 } }] }"#,
/// )?;
/// let pipeline = registry.pipeline(&policy, None)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PolicyRegistry {
    policies: BTreeMap<String, Policy>,
    scorers: BTreeMap<String, Arc<Factory<dyn Scorer>>>,
    slicers: BTreeMap<String, Arc<Factory<dyn Slicer>>>,
    placers: BTreeMap<String, Arc<Factory<dyn Placer>>>,
    layouts: BTreeMap<String, Arc<Factory<dyn Layout>>>,
}

impl Default for PolicyRegistry {
    /// A registry with the presets: `assemble`, `chat`, `code-review`, `debugging`, `document-qa`, `long-running`,
    /// `memory`, `packet-seed`, `rag`, `tool-use` and `transcript`, and for chat sessions `careful`, `balanced` and `thrifty`.
    fn default() -> Self {
        let named =
            |policy: &Policy| (policy.name().unwrap_or_default().to_owned(), policy.clone());
        Self { policies: PRESETS.iter().map(named).collect(), ..Self::empty() }
    }
}

impl PolicyRegistry {
    /// A registry without policies and components.
    pub fn empty() -> Self {
        Self {
            policies: BTreeMap::new(),
            scorers: BTreeMap::new(),
            slicers: BTreeMap::new(),
            placers: BTreeMap::new(),
            layouts: BTreeMap::new(),
        }
    }

    /// Adds a policy.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateName`] if there is one of that name.
    pub fn add(&mut self, name: &str, policy: Policy) -> Result<(), Error> {
        add(&mut self.policies, "policy", name, policy)
    }

    /// Finds a policy.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownName`] with the names there are.
    pub fn policy(&self, name: &str) -> Result<&Policy, Error> {
        find(&self.policies, "policy", name)
    }

    /// Returns all policies, in order of their names.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.policies.iter().map(|(name, policy)| (name.as_str(), policy))
    }

    /// Builds the pipeline of a policy. A time alone may be given for the inputs.
    ///
    /// # Errors
    ///
    /// Any error of a component.
    pub fn pipeline(
        &self,
        policy: &Policy,
        inputs: impl Into<PolicyInputs>,
    ) -> Result<Pipeline, Error> {
        let PolicyInputs { now, previous } = inputs.into();
        policy.build(&BuildContext { now, previous: Some(&previous), registry: Some(self) })
    }
}

/// The methods for one kind of custom component.
macro_rules! custom_components {
    ($($noun:literal: $trait:ident, $field:ident, $add:ident, $add_factory:ident, $custom:ident, $build:ident, $policy:ident;)+) => {$(
        impl PolicyRegistry {
            #[doc = concat!("Adds a custom ", $noun, ", without options.")]
            ///
            /// # Errors
            ///
            /// [`Error::DuplicateName`] if there is one of that name.
            pub fn $add(&mut self, name: &str, $field: impl $trait + 'static) -> Result<(), Error> {
                let component: Arc<dyn $trait> = Arc::new($field);
                self.$add_factory(name, move |options| match options.options.is_empty() {
                    true => Ok(Box::new(Arc::clone(&component))),
                    false => Err(ReadError::new("options", "it takes no options; remove them").into()),
                })
            }

            #[doc = concat!("Adds a custom ", $noun, ", built from the options of the policy.")]
            ///
            /// # Errors
            ///
            /// [`Error::DuplicateName`] if there is one of that name.
            pub fn $add_factory(
                &mut self,
                name: &str,
                factory: impl Fn(&CustomOptions) -> Result<Box<dyn $trait>, Error> + Send + Sync + 'static,
            ) -> Result<(), Error> {
                add(&mut self.$field, $noun, name, Arc::new(factory))
            }

            #[doc = concat!("Builds a ", $noun, " of a policy by itself.")]
            ///
            /// # Errors
            ///
            /// Any error of the component.
            pub fn $build(&self, policy: &$policy, inputs: impl Into<PolicyInputs>) -> Result<Box<dyn $trait>, Error> {
                let PolicyInputs { now, previous } = inputs.into();
                policy.build(&BuildContext { now, previous: Some(&previous), registry: Some(self) })
            }

            pub(crate) fn $custom(&self, options: &CustomOptions) -> Result<Box<dyn $trait>, Error> {
                find(&self.$field, $noun, &options.name)?(options)
            }
        }
    )+};
}

custom_components! {
    "scorer": Scorer, scorers, add_scorer, add_scorer_factory, custom_scorer, scorer, ScorerPolicy;
    "slicer": Slicer, slicers, add_slicer, add_slicer_factory, custom_slicer, slicer, SlicerPolicy;
    "placer": Placer, placers, add_placer, add_placer_factory, custom_placer, placer, PlacerPolicy;
    "layout": Layout, layouts, add_layout, add_layout_factory, custom_layout, layout, LayoutPolicy;
}

fn add<T>(
    entries: &mut BTreeMap<String, T>,
    what: &'static str,
    name: &str,
    entry: T,
) -> Result<(), Error> {
    let key = name.to_ascii_lowercase();
    if entries.contains_key(&key) {
        return Err(Error::DuplicateName { what, name: name.to_owned() });
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
        let names = self.policies.keys();
        f.debug_struct("PolicyRegistry").field("policies", &names).finish_non_exhaustive()
    }
}
