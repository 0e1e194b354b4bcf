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
    /// Descriptions of arguments, which differ from the help of the flags. None where the name says it.
    descriptions: &'static [(&'static str, &'static str)],
}

const DEFINITIONS: [Definition; 6] = [
    Definition {
        name: "search_docs",
        title: "Search documents",
        description: "Search the indexed documents and return the best-matching passages, each with its path and lines. Call \
                      this before answering questions about the project. To read a whole file, use read_docs.",
        folder: Some((FolderKind::Documents, "index")),
        arguments: SearchRequest::advertised_schema,
        descriptions: &[
            ("query", "Question or keywords; \"quoted words\" match as a phrase"),
            ("budget", "Maximum tokens of the answer; default 2000"),
            ("paths", "Only these, e.g. guides/**"),
            ("after", "Only documents dated from, e.g. 2026-03-01"),
            ("before", ""),
        ],
    },
    Definition {
        name: "read_docs",
        title: "Read documents",
        description: "Return whole documents, by path or by keyword. Documents are never truncated. Call this when passages \
                      from search_docs are not enough.",
        folder: Some((FolderKind::Documents, "index")),
        arguments: ReadRequest::advertised_schema,
        descriptions: &[
            ("paths", "As cited by search_docs"),
            ("query", "Keywords, if the paths are unknown"),
            ("budget", "Maximum tokens of the answer; default 4000"),
        ],
    },
    Definition {
        name: "get_context",
        title: "Get documentation snippets",
        description: "Get the project's rules and documentation snippets in two calls. First, without snippet_ids: list ids \
                      and descriptions. Then, with snippet_ids: return their full text plus required dependencies, in \
                      reading order. Call this before writing code or docs.",
        folder: Some((FolderKind::Snippets, "snippets")),
        arguments: snippet_arguments,
        descriptions: &[
            ("areas", "List only these types: principle, concept, policy, procedure, design, spec"),
            ("query", "List matching snippets first"),
            ("snippet_ids", "Ids from the list"),
            ("budget", "Maximum tokens of the answer. A call above it fails and names ids to drop"),
            ("session", "Conversation id; what it received is sent again only with resend"),
            ("resend", ""),
        ],
    },
    Definition {
        name: "get_memory",
        title: "Read the project's memory",
        description: "Return the project's memory: rules, and the most relevant tasks, conventions, decisions and \
                      learnings. Call once at the start of a task with query, and follow the rules. Then pass ids to read \
                      listed entries whole.",
        folder: Some((FolderKind::Memory, "project")),
        arguments: MemoryRequest::advertised_schema,
        descriptions: &[
            ("query", "The task at hand"),
            ("files", "Files you will work on"),
            ("ids", ""),
            ("budget", "Maximum tokens of the answer; default 8000"),
        ],
    },
    Definition {
        name: "pack_items",
        title: "Pack items into a budget",
        description: "Select from the given items the ones that fit a token budget, in the order to send them. Call this \
                      when you have more text than fits.",
        folder: None,
        arguments: PackRequest::advertised_schema,
        descriptions: &[
            ("items", ""),
            ("budget", "Maximum tokens of the answer"),
            ("query", "Rank items by relevance to this text"),
            (
                "policy",
                "Preset: chat (default), rag, document-qa, code-review, debugging, tool-use or long-running",
            ),
        ],
    },
    Definition {
        name: "recall",
        title: "Recall what was cut",
        description: "Return the exact content of a block that was cut from this conversation. Call this with the id after \
                      the word recall. Use lines or grep for a part of it.",
        folder: None,
        arguments: RecallRequest::advertised_schema,
        descriptions: &[
            ("id", ""),
            ("lines", "Only these, e.g. 10-40"),
            ("grep", "Only lines with this text"),
            ("budget", "Maximum tokens of the answer; default 8000"),
        ],
    },
];

/// The operations of the specification of document caches.
const SPECIFIED: [Definition; 3] = [
    Definition {
        name: "context.resolve",
        title: "Resolve context",
        description: "Return whole documents of a cache for a query, within a budget; a token is four bytes.",
        folder: Some((FolderKind::Documents, "cache")),
        arguments: || schema(&[("query", "string"), ("budget", "integer")]),
        descriptions: &[],
    },
    Definition {
        name: "context.list_caches",
        title: "List caches",
        description: "List the document caches.",
        folder: None,
        arguments: || schema(&[]),
        descriptions: &[],
    },
    Definition {
        name: "context.inspect_cache",
        title: "Inspect a cache",
        description: "Return statistics of a document cache.",
        folder: Some((FolderKind::Documents, "cache")),
        arguments: || schema(&[]),
        descriptions: &[],
    },
];

