//! `network:`: what it means, and every mistake by its line and column.

mod common;

use common::read;
use weir_graph::{Network, OnFailure, Routing, render};
use weir_packet::Side;

const PORTS: &str = "chain: edge
ports: [{name: lan, side: inside}, {name: wan, side: outside}]
nfs: [monitor]
network:
";

/// A router's ports and what else is written, from line 6.
fn router(rest: &str) -> String {
    format!(
        "{PORTS}  mode: router
  ports:
    lan: {{addresses: [10.0.0.1/24, \"fd00:1::1/64\"], mtu: 1400}}
    wan: {{addresses: [198.51.100.1/24, 198.51.100.129/25], mac: 02:00:00:00:00:01}}
{rest}"
    )
}

fn routing(text: &str) -> Routing {
    match read(text).map(|file| file.network) {
        Ok(Network::Router(routing)) => routing,
        Ok(other) => panic!("{other:?}"),
        Err(list) => panic!("{}", render(&list)),
    }
}

/// `LINE:COLUMN MESSAGE | HELP` of the only error.
#[track_caller]
fn refused(text: &str, expected: &str) {
    let found = match read(text) {
        Ok(file) => format!("nothing: {:?}", file.network),
        Err(list) => list
            .iter()
            .map(|d| {
                let help = d.help.iter().map(|help| format!(" | {help}"));
                let help: String = help.collect();
                format!("{}:{} {}{help}", d.line, d.column, d.message)
            })
            .collect::<Vec<_>>()
            .join("\n"),
    };
    assert_eq!(found, expected, "\n{text}");
}

#[test]
fn a_file_without_the_key_is_a_bump_that_fails_closed() {
    let network = |rest: &str| {
        read(&format!("chain: a\nnfs: [monitor]\n{rest}"))
            .unwrap()
            .network
    };
    let bump = |on_failure| Network::Bump { on_failure };
    assert_eq!(network(""), bump(OnFailure::Closed));
    assert_eq!(network("network: {mode: bump}"), bump(OnFailure::Closed));
    assert_eq!(
        network("network: {on-failure: open}"),
        bump(OnFailure::Open)
    );
    assert_eq!(network("network: {mode: tap}"), Network::Tap);
}

#[test]
fn routes_and_neighbours_find_their_ports() {
    let read = routing(&router(
        "  routes:
    - {to: 0.0.0.0/0, via: 198.51.100.254}
    - {to: \"::/0\", via: \"fe80::1\", port: wan}
    - {to: 10.9.0.0/16, port: lan}
  neighbours:
    - {address: 10.0.0.9, mac: 02:00:00:00:00:09}
",
    ));
    let [lan, wan] = read.ports.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!(
        (lan.side, lan.mtu, lan.mac),
        (Side::Inside, Some(1400), None)
    );
    assert_eq!((wan.side, wan.mtu), (Side::Outside, None));
    assert_eq!(wan.mac.unwrap().to_string(), "02:00:00:00:00:01");
    let ports: Vec<usize> = read.routes.iter().map(|route| route.port).collect();
    assert_eq!(ports, [1, 1, 0]);
    assert_eq!(read.routes[2].via, None);
    assert_eq!(read.neighbours[0].port, 0);
}

#[test]
fn a_network_within_another_is_the_longer_one() {
    let text = format!(
        "{PORTS}  mode: router
  ports: {{lan: {{addresses: 10.0.0.1/8}}, wan: {{addresses: 10.1.0.1/16}}}}
  routes: [{{to: 0.0.0.0/0, via: 10.1.2.3}}, {{to: 172.16.0.0/12, via: 10.2.0.1}}]
"
    );
    let ports: Vec<usize> = routing(&text)
        .routes
        .iter()
        .map(|route| route.port)
        .collect();
    assert_eq!(ports, [1, 0]);
}

#[test]
fn what_is_of_another_mode_is_refused() {
    let case = |network: &str, expected: &str| refused(&format!("{PORTS}{network}"), expected);
    case(
        "  mode: bridge\n",
        "5:9 `bridge` is not one of the values here | values: `bump`, `router`, `tap`",
    );
    case(
        "  mode: router\n  on-failure: open\n  ports: {lan: {addresses: 10.0.0.1/8}, wan: {addresses: 1.2.3.4/8}}\n",
        "6:3 only a bump in the wire has `on-failure` | leave it out: a router that can't work \
         forwards nothing",
    );
    case(
        "  routes: []\n",
        "5:3 only a router has `routes` | write `mode: router`, or leave it out",
    );
    case(
        "  mode: router\n",
        "5:9 a router needs addresses: the key `ports` is missing | write `ports:` and under it, \
         for `lan`, `wan`, a line like `lan: {addresses: [10.0.0.1/24]}`",
    );
    refused(
        "chains:\n  - chain: a\n    nfs: [monitor]\n    network: {mode: tap}\n",
        "4:5 `network` is not a key of one chain among several | write it beside `chains`: it \
         holds for all of them",
    );
}

#[test]
fn bad_ports_are_refused() {
    let case = |lan: &str, wan: &str, expected: &str| {
        let ports = format!("{PORTS}  mode: router\n  ports:\n    lan: {lan}\n    wan: {wan}\n");
        refused(&ports, expected);
    };
    let good = "{addresses: 198.51.100.1/24}";
    for (address, why) in [
        (
            "10.0.0.1",
            "`10.0.0.1` is no address with its network's length | write one like `10.0.0.1/24` or \
             `\"2001:db8::1/64\"`",
        ),
        (
            "10.0.0.1/33",
            "`10.0.0.1/33` is no address with its network's length | write one like `10.0.0.1/24` \
             or `\"2001:db8::1/64\"`",
        ),
        (
            "10.0.0.0/24",
            "10.0.0.0 is no host's address in 10.0.0.0/24 | it names the network or all of its \
             hosts: choose another",
        ),
        (
            "10.0.0.255/24",
            "10.0.0.255 is no host's address in 10.0.0.0/24 | it names the network or all of its \
             hosts: choose another",
        ),
        (
            "224.0.0.1/24",
            "224.0.0.1 is a group's address | give the port an address of a single host",
        ),
    ] {
        let lan = format!("{{addresses: [{address}]}}");
        case(&lan, good, &format!("7:23 {why}"));
    }
    // A network of two hosts has both (RFC 3021).
    routing(&format!(
        "{PORTS}  mode: router\n  ports: {{lan: {{addresses: 10.0.0.0/31}}, wan: {good}}}\n"
    ));
    case(
        "{addresses: 198.51.100.1/25}",
        good,
        "8:22 198.51.100.1 is at edge.yaml:7 already",
    );
    case(
        "{addresses: 198.51.100.7/24}",
        good,
        "8:22 the network 198.51.100.0/24 is on another port already, at edge.yaml:7 | give each \
         port a network of its own",
    );
    case(
        "{addresses: [\"fd00::1/64\"], mtu: 1200}",
        good,
        "7:43 an MTU of 1200 is too small for IPv6 | write 1280 or more (RFC 8200 section 5), or \
         take the IPv6 addresses away",
    );
    case(
        "{addresses: [10.0.0.1/24], mac: 03:00:00:00:00:01}",
        good,
        "7:42 `03:00:00:00:00:01` is the address of a group | write one like `02:00:00:00:00:01`",
    );
    refused(
        &format!("{PORTS}  mode: router\n  ports:\n    wan: {good}\n    dmz: {good}\n"),
        "7:5 the port `lan` has no address | write a line like `lan: {addresses: [10.0.0.1/24]}`\n8:5 \
         there is no port `dmz` | the chain's ports are `lan`, `wan`: `ports` beside `nfs` names \
         others",
    );
}

#[test]
fn bad_routes_and_neighbours_are_refused() {
    let route = |route: &str, expected: &str| {
        refused(&router(&format!("  routes:\n    - {route}\n")), expected);
    };
    for (text, expected) in [
        (
            "{to: 0.0.0.0/0}",
            "10:7 the route leads nowhere | name the next router: `via: 192.0.2.254`; or `port: \
             wan` where the destinations are on its link",
        ),
        (
            "{to: 0.0.0.0/0, via: 203.0.113.1}",
            "10:28 no port has a network with 203.0.113.1 | give an address in the network of a \
             port, or give a port an address there",
        ),
        (
            "{to: 0.0.0.0/0, via: 10.0.0.1}",
            "10:28 10.0.0.1 is the address of the port `lan` itself | give a neighbour's address",
        ),
        (
            "{to: 0.0.0.0/0, via: 10.0.0.5, port: wan}",
            "10:28 10.0.0.5 is on the link of the port `lan` | write `port: lan`, or leave `port` \
             out",
        ),
        (
            "{to: \"::/0\", via: \"fe80::1\"}",
            "10:25 fe80::1 may be on any link | say which port's it is on: `port: NAME`",
        ),
        (
            "{to: \"::/0\", via: 10.0.0.5}",
            "10:25 the route to ::/0 goes via an address of the other family | give a next router \
             of the same family",
        ),
        (
            "{to: 10.9.0.1/16, via: 10.0.0.5}",
            "10:12 `10.9.0.1/16` has bits set after its first 16: write `10.9.0.0/16`",
        ),
        (
            "{to: 224.0.0.0/4, port: lan}",
            "10:12 groups are not routed | leave it out: a router of weir's forwards to single \
             hosts only",
        ),
    ] {
        route(text, expected);
    }
    refused(
        &router(
            "  routes:\n    - {to: 0.0.0.0/0, port: wan}\n    - {to: 0.0.0.0/0, via: 10.0.0.5}\n",
        ),
        "11:12 there is a route to 0.0.0.0/0 already, at edge.yaml:10 | take one of them away: a \
         destination has one next router",
    );
    refused(
        &router("  neighbours:\n    - {address: 10.0.0.9}\n"),
        "10:7 the key `mac` is missing | write a neighbour like `{address: 10.0.0.5, mac: \
         02:00:00:00:00:05}`",
    );
}
