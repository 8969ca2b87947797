//! JSON Schema of templates, for editors; and of a setting's values.

use serde_json::{Map, Value, json};

use crate::form::name_schema;
use crate::raw::Form;
use crate::template::canonical::json as json_of;
use crate::template::raw;
use crate::template::setting::{Setting, Type};

/// JSON Schema (draft 2020-12) of a template.
pub fn template_schema() -> Value {
    let mut schema = raw::keys().schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("weir template");
    schema["$defs"] = json!({"weir-name": name_schema(), "processor": processor()});
    schema
}

fn processor() -> Value {
    let target = json!({
        "type": "string",
        "description": "A processor of this template, `exit LABEL` or `drop`.",
    });
    let beside = [
        json!({"$ref": "#/$defs/weir-name"}),
        json!({"type": "object", "additionalProperties": target}),
        json!({"anyOf": [
            {"type": "string", "pattern": "^\\$"},
            {"type": "object", "minProperties": 1},
        ]}),
    ];
    let properties: Map<String, Value> = Form::Template.properties(beside).collect();
    json!({
        "description": "A function or template with its settings, in which `$name` stands for a \
                        setting of this template.",
        "type": "object",
        "minProperties": 1,
        "properties": properties,
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