/// Returns a schema with these required arguments.
fn schema(arguments: &[(&str, &str)]) -> Value {
    let mut schema = json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false });
    for (name, kind) in arguments {
        schema["properties"][*name] = json!({ "type": kind });
        if let Some(required) = schema["required"].as_array_mut() {
            required.push((*name).into());
        }
    }
    schema
}

/// Returns whether the specification names an operation.
pub(crate) fn is_specified(name: &str) -> bool {
    SPECIFIED.iter().any(|definition| definition.name == name)
}

/// Returns the tools that have folders on this shelf, and the operations of the specification if they are listed.
pub(crate) fn tools(shelf: &Shelf, lists_specified: bool) -> Vec<Tool> {
    let specified = if lists_specified { &SPECIFIED[..] } else { &[] };
    DEFINITIONS.iter().chain(specified).filter_map(|definition| definition.tool(shelf)).collect()
}

impl Definition {
    fn tool(&self, shelf: &Shelf) -> Option<Tool> {
        let is_served = match (self.name, shelf.recall_folder()) {
            ("recall", None) => Path::new(RECALL_FOLDER).is_dir(),
            (name, Some(_)) => name == "recall",
            _ => true,
        };
        if !is_served {
            return None;
        }
        let mut arguments = self.advertised();
        if self.name == "context.list_caches" && shelf.document_names().is_empty() {
            return None;
        }
        if let Some((kind, argument)) = self.folder {
            let names = shelf.names(kind);
            if names.is_empty() {
                return None;
            }
            name_folder(&mut arguments, argument, kind, &names);
        }
        self.described(arguments)
    }

    /// Returns the schema of the arguments, with descriptions for a model.
    fn advertised(&self) -> Value {
        let mut arguments = (self.arguments)();
        for (name, description) in self.descriptions {
            let argument = &mut arguments["properties"][*name];
            match (description.is_empty(), argument.as_object_mut()) {
                (true, Some(argument)) => _ = argument.remove("description"),
                _ => argument["description"] = (*description).into(),
            }
        }
        if self.name == "pack_items" {
            arguments["required"] = json!(["items", "budget"]);
            let item = &mut arguments["properties"]["items"]["items"];
            if let Some(item) = item.as_object_mut() {
                item.remove("description");
            }
            // The tool counts the text.
            if let Some(properties) = item["properties"].as_object_mut() {
                properties.remove("tokens");
            }
        }
        arguments
    }

    /// Returns the tool with these arguments.
    fn described(&self, arguments: Value) -> Option<Tool> {
        let Value::Object(arguments) = arguments else { return None };
        // The server records which snippets a session received. What only reads is neither destructive nor repeatable in
        // vain; other hints would say nothing.
        let annotations = match self.name == "get_context" {
            true => ToolAnnotations::new().destructive(false),
            false => ToolAnnotations::new().read_only(true),
        };
        let tool = Tool::new(self.name, self.description, Arc::<JsonObject>::new(arguments));
        Some(tool.with_title(self.title).with_annotations(annotations.open_world(false)))
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
    schema["properties"][argument] = json!({ "type": "string", "enum": names });
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

    /// Returns the tools of servers with one, and with three folders of each kind.
    fn listed(names: &[&str]) -> Vec<Tool> {
        let list = |definition: &Definition| {
            let mut arguments = definition.advertised();
            let options = arguments["properties"].as_object().map_or(0, serde_json::Map::len);
            assert!((1..=6).contains(&options), "{}: {options}", definition.name);
            if let Some((kind, argument)) = definition.folder {
                name_folder(&mut arguments, argument, kind, names);
            }
            definition.described(arguments).unwrap()
        };
        DEFINITIONS.iter().map(list).collect()
    }

    #[test]
    fn described_arguments_are_advertised() {
        for definition in &DEFINITIONS {
            let properties = (definition.arguments)()["properties"].clone();
            let described: Vec<&str> =
                definition.descriptions.iter().map(|(name, _)| *name).collect();
            assert_eq!(
                described.len(),
                properties.as_object().unwrap().len(),
                "{}",
                definition.name
            );
            assert!(described.iter().all(|name| properties.get(name).is_some()), "{described:?}");
        }
    }

    #[test]
    fn definitions_are_short() {
        // Every host sends the definitions with every request.
        for names in [&["handbook"][..], &["handbook", "api", "team-notes"]] {
            let text = serde_json::to_string(&listed(names)).unwrap();
            let tokens = pannier_tokens::o200k().count(&text);
            assert!(tokens <= 1_200, "{} folders: {tokens}\n{text}", names.len());
        }
    }
}
