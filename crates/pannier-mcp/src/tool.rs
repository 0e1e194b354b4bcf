//! The tools as clients see them: few, each with one purpose, and a description that tells a model when it is the right one.
//!
//! A tool for which the server has no folder is not listed, because no call of it could succeed. The list depends on the
//! folders' names alone, and is always in the same order.

use std::collections::BTreeMap;

use pannier::Shelf;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use crate::schema::{self, arguments, choice, flag, folder, text, texts, whole};

const TOKENIZER: &str = "What counts tokens: bytes/4 (the default), o200k, cl100k, or the name of a model, as in gpt-5 or claude.";

/// The tools that this shelf can answer.
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

fn reading(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(true).idempotent(true).open_world(false)
}

fn cache(names: &[&str]) -> serde_json::Value {
    folder(names, "Which cache of documents")
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
            "query": text("Words to look for. Only exact words count, in any case."),
            "budget": whole("How many tokens the documents may have together, as in 4000; a token is four bytes."),
        }),
        &required(caches, "cache", &["query", "budget"]),
    );
    Tool::new(
        "resolve_context",
        "Get whole documents that contain given words, best first, within a token budget. Use it when you need complete \
         files, such as a guide or a specification, and know words that stand in them. Documents are never cut; those \
         without any match fill what is left of the budget. To answer a question from passages of many documents, use \
         assemble_context instead.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::resolved())
    .with_annotations(reading(title))
}

