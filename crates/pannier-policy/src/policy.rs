//! A pipeline as data.

use pannier_core::{
    Deduplication, Error, Metadata, MetadataValue, OverflowStrategy, Pipeline, Scorer,
};
use pannier_layout::DocumentLayout;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::component::{
    BuildContext, Component, VALIDATION_CONTEXT, is_default, nest, records, to_metadata,
};
use crate::scorer::average;
use crate::tree::{self, ReadError};
use crate::{
    Bm25Options, PlacerPolicy, PolicyRegistry, ScorerPolicy, SlicerPolicy, WeightedScorer,
};

/// The components of a pipeline and their options, without a budget.
///
/// ```
/// use pannier_policy::{KnapsackOptions, Policy, ScorerPolicy};
///
/// let policy = Policy::new([(ScorerPolicy::Recency, 3.0), (ScorerPolicy::Priority, 1.0)])
///     .with_slicer(KnapsackOptions::EXACT);
/// let pipeline = policy.pipeline()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy(Fields);

records! {
    /// A policy as it is written, except that a slicer's options stand in a table of their own, and near-duplicates under
    /// `deduplication`.
    pub(crate) struct Fields {
        /// A name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) name: Option<String>,
        /// A description for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) description: Option<String>,
        /// The scorers. One is used as it is, several are averaged by weight.
        #[serde(default)]
        pub(crate) scorers: Vec<WeightedScorer>,
        /// The slicer; default: greedy. Its options stand beside it.
        #[serde(default)]
        pub(crate) slicer: SlicerPolicy,
        /// The placer; default: chronological.
        #[serde(default)]
        pub(crate) placer: PlacerPolicy,
        /// Whether duplicates are dropped; default: true.
        #[serde(default = "exact", with = "deduplication", skip_serializing_if = "is_exact")]
        #[cfg_attr(feature = "schema", schemars(with = "bool"))]
        pub(crate) deduplication: Deduplication,
        /// What happens to a selection above its target; default: throw.
        #[serde(default, skip_serializing_if = "is_default")]
        #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["throw", "truncate", "proceed"])))]
        pub(crate) overflow_strategy: OverflowStrategy,
        /// Whether members of a group are placed together; default: false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub(crate) keep_groups_together: bool,
    }
}

impl Policy {
    /// A policy of these scorers and the defaults of [`Pipeline::builder`].
    pub fn new(scorers: impl IntoIterator<Item = impl Into<WeightedScorer>>) -> Self {
        Self(Fields {
            name: None,
            description: None,
            scorers: scorers.into_iter().map(Into::into).collect(),
            slicer: SlicerPolicy::default(),
            placer: PlacerPolicy::default(),
            deduplication: Deduplication::Exact,
            overflow_strategy: OverflowStrategy::default(),
            keep_groups_together: false,
        })
    }

    /// Returns the name for people.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns the description for people.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Returns the scorers and their weights.
    pub fn scorers(&self) -> &[WeightedScorer] {
        &self.0.scorers
    }

    /// Returns the slicer.
    pub fn slicer(&self) -> &SlicerPolicy {
        &self.0.slicer
    }

    /// Returns the placer.
    pub fn placer(&self) -> &PlacerPolicy {
        &self.0.placer
    }

    /// Returns which duplicates are dropped.
    pub fn deduplication(&self) -> Deduplication {
        self.0.deduplication
    }

    /// Returns what happens to a selection above its target.
    pub fn overflow_strategy(&self) -> OverflowStrategy {
        self.0.overflow_strategy
    }

    /// Returns whether members of a group are placed together.
    pub fn keep_groups_together(&self) -> bool {
        self.0.keep_groups_together
    }

