//! The reader of `network:`.

use std::net::IpAddr;

use weir_packet::{Prefix, PrefixError};

use super::keys::{ROUTER_KEYS, Written, WrittenHop, keys, neighbour_keys, port_keys, route_keys};
use super::{
    LEAST_MTU6, MOST_ADDRESSES, MOST_NEIGHBOURS, MOST_ROUTES, Mode, Network, OnFailure,
    PortAddress, Route, RoutedPort, Routing, StaticNeighbour,
};
use crate::diagnostic::{Report, Span};
use crate::form::Form as _;
use crate::keys::Keys;
use crate::nearest::listed;
use crate::ports::PortDecl;
use crate::read;
use crate::tree::{Node, shorten};

/// Reads the mapping. `declared` are the ports that the chains of the file
/// name.
pub(crate) fn read(node: &Node, declared: &[PortDecl], report: &mut Report<'_>) -> Network {
    let Some(written) = keys().read(node, report) else {
        return Network::default();
    };
    let mode = match written.mode {
        Some(mode) => mode,
        // It could not be read.
        None if node.get("mode").is_some() => return Network::default(),
        None => Mode::Bump,
    };
    for (key, _) in node.entries().unwrap_or(&[]) {
        let name = key.text().unwrap_or("");
        if mode != Mode::Router && ROUTER_KEYS.contains(&name) {
            report.error_help(
                key.span,
                format!("only a router has `{name}`"),
                "write `mode: router`, or leave it out",
            );
        }
        if mode != Mode::Bump && name == "on-failure" {
            report.error_help(
                key.span,
                "only a bump in the wire has `on-failure`",
                match mode {
                    Mode::Router => "leave it out: a router that can't work forwards nothing",
                    _ => "leave it out: nothing passes a tap",
                },
            );
        }
    }
    match mode {
        Mode::Bump => Network::Bump {
            on_failure: written.on_failure.unwrap_or(OnFailure::Closed),
        },
        Mode::Tap => Network::Tap,
        Mode::Router => Network::Router(routing(node, &written, declared, report)),
    }
}

fn routing(
    node: &Node,
    written: &Written,
    declared: &[PortDecl],
    report: &mut Report<'_>,
) -> Routing {
    let mut routing = Routing::default();
    let before = report.errors();
    match &written.ports {
        Some(value) => ports(value, declared, &mut routing, report),
        None => report.error_help(
            node.get("mode").map_or(node.span, |mode| mode.span),
            "a router needs addresses: the key `ports` is missing",
            format!(
                "write `ports:` and under it, for {}, a line like `{}: {{addresses: [10.0.0.1/24]}}`",
                listed(&names(declared)),
                declared.first().map_or("lan", |port| &port.name),
            ),
        ),
    }
    // Routes lead to ports: without those there is nothing to hold them against.
    if report.errors() == before {
        routes(written.routes.as_ref(), &mut routing, report);
        neighbours(written.neighbours.as_ref(), &mut routing, report);
    }
    routing
}

fn names(ports: &[PortDecl]) -> Vec<&str> {
    ports.iter().map(|port| port.name.as_str()).collect()
}

fn ports(node: &Node, declared: &[PortDecl], routing: &mut Routing, report: &mut Report<'_>) {
    let what = "a mapping from ports to addresses like `lan: {addresses: [10.0.0.1/24]}`";
    let Some(entries) = read::map(node, what, report) else {
        return;
    };
    for (key, _) in entries {
        let name = key.text().unwrap_or("");
        if !declared.iter().any(|port| port.name == name) {
            report.error_help(
                key.span,
                format!("there is no port `{}`", shorten(name)),
                format!(
                    "the chain's ports are {}: `ports` beside `nfs` names others",
                    listed(&names(declared))
                ),
            );
        }
    }
    let mut taken: Vec<(usize, PortAddress, Span)> = Vec::new();
    for decl in declared {
        let found = entries
            .iter()
            .find(|(key, _)| key.text() == Some(&decl.name));
        let Some((key, value)) = found else {
            report.error_help(
                node.span,
                format!("the port `{}` has no address", decl.name),
                format!(
                    "write a line like `{}: {{addresses: [10.0.0.1/24]}}`",
                    decl.name
                ),
            );
            continue;
        };
        let mut port = RoutedPort {
            name: decl.name.clone(),
            side: decl.side,
            addresses: Vec::new(),
            mtu: None,
            mac: None,
        };
        let number = routing.ports.len();
        self::port((key, value), number, &mut port, &mut taken, report);
        routing.ports.push(port);
    }
}

