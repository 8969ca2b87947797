//! The JSON Schema says the same as the reader: what loads conforms, and what
//! is wrong in its structure does not.

mod common;

use common::{KINDS, read};
use serde_json::{Value, json};
use weir_graph::{
    Templates, composition_schema, describe_templates, load_composition, schema, schema_with,
    template_schema,
};

/// The part of JSON Schema 2020-12 that chain files need; any other keyword is
/// an error here, so that none is ignored.
struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn conforms(&self, schema: &Value, value: &Value) -> bool {
        let keywords = match schema {
            Value::Bool(answer) => return *answer,
            Value::Object(keywords) => keywords,
            other => panic!("{other} is no schema"),
        };
        keywords.iter().all(|(keyword, by)| {
            let any = |by: &Value| -> Vec<bool> {
                let list = by.as_array().expect("a list of schemas");
                list.iter().map(|one| self.conforms(one, value)).collect()
            };
            match keyword.as_str() {
                "$schema" | "title" | "description" | "default" | "format" | "$defs" => true,
                "$ref" => {
                    let path = by.as_str().and_then(|path| path.strip_prefix('#'));
                    let target = self.root.pointer(path.expect("a local reference"));
                    self.conforms(target.expect("a reference that leads somewhere"), value)
                }
                "anyOf" => any(by).contains(&true),
                "oneOf" => any(by).iter().filter(|fits| **fits).count() == 1,
                "not" => !self.conforms(by, value),
                "const" => by == value,
                "enum" => by.as_array().expect("a list").contains(value),
                "type" => match by {
                    Value::Array(types) => types.iter().any(|one| is(one, value)),
                    one => is(one, value),
                },
                "required" => value.as_object().is_none_or(|map| {
                    let keys = by.as_array().expect("a list").iter();
                    keys.filter_map(Value::as_str)
                        .all(|key| map.contains_key(key))
                }),
                "properties" => value.as_object().is_none_or(|map| {
                    let known = by.as_object().expect("schemas");
                    map.iter().all(|(key, value)| {
                        known.get(key).is_none_or(|one| self.conforms(one, value))
                    })
                }),
                "additionalProperties" => value.as_object().is_none_or(|map| {
                    let known = schema["properties"].as_object();
                    map.iter()
                        .filter(|(key, _)| known.is_none_or(|known| !known.contains_key(*key)))
                        .all(|(_, value)| self.conforms(by, value))
                }),
                "minProperties" => value
                    .as_object()
                    .is_none_or(|map| map.len() as u64 >= by.as_u64().expect("a number")),
                "maxProperties" => value
                    .as_object()
                    .is_none_or(|map| map.len() as u64 <= by.as_u64().expect("a number")),
                "propertyNames" => value.as_object().is_none_or(|map| {
                    let mut names = map.keys().map(|key| Value::from(key.as_str()));
                    names.all(|name| self.conforms(by, &name))
                }),
                "items" => value.as_array().is_none_or(|items| {
                    let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
                    items
                        .iter()
                        .skip(before)
                        .all(|item| self.conforms(by, item))
                }),
                "prefixItems" => value.as_array().is_none_or(|items| {
                    let schemas = by.as_array().expect("schemas");
                    schemas
                        .iter()
                        .zip(items)
                        .all(|(one, item)| self.conforms(one, item))
                }),
                "minItems" => value
                    .as_array()
                    .is_none_or(|items| items.len() as u64 >= by.as_u64().expect("a number")),
                "maxItems" => value
                    .as_array()
                    .is_none_or(|items| items.len() as u64 <= by.as_u64().expect("a number")),
                "minLength" => value
                    .as_str()
                    .is_none_or(|text| text.len() as u64 >= by.as_u64().expect("a number")),
                "maxLength" => value
                    .as_str()
                    .is_none_or(|text| text.len() as u64 <= by.as_u64().expect("a number")),
                "minimum" => value
                    .as_f64()
                    .is_none_or(|number| number >= by.as_f64().expect("a number")),
                "maximum" => value
                    .as_f64()
                    .is_none_or(|number| number <= by.as_f64().expect("a number")),
                // Regular expressions are left to editors.
                "pattern" => by.is_string(),
                other => panic!("the keyword {other} is not checked here"),
            }
        })
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    }
}

/// JSON is YAML: the same text goes to the reader and to the schema.
#[track_caller]
fn both(value: &Value, good: bool) {
    let root = schema(KINDS);
    let conforms = Checker { root: &root }.conforms(&root, value);
    assert_eq!(conforms, good, "the schema, of {value}");
    let text = serde_json::to_string_pretty(value).unwrap();
    let loaded = read(&text).map_err(|list| weir_graph::render(&list));
    assert_eq!(loaded.is_ok(), good, "the reader, of {value}: {loaded:?}");
}

