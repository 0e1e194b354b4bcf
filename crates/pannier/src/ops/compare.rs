//! Compares policies on the same items.

use std::borrow::Cow;

use pannier_core::Pipeline;
use pannier_policy::{PolicySensitivityReport, pipeline_sensitivity};

use super::pool::DEFAULT_POLICY;
use super::values::list;
use super::{
    Answer, BudgetOptions, Control, Group, PolicyName, PoolOptions, Request, ReserveOptions,
};
use crate::{Failure, Shelf};

request! {
    /// Compare policies on the same items.
    pub struct CompareRequest {
        /// Items and ranking.
        #[group(flatten)]
        pub pool: PoolOptions,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,

        /// Preset or policy file; at least two
        #[arg(long = "policy", short, value_name = "NAME|FILE", required = true)]
        #[serde(deserialize_with = "list")]
        #[schema(with = "Vec<String>")]
        pub policies: Vec<PolicyName>,
    }
}

impl Answer for PolicySensitivityReport {
    fn text(&self) -> Cow<'_, str> {
        let line = |(name, report): &(String, pannier_core::report::SelectionReport)| {
            format!("{name}: {} items\n", report.included.len())
        };
        self.variants.iter().map(line).collect::<String>().into()
    }
}

impl Request for CompareRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<PoolOptions>("pool"),
        Group::new::<BudgetOptions>("budget"),
        Group::new::<ReserveOptions>("reserves"),
    ];
    const INPUTS: &'static [&'static str] = &["items"];
    type Answer = PolicySensitivityReport;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<Self::Answer, Failure> {
        let budget = self.budget.read(&self.reserves, shelf)?;
        let names = self.policies.iter().zip(1..).map(|(policy, number)| match policy {
            PolicyName::Name(name) => name.clone(),
            PolicyName::Inline(policy) => {
                policy.name().map_or_else(|| format!("policy {number}"), str::to_owned)
            }
        });
        let names: Vec<String> = names.collect();
        let policies = self.policies.iter();
        let policies = policies.map(|policy| shelf.policy(Some(policy), DEFAULT_POLICY, control));
        let policies: Vec<_> = policies.collect::<Result<_, _>>()?;
        let pool = self.pool.count(shelf, control)?;
        let pipelines = policies.into_iter().map(|policy| Ok(pool.pipeline(policy, shelf)?.1));
        let pipelines: Vec<Pipeline> = pipelines.collect::<Result<_, Failure>>()?;
        control.step("comparing policies")?;
        let variants: Vec<_> = names.iter().zip(&pipelines).collect();
        let PolicySensitivityReport { variants, diffs } =
            pipeline_sensitivity(&pool.items, &budget, &variants)?;
        let variants = variants.into_iter().map(|(name, report)| (name, report.into_owned()));
        Ok(PolicySensitivityReport { variants: variants.collect(), diffs })
    }
}
