//! The call of the engine itself: items in, selection out.

use pannier_core::{ContextBudget, SelectionSummary, UncountedItem, find_item};
use pannier_layout::{Template, TextLayout};
use pannier_policy::{Policy, PolicyRegistry};
use serde_json::Value;

use crate::answer::Answer;
use crate::arguments::Select;
use crate::counter::counter;
use crate::tool_error::ToolError;
use crate::work::Watch;

/// So many items are explained in one call: each takes many runs of the engine.
const MOST_EXPLAINED: usize = 50;

/// As `pannier select --format json`.
pub(super) fn select(arguments: Select, watch: &Watch, most: usize) -> Result<Answer, ToolError> {
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
    watch.step("counting")?;
    // If all counts are the caller's, they are all there is. As soon as anything is counted here, what is sent is, too.
    let is_given =
        arguments.tokenizer.is_none() && arguments.items.iter().all(UncountedItem::is_counted);
    let items = UncountedItem::count(arguments.items, &*counter);
    let pipeline = match is_given {
        true => pipeline,
        false => pipeline.with_layout(TextLayout::new(Template::default(), counter)),
    };
    let explained = arguments.explain.iter().map(|name| find_item(&items, name));
    let explained: Vec<usize> = explained.collect::<Result<_, _>>()?;
    if explained.len() > MOST_EXPLAINED {
        let hint = "ask for those that you want to know about, in several calls if they are many";
        let message = format!("explain may name {MOST_EXPLAINED} items in one call");
        return Err(ToolError::invalid(message, hint));
    }
    watch.step("selecting")?;
    let negative = items.iter().filter(|item| item.tokens() < 0).count();
    let warning = (negative > 0).then(|| {
        format!("{negative} items have negative tokens and are left out; count them again")
    });
    let answer = match explained.is_empty() {
        true => {
            let selection = pipeline.run(&items, &budget)?;
            watch.step("writing the answer")?;
            Answer::object(&SelectionSummary::new(&selection), most)
        }
        false => {
            let mut answers = Vec::new();
            // One by one, so that nobody works on for a client that has left.
            for index in &explained {
                watch.check()?;
                answers.extend(pipeline.explain_all(&items, &budget, &[*index])?);
            }
            watch.step("writing the answer")?;
            Answer::list("explanations", &answers, most)
        }
    };
    answer.map(|answer| answer.warn(warning))
}

/// A preset by its name, or a policy as it stands. A policy has no way to name a file.
fn policy(registry: &PolicyRegistry, policy: Option<Value>) -> Result<Policy, ToolError> {
    match policy {
        None => Ok(registry.policy("chat")?.clone()),
        Some(Value::String(name)) => Ok(registry.policy(&name)?.clone()),
        Some(policy) => serde_json::from_value(policy).map_err(|error| {
            let hint = "give the name of a preset, or a policy as docs/policies.md describes it";
            ToolError::invalid(format!("policy: {error}"), hint)
        }),
    }
}
