//! Packets made for tests.

use std::net::SocketAddr;

use crate::checksum;

/// Builds an Ethernet frame with one TCP, UDP or ICMP packet, IPv4 or IPv6 by
/// the addresses, with right checksums.
#[derive(Clone, Debug)]
pub struct Craft {
    source: SocketAddr,
    destination: SocketAddr,
    proto: u8,
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    options: Vec<u8>,
    icmp: (u8, u8),
    ttl: u8,
    ip_id: u16,
    vlans: Vec<u16>,
    payload: Vec<u8>,
    fragment: u16,
}

fn parse(address: &str) -> SocketAddr {
    match address.parse() {
        Ok(address) => address,
        Err(_) => panic!("{address} is no ADDRESS:PORT"),
    }
}

impl Craft {
    fn new(proto: u8, source: &str, destination: &str) -> Craft {
        Craft {
            source: parse(source),
            destination: parse(destination),
            proto,
            flags: 0x10,
            seq: 1,
            ack: 1,
            window: 64_240,
            options: Vec::new(),
            icmp: (8, 0),
            ttl: 64,
            ip_id: 1,
            vlans: Vec::new(),
            payload: Vec::new(),
            fragment: 0,
        }
    }

    /// A TCP segment with ACK; addresses as `10.0.0.1:80` or `[2001:db8::1]:80`.
    ///
    /// # Panics
    ///
    /// If an address can't be parsed (likewise in the other constructors).
    pub fn tcp(source: &str, destination: &str) -> Craft {
        Craft::new(6, source, destination)
    }

    /// A UDP datagram.
    pub fn udp(source: &str, destination: &str) -> Craft {
        Craft::new(17, source, destination)
    }

    /// An ICMP (or ICMPv6) echo request; the source's port is the identifier,
    /// the destination's the sequence number.
    pub fn ping(source: &str, destination: &str) -> Craft {
        let craft = Craft::new(1, source, destination);
        if craft.source.is_ipv6() {
            Craft {
                proto: 58,
                icmp: (128, 0),
                ..craft
            }
        } else {
            craft
        }
    }

    /// TCP flags as letters: `S`, `A`, `F`, `R`, `P`, `U`.
    #[must_use]
    pub fn flags(mut self, letters: &str) -> Craft {
        self.flags = letters.chars().fold(0, |flags, letter| {
            flags
                | match letter {
                    'F' => 1,
                    'S' => 2,
                    'R' => 4,
                    'P' => 8,
                    'A' => 16,
                    'U' => 32,
                    _ => 0,
                }
        });
        self
    }

    /// TCP sequence number.
    #[must_use]
    pub fn seq(mut self, seq: u32) -> Craft {
        self.seq = seq;
        self
    }

    /// TCP acknowledgement number.
    #[must_use]
    pub fn ack(mut self, ack: u32) -> Craft {
        self.ack = ack;
        self
    }

    /// TCP window.
    #[must_use]
    pub fn window(mut self, window: u16) -> Craft {
        self.window = window;
        self
    }

    /// TCP options; they are padded to a multiple of four.
    #[must_use]
    pub fn options(mut self, options: &[u8]) -> Craft {
        self.options = options.to_vec();
        self.options.resize(options.len().next_multiple_of(4), 0);
        self
    }

    /// ICMP type and code.
    #[must_use]
    pub fn icmp(mut self, kind: u8, code: u8) -> Craft {
        self.icmp = (kind, code);
        self
    }

    /// TTL or hop limit.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Craft {
        self.ttl = ttl;
        self
    }

    /// IPv4 identification.
    #[must_use]
    pub fn ip_id(mut self, id: u16) -> Craft {
        self.ip_id = id;
        self
    }

    /// IPv4 flags and fragment offset, as in the header. A packet with an
    /// offset carries its payload without a transport header.
    #[must_use]
    pub fn fragment(mut self, flags_and_offset: u16) -> Craft {
        self.fragment = flags_and_offset;
        self
    }

    /// Adds a VLAN tag inside the ones added before.
    #[must_use]
    pub fn vlan(mut self, id: u16) -> Craft {
        self.vlans.push(id);
        self
    }

    /// The packet's payload.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Craft {
        self.payload = payload.to_vec();
        self
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ports = [
            self.source.port().to_be_bytes(),
            self.destination.port().to_be_bytes(),
        ]
        .concat();
        match self.proto {
            _ if self.fragment & 0x1fff != 0 => {}
            6 => {
                bytes.extend(ports);
                bytes.extend(self.seq.to_be_bytes());
                bytes.extend(self.ack.to_be_bytes());
                bytes.push(((20 + self.options.len()) / 4 * 16) as u8);
                bytes.push(self.flags);
                bytes.extend(self.window.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(&self.options);
            }
            17 => {
                bytes.extend(ports);
                bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend([0; 2]);
            }
            _ => {
                bytes.extend([self.icmp.0, self.icmp.1, 0, 0]);
                bytes.extend(ports);
            }
        }
        bytes.extend(&self.payload);
        bytes
    }

    /// The frame.
    pub fn build(&self) -> Vec<u8> {
        let mut transport = self.transport();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for vlan in &self.vlans {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        let at = match self.proto {
            6 => 16,
            17 => 6,
            _ => 2,
        };
        let whole = self.fragment & 0x3fff == 0;
        let mut ip = Vec::new();
        let pseudo = match (self.source, self.destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                frame.extend([0x08, 0x00]);
                ip.extend([0x45, 0]);
                ip.extend(((20 + transport.len()) as u16).to_be_bytes());
                ip.extend(self.ip_id.to_be_bytes());
                ip.extend(self.fragment.to_be_bytes());
                ip.extend([self.ttl, self.proto, 0, 0]);
                ip.extend(source.ip().octets());
                ip.extend(destination.ip().octets());
                let sum = checksum::internet(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                [
                    &ip[12..20],
                    &[0, self.proto],
                    &(transport.len() as u16).to_be_bytes(),
                ]
                .concat()
            }
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd]);
                ip.extend([0x60, 0, 0, 0]);
                ip.extend((transport.len() as u16).to_be_bytes());
                ip.extend([self.proto, self.ttl]);
                ip.extend(source.ip().octets());
                ip.extend(destination.ip().octets());
                [
                    &ip[8..40],
                    &(transport.len() as u32).to_be_bytes(),
                    &[0, 0, 0, self.proto],
                ]
                .concat()
            }
            _ => panic!("both addresses are of one family"),
        };
        if whole {
            let covered = if self.proto == 1 {
                transport.clone()
            } else {
                [pseudo.as_slice(), &transport].concat()
            };
            let sum = match (self.proto, checksum::internet(&covered)) {
                (17, 0) => 0xffff,
                (_, sum) => sum,
            };
            transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        frame.extend(ip);
        frame.extend(transport);
        frame
    }
}
