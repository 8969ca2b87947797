//! Packets as they are planned, and as bytes.

use std::net::Ipv4Addr;

use weir_packet::checksum::{Sum, internet};
use weir_packet::protocol::ip;
use weir_packet::{LinkType, Side};

/// A packet to come.
#[derive(Clone, Debug)]
pub struct Planned {
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// Number of its conversation.
    pub flow: u32,
    /// True where the client sends it.
    pub to_server: bool,
    /// The side it comes from.
    pub side: Side,
    /// How its bytes begin.
    pub link: LinkType,
    /// Its form.
    pub shape: Shape,
}

/// Addresses and ports of a conversation, as one end sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The client.
    pub client: Ipv4Addr,
    /// Its port, or identifier.
    pub client_port: u16,
    /// The server.
    pub server: Ipv4Addr,
    /// Its port.
    pub server_port: u16,
}

/// The form of a packet, apart from its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// TCP.
    Tcp {
        /// Its flags.
        flags: u8,
        /// Sequence number.
        seq: u32,
        /// Acknowledgement number.
        ack: u32,
        /// Time to live.
        ttl: u8,
        /// Its content.
        payload: Vec<u8>,
    },
    /// UDP.
    Udp {
        /// Time to live.
        ttl: u8,
        /// Its content.
        payload: Vec<u8>,
    },
    /// An ICMP echo; the client's port is its identifier.
    Echo {
        /// Its number.
        number: u16,
    },
    /// One fragment of a UDP datagram.
    Fragment {
        /// Identification.
        id: u16,
        /// Offset in bytes, a multiple of 8.
        offset: u16,
        /// More follow.
        more: bool,
        /// The whole datagram's content.
        whole: Vec<u8>,
        /// How many bytes of it (its UDP header included) are in this one.
        length: u16,
    },
    /// Anything.
    Raw(Vec<u8>),
}

