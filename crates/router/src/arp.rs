//! ARP (RFC 826; announcements and conflicts of RFC 5227).

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::arp::{ArpRepr, REPLY, REQUEST};
use weir_packet::ethernet::EthernetRepr;
use weir_packet::protocol::ethertype;
use weir_packet::{Frame, FramePool, MacAddr, Time};

use crate::icmp::LINK;
use crate::{Reason, Router};

/// Octets of an ARP packet in an Ethernet frame.
const LENGTH: usize = LINK + 28;

/// Writes an ARP packet as a frame.
fn write(to: MacAddr, from: MacAddr, packet: &ArpRepr) -> Option<[u8; LENGTH]> {
    let mut frame = [0; LENGTH];
    let link = EthernetRepr {
        destination: to,
        source: from,
        ethertype: ethertype::ARP,
    };
    let at = link.emit(&mut frame).ok()?;
    packet.emit(frame.get_mut(at..)?).ok()?;
    Some(frame)
}

/// Reads a question or an answer whose sender is one station.
fn read(frame: &[u8]) -> Option<ArpRepr> {
    let packet = ArpRepr::parse(frame.get(LINK..)?).ok()?;
    let known = matches!(packet.operation, REQUEST | REPLY);
    let group = packet.sender_mac.is_multicast() || packet.sender.is_multicast();
    (known && !group && packet.sender_mac != MacAddr::default()).then_some(packet)
}

impl Router {
    /// Takes an ARP packet that came in by a port.
    pub(crate) fn arp(&mut self, now: Time, pool: &mut FramePool, at: usize, frame: Frame) {
        let memory = pool.memory().clone();
        let Some(packet) = read(memory.bytes(&frame)) else {
            pool.give(frame);
            return self.counts.drop_before(Reason::BadArp);
        };
        self.tell(pool, frame);
        self.counts.arp += 1;
        let Some(own) = self.ports.get(at).map(|port| port.mac) else {
            return;
        };
        if self.is_own(packet.sender_mac) {
            return; // what it sent itself has come back
        }
        let sender = IpAddr::V4(packet.sender);
        if self.answers_for(at, sender) {
            return self.taken(now, pool, at, sender, packet.sender_mac);
        }
        let asked = packet.operation == REQUEST && self.answers_for(at, packet.target.into());
        if !packet.sender.is_unspecified() && self.is_on_link(at, sender) {
            self.learn_v4(now, pool, at, &packet, asked);
        }
        if asked {
            if packet.sender.is_unspecified() {
                // Somebody else wants the address (RFC 5227 section 2.1.1); the
                // answer says that it is taken.
                self.claimed(at, packet.target.into(), packet.sender_mac, false);
            }
            let answer = ArpRepr {
                operation: REPLY,
                sender_mac: own,
                sender: packet.target,
                target_mac: packet.sender_mac,
                target: packet.sender,
            };
            self.counts.answered += 1;
            self.send_arp(now, pool, at, packet.sender_mac, &answer);
        }
    }

    /// Takes an ARP packet that another router of the same ports has answered: what it
    /// says of its sender is remembered.
    pub(crate) fn overhear_arp(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        bytes: &[u8],
    ) {
        let Some(packet) = read(bytes) else { return };
        let sender = IpAddr::V4(packet.sender);
        if self.is_own(packet.sender_mac) || self.answers_for(at, sender) {
            return;
        }
        let asked = packet.operation == REQUEST && self.answers_for(at, packet.target.into());
        if !packet.sender.is_unspecified() && self.is_on_link(at, sender) {
            self.learn_v4(now, pool, at, &packet, asked);
        }
    }

    /// Takes in the sender's address. A sender that asks for one of the router's
    /// addresses is added, since it will be answered; another one is only updated,
    /// so that nobody can fill the table by talking.
    fn learn_v4(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        packet: &ArpRepr,
        asked: bool,
    ) {
        let sender = IpAddr::V4(packet.sender);
        let found = self.neighbours.find(at as u8, sender);
        let slot = match found {
            None if asked => self.neighbours.add(at as u8, sender),
            found => found,
        };
        let Some(slot) = slot else {
            return;
        };
        // A reply to this port is the answer to a question of its own.
        let own = self
            .ports
            .get(at)
            .is_some_and(|port| port.has(packet.target.into()));
        let moved = if packet.operation == REPLY && own && self.is_asked(slot) {
            self.neighbours.confirm(now, slot, Some(packet.sender_mac))
        } else {
            self.neighbours.heard(slot, packet.sender_mac)
        };
        self.counts.moved += u64::from(moved);
        self.flush(now, pool, slot);
    }

    /// Says to all where an address is (RFC 5227 section 3: as a request).
    pub(crate) fn announce_v4(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        address: Ipv4Addr,
    ) {
        self.ask_all(now, pool, at, address, address);
    }

    /// Asks all whether somebody has an address, without saying that it is the
    /// router's (RFC 5227 section 2.1.1).
    pub(crate) fn probe_v4(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        address: Ipv4Addr,
    ) {
        self.ask_all(now, pool, at, Ipv4Addr::UNSPECIFIED, address);
    }

    fn ask_all(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        sender: Ipv4Addr,
        target: Ipv4Addr,
    ) {
        let Some(own) = self.ports.get(at).map(|port| port.mac) else {
            return;
        };
        let packet = ArpRepr {
            operation: REQUEST,
            sender_mac: own,
            sender,
            target_mac: MacAddr::default(),
            target,
        };
        self.send_arp(now, pool, at, MacAddr::BROADCAST, &packet);
    }

    /// Asks for a neighbour: everybody, or itself at its address (RFC 1122
    /// section 2.3.2.1 (2)).
    pub(crate) fn ask_v4(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        target: Ipv4Addr,
        mac: Option<MacAddr>,
    ) {
        let Some(port) = self.ports.get(at) else {
            return;
        };
        let own = port.mac;
        let Some(IpAddr::V4(sender)) = port.source_for(target.into()) else {
            return;
        };
        let packet = ArpRepr {
            operation: REQUEST,
            sender_mac: own,
            sender,
            target_mac: MacAddr::default(),
            target,
        };
        self.counts.asked += 1;
        self.send_arp(now, pool, at, mac.unwrap_or(MacAddr::BROADCAST), &packet);
    }

    fn send_arp(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        to: MacAddr,
        packet: &ArpRepr,
    ) {
        let bytes = self
            .ports
            .get(at)
            .and_then(|port| write(to, port.mac, packet));
        if let Some(bytes) = bytes
            && let Some(frame) = self.make(now, pool, at, &bytes)
        {
            self.counts.made += 1;
            self.put_out(at, frame);
        }
    }
}