    /// Sets the name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// Sets the description for people.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.0.description = Some(description.into());
        self
    }

    /// Adds a scorer.
    #[must_use]
    pub fn with_scorer(mut self, scorer: impl Into<ScorerPolicy>, weight: f64) -> Self {
        self.0.scorers.push((scorer, weight).into());
        self
    }

    /// Sets the slicer.
    #[must_use]
    pub fn with_slicer(mut self, slicer: impl Into<SlicerPolicy>) -> Self {
        self.0.slicer = slicer.into();
        self
    }

    /// Sets the placer.
    #[must_use]
    pub fn with_placer(mut self, placer: impl Into<PlacerPolicy>) -> Self {
        self.0.placer = placer.into();
        self
    }

    /// Sets which duplicates are dropped.
    #[must_use]
    pub fn with_deduplication(mut self, deduplication: impl Into<Deduplication>) -> Self {
        self.0.deduplication = deduplication.into();
        self
    }

    /// Sets what happens to a selection above its target.
    #[must_use]
    pub fn with_overflow_strategy(mut self, strategy: OverflowStrategy) -> Self {
        self.0.overflow_strategy = strategy;
        self
    }

    /// Sets whether members of a group are placed together.
    #[must_use]
    pub fn with_groups_together(mut self, together: bool) -> Self {
        self.0.keep_groups_together = together;
        self
    }

    /// Adds BM25 for a query, with the weight of all other scorers together.
    ///
    /// ```
    /// use pannier_policy::{Policy, ScorerPolicy};
    ///
    /// let policy = Policy::new([(ScorerPolicy::Recency, 3.0), (ScorerPolicy::Priority, 1.0)]);
    /// assert_eq!(policy.for_query("refunds").scorers()[2].weight, 4.0);
    /// ```
    #[must_use]
    pub fn for_query(self, query: &str) -> Self {
        let others: f64 = self.0.scorers.iter().map(|scorer| scorer.weight).sum();
        let weight = if others > 0.0 { others } else { 1.0 };
        self.with_scorer(Bm25Options { query: query.to_owned() }, weight)
    }

    /// Builds the pipeline.
    ///
    /// # Errors
    ///
    /// Any error of a component; [`Error::NoReferenceTime`] if a decay scorer has no reference time, and
    /// [`Error::UnknownName`] for a custom component. A [`PolicyRegistry`] supplies both.
    pub fn pipeline(&self) -> Result<Pipeline, Error> {
        PolicyRegistry::empty().pipeline(self, None)
    }

    pub(crate) fn build(&self, context: &BuildContext<'_>) -> Result<Pipeline, Error> {
        let scorer: Box<dyn Scorer> = match &self.0.scorers[..] {
            [only] => only.scorer.build(context)?,
            several => average(several, context)?,
        };
        let mut pipeline = Pipeline::builder(scorer);
        if let Some(layout) = self.0.slicer.document_layout(DocumentLayout::uncounted()) {
            pipeline = pipeline.layout(layout);
        }
        Ok(pipeline
            .slicer(self.0.slicer.build(context)?)
            .placer(self.0.placer.build(context)?)
            .deduplication(self.0.deduplication)
            .overflow_strategy(self.0.overflow_strategy)
            .keep_groups_together(self.0.keep_groups_together)
            .build())
    }

    /// Reads a policy from a tree of values, as a TOML or JSON file holds it. Null counts as absent.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] with the path to a mistake and what is expected there.
    pub fn from_value(value: &MetadataValue) -> Result<Self, Error> {
        Ok(Self::read(value)?)
    }

    fn read(value: &MetadataValue) -> Result<Self, ReadError> {
        let MetadataValue::Object(mut table) = value.clone() else {
            return Err(ReadError::new("", "expected a table"));
        };
        let nested = nest::<SlicerPolicy>(&mut table, "slicer", &own_keys())?;
        let mut moved: &[&str] = &[];
        let share = table.remove(NEAR_DUPLICATES).filter(|share| *share != MetadataValue::Null);
        if let Some(share) = share {
            if table.get(DEDUPLICATION) == Some(&false.into()) {
                return Err(ReadError::new(
                    NEAR_DUPLICATES,
                    "deduplication is off; remove one of them",
                ));
            }
            let near = Metadata::from([(NEAR_DUPLICATES.to_owned(), share)]);
            table.insert(DEDUPLICATION.to_owned(), near.into());
            moved = &[DEDUPLICATION];
        }
        let policy = tree::read(table.into()).map(Self);
        let policy = policy.map_err(|error| error.unnested(&nested).unnested(moved))?;
        // Each component is valid by now. What is left is how the scorers combine.
        policy.build(&VALIDATION_CONTEXT).map_err(|error| ReadError::new("scorers", error))?;
        Ok(policy)
    }

    /// Returns the policy as a tree of values, which [`from_value`](Self::from_value) reads back.
    pub fn to_value(&self) -> MetadataValue {
        let mut table = to_metadata(&self.0);
        for key in ["slicer", "placer"] {
            if let Some(MetadataValue::Object(mut component)) = table.remove(key) {
                let is_own = |option: &String| own_keys().contains(&option.as_str());
                if component.keys().any(is_own) {
                    table.insert(key.to_owned(), component.into());
                } else if let Some(name) = component.remove("type") {
                    table.insert(key.to_owned(), name);
                    table.extend(component);
                }
            }
        }
        if let Some(MetadataValue::Object(near)) = table.get(DEDUPLICATION).cloned() {
            table.remove(DEDUPLICATION);
            table.extend(near);
        }
        table.into()
    }
}

const DEDUPLICATION: &str = "deduplication";
const NEAR_DUPLICATES: &str = "near_duplicates";

/// Returns the keys of a policy that are not options of its slicer.
fn own_keys() -> Vec<&'static str> {
    [tree::keys::<Fields>(), &[NEAR_DUPLICATES]].concat()
}

fn exact() -> Deduplication {
    Deduplication::Exact
}

fn is_exact(deduplication: &Deduplication) -> bool {
    *deduplication == exact()
}

mod deduplication {
    //! `true`, `false`, or a table with the share of near-duplicates.

    use super::*;
    use serde::de::Error;

    records! {
        struct Near {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            near_duplicates: Option<f64>,
            #[serde(default, skip_serializing)]
            near: Option<i64>,
        }
    }

    pub(super) fn serialize<S: Serializer>(
        deduplication: &Deduplication,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match deduplication {
            Deduplication::Near { threshold } => {
                let near_duplicates = Some(f64::from(*threshold) / 1_000.0);
                Near { near_duplicates, near: None }.serialize(serializer)
            }
            other => serializer.serialize_bool(*other != Deduplication::Off),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Deduplication, D::Error> {
        let near: Near = match MetadataValue::deserialize(deserializer)? {
            MetadataValue::Bool(flag) => return Ok(flag.into()),
            value @ MetadataValue::Object(_) => tree::read(value).map_err(D::Error::custom)?,
            other => return tree::read(other).map(bool::into).map_err(D::Error::custom),
        };
        let (key, found, max) = match (near.near_duplicates, near.near) {
            (Some(share), _) => (NEAR_DUPLICATES, share, 1.0),
            (None, Some(thousandths)) => ("near", thousandths as f64, 1_000.0),
            (None, None) => return Err(D::Error::custom(ReadError::missing("near"))),
        };
        if !(0.0..=max).contains(&found) {
            let problem = format!("expected a number from 0 to {max}, found {found}");
            return Err(D::Error::custom(ReadError::new(key, problem)));
        }
        let thousandths = 1_000.0 / max * found;
        Ok(Deduplication::Near { threshold: thousandths.round() as u16 })
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = MetadataValue::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}
