//! Rules that name sets, which change.

use std::sync::Arc;

use super::*;
use crate::hand_over::OneFlow;
use weir_nf::host::{SharedProcessor, bind};
use weir_nf::packet::AddressSet;
use weir_runtime::harness::Craft;

fn named(name: &str) -> NamedSet {
    NamedSet {
        name: name.into(),
        set: Arc::new(AddressSet::new(100, 1)),
    }
}

/// Changes a set, as the book of a run does.
fn change(set: &NamedSet, add: &[&str], remove: &[&str]) {
    let mut changes = set.set.change().unwrap();
    for entry in remove {
        assert!(changes.remove(&entry.parse().unwrap()));
    }
    for entry in add {
        assert_eq!(changes.insert(&entry.parse().unwrap()), Ok(true));
    }
    changes.set_version(set.set.version() + 1);
}

fn firewall(
    rules: &[&str],
    on_reload: OnReload,
    set: &NamedSet,
) -> Result<Firewall, SettingsError> {
    let (mut pools, mut warnings, mut sources) = (Vec::new(), Vec::new(), weir_nf::NoSources);
    let find = |name: &str| match *name == *set.name {
        true => Ok(set.clone()),
        false => Err(SettingsError::new("", format!("there is no set `{name}`"))),
    };
    let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1).with_sets(&find);
    let rules = rules.iter().map(|rule| Written::Text((*rule).to_owned()));
    let settings = Settings {
        on_reload,
        rules: rules.collect(),
        ..Settings::default()
    };
    Firewall::new(settings, &mut set_up)
}

fn passes(firewall: &SharedProcessor, from: &str, to: &str) -> bool {
    let packet = Craft::udp(from, to).build();
    OneFlow::new(firewall).apply(firewall, &packet).is_some()
}

#[test]
fn source_and_destination_may_be_of_a_set() {
    let set = named("some");
    let rules = [
        "accept udp to @some, 198.51.100.7 port 53",
        "drop udp from @some,198.51.100.0/24",
        "drop udp to not @some port 99",
    ];
    let made = firewall(&rules, OnReload::Keep, &set).unwrap();
    assert_eq!(made.sets.len(), 1);
    let made = bind(made);
    change(&set, &["192.0.2.0/24", "2001:db8::/32", "203.0.113.9"], &[]);
    for (from, to, wanted) in [
        ("192.0.2.1:1", "10.0.0.1:1", false),
        ("192.0.2.1:1", "192.0.2.9:53", true),
        ("192.0.2.1:1", "198.51.100.7:53", true),
        ("192.0.3.1:1", "10.0.0.1:1", true),
        ("198.51.100.1:1", "10.0.0.1:1", false),
        ("203.0.113.9:1", "10.0.0.1:1", false),
        ("203.0.113.8:1", "10.0.0.1:1", true),
        ("10.0.0.1:1", "10.0.0.2:99", false),
        ("10.0.0.1:1", "203.0.113.9:99", true),
        ("[2001:db8::1]:1", "[2001:db9::1]:1", false),
        ("[2001:db9::1]:1", "[2001:db9::2]:1", true),
    ] {
        assert_eq!(passes(&made, from, to), wanted, "{from} {to}");
    }
    let unknown = firewall(&["drop from 10.0.0.0/8,@soem"], OnReload::Keep, &set).unwrap_err();
    assert_eq!(unknown.path, "rules[0]");
    assert!(
        unknown.message.starts_with("character 22: there is no set"),
        "{unknown}"
    );
}

#[test]
fn open_flows_go_by_on_reload_and_refused_ones_look_again() {
    let there = Craft::udp("192.0.2.1:1", "10.0.0.1:1").build();
    let back = Craft::udp("10.0.0.1:1", "192.0.2.1:1").build();
    for (on_reload, goes_on) in [
        (OnReload::Keep, true),
        (OnReload::Drop, false),
        (OnReload::Reject, false),
    ] {
        let set = named("blocked");
        let made = bind(firewall(&["drop from @blocked"], on_reload, &set).unwrap());
        let mut open = OneFlow::new(&made);
        assert!(open.apply(&made, &there).is_some());
        change(&set, &["192.0.2.1"], &[]);
        for packet in [&there, &back, &there] {
            assert_eq!(
                open.apply(&made, packet).is_some(),
                goes_on,
                "{on_reload:?}"
            );
        }
        let mut refused = OneFlow::new(&made);
        assert!(refused.apply(&made, &there).is_none());
        // Something else changes: it is looked up, and stays what it was.
        change(&set, &["10.9.9.9"], &[]);
        assert!(refused.apply(&made, &there).is_none());
        assert_eq!(open.apply(&made, &back).is_some(), goes_on);
        change(&set, &[], &["192.0.2.1"]);
        for flow in [&mut refused, &mut open] {
            assert!(flow.apply(&made, &there).is_some(), "{on_reload:?}");
        }
    }
}

/// A set that nothing of them is in changes: what was refused as a new connection is one still.
#[test]
fn refused_flows_are_no_open_ones() {
    let there = Craft::udp("192.0.2.1:1", "10.0.0.1:1").build();
    let rules = ["drop state new from 192.0.2.0/24", "drop from @blocked"];
    let set = named("blocked");
    let made = bind(firewall(&rules, OnReload::Drop, &set).unwrap());
    let mut refused = OneFlow::new(&made);
    for entry in ["10.9.9.1", "10.9.9.2", "10.9.9.3"] {
        assert!(refused.apply(&made, &there).is_none(), "{entry}");
        change(&set, &[entry], &[]);
    }
    assert!(refused.apply(&made, &there).is_none());
}

#[test]
fn not_comes_first() {
    let set = named("some");
    for words in ["@some,not,10.0.0.0/8", "@some,any", "10.0.0.0/8,any,@some"] {
        let rule = format!("drop from {words}");
        let refused = firewall(&[&rule], OnReload::Keep, &set);
        let why = refused.map(|_| ()).unwrap_err();
        assert!(why.message.contains("does not go with others"), "{why}");
    }
}

/// A rule with a set does not make another one useless, but for one with the same set.
#[test]
fn rules_behind_one_with_a_set_are_not_told() {
    let set = named("some");
    let told = |rules: &[&str]| {
        let (mut pools, mut warnings) = (Vec::new(), Vec::new());
        let mut sources = weir_nf::NoSources;
        let find = |_: &str| Ok(set.clone());
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1).with_sets(&find);
        let rules = rules.iter().map(|rule| Written::Text((*rule).to_owned()));
        let settings = Settings {
            rules: rules.collect(),
            ..Settings::default()
        };
        Firewall::new(settings, &mut set_up).unwrap();
        warnings.len()
    };
    for (first, second, count) in [
        ("drop from @some", "accept from 10.0.0.0/8", 0),
        ("drop from 10.0.0.0/8", "accept from @some", 0),
        ("drop from not @some", "accept from 10.0.0.0/8", 0),
        ("drop from @some,10.0.0.0/8", "accept from @some", 1),
        ("drop from @some", "accept tcp from @some", 1),
        (
            "drop from not @some",
            "accept tcp from not @some,10.0.0.0/8",
            1,
        ),
        ("drop", "accept from @some", 1),
        (
            "drop from @some to ::/0",
            "accept from 10.0.0.0/8 to @some",
            0,
        ),
    ] {
        assert_eq!(told(&[first, second]), count, "{first}; {second}");
    }
}
