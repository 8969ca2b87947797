//! How a run stands in the network: the layer that the chain file asks for, and
//! what the summary says of it.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_ctl::command::{LayerReport, RouterReport};
use weir_graph::{ChainFile, Network, RoutedPort, Routing};
use weir_io::live::{InterfaceFacts, LiveClock, interface_facts};
use weir_io::port::PortSpec;
use weir_packet::MacAddr;
use weir_router::{Config, Limits, NeighbourConfig, Owned, PortConfig, RouteConfig, Router};

use weir_telemetry::Counters as _;

use super::ports::{Ports, RunPort};
use super::summary::{More, Own};
use super::wires::Sorted;
use crate::args::Run;
use crate::counters;
use crate::driver::live::{Bump, Group, Hearsay, Layer, Routed, Routers, Tap};
use crate::exit::Failure;
use crate::output::thousands;
use crate::say::say;

/// Largest datagram, where an interface's MTU is larger: frames hold no more.
const MOST_MTU: u32 = 9_216;
/// Largest datagram towards a port that is played, where nobody says.
const PLAYED_MTU: u16 = 1_500;

/// Refuses what the mode has no meaning for, and says where it has no effect:
/// captures and the generator have no neighbours to ask. So one file serves
/// for a network and for trying it out.
pub(super) fn check(args: &Run, file: &ChainFile, ports: &Ports) -> Result<(), Failure> {
    if !ports.are_live() {
        if !args.quiet && file.network != Network::default() {
            say(format_args!(
                "note: `network: {{mode: {}}}` is for interfaces: packets of captures go through the \
                 chain only",
                file.network.mode()
            ));
        }
        return Ok(());
    }
    let written = ports.outputs.iter().filter(|_| !args.out.is_empty());
    let mut written = written.filter(|port| port.spec != PortSpec::Null);
    match (&file.network, written.next()) {
        (Network::Tap, Some(port)) => Err(Failure::usage(format!(
            "port `{}`: nothing leaves a tap (`network: {{mode: tap}}`): name it with `--in`",
            port.text
        ))),
        _ => Ok(()),
    }
}

/// The layer between ports and chains, and what to warn of. `takes_over`: another host had the
/// addresses.
pub(super) fn layer(
    file: &ChainFile,
    sorted: &Sorted,
    seed: u64,
    clock: LiveClock,
    takes_over: bool,
) -> Result<(Box<dyn Layer>, Vec<String>), Failure> {
    match &file.network {
        Network::Bump { .. } => Ok((Box::new(Bump::new(sorted.wires()?)), Vec::new())),
        Network::Tap => Ok((Box::<Tap>::default(), Vec::new())),
        Network::Router(routing) => {
            let mut warnings = Vec::new();
            let config = config(file, routing, sorted, seed, &mut warnings)?;
            let router = Router::new(&config).map_err(|error| Failure::chain(error.to_string()))?;
            let names = sorted.coming().map(|port| port.name.clone());
            let layer = Routed::new(router, names.collect(), sorted.exits(), clock);
            let layer = layer.in_the_place_of_another(takes_over);
            Ok((Box::new(layer), warnings))
        }
    }
}

/// One for each worker.
pub(super) type Layers = Vec<Box<dyn Layer>>;

/// The layers of so many workers that each own a part of the ports, and what to warn of.
pub(super) fn layers(
    file: &ChainFile,
    sorted: &Sorted,
    seed: u64,
    clock: LiveClock,
    group: &Arc<Group>,
) -> Result<(Layers, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let Network::Router(routing) = &file.network else {
        let one = |_| layer(file, sorted, seed, clock, false).map(|(layer, _)| layer);
        let layers = (0..group.count()).map(one).collect::<Result<_, _>>()?;
        return Ok((layers, warnings));
    };
    let mut config = config(file, routing, sorted, seed, &mut warnings)?;
    // Together they tell senders no more than one router would.
    config.limits.errors = config.limits.errors.div_ceil(group.count() as u32);
    let names: Vec<String> = sorted.coming().map(|port| port.name.clone()).collect();
    let one = |(number, hearsay)| {
        config.seed = seed.wrapping_add(number);
        let router = Router::new(&config).map_err(|error| Failure::chain(error.to_string()))?;
        let routed = Routed::new(router, names.clone(), sorted.exits(), clock);
        Ok(Box::new(Routers::new(routed, hearsay)) as Box<dyn Layer>)
    };
    let layers = (0..).zip(Hearsay::between(group)).map(one);
    Ok((layers.collect::<Result<_, Failure>>()?, warnings))
}

