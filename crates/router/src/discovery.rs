//! Neighbour discovery for IPv6 (RFC 4861): solicitations and advertisements.
//! Router advertisements are not sent: hosts are given their routes.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::checksum::Sum;
use weir_packet::ethernet::EthernetRepr;
use weir_packet::icmpv6::Icmpv6ViewMut;
use weir_packet::ipv6::Ipv6View;
use weir_packet::protocol::{ethertype, ip};
use weir_packet::{Frame, FramePool, MacAddr, Time};

use crate::icmp::{LINK, header_v6};
use crate::{Reason, Router};

/// Neighbour solicitation.
pub(crate) const SOLICITATION: u8 = 135;
/// Neighbour advertisement.
pub(crate) const ADVERTISEMENT: u8 = 136;
/// Options with a hardware address: the source's, the target's.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;
/// The hop limit that shows that no router has passed the packet on.
const HOPS: u8 = 255;
/// Octets of a message with one hardware address, in its frame.
const LENGTH: usize = LINK + 40 + 24 + 8;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A solicitation or an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    kind: u8,
    flags: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    /// The hardware address of its option: of the source in a solicitation,
    /// of the target in an advertisement.
    mac: Option<MacAddr>,
    /// The station that sent the frame.
    from: MacAddr,
}

/// All nodes of the link.
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group in which a host listens for questions about its address (RFC 4291
/// section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let last = u128::from(address) & 0xff_ffff;
    Ipv6Addr::from(u128::from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0)) | last)
}

/// The hardware address of a group (RFC 2464 section 7).
fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Reads a message and makes all the checks of sections 7.1.1 and 7.1.2.
fn read(frame: &[u8]) -> Option<Message> {
    let (link, packet) = frame.split_first_chunk::<LINK>()?;
    let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *link;
    let from = MacAddr([a, b, c, d, e, f]);
    let view = Ipv6View::new(packet).ok()?;
    let (source, destination) = (view.source(), view.destination());
    let length = usize::from(view.payload_length());
    let body = view.rest().get(..length)?;
    let (head, mut options) = body.split_first_chunk::<24>()?;
    let [kind, code, _, _, flags, _, _, _, target @ ..] = *head;
    let target = Ipv6Addr::from(target);
    let sum = Sum::new()
        .pseudo_ipv6(source, destination, ip::ICMPV6, length as u32)
        .bytes(body);
    if view.hop_limit() != HOPS || sum.folded() != 0xffff || code != 0 || target.is_multicast() {
        return None;
    }
    let wanted = if kind == SOLICITATION { SOURCE } else { TARGET };
    let mut mac = None;
    while let [option, units, ..] = *options {
        let length = usize::from(units) * 8;
        let (this, rest) = options.split_at_checked(length).filter(|_| length > 0)?;
        if option == wanted
            && let [_, _, a, b, c, d, e, f, ..] = *this
        {
            mac = Some(MacAddr([a, b, c, d, e, f])).filter(|mac| !mac.is_multicast());
        }
        options = rest;
    }
    if !options.is_empty() {
        return None;
    }
    let fits = match kind {
        SOLICITATION if source.is_unspecified() => {
            destination == solicited_node(target) && mac.is_none()
        }
        SOLICITATION => true,
        _ => !(destination.is_multicast() && flags & SOLICITED != 0),
    };
    fits.then_some(Message {
        kind,
        flags,
        source,
        destination,
        target,
        mac,
        from,
    })
}

/// Writes a message as a frame: with the option, but where nobody may know whose
/// question it is (section 4.3). Its length is given, too.
fn write(to: MacAddr, message: &Message) -> Option<([u8; LENGTH], usize)> {
    let mut frame = [0; LENGTH];
    let link = EthernetRepr {
        destination: to,
        source: message.from,
        ethertype: ethertype::IPV6,
    };
    let mut at = link.emit(&mut frame).ok()?;
    let option = if message.mac.is_some() { 8 } else { 0 };
    let length = 24 + option;
    let (source, destination) = (message.source, message.destination);
    at += header_v6(
        frame.get_mut(at..)?,
        source,
        destination,
        length as u16,
        HOPS,
    )?;
    let body = frame.get_mut(at..)?.first_chunk_mut::<32>()?;
    body[0] = message.kind;
    body[4] = message.flags;
    body[8..24].copy_from_slice(&message.target.octets());
    if let Some(mac) = message.mac {
        body[24] = match message.kind {
            SOLICITATION => SOURCE,
            _ => TARGET,
        };
        body[25] = 1;
        body[26..32].copy_from_slice(&mac.0);
    }
    let pseudo = Sum::new().pseudo_ipv6(source, destination, ip::ICMPV6, length as u32);
    let body = body.get_mut(..length)?;
    Icmpv6ViewMut::new(body).ok()?.fill_checksum(pseudo);
    Some((frame, at + length))
}

impl Router {
    /// Takes a solicitation or an advertisement that came in by a port.
    pub(crate) fn discover(&mut self, now: Time, pool: &mut FramePool, at: usize, frame: Frame) {
        let memory = pool.memory().clone();
        let Some(message) = read(memory.bytes(&frame)) else {
            pool.give(frame);
            return self.counts.drop_before(Reason::BadDiscovery);
        };
        self.tell(pool, frame);
        self.counts.discovery += 1;
        if message.kind == SOLICITATION {
            self.solicited(now, pool, at, &message);
        } else {
            self.advertised(now, pool, at, &message);
        }
    }

