//! The keys that are read, those of the schema, and those of the manual.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{flows, network, plan_key, ports, raw, schema, selector, threads};

/// Keys of the mappings that `schema` allows, of all its forms.
fn keys(schema: &Value) -> BTreeSet<&str> {
    let own = schema.get("properties").and_then(Value::as_object);
    let own = own
        .into_iter()
        .flat_map(|keys| keys.keys().map(String::as_str));
    let forms = ["anyOf", "oneOf"].into_iter();
    let forms = forms.filter_map(|form| schema.get(form).and_then(Value::as_array));
    own.chain(forms.flatten().flat_map(keys))
        .chain(schema.get("items").into_iter().flat_map(keys))
        .collect()
}

#[test]
fn readers_schema_and_manual_know_the_same_keys() {
    let whole = schema(&[]);
    let of = |path: &str| {
        let found = whole.pointer(path);
        found.unwrap_or_else(|| panic!("the schema has no {path}"))
    };
    let manual = [
        include_str!("../../../docs/chain-file.md"),
        include_str!("../../../docs/network.md"),
        include_str!("../../../docs/plan.md"),
    ]
    .concat();
    let pairs: [(&str, &[&str]); 9] = [
        ("/anyOf/1", &raw::FILE_KEYS),
        ("/$defs/weir-chain", &raw::CHAIN_KEYS),
        ("/$defs/weir-ports", &ports::KEYS),
        ("/$defs/weir-selectors", &selector::KEYS),
        ("/$defs/weir-flows", &flows::KEYS),
        ("/$defs/weir-flows/properties/timeouts", &flows::TIMEOUTS),
        ("/$defs/weir-plan", &plan_key::KEYS),
        ("/$defs/weir-network", &network::KEYS),
        ("/$defs/weir-threads", &threads::KEYS),
    ];
    for (path, read) in pairs {
        let described = keys(of(path));
        let read: BTreeSet<&str> = read.iter().copied().collect();
        assert_eq!(described, read, "{path}: schema, then reader");
        for key in read {
            let written = [format!("`{key}`"), format!("{key}:")];
            let known = written.iter().any(|text| manual.contains(text));
            assert!(known, "the manual does not name `{key}` ({path})");
        }
    }
}
