//! Questions about other budgets.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use pannier_core::item::find_item;
use pannier_core::whatif::{BudgetSweep, Found, Search};
use pannier_core::{ContextBudget, ContextItem};
use serde::Serialize;

use super::{
    Answer, BudgetOptions, Control, Group, PackPool, PolicyOptions, PoolOptions, Request,
    ReserveOptions, Tokens,
};
use crate::{Failure, Shelf};

request! {
    /// Show the budgets that select each item.
    pub struct SweepRequest {
        /// Items and ranking.
        #[group(flatten)]
        pub pool: PoolOptions,

        /// The policy.
        #[group(flatten)]
        pub policy: PolicyOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,

        /// Smallest budget [default: 0]
        #[arg(long, alias = "from", value_name = "N", allow_negative_numbers = true)]
        pub min: Option<Tokens>,

        /// Largest budget [default: the tokens of all items]
        #[arg(long, alias = "to", value_name = "N", allow_negative_numbers = true)]
        pub max: Option<Tokens>,
    }
}

request! {
    /// Find the smallest budget that selects an item.
    pub struct BudgetRequest {
        /// Id or index of the item
        #[arg(value_name = "ID")]
        pub item: String,

        /// Items and ranking.
        #[group(flatten)]
        pub pool: PoolOptions,

        /// The policy.
        #[group(flatten)]
        pub policy: PolicyOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,

        /// Largest budget to try [default: four times all items]
        #[arg(long, alias = "ceiling", value_name = "N", allow_negative_numbers = true)]
        pub max: Option<Tokens>,
    }
}

request! {
    /// List the items that fewer tokens would drop.
    pub struct LossRequest {
        /// Tokens to remove from the budget
        #[arg(value_name = "N", allow_negative_numbers = true)]
        pub tokens: Tokens,

        /// Items and ranking.
        #[group(flatten)]
        pub pool: PoolOptions,

        /// The policy.
        #[group(flatten)]
        pub policy: PolicyOptions,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,
    }
}

/// An item of the pool, by its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PoolItem {
    /// The index in the pool.
    pub index: usize,
    /// The id, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tokens.
    pub tokens: i64,
    /// The content, for display.
    #[serde(skip)]
    pub content: String,
}

impl PoolItem {
    fn new(index: usize, item: &ContextItem) -> Self {
        let (id, content) = (item.id().map(str::to_owned), item.content().to_owned());
        Self { index, id, tokens: item.tokens(), content }
    }

    /// Returns the id, or `#` and the index.
    pub fn label(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("#{}", self.index))
    }
}

/// The budgets that select each item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SweepAnswer {
    /// The smallest budget.
    #[serde(rename = "from")]
    pub min: i64,
    /// The largest budget for which the answer is known.
    #[serde(rename = "to")]
    pub max: i64,
    /// The items, in pool order.
    pub items: Vec<SweptItem>,
}

/// The budgets that select one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SweptItem {
    /// The item.
    #[serde(flatten)]
    pub item: PoolItem,
    /// The first and the last budget of each range.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Vec<i64>>"))]
    pub budgets: Vec<(i64, i64)>,
}

/// The smallest budget that selects an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BudgetAnswer {
    /// The item.
    #[serde(flatten)]
    pub item: PoolItem,
    /// The largest budget that was allowed.
    #[serde(rename = "ceiling")]
    pub max: i64,
    /// The smallest budget that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_budget: Option<i64>,
    /// `false` if not all smaller budgets were tried; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_proven: Option<bool>,
    /// The largest budget that was tried, if the search did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried_to: Option<i64>,
}

/// The items that a smaller budget drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LossAnswer {
    /// The tokens that are removed from the budget.
    #[serde(rename = "slack_tokens")]
    pub tokens: i64,
    /// The items, in pool order.
    pub items: Vec<PoolItem>,
}

impl Answer for SweepAnswer {
    fn text(&self) -> Cow<'_, str> {
        let lines = self.items.iter().map(|SweptItem { item, budgets }| {
            let ranges = budgets.iter().map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            });
            let ranges = ranges.collect::<Vec<_>>().join(", ");
            let ranges = if ranges.is_empty() { "none" } else { &ranges };
            format!("{}: {ranges}\n", item.label())
        });
        lines.collect::<String>().into()
    }
}

impl Answer for BudgetAnswer {
    fn text(&self) -> Cow<'_, str> {
        let max = self.max;
        match (self.min_budget, self.is_proven, self.tried_to) {
            (Some(tokens), None, _) => format!("{tokens}\n"),
            (Some(tokens), Some(_), _) => format!("{tokens}, or less: not all were tried\n"),
            (None, _, Some(tried)) => format!("none up to {tried}; larger ones were not tried\n"),
            (None, _, None) => format!("none up to {max}\n"),
        }
        .into()
    }
}

impl Answer for LossAnswer {
    fn text(&self) -> Cow<'_, str> {
        let line = |item: &PoolItem| format!("{}: {} tokens\n", item.label(), item.tokens);
        self.items.iter().map(line).collect::<String>().into()
    }
}

