//! A pipeline as data.

use std::collections::BTreeMap;

use pannier_core::item::{
    Deduplication, Floor, FormName, FormWorths, Metadata, MetadataValue, OverflowStrategy,
};
use pannier_core::{ContextKind, Error, Pipeline, Scorer};
use pannier_layout::DocumentLayout;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::component::{
    BuildContext, Component, VALIDATION_CONTEXT, is_default, nest, records, to_metadata,
};
use crate::scorer::average;
use crate::tree::{self, ReadError};
use crate::{
    Bm25Options, LayoutPolicy, PlacerPolicy, PolicyRegistry, ScorerPolicy, SessionOptions,
    SlicerPolicy, WeightedScorer,
};

/// The components of a pipeline and their options, without a budget.
///
/// ```
/// use pannier_policy::{KnapsackOptions, Policy, ScorerPolicy};
///
/// let policy = Policy::new([(ScorerPolicy::Recency, 3.0), (ScorerPolicy::Priority, 1.0)])
///     .with_slicer(KnapsackOptions::default());
/// let pipeline = policy.pipeline()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy(Fields);

records! {
    /// A policy as it is written, but with the slicer's options in a table of their own.
    pub(crate) struct Fields {
        /// A name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")] name: Option<String>,
        /// A description for people.
        #[serde(default, skip_serializing_if = "Option::is_none")] description: Option<String>,
        /// The scorers. One is used as it is, several are averaged by weight.
        #[serde(default)] scorers: Vec<WeightedScorer>,
        /// The slicer; default: greedy. Its options may be next to it.
        #[serde(default)] slicer: SlicerPolicy,
        /// The placer; default: chronological.
        #[serde(default)] placer: PlacerPolicy,
        /// The layout; default: none, or headings of documents for the slicer `document`.
        #[serde(default, skip_serializing_if = "Option::is_none")] layout: Option<LayoutPolicy>,
        /// Whether only the highest-ranked of equal contents stays; default: true.
        #[serde(default = "enabled", skip_serializing_if = "Clone::clone")] deduplication: bool,
        /// The share of an item's five-word shingles in a higher-ranked item above which the item is dropped; default: off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        near_duplicates: Option<f64>,
        /// The score below which items are dropped; default: off. A number is a score.
        #[serde(default, skip_serializing_if = "Option::is_none")] floor: Option<FloorOptions>,
        /// The shares of an item's value that forms have which do not state their worth, by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")] forms: BTreeMap<String, f64>,
        /// The kinds whose duplicates are kept; default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
        keep_duplicates: Vec<ContextKind>,
        /// What happens to a selection above its target; default: throw.
        #[serde(default, skip_serializing_if = "is_default")]
        #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["throw", "truncate", "proceed"])))]
        overflow_strategy: OverflowStrategy,
        /// Whether members of a group are placed together; default: false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")] keep_groups_together: bool,
        /// How a chat session cuts its requests; default: the policy is not for sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")] session: Option<SessionOptions>,
    }

    /// A relevance floor. One of the two is set.
    pub struct FloorOptions {
        /// A score.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub score: Option<f64>,
        /// A share of the best score in the pool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub share_of_best: Option<f64>,
    }

    /// The former `deduplication = { near = 800 }`.
    struct FormerNear { near: i64 }
}

