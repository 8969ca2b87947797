//! Interfaces: there, up, of one mind about sizes, and left alone by the host.

use weir_io::live::{LARGEST_XDP_MTU, LiveSpec};
use weir_io::machine::{Link, Machine};

use super::super::finding::{Area, Finding};
use super::super::need::Need;
use super::host_use::{is_used_by_host, own_addresses};
use super::{offloads, xdp};
use crate::output::counted;

const AREA: Area = Area::Interfaces;

pub(super) fn judge(machine: &Machine, need: &Need) -> Vec<Finding> {
    if need.is_everything() {
        return machine.links.iter().flat_map(any).collect();
    }
    let mut all = Vec::new();
    for port in need.ports() {
        match machine.link(port.interface()) {
            Some(link) => all.extend(of_port(link, port, need)),
            None => all.extend(missing(machine, port)),
        }
    }
    all.extend(pair(machine, need));
    all.extend(owned(machine, need));
    all
}

/// An interface that nobody has asked for.
fn any(link: &Link) -> Vec<Finding> {
    let mut line = there(link);
    if !link.up {
        line.message += &format!("; to use it `ip link set {} up`", link.name);
    }
    let mut all = vec![line];
    if !link.ethernet || is_used_by_host(link) {
        return all;
    }
    all.extend(xdp::any(link));
    let more = offloads::any(link).into_iter();
    all.extend(more.map(Finding::at_most_warning));
    all
}

/// Describes the interface in one line.
fn there(link: &Link) -> Finding {
    let mut parts = Vec::new();
    match (link.up, link.carrier) {
        (true, true) => parts.push("up".to_owned()),
        (true, false) => parts.push("up, without a carrier".to_owned()),
        (false, _) => parts.push("down".to_owned()),
    }
    if !link.ethernet {
        parts.push("no Ethernet: not for weir".to_owned());
    }
    parts.push(format!("MTU {}", link.mtu));
    // A tunnel's driver is its kind under another name.
    parts.extend(link.driver.clone().or_else(|| link.kind.clone()));
    let queues = link.queues;
    if queues.receive == queues.transmit {
        parts.push(counted(queues.receive, "queue"));
    } else {
        let receive = counted(queues.receive, "receive queue");
        parts.push(format!("{receive}, {} to transmit", queues.transmit));
    }
    parts.extend(link.mac.map(|mac| {
        let octets = mac.map(|octet| format!("{octet:02x}"));
        octets.join(":")
    }));
    parts.extend(own_addresses(link));
    parts.extend(
        link.master
            .as_ref()
            .map(|master| format!("part of {master}")),
    );
    Finding::ok(AREA, "interface", parts.join(", ")).of(&link.name)
}