fn assemble(caches: &[&str]) -> Tool {
    let title = "Assemble passages for a question";
    let input = arguments(
        &json!({
            "cache": cache(caches),
            "query": text("The question, or what to look for. Words in double quotes must follow each other."),
            "budget": whole("How many tokens the field text may have, as in 2000. The answer says in other fields where each passage stands and what was left out, and is longer for that."),
            "tokenizer": text(TOKENIZER),
            "mode": choice(&["hybrid", "lexical", "semantic"], "By what passages are found: words and vectors (the default), words, or vectors."),
            "paths": texts("Look only at documents whose path matches one of these patterns, as in guides/**."),
            "contains": texts("Look only at passages that have all these texts, in any case."),
            "after": text("Look only at documents dated then or later: 2026-03-01. Those without a date are left out."),
            "before": text("Look only at documents dated earlier: 2026-03-01. Those without a date are left out."),
            "prefer_recent": flag("Of equal scores, put the later document first."),
            "packing": choice(&["greedy", "interleaved", "score-weighted"], "The best first by document (the default), documents in turns, or the best first as found."),
            "max_chunks_per_doc": whole("How many passages of one document may be taken."),
            "neighbours": flag("Take the passages before and after each one with it."),
            "metadata": flag("Tell headings, dates and the terms that were found."),
        }),
        &required(caches, "cache", &["query", "budget"]),
    );
    Tool::new(
        "assemble_context",
        "Find the passages of the indexed documents that answer a question, and pack the best of them into a token budget, \
         each under the path of its document. Use it before you answer or act on anything that the documents may know. \
         The field text is ready to read; chunks cites where each passage stands, and omitted says what was left out and \
         why. For complete files use resolve_context.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::assembled())
    .with_annotations(reading(title))
}

fn get(docs: &[&str]) -> Tool {
    let title = "Get documentation snippets";
    let all = match docs {
        [only] => choice(&[only], "Which root. There is one, so this can be left out."),
        names => choice(names, "Only this root. Without it, all of them together."),
    };
    let types = ["principle", "concept", "policy", "procedure", "design", "spec"];
    let scopes = ["global", "domain", "project"];
    let list = |names: &[&str], description: &str| json!({ "type": "array", "items": { "type": "string", "enum": names }, "description": description });
    let input = arguments(
        &json!({
            "docs": all,
            "areas": list(&types, "First call: only snippets of these types."),
            "scopes": list(&scopes, "First call: only snippets of these scopes."),
            "baseline_only": flag("First call: only snippets that everybody should know."),
            "query": text("First call: what you look for; what has to do with it comes first."),
            "limit": whole("First call: list at most so many."),
            "snippet_ids": texts("Second call: the ids to fetch, from the first call. What they require comes along."),
            "budget": whole("Second call: how many tokens the answer may have. Nothing is cut: above it, the call fails and says what to drop."),
            "tokenizer": text(TOKENIZER),
            "session": text("Second call: a name that only this conversation has, such as its id, and always the same. What it was given before is listed under delivered and not sent again, unless it has changed."),
            "resend": flag("Second call: send again what the session was given before, because you no longer have it."),
        }),
        &[],
    );
    Tool::new(
        "get_context",
        "Get the project's rules and documentation in two calls. First call it without snippet_ids: it lists what there is, \
         with id, description, type, scope and tokens. Then call it with the snippet_ids that matter for your task: it \
         returns their whole texts and everything they require, in reading order. Use it before you write code or \
         documents that have to follow the project's conventions.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::snippets())
    .with_annotations(
        // What a session was given is written down. Nothing is lost by that.
        ToolAnnotations::with_title(title)
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(false),
    )
}

fn packet(contexts: &[&str]) -> Tool {
    let title = "Read what the project remembers";
    let input = arguments(
        &json!({
            "context": folder(contexts, "Which project"),
            "budget": whole("How many tokens the packet may have; 8000 unless the project says otherwise."),
            "query": text("What you are about to do: entries that have to do with it count for more."),
            "files": texts("Names of files you are about to work on. They are not read: entries that speak of them count for more."),
            "format": choice(&["md", "json"], "Markdown (the default), or JSON."),
            "now": text("What time it is, for the age of entries: 2026-03-01. The clock's, if absent."),
            "tokenizer": text(TOKENIZER),
            "max_chars": whole("How many characters the packet may have, too."),
        }),
        &required(contexts, "context", &[]),
    );
    Tool::new(
        "memory_packet",
        "Read what a project remembers, packed into a token budget: its rules (always all of them), current tasks, \
         conventions, recent decisions and learnings. Use it once at the beginning of work on a project, and follow what \
         it says.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::packet())
    .with_annotations(reading(title))
}

fn select() -> Tool {
    let title = "Select what fits a budget";
    let presets = pannier_policy::PolicyRegistry::default();
    let presets: BTreeMap<&str, ()> = presets.policies().map(|(name, _)| (name, ())).collect();
    let presets = presets.into_keys().collect::<Vec<_>>().join(", ");
    let input = arguments(
        &json!({
            "items": { "type": "array", "items": schema::item(), "description": "What to choose from." },
            "budget": whole("How many tokens there are."),
            "target": whole("What the selection aims for; the budget less the reserve, if absent."),
            "reserve": whole("Tokens that are kept for the answer."),
            "policy": {
                "anyOf": [{ "type": "string" }, { "type": "object" }],
                "description": format!("How to choose: the name of a preset ({presets}), or a policy as an object. chat, if absent.")
            },
            "query": text("What you look for: how well the words of an item answer it counts as much as all the policy says."),
            "tokenizer": text(TOKENIZER),
            "now": text("What time it is, for policies that measure age: 2026-03-01T12:00:00Z."),
            "explain": texts("Ids or indices of items: say why each is in or out and what would change that, instead of the selection."),
        }),
        &["items", "budget"],
    );
    Tool::new(
        "select_context",
        "Choose from items that you have (messages, documents, tool outputs, notes) those that fit a token budget best, in \
         the order to send them. Use it when what you want to send or keep is more than fits. With explain, it says why \
         an item is in or out, what it lost to, and the budget or score that would let it in.",
        input,
    )
    .with_title(title)
    .with_raw_output_schema(schema::selected())
    .with_annotations(reading(title))
}