#[test]
fn what_loads_conforms() {
    for value in [
        json!({"chain": "a", "nfs": ["monitor"]}),
        json!({"chain": "a", "nfs": [{"monitor": null}, {"monitor": {"rate": 0.5}, "as": "m"}]}),
        json!({"chains": [
            {"chain": "a", "match": [{"vlan": 5}], "nfs": ["ip-check"]},
            {"chain": "b", "nfs": ["ip-check"]},
        ], "ports": [{"name": "p", "side": "inside"}]}),
        json!({
            "chain": "edge",
            "ports": [{"name": "lan", "side": "inside"}, {"name": "wan", "side": "outside"}],
            "match": [
                {"protocol": "tcp", "port": [80, "8000-8100"]},
                {"prefix": ["10.0.0.0/8", "2001:db8::/32"], "protocol": [17, "arp"]},
            ],
            "flows": {
                "max": 5, "when-full": "refuse", "inner": true, "zone": false,
                "timeouts": {"udp": "5m", "other": "never", "reuse": true},
                "icmp": "addresses", "malformed": "pass", "track": "auto",
                "buffers": "64MiB", "held-fragments": 0,
            },
            "nfs": [
                {"firewall": {
                    "default": {"rate-limit": 5},
                    "rules": [{"action": "drop", "source": "10.0.0.1", "ports": [1]}],
                }},
                {"classify": {"ports": [1, 2]}, "links": {"pass": "out", "other": "drop",
                    "late": "last"}},
                {"ids": {"rules": "good.rules"}, "as": "last"},
            ],
        }),
        json!({"chain": "a", "flows": {"timeouts": "none"}, "nfs": ["whitelist"]}),
        json!({"chain": "a", "nfs": ["monitor", "ip-check"], "plan": {
            "mode": "pipeline", "stages": "ip-check", "cores": [0, 1], "instances": {"ip-check": 2},
            "affinity": {"monitor": 3}, "passes": ["hoist"], "parallel": "auto",
            "cycles": {"monitor": 40}, "costs": {"ring": 30, "margin": 1000},
        }}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"cores": 0, "passes": "none"}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"cores": 0, "busy-poll": true}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"first": true}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {"threads": [{"nodes": ["ports", "a/1"], "core": 0}]}}),
        json!({"chains": [{"chain": "a", "nfs": ["monitor"]}], "placement": {"threads": [{"nodes": ["ports"]}], "processes": ["a/2"]}}),
        json!({"chains": [{"chain": "a", "nfs": ["monitor"]}], "threads": {"cores": [1, 0, 1]}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"on-failure": "open"}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"mode": "tap"}}),
        json!({
            "chains": [{"chain": "a", "nfs": ["monitor"]}],
            "network": {
                "mode": "router",
                "ports": {
                    "inside": {"addresses": "10.0.0.1/24", "mtu": 1400, "mac": "02:00:00:00:00:01"},
                    "outside": {"addresses": ["198.51.100.1/24", "fd00:2::1/64"]},
                },
                "routes": [
                    {"to": "0.0.0.0/0", "via": "198.51.100.254"},
                    {"to": "::/0", "via": "fe80::1", "port": "outside"},
                    {"to": "10.7.0.0/16", "port": "inside"},
                ],
                "neighbours": [{"address": "10.0.0.9", "mac": "02-00-00-00-00-09"}],
            },
        }),
    ] {
        both(&value, true);
    }
}

