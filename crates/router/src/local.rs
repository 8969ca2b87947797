//! Packets that the router makes itself: echo replies and ICMP errors.

use std::net::IpAddr;

use weir_packet::checksum::Change;
use weir_packet::ethernet::EthernetRepr;
use weir_packet::icmp::{IcmpViewMut, kind as icmp};
use weir_packet::icmpv6::{Icmpv6ViewMut, kind as icmpv6};
use weir_packet::ipv4::{Ipv4View, Ipv4ViewMut};
use weir_packet::ipv6::{Ipv6View, Ipv6ViewMut};
use weir_packet::protocol::ethertype;
use weir_packet::{Frame, FrameMeta, FramePool, MacAddr, Time, frame_flags};

use crate::icmp::{self as error, LINK, ROOM, Refusal, TTL};
use crate::identification::Identifications;
use crate::routes::Hop;
use crate::{Reason, Router, is_link_local};

/// "Don't fragment".
const DONT_FRAGMENT: u16 = 0x4000;

/// The datagram of a frame, without what an Ethernet put behind it, and its
/// ends.
pub(crate) fn datagram(bytes: &[u8]) -> Option<(&[u8], IpAddr, IpAddr)> {
    let packet = bytes.get(LINK..)?;
    match packet.first()? >> 4 {
        4 => {
            let view = Ipv4View::new(packet).ok()?;
            let length = usize::from(view.total_length());
            let packet = packet
                .get(..length)
                .filter(|_| length >= view.header_len())?;
            Some((packet, view.source().into(), view.destination().into()))
        }
        6 => {
            let view = Ipv6View::new(packet).ok()?;
            let length = Ipv6View::SIZE + usize::from(view.payload_length());
            let packet = packet.get(..length)?;
            Some((packet, view.source().into(), view.destination().into()))
        }
        _ => None,
    }
}

/// The datagram of a frame and its sender, if that may be told of an error.
fn complaint(bytes: &[u8]) -> Option<(&[u8], IpAddr)> {
    let (packet, ..) = datagram(bytes)?;
    Some((packet, error::may_be_told(packet)?))
}

impl Router {
    /// Answers an echo request (RFC 792, RFC 4443 section 4.2) in its own frame.
    pub(crate) fn echo(&mut self, now: Time, pool: &mut FramePool, at: usize, mut frame: Frame) {
        let memory = pool.memory().clone();
        let (meta, room) = memory.split_mut(&mut frame);
        let start = usize::from(meta.start);
        let packet = room.get_mut(start + LINK..start + meta.len as usize);
        let identifications = &mut self.identifications;
        if packet.and_then(|p| turn_echo(p, identifications)).is_none() {
            self.counts.drop_before(Reason::Malformed);
            return pool.give(frame);
        }
        meta.side = self.ports.get(at).map_or(meta.side, |port| port.side);
        // Padding that the link put behind the request is not sent on.
        let bytes = bytes_mut(meta, room);
        if let Some((packet, ..)) = datagram(bytes) {
            let length = (LINK + packet.len()) as u32;
            (meta.len, meta.wire_len) = (length, length);
        }
        self.counts.echo += 1;
        self.send_made(now, pool, at, frame);
    }

    /// Tells the sender of a packet, as it came in by port `at`, that it goes no
    /// further.
    pub(crate) fn refuse(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        frame: &Frame,
        refusal: Refusal,
    ) {
        let memory = pool.memory().clone();
        let Some((packet, to)) = complaint(memory.bytes(frame)) else {
            return;
        };
        // From the port by which it leaves (RFC 1812 section 4.3.2.4).
        let leaves = match self.routes.of(to) {
            _ if is_link_local(to) => at,
            Hop::Link { port } | Hop::Via { port, .. } => usize::from(port),
            _ => return,
        };
        let own = |at: usize| Some((at, self.ports.get(at)?.source_for(to)?));
        let Some((of, from)) = own(leaves).or_else(|| own(at)) else {
            return;
        };
        if let Some(frame) = self.error(now, pool, at, refusal, (from, to), packet) {
            self.send_made(now, pool, of, frame);
        }
    }

    /// Tells the sender of a packet that has passed the chain that it goes no
    /// further than port `at`: from there, through the chain the other way.
    pub(crate) fn refuse_behind(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        frame: &Frame,
        refusal: Refusal,
    ) {
        let memory = pool.memory().clone();
        let (meta, bytes) = memory.read(frame);
        if meta.flags & frame_flags::EMITTED != 0 {
            return; // nobody sent it
        }
        let Some((packet, to)) = complaint(bytes) else {
            return;
        };
        let Some(port) = self.ports.get(at) else {
            return;
        };
        let side = port.side;
        let Some(from) = port.source_for(to) else {
            return;
        };
        if let Some(frame) = self.error(now, pool, at, refusal, (from, to), packet) {
            self.counts.errors_through_chain += 1;
            self.returned[side as usize].push(frame);
        }
    }