fn port(
    (name, node): (&Node, &Node),
    number: usize,
    port: &mut RoutedPort,
    taken: &mut Vec<(usize, PortAddress, Span)>,
    report: &mut Report<'_>,
) {
    let Some(written) = port_keys().read(node, report) else {
        return;
    };
    port.mtu = written.mtu.map(|(mtu, _)| mtu as u16);
    port.mac = written.mac;
    if let Some(value) = &written.addresses {
        let what = "an address with its network's length like `10.0.0.1/24`";
        let items = read::one_or_more(value, what, report).unwrap_or(&[]);
        if let Some(item) = items.get(MOST_ADDRESSES) {
            let message = format!("more than {MOST_ADDRESSES} addresses on a port");
            report.error(item.span, message);
        }
        for item in items.iter().take(MOST_ADDRESSES) {
            port.addresses.extend(address(item, number, taken, report));
        }
    }
    if written.addresses.is_none() {
        report.error_help(
            name.span,
            format!("the port `{}` has no address", port.name),
            "write `addresses: [10.0.0.1/24]`, with the network's length",
        );
    }
    if let Some((mtu, mtu_span)) = written.mtu
        && mtu < u64::from(LEAST_MTU6)
        && port.addresses.iter().any(|a| a.address.is_ipv6())
    {
        report.error_help(
            mtu_span,
            format!("an MTU of {mtu} is too small for IPv6"),
            format!(
                "write {LEAST_MTU6} or more (RFC 8200 section 5), or take the IPv6 addresses away"
            ),
        );
    }
}

/// An address of the port of this number, with its network's length.
fn address(
    item: &Node,
    port: usize,
    taken: &mut Vec<(usize, PortAddress, Span)>,
    report: &mut Report<'_>,
) -> Option<PortAddress> {
    let what = "an address with its network's length like `10.0.0.1/24`";
    let text = read::word(item, what, report)?;
    let bad = |report: &mut Report<'_>| {
        report.error_help(
            item.span,
            format!(
                "`{}` is no address with its network's length",
                shorten(text)
            ),
            "write one like `10.0.0.1/24` or `\"2001:db8::1/64\"`",
        );
        None
    };
    let Some((address, length)) = text.split_once('/') else {
        return bad(report);
    };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else {
        return bad(report);
    };
    let written = PortAddress { address, length };
    let Some(network) = written.network() else {
        return bad(report);
    };
    if let Some(why) = no_host(address) {
        report.error_help(
            item.span,
            format!("{address} is {why}"),
            "give the port an address of a single host",
        );
        return None;
    }
    if is_first_or_last(address, network.address(), length) {
        report.error_help(
            item.span,
            format!("{address} is no host's address in {network}"),
            "it names the network or all of its hosts: choose another",
        );
        return None;
    }
    let link_local = matches!(address, IpAddr::V6(a) if a.is_unicast_link_local());
    for (at, other, span) in taken.iter() {
        let there = report.texts.line(*span);
        if other.address == address {
            report.error(item.span, format!("{address} is at {there} already"));
            return None;
        }
        // A network on two ports: nobody could say where its hosts are.
        let same = other.network() == Some(network);
        if same && !link_local && *at != port {
            report.error_help(
                item.span,
                format!("the network {network} is on another port already, at {there}"),
                "give each port a network of its own",
            );
            return None;
        }
    }
    taken.push((port, written, item.span));
    Some(written)
}