    /// Section 7.2.3 and 7.2.4.
    fn solicited(&mut self, now: Time, pool: &mut FramePool, at: usize, message: &Message) {
        let target = message.target;
        let Some(own) = self.ports.get(at).map(|port| port.mac) else {
            return;
        };
        // The router's own message may come back.
        if self.is_own(message.from) || !self.answers_for(at, target.into()) {
            return;
        }
        let anonymous = message.source.is_unspecified();
        self.learn_v6(now, pool, at, message);
        if anonymous {
            // Somebody else wants the address (RFC 4862 section 5.4.3).
            self.claimed(at, target.into(), message.from, false);
        }
        self.counts.answered += 1;
        let answer = Message {
            kind: ADVERTISEMENT,
            flags: ROUTER | OVERRIDE | if anonymous { 0 } else { SOLICITED },
            source: target,
            destination: if anonymous { ALL } else { message.source },
            target,
            mac: Some(own),
            from: own,
        };
        if anonymous {
            return self.send_discovery(now, pool, at, group_mac(ALL), &answer);
        }
        if let Some(mac) = message.mac {
            return self.send_discovery(now, pool, at, mac, &answer);
        }
        // A unicast question need not say where it is from (section 4.3): the
        // answer goes as any packet of the router's.
        if let Some((bytes, length)) = write(MacAddr::default(), &answer)
            && let Some(frame) = self.make(now, pool, at, &bytes[..length])
        {
            self.send_made(now, pool, at, frame);
        }
    }

    /// Learns the sender of a question for one of the router's addresses.
    fn learn_v6(&mut self, now: Time, pool: &mut FramePool, at: usize, message: &Message) {
        let source = IpAddr::V6(message.source);
        if let Some(mac) = message.mac
            && self.is_on_link(at, source)
            && !self.answers_for(at, source)
        {
            let found = self.neighbours.find(at as u8, source);
            if let Some(slot) = found.or_else(|| self.neighbours.add(at as u8, source)) {
                let moved = self.neighbours.heard(slot, mac);
                self.counts.moved += u64::from(moved);
                self.flush(now, pool, slot);
            }
        }
    }

    /// Takes a message that another router of the same ports has answered: what it
    /// says of its sender is remembered.
    pub(crate) fn overhear_discovery(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        bytes: &[u8],
    ) {
        let Some(message) = read(bytes) else { return };
        let target = IpAddr::V6(message.target);
        match (message.kind, self.answers_for(at, target)) {
            (SOLICITATION, true) if !self.is_own(message.from) => {
                self.learn_v6(now, pool, at, &message);
            }
            (ADVERTISEMENT, false) => self.advertised(now, pool, at, &message),
            _ => {}
        }
    }

    /// Section 7.2.5.
    fn advertised(&mut self, now: Time, pool: &mut FramePool, at: usize, message: &Message) {
        let target = IpAddr::V6(message.target);
        if self.answers_for(at, target) {
            if let Some(mac) = message.mac.filter(|mac| !self.is_own(*mac)) {
                self.taken(now, pool, at, target, mac);
            }
            return;
        }
        let Some(slot) = self.neighbours.find(at as u8, target) else {
            return;
        };
        let solicited = message.flags & SOLICITED != 0;
        let overrides = message.flags & OVERRIDE != 0;
        let known = self.neighbours.get(slot).map(|(_, _, mac)| mac);
        let other = message.mac.filter(|mac| Some(*mac) != known);
        let waits = self.neighbours.state(slot) == Some(crate::NeighbourState::Incomplete);
        let moved = match (other, message.mac) {
            (Some(mac), _) if !waits && !overrides => {
                self.neighbours.doubt(slot, mac);
                false
            }
            (_, mac) if solicited => self.neighbours.confirm(now, slot, mac),
            (_, Some(mac)) => self.neighbours.heard(slot, mac),
            (_, None) => false,
        };
        self.counts.moved += u64::from(moved);
        self.flush(now, pool, slot);
    }

    /// Says to all where an address is (section 7.2.6).
    pub(crate) fn announce_v6(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        address: Ipv6Addr,
    ) {
        let Some(own) = self.ports.get(at).map(|port| port.mac) else {
            return;
        };
        let message = Message {
            kind: ADVERTISEMENT,
            flags: ROUTER | OVERRIDE,
            source: address,
            destination: ALL,
            target: address,
            mac: Some(own),
            from: own,
        };
        self.send_discovery(now, pool, at, group_mac(ALL), &message);
    }

    /// Asks for a neighbour: its group, or itself at its address (section
    /// 7.2.2).
    pub(crate) fn ask_v6(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
    ) {
        let Some(port) = self.ports.get(at) else {
            return;
        };
        let own = port.mac;
        let Some(IpAddr::V6(source)) = port.source_for(target.into()) else {
            return;
        };
        let group = solicited_node(target);
        let message = Message {
            kind: SOLICITATION,
            flags: 0,
            source,
            destination: if mac.is_some() { target } else { group },
            target,
            mac: Some(own),
            from: own,
        };
        self.counts.asked += 1;
        let to = mac.unwrap_or(group_mac(group));
        self.send_discovery(now, pool, at, to, &message);
    }

    /// Asks all whether somebody has an address, without saying that it is the
    /// router's (RFC 4862 section 5.4.2).
    pub(crate) fn probe_v6(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        target: Ipv6Addr,
    ) {
        let Some(own) = self.ports.get(at).map(|port| port.mac) else {
            return;
        };
        let group = solicited_node(target);
        let message = Message {
            kind: SOLICITATION,
            flags: 0,
            source: Ipv6Addr::UNSPECIFIED,
            destination: group,
            target,
            mac: None,
            from: own,
        };
        self.send_discovery(now, pool, at, group_mac(group), &message);
    }

    fn send_discovery(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        to: MacAddr,
        message: &Message,
    ) {
        if let Some((bytes, length)) = write(to, message)
            && let Some(frame) = self.make(now, pool, at, &bytes[..length])
        {
            self.counts.made += 1;
            self.put_out(at, frame);
        }
    }
}
