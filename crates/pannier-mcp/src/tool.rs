//! The tools: few, each with one purpose and a description that says when to use it.
//!
//! A tool without a folder is not listed, because each call would fail. The list depends only on the names of the folders, and
//! its order is fixed.

use std::collections::BTreeMap;

use pannier::Shelf;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use crate::schema::{self, arguments, boolean, folder, integer, string, string_array, string_enum};

const TOKENIZER: &str =
    "The tokenizer: bytes/4 (default), o200k, cl100k, or a model, as in gpt-5 or claude.";

/// Returns the tools that have folders on this shelf.
pub(crate) fn tools(shelf: &Shelf) -> Vec<Tool> {
    let mut tools = Vec::new();
    let caches = shelf.document_names();
    if !caches.is_empty() {
        tools.extend([resolve(&caches), assemble(&caches)]);
    }
    let docs = shelf.snippet_names();
    if !docs.is_empty() {
        tools.push(get(&docs));
    }
    let contexts = shelf.memory_names();
    if !contexts.is_empty() {
        tools.push(packet(&contexts));
    }
    tools.push(select());
    tools
}

fn read_only_annotations(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(true).idempotent(true).open_world(false)
}

fn cache(names: &[&str]) -> serde_json::Value {
    folder(names, "The document cache")
}