/// True if an address names its network or all of the network's hosts. RFC 3021: a network of two
/// addresses has no others; RFC 4291 section 2.6.1 gives the first of an IPv6 network to all routers.
fn is_first_or_last(address: IpAddr, network: IpAddr, length: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(net)) => {
            length <= 30 && (a == net || u32::from(a) == u32::from(net) | (u32::MAX >> length))
        }
        _ => length <= 126 && address == network,
    }
}

/// Why an address is no host's, if it is none.
fn no_host(address: IpAddr) -> Option<&'static str> {
    let broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast() || a.octets()[0] >= 240);
    let nothing = matches!(address, IpAddr::V4(a) if a.octets()[0] == 0);
    if address.is_multicast() {
        Some("a group's address")
    } else if address.is_loopback() {
        Some("every host's own address")
    } else if address.is_unspecified() || nothing {
        Some("no address at all")
    } else if broadcast {
        Some("reserved")
    } else {
        None
    }
}

fn routes(node: Option<&Node>, routing: &mut Routing, report: &mut Report<'_>) {
    let Some(node) = node else {
        return;
    };
    let what = "a list of routes like `{to: 0.0.0.0/0, via: 192.0.2.254}`";
    let items = read::list(node, what, report).unwrap_or(&[]);
    if let Some(item) = items.get(MOST_ROUTES) {
        return report.error(item.span, format!("more than {MOST_ROUTES} routes"));
    }
    let mut taken: std::collections::BTreeMap<(IpAddr, u8), Span> = Default::default();
    let keys = route_keys();
    for item in items {
        let Some(route) = route(item, &keys, routing, report) else {
            continue;
        };
        let key = (route.to.address(), route.to.length());
        let span = item.get("to").map_or(item.span, |to| to.span);
        if let Some(first) = taken.insert(key, span) {
            let first = report.texts.line(first);
            report.error_help(
                span,
                format!("there is a route to {} already, at {first}", route.to),
                "take one of them away: a destination has one next router",
            );
            continue;
        }
        routing.routes.push(route);
    }
}

fn route(
    item: &Node,
    keys: &Keys<WrittenHop>,
    routing: &Routing,
    report: &mut Report<'_>,
) -> Option<Route> {
    let written = keys.read(item, report)?;
    let value = written.whom.as_ref()?;
    let text = read::word(value, "a prefix like `0.0.0.0/0` or `\"::/0\"`", report)?;
    let to: Prefix = text
        .parse()
        .map_err(|why: PrefixError| {
            report.error(value.span, format!("`{}` {why}", shorten(text)));
        })
        .ok()?;
    if to.length() > 0 && to.address().is_multicast() {
        report.error_help(
            value.span,
            "groups are not routed",
            "leave it out: a router of weir's forwards to single hosts only",
        );
        return None;
    }
    let port = port_key(&written, routing, report)?;
    let Some(value) = &written.via else {
        let Some(port) = port else {
            report.error_help(
                item.span,
                "the route leads nowhere",
                "name the next router: `via: 192.0.2.254`; or `port: wan` where the destinations \
                 are on its link",
            );
            return None;
        };
        return Some(Route {
            to,
            via: None,
            port,
        });
    };
    let via = host(value, report)?;
    if via.is_ipv4() != to.address().is_ipv4() {
        report.error_help(
            value.span,
            format!("the route to {to} goes via an address of the other family"),
            "give a next router of the same family",
        );
        return None;
    }
    Some(Route {
        to,
        via: Some(via),
        port: reached(value, via, port, routing, report)?,
    })
}

/// The number of the port that `port:` names; none where it is not there.
fn port_key(
    written: &WrittenHop,
    routing: &Routing,
    report: &mut Report<'_>,
) -> Option<Option<usize>> {
    let Some(value) = &written.port else {
        return Some(None);
    };
    let choices: Vec<(&str, usize)> = routing
        .ports
        .iter()
        .enumerate()
        .map(|(number, port)| (port.name.as_str(), number))
        .collect();
    read::choice(value, &choices, report).map(Some)
}

