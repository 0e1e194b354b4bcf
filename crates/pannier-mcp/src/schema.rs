//! JSON Schemas of arguments and outputs, in the subset that all dialects and strict clients accept: no `$schema`, no `format`,
//! no lists of types. `arguments.rs` enforces the schemas of arguments.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Converts a schema to the type of the SDK.
pub(crate) fn object(value: Value) -> Arc<JsonObject> {
    Arc::new(match value {
        Value::Object(object) => object,
        // All callers pass objects.
        _ => JsonObject::new(),
    })
}

pub(crate) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description, "default": false })
}

pub(crate) fn integer(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

pub(crate) fn string_array(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(crate) fn string_enum(names: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": names, "description": description })
}

/// The name of a folder; optional if there is only one.
pub(crate) fn folder(names: &[&str], what: &str) -> Value {
    match names {
        [only] => string_enum(&[only], &format!("{what}. There is only one, so this is optional.")),
        names => string_enum(names, what),
    }
}

/// The schema of a tool's arguments.
pub(crate) fn arguments(properties: &Value, required: &[&str]) -> Arc<JsonObject> {
    object(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    }))
}

fn output(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn kind(name: &str) -> Value {
    json!({ "type": name })
}

/// The output of `resolve_context`.
pub(crate) fn resolved() -> Arc<JsonObject> {
    let (text, number, count) = (kind("string"), kind("number"), kind("integer"));
    let why = output(
        &json!({ "query_terms": list(&text), "term_matches": count, "total_words": count }),
        &["query_terms", "term_matches", "total_words"],
    );
    let document = output(
        &json!({
            "id": text, "version": text, "content": text, "score": number, "tokens": count,
            "why": why
        }),
        &["id", "version", "content", "score", "tokens", "why"],
    );
    let names = [
        "query",
        "budget",
        "tokens_used",
        "documents_considered",
        "documents_selected",
        "documents_excluded_by_budget",
    ];
    let selection = output(
        &json!({
            "query": text, "budget": count, "tokens_used": count, "documents_considered": count,
            "documents_selected": count, "documents_excluded_by_budget": count
        }),
        &names,
    );
    let properties = json!({ "documents": list(&document), "selection": selection });
    object(output(&properties, &["documents", "selection"]))
}

/// The output of `assemble_context`.
pub(crate) fn assembled() -> Arc<JsonObject> {
    let (text, number, count) = (kind("string"), kind("number"), kind("integer"));
    let ranked_score = output(&json!({ "rank": count, "score": number }), &["rank", "score"]);
    let location = ["chunk_id", "document_path", "sequence", "start", "end", "score", "tokens"];
    let chunk = output(
        &json!({
            "chunk_id": text, "document_path": text, "sequence": count, "start": count,
            "end": count, "score": count, "lexical": ranked_score, "semantic": ranked_score, "tokens": count,
            "text": text, "metadata": kind("object")
        }),
        &[&location[..], &["text"]].concat(),
    );
    let omitted = output(
        &json!({
            "chunk_id": text, "document_path": text, "sequence": count, "start": count,
            "end": count, "score": count, "tokens": count, "reason": text
        }),
        &[&location[..], &["reason"]].concat(),
    );
    object(output(
        &json!({
            "query_hash": text, "state_root": text, "available_tokens": count,
            "total_tokens": count, "overhead_tokens": count, "truncated": kind("boolean"),
            "chunks": list(&chunk), "omitted": list(&omitted), "text": text
        }),
        &[
            "query_hash",
            "state_root",
            "available_tokens",
            "total_tokens",
            "chunks",
            "omitted",
            "text",
        ],
    ))
}

/// The output of `get_context`, in both phases.
pub(crate) fn snippets() -> Arc<JsonObject> {
    let (text, count) = (kind("string"), kind("integer"));
    let snippet = output(
        &json!({
            "id": text, "description": text, "type": text, "scope": text, "path": text,
            "tokens": count, "score": kind("number"), "text": text
        }),
        &["id", "description", "type", "scope"],
    );
    let added = output(
        &json!({ "id": text, "chain": list(&text), "chain_omitted": count }),
        &["id", "chain"],
    );
    object(output(
        &json!({
            "phase": { "type": "integer", "enum": [1, 2] },
            "message": text,
            "tokenizer": text,
            "requested": list(&text),
            "added": list(&added),
            "delivered": list(&text),
            "changed": list(&text),
            "text_tokens": count,
            "snippets": list(&snippet),
            "warnings": list(&kind("object"))
        }),
        &["phase", "snippets", "warnings"],
    ))
}

/// The output of `memory_packet`: Markdown under one key, or the sections of the packet.
pub(crate) fn packet() -> Arc<JsonObject> {
    let (text, count, texts) = (kind("string"), kind("integer"), list(&kind("string")));
    object(output(
        &json!({
            "markdown": text, "generated": text, "budget": count, "tokens_used": count,
            "read_order": texts, "constitution": texts, "tasks": texts, "conventions": texts,
            "decisions": texts, "learnings": texts, "summaries": kind("array"),
            "instruction": text
        }),
        &[],
    ))
}

/// The output of `select_context`: the selection, or explanations.
pub(crate) fn selected() -> Arc<JsonObject> {
    let count = kind("integer");
    let totals = output(
        &json!({
            "candidates": count, "selected": count, "tokens": count, "budget": kind("object"),
            "ledger": kind("object")
        }),
        &["candidates", "selected", "tokens", "budget", "ledger"],
    );
    let item =
        output(&json!({ "content": kind("string"), "tokens": count }), &["content", "tokens"]);
    let explanation = output(
        &json!({ "index": count, "item": kind("object"), "stage": kind("string"), "decision": kind("object") }),
        &["index", "item", "stage", "decision"],
    );
    let properties =
        json!({ "items": list(&item), "totals": totals, "explanations": list(&explanation) });
    object(output(&properties, &[]))
}

/// An item of `select_context`.
pub(crate) fn item() -> Value {
    json!({
        "type": "object",
        "properties": {
            "content": string("The text; not empty."),
            "tokens": { "type": "integer", "description": "The number of tokens. Default: counted." },
            "kind": string("Message, Document, ToolOutput, Memory, SystemPrompt, or a custom kind."),
            "source": string("The origin: Chat, Tool, Rag, or a custom source."),
            "priority": { "type": "integer", "description": "Higher is more important." },
            "tags": string_array("Topics."),
            "metadata": { "type": "object", "description": "Any data; returned unchanged." },
            "timestamp": string("The time of creation, as in 2026-03-01T12:00:00Z."),
            "futureRelevanceHint": {
                "type": "number",
                "description": "The relevance from 0 to 1, if known."
            },
            "pinned": { "type": "boolean", "description": "Always selected." },
            "originalTokens": { "type": "integer", "description": "The number of tokens before it was shortened." },
            "id": string("A name for explanations."),
            "group": string("Items of one group are selected or dropped together."),
            "shortForm": {
                "type": "object",
                "description": "A shorter version that may be sent instead: content and tokens."
            }
        },
        "required": ["content"],
        "additionalProperties": false
    })
}
