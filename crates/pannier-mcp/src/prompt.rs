//! The prompt: a packet of project memory. Hosts show prompts to their users as commands.

use pannier::Shelf;
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

pub(crate) const NAME: &str = "project_memory";

const DESCRIPTION: &str =
    "The project's memory: rules, tasks, conventions, decisions and learnings";

/// Returns the prompt if a project is open.
pub(crate) fn prompts(shelf: &Shelf) -> Vec<Prompt> {
    let names = shelf.memory_names();
    if names.is_empty() {
        return Vec::new();
    }
    let description = format!("The project: {}", names.join(", "));
    let project =
        PromptArgument::new("project").with_description(description).with_required(names.len() > 1);
    let query = PromptArgument::new("query")
        .with_description("Your task; related entries rank higher")
        .with_required(false);
    let prompt = Prompt::new(NAME, Some(DESCRIPTION), Some(vec![project, query]));
    vec![prompt.with_title("Project memory")]
}

/// Returns the packet as a message of the user.
pub(crate) fn message(packet: String) -> GetPromptResult {
    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, packet)])
        .with_description(DESCRIPTION)
}
