//! The tool `select_context`: selects from the items of the call.

use pannier_core::{ContextBudget, Explanation, Search, UncountedItem, find_item};
use pannier_layout::{Template, TextLayout};
use pannier_policy::{Policy, PolicyRegistry};
use serde_json::Value;

use crate::arguments::Select;
use crate::counter::counter;
use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// The maximum number of explanations per call: each takes many runs of the engine.
const MAX_EXPLAINED_ITEMS: usize = 50;

/// Returns the output of `pannier select --format json`.
pub(super) fn select(
    arguments: Select,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let registry = PolicyRegistry::default();
    let policy = policy(&registry, arguments.policy)?;
    let policy = match &arguments.query {
        Some(query) => policy.for_query(query),
        None => policy,
    };
    let (window, reserve) = (arguments.budget, arguments.reserve);
    let target = arguments.target.unwrap_or_else(|| window.saturating_sub(reserve).max(0));
    let budget = ContextBudget::builder(window, target).output_reserve(reserve).build()?;
    let pipeline = registry.pipeline(&policy, arguments.now)?;
    let counter = counter(arguments.tokenizer.as_deref())?;
    control.step("counting tokens")?;
    // If the caller counted every item, its counts are the cost. If any item is counted here, so is the rendered text.
    let is_counted =
        arguments.tokenizer.is_none() && arguments.items.iter().all(UncountedItem::is_counted);
    let items = UncountedItem::count(arguments.items, &*counter);
    let pipeline = match is_counted {
        true => pipeline,
        false => pipeline.with_layout(TextLayout::new(Template::default(), counter)),
    };
    let explained = arguments.explain.iter().map(|name| find_item(&items, name));
    let explained: Vec<usize> = explained.collect::<Result<_, _>>()?;
    if explained.len() > MAX_EXPLAINED_ITEMS {
        let hint = "name fewer items, in several calls if necessary";
        let message = format!("explain takes at most {MAX_EXPLAINED_ITEMS} items per call");
        return Err(ToolError::invalid(message, hint));
    }
    control.step("selecting items")?;
    let negative = items.iter().filter(|item| item.tokens() < 0).count();
    let warning = (negative > 0).then(|| {
        format!("{negative} items have negative tokens and are excluded; count them again")
    });
    let output = match explained.is_empty() {
        true => {
            let selection = pipeline.run(&items, &budget)?;
            control.step("serializing")?;
            ToolOutput::object(&pannier::SelectionSummary::new(&selection), max_bytes)
        }
        false => {
            let is_cancelled = || control.check().is_err();
            let steps = Explanation::<()>::STEPS.saturating_mul(explained.len() as u64);
            let mut search = Search::new(steps).until(&is_cancelled);
            let prepared = pipeline.prepare(&items)?;
            let explanations = prepared.explain(&budget, &explained, &mut search)?;
            control.step("serializing")?;
            ToolOutput::list("explanations", &explanations, max_bytes)
        }
    };
    output.map(|output| output.with_warnings(warning))
}

/// Returns the preset of this name, or parses a policy. A policy cannot name a file.
fn policy(registry: &PolicyRegistry, policy: Option<Value>) -> Result<Policy, ToolError> {
    match policy {
        None => Ok(registry.policy("chat")?.clone()),
        Some(Value::String(name)) => Ok(registry.policy(&name)?.clone()),
        Some(policy) => serde_json::from_value(policy).map_err(|error| {
            let hint = "use the name of a preset, or a policy as docs/policies.md describes it";
            ToolError::invalid(format!("policy: {error}"), hint)
        }),
    }
}
