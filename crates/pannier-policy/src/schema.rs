//! The JSON Schema of policies, for editors and for programs that write policies.
//!
//! It has every component, its keys and their types and ranges. Constraints between values, such as a requirement below its
//! cap, are checked only where a policy is read.

use std::borrow::Cow;

use pannier_core::item::MetadataValue;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::policy::Fields;
use crate::{Policy, ScorerPolicy, WeightedScorer};

impl Policy {
    /// Returns the JSON Schema (2020-12) of policies.
    pub fn schema() -> MetadataValue {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = generator.into_root_schema_for::<Fields>().to_value();
        schema["title"] = json!("Pannier policy");
        // A floor that is a number is a score.
        let floor = &mut schema["properties"]["floor"];
        *floor = json!({ "description": floor["description"].take(), "anyOf": [{ "type": "number" }, floor.take()] });
        let options = options(&schema["$defs"]["slicer"]["anyOf"][1]["oneOf"]);
        if let Some(properties) = schema["properties"].as_object_mut() {
            options.into_iter().for_each(|(key, value)| {
                properties.entry(key).or_insert(value);
            });
        }
        MetadataValue::deserialize(schema).unwrap_or(MetadataValue::Null)
    }
}

/// Returns the keys of all components, each once. Those of a custom component stand in its own table.
fn options(components: &Value) -> Map<String, Value> {
    let is_custom = |component: &&Value| component["properties"]["type"]["const"] == "custom";
    let components = components.as_array().into_iter().flatten();
    let components = components.filter(|component| !is_custom(component));
    let properties = components.filter_map(|component| component["properties"].as_object());
    let mut options: Map<String, Value> = Map::new();
    for (key, value) in properties.flatten().filter(|(key, _)| *key != "type") {
        options.entry(key).or_insert_with(|| value.clone());
    }
    options
}

/// Returns the schema of a component: one of these names, or one of these tables. Where a component contains another one by
/// its name, the options of that one are next to it.
pub(crate) fn one_of(components: &[(&str, &str, Schema)], inner: &str) -> Schema {
    let names: Vec<&str> = components.iter().map(|(name, ..)| *name).collect();
    let table = |(name, description, schema): &(&str, &str, Schema)| {
        let mut table = schema.clone().to_value();
        table["description"] = description.trim().into();
        table["additionalProperties"] = false.into();
        table["properties"]["type"] = json!({ "const": name });
        let required = table["required"].as_array().cloned().unwrap_or_default();
        table["required"] = [Value::from("type")].into_iter().chain(required).collect();
        table
    };
    let mut tables: Value = components.iter().map(table).collect();
    let options = options(&tables);
    for table in tables.as_array_mut().into_iter().flatten() {
        let properties = table["properties"].as_object_mut();
        let Some(properties) = properties.filter(|table| table.contains_key(inner)) else {
            continue;
        };
        for (key, value) in &options {
            properties.entry(key).or_insert_with(|| value.clone());
        }
    }
    json_schema!({ "anyOf": [{ "enum": names }, { "oneOf": tables }] })
}

impl JsonSchema for WeightedScorer {
    fn schema_name() -> Cow<'static, str> {
        "weighted_scorer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ScorerPolicy::json_schema(generator).to_value();
        for table in schema["anyOf"][1]["oneOf"].as_array_mut().into_iter().flatten() {
            table["properties"]["weight"] = json!({ "type": "number", "exclusiveMinimum": 0 });
        }
        Schema::try_from(schema).unwrap_or_default()
    }
}
