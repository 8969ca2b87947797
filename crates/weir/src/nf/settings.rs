//! A function's settings, read off their JSON Schema.

use serde_json::Value;
use weir_nf::host::Kind;

/// The whole schema of a function's settings, definitions included.
pub(super) fn schema(kind: &Kind) -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let settings = (kind.schema)(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let mut schema = resolve(&settings, &Value::Object(definitions.clone())).clone();
    if let Value::Object(object) = &mut schema
        && !definitions.is_empty()
    {
        object.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

/// Follows a `$ref` into the definitions; returns any other value as it is.
fn resolve<'a>(value: &'a Value, definitions: &'a Value) -> &'a Value {
    let name = value
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|r| r.rsplit('/').next());
    match name.and_then(|name| definitions.get(name)) {
        Some(found) => found,
        None => value,
    }
}

/// The settings as a table for people: name, type, default, meaning.
pub(super) fn table(schema: &Value) -> String {
    let none = Value::Null;
    let definitions = schema.get("$defs").unwrap_or(&none);
    let mut text = String::new();
    rows(&mut text, schema, definitions, 1);
    if text.is_empty() {
        text.push_str("  none\n");
    }
    text
}

/// Settings inside settings are shown to this depth.
const DEPTH: usize = 3;

fn rows(text: &mut String, schema: &Value, definitions: &Value, depth: usize) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let indent = "  ".repeat(depth);
    for (name, property) in properties {
        let default = match property.get("default") {
            None | Some(Value::Null) => String::new(),
            Some(value) => format!(" (default {value})"),
        };
        text.push_str(&format!(
            "{indent}{name}: {}{default}\n",
            kind(property, definitions)
        ));
        let meaning = property
            .get("description")
            .or_else(|| resolve(property, definitions).get("description"))
            .and_then(Value::as_str)
            .unwrap_or("");
        for line in meaning.lines() {
            text.push_str(&format!("{indent}    {line}\n"));
        }
        if depth < DEPTH {
            let inner = inner(property, definitions);
            if inner.get("properties").is_some() {
                rows(text, inner, definitions, depth + 2);
            }
        }
    }
}

/// The structure behind a property: itself, an optional's, a list's.
fn inner<'a>(property: &'a Value, definitions: &'a Value) -> &'a Value {
    let property = resolve(property, definitions);
    if let Some(items) = property.get("items") {
        return inner(items, definitions);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let options = property.get(key).and_then(Value::as_array);
        let structure = options
            .into_iter()
            .flatten()
            .map(|o| resolve(o, definitions));
        if let Some(found) = structure
            .into_iter()
            .find(|o| o.get("properties").is_some())
        {
            return found;
        }
    }
    property
}

/// A property's type in words.
fn kind(property: &Value, definitions: &Value) -> String {
    let property = resolve(property, definitions);
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        return values.iter().map(plain).collect::<Vec<_>>().join(" | ");
    }
    if let Some(value) = property.get("const") {
        return plain(value);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = property.get(key).and_then(Value::as_array) {
            let mut kinds: Vec<String> = options
                .iter()
                .map(|option| kind(option, definitions))
                .filter(|kind| kind != "null")
                .collect();
            kinds.dedup();
            return kinds.join(" | ");
        }
    }
    match property.get("type") {
        Some(Value::String(name)) if name == "array" => {
            let items = property
                .get("items")
                .map_or("anything".to_owned(), |i| kind(i, definitions));
            format!("list of {items}")
        }
        Some(Value::String(name)) => match name.as_str() {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "boolean" => "true | false".to_owned(),
            "object" => "settings".to_owned(),
            other => other.to_owned(),
        },
        Some(Value::Array(names)) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            names
                .map(|name| {
                    kind(
                        &serde_json::json!({"type": name, "items": property.get("items")}),
                        definitions,
                    )
                })
                .collect::<Vec<_>>()
                .join(" | ")
        }
        _ => "anything".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
