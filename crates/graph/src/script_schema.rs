//! JSON Schema of scripts, for editors.

use serde_json::{Value, json};
use weir_packet::protocol::ip;

use crate::script::{MOST_RUNTIMES, MOST_STEPS};

/// JSON Schema (draft 2020-12) of a script for `weir run --script`.
///
/// Rules that depend on earlier commands (the runtimes there are) can't be written in a schema.
pub fn script_schema() -> Value {
    let names: Vec<&str> = ip::NAMES.iter().map(|(name, _)| *name).collect();
    let protocol = json!({"anyOf": [
        {"enum": names},
        {"type": "integer", "minimum": 0, "maximum": 255},
    ]});
    let port = json!({"anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 65_535},
        {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
    ]});
    let some = |value: &Value, description: &str| {
        json!({
            "description": description,
            "anyOf": [value, {"type": "array", "minItems": 1, "items": value}],
        })
    };
    let runtime = json!({"type": "integer", "minimum": 1, "maximum": MOST_RUNTIMES});
    let mode = json!({
        "description": "How states come over: sent at once, on request, or as an early snapshot \
                        and copies of packets.",
        "enum": ["push", "pull", "reprocess"],
    });
    let moves = json!({
        "description": "Moves flows from one runtime to another; all of them if not said which.",
        "type": "object",
        "required": ["from", "to"],
        "additionalProperties": false,
        "properties": {
            "from": runtime,
            "to": runtime,
            "count": {
                "description": "So many.",
                "type": "integer", "minimum": 1, "maximum": u32::MAX,
            },
            "flows": {
                "description": "Those with an end in this space.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": false,
                "properties": {
                    "prefix": some(&json!({"type": "string"}), "Addresses: `10.0.0.0/8`."),
                    "port": some(&port, "Ports: `80`, `8000-8100`."),
                    "protocol": some(&protocol, "IP protocols."),
                },
            },
            "key": {
                "description": "One flow, or (with a part of the keys) one scope.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": false,
                "properties": {
                    "client": {"description": "`10.0.0.1:1234`", "type": "string"},
                    "server": {"description": "`192.0.2.1:80`", "type": "string"},
                    "protocol": protocol,
                },
            },
            "mode": mode,
            "chain": {"description": "Of this chain only.", "type": "string"},
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir script",
        "description": "Timed commands for `weir run --runtimes N --script FILE`, in order.",
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_STEPS,
        "items": {
            "type": "object",
            "required": ["at"],
            "additionalProperties": false,
            "oneOf": [
                {"required": ["move"]},
                {"required": ["drain"]},
                {"required": ["add"]},
                {"required": ["remove"]},
            ],
            "properties": {
                "at": {
                    "description": "Time after the start, or the number of a packet.",
                    "anyOf": [
                        {
                            "type": "string",
                            "pattern": "^(([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
                            "minLength": 2,
                        },
                        {"const": 0},
                        {
                            "type": "object",
                            "required": ["packet"],
                            "additionalProperties": false,
                            "properties": {"packet": {"type": "integer", "minimum": 0}},
                        },
                    ],
                },
                "move": moves,
                "drain": {
                    "description": "Gives all flows of a runtime to the others.",
                    "anyOf": [
                        runtime,
                        {
                            "type": "object",
                            "required": ["runtime"],
                            "additionalProperties": false,
                            "properties": {"runtime": runtime, "mode": mode},
                        },
                    ],
                },
                "add": {
                    "description": "Starts so many runtimes; they have the next numbers.",
                    "type": "integer", "minimum": 1, "maximum": MOST_RUNTIMES,
                },
                "remove": {
                    "description": "Stops a runtime that was drained.",
                    "type": "integer", "minimum": 1, "maximum": MOST_RUNTIMES,
                },
            },
        },
    })
}
