//! The OpenAPI document of the JSON API, from the table of routes.

use std::sync::LazyLock;

use pannier::ops::AnswerSchemas;
use serde_json::{Map, Value, json};

use super::{LOCAL_OPTIONS, ROUTES, RequestForm, Route};

/// Descriptions that differ from those of the command, where a name may also be a path.
const DESCRIPTIONS: [(&str, &str); 8] = [
    ("embedder", "Name of an embedding model of the server"),
    ("index", "Name of the index; default: the only one"),
    ("policy", "Name of a preset or of a policy of the server, or a policy"),
    ("project", "Name of the project; default: the only one"),
    ("reranker", "Name of a reranker of the server"),
    ("snippets", "Name of the folder of snippets; default: all"),
    ("template", "Name of a template of the server"),
    ("tokenizer", "Model, encoding, or name of a tokenizer of the server"),
];

/// Returns the document.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}

fn document() -> Value {
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), error_schema());
    let mut answers = AnswerSchemas::new("/components/schemas");
    let mut paths = Map::new();
    for route in &ROUTES {
        for form in route.forms {
            schemas.insert(form.name.to_owned(), request_schema(form));
        }
        let reference =
            |form: &RequestForm| json!({ "$ref": format!("#/components/schemas/{}", form.name) });
        let schema = match route.forms {
            [form] => reference(form),
            forms => json!({ "anyOf": forms.iter().map(reference).collect::<Vec<_>>() }),
        };
        let name = route.path.trim_start_matches("/v1/").replace('-', "_");
        let response = response_name(route);
        schemas.insert(response.clone(), response_schema(route, &mut answers));
        let operation = json!({
            "operationId": name,
            "summary": route.summary,
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
            "responses": responses(&response),
        });
        paths.insert(route.path.to_owned(), json!({ "post": operation }));
    }
    for (name, mut schema) in answers.into_definitions() {
        plain(&mut schema);
        schemas.insert(name, schema);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pannier",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Packs the right context into a model's window.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn request_schema(form: &RequestForm) -> Value {
    let mut schema = (form.schema)();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !LOCAL_OPTIONS.contains(&name.as_str()));
        for (name, description) in DESCRIPTIONS {
            if let Some(property) = properties.get_mut(name).and_then(Value::as_object_mut) {
                property.insert("description".to_owned(), description.into());
            }
        }
        if let Some(policy) = properties.get_mut("policy").and_then(Value::as_object_mut) {
            policy.insert("type".to_owned(), json!(["string", "object"]));
        }
    }
    // The first key of a form makes a request one of this form.
    if let (Some(key), Some(object)) = (form.keys.first(), schema.as_object_mut()) {
        let required = object.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut()
            && !required.contains(&json!(key))
        {
            required.push(json!(key));
        }
    }
    schema
}

/// Returns the name of a route's response, such as `WhatIfResponse`.
fn response_name(route: &Route) -> String {
    let words = route.path.trim_start_matches("/v1/").split('-');
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    words.map(capital).collect::<String>() + "Response"
}

fn response_schema(route: &Route, answers: &mut AnswerSchemas) -> Value {
    let mut choices: Vec<Value> = Vec::new();
    for choice in route.forms.iter().flat_map(|form| (form.answers)(answers)) {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    let answer = match &mut choices[..] {
        [only] => only.take(),
        _ => json!({ "anyOf": choices }),
    };
    json!({
        "type": "object",
        "required": ["answer", "warnings"],
        "properties": {
            "answer": answer,
            "warnings": { "type": "array", "items": { "type": "string" } },
        },
    })
}

/// Removes the formats of integers, which other languages do not have.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

fn error_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": text("A name for programs"),
                "message": text("What happened"),
                "hint": text("What to do"),
            },
        } },
    })
}

fn responses(response: &str) -> Value {
    let json_of =
        |name: &str| json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
    let error = |description: &str| json!({ "description": description, "content": { "application/json": json_of("Error") } });
    json!({
        "200": { "description": "The answer; as text for models if the client accepts only text/plain", "content": {
            "application/json": json_of(response),
            "text/plain": { "schema": { "type": "string" } },
        } },
        "400": error("The request is invalid"),
        "401": error("A bearer token is required"),
        "403": error("The request is for another host, or from a page of another origin"),
        "404": error("An index, an entry or an item does not exist"),
        "405": error("The path does not take the method"),
        "408": error("The body took too long to arrive"),
        "413": error("The request is too large"),
        "415": error("The content type is not application/json"),
        "422": error("The budget cannot be met, or the answer is too large"),
        "500": error("The server failed"),
        "503": error("The call took too long, or an index is damaged"),
    })
}
