//! JSON Schema of templates, for editors; and of a setting's values.

use serde_json::{Value, json};

use crate::read;
use crate::template::canonical::json as json_of;
use crate::template::raw::{MAX_LABELS, MAX_PROCESSORS, MAX_SETTINGS};
use crate::template::setting::{Setting, Type};

/// JSON Schema (draft 2020-12) of a template.
pub fn template_schema() -> Value {
    let name = json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
        "maxLength": read::LONGEST_NAME,
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir template",
        "description": "A network function that is a small graph of processors.",
        "type": "object",
        "required": ["template", "processors"],
        "additionalProperties": false,
        "properties": {
            "template": {"$ref": "#/$defs/name", "description": "Its name."},
            "summary": {"type": "string", "description": "One line about it."},
            "manual": {"type": "string", "description": "What its users should know."},
            "settings": {
                "description": "What a chain may set.",
                "anyOf": [{"type": "null"}, {
                    "type": "object",
                    "maxProperties": MAX_SETTINGS,
                    "propertyNames": {"$ref": "#/$defs/name"},
                    "additionalProperties": {"$ref": "#/$defs/setting"},
                }],
            },
            "labels": {
                "description": "Ways out beside `pass`, and what leaves by them.",
                "anyOf": [{"type": "null"}, {
                    "type": "object",
                    "maxProperties": MAX_LABELS,
                    "propertyNames": {"$ref": "#/$defs/name", "not": {"const": "pass"}},
                    "additionalProperties": {"type": ["string", "null"]},
                }],
            },
            "processors": {
                "description": "What it is made of, in order.",
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_PROCESSORS,
                "items": {"anyOf": [
                    {"type": "string", "description": "A function or template."},
                    {"$ref": "#/$defs/processor"},
                ]},
            },
        },
        "$defs": {
            "name": name,
            "setting": setting(),
            "processor": processor(),
        },
    })
}

fn setting() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "anyOf": [{"required": ["type"]}, {"required": ["values"]}],
        "properties": {
            "type": {"enum": Type::names(), "description": "What it may be."},
            "items": {"enum": Type::names(), "description": "What the entries of a list may be."},
            "values": {
                "description": "The only values it may have.",
                "type": "array",
                "minItems": 1,
            },
            "default": {"description": "Its value where a chain gives none."},
            "required": {"type": "boolean", "description": "A chain must give one."},
            "description": {"type": "string", "description": "What it is for."},
        },
    })
}

fn processor() -> Value {
    json!({
        "description": "A function or template with its settings, in which `$name` stands for a \
                        setting of this template.",
        "type": "object",
        "minProperties": 1,
        "properties": {
            "as": {"$ref": "#/$defs/name", "description": "Its name in this template."},
            "links": {
                "description": "Where its links lead; the next processor if left out.",
                "type": "object",
                "additionalProperties": {
                    "type": "string",
                    "description": "A processor of this template, `exit LABEL` or `drop`.",
                },
            },
            "when": {
                "description": "It is there only if the setting is given and not false, or has \
                                one of these values.",
                "anyOf": [
                    {"type": "string", "pattern": "^\\$"},
                    {"type": "object", "minProperties": 1},
                ],
            },
        },
        "additionalProperties": {"type": ["object", "string", "null"]},
    })
}

/// JSON Schema of one setting's values.
pub(crate) fn of_setting(setting: &Setting) -> Value {
    let of = |kind: Type| match kind {
        Type::Text => json!({"type": ["string", "number"]}),
        Type::Integer => json!({"type": "integer"}),
        Type::Number => json!({"type": "number"}),
        Type::Boolean => json!({"type": "boolean"}),
        Type::List => json!({"type": "array"}),
        Type::Mapping => json!({"type": "object"}),
        Type::Any => json!({}),
    };
    let values: Vec<Value> = setting.values.iter().filter_map(json_of).collect();
    let mut value = match (values.is_empty(), setting.kind) {
        (false, _) => json!({"enum": values}),
        (true, Type::List) => json!({"type": "array", "items": of(setting.items)}),
        (true, kind) => of(kind),
    };
    if !setting.required {
        value = json!({"anyOf": [value, {"type": "null"}]});
    }
    if let Value::Object(keys) = &mut value {
        if !setting.description.is_empty() {
            keys.insert("description".to_owned(), json!(setting.description));
        }
        if let Some(default) = setting.default.as_ref().and_then(json_of) {
            keys.insert("default".to_owned(), default);
        }
    }
    value
}