fn required<'r>(names: &[&str], name: &'r str, others: &[&'r str]) -> Vec<&'r str> {
    let own = (names.len() > 1).then_some(name);
    own.into_iter().chain(others.iter().copied()).collect()
}

fn resolve(caches: &[&str]) -> Tool {
    let title = "Resolve whole documents";
    let input = arguments(
        &json!({
            "cache": cache(caches),
            "query": string("The words to search for: exact words, case-insensitive."),
            "budget": integer("Token budget of all documents together, as in 4000; a token is four bytes."),
        }),
        &required(caches, "cache", &["query", "budget"]),
    );
    Tool::new(
        "resolve_context",
        "Get whole documents that contain given words, best first, within a token budget. Use it when you need complete \
         files, such as a guide or a specification, and know words that occur in them. Documents are never truncated; those \
         without a match fill the remaining budget. To answer a question from passages of many documents, use \
         assemble_context instead.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::resolved())
    .with_annotations(read_only_annotations(title))
}

fn assemble(caches: &[&str]) -> Tool {
    let title = "Assemble passages for a question";
    let input = arguments(
        &json!({
            "cache": cache(caches),
            "query": string("The question or search terms. Words in double quotes match as a phrase."),
            "budget": integer("Token budget of the field text, as in 2000. Other fields list the location of each passage and the omitted passages; they are not counted."),
            "tokenizer": string(TOKENIZER),
            "mode": string_enum(&["hybrid", "lexical", "semantic"], "The retrievers: lexical and semantic (hybrid, default), lexical, or semantic."),
            "paths": string_array("Search only documents whose path matches one of these patterns, as in guides/**."),
            "contains": string_array("Search only passages that contain all these texts, case-insensitive."),
            "after": string("Search only documents dated at or after this date, as in 2026-03-01."),
            "before": string("Search only documents dated before this date, as in 2026-03-01."),
            "prefer_recent": boolean("Rank the later document first if scores are equal."),
            "packing": string_enum(&["greedy", "interleaved", "score-weighted"], "The order: best first, grouped by document (greedy, default); documents in turns; or best first, ungrouped."),
            "max_chunks_per_doc": integer("The maximum number of passages per document."),
            "neighbours": boolean("Include the passages before and after each passage."),
            "metadata": boolean("Include headings, dates and matched terms."),
        }),
        &required(caches, "cache", &["query", "budget"]),
    );
    Tool::new(
        "assemble_context",
        "Find the passages of the indexed documents that answer a question, and pack the best of them into a token budget, \
         each under the path of its document. Use it before you answer or act on a topic that the documents may cover. \
         The field text is ready to read; chunks lists the location of each passage, and omitted lists the dropped passages \
         with reasons. For complete files use resolve_context.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::assembled())
    .with_annotations(read_only_annotations(title))
}

fn get(docs: &[&str]) -> Tool {
    let title = "Get documentation snippets";
    let all = match docs {
        [only] => string_enum(&[only], "The snippet root. There is only one, so this is optional."),
        names => string_enum(names, "Only this snippet root. Default: all."),
    };
    let types = ["principle", "concept", "policy", "procedure", "design", "spec"];
    let scopes = ["global", "domain", "project"];
    let list = |names: &[&str], description: &str| json!({ "type": "array", "items": { "type": "string", "enum": names }, "description": description });
    let input = arguments(
        &json!({
            "docs": all,
            "areas": list(&types, "First call: only snippets of these types."),
            "scopes": list(&scopes, "First call: only snippets of these scopes."),
            "baseline_only": boolean("First call: only baseline snippets."),
            "query": string("First call: search terms; related snippets come first."),
            "limit": integer("First call: the maximum number of snippets."),
            "snippet_ids": string_array("Second call: the ids to fetch, from the first call. Required snippets are added."),
            "budget": integer("Second call: token budget of the response. Nothing is truncated: above the budget, the call fails and says what to drop."),
            "tokenizer": string(TOKENIZER),
            "session": string("Second call: the id of this conversation, the same in every call. Snippets that it already received are listed under delivered and sent again only if they changed."),
            "resend": boolean("Second call: send delivered snippets again, because you no longer have them."),
        }),
        &[],
    );
    Tool::new(
        "get_context",
        "Get the project's rules and documentation in two calls. First call it without snippet_ids: it lists all snippets \
         with id, description, type, scope and tokens. Then call it with the snippet_ids that matter for your task: it \
         returns their full texts and those of all required snippets, in reading order. Use it before you write code or \
         documents that have to follow the project's conventions.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::snippets())
    .with_annotations(
        // The server records deliveries of a session.
        ToolAnnotations::with_title(title)
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(false),
    )
}

fn packet(contexts: &[&str]) -> Tool {
    let title = "Read the project's memory";
    let input = arguments(
        &json!({
            "context": folder(contexts, "The project"),
            "budget": integer("Token budget of the packet. Default: the project's setting, or 8000."),
            "query": string("Your task; related entries rank higher."),
            "files": string_array("Names of files you will work on; entries that mention them rank higher. The files are not read."),
            "format": string_enum(&["md", "json"], "Markdown (default) or JSON."),
            "now": string("The current date for the age of entries, as in 2026-03-01. Default: the clock."),
            "tokenizer": string(TOKENIZER),
            "max_chars": integer("The maximum number of characters of the packet, in addition to the budget."),
        }),
        &required(contexts, "context", &[]),
    );
    Tool::new(
        "memory_packet",
        "Read a project's memory, packed into a token budget: its rules (always complete), current tasks, conventions, recent \
         decisions and learnings. Use it once when you start to work on a project, and follow the rules.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::packet())
    .with_annotations(read_only_annotations(title))
}

fn select() -> Tool {
    let title = "Select items within a budget";
    let presets = pannier_policy::PolicyRegistry::default();
    let presets: BTreeMap<&str, ()> = presets.policies().map(|(name, _)| (name, ())).collect();
    let presets = presets.into_keys().collect::<Vec<_>>().join(", ");
    let input = arguments(
        &json!({
            "items": { "type": "array", "items": schema::item(), "description": "The items to select from." },
            "budget": integer("The model's context window, in tokens."),
            "target": integer("The token count of the selection. Default: budget minus reserve."),
            "reserve": integer("Tokens kept free for the model's output. Default: 0."),
            "policy": {
                "anyOf": [{ "type": "string" }, { "type": "object" }],
                "description": format!("The name of a preset ({presets}), or a policy as an object. Default: chat.")
            },
            "query": string("Search terms: the BM25 score of an item counts as much as the whole policy."),
            "tokenizer": string(TOKENIZER),
            "now": string("The current time for policies that measure age, as in 2026-03-01T12:00:00Z."),
            "explain": string_array("Ids or indices of items to explain instead of returning the selection."),
        }),
        &["items", "budget"],
    );
    Tool::new(
        "select_context",
        "Select from your items (messages, documents, tool outputs, notes) those that best fit a token budget, in the order \
         to send them. Use it when your items exceed the context window. With explain, it returns why an item is in or \
         out, which items displaced it, and the budget or score that would change that.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::selected())
    .with_annotations(read_only_annotations(title))
}
