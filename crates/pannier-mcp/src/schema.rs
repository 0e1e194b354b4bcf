//! JSON Schemas, by hand: of the 2020-12 dialect, but with nothing in them that another dialect or a strict client would
//! stumble over. No `$schema`, no `format`, no lists of types. What a schema says is enforced by `arguments.rs`.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// A schema as tools carry it.
pub(crate) fn object(value: Value) -> Arc<JsonObject> {
    Arc::new(match value {
        Value::Object(object) => object,
        // All that are given are objects.
        _ => JsonObject::new(),
    })
}

pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description, "default": false })
}

pub(crate) fn whole(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

pub(crate) fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(crate) fn choice(names: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": names, "description": description })
}

/// One of several folders; where there is one, it need not be said.
pub(crate) fn folder(names: &[&str], what: &str) -> Value {
    match names {
        [only] => choice(&[only], &format!("{what}. There is one, so this can be left out.")),
        names => choice(names, what),
    }
}

/// The arguments of a tool.
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

/// The answer of `resolve_context`.
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

/// The answer of `assemble_context`.
pub(crate) fn assembled() -> Arc<JsonObject> {
    let (text, number, count) = (kind("string"), kind("number"), kind("integer"));
    let leg = output(&json!({ "rank": count, "score": number }), &["rank", "score"]);
    let place = ["chunk_id", "document_path", "sequence", "start", "end", "score", "tokens"];
    let chunk = output(
        &json!({
            "chunk_id": text, "document_path": text, "sequence": count, "start": count,
            "end": count, "score": count, "lexical": leg, "semantic": leg, "tokens": count,
            "text": text, "metadata": kind("object")
        }),
        &[&place[..], &["text"]].concat(),
    );
    let omitted = output(
        &json!({
            "chunk_id": text, "document_path": text, "sequence": count, "start": count,
            "end": count, "score": count, "tokens": count, "reason": text
        }),
        &[&place[..], &["reason"]].concat(),
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

/// The answer of `get_context`, in either phase.
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

/// The answer of `memory_packet`: Markdown under one key, or the packet's parts.
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

/// The answer of `select_context`: the selection, or explanations.
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

/// An item, as `select_context` takes it.
pub(crate) fn item() -> Value {
    json!({
        "type": "object",
        "properties": {
            "content": text("The text. Never empty."),
            "tokens": { "type": "integer", "description": "What it costs; counted if absent." },
            "kind": text("Message, Document, ToolOutput, Memory, SystemPrompt, or a name of your own."),
            "source": text("Where it comes from: Chat, Tool, Rag, or a name of your own."),
            "priority": { "type": "integer", "description": "The greater, the more important." },
            "tags": texts("Topics."),
            "metadata": { "type": "object", "description": "Anything; it is kept." },
            "timestamp": text("When it was made: 2026-03-01T12:00:00Z."),
            "futureRelevanceHint": {
                "type": "number",
                "description": "How relevant it is, from 0 to 1, if something has found that out."
            },
            "pinned": { "type": "boolean", "description": "In whatever happens." },
            "originalTokens": { "type": "integer", "description": "What it cost before it was shortened." },
            "id": text("To find it again."),
            "group": text("Items of one group are in together, or out together."),
            "shortForm": {
                "type": "object",
                "description": "A title that may be sent in its place: content and tokens."
            }
        },
        "required": ["content"],
        "additionalProperties": false
    })
}
