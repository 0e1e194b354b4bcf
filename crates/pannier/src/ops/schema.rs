//! JSON Schemas of requests, in the subset that strict clients of tools accept: no references, no formats, no lists of
//! types, no constants.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Returns the schema of all options of a request.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(strict).transform(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
        object.insert("additionalProperties".to_owned(), false.into());
    }
    schema.into()
}

fn strict(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["format", "title", "minimum", "default"] {
        object.remove(key);
    }
    if let Some(Value::Array(types)) = object.get("type") {
        let name = types.iter().find(|name| *name != "null").cloned();
        object.insert("type".to_owned(), name.unwrap_or_default());
    }
    // An optional value of its own type is that type, or null.
    if let Some(Value::Array(choices)) = object.get("anyOf")
        && let [Value::Object(own), null] = &choices[..]
        && *null == json!({ "type": "null" })
    {
        let own = own.clone();
        object.remove("anyOf");
        for (key, value) in own {
            object.entry(key).or_insert(value);
        }
    }
    let names = |choices: &Value| -> Option<Vec<Value>> {
        choices.as_array()?.iter().map(|choice| choice.get("const").cloned()).collect()
    };
    if let Some(names) = object.get("oneOf").and_then(names) {
        object.remove("oneOf");
        object.insert("type".to_owned(), "string".into());
        object.insert("enum".to_owned(), names.into());
    }
    object.remove("$defs");
    if let Some(Value::String(text)) = object.get_mut("description") {
        // The first paragraph; the rest is for the manual.
        let first = text.split("\n\n").next().unwrap_or_default();
        *text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}