/// The address of a host.
fn host(value: &Node, report: &mut Report<'_>) -> Option<IpAddr> {
    let text = read::word(value, "an address like `192.0.2.254`", report)?;
    let fault = match text.parse::<IpAddr>() {
        Ok(address) => match no_host(address) {
            None => return Some(address),
            Some(why) => format!("{address} is {why}"),
        },
        Err(_) => format!("`{}` is no address", shorten(text)),
    };
    report.error_help(
        value.span,
        fault,
        "write a single host's, like `192.0.2.254` or `\"2001:db8::1\"`",
    );
    None
}

/// The port whose link has this host.
fn reached(
    value: &Node,
    host: IpAddr,
    port: Option<usize>,
    routing: &Routing,
    report: &mut Report<'_>,
) -> Option<usize> {
    let mine = |port: &RoutedPort| port.addresses.iter().any(|own| own.address == host);
    if let Some(port) = routing.ports.iter().find(|port| mine(port)) {
        report.error_help(
            value.span,
            format!("{host} is the address of the port `{}` itself", port.name),
            "give a neighbour's address",
        );
        return None;
    }
    if matches!(host, IpAddr::V6(a) if a.is_unicast_link_local()) {
        if port.is_none() {
            report.error_help(
                value.span,
                format!("{host} may be on any link"),
                "say which port's it is on: `port: NAME`",
            );
        }
        return port;
    }
    // The longest network, where one lies in another.
    let mut best: Option<(u8, usize)> = None;
    for (number, at) in routing.ports.iter().enumerate() {
        for own in at.addresses.iter().filter(|own| own.reaches(host)) {
            if best.is_none_or(|(length, _)| own.length > length) {
                best = Some((own.length, number));
            }
        }
    }
    match (best, port) {
        (Some((_, at)), None) => Some(at),
        (Some((_, at)), Some(port)) if at == port => Some(at),
        (best, port) => {
            let name = |n: usize| routing.ports.get(n).map_or("", |port| port.name.as_str());
            let (what, help) = match (best, port) {
                (Some((_, at)), _) => (
                    format!("{host} is on the link of the port `{}`", name(at)),
                    format!("write `port: {}`, or leave `port` out", name(at)),
                ),
                (None, _) => (
                    format!("no port has a network with {host}"),
                    "give an address in the network of a port, or give a port an address there"
                        .to_owned(),
                ),
            };
            report.error_help(value.span, what, help);
            None
        }
    }
}

fn neighbours(node: Option<&Node>, routing: &mut Routing, report: &mut Report<'_>) {
    let Some(node) = node else {
        return;
    };
    let what = "a list like `{address: 10.0.0.5, mac: 02:00:00:00:00:05}`";
    let items = read::list(node, what, report).unwrap_or(&[]);
    if let Some(item) = items.get(MOST_NEIGHBOURS) {
        return report.error(item.span, format!("more than {MOST_NEIGHBOURS} neighbours"));
    }
    let keys = neighbour_keys();
    for item in items {
        let Some(neighbour) = neighbour(item, &keys, routing, report) else {
            continue;
        };
        let same = |other: &StaticNeighbour| {
            other.address == neighbour.address && other.port == neighbour.port
        };
        if routing.neighbours.iter().any(same) {
            let message = format!("{} is here twice", neighbour.address);
            report.error_help(item.span, message, "take one of them away");
            continue;
        }
        routing.neighbours.push(neighbour);
    }
}

fn neighbour(
    item: &Node,
    keys: &Keys<WrittenHop>,
    routing: &Routing,
    report: &mut Report<'_>,
) -> Option<StaticNeighbour> {
    let written = keys.read(item, report)?;
    let address = written.whom.as_ref()?;
    let port = port_key(&written, routing, report)?;
    let host = host(address, report);
    let mac = written.mac?;
    let host = host?;
    Some(StaticNeighbour {
        address: host,
        mac,
        port: reached(address, host, port, routing, report)?,
    })
}