impl Request for SweepRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<PoolOptions>("pool"),
        Group::new::<PolicyOptions>("policy"),
        Group::new::<ReserveOptions>("reserves"),
    ];
    const INPUTS: &'static [&'static str] = &["items"];
    type Answer = SweepAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<SweepAnswer, Failure> {
        let (pool, base) = open(self.pool, &self.policy, &self.reserves, shelf, control)?;
        let min = self.min.map_or(0, |Tokens(min)| min);
        let max = self.max.map_or_else(|| total_cost(pool.items(), &base), |Tokens(max)| max);
        if min < 0 || min > max {
            return Err(Failure::EmptyRange { min, max });
        }
        control.step("sweeping budgets")?;
        let prepared = pool.pipeline().prepare(pool.items())?;
        let BudgetSweep { budgets, selected, .. } =
            prepared.sweep(&base, min..=max, &mut control.search(Search::DEFAULT_STEPS));
        let end = *budgets.end();
        if end < max {
            control.warn(format!("the sweep ends at {end}, below {max}; sweep a smaller range"));
        }
        let range = |range: &RangeInclusive<i64>| (*range.start(), *range.end());
        let items = pool.items().iter().zip(&selected).enumerate();
        let items = items.map(|(index, (item, ranges))| SweptItem {
            item: PoolItem::new(index, item),
            budgets: ranges.iter().map(range).collect(),
        });
        Ok(SweepAnswer { min, max: end, items: items.collect() })
    }
}

impl Request for BudgetRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<PoolOptions>("pool"),
        Group::new::<PolicyOptions>("policy"),
        Group::new::<ReserveOptions>("reserves"),
    ];
    const INPUTS: &'static [&'static str] = &["items"];
    type Answer = BudgetAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<BudgetAnswer, Failure> {
        let (pool, base) = open(self.pool, &self.policy, &self.reserves, shelf, control)?;
        let index = find_item(pool.items(), &self.item)?;
        let item = PoolItem::new(index, &pool.items()[index]);
        let tokens = item.tokens.max(0);
        // Slicers with buckets or quotas need more than the sum of all items.
        let default = || total_cost(pool.items(), &base).saturating_mul(4).saturating_add(1_024);
        let max = self.max.map_or_else(default, |Tokens(max)| max);
        if max < tokens {
            return Err(Failure::BelowItem { max, tokens });
        }
        control.step("searching budgets")?;
        let prepared = pool.pipeline().prepare(pool.items())?;
        let mut search = control.search(Search::DEFAULT_STEPS);
        let found = prepared.smallest_budget(&base, index, tokens..=max, &mut search)?;
        let (min_budget, is_proven, tried_to) = match found {
            Found::At { tokens, is_proven } => {
                (Some(tokens), (!is_proven).then_some(is_proven), None)
            }
            Found::NotWithin { tried } if *tried.end() < max => (None, None, Some(*tried.end())),
            _ => (None, None, None),
        };
        Ok(BudgetAnswer { item, max, min_budget, is_proven, tried_to })
    }
}

impl Request for LossRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<PoolOptions>("pool"),
        Group::new::<PolicyOptions>("policy"),
        Group::new::<BudgetOptions>("budget"),
        Group::new::<ReserveOptions>("reserves"),
    ];
    const INPUTS: &'static [&'static str] = &["items"];
    type Answer = LossAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<LossAnswer, Failure> {
        let budget = self.budget.read(&self.reserves, shelf)?;
        let Tokens(tokens) = self.tokens;
        let target = budget.target_tokens();
        if !(0..=target).contains(&tokens) {
            return Err(Failure::LossOutOfRange { tokens, target });
        }
        let pool = self.pool.open(&self.policy, shelf, control)?;
        control.step("selecting items")?;
        let lost = pool.pipeline().get_marginal_items(pool.items(), &budget, tokens)?;
        let items = lost.iter().map(|index| PoolItem::new(*index, &pool.items()[*index]));
        Ok(LossAnswer { tokens, items: items.collect() })
    }
}

/// Opens a pool, and returns the deductions from every budget.
fn open(
    pool: PoolOptions,
    policy: &PolicyOptions,
    reserves: &ReserveOptions,
    shelf: &Shelf,
    control: &Control<'_>,
) -> Result<(PackPool, ContextBudget), Failure> {
    let base = reserves.budget(reserves.reserve.unwrap_or_default().0, None)?;
    Ok((pool.open(policy, shelf, control)?, base))
}

/// Returns the smallest window whose target holds all items.
fn total_cost(items: &[ContextItem], base: &ContextBudget) -> i64 {
    let items = items.iter().map(|item| i128::from(item.tokens().max(0))).sum::<i128>();
    let slots = base.reserved_slots().values().map(|tokens| i128::from(*tokens)).sum::<i128>();
    let kept = 1.0 - base.estimation_safety_margin_percent() / 100.0;
    let all = if kept > 0.0 { (items as f64 / kept).ceil() as i128 + 1 } else { items };
    let all = if base.estimation_safety_margin_percent() == 0.0 { items } else { all };
    let all = all + slots + i128::from(base.output_reserve());
    i64::try_from(all).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
