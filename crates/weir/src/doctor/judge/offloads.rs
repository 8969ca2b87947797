//! Offloads: what interfaces do to packets before or instead of a program.

use weir_io::live::{LiveSpec, XdpMode};
use weir_io::machine::{Link, Peer, Place};

use super::super::finding::{Area, Finding};

const AREA: Area = Area::Offloads;

/// The sender leaves checksums to the card.
const CHECKSUMS: [&str; 3] = [
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
];
/// The sender keeps a tag beside the packet.
const TAGS_OUT: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];
/// The receiver takes a tag off the packet.
const TAGS_IN: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];
/// Received packets are made into one; with the name that `ethtool -K` takes.
const MERGING: [(&str, &str); 3] = [
    ("rx-gro", "gro"),
    ("rx-lro", "lro"),
    ("rx-gro-hw", "rx-gro-hw"),
];

/// Of an interface that nobody has asked for.
pub(super) fn any(link: &Link) -> Vec<Finding> {
    sender(link).into_iter().collect()
}

/// Of a port.
pub(super) fn of_port(link: &Link, port: &LiveSpec) -> Vec<Finding> {
    if matches!(port, LiveSpec::Packet { .. }) {
        let cut = ["rx-gro", "rx-gro-hw"];
        return [by_packet_port(link), merging(link, &cut)]
            .into_iter()
            .flatten()
            .collect();
    }
    let mut all: Vec<Finding> = sender(link).into_iter().collect();
    let native = matches!(
        port,
        LiveSpec::Xdp {
            mode: XdpMode::Any | XdpMode::Native,
            ..
        }
    );
    let native = native && link.xdp.is_none_or(|features| features.native);
    all.extend(merging(link, if native { &["rx-gro"] } else { &[] }));
    if matches!(port, LiveSpec::Xdp { .. }) {
        all.extend(tags(link));
    }
    all
}

/// A packet port does what others leave to a card: nothing is in its way, but to
/// cut packets takes time.
fn by_packet_port(link: &Link) -> Option<Finding> {
    let check = "peer-offloads";
    let Peer::Seen { place, link: peer } = link.peer.as_ref()? else {
        return None;
    };
    let name = with_place(place, &peer.name);
    let message = if peer.has(&CHECKSUMS) {
        format!(
            "its other end, {name}, leaves checksums and segments to a card that is not there: weir \
             completes and cuts them"
        )
    } else {
        format!("its other end, {name}, sends whole checksums")
    };
    Some(Finding::ok(AREA, check, message).of(&link.name))
}

/// Checksums and segments that the other end leaves to a card that is not there.
fn sender(link: &Link) -> Option<Finding> {
    let check = "peer-offloads";
    let found = match link.peer.as_ref()? {
        Peer::Unseen => Finding::warning(
            AREA,
            check,
            "its other end is in a network namespace that can't be looked into: there \
             `ethtool -K INTERFACE tx off` must have been run, or TCP does not pass",
        ),
        Peer::Seen { place, link: peer } => {
            let name = with_place(place, &peer.name);
            if peer.has(&CHECKSUMS) {
                let message = format!(
                    "its other end, {name}, leaves checksums and segments to a card that is not there: \
                     TCP and UDP from it arrive broken, though ping passes"
                );
                let mend = place.command(&format!("ethtool -K {} tx off", peer.name));
                Finding::problem(AREA, check, message).mend(mend)
            } else {
                let message = format!("its other end, {name}, sends whole checksums");
                Finding::ok(AREA, check, message)
            }
        }
    };
    Some(found.of(&link.name))
}

/// An interface that may be elsewhere.
pub(super) fn with_place(place: &Place, name: &str) -> String {
    match place {
        Place::Here => name.to_owned(),
        Place::Named(space) => format!("{name} in namespace {space}"),
        Place::OfProcess(id) => format!("{name} in the namespace of process {id}"),
    }
}

/// Packets that are merged on the way in are too long to leave again. Programs
/// in the driver come before that, but for the card's own merging, and packet ports
/// cut what is described: `harmless`, by their features, are left out.
fn merging(link: &Link, harmless: &[&str]) -> Option<Finding> {
    let on: Vec<&str> = MERGING
        .iter()
        .filter(|(feature, _)| link.has(&[*feature]))
        .filter(|(feature, _)| !harmless.contains(feature))
        .map(|(_, name)| *name)
        .collect();
    let (name, check) = (&link.name, "receive-merging");
    if on.is_empty() {
        return Some(Finding::ok(AREA, check, "received packets stay as they came").of(name));
    }
    let message = format!(
        "received packets are merged ({}): what is longer than the other side's MTU can't leave",
        on.join(", ")
    );
    let found = Finding::warning(AREA, check, message).of(name);
    // Some are fixed.
    let mut can = MERGING.to_vec();
    can.retain(|(feature, name)| on.contains(name) && link.can_lose(&[*feature]));
    let off: Vec<String> = can.iter().map(|(_, name)| format!("{name} off")).collect();
    Some(if off.is_empty() {
        found
    } else {
        found.mend(format!("ethtool -K {name} {}", off.join(" ")))
    })
}

/// Tags (802.1Q) that are beside a packet and not in it don't reach an XDP
/// socket.
fn tags(link: &Link) -> Option<Finding> {
    let mut commands = Vec::new();
    let mut seen = link.vlans.clone();
    if link.can_lose(&TAGS_IN) && link.kind.as_deref() != Some("veth") {
        commands.push(format!("ethtool -K {} rxvlan off", link.name));
    }
    if let Some(Peer::Seen { place, link: peer }) = &link.peer {
        seen.extend(peer.vlans.iter().cloned());
        if peer.can_lose(&TAGS_OUT) {
            commands.push(place.command(&format!("ethtool -K {} txvlan off", peer.name)));
        }
    }
    if commands.is_empty() {
        return None;
    }
    let found = if seen.is_empty() {
        let commands: Vec<String> = commands.iter().map(|c| format!("`{c}`")).collect();
        let message = format!(
            "802.1Q tags do not reach an XDP socket; where there are VLANs: {}",
            commands.join(", ")
        );
        Finding::ok(AREA, "vlan-offload", message)
    } else {
        let message = format!(
            "802.1Q tags do not reach an XDP socket, and there are VLANs ({})",
            seen.join(", ")
        );
        let found = Finding::warning(AREA, "vlan-offload", message);
        commands.into_iter().fold(found, Finding::mend)
    };
    Some(found.of(&link.name))
}
