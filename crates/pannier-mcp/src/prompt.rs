//! The one prompt: what a project remembers, for a user who begins to work on it. Hosts show prompts to people, as commands.

use pannier::Shelf;
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

pub(crate) const NAME: &str = "project_memory";

const DESCRIPTION: &str =
    "What the project remembers: rules, tasks, conventions, decisions and learnings";

/// The prompts that this shelf can answer.
pub(crate) fn prompts(shelf: &Shelf) -> Vec<Prompt> {
    let names = shelf.memory_names();
    if names.is_empty() {
        return Vec::new();
    }
    let about = format!("Which project: {}", names.join(", "));
    let context =
        PromptArgument::new("context").with_description(about).with_required(names.len() > 1);
    let query = PromptArgument::new("query")
        .with_description(
            "What you are about to do: entries that have to do with it count for more",
        )
        .with_required(false);
    let prompt = Prompt::new(NAME, Some(DESCRIPTION), Some(vec![context, query]));
    vec![prompt.with_title("Project memory")]
}

/// The packet, as the user says it.
pub(crate) fn message(packet: String) -> GetPromptResult {
    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, packet)])
        .with_description(DESCRIPTION)
}
