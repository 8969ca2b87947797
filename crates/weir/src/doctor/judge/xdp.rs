//! XDP: which mode an interface gives.

use weir_io::live::XdpMode;
use weir_io::machine::{Link, Peer, Queues};

use super::super::finding::{Area, Finding, Status};
use crate::output::counted;

const AREA: Area = Area::Xdp;
/// The largest MTU of the other end with which a veth runs programs: a page
/// without the kernel's headroom, its notes and an Ethernet header.
const VETH_PEER_MTU: u32 = 3_506;

/// Of an interface that nobody has asked for.
pub(super) fn any(link: &Link) -> Vec<Finding> {
    let mut mode = mode(link, XdpMode::Any).at_most_warning();
    if mode.mend.is_empty() {
        // There is no better mode to be had.
        mode.status = Status::Ok;
    }
    let mut all = vec![mode];
    all.extend(attached(link).map(Finding::at_most_warning));
    all
}

/// Of a port.
pub(super) fn of_port(link: &Link, queues: Option<u32>, wanted: XdpMode) -> Vec<Finding> {
    let name = &link.name;
    let mut all = vec![mode(link, wanted)];
    all.extend(attached(link));
    let there = link.queues.receive.max(1);
    match queues {
        Some(asked) if asked > there => {
            let message = format!("has {}, not {asked}", counted(there, "receive queue"));
            let found = Finding::problem(AREA, "xdp-queues", message)
                .of(name)
                .stops();
            all.push(match more_queues(link, asked) {
                Some(command) => found.mend(command),
                None => found,
            });
        }
        Some(asked) if asked < there => {
            let message = format!(
                "packets of queues {asked} to {} go past weir into the kernel; leave the number out of \
                 the port, or have fewer queues",
                there - 1
            );
            let mend = set_queues(link, asked);
            all.push(
                Finding::warning(AREA, "xdp-queues", message)
                    .of(name)
                    .mend(mend),
            );
        }
        _ => {}
    }
    all
}

fn attached(link: &Link) -> Option<Finding> {
    let name = &link.name;
    link.xdp_attached.then(|| {
        let message = "has an XDP program already: end the program whose it is, another weir perhaps, or \
                       take it off";
        let mend = format!("ip link set {name} xdp off");
        let found = Finding::problem(AREA, "xdp-attached", message);
        found.of(name).mend(mend).stops()
    })
}

/// Reports the XDP mode that the interface gives, and why it gives no better one.
fn mode(link: &Link, wanted: XdpMode) -> Finding {
    let name = &link.name;
    let check = "xdp-mode";
    if wanted == XdpMode::Generic {
        let message = "generic mode, as asked for";
        return Finding::ok(AREA, check, message).of(name);
    }
    if let Some((why, mend)) = obstacle(link) {
        let found = match wanted {
            XdpMode::Native => {
                let message = format!("native mode can't be had: {why}");
                Finding::problem(AREA, check, message).stops()
            }
            _ => {
                let message = format!("generic mode, which is slower: {why}");
                Finding::warning(AREA, check, message)
            }
        };
        return mend.into_iter().fold(found.of(name), Finding::mend);
    }
    let message = match link.xdp {
        Some(features) if features.zero_copy => "native mode; its driver can do without copies",
        Some(_) => "native mode, with copies",
        None => {
            "this kernel does not tell which mode it gives (before Linux 6.3); `weir doctor --try` \
             finds out"
        }
    };
    Finding::ok(AREA, check, message).of(name)
}

/// Why a driver would not take a program, and the command that mends it.
fn obstacle(link: &Link) -> Option<(String, Vec<String>)> {
    let name = &link.name;
    if let Some(Peer::Seen { place, link: peer }) = &link.peer {
        let (here, there) = (link.queues.receive, peer.queues.transmit);
        if here < there {
            let why = format!(
                "it has {} and its other end, {}, {} to transmit",
                counted(here, "receive queue"),
                peer.name,
                there
            );
            let mend = more_queues(link, there).unwrap_or_else(|| {
                let fewer = queues_command(&peer.name, peer.queues, here, Direction::Transmit);
                place.command(&fewer)
            });
            return Some((why, vec![mend]));
        }
        if peer.mtu > VETH_PEER_MTU {
            let why = format!(
                "its other end, {}, has an MTU of {}, larger than {VETH_PEER_MTU}",
                peer.name, peer.mtu
            );
            let mend = format!("ip link set {} mtu {VETH_PEER_MTU}", peer.name);
            return Some((why, vec![place.command(&mend)]));
        }
    }
    let merging = ["rx-gro-hw"];
    if link.driver.as_deref() == Some("virtio_net") && link.has(&merging) {
        return Some(if link.can_lose(&merging) {
            let why = "the card merges received packets".to_owned();
            (why, vec![format!("ethtool -K {name} rx-gro-hw off")])
        } else {
            let why = "the card merges received packets, and can't be kept from it here: the host of \
                       this virtual machine decides";
            (why.to_owned(), Vec::new())
        });
    }
    if link.xdp.is_some_and(|features| !features.native) {
        let driver = link.driver.as_deref().or(link.kind.as_deref());
        let driver = driver.unwrap_or("of this interface");
        return Some((format!("the driver {driver} has no XDP here"), Vec::new()));
    }
    None
}

#[derive(Clone, Copy)]
enum Direction {
    Receive,
    Transmit,
}

/// The command that gives more receive queues, where there can be so many.
fn more_queues(link: &Link, number: u32) -> Option<String> {
    (link.queues.most_receive >= number).then(|| set_queues(link, number))
}

fn set_queues(link: &Link, number: u32) -> String {
    queues_command(&link.name, link.queues, number, Direction::Receive)
}

fn queues_command(name: &str, queues: Queues, number: u32, direction: Direction) -> String {
    let what = match direction {
        _ if queues.combined => "combined",
        Direction::Receive => "rx",
        Direction::Transmit => "tx",
    };
    format!("ethtool -L {name} {what} {number}")
}
