//! JSON Schema of chain files, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_nf::host::Kind;

use crate::form::{Form as _, name_schema};
use crate::raw::Form;
use crate::template::TemplateDescription;
use crate::{flows, network, placing, plan_key, ports, raw, selector, sets, threads};

/// JSON Schema (draft 2020-12) of a chain file whose entries are of these
/// kinds, with each one's settings under its name.
pub fn schema(kinds: &[Kind]) -> Value {
    schema_with(kinds, &[])
}

/// [`schema`] of chain files that may name these templates as well.
pub fn schema_with(kinds: &[Kind], templates: &[TemplateDescription]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut entries: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let d = kind.descriptor;
            let settings = (kind.schema)(&mut generator).to_value();
            let settings = json!({"anyOf": [settings, {"type": "null"}]});
            entry(d.name, d.summary, d.labels, settings)
        })
        .collect();
    let mut bare: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"const": kind.descriptor.name, "description": kind.descriptor.summary}))
        .collect();
    for template in templates {
        let labels: Vec<&str> = template.labels.iter().map(|l| l.name.as_str()).collect();
        let mut settings = template.settings_schema();
        let optional = !template.settings.iter().any(|setting| setting.required);
        if optional {
            settings = json!({"anyOf": [settings, {"type": "null"}]});
        }
        entries.push(entry(&template.name, &template.summary, &labels, settings));
        if optional {
            bare.push(json!({"const": template.name, "description": template.summary}));
        }
    }
    let mut definitions: Map<String, Value> = generator.take_definitions(true);
    // Names that no Rust type has, so that settings can't have them.
    definitions.insert("weir-name".to_owned(), name_schema());
    let about = "Named ports; `inside` and `outside` if left out.";
    definitions.insert(
        "weir-ports".to_owned(),
        list(about, &ports::keys().schema()),
    );
    let mut selector = selector::keys().schema();
    selector["minProperties"] = json!(1);
    let about =
        "Which packets the chain takes: any entry, all keys of it; all packets if left out.";
    definitions.insert("weir-selectors".to_owned(), list(about, &selector));
    definitions.insert("weir-flows".to_owned(), flows::keys().schema());
    definitions.insert("weir-plan".to_owned(), plan_key::keys().schema());
    definitions.insert("weir-network".to_owned(), network::schema());
    definitions.insert("weir-threads".to_owned(), threads::keys().schema());
    definitions.insert("weir-placement".to_owned(), placing::keys().schema());
    definitions.insert("weir-sets".to_owned(), sets::list().schema());
    let choices = if bare.is_empty() {
        json!(false) // no function is known: no entry can be right
    } else {
        let mut choices = vec![json!({"oneOf": bare})];
        choices.extend(entries);
        json!({"anyOf": choices})
    };
    definitions.insert("weir-entry".to_owned(), choices);
    definitions.insert("weir-chain".to_owned(), raw::chain_keys(false).schema());
    definitions.insert("weir-only-chain".to_owned(), raw::chain_keys(true).schema());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir chain file",
        "description": "A chain of network functions, or several under `chains`.",
        "anyOf": [
            {"$ref": "#/$defs/weir-only-chain"},
            raw::file_keys().schema(),
        ],
        "$defs": definitions,
    })
}

/// A list of at least one.
fn list(description: &str, items: &Value) -> Value {
    json!({"description": description, "type": "array", "minItems": 1, "items": items})
}

/// An entry with settings, or with `as` or `links`.
fn entry(name: &str, summary: &str, labels: &[&str], mut settings: Value) -> Value {
    if let Value::Object(keys) = &mut settings {
        keys.insert("description".to_owned(), json!(summary));
    }
    let target = json!({
        "type": "string",
        "description": "An instance of this chain, `out` or `drop`.",
    });
    let links: Map<String, Value> = ["pass"]
        .iter()
        .chain(labels)
        .map(|label| ((*label).to_owned(), target.clone()))
        .collect();
    let beside = [
        json!({"$ref": "#/$defs/weir-name", "not": {"enum": ["out", "drop", "flows"]}}),
        json!({"type": "object", "additionalProperties": false, "properties": links}),
    ];
    let mut properties = Map::new();
    properties.insert(name.to_owned(), settings);
    properties.extend(Form::Chain.properties(beside));
    json!({
        "type": "object",
        "required": [name],
        "additionalProperties": false,
        "properties": properties,
    })
}
