//! Packets that leave the chain: sent to their next hop, held until its address is
//! known, or dropped.

use std::net::IpAddr;

use weir_packet::ipv4::Ipv4View;
use weir_packet::ipv6::Ipv6View;
use weir_packet::protocol::ethertype;
use weir_packet::{Frame, FrameMeta, FramePool, LinkType, MacAddr, Side, Time};

use crate::icmp::{LINK, Refusal};
use crate::local::{address, bytes_mut};
use crate::neighbours::{Next, Question};
use crate::routes::Hop;
use crate::{Reason, Router};

/// Disposition of a packet that left the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To a host on a port's link.
    Host(u8, IpAddr),
    /// To the neighbour in a slot.
    Slot(u8, u32),
    /// The same, in pieces of the port's MTU.
    Cut(u8, Option<u32>, IpAddr),
    Drop(Reason),
    /// Dropped, and its sender is told from this port, through the chain.
    Refuse(Reason, Refusal, u8),
}

impl Router {
    /// Takes what left the chain and empties `frames`. Packets go to the side
    /// opposite to that of their metadata, as everywhere behind a chain. Frames
    /// to send now wait in [`Router::output`] of their port, errors to go
    /// through the chain in [`Router::returned`].
    pub fn send(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        for mut frame in frames.drain(..) {
            self.counts.from_chain += 1;
            let (meta, bytes) = memory.read_mut(&mut frame);
            let mut length = bytes.len();
            let way = self.way_out(meta, bytes, &mut length);
            // Padding that the link put behind the packet is not sent on.
            if length < bytes.len() {
                (meta.len, meta.wire_len) = (length as u32, length as u32);
            }
            match way {
                Way::Slot(port, slot) => self.towards(now, pool, frame, usize::from(port), slot),
                Way::Host(port, host) => self.reach(now, pool, frame, usize::from(port), host),
                Way::Cut(port, slot, host) => {
                    self.cut(now, pool, frame, usize::from(port), slot, host);
                }
                Way::Drop(reason) => {
                    self.counts.drop_behind(reason);
                    pool.give(frame);
                }
                Way::Refuse(reason, refusal, port) => {
                    self.counts.drop_behind(reason);
                    self.refuse_behind(now, pool, usize::from(port), &frame, refusal);
                    pool.give(frame);
                }
            }
        }
    }

    /// Says how long the packet is with its link header, too.
    #[inline]
    fn way_out(&self, meta: &FrameMeta, bytes: &[u8], octets: &mut usize) -> Way {
        if meta.link != LinkType::Ethernet {
            return Way::Drop(Reason::NotEthernet);
        }
        let Some((link, packet)) = bytes.split_first_chunk::<LINK>() else {
            return Way::Drop(Reason::Malformed);
        };
        let (hop, host, length, whole) = match u16::from_be_bytes([link[12], link[13]]) {
            ethertype::IPV4 => {
                let Ok(view) = Ipv4View::new(packet) else {
                    return Way::Drop(Reason::Malformed);
                };
                let to = view.destination();
                let length = usize::from(view.total_length());
                if length < view.header_len() || length > packet.len() {
                    return Way::Drop(Reason::Malformed);
                }
                if to.is_multicast() {
                    return Way::Drop(Reason::Multicast);
                }
                let hop = self.routes.v4(to);
                (hop, IpAddr::V4(to), length, view.dont_fragment())
            }
            ethertype::IPV6 => {
                let Ok(view) = Ipv6View::new(packet) else {
                    return Way::Drop(Reason::Malformed);
                };
                let to = view.destination();
                let length = Ipv6View::SIZE + usize::from(view.payload_length());
                if length > packet.len() {
                    return Way::Drop(Reason::Malformed);
                }
                if to.is_multicast() {
                    return Way::Drop(Reason::Multicast);
                }
                if to.is_unicast_link_local() {
                    return Way::Drop(Reason::LinkLocal);
                }
                (self.routes.v6(to), IpAddr::V6(to), length, true)
            }
            other if ethertype::is_vlan(other) => return Way::Drop(Reason::Tagged),
            _ => return Way::Drop(Reason::NotIp),
        };
        *octets = LINK + length;
        self.way_by(hop, host, meta.side.opposite(), length, whole)
    }

    /// The way to the next hop of a packet of `length` octets, which must stay `whole` or may be cut.
    #[inline(always)]
    fn way_by(&self, hop: Hop, host: IpAddr, towards: Side, length: usize, whole: bool) -> Way {
        let (number, slot) = match hop {
            Hop::Link { port } => (port, None),
            Hop::Via { port, neighbour } => (port, Some(neighbour)),
            Hop::None => {
                // The sender is told from whatever port is on that side.
                let mut ports = self.ports.iter().zip(0..);
                let there = ports.find(|(port, _)| port.side == towards);
                return match there {
                    Some((_, port)) => Way::Refuse(Reason::NoRoute, Refusal::NoRoute, port),
                    None => Way::Drop(Reason::NoRoute),
                };
            }
            Hop::Local { .. } => return Way::Drop(Reason::ToRouter),
            Hop::Owned => return Way::Drop(Reason::ToOwned),
            Hop::Broadcast => return Way::Drop(Reason::Broadcast),
        };
        let Some(port) = self.ports.get(usize::from(number)) else {
            return Way::Drop(Reason::NoRoute);
        };
        if port.side != towards {
            return Way::Drop(Reason::SameSide);
        }
        if length > port.mtu {
            return match whole {
                true => {
                    let refusal = Refusal::TooBig(port.mtu as u16);
                    Way::Refuse(Reason::TooBig, refusal, number)
                }
                false => Way::Cut(number, slot, host),
            };
        }
        match slot {
            Some(slot) => Way::Slot(number, slot),
            None => Way::Host(number, host),
        }
    }