/// The router, its ports by the numbers of the run's.
fn config(
    file: &ChainFile,
    routing: &Routing,
    sorted: &Sorted,
    seed: u64,
    warnings: &mut Vec<String>,
) -> Result<Config, Failure> {
    outputs(sorted)?;
    let places = places(routing, sorted)?;
    let ports = ports(routing, sorted, &places, warnings)?;
    let routes = routing.routes.iter().map(|route| RouteConfig {
        to: route.to,
        via: route.via,
        port: places[route.port],
    });
    let neighbours = routing.neighbours.iter();
    let neighbours = neighbours.map(|neighbour| NeighbourConfig {
        port: places[neighbour.port],
        address: neighbour.address,
        mac: neighbour.mac,
    });
    let pinned = routing.routes.len() + routing.neighbours.len();
    let mut limits = Limits::default();
    limits.neighbours += pinned as u32;
    Ok(Config {
        ports,
        routes: routes.collect(),
        neighbours: neighbours.collect(),
        owned: owned(file),
        limits,
        seed,
    })
}

/// For each port of the file, its index among the run's ports.
fn places(routing: &Routing, sorted: &Sorted) -> Result<Vec<usize>, Failure> {
    let place = |port: &RoutedPort| {
        let found = sorted.coming().zip(0..);
        let mut found = found.filter(|(coming, _)| coming.name == port.name);
        match (found.next(), found.next()) {
            (Some((_, place)), None) => Ok(place),
            (None, _) => Err(Failure::usage(format!(
                "the router's port `{0}` has no interface: write `--in {0}=af-packet:NAME`, or \
                 `--in {0}=CAPTURE` to play one",
                port.name
            ))),
            (Some(_), Some((second, _))) => Err(Failure::usage(format!(
                "port `{}`: the router's port `{}` has an interface or a capture already",
                second.text, port.name
            ))),
        }
    };
    routing.ports.iter().map(place).collect()
}

/// The router's ports, in the order of the run's.
fn ports(
    routing: &Routing,
    sorted: &Sorted,
    places: &[usize],
    warnings: &mut Vec<String>,
) -> Result<Vec<PortConfig>, Failure> {
    let mut ports = Vec::new();
    for (place, coming) in sorted.coming().enumerate() {
        let mut all = routing.ports.iter().zip(places);
        let Some((port, _)) = all.find(|(_, at)| **at == place) else {
            return Err(Failure::usage(format!(
                "port `{}`: the router has no addresses for `{}`",
                coming.text, coming.name
            )));
        };
        ports.push(match coming.spec.live() {
            Some(live) => port_config(port, coming, live.interface(), warnings)?,
            None => played_config(port, place),
        });
    }
    Ok(ports)
}

/// The addresses that functions answer for, each once: a balancer names one for each of its
/// services' ports.
fn owned(file: &ChainFile) -> Vec<Owned> {
    let nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    let mut all: Vec<Owned> = Vec::new();
    for owned in nodes.flat_map(|node| node.processor.owns()) {
        let owned = Owned {
            addresses: owned.addresses,
            side: owned.side,
        };
        if !all.contains(&owned) {
            all.push(owned);
        }
    }
    all
}

/// Refuses a file as the output of a port with an interface: its packets leave by that.
fn outputs(sorted: &Sorted) -> Result<(), Failure> {
    for (number, port) in sorted.others.iter().enumerate() {
        let played = sorted.replays.iter().any(|other| other.name == port.name);
        let before = sorted.others.iter().take(number);
        let why = match port.spec {
            PortSpec::Null => continue,
            _ if !played => {
                "a router's packets leave by its interfaces; a file takes those of a port that is \
                 played (`--in NAME=CAPTURE`)"
            }
            _ if before.clone().any(|other| other.name == port.name) => {
                "the router's port has an output already"
            }
            _ => continue,
        };
        return Err(Failure::usage(format!("port `{}`: {why}", port.text)));
    }
    Ok(())
}

/// A port whose packets are played: what the chain file says of it, and for the
/// rest what an Ethernet has. There is no wire.
fn played_config(port: &RoutedPort, place: usize) -> PortConfig {
    PortConfig {
        side: port.side,
        // One that no maker has given; it is in what is written to files.
        mac: port.mac.unwrap_or(MacAddr([2, 0, 0, 0, 0, place as u8])),
        mtu: port.mtu.unwrap_or(PLAYED_MTU),
        addresses: addresses(port),
        wire: false,
    }
}

fn addresses(port: &RoutedPort) -> Vec<(IpAddr, u8)> {
    let all = port.addresses.iter();
    all.map(|address| (address.address, address.length))
        .collect()
}

