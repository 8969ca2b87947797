//! JSON Schema of chain files, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_nf::host::Kind;
use weir_packet::protocol::ip;

use crate::raw::MAX_FUNCTIONS;
use crate::template::TemplateDescription;
use crate::{flows, network, placing, plan_key, read, threads};

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
    definitions.insert("weir-name".to_owned(), name());
    definitions.insert("weir-ports".to_owned(), ports());
    definitions.insert("weir-selectors".to_owned(), selectors());
    definitions.insert("weir-flows".to_owned(), flows_schema());
    definitions.insert("weir-plan".to_owned(), plan_key::schema());
    definitions.insert("weir-network".to_owned(), network::schema());
    definitions.insert("weir-threads".to_owned(), threads::schema());
    definitions.insert("weir-placement".to_owned(), placing::schema());
    let choices = if bare.is_empty() {
        json!(false) // no function is known: no entry can be right
    } else {
        let mut choices = vec![json!({"oneOf": bare})];
        choices.extend(entries);
        json!({"anyOf": choices})
    };
    definitions.insert("weir-entry".to_owned(), choices);
    definitions.insert("weir-chain".to_owned(), chain(false));
    definitions.insert("weir-only-chain".to_owned(), chain(true));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir chain file",
        "description": "A chain of network functions, or several under `chains`.",
        "anyOf": [
            {"$ref": "#/$defs/weir-only-chain"},
            {
                "type": "object",
                "required": ["chains"],
                "additionalProperties": false,
                "properties": {
                    "chains": {
                        "description": "Several chains; a packet goes to the first that takes it.",
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 255,
                        "items": {"$ref": "#/$defs/weir-chain"},
                    },
                    "ports": {"$ref": "#/$defs/weir-ports"},
                    "network": {"$ref": "#/$defs/weir-network"},
                    "threads": {"$ref": "#/$defs/weir-threads"},
                    "placement": {"$ref": "#/$defs/weir-placement"},
                },
            },
        ],
        "$defs": definitions,
    })
}

fn name() -> Value {
    json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
        "maxLength": read::LONGEST_NAME,
    })
}

/// A chain; the only one of a file says what holds for the file.
fn chain(only: bool) -> Value {
    let mut chain = json!({
        "type": "object",
        "required": ["chain", "nfs"],
        "additionalProperties": false,
        "properties": {
            "chain": {"$ref": "#/$defs/weir-name", "description": "Name of the chain."},
            "ports": {"$ref": "#/$defs/weir-ports"},
            "match": {"$ref": "#/$defs/weir-selectors"},
            "flows": {"$ref": "#/$defs/weir-flows"},
            "plan": {"$ref": "#/$defs/weir-plan"},
            "nfs": {
                "description": "Its functions, in order.",
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_FUNCTIONS,
                "items": {"$ref": "#/$defs/weir-entry"},
            },
        },
    });
    if only {
        for key in ["network", "threads", "placement"] {
            chain["properties"][key] = json!({"$ref": format!("#/$defs/weir-{key}")});
        }
    }
    chain
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
    let mut properties = Map::new();
    properties.insert(name.to_owned(), settings);
    properties.insert(
        "as".to_owned(),
        json!({
            "$ref": "#/$defs/weir-name",
            "description": "Name of this instance; the function's if left out.",
            "not": {"enum": ["out", "drop", "flows"]},
        }),
    );
    properties.insert(
        "links".to_owned(),
        json!({
            "description": "Where its links lead; the next entry if left out.",
            "type": "object",
            "additionalProperties": false,
            "properties": links,
        }),
    );
    json!({
        "type": "object",
        "required": [name],
        "additionalProperties": false,
        "properties": properties,
    })
}

fn ports() -> Value {
    json!({
        "description": "Named ports; `inside` and `outside` if left out.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["name", "side"],
            "additionalProperties": false,
            "properties": {
                "name": {"$ref": "#/$defs/weir-name"},
                "side": {"enum": ["inside", "outside"]},
            },
        },
    })
}

/// One value or a list of some.
fn some(value: &Value, description: &str) -> Value {
    json!({
        "description": description,
        "anyOf": [value, {"type": "array", "minItems": 1, "items": value}],
    })
}

fn selectors() -> Value {
    let names: Vec<&str> = ip::NAMES
        .iter()
        .map(|(name, _)| *name)
        .chain(["arp"])
        .collect();
    let protocol = json!({"anyOf": [
        {"enum": names},
        {"type": "integer", "minimum": 0, "maximum": 255},
    ]});
    let number = |most: u16| {
        json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": most},
            {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
        ]})
    };
    json!({
        "description": "Which packets the chain takes: any entry, all keys of it; all packets \
                        if left out.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": false,
            "properties": {
                "protocol": some(&protocol, "IP protocol, or `arp`."),
                "port": some(&number(65_535), "Port of either end: `80`, `8000-8100`."),
                "prefix": some(
                    &json!({"type": "string"}),
                    "Addresses of either end: `10.0.0.0/8`."
                ),
                "vlan": some(&number(4_094), "VLAN id: `10`, `100-199`."),
            },
        },
    })
}

fn flows_schema() -> Value {
    let duration = json!({
        "type": "string",
        "pattern": "^(never|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
        "minLength": 2,
    });
    let timeouts: Map<String, Value> = flows::TIMEOUTS
        .iter()
        .map(|key| {
            let value = match *key {
                "reuse" => json!({
                    "type": "boolean",
                    "description": "A SYN on a closed connection begins a new flow.",
                }),
                _ => duration.clone(),
            };
            ((*key).to_owned(), value)
        })
        .collect();
    let mut properties = Map::new();
    for key in flows::KEYS {
        let value = match key {
            "max" => json!({
                "description": "Most flows at a time.",
                "type": "integer", "minimum": 1, "maximum": flows::MAX_FLOWS,
            }),
            "when-full" => json!({
                "description": "End the longest idle flow, or refuse the new one.",
                "enum": ["evict", "refuse"],
            }),
            "timeouts" => json!({
                "description": "Times without a packet after which a flow ends: `90s`, `2h4m`, \
                                `never`.",
                "anyOf": [
                    {"const": "none"},
                    {"type": "object", "additionalProperties": false, "properties": timeouts},
                ],
            }),
            "inner" => json!({
                "description": "Key by the inner packet of tunnels.", "type": "boolean",
            }),
            "zone" => json!({
                "description": "VLAN and tunnel ids are part of the key.", "type": "boolean",
            }),
            "icmp" => json!({
                "description": "Give ICMP to the conversation it belongs to, or key it by \
                                addresses.",
                "enum": ["conversation", "addresses"],
            }),
            "malformed" => json!({
                "description": "What happens to malformed packets.", "enum": ["drop", "pass"],
            }),
            "track" => json!({
                "description": "Keep flows always, or only where a function needs them.",
                "enum": ["always", "auto"],
            }),
            "buffers" => json!({
                "description": "Memory for side buffers: `64MiB`.",
                "anyOf": [
                    {"type": "integer", "minimum": 0, "maximum": flows::MAX_BUFFERS},
                    {"type": "string", "pattern": "^[0-9]+ *(B|[kK]B|MB|GB|KiB|MiB|GiB)?$"},
                ],
            }),
            _ => json!({
                "description": "Later fragments that may wait for their first.",
                "type": "integer", "minimum": 0, "maximum": flows::MAX_HELD,
            }),
        };
        properties.insert(key.to_owned(), value);
    }
    json!({
        "description": "How the chain keeps flows.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}