    /// Sends a packet to a host on a port's link, or to nobody where the port has
    /// none.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        frame: Frame,
        at: usize,
        host: IpAddr,
    ) {
        if !self.has_wire(at) {
            return self.leave(pool, frame, at, MacAddr::default());
        }
        let found = self.neighbours.find(at as u8, host);
        match found.or_else(|| self.neighbours.add_unknown(at as u8, host)) {
            Some(slot) => self.send_to(now, pool, frame, at, slot),
            None => {
                self.counts.drop_behind(Reason::NeighboursFull);
                pool.give(frame);
            }
        }
    }

    /// Sends a packet to the neighbour in a slot, or keeps it until that is
    /// known.
    #[inline(always)]
    pub(crate) fn towards(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        frame: Frame,
        at: usize,
        slot: u32,
    ) {
        match self.has_wire(at) {
            true => self.send_to(now, pool, frame, at, slot),
            false => self.leave(pool, frame, at, MacAddr::default()),
        }
    }

    /// The same on a port with a wire.
    #[inline(always)]
    fn send_to(&mut self, now: Time, pool: &mut FramePool, frame: Frame, at: usize, slot: u32) {
        let next = self.neighbours.next(now, slot);
        match next {
            Next::Send(mac) => self.leave(pool, frame, at, mac),
            Next::Hold | Next::Ask => {
                // Those that wait leave enough frames for those that go.
                let over = match pool.is_low(&frame) {
                    true => Some(frame),
                    false => self.neighbours.hold(slot, frame),
                };
                if let Some(over) = over {
                    self.counts.drop_behind(Reason::HoldFull);
                    pool.give(over);
                }
                if next == Next::Ask {
                    self.ask(now, pool, Question { slot, mac: None });
                }
            }
            Next::Gone => self.unresolved(now, pool, frame, slot),
        }
    }

    /// Gives a packet its hardware addresses and puts it in its port's list.
    #[inline]
    fn leave(&mut self, pool: &mut FramePool, mut frame: Frame, at: usize, mac: MacAddr) {
        let Some(port) = self.ports.get_mut(at) else {
            return pool.give(frame);
        };
        let (meta, room) = pool.memory().split_mut(&mut frame);
        address(bytes_mut(meta, room), mac, port.mac);
        port.out.push(frame);
        self.counts.sent += 1;
    }

    /// Drops a packet whose next hop does not answer, and says so (RFC 1812
    /// section 5.2.7.1, RFC 4861 section 7.2.2).
    #[cold]
    pub(crate) fn unresolved(&mut self, now: Time, pool: &mut FramePool, frame: Frame, slot: u32) {
        self.counts.drop_behind(Reason::Unresolved);
        if let Some((port, ..)) = self.neighbours.get(slot) {
            self.refuse_behind(now, pool, usize::from(port), &frame, Refusal::Silent);
        }
        pool.give(frame);
    }

    /// Sends what waited for a neighbour that is known now.
    pub(crate) fn flush(&mut self, now: Time, pool: &mut FramePool, slot: u32) {
        use crate::NeighbourState::{Failed, Incomplete};
        let state = self.neighbours.state(slot);
        let Some((port, ..)) = self.neighbours.get(slot) else {
            return;
        };
        if matches!(state, Some(Incomplete | Failed)) {
            return;
        }
        while let Some(frame) = self.neighbours.release(slot) {
            self.towards(now, pool, frame, usize::from(port), slot);
        }
    }

    /// True if a question to this neighbour is open.
    pub(crate) fn is_asked(&self, slot: u32) -> bool {
        use crate::NeighbourState::{Incomplete, Probe};
        matches!(self.neighbours.state(slot), Some(Incomplete | Probe))
    }

    /// Asks a neighbour, or for one.
    pub(crate) fn ask(&mut self, now: Time, pool: &mut FramePool, question: Question) {
        match self.neighbours.get(question.slot) {
            Some((port, IpAddr::V4(target), _)) => {
                self.ask_v4(now, pool, usize::from(port), target, question.mac);
            }
            Some((port, IpAddr::V6(target), _)) => {
                self.ask_v6(now, pool, usize::from(port), target, question.mac);
            }
            None => {}
        }
    }

    /// Puts a frame that has its hardware addresses in its port's list.
    pub(crate) fn put_out(&mut self, at: usize, frame: Frame) {
        if let Some(port) = self.ports.get_mut(at) {
            port.out.push(frame);
            self.counts.sent += 1;
        }
    }
}