fn port_config(
    port: &RoutedPort,
    live: &RunPort,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<PortConfig, Failure> {
    let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
    let facts = interface_facts(&live.text, name).map_err(outside)?;
    let mtu = port.mtu.map_or(facts.mtu.min(MOST_MTU), u32::from);
    if mtu > facts.mtu {
        return Err(Failure::usage(format!(
            "port `{}`: its MTU of {mtu} in the chain file is more than the interface's of {}: \
             write {} or less, or `ip link set {name} mtu {mtu}`",
            live.text, facts.mtu, facts.mtu
        )));
    }
    if mtu < 1_280 && port.addresses.iter().any(|a| a.address.is_ipv6()) {
        return Err(Failure::usage(format!(
            "port `{}`: the interface's MTU of {mtu} is too small for IPv6: `ip link set {name} mtu \
             1500`",
            live.text
        )));
    }
    warnings.extend(clashes(port, live, name, &facts));
    Ok(PortConfig {
        side: port.side,
        mac: port.mac.unwrap_or(facts.mac),
        mtu: mtu as u16,
        addresses: addresses(port),
        wire: true,
    })
}

/// Warnings about addresses that both weir and the kernel have on the interface:
/// both would answer for them.
fn clashes<'a>(
    port: &'a RoutedPort,
    live: &'a RunPort,
    name: &'a str,
    facts: &'a InterfaceFacts,
) -> impl Iterator<Item = String> + 'a {
    let own = |address: &IpAddr| port.addresses.iter().any(|own| own.address == *address);
    let both = facts.addresses.iter().filter(move |address| own(address));
    both.map(move |address| {
        format!(
            "{}: the kernel has the address {address} too and answers for it: `ip address flush dev \
             {name}`",
            live.text
        )
    })
}

/// The layer's part of the summary; a bump has none.
pub(super) fn summary(report: LayerReport, ports: &Sorted) -> Option<Box<dyn More>> {
    match report {
        LayerReport::Bump => None,
        LayerReport::Tap { kept } => Some(Box::new(Tapped { kept })),
        LayerReport::Router(report) => Some(Box::new(RouterSummary {
            report: *report,
            ports: ports.coming().map(|port| port.name.clone()).collect(),
        })),
    }
}

struct Tapped {
    kept: u64,
}

impl More for Tapped {
    fn own(&self) -> Own {
        Own {
            kept: self.kept,
            ..Own::default()
        }
    }

    fn add_json(&self, value: &mut Value) {
        value["network"] = json!({"mode": "tap", "kept": self.kept});
    }

    fn add_text(&self, text: &mut String) {
        let kept = thousands(self.kept);
        text.push_str(&format!(
            "\ntap: {kept} packets passed the chain and did not leave\n"
        ));
    }
}

struct RouterSummary {
    report: RouterReport,
    /// Their names.
    ports: Vec<String>,
}

impl RouterSummary {
    fn name(&self, port: usize) -> &str {
        self.ports.get(port).map_or("", String::as_str)
    }
}

impl More for RouterSummary {
    fn own(&self) -> Own {
        let c = &self.report.counts;
        let more = c.fragments.saturating_sub(c.fragmented);
        let drops = c.drops();
        Own {
            made: c.made + c.errors_through_chain + more,
            kept: c.arp + c.discovery + c.echo,
            held: c.waiting,
            drops: drops
                .named()
                .map(|(reason, count)| (format!("network.{reason}"), count))
                .collect(),
        }
    }

    fn add_json(&self, value: &mut Value) {
        let counts = &self.report.counts;
        let mut router = counters::to_json(counts.entries());
        router["mode"] = json!("router");
        router["dropped_before_chain"] = counters::labelled(counts.before());
        router["dropped_behind_chain"] = counters::labelled(counts.behind());
        let neighbours = self.report.neighbours.iter().map(|neighbour| {
            json!({
                "port": self.name(neighbour.port),
                "address": neighbour.address,
                "mac": neighbour.mac.map(|mac| mac.to_string()),
                "state": neighbour.state.name(),
            })
        });
        router["neighbours"] = neighbours.collect();
        let claimed = self.report.conflicts.iter().map(|conflict| {
            json!({
                "port": self.name(conflict.port),
                "address": conflict.address,
                "mac": conflict.mac.to_string(),
                "times": conflict.times,
            })
        });
        router["claimed_by_others"] = claimed.collect();
        router["balances"] = json!(counts.balance());
        value["network"] = router;
    }

    fn add_text(&self, text: &mut String) {
        text.push_str("\nrouter\n");
        let counts = &self.report.counts;
        for (entry, count) in counts.entries().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "  {:20}  {:>12}", entry.name(), thousands(count));
        }
        for (reason, count) in counts.drops().named() {
            let _ = writeln!(text, "  drop {reason:15}  {:>12}", thousands(count));
        }
        for neighbour in &self.report.neighbours {
            let mac = neighbour.mac.map_or("-".to_owned(), |mac| mac.to_string());
            let (port, state) = (self.name(neighbour.port), neighbour.state.name());
            let _ = writeln!(text, "  {port} {} is {mac} {state}", neighbour.address);
        }
        for conflict in &self.report.conflicts {
            let (port, address) = (self.name(conflict.port), conflict.address);
            let (mac, times) = (conflict.mac, conflict.times);
            let _ = writeln!(
                text,
                "  {port} {address} was claimed by {mac} {times} times"
            );
        }
    }
}
