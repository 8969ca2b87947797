//! Receives frames of a port: they go to the chain, or are answered or dropped.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::icmp::kind as icmp;
use weir_packet::icmpv6::kind as icmpv6;
use weir_packet::ipv4::{Ipv4View, Ipv4ViewMut};
use weir_packet::ipv6::{Ipv6View, Ipv6ViewMut};
use weir_packet::protocol::{ethertype, ip};
use weir_packet::{Frame, FramePool, LinkType, MacAddr, Time};

use crate::discovery::{ADVERTISEMENT, SOLICITATION};
use crate::icmp::{LINK, Refusal};
use crate::routes::Hop;
use crate::{Reason, Router};

/// The decision on a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Chain,
    Drop(Reason),
    /// Dropped, and its sender is told.
    Refuse(Reason, Refusal),
    Arp,
    Discovery,
    Echo,
}

impl Router {
    /// Takes frames that came in by port number `at`. Packets for the chain
    /// stay in `frames`, in order, their time to live counted down; the rest is
    /// dealt with. Frames may wait in [`Router::output`] after it.
    pub fn receive(&mut self, now: Time, at: usize, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        let mut keep = core::mem::take(&mut self.keep);
        for mut frame in frames.drain(..) {
            self.counts.received += 1;
            let (meta, room) = memory.split_mut(&mut frame);
            let start = usize::from(meta.start);
            let bytes = room.get_mut(start..start + meta.len as usize);
            let way = match bytes {
                Some(bytes) if meta.link == LinkType::Ethernet => self.way(at, bytes),
                _ => Way::Drop(Reason::NotEthernet),
            };
            match way {
                Way::Chain => {
                    self.counts.to_chain += 1;
                    keep.push(frame);
                }
                Way::Drop(reason) => {
                    self.counts.drop_before(reason);
                    pool.give(frame);
                }
                Way::Refuse(reason, refusal) => {
                    self.counts.drop_before(reason);
                    self.refuse(now, pool, at, &frame, refusal);
                    pool.give(frame);
                }
                Way::Arp | Way::Discovery if !self.has_wire(at) => {
                    self.counts.drop_before(Reason::NoWire);
                    pool.give(frame);
                }
                Way::Arp => self.arp(now, pool, at, frame),
                Way::Discovery => self.discover(now, pool, at, frame),
                Way::Echo => self.echo(now, pool, at, frame),
            }
        }
        core::mem::swap(frames, &mut keep);
        self.keep = keep;
    }

    /// Decides, and counts the time to live down where the packet goes on.
    #[inline]
    fn way(&self, at: usize, bytes: &mut [u8]) -> Way {
        let Some((link, packet)) = bytes.split_first_chunk_mut::<LINK>() else {
            return Way::Drop(Reason::Malformed);
        };
        let [d0, d1, d2, d3, d4, d5, .., e0, e1] = *link;
        let to = MacAddr([d0, d1, d2, d3, d4, d5]);
        let many = to.is_multicast();
        let port = self.ports.get(at);
        if !many && port.is_none_or(|port| port.mac != to && port.wire) {
            return Way::Drop(Reason::OtherStation);
        }
        match u16::from_be_bytes([e0, e1]) {
            ethertype::IPV4 => self.way_v4(at, packet, many),
            ethertype::IPV6 => self.way_v6(at, packet, many),
            ethertype::ARP => Way::Arp,
            other if ethertype::is_vlan(other) => Way::Drop(Reason::Tagged),
            _ => Way::Drop(Reason::NotIp),
        }
    }

    #[inline]
    fn way_v4(&self, at: usize, packet: &mut [u8], many: bool) -> Way {
        let room = packet.len();
        let Ok(mut header) = Ipv4ViewMut::new(packet) else {
            return Way::Drop(Reason::Malformed);
        };
        let view = header.view();
        let length = usize::from(view.total_length());
        if length < view.header_len() || length > room || !view.checksum_is_right() {
            return Way::Drop(Reason::Malformed);
        }
        let (source, destination) = (view.source(), view.destination());
        let (from, to) = (source.octets(), destination.octets());
        if to[0] & 0xf0 == 224 {
            return Way::Drop(Reason::Multicast);
        }
        let hop = self.routes.v4(destination);
        if hop == Hop::Broadcast {
            return Way::Drop(Reason::Broadcast);
        }
        if many {
            return Way::Drop(Reason::LinkBroadcast);
        }
        // RFC 1812 section 5.3.7: 0/8, 127/8, groups, class E.
        let odd = |first: u8| first == 0 || first == 127 || first >= 224;
        if odd(from[0]) || odd(to[0]) {
            return Way::Drop(Reason::Martian);
        }
        if (from[0] == 169 && from[1] == 254) || (to[0] == 169 && to[1] == 254) {
            return Way::Drop(Reason::LinkLocal);
        }
        if view.header_len() > Ipv4View::SIZE && has_source_route(&view) {
            return Way::Drop(Reason::SourceRoute);
        }
        if matches!(hop, Hop::Local { .. } | Hop::Owned) {
            let whole = view.fragment() & 0x3fff == 0;
            let kind = view.payload().first().copied();
            let of_port = hop != Hop::Owned;
            let of_chain = !matches!(hop, Hop::Local { owned: false, .. });
            match view.proto() {
                ip::ICMP if whole && kind == Some(icmp::REDIRECT) => {
                    return Way::Drop(Reason::Redirect);
                }
                ip::ICMP if whole && of_port && kind == Some(icmp::ECHO) => return Way::Echo,
                _ if of_chain => {}
                ip::UDP if whole => return Way::Refuse(Reason::ToRouter, Refusal::Port),
                _ => return Way::Drop(Reason::ToRouter),
            }
        }
        self.onward_v4(at, &mut header, hop, length)
    }

