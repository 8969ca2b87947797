//! The interfaces of a network namespace.

use std::fs;
use std::io;
use std::net::IpAddr;

use super::netlink::{Netlink, attribute, attributes, number, text};
use crate::sys::ethtool;
use crate::sys::interface::Interfaces;

/// An interface, as far as the kernel tells of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Kind of a software interface: `veth`, `bridge`, `tun`, `vlan`.
    pub kind: Option<String>,
    /// The driver's name, as `virtio_net`.
    pub driver: Option<String>,
    /// Its frames are Ethernet.
    pub ethernet: bool,
    /// It is the loop-back.
    pub loopback: bool,
    /// It is a wireless one.
    pub wireless: bool,
    /// An operator has set it up.
    pub up: bool,
    /// It has a carrier: a cable, a peer that is up.
    pub carrier: bool,
    /// Most octets of a packet behind its link header.
    pub mtu: u32,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Addresses that the kernel has on it, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The bridge, bond or other interface that it is a part of.
    pub master: Option<String>,
    /// Names of the VLAN interfaces on top of it.
    pub vlans: Vec<String>,
    /// Its queues.
    pub queues: Queues,
    /// An XDP program is attached to it.
    pub xdp_attached: bool,
    /// XDP as its driver reports it; `None` where the kernel can't tell (before
    /// Linux 6.3).
    pub xdp: Option<XdpFeatures>,
    /// Its offloads.
    pub offloads: Vec<Offload>,
    /// The other end, where it has one on this machine.
    pub peer: Option<Peer>,
    /// The memory node that its card is at.
    pub node: Option<u32>,
    /// The kernel forwards IPv4 packets that come in here.
    pub forwards_ipv4: bool,
    /// The kernel forwards IPv6 packets that come in here.
    pub forwards_ipv6: bool,
    /// How strictly the kernel looks where IPv4 packets came from: 0 not, 1
    /// strictly, 2 loosely.
    pub reverse_path: u8,
    /// Number of the interface that it is tied to: the other end of a veth, the
    /// one below a VLAN.
    pub other_end: Option<u32>,
    /// The kernel's number of that one's network namespace, where it is
    /// another.
    pub other_namespace: Option<i32>,
    /// Number of the interface that it is a part of.
    pub master_index: Option<u32>,
}

/// Queues of an interface: now, and the most that `ethtool -L` takes (0 where
/// it takes none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues.
    pub receive: u32,
    /// Transmit queues.
    pub transmit: u32,
    /// Most receive queues.
    pub most_receive: u32,
    /// Most transmit queues.
    pub most_transmit: u32,
    /// They come in pairs (`combined`).
    pub combined: bool,
}

/// XDP as a driver reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// It runs programs and can redirect to sockets.
    pub native: bool,
    /// Its sockets can do without copies.
    pub zero_copy: bool,
}

/// An offload of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The kernel's name, as `tx-checksum-ip-generic`.
    pub name: String,
    /// It is on.
    pub on: bool,
    /// `ethtool -K` can switch it.
    pub changeable: bool,
}

/// The other end of a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    /// An interface that could be asked.
    Seen {
        /// Place of the other end.
        place: Place,
        /// The interface.
        link: Box<Link>,
    },
    /// In a network namespace that could not be looked into.
    Unseen,
}

/// Place of the other end of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this network namespace.
    Here,
    /// In a network namespace with a name (`ip netns`).
    Named(String),
    /// In the network namespace of this process.
    OfProcess(u32),
}

impl Place {
    /// The command as it works there.
    pub fn command(&self, command: &str) -> String {
        match self {
            Place::Here => command.to_owned(),
            Place::Named(name) => format!("ip netns exec {name} {command}"),
            Place::OfProcess(id) => format!("nsenter -t {id} -n {command}"),
        }
    }
}

impl Link {
    /// True if one of these offloads is on.
    pub fn has(&self, names: &[&str]) -> bool {
        let on = |offload: &&Offload| offload.on;
        self.offloads
            .iter()
            .filter(on)
            .any(|o| names.contains(&o.name.as_str()))
    }