#[test]
fn what_is_wrong_in_structure_does_not_conform() {
    for value in [
        json!({}),
        json!([]),
        json!({"chain": "a"}),
        json!({"nfs": ["monitor"]}),
        json!({"chain": "a", "nfs": []}),
        json!({"chain": "a", "nfs": ["monitr"]}),
        json!({"chain": "a", "nfs": [{"monitr": null}]}),
        json!({"chain": "a", "nfs": [{}]}),
        json!({"chain": "a", "nfs": [{"monitor": null, "rate": 5}]}),
        json!({"chain": "a", "nfs": [{"monitor": {"rate": "fast"}}]}),
        json!({"chain": "a", "nfs": [{"monitor": null, "as": "out"}]}),
        json!({"chain": "a", "nfs": [{"monitor": null, "links": {"other": "out"}}]}),
        json!({"chain": "a", "nfs": [{"firewall": {"defalt": "drop"}}]}),
        json!({"chain": "a", "nfs": [{"firewall": {"default": "drp"}}]}),
        json!({"chain": "a", "nfs": [{"firewall": {"rules": [{"source": "10.0.0.1"}]}}]}),
        json!({"chain": "a", "nfs": [{"firewall": {"rules": [{"action": "drop", "ports": [70000]}]}}]}),
        json!({"chain": "a", "nfs": [{"classify": {"ports": [1]}}]}),
        json!({"chain": "a", "nfs": ["monitor"], "colour": "red"}),
        json!({"chain": "a", "nfs": ["monitor"], "flows": {"max": 0}}),
        json!({"chain": "a", "nfs": ["monitor"], "flows": {"when-full": "panic"}}),
        json!({"chain": "a", "nfs": ["monitor"], "flows": {"timeouts": "never"}}),
        json!({"chain": "a", "nfs": ["monitor"], "flows": {"timeouts": {"tcp": "5m"}}}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": 1}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"mode": "fast"}}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"cores": [-1]}}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"instances": {"monitor": 0}}}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"passes": "parallelise"}}),
        json!({"chain": "a", "nfs": ["monitor"], "plan": {"costs": {"margin": 1001}}}),
        json!({"chain": "a", "nfs": ["monitor"], "match": []}),
        json!({"chain": "a", "nfs": ["monitor"], "match": [{}]}),
        json!({"chain": "a", "nfs": ["monitor"], "match": [{"protocol": "tpc"}]}),
        json!({"chain": "a", "nfs": ["monitor"], "match": [{"port": 70000}]}),
        json!({"chain": "a", "nfs": ["monitor"], "ports": [{"name": "a"}]}),
        json!({"chain": "a", "nfs": ["monitor"], "ports": [{"name": "a", "side": "left"}]}),
        json!({"chain": "a", "nfs": ["monitor"], "network": "router"}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"mode": "bridge"}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"mode": "router"}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"mode": "tap", "on-failure": "open"}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {"routes": [{"to": "0.0.0.0/0"}]}}),
        json!({"chain": "a", "nfs": ["monitor"], "network": {
            "mode": "router", "ports": {"inside": {"mtu": 1400}, "outside": {"addresses": []}},
        }}),
        json!({"chains": [{"chain": "a", "nfs": ["monitor"], "network": {"mode": "tap"}}]}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": [0, 1]}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"cores": []}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"cores": [1024]}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"busy-poll": "yes"}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"first": 1}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {"threads": []}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {"threads": [{"core": 0}]}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {"threads": [{"nodes": ["ports"], "core": 1024}]}}),
        json!({"chain": "a", "nfs": ["monitor"], "placement": {"threads": [{"nodes": ["ports"]}], "processes": "a/2"}}),
        json!({"chain": "a", "nfs": ["monitor"], "threads": {"busy": true}}),
        json!({"chains": [{"chain": "a", "nfs": ["monitor"], "threads": {"cores": 0}}]}),
        json!({"chains": []}),
        json!({"chains": [{"chain": "a", "nfs": ["monitor"]}], "nfs": ["monitor"]}),
    ] {
        both(&value, false);
    }
}

#[test]
fn without_functions_no_entry_conforms() {
    let root = schema(&[]);
    let value = json!({"chain": "a", "nfs": ["monitor"]});
    assert!(!Checker { root: &root }.conforms(&root, &value));
}

fn templates(value: &Value) -> Templates {
    let mut templates = Templates::none();
    let text = serde_json::to_string_pretty(value).unwrap();
    templates.add("t.yaml", text);
    templates
}

#[track_caller]
fn both_of_template(value: &Value, good: bool) {
    let root = template_schema();
    let conforms = Checker { root: &root }.conforms(&root, value);
    assert_eq!(conforms, good, "the schema, of {value}");
    let read = describe_templates(&templates(value), KINDS);
    let read = read.map_err(|list| weir_graph::render(&list));
    assert_eq!(read.is_ok(), good, "the reader, of {value}: {read:?}");
}

fn guard() -> Value {
    json!({
        "template": "guard", "summary": "s", "manual": "m",
        "settings": {
            "ports": {"type": "list", "items": "integer", "default": [1, 2]},
            "mode": {"values": ["a", "b"], "description": "d"},
            "who": {"type": "text", "required": true},
        },
        "labels": {"rest": "what is left", "late": null},
        "processors": [
            "ip-check",
            {"classify": {"ports": "$ports"}, "as": "c", "when": "$ports",
                "links": {"other": "exit rest", "late": "exit late"}},
            {"firewall": "$mode", "when": {"mode": ["a", "b"]}},
            {"monitor": null, "when": {"mode": "a"}, "links": {"pass": "exit pass"}},
        ],
    })
}