    /// A packet for somebody else.
    #[inline]
    fn onward_v4(&self, at: usize, header: &mut Ipv4ViewMut<'_>, hop: Hop, length: usize) -> Way {
        if header.ttl() <= 1 {
            return Way::Refuse(Reason::TtlExceeded, Refusal::TimeExceeded);
        }
        let mtu = match self.onward(at, hop) {
            Ok(mtu) => mtu,
            Err(way) => return way,
        };
        if length > mtu && header.view().dont_fragment() {
            return Way::Refuse(Reason::TooBig, Refusal::TooBig(mtu as u16));
        }
        header.decrement_ttl();
        Way::Chain
    }

    /// The MTU towards where this leads, if it leads out on the other side.
    #[inline]
    fn onward(&self, at: usize, hop: Hop) -> Result<usize, Way> {
        let refuse = |reason, refusal| Err(Way::Refuse(reason, refusal));
        let Some(side) = self.ports.get(at).map(|port| port.side) else {
            return Err(Way::Drop(Reason::NoRoute));
        };
        match hop {
            Hop::Link { port } | Hop::Via { port, .. } => match self.ports.get(usize::from(port)) {
                Some(port) if port.side != side => Ok(port.mtu),
                Some(_) => refuse(Reason::SameSide, Refusal::Prohibited),
                None => Err(Way::Drop(Reason::NoRoute)),
            },
            // Only the chain knows its next hop: its size is bounded by the
            // largest link of either side.
            Hop::Owned | Hop::Local { .. } => {
                let [inside, outside] = self.largest;
                Ok(match side.opposite() {
                    weir_packet::Side::Inside => inside,
                    weir_packet::Side::Outside => outside,
                })
            }
            Hop::None => refuse(Reason::NoRoute, Refusal::NoRoute),
            Hop::Broadcast => Err(Way::Drop(Reason::Broadcast)),
        }
    }

    #[inline]
    fn way_v6(&self, at: usize, packet: &mut [u8], many: bool) -> Way {
        let room = packet.len();
        let Ok(mut header) = Ipv6ViewMut::new(packet) else {
            return Way::Drop(Reason::Malformed);
        };
        let view = header.view();
        let length = Ipv6View::SIZE + usize::from(view.payload_length());
        // A jumbogram (RFC 2675) has a length of zero; no link here takes one.
        let jumbo = view.payload_length() == 0 && view.next_header() == ip::HOP_BY_HOP;
        if length > room || jumbo {
            return Way::Drop(Reason::Malformed);
        }
        let (source, destination) = (view.source(), view.destination());
        if destination.is_multicast() {
            return match discovery_kind(&view) {
                Some(SOLICITATION | ADVERTISEMENT) => Way::Discovery,
                _ => Way::Drop(Reason::Multicast),
            };
        }
        if many {
            return Way::Drop(Reason::LinkBroadcast);
        }
        let nowhere = |a: Ipv6Addr| a.is_unspecified() || a.is_loopback() || a.is_multicast();
        if nowhere(source) || nowhere(destination) {
            return Way::Drop(Reason::Martian);
        }
        let own_link = destination.is_unicast_link_local();
        let hop = if own_link {
            match self.ports.get(at) {
                Some(port) if port.has(IpAddr::V6(destination)) => Hop::Local { owned: false },
                _ => return Way::Drop(Reason::LinkLocal),
            }
        } else {
            self.routes.v6(destination)
        };
        if matches!(hop, Hop::Local { .. } | Hop::Owned) {
            match discovery_kind(&view) {
                Some(SOLICITATION | ADVERTISEMENT) => return Way::Discovery,
                Some(icmpv6::REDIRECT) => return Way::Drop(Reason::Redirect),
                Some(icmpv6::ECHO) if hop != Hop::Owned => return Way::Echo,
                _ => {}
            }
        }
        if let Hop::Local { owned: false, .. } = hop {
            return match view.next_header() {
                ip::UDP => Way::Refuse(Reason::ToRouter, Refusal::Port),
                _ => Way::Drop(Reason::ToRouter),
            };
        }
        if source.is_unicast_link_local() {
            return Way::Refuse(Reason::LinkLocal, Refusal::Scope);
        }
        if view.next_header() == ip::ROUTING && view.rest().get(2) == Some(&0) {
            return Way::Drop(Reason::SourceRoute); // RFC 5095: type 0
        }
        if header.hop_limit() <= 1 {
            return Way::Refuse(Reason::TtlExceeded, Refusal::TimeExceeded);
        }
        let mtu = match self.onward(at, hop) {
            Ok(mtu) => mtu,
            Err(way) => return way,
        };
        if length > mtu {
            return Way::Refuse(Reason::TooBig, Refusal::TooBig(mtu as u16));
        }
        header.decrement_hop_limit();
        Way::Chain
    }
}

/// The type of an ICMPv6 message right behind the IPv6 header.
fn discovery_kind(view: &Ipv6View<'_>) -> Option<u8> {
    if view.next_header() == ip::ICMPV6 {
        view.rest().first().copied()
    } else {
        None
    }
}

/// Loose or strict source route (RFC 791 section 3.1), or options that can't be
/// read.
#[cold]
fn has_source_route(view: &Ipv4View<'_>) -> bool {
    view.options().any(|option| {
        option.is_err() || option.is_ok_and(|option| matches!(option.kind, 131 | 137))
    })
}