    /// True if one of these offloads is on and can be switched off.
    pub fn can_lose(&self, names: &[&str]) -> bool {
        let of = |o: &&Offload| o.on && o.changeable;
        self.offloads
            .iter()
            .filter(of)
            .any(|o| names.contains(&o.name.as_str()))
    }
}

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;

/// All interfaces of the thread's network namespace, without their peers.
pub(super) fn links() -> io::Result<Vec<Link>> {
    let netlink = Netlink::route()?;
    let ask = Interfaces::open()?;
    let answers = netlink.dump(GET_LINK, &[0; 16])?;
    let mut links: Vec<Link> = answers.iter().filter_map(|body| link(body)).collect();
    // An older kernel answers without addresses; that is no reason to stop.
    for body in netlink.dump(GET_ADDRESS, &[0; 8]).unwrap_or_default() {
        if let Some((index, address, prefix)) = address(&body)
            && let Some(link) = links.iter_mut().find(|link| link.index == index)
        {
            link.addresses.push((address, prefix));
        }
    }
    let names: Vec<(u32, String)> = links.iter().map(|l| (l.index, l.name.clone())).collect();
    let tags: Vec<(u32, String)> = links
        .iter()
        .filter(|link| link.kind.as_deref() == Some("vlan") && link.other_namespace.is_none())
        .filter_map(|link| Some((link.other_end?, link.name.clone())))
        .collect();
    let xdp = XdpFamily::find();
    for link in &mut links {
        let name_of = |index| names.iter().find(|(i, _)| *i == index);
        let master = link.master_index.and_then(name_of);
        link.master = master.map(|(_, name)| name.clone());
        let above = tags.iter().filter(|(index, _)| *index == link.index);
        link.vlans = above.map(|(_, name)| name.clone()).collect();
        link.xdp = xdp.as_ref().and_then(|family| family.features(link.index));
        of_driver(&ask, link);
        of_files(link);
    }
    Ok(links)
}

/// Facts that `ethtool` shows.
fn of_driver(ask: &Interfaces, link: &mut Link) {
    link.driver = ethtool::driver(ask, &link.name).ok();
    if let Ok(channels) = ethtool::channels(ask, &link.name) {
        link.queues = Queues {
            receive: channels.receive.saturating_add(channels.combined),
            transmit: channels.transmit.saturating_add(channels.combined),
            most_receive: channels.most_receive.saturating_add(channels.most_combined),
            most_transmit: channels
                .most_transmit
                .saturating_add(channels.most_combined),
            combined: channels.combined > 0,
        };
    }
    let features = ethtool::features(ask, &link.name).unwrap_or_default();
    let offload = |feature: ethtool::Feature| Offload {
        name: feature.name,
        on: feature.on,
        changeable: feature.changeable,
    };
    link.offloads = features.into_iter().map(offload).collect();
}

/// Facts from files; those of `/proc/sys/net` are of the thread's namespace.
fn of_files(link: &mut Link) {
    let name = &link.name;
    let read = |path: String| -> Option<u32> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let of = |family: &str, what: &str| read(format!("/proc/sys/net/{family}/conf/{name}/{what}"));
    link.forwards_ipv4 = of("ipv4", "forwarding") == Some(1);
    link.forwards_ipv6 = of("ipv6", "forwarding") == Some(1);
    let all = read("/proc/sys/net/ipv4/conf/all/rp_filter".to_owned());
    // The larger of the two holds.
    let strictness = of("ipv4", "rp_filter").max(all).unwrap_or(0);
    link.reverse_path = u8::try_from(strictness).unwrap_or(0);
    link.node = read(format!("/sys/class/net/{name}/device/numa_node"));
    link.wireless = fs::exists(format!("/sys/class/net/{name}/phy80211")).unwrap_or(false);
}