    /// An error as a frame, if one more may be sent.
    fn error(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        refusal: Refusal,
        (from, to): (IpAddr, IpAddr),
        packet: &[u8],
    ) -> Option<Frame> {
        if !self.limit.take(now, refusal) {
            self.counts.errors_limited += 1;
            return None;
        }
        let mac = self.ports.get(at)?.mac;
        let mut buffer = [0; ROOM];
        let length = error::write(&mut buffer, refusal, (from, to), packet)?;
        let link = EthernetRepr {
            destination: mac,
            source: mac,
            ethertype: if from.is_ipv4() {
                ethertype::IPV4
            } else {
                ethertype::IPV6
            },
        };
        link.emit(&mut buffer).ok()?;
        let frame = self.make(now, pool, at, buffer.get(..length)?)?;
        self.counts.errors += 1;
        Some(frame)
    }

    /// Sends a packet of the router's own, which has the addresses of IP; `at`
    /// is the port where its link-local addresses are.
    pub(crate) fn send_made(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        mut frame: Frame,
    ) {
        self.counts.made += 1;
        let memory = pool.memory().clone();
        memory.meta_mut(&mut frame).flags |= frame_flags::EMITTED;
        let facts = datagram(memory.bytes(&frame)).map(|(packet, from, to)| {
            let whole = Ipv4View::new(packet).is_ok_and(|view| view.dont_fragment());
            (packet.len(), whole || to.is_ipv6(), from, to)
        });
        let hop = match facts {
            Some((.., to)) if is_link_local(to) => Some((at, None)),
            Some((.., to)) => match self.routes.of(to) {
                Hop::Link { port } => Some((usize::from(port), None)),
                Hop::Via { port, neighbour } => Some((usize::from(port), Some(neighbour))),
                _ => None,
            },
            None => None,
        };
        let (Some((length, whole, from, to)), Some((port, slot))) = (facts, hop) else {
            self.counts.drop_behind(Reason::NoRoute);
            return pool.give(frame);
        };
        // A link-local source means nothing on another link.
        if is_link_local(from) && port != at {
            self.counts.drop_behind(Reason::LinkLocal);
            return pool.give(frame);
        }
        let most = self.ports.get(port).map_or(0, |port| port.mtu);
        match slot {
            _ if length > most && whole => {
                self.counts.drop_behind(Reason::TooBig);
                pool.give(frame);
            }
            _ if length > most => self.cut(now, pool, frame, port, slot, to),
            Some(slot) => self.towards(now, pool, frame, port, slot),
            None => self.reach(now, pool, frame, port, to),
        }
    }
}

/// Makes the answer of an echo request, in place.
fn turn_echo(packet: &mut [u8], identifications: &mut Identifications) -> Option<()> {
    match packet.first()? >> 4 {
        4 => {
            let mut view = Ipv4ViewMut::new(packet).ok()?;
            let (source, destination) = (view.source(), view.destination());
            view.set_source(destination);
            view.set_destination(source);
            view.set_ttl(TTL);
            // The way back may take less than the way here.
            let fragment = view.view().fragment() & !DONT_FRAGMENT;
            view.set_fragment(fragment);
            // So it needs an identification that the pieces of no other answer
            // have. The asker's is none where its datagram could not be cut: many
            // send 0 then (RFC 6864 section 4.1).
            view.set_id(identifications.next(source));
            view.fill_checksum();
            let at = view.view().header_len();
            let mut message = IcmpViewMut::new(packet.get_mut(at..)?).ok()?;
            let old = u16::from_be_bytes([icmp::ECHO, message.code()]);
            let new = u16::from_be_bytes([icmp::ECHO_REPLY, message.code()]);
            let sum = Change::new().word(old, new).apply(message.checksum());
            message.set_kind(icmp::ECHO_REPLY);
            message.set_checksum(sum);
        }
        _ => {
            let mut view = Ipv6ViewMut::new(packet).ok()?;
            let (source, destination) = (view.source(), view.destination());
            view.set_source(destination);
            view.set_destination(source);
            view.set_hop_limit(TTL);
            let mut message = Icmpv6ViewMut::new(view.rest_mut()).ok()?;
            let old = u16::from_be_bytes([icmpv6::ECHO, message.code()]);
            let new = u16::from_be_bytes([icmpv6::ECHO_REPLY, message.code()]);
            let sum = Change::new().word(old, new).apply(message.checksum());
            message.set_kind(icmpv6::ECHO_REPLY);
            message.set_checksum(sum);
        }
    }
    Some(())
}

/// Writes the hardware addresses of a frame.
#[inline]
pub(crate) fn address(bytes: &mut [u8], to: MacAddr, from: MacAddr) {
    if let Some(link) = bytes.first_chunk_mut::<12>() {
        link[..6].copy_from_slice(&to.0);
        link[6..].copy_from_slice(&from.0);
    }
}

/// The bytes of a frame, for writing.
#[inline]
pub(crate) fn bytes_mut<'a>(meta: &FrameMeta, room: &'a mut [u8]) -> &'a mut [u8] {
    let start = usize::from(meta.start);
    room.get_mut(start..start + meta.len as usize)
        .unwrap_or(&mut [])
}