fn enabled() -> bool {
    true
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
            layout: None,
            deduplication: true,
            near_duplicates: None,
            floor: None,
            forms: BTreeMap::new(),
            keep_duplicates: Vec::new(),
            overflow_strategy: OverflowStrategy::default(),
            keep_groups_together: false,
            session: None,
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

    /// Returns the layout, if the policy names one.
    pub fn layout(&self) -> Option<&LayoutPolicy> {
        self.0.layout.as_ref()
    }

    /// Returns which duplicates are dropped.
    pub fn deduplication(&self) -> Deduplication {
        match self.0.near_duplicates {
            Some(threshold) => Deduplication::NearDuplicates { threshold },
            None => self.0.deduplication.into(),
        }
    }

    /// Returns the score below which items are dropped.
    pub fn floor(&self) -> Option<Floor> {
        let FloorOptions { score, share_of_best } = self.0.floor.as_ref()?;
        score.map(Floor::Score).or(share_of_best.map(Floor::ShareOfBest))
    }

    /// Returns what forms are worth that do not state it.
    ///
    /// # Errors
    ///
    /// [`Error::BlankName`] or [`Error::WorthOutOfRange`] for an entry that is invalid.
    pub fn form_worths(&self) -> Result<FormWorths, Error> {
        let mut worths = self.0.forms.iter();
        worths.try_fold(FormWorths::default(), |worths, (name, worth)| {
            worths.with(FormName::new(name)?, *worth)
        })
    }

    /// Returns the kinds whose duplicates are kept.
    pub fn kept_duplicates(&self) -> &[ContextKind] {
        &self.0.keep_duplicates
    }

    /// Returns what happens to a selection above its target.
    pub fn overflow_strategy(&self) -> OverflowStrategy {
        self.0.overflow_strategy
    }

    /// Returns whether members of a group are placed together.
    pub fn keep_groups_together(&self) -> bool {
        self.0.keep_groups_together
    }

    /// Returns how a chat session cuts its requests.
    pub fn session(&self) -> Option<&SessionOptions> {
        self.0.session.as_ref()
    }

    /// Sets the name for people.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self(Fields { name: Some(name.into()), ..self.0 })
    }

    /// Sets the description for people.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self(Fields { description: Some(description.into()), ..self.0 })
    }

    /// Adds a scorer.
    #[must_use]
    pub fn with_scorer(mut self, scorer: impl Into<ScorerPolicy>, weight: f64) -> Self {
        self.0.scorers.push((scorer, weight).into());
        self
    }

    /// Sets the slicer.
    #[must_use]
    pub fn with_slicer(self, slicer: impl Into<SlicerPolicy>) -> Self {
        Self(Fields { slicer: slicer.into(), ..self.0 })
    }

    /// Sets the placer.
    #[must_use]
    pub fn with_placer(self, placer: impl Into<PlacerPolicy>) -> Self {
        Self(Fields { placer: placer.into(), ..self.0 })
    }

    /// Sets the layout.
    ///
    /// ```
    /// use pannier_core::{ContextBudget, ContextItem, Error, Layout};
    /// use pannier_core::layout::Plan;
    /// use pannier_core::score::Pool;
    /// use pannier_policy::{CustomOptions, Policy, PolicyRegistry, ScorerPolicy};
    ///
    /// /// Sends a greeting of 8 tokens before all items.
    /// struct Greeting;
    ///
    /// impl Layout for Greeting {
    ///     fn plan(&self, _: &Pool<'_>) -> Result<Plan, Error> {
    ///         let mut plan = Plan::default();
    ///         plan.fixed = 8;
    ///         Ok(plan)
    ///     }
    /// }
    ///
    /// let mut registry = PolicyRegistry::empty();
    /// registry.add_layout("greeting", Greeting)?;
    /// let greeting = CustomOptions::new("greeting");
    /// let policy = Policy::new([(ScorerPolicy::Recency, 1.0)]).with_layout(greeting);
    /// let items = [ContextItem::new("one", 10)?, ContextItem::new("two", 10)?];
    /// let pipeline = registry.pipeline(&policy, None)?;
    /// assert_eq!(pipeline.run(&items, &ContextBudget::new(20, 20)?)?.len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_layout(self, layout: impl Into<LayoutPolicy>) -> Self {
        Self(Fields { layout: Some(layout.into()), ..self.0 })
    }

    /// Sets which duplicates are dropped.
    #[must_use]
    pub fn with_deduplication(self, deduplication: impl Into<Deduplication>) -> Self {
        let deduplication = deduplication.into();
        let near_duplicates = match deduplication {
            Deduplication::NearDuplicates { threshold } => Some(threshold),
            _ => None,
        };
        let deduplication = deduplication != Deduplication::Off;
        Self(Fields { deduplication, near_duplicates, ..self.0 })
    }

    /// Sets the score below which items are dropped.
    #[must_use]
    pub fn with_floor(self, floor: Floor) -> Self {
        let (score, share_of_best) = match floor {
            Floor::ShareOfBest(share) => (None, Some(share)),
            Floor::Score(score) => (Some(score), None),
            _ => return self,
        };
        Self(Fields { floor: Some(FloorOptions { score, share_of_best }), ..self.0 })
    }

    /// Sets the share of an item's value that forms of a name have.
    #[must_use]
    pub fn with_form_worth(mut self, name: &FormName, worth: f64) -> Self {
        self.0.forms.insert(name.to_string(), worth);
        self
    }

    /// Sets the kinds whose duplicates are kept.
    #[must_use]
    pub fn with_kept_duplicates(self, kinds: impl IntoIterator<Item = ContextKind>) -> Self {
        Self(Fields { keep_duplicates: kinds.into_iter().collect(), ..self.0 })
    }

    /// Sets what happens to a selection above its target.
    #[must_use]
    pub fn with_overflow_strategy(self, overflow_strategy: OverflowStrategy) -> Self {
        Self(Fields { overflow_strategy, ..self.0 })
    }

    /// Sets whether members of a group are placed together.
    #[must_use]
    pub fn with_groups_together(self, keep_groups_together: bool) -> Self {
        Self(Fields { keep_groups_together, ..self.0 })
    }

    /// Sets how a chat session cuts its requests.
    #[must_use]
    pub fn with_session(self, session: SessionOptions) -> Self {
        Self(Fields { session: Some(session), ..self.0 })
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
        if let Some(layout) = &self.0.layout {
            pipeline = pipeline.layout(layout.build(context)?);
        } else if let Some(layout) = self.0.slicer.document_layout(DocumentLayout::uncounted()) {
            pipeline = pipeline.layout(layout);
        }
        if let Some(floor) = self.floor() {
            pipeline = pipeline.floor(floor.checked()?);
        }
        Ok(pipeline
            .form_worths(self.form_worths()?)
            .slicer(self.0.slicer.build(context)?)
            .placer(self.0.placer.build(context)?)
            .deduplication(self.deduplication())
            .keep_duplicates(self.0.keep_duplicates.iter().cloned())
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
        let nested = nest::<SlicerPolicy>(&mut table, "slicer", tree::keys::<Fields>())?;
        if let Some(former @ MetadataValue::Object(_)) = table.get("deduplication") {
            let FormerNear { near } =
                tree::read(former.clone()).map_err(|error| error.at("deduplication"))?;
            check_range("deduplication.near", near as f64, 1_000.0)?;
            table.insert("deduplication".to_owned(), true.into());
            table.insert("near_duplicates".to_owned(), (near as f64 / 1_000.0).into());
        }
        if let Some(score @ (MetadataValue::Integer(_) | MetadataValue::Float(_))) =
            table.get("floor").cloned()
        {
            let floor = Metadata::from([("score".to_owned(), score)]);
            table.insert("floor".to_owned(), floor.into());
        }
        let fields: Fields = tree::read(table.into()).map_err(|error| error.unnested(&nested))?;
        if let Some(share) = fields.near_duplicates {
            check_range("near_duplicates", share, 1.0)?;
        }
        let details = [
            ("near_duplicates", fields.near_duplicates.is_some()),
            ("keep_duplicates", !fields.keep_duplicates.is_empty()),
        ];
        if let Some((key, _)) =
            details.into_iter().find(|(_, is_set)| *is_set && !fields.deduplication)
        {
            return Err(ReadError::new(key, "deduplication is off; remove one of them"));
        }
        if let Some(FloorOptions { score, share_of_best }) = &fields.floor
            && score.is_some() == share_of_best.is_some()
        {
            let problem = "expected either score or share_of_best";
            return Err(ReadError::new("floor", problem));
        }
        if let Some(share) = fields.floor.as_ref().and_then(|floor| floor.share_of_best) {
            check_range("floor.share_of_best", share, 1.0)?;
        }
        if let Some(session) = &fields.session {
            session.check().map_err(|error| error.at("session"))?;
        }
        for (name, worth) in &fields.forms {
            check_range(&format!("forms.{name}"), *worth, 1.0)?;
            FormName::new(name).map_err(|error| ReadError::new("forms", error))?;
        }
        // Each component is valid by now. What is left is how the scorers combine.
        let policy = Self(fields);
        policy.build(&VALIDATION_CONTEXT).map_err(|error| ReadError::new("scorers", error))?;
        Ok(policy)
    }

    /// Returns the policy as a tree of values, which [`from_value`](Self::from_value) reads back.
    pub fn to_value(&self) -> MetadataValue {
        let mut table = to_metadata(&self.0);
        for key in ["slicer", "placer"] {
            let Some(MetadataValue::Object(options)) = table.get_mut(key) else { continue };
            // A custom component has a name, as the policy has.
            if !options.contains_key("name") {
                let mut options = std::mem::take(options);
                table.extend(options.remove("type").map(|name| (key.to_owned(), name)));
                table.extend(options);
            }
        }
        table.into()
    }
}

fn check_range(path: &str, found: f64, max: f64) -> Result<(), ReadError> {
    match (0.0..=max).contains(&found) {
        true => Ok(()),
        false => {
            Err(ReadError::new(path, format!("expected a number from 0 to {max}, found {found}")))
        }
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