/// An interface of an answer: `struct ifinfomsg` and attributes
/// (`linux/if_link.h`).
fn link(body: &[u8]) -> Option<Link> {
    let kind = u16::from_ne_bytes(body.get(2..4)?.try_into().ok()?);
    let flags = number(body.get(8..12)?)?;
    let set = |bit: libc::c_int| flags & bit as u32 != 0;
    let mut link = Link {
        index: number(body.get(4..8)?)?,
        ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
        loopback: kind == libc::ARPHRD_LOOPBACK,
        up: set(libc::IFF_UP),
        carrier: set(libc::IFF_LOWER_UP),
        queues: Queues {
            receive: 1,
            transmit: 1,
            ..Queues::default()
        },
        ..Link::default()
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok(),
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = number(value).unwrap_or(0),
            libc::IFLA_LINK => link.other_end = number(value),
            libc::IFLA_MASTER => link.master_index = number(value),
            libc::IFLA_LINK_NETNSID => link.other_namespace = number(value).map(|n| n as i32),
            libc::IFLA_LINKINFO => {
                let found = attributes(value).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
                link.kind = found.map(|(_, value)| text(value));
            }
            libc::IFLA_XDP => {
                const ATTACHED: u16 = 2;
                let mode = attributes(value).find(|(kind, _)| *kind == ATTACHED);
                link.xdp_attached = mode.is_some_and(|(_, mode)| mode != [0]);
            }
            _ => {}
        }
    }
    Some(link)
}

/// An address of an answer: `struct ifaddrmsg` and attributes.
fn address(body: &[u8]) -> Option<(u32, IpAddr, u8)> {
    let prefix = *body.get(1)?;
    let index = number(body.get(4..8)?)?;
    let mut found = None;
    for (kind, value) in attributes(body.get(8..)?) {
        // A point-to-point interface's own address is the local one.
        if kind == libc::IFA_LOCAL || kind == libc::IFA_ADDRESS && found.is_none() {
            let four = || <[u8; 4]>::try_from(value).ok().map(IpAddr::from);
            let six = || <[u8; 16]>::try_from(value).ok().map(IpAddr::from);
            found = four().or_else(six);
        }
    }
    Some((index, found?, prefix))
}

/// The generic netlink family `netdev`, which says what drivers can of XDP.
struct XdpFamily {
    netlink: Netlink,
    number: u16,
}

impl XdpFamily {
    fn find() -> Option<XdpFamily> {
        const CONTROL: u16 = 0x10;
        const GET_FAMILY: u8 = 3;
        const FAMILY_ID: u16 = 1;
        const FAMILY_NAME: u16 = 2;
        let netlink = Netlink::generic().ok()?;
        let mut body = vec![GET_FAMILY, 1, 0, 0];
        body.extend(attribute(FAMILY_NAME, b"netdev\0"));
        let answer = netlink.ask(CONTROL, &body).ok()?;
        let mut found = attributes(answer.get(4..)?);
        let (_, id) = found.find(|(kind, _)| *kind == FAMILY_ID)?;
        let number = u16::from_ne_bytes(id.try_into().ok()?);
        Some(XdpFamily { netlink, number })
    }

    fn features(&self, index: u32) -> Option<XdpFeatures> {
        const GET_DEVICE: u8 = 1;
        const INDEX: u16 = 1;
        const FEATURES: u16 = 3;
        /// `NETDEV_XDP_ACT_BASIC` and `NETDEV_XDP_ACT_REDIRECT`.
        const NATIVE: u64 = 1 | 2;
        const ZERO_COPY: u64 = 8;
        let mut body = vec![GET_DEVICE, 1, 0, 0];
        body.extend(attribute(INDEX, &index.to_ne_bytes()));
        let answer = self.netlink.ask(self.number, &body).ok()?;
        let mut found = attributes(answer.get(4..)?);
        let (_, bits) = found.find(|(kind, _)| *kind == FEATURES)?;
        let bits = u64::from_ne_bytes(bits.try_into().ok()?);
        Some(XdpFeatures {
            native: bits & NATIVE == NATIVE,
            zero_copy: bits & ZERO_COPY != 0,
        })
    }
}