#[test]
fn templates_conform_as_they_are_read() {
    both_of_template(&guard(), true);
    both_of_template(&json!({"template": "t", "processors": ["monitor"]}), true);
    for value in [
        json!([]),
        json!({"template": "t"}),
        json!({"processors": ["monitor"]}),
        json!({"template": "t", "processors": []}),
        json!({"template": "t", "processors": [{}]}),
        json!({"template": "t", "processors": ["monitor"], "nfs": []}),
        json!({"template": "t", "processors": ["monitor"], "settings": {"a": {}}}),
        json!({"template": "t", "processors": ["monitor"], "settings": {"a": {"type": "int"}}}),
        json!({"template": "t", "processors": ["monitor"],
            "settings": {"a": {"type": "text", "requird": true}}}),
        json!({"template": "t", "processors": ["monitor"], "labels": {"pass": "p"}}),
        json!({"template": "t", "processors": [{"monitor": null, "when": true}]}),
        json!({"template": "t", "processors": [{"monitor": null, "links": ["out"]}]}),
    ] {
        both_of_template(&value, false);
    }
}

#[test]
fn chains_conform_with_their_templates() {
    let all = templates(&guard());
    let root = schema_with(KINDS, &describe_templates(&all, KINDS).unwrap());
    let case = |nf: Value, good: bool| {
        let value = json!({"chain": "a", "nfs": [nf, "monitor"]});
        let conforms = Checker { root: &root }.conforms(&root, &value);
        assert_eq!(conforms, good, "the schema, of {value}");
        let input = weir_graph::Input {
            name: "edge.yaml",
            text: &value.to_string(),
            kinds: KINDS,
            overrides: &[],
            seed: 7,
        };
        let loaded = weir_graph::load_with(&input, &all, &mut weir_nf::NoSources);
        let loaded = loaded.map_err(|list| weir_graph::render(&list));
        assert_eq!(loaded.is_ok(), good, "the reader, of {value}: {loaded:?}");
    };
    case(json!({"guard": {"who": "me"}}), true);
    let all_of_it = json!({"who": 5, "ports": [3, 4], "mode": null});
    case(
        json!({"guard": all_of_it, "as": "g", "links": {"rest": "out"}}),
        true,
    );
    case(json!("guard"), false);
    case(json!({"guard": null}), false);
    case(json!({"guard": {"ports": [1, 2]}}), false);
    case(json!({"guard": {"who": "me", "prots": [1]}}), false);
    case(json!({"guard": {"who": "me", "ports": [1, "x"]}}), false);
    case(json!({"guard": {"who": "me", "mode": "c"}}), false);
    case(
        json!({"guard": {"who": "me"}, "links": {"other": "out"}}),
        false,
    );
}

/// Each composition to its reader and its schema.
#[test]
fn compositions_conform_as_they_load() {
    let whole = json!({
        "composition": "edge",
        "chain": "edge.yaml",
        "hosts": [{"name": "a", "runtimes": 1}, {"name": "b"}],
        "switch": "b",
        "ports": {"in": ["gen", "lan=x.pcap"], "out": null},
        "replication": "every-8",
        "dispatch": "least-loaded",
        "heartbeat": "50ms",
        "set": "firewall.default=drop",
        "templates": ["mine"],
    });
    let root = composition_schema();
    let both = |value: &Value, good: bool| {
        let conforms = Checker { root: &root }.conforms(&root, value);
        assert_eq!(conforms, good, "the schema, of {value}");
        let text = serde_json::to_string_pretty(value).unwrap();
        let loaded = load_composition("c.yaml", &text).map_err(|list| weir_graph::render(&list));
        assert_eq!(loaded.is_ok(), good, "the reader, of {value}: {loaded:?}");
    };
    both(&whole, true);
    let changed = |pointer: &str, to: Value| {
        let mut value = whole.clone();
        *value.pointer_mut(pointer).unwrap() = to;
        value
    };
    for (pointer, to, good) in [
        ("/ports/in", json!("gen"), true),
        ("/ports/in", json!([]), false),
        ("/ports", json!({"out": "x.pcap"}), false),
        ("/hosts", json!([]), false),
        ("/hosts/0/runtimes", json!(65), false),
        ("/hosts/0", json!({"runtimes": 1}), false),
        ("/dispatch", json!("random"), false),
        ("/chain", json!(["edge.yaml"]), false),
        ("/chain", json!(""), false),
    ] {
        both(&changed(pointer, to), good);
    }
    for key in ["composition", "chain", "hosts", "switch", "ports"] {
        let mut value = whole.clone();
        value.as_object_mut().unwrap().remove(key);
        both(&value, false);
    }
    let mut unknown = whole.clone();
    unknown["name"] = json!("edge");
    both(&unknown, false);
}
