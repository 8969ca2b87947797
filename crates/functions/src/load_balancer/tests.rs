//! The load balancer through the engine.

use super::*;
use crate::hand_over::OneFlow;
use crate::rewrite::tests::{assert_right, error_about, quoted_ends, with_packet};
use std::collections::BTreeMap;
use weir_nf::host::bind;
use weir_runtime::harness::{Craft, Harness};

fn backend(address: &str, port: Option<u16>) -> Backend {
    Backend {
        address: address.parse().unwrap(),
        port,
        weight: 1,
        drain: false,
    }
}

fn settings(backends: Vec<Backend>) -> Settings {
    Settings {
        services: vec![Service {
            vip: Words::from("192.0.2.10, 2001:db8::10"),
            port: Words::from("80"),
            backends,
            name: Some("web".to_owned()),
            ..Service::default()
        }],
        ..Settings::default()
    }
}

fn ends(frame: &[u8]) -> (String, String) {
    let mut got = None;
    with_packet(frame, |packet| got = Tuple::of(packet));
    let tuple = got.unwrap();
    (
        format!("{} {}", tuple.source, tuple.source_port),
        format!("{} {}", tuple.destination, tuple.destination_port),
    )
}

#[test]
fn a_connection_is_translated_both_ways() {
    for (client, vip, server) in [
        ("198.51.100.7:4000", "192.0.2.10:80", "10.0.0.1:8080"),
        (
            "[2001:db8:5::7]:4000",
            "[2001:db8::10]:80",
            "[2001:db8:1::1]:8080",
        ),
    ] {
        let address = server.parse::<std::net::SocketAddr>().unwrap().ip();
        let mut harness =
            Harness::of::<LoadBalancer>(settings(vec![backend(&address.to_string(), Some(8080))]));
        for protocol in [Craft::tcp, Craft::udp] {
            let there = harness.send_from(
                Side::Outside,
                &protocol(client, vip).payload(b"odd").build(),
            );
            assert_right(&there[0]);
            assert_eq!(ends(&there[0]).1, format!("{address} 8080"));
            let back = harness.send(&protocol(server, client).payload(b"even").build());
            assert_right(&back[0]);
            let vip = vip.parse::<std::net::SocketAddr>().unwrap();
            assert_eq!(ends(&back[0]).0, format!("{} 80", vip.ip()));
        }
        assert_eq!(
            harness.report().flows.seen,
            2,
            "answers belong to their connections"
        );
        harness.finish();
    }
}

#[test]
fn errors_are_translated_both_ways() {
    for (client, vip, server, kind) in [
        ("198.51.100.7:4000", "192.0.2.10:80", "10.0.0.1:80", (3, 4)),
        (
            "[2001:db8:5::7]:4000",
            "[2001:db8::10]:80",
            "[2001:db8:1::1]:80",
            (2, 0),
        ),
    ] {
        let host = |text: &str| text.parse::<std::net::SocketAddr>().unwrap().ip();
        let mut harness =
            Harness::of::<LoadBalancer>(settings(vec![backend(&host(server).to_string(), None)]));
        let there = harness.send(&Craft::tcp(client, vip).build());
        // the server complains about what it got
        let error = error_about(server, client, kind, &there[0], 60);
        let out = harness.send(&error);
        assert_right(&out[0]);
        assert_eq!(quoted_ends(&out[0]).1, format!("{}:80", host(vip)));
        assert!(ends(&out[0]).0.starts_with(&host(vip).to_string()));
        // a router complains about an answer
        let back = harness.send(&Craft::tcp(server, client).build());
        let router = if vip.starts_with('[') {
            "[2001:db8:9::9]:0"
        } else {
            "203.0.113.9:0"
        };
        let error = error_about(router, vip, kind, &back[0], 60);
        let out = harness.send(&error);
        assert_right(&out[0]);
        assert_eq!(quoted_ends(&out[0]).0, format!("{}:80", host(server)));
        assert!(ends(&out[0]).1.starts_with(&host(server).to_string()));
    }
}