fn missing(machine: &Machine, port: &LiveSpec) -> Option<Finding> {
    let name = port.interface();
    if matches!(port, LiveSpec::Tap { .. }) {
        let message = "is not there: the run makes it, and it goes with the run";
        return Some(Finding::ok(AREA, "interface", message).of(name));
    }
    let others = machine
        .links
        .iter()
        .filter(|link| link.ethernet && !link.loopback);
    let names: Vec<&str> = others.map(|link| link.name.as_str()).collect();
    let there = if names.is_empty() {
        "there is no Ethernet interface at all".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    let message = format!("no interface of this name in this network namespace; {there}");
    let problem = Finding::problem(AREA, "interface", message).of(name);
    Some(problem.mend("ip -brief link").stops())
}

/// An interface that a run is to have.
fn of_port(link: &Link, port: &LiveSpec, need: &Need) -> Vec<Finding> {
    let name = &link.name;
    if !link.ethernet {
        let message = "is no Ethernet interface: its frames can't be forwarded";
        return vec![
            Finding::problem(AREA, "interface", message)
                .of(name)
                .stops(),
        ];
    }
    let mut all = vec![there(link)];
    let tap = matches!(port, LiveSpec::Tap { .. });
    if tap && link.kind.as_deref() != Some("tun") {
        let message = "is there already and no TAP interface: take another name";
        return vec![
            Finding::problem(AREA, "interface", message)
                .of(name)
                .stops(),
        ];
    }
    all.extend(state(link, tap));
    if tap {
        all.extend(reverse_path(link));
        return all;
    }
    all.extend(left_alone(link, port, need));
    if let LiveSpec::Xdp { queues, mode, .. } = port {
        if link.mtu > LARGEST_XDP_MTU {
            let message = format!(
                "its MTU of {} is too large: a packet for an XDP socket fits a frame of 4 KiB",
                link.mtu
            );
            let mend = format!("ip link set {name} mtu {LARGEST_XDP_MTU}");
            all.push(
                Finding::problem(AREA, "mtu", message)
                    .of(name)
                    .mend(mend)
                    .stops(),
            );
        }
        all.extend(xdp::of_port(link, *queues, *mode));
    }
    all.extend(offloads::of_port(link, port));
    all
}

fn state(link: &Link, tap: bool) -> Option<Finding> {
    let name = &link.name;
    if !link.up {
        // A TAP is set up by the run, if it can be.
        let message = "is down: nothing comes in or goes out";
        let mend = format!("ip link set {name} up");
        let found = Finding::problem(AREA, "interface-up", message)
            .of(name)
            .mend(mend);
        return Some(if tap { found.at_most_warning() } else { found });
    }
    if link.carrier || tap {
        return None;
    }
    let found = if let Some(weir_io::machine::Peer::Seen { place, link: peer }) = &link.peer {
        let message = format!(
            "has no carrier: its other end, {}, is down",
            offloads::with_place(place, &peer.name)
        );
        let mend = place.command(&format!("ip link set {} up", peer.name));
        Finding::warning(AREA, "carrier", message).mend(mend)
    } else {
        let message = "has no carrier: no cable, or its other end is down";
        Finding::warning(AREA, "carrier", message)
    };
    Some(found.of(name))
}

/// Finds what the kernel itself does with the interface's packets while weir runs.
fn left_alone(link: &Link, port: &LiveSpec, need: &Need) -> Vec<Finding> {
    let name = &link.name;
    let packet = matches!(port, LiveSpec::Packet { .. });
    let mut all = Vec::new();
    if link.wireless {
        let message = "is wireless: it sends no frames for other stations, so nothing behind weir \
                       gets through";
        all.push(Finding::warning(AREA, "wireless", message).of(name));
    }
    let addresses: Vec<String> = own_addresses(link).collect();
    if !addresses.is_empty() && !link.loopback && (need.forwards || !packet) {
        let what = if packet {
            "the host answers for them, too, beside weir"
        } else {
            "while weir runs the host is not reached by them"
        };
        let message = format!(
            "the host uses it as {}: {what}; take another interface, or take them off",
            addresses.join(", ")
        );
        let commands = addresses
            .iter()
            .map(|address| format!("ip addr del {address} dev {name}"));
        let found = Finding::warning(AREA, "addresses", message).of(name);
        all.push(commands.fold(found, Finding::mend));
    }
    if let Some(master) = &link.master {
        let message = format!("is part of {master}, which forwards its packets, too");
        let mend = format!("ip link set {name} nomaster");
        all.push(
            Finding::warning(AREA, "master", message)
                .of(name)
                .mend(mend),
        );
    }
    if packet && need.forwards && (link.forwards_ipv4 || link.forwards_ipv6) {
        let message = "the kernel forwards what comes in here, beside weir: packets to the \
                       interface's own Ethernet address leave twice, or past weir";
        let mut found = Finding::warning(AREA, "forwarding", message).of(name);
        for (on, family) in [(link.forwards_ipv4, "ipv4"), (link.forwards_ipv6, "ipv6")] {
            if on {
                // With slashes a name may have dots.
                found = found.mend(format!("sysctl -w net/{family}/conf/{name}/forwarding=0"));
            }
        }
        all.push(found);
    }
    all
}

fn reverse_path(link: &Link) -> Option<Finding> {
    let name = &link.name;
    let message = format!(
        "the kernel drops IPv4 packets that come out of it from addresses it would not answer by it \
         (rp_filter 1); where routes differ: `sysctl -w net/ipv4/conf/{name}/rp_filter=2`"
    );
    (link.reverse_path == 1).then(|| Finding::ok(AREA, "reverse-path", message).of(name))
}

/// Interfaces that packets go between whole.
fn pair(machine: &Machine, need: &Need) -> Option<Finding> {
    if !need.forwards || !need.owned.is_empty() {
        return None;
    }
    let links = need
        .ports()
        .iter()
        .filter_map(|port| machine.link(port.interface()));
    let links: Vec<&Link> = links.filter(|link| !link.loopback).collect();
    let least = links.iter().min_by_key(|link| link.mtu)?;
    let most = links.iter().max_by_key(|link| link.mtu)?;
    if least.mtu == most.mtu {
        return None;
    }
    let message = format!(
        "its MTU of {} is larger than the {} of {}: longer packets are dropped there, and nobody is \
         told",
        most.mtu, least.mtu, least.name
    );
    let mend = format!("ip link set {} mtu {}", most.name, least.mtu);
    Some(
        Finding::warning(AREA, "mtu-pair", message)
            .of(&most.name)
            .mend(mend),
    )
}

/// Addresses that both weir and the kernel would answer for.
fn owned(machine: &Machine, need: &Need) -> Vec<Finding> {
    let mut all = Vec::new();
    for link in &machine.links {
        for (address, prefix) in &link.addresses {
            if !need.owned.iter().any(|owned| owned.contains(*address)) {
                continue;
            }
            let message = format!(
                "the kernel has {address}, which the chain owns: both would answer, and the kernel \
                 would end connections that it does not know"
            );
            let mend = format!("ip addr del {address}/{prefix} dev {}", link.name);
            let found = Finding::problem(AREA, "owned-address", message).of(&link.name);
            all.push(found.mend(mend).stops());
        }
    }
    all
}
