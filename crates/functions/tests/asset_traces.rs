//! The asset monitor over all real captures.

mod support;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use support::{load, run, traces};
use weir_functions::asset::{AssetMonitor, Settings};
use weir_functions::filter::{Filter, Match, Settings as FilterSettings};
use weir_functions::mac_swap::MacSwap;
use weir_functions::ttl::{Settings as TtlSettings, Ttl};
use weir_nf::host::{FlowOptions, OnMalformed};
use weir_runtime::harness::Harness;

/// With the functions that change or send packets behind it: none of them may panic, lose a
/// packet or leak a frame, whatever the capture holds.
fn harness() -> Harness {
    let flows = FlowOptions {
        malformed: OnMalformed::Pass,
        inner: true,
        ..FlowOptions::default()
    };
    let router = TtlSettings {
        icmp: true,
        address: Some("192.0.2.254".parse().unwrap()),
        address6: Some("2001:db8::ffff".parse().unwrap()),
    };
    let classes = FilterSettings {
        classes: vec![Match {
            to_port: "53".into(),
            ..Match::default()
        }],
        ..FilterSettings::default()
    };
    Harness::builder()
        .with::<AssetMonitor>(Settings::default())
        .unwrap()
        .with::<Ttl>(router)
        .unwrap()
        .with::<Filter>(classes)
        .unwrap()
        .with::<MacSwap>(Default::default())
        .unwrap()
        .flows(flows)
        .build()
}

#[test]
fn real_traffic_names_its_assets() {
    let Some(folder) = traces() else { return };
    let table = fs::read_to_string(folder.join("truth/summary.tsv")).unwrap();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut systems: BTreeMap<String, u64> = BTreeMap::new();
    let (mut seen, mut real, mut named) = (0, 0, 0);
    for line in table.lines().skip(1) {
        let trace = line.split('\t').next().unwrap();
        let mut harness = harness();
        let records = load(&folder.join("traces").join(trace));
        let events = run(&mut harness, &records);
        let mut names = Vec::new();
        for event in &events {
            let asset = &event["asset"];
            let text = |field: &str| asset[field].as_str().unwrap_or("").to_owned();
            *kinds.entry(text("kind")).or_default() += 1;
            if text("kind") == "os" {
                *systems.entry(text("detail")).or_default() += 1;
                // Scanners and traffic generators send no options: nothing tells them apart.
                if text("fingerprint").contains(",sok") || text("fingerprint").contains(",ts") {
                    real += 1;
                    named += u64::from(text("detail") != "unknown");
                }
            } else {
                *kinds
                    .entry(format!("{} {}", text("kind"), text("service")))
                    .or_default() += 1;
            }
            names.push(asset.to_string());
        }
        // Once each (systems: by name, so that only the others can be compared as written).
        names.retain(|name| !name.contains("\"os\""));
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{trace}: an asset was reported twice");
        seen += 1;
    }
    for (name, count) in kinds.iter().chain(&systems) {
        println!("{count:6} {name}");
    }
    assert!(seen > 500);
    let of = |name: &str| kinds.get(name).copied().unwrap_or(0);
    for name in [
        "os",
        "service http",
        "client http",
        "service tls",
        "service dns",
        "service ssh",
        "host ",
    ] {
        assert!(of(name) > 0, "no {name} in all captures");
    }
    println!("{named} of {real} systems with options are named");
    assert!(real > 200 && named * 5 > real * 4, "{named} of {real}");
}

/// What a capture is known to hold, by looking at it with another tool.
#[test]
fn known_hosts_are_found() {
    let Some(folder) = traces() else { return };
    let find = |trace: &str| {
        let mut harness = harness();
        run(&mut harness, &load(&folder.join("traces").join(trace)))
    };
    let has = |events: &[Value], expected: &[(&str, &str)]| {
        let found = events.iter().any(|event| {
            expected.iter().all(|(field, value)| {
                event["asset"][*field].to_string().trim_matches('"') == *value
            })
        });
        assert!(found, "{expected:?} is not in {events:#?}");
    };
    let events = find("b-http/zeek__get.pcap");
    let client = ("ip", "141.142.228.5");
    let server = ("ip", "192.150.187.43");
    has(
        &events,
        &[
            client,
            ("kind", "client"),
            ("detail", "Wget/1.14 (darwin12.2.0)"),
        ],
    );
    has(
        &events,
        &[client, ("kind", "os"), ("detail", "Mac OS X up to 10.9")],
    );
    let apache = ("detail", "Apache/2.4.3 (Fedora)");
    has(
        &events,
        &[server, ("kind", "service"), ("port", "80"), apache],
    );
    has(
        &events,
        &[
            server,
            ("kind", "os"),
            ("detail", "Linux 3.0 to 4.19"),
            ("distance", "17"),
        ],
    );
    let events = find("a-mixed/trex-core__mail_pop.pcap");
    has(
        &events,
        &[("ip", "22.0.0.14"), ("service", "pop3"), ("port", "110")],
    );
}
