//! The tools: few, each with one purpose and a description that says when to use it.
//!
//! A tool is a request of `pannier::ops`. Its arguments are those options of the request that are marked for models. A tool
//! without a folder is not listed, because each call would fail. The list depends only on the names of the folders, and its
//! order is fixed.

use std::path::Path;
use std::sync::Arc;

use pannier::ops::{
    MemoryRequest, PackRequest, RECALL_FOLDER, ReadRequest, RecallRequest, Request, SearchRequest,
    SnippetGetRequest, SnippetListRequest,
};
use pannier::{FolderKind, Shelf};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// What a model reads about a tool.
struct Definition {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The folders that it reads, and the argument that names one.
    folder: Option<(FolderKind, &'static str)>,
    arguments: fn() -> Value,
}

const DEFINITIONS: [Definition; 6] = [
    Definition {
        name: "search_docs",
        title: "Search documents",
        description: "Search the indexed documents and return the best-matching passages within a token budget, grouped by \
                      file. Call this before answering questions about the project. To read a whole file, use read_docs.",
        folder: Some((FolderKind::Documents, "index")),
        arguments: SearchRequest::advertised_schema,
    },
    Definition {
        name: "read_docs",
        title: "Read documents",
        description: "Return whole documents, by path or by keyword, within a token budget. Documents are never truncated. \
                      Call this when passages from search_docs are not enough.",
        folder: Some((FolderKind::Documents, "index")),
        arguments: ReadRequest::advertised_schema,
    },
    Definition {
        name: "get_context",
        title: "Get documentation snippets",
        description: "Get the project's rules and documentation snippets in two calls. First, without snippet_ids: list ids \
                      and descriptions. Then, with snippet_ids: return their full text plus required dependencies, in \
                      reading order. Call this before writing code or docs.",
        folder: Some((FolderKind::Snippets, "snippets")),
        arguments: snippet_arguments,
    },
    Definition {
        name: "get_memory",
        title: "Read the project's memory",
        description: "Return the project's memory: rules, and the most relevant tasks, conventions, decisions and \
                      learnings. Call once at the start of a task with query, and follow the rules. Then pass ids to read \
                      entries that it only lists.",
        folder: Some((FolderKind::Memory, "project")),
        arguments: MemoryRequest::advertised_schema,
    },
    Definition {
        name: "pack_items",
        title: "Pack items into a budget",
        description: "Select from the given items the ones that fit a token budget, in the order to send them. Call this \
                      when you have more text than fits.",
        folder: None,
        arguments: PackRequest::advertised_schema,
    },
    Definition {
        name: "recall",
        title: "Recall what was cut",
        description: "Return the exact content of a block that was cut from this conversation. Call this with the id after \
                      the word recall. Use lines or grep for a part of it.",
        folder: None,
        arguments: RecallRequest::advertised_schema,
    },
];

/// Returns the tools that have folders on this shelf.
pub(crate) fn tools(shelf: &Shelf) -> Vec<Tool> {
    DEFINITIONS.iter().filter_map(|definition| definition.tool(shelf)).collect()
}

impl Definition {
    fn tool(&self, shelf: &Shelf) -> Option<Tool> {
        if self.name == "recall" && !Path::new(RECALL_FOLDER).is_dir() {
            return None;
        }
        let mut arguments = (self.arguments)();
        if let Some((kind, argument)) = self.folder {
            let names = shelf.names(kind);
            if names.is_empty() {
                return None;
            }
            name_folder(&mut arguments, argument, kind, &names);
        }
        let Value::Object(arguments) = arguments else { return None };
        // The server records which snippets a session received.
        let is_read_only = self.name != "get_context";
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(is_read_only)
            .destructive(false)
            .idempotent(is_read_only)
            .open_world(false);
        let tool = Tool::new(self.name, self.description, Arc::<JsonObject>::new(arguments));
        Some(tool.with_title(self.title).with_annotations(annotations))
    }
}

/// The arguments of both calls of `get_context`. None is required.
fn snippet_arguments() -> Value {
    let mut schema = SnippetListRequest::advertised_schema();
    let get = SnippetGetRequest::advertised_schema();
    if let (Value::Object(properties), Value::Object(more)) =
        (&mut schema["properties"], &get["properties"])
    {
        for (name, property) in more {
            let name = if name == "ids" { "snippet_ids" } else { name };
            properties.insert(name.to_owned(), property.clone());
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
    }
    schema
}

/// Adds the argument that names a folder, if there are several. Snippets of all folders may be asked for together.
fn name_folder(schema: &mut Value, argument: &str, kind: FolderKind, names: &[&str]) {
    if names.len() < 2 {
        return;
    }
    let description = match kind {
        FolderKind::Documents => "Index to use.",
        FolderKind::Snippets => "Only snippets of this folder.",
        FolderKind::Memory => "Project to read.",
    };
    schema["properties"][argument] =
        json!({ "type": "string", "enum": names, "description": description });
    if kind == FolderKind::Snippets {
        return;
    }
    match schema["required"].as_array_mut() {
        Some(required) => required.insert(0, argument.into()),
        None => schema["required"] = json!([argument]),
    }
}

#[cfg(test)]
mod tests {
    use pannier::TokenCounter;

    use super::*;

    #[test]
    fn definitions_are_short() {
        let text: String = DEFINITIONS
            .iter()
            .map(|definition| {
                let arguments = (definition.arguments)();
                let options = arguments["properties"].as_object().map_or(0, serde_json::Map::len);
                assert!((1..=6).contains(&options), "{}: {options}", definition.name);
                format!("{}{}{arguments}", definition.name, definition.description)
            })
            .collect();
        // Every host sends the definitions with every request.
        let tokens = pannier_tokens::o200k().count(&text);
        assert!(tokens <= 1_200, "{tokens}");
    }
}