fn ethernet(to_server: bool, ethertype: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    let (from, to) = if to_server { (1, 2) } else { (2, 1) };
    bytes.extend([2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes.extend(ethertype.to_be_bytes());
    bytes
}

struct Ip {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    proto: u8,
    ttl: u8,
    id: u16,
    fragment: u16,
}

fn ipv4(bytes: &mut Vec<u8>, ip: &Ip, payload: &[u8]) {
    let start = bytes.len();
    bytes.extend([0x45, 0]);
    bytes.extend(((20 + payload.len()) as u16).to_be_bytes());
    bytes.extend(ip.id.to_be_bytes());
    bytes.extend(ip.fragment.to_be_bytes());
    bytes.extend([ip.ttl, ip.proto, 0, 0]);
    bytes.extend(ip.source.octets());
    bytes.extend(ip.destination.octets());
    if let Some(header) = bytes.get(start..) {
        let sum = internet(header).to_be_bytes();
        put(bytes, start + 10, &sum);
    }
    bytes.extend(payload);
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// Writes the transport checksum.
fn seal(transport: &mut [u8], at: usize, (source, destination): (Ipv4Addr, Ipv4Addr), proto: u8) {
    let pseudo = Sum::new().pseudo_ipv4(source, destination, proto, transport.len() as u32);
    let sum = match pseudo.bytes(transport).checksum() {
        0 if proto == ip::UDP => 0xffff,
        sum => sum,
    };
    put(transport, at, &sum.to_be_bytes());
}

fn udp(ends: (u16, u16), addresses: (Ipv4Addr, Ipv4Addr), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(8 + payload.len());
    datagram.extend(ends.0.to_be_bytes());
    datagram.extend(ends.1.to_be_bytes());
    datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend([0; 2]);
    datagram.extend(payload);
    seal(&mut datagram, 6, addresses, ip::UDP);
    datagram
}

impl Shape {
    /// Its IP protocol, if it is known. A server tells flows apart by it: the same
    /// ends mean another flow in another protocol.
    pub(crate) fn protocol(&self) -> Option<u8> {
        match self {
            Shape::Tcp { .. } => Some(ip::TCP),
            Shape::Udp { .. } | Shape::Fragment { .. } => Some(ip::UDP),
            Shape::Echo { .. } => Some(ip::ICMP),
            Shape::Raw(_) => None,
        }
    }

    /// The frame, from one end to the other.
    pub(crate) fn bytes(&self, ends: &Ends, to_server: bool) -> Vec<u8> {
        if let Shape::Raw(bytes) = self {
            return bytes.clone();
        }
        let (addresses, ports) = if to_server {
            (
                (ends.client, ends.server),
                (ends.client_port, ends.server_port),
            )
        } else {
            (
                (ends.server, ends.client),
                (ends.server_port, ends.client_port),
            )
        };
        let mut header = Ip {
            source: addresses.0,
            destination: addresses.1,
            proto: ip::UDP,
            ttl: 64,
            id: 1,
            fragment: 0,
        };
        let mut bytes = ethernet(to_server, 0x0800);
        match self {
            Shape::Tcp {
                flags,
                seq,
                ack,
                ttl,
                payload,
            } => {
                header.proto = ip::TCP;
                header.ttl = *ttl;
                let mut segment = Vec::with_capacity(20 + payload.len());
                segment.extend(ports.0.to_be_bytes());
                segment.extend(ports.1.to_be_bytes());
                segment.extend(seq.to_be_bytes());
                segment.extend(ack.to_be_bytes());
                segment.extend([0x50, *flags, 0xfa, 0xf0, 0, 0, 0, 0]);
                segment.extend(payload);
                seal(&mut segment, 16, addresses, ip::TCP);
                ipv4(&mut bytes, &header, &segment);
            }
            Shape::Udp { ttl, payload } => {
                header.ttl = *ttl;
                ipv4(&mut bytes, &header, &udp(ports, addresses, payload));
            }
            Shape::Echo { number } => {
                header.proto = ip::ICMP;
                let mut echo = vec![if to_server { 8 } else { 0 }, 0, 0, 0];
                echo.extend(ends.client_port.to_be_bytes());
                echo.extend(number.to_be_bytes());
                echo.extend([0x55; 16]);
                let sum = internet(&echo).to_be_bytes();
                put(&mut echo, 2, &sum);
                ipv4(&mut bytes, &header, &echo);
            }
            Shape::Fragment {
                id,
                offset,
                more,
                whole,
                length,
            } => {
                header.id = *id;
                header.fragment = (offset / 8) | if *more { 0x2000 } else { 0 };
                let datagram = udp(ports, addresses, whole);
                let (from, to) = (usize::from(*offset), usize::from(*offset + *length));
                let part = datagram.get(from..to.min(datagram.len())).unwrap_or(&[]);
                ipv4(&mut bytes, &header, part);
            }
            Shape::Raw(_) => {}
        }
        bytes
    }
}

/// The ends of a conversation as the receiver of this packet of the client
/// sees them; `None` where it is no plain TCP, UDP or echo over IPv4.
pub(crate) fn observed(bytes: &[u8]) -> Option<Ends> {
    let header = bytes.get(14..34)?;
    if bytes.get(12..14)? != [8, 0] || header.first()? != &0x45 {
        return None;
    }
    let short = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| -> Option<Ipv4Addr> {
        let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets))
    };
    if short(20)? & 0x1fff != 0 {
        return None;
    }
    let (client_port, server_port) = match *header.get(9)? {
        ip::TCP | ip::UDP => (short(34)?, short(36)?),
        ip::ICMP => (short(38)?, 0),
        _ => return None,
    };
    Some(Ends {
        client: long(26)?,
        client_port,
        server: long(30)?,
        server_port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Depth, LinkType, ParseOptions, parse};

    #[test]
    fn what_is_built_is_well_formed_and_says_its_ends() {
        let ends = Ends {
            client: Ipv4Addr::new(10, 0, 0, 1),
            client_port: 1_234,
            server: Ipv4Addr::new(192, 0, 2, 1),
            server_port: 80,
        };
        let shapes = [
            Shape::Tcp {
                flags: 2,
                seq: 9,
                ack: 0,
                ttl: 64,
                payload: b"x".to_vec(),
            },
            Shape::Udp {
                ttl: 3,
                payload: b"question".to_vec(),
            },
        ];
        for shape in shapes {
            let bytes = shape.bytes(&ends, true);
            let options = ParseOptions {
                depth: Depth::L4,
                inner: false,
                lenient: false,
            };
            assert!(parse(&bytes, LinkType::Ethernet, &options).is_ok());
            assert_eq!(observed(&bytes), Some(ends));
            let back = observed(&shape.bytes(&ends, false)).unwrap();
            assert_eq!((back.client, back.client_port), (ends.server, 80));
        }
        let echo = Shape::Echo { number: 4 }.bytes(&ends, true);
        assert_eq!(observed(&echo).map(|e| e.client_port), Some(1_234));
        assert_eq!(observed(&echo[..20]), None);
    }
}