fn spread(harness: &mut Harness, connections: u32) -> BTreeMap<u32, String> {
    (0..connections)
        .map(|i| {
            let client = format!("198.51.{}.{}:{}", i >> 8 & 255, i & 255, 1_024 + i % 50_000);
            let out = harness.send(&Craft::tcp(&client, "192.0.2.10:80").flags("S").build());
            (i, ends(&out[0]).1)
        })
        .collect()
}

#[test]
fn connections_are_spread_evenly() {
    let servers = (1..=5)
        .map(|i| backend(&format!("10.0.0.{i}"), None))
        .collect();
    let mut harness = Harness::of::<LoadBalancer>(settings(servers));
    let mut shares = BTreeMap::new();
    for server in spread(&mut harness, 10_000).into_values() {
        *shares.entry(server).or_insert(0u32) += 1;
    }
    assert_eq!(shares.len(), 5);
    // 2,000 each; four standard deviations are 160
    assert!(
        shares.values().all(|n| n.abs_diff(2_000) < 160),
        "{shares:?}"
    );
}

#[test]
fn a_changed_list_moves_few_new_connections() {
    let servers = |n| {
        (1..=n)
            .map(|i| backend(&format!("10.0.0.{i}"), None))
            .collect()
    };
    let before = spread(
        &mut Harness::of::<LoadBalancer>(settings(servers(10))),
        5_000,
    );
    let after = spread(
        &mut Harness::of::<LoadBalancer>(settings(servers(9))),
        5_000,
    );
    let needless = before
        .iter()
        .filter(|(i, server)| !server.starts_with("10.0.0.10 ") && after[i] != **server)
        .count();
    assert!(needless < 5_000 * 3 / 100, "{needless}");
}

#[test]
fn connections_keep_a_server_that_is_no_longer_in_the_list() {
    let make = |servers| {
        let (mut pools, mut warnings, mut sources) = (Vec::new(), Vec::new(), weir_nf::NoSources);
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1);
        bind(LoadBalancer::new(settings(servers), &mut set_up).unwrap())
    };
    let older = make(vec![backend("10.0.0.1", None)]);
    let mut draining = backend("10.0.0.1", None);
    draining.drain = true;
    for newer in [
        make(vec![backend("10.0.0.2", None)]),
        make(vec![draining, backend("10.0.0.2", None)]),
    ] {
        let there = Craft::tcp("198.51.100.7:4000", "192.0.2.10:80").build();
        let back = Craft::tcp("10.0.0.1:80", "198.51.100.7:4000").build();
        let mut flow = OneFlow::new(&older);
        let before = flow.apply(&older, &there).unwrap();
        assert_eq!(ends(&before).1, "10.0.0.1 80");
        assert_eq!(flow.apply(&newer, &there).unwrap(), before);
        let answer = flow.apply(&newer, &back).unwrap();
        assert_eq!(ends(&answer).0, "192.0.2.10 80");
        // a new connection goes to the new server
        let fresh = OneFlow::new(&newer).apply(&newer, &there).unwrap();
        assert_eq!(ends(&fresh).1, "10.0.0.2 80");
    }
}

#[test]
fn services_that_an_operator_may_not_mean_are_warned_of() {
    let service = |vip: &str, port: &str, name: Option<&str>| Service {
        vip: vip.into(),
        port: port.into(),
        backends: vec![backend("10.0.0.1", None)],
        name: name.map(str::to_owned),
        ..Service::default()
    };
    let warned = |services: Vec<Service>| {
        let settings = Settings {
            services,
            ..Settings::default()
        };
        let builder = Harness::builder().with::<LoadBalancer>(settings).unwrap();
        let warnings = builder.warnings().iter();
        warnings
            .map(|w| (w.path.clone(), w.message.clone()))
            .collect::<Vec<_>>()
    };
    let web = || service("192.0.2.10", "80,443", Some("web"));
    assert_eq!(
        warned(vec![web(), service("192.0.2.10", "25", Some("mail"))]),
        []
    );
    for (second, path, message) in [
        (
            service("192.0.2.11", "", Some("b")),
            "services[1]",
            "no port",
        ),
        (
            service("192.0.2.11", "80", Some("web")),
            "services[1].name",
            "same name",
        ),
        (
            service("192.0.2.10", "443", Some("b")),
            "services[1]",
            "gets no connection",
        ),
    ] {
        let found = warned(vec![web(), second]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, path);
        assert!(found[0].1.contains(message), "{found:?}");
    }
}

