//! Token counters by name.

use std::sync::Arc;

use pannier_core::TokenCounter;

use crate::tool_error::ToolError;

/// Returns the counter `name`; default: `bytes/4`. A client cannot name a file.
pub(crate) fn counter(name: Option<&str>) -> Result<Arc<dyn TokenCounter>, ToolError> {
    let name = name.unwrap_or("bytes/4");
    if name.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        let names = pannier_tokens::counter_names().collect::<Vec<_>>().join(", ");
        let hint = format!("tokenizer is one of {names}, or a model of theirs");
        return Err(ToolError::invalid("the server reads no tokenizer from files", hint));
    }
    Ok(Arc::from(pannier_tokens::builtin_counter(name)?))
}
