//! What may change in a chain file while packets flow, and what takes a restart.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_graph::{ChainFile, Change, Input, changes, load, render};
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_nf::{Owned, Sources};
use weir_packet::Prefix;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    list: Vec<String>,
    text: Option<String>,
    /// May not change.
    fixed: u32,
    per_client: bool,
    owns: u8,
}

/// A function with all that `changes` asks about.
struct Odd(Settings);

impl NetworkFunction for Odd {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: weir_nf::Needs::Flow,
        labels: &["other"],
        ..Descriptor::new("odd", "has settings of all kinds")
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<Odd, SettingsError> {
        if let Some(name) = &settings.text {
            set_up.text("text", name)?;
        }
        Ok(Odd(settings))
    }

    fn scope(&self) -> weir_nf::Scope {
        match self.0.per_client {
            true => weir_nf::Scope::Fields(weir_nf::Fields::CLIENT_ADDRESS),
            false => weir_nf::Scope::Flow,
        }
    }

    fn owns(&self) -> Vec<Owned> {
        let addresses = Prefix::new([192, 0, 2, self.0.owns].into(), 32).unwrap();
        vec![Owned {
            addresses,
            ports: None,
            side: None,
        }]
    }

    fn replaces(&self, before: &Odd) -> Result<(), SettingsError> {
        match self.0.fixed == before.0.fixed {
            true => Ok(()),
            false => Err(SettingsError::new("fixed", "states were made by it")),
        }
    }
}

const KINDS: &[Kind] = &[Kind::of::<Odd>()];

struct Texts(BTreeMap<&'static str, String>);

impl Sources for Texts {
    fn text(&mut self, name: &str) -> Result<String, String> {
        self.0
            .get(name)
            .cloned()
            .ok_or_else(|| format!("no {name}"))
    }
}

fn read(text: &str, named: &str) -> ChainFile {
    let input = Input {
        name: "it.yaml",
        text,
        kinds: KINDS,
        overrides: &[],
        seed: 1,
    };
    let mut texts = Texts(BTreeMap::from([("a.txt", named.to_owned())]));
    load(&input, &mut texts).unwrap_or_else(|list| panic!("{}", render(&list)))
}

const BEFORE: &str = "\
chain: edge
nfs:
  - odd: {list: [x, y]}
    as: first
    links: {other: drop}
  - odd: {text: a.txt}
    as: second
";

fn between(after: &str) -> Result<Vec<Change>, Vec<String>> {
    changes(&read(BEFORE, "1"), &read(after, "1"))
}

#[test]
fn settings_and_texts_are_changes_of_their_functions_alone() {
    assert!(between(BEFORE).unwrap().is_empty());
    // A spelling is no change.
    let spelt = BEFORE.replace("{list: [x, y]}", "{ list: ['x', \"y\"] }");
    assert!(between(&spelt).unwrap().is_empty());

    let found = between(&BEFORE.replace("[x, y]", "[x, z]")).unwrap();
    let [change] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((change.chain, change.new.name.as_str()), (0, "first"));
    let told: Vec<_> = (change.settings.iter())
        .map(|c| (c.path.as_str(), c.before.as_deref(), c.after.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("list[1]", Some("\"y\""), None),
            ("list[1]", None, Some("\"z\""))
        ]
    );

    let found = changes(&read(BEFORE, "1"), &read(BEFORE, "2")).unwrap();
    let [change] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(change.new.name, "second");
    assert_eq!(
        (change.settings.len(), &*change.texts),
        (0, &["a.txt".to_owned()][..])
    );
}

#[test]
fn what_takes_a_restart_is_said_with_its_place() {
    for (from, to, part) in [
        ("chain: edge", "chain: core", "`chains`"),
        ("as: first", "as: other", "functions, their names or links"),
        (
            "other: drop",
            "other: second",
            "functions, their names or links",
        ),
        ("nfs:", "flows: {max: 9}\nnfs:", "chain `edge`: `flows`"),
        (
            "nfs:",
            "match: [{protocol: tcp}]\nnfs:",
            "chain `edge`: `match`",
        ),
        (
            "nfs:",
            "ports: [{name: a, side: inside}]\nnfs:",
            "chain `edge`: `ports`",
        ),
        (
            "nfs:",
            "plan: {mode: pipeline}\nnfs:",
            "chain `edge`: `plan`",
        ),
        (
            "nfs:",
            "network: {mode: tap}\nnfs:",
            "`network` has changed",
        ),
        ("nfs:", "threads: {cores: [0]}\nnfs:", "has changed"),
        (
            "[x, y]",
            "[x, y], fixed: 3",
            "function `first`: `fixed`: states were made by it",
        ),
        (
            "[x, y]",
            "[x, y], per_client: true",
            "function `first`: it kept its state per flow",
        ),
    ] {
        assert!(BEFORE.contains(from), "{from}");
        let refused = between(&BEFORE.replace(from, to)).unwrap_err();
        assert!(
            refused.iter().any(|why| why.contains(part)),
            "{to}: {refused:?}"
        );
    }
    // All of it is told at once.
    let both = BEFORE
        .replace("nfs:", "flows: {max: 9}\nnfs:")
        .replace("[x, y]", "[x], fixed: 1");
    assert_eq!(between(&both).unwrap_err().len(), 2);
}

#[test]
fn a_routers_addresses_stay() {
    let after = BEFORE.replace("[x, y]", "[x, y], owns: 7");
    assert_eq!(between(&after).unwrap().len(), 1);
    let router = |text: &str| {
        let network = "network:\n  mode: router\n  ports:\n    inside: {addresses: [10.0.0.1/8]}\n    outside: {addresses: [192.0.2.1/24]}\n";
        read(&format!("{network}{text}"), "1")
    };
    let refused = changes(&router(BEFORE), &router(&after)).unwrap_err();
    assert!(refused[0].contains("stands for"), "{refused:?}");
}