#[test]
fn a_draining_server_gets_nothing_new_and_nobody_is_a_counted_drop() {
    let mut servers = vec![backend("10.0.0.1", None), backend("10.0.0.2", None)];
    servers[0].drain = true;
    let mut harness = Harness::of::<LoadBalancer>(settings(servers.clone()));
    assert!(
        spread(&mut harness, 200)
            .values()
            .all(|s| s == "10.0.0.2 80")
    );
    servers[1].weight = 0;
    let builder = Harness::builder()
        .with::<LoadBalancer>(settings(servers))
        .unwrap();
    assert!(
        builder
            .warnings()
            .iter()
            .any(|w| w.message.contains("no_server"))
    );
    let mut harness = builder.build();
    assert!(
        harness
            .send(&Craft::tcp("198.51.100.7:4000", "192.0.2.10:80").build())
            .is_empty()
    );
    assert_eq!(
        harness.finish().drops,
        [("load-balancer.no_server".to_owned(), 1)]
    );
}

#[test]
fn fragments_go_to_the_same_server_and_others_pass() {
    let mut harness = Harness::of::<LoadBalancer>(settings(vec![
        backend("10.0.0.1", None),
        backend("10.0.0.2", None),
    ]));
    let udp = |fragment, bytes: &[u8]| {
        Craft::udp("198.51.100.7:4000", "192.0.2.10:80")
            .ip_id(9)
            .fragment(fragment)
            .payload(bytes)
            .build()
    };
    let first = harness.send(&udp(0x2000, &[1; 16]));
    let later = harness.send(&udp(0x0003, &[2; 16]));
    assert_eq!(first[0][30..34], later[0][30..34]);
    assert_right(&later[0]);
    let other = Craft::tcp("198.51.100.7:4000", "192.0.2.10:81").build();
    assert_eq!(harness.send(&other), std::slice::from_ref(&other));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let one = || vec![backend("10.0.0.1", None)];
    let change = |f: fn(&mut Settings)| {
        let mut settings = settings(one());
        f(&mut settings);
        settings
    };
    for (settings, path) in [
        (Settings::default(), "services"),
        (change(|s| s.table_size = 65_536), "table-size"),
        (
            change(|s| s.services[0].vip = Words::default()),
            "services[0].vip",
        ),
        (
            change(|s| s.services[0].port = Words::from("80-70")),
            "services[0].port",
        ),
        (
            change(|s| s.services[0].protocol = Words::from("icmp")),
            "services[0].protocol",
        ),
        (
            change(|s| s.services[0].vip = Words::from("2001:db8::1")),
            "services[0].backends[0].address",
        ),
        (
            change(|s| s.services[0].vip = Words::from("10.0.0.1")),
            "services[0].backends[0].address",
        ),
        (
            change(|s| {
                let twice = s.services[0].backends[0].clone();
                s.services[0].backends.push(twice);
            }),
            "services[0].backends[1].address",
        ),
    ] {
        let error = Harness::builder()
            .with::<LoadBalancer>(settings)
            .unwrap_err();
        assert_eq!(error.path, path, "{error}");
    }
}

#[test]
fn it_stands_for_its_virtual_addresses_and_ports_on_both_sides() {
    let service = |vips: &str, port: &str, backend_at: &str| Service {
        vip: Words::from(vips),
        port: Words::from(port),
        backends: vec![backend(backend_at, None)],
        ..Service::default()
    };
    let settings = Settings {
        services: vec![
            service("192.0.2.10, 192.0.2.11", "80", "10.0.0.1"),
            service("192.0.2.10", "443", "10.0.0.1"),
            service("2001:db8::10", "80", "2001:db8:1::1"),
        ],
        ..Settings::default()
    };
    let builder = Harness::builder().with::<LoadBalancer>(settings).unwrap();
    let stage = builder.stage();
    let owned: Vec<_> = stage
        .nodes
        .iter()
        .flat_map(|n| n.processor.owns())
        .collect();
    // Not for its backends, which answer for themselves.
    let found: Vec<(String, u16)> = owned
        .iter()
        .map(|one| (one.addresses.to_string(), one.ports.unwrap().0))
        .collect();
    let wanted = [
        ("192.0.2.10/32", 80),
        ("192.0.2.11/32", 80),
        ("192.0.2.10/32", 443),
        ("2001:db8::10/128", 80),
    ];
    assert_eq!(
        found,
        wanted.map(|(address, port)| (address.to_owned(), port))
    );
    assert!(owned.iter().all(|one| one.side.is_none()));
}

#[test]
fn a_connection_of_which_the_server_speaks_first_goes_on() {
    for (client, vip, server) in [
        ("198.51.100.7:40000", "192.0.2.10:80", "10.0.0.1:8080"),
        (
            "[2001:db8:5::7]:40000",
            "[2001:db8::10]:80",
            "[2001:db8:1::1]:8080",
        ),
    ] {
        let address = server.parse::<std::net::SocketAddr>().unwrap().ip();
        let vip_address = vip.parse::<std::net::SocketAddr>().unwrap().ip();
        let mut harness =
            Harness::of::<LoadBalancer>(settings(vec![backend(&address.to_string(), Some(8080))]));
        let back = harness.send(&Craft::tcp(server, client).flags("PA").payload(b"x").build());
        assert_right(&back[0]);
        assert_eq!(ends(&back[0]).0, format!("{vip_address} 80"));
        let there = harness.send_from(Side::Outside, &Craft::tcp(client, vip).flags("A").build());
        assert_right(&there[0]);
        assert_eq!(ends(&there[0]).1, format!("{address} 8080"));
        assert_eq!(harness.report().flows.seen, 1, "both are of one connection");
        harness.finish();
    }
}

#[test]
fn a_server_of_two_services_or_without_a_connection_passes() {
    let mut two = settings(vec![backend("10.0.0.1", None)]);
    two.services.push(Service {
        vip: Words::from("192.0.2.11"),
        port: Words::from("80"),
        backends: vec![backend("10.0.0.1", None)],
        name: Some("other".to_owned()),
        ..Service::default()
    });
    let one = settings(vec![backend("10.0.0.1", None)]);
    // Its service takes all ports, so this may be a connection of the server's own.
    let mut all_ports = settings(vec![backend("10.0.0.1", None)]);
    all_ports.services[0].port = Words::default();
    let client = "198.51.100.7:40000";
    for (settings, packet) in [
        (two, Craft::tcp("10.0.0.1:80", client).flags("A")),
        (
            all_ports,
            Craft::tcp("10.0.0.1:45000", "198.51.100.7:443").flags("A"),
        ),
        // It opens a connection of its own.
        (one.clone(), Craft::tcp("10.0.0.1:80", client).flags("S")),
        // Another port than the service's.
        (one.clone(), Craft::tcp("10.0.0.1:81", client).flags("A")),
        // A datagram may be the first of its flow.
        (one, Craft::udp("10.0.0.1:80", client)),
    ] {
        let mut harness = Harness::of::<LoadBalancer>(settings);
        let out = harness.send(&packet.build());
        assert!(
            ends(&out[0]).0.starts_with("10.0.0.1 "),
            "{:?}",
            ends(&out[0])
        );
        harness.finish();
    }
}
