//! The headers of a class of frames, ready but for what differs from flow to flow.

use super::spec::{Family, GeneratorSpec, Life, Protocol};
use super::tuples::{Class, Tuple};

/// Shortest frame on an Ethernet, without its check sequence.
pub(super) const MIN_FRAME: usize = 60;

const INSIDE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const OUTSIDE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];
const HOP_LIMIT: u8 = 64;
const WINDOW: u16 = 64_240;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// Options of a SYN: largest segment (set by the writer), selective acknowledgements allowed,
/// window scale 7.
pub(super) const SYN_OPTIONS: [u8; 12] = [2, 4, 0, 0, 4, 2, 1, 3, 3, 7, 1, 1];

/// Data of a segment even where the headers alone fill the frame size asked for.
pub(super) const LEAST_DATA: usize = 16;

/// Bytes from the Ethernet header up to the payload, for one class and direction.
pub(super) struct Headers {
    /// Lengths, checksums, ports, and the last 32 bits of the addresses are 0.
    pub(super) bytes: Vec<u8>,
    pub(super) class: Class,
    pub(super) outside: bool,
    /// Offset of the IP header.
    pub(super) ip: usize,
    /// Offset of the TCP, UDP or ICMP header.
    pub(super) l4: usize,
}

impl Headers {
    pub(super) fn new(spec: &GeneratorSpec, class: Class, outside: bool) -> Self {
        let (from, to) = if outside {
            (OUTSIDE_MAC, INSIDE_MAC)
        } else {
            (INSIDE_MAC, OUTSIDE_MAC)
        };
        let mut bytes = [to, from].concat();
        if let Some(vlan) = spec.vlan {
            bytes.extend([0x81, 0x00]);
            bytes.extend(vlan.to_be_bytes());
        }
        let ether_type: u16 = match class.family {
            Family::V4 => 0x0800,
            Family::V6 => 0x86dd,
        };
        bytes.extend(ether_type.to_be_bytes());
        let ip = bytes.len();
        let protocol = match (class.protocol, class.family) {
            (Protocol::Tcp, _) => 6,
            (Protocol::Udp, _) => 17,
            (Protocol::Icmp, Family::V4) => 1,
            (Protocol::Icmp, Family::V6) => 58,
        };
        match class.family {
            // Don't fragment, so the identification may stay 0 (RFC 6864 §4).
            Family::V4 => {
                bytes.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
                bytes.extend([0; 8]);
            }
            Family::V6 => {
                bytes.extend([0x60, 0, 0, 0, 0, 0, protocol, HOP_LIMIT]);
                let (mut from, mut to) = (spec.src6.first, spec.dst6.first);
                if outside {
                    std::mem::swap(&mut from, &mut to);
                }
                for address in [from, to] {
                    bytes.extend((address >> 32 << 32).to_be_bytes());
                }
            }
        }
        let l4 = bytes.len();
        match class.protocol {
            Protocol::Tcp => {
                bytes.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, ACK]);
                bytes.extend(WINDOW.to_be_bytes());
                bytes.extend([0; 4]);
            }
            Protocol::Udp => bytes.extend([0; 8]),
            Protocol::Icmp => {
                let kind = match (class.family, outside) {
                    (Family::V4, false) => 8,
                    (Family::V4, true) => 0,
                    (Family::V6, false) => 128,
                    (Family::V6, true) => 129,
                };
                bytes.extend([kind, 0, 0, 0, 0, 0, 0, 1]);
            }
        }
        Self {
            bytes,
            class,
            outside,
            ip,
            l4,
        }
    }

    /// The same for both directions, in the order inside, outside.
    pub(super) fn pair(spec: &GeneratorSpec, class: Class) -> [Self; 2] {
        [false, true].map(|outside| Self::new(spec, class, outside))
    }

    /// The tuple as this direction sees it.
    #[inline]
    pub(super) fn oriented(&self, tuple: Tuple) -> Tuple {
        if !self.outside {
            return tuple;
        }
        Tuple {
            src: tuple.dst,
            dst: tuple.src,
            sport: tuple.dport,
            dport: tuple.sport,
        }
    }

    /// Puts the addresses of an oriented tuple into `frame`.
    #[inline]
    pub(super) fn put_addresses(&self, frame: &mut [u8], tuple: Tuple) {
        let (src, dst) = match self.class.family {
            Family::V4 => (self.ip + 12, self.ip + 16),
            Family::V6 => (self.ip + 20, self.ip + 36),
        };
        put(frame, src, tuple.src.to_be_bytes());
        put(frame, dst, tuple.dst.to_be_bytes());
    }

    /// Puts the ports of an oriented tuple, or the echo id, into `frame`.
    #[inline]
    pub(super) fn put_ports(&self, frame: &mut [u8], tuple: Tuple) {
        match self.class.protocol {
            Protocol::Icmp => put(frame, self.l4 + 4, self.echo_id(tuple).to_be_bytes()),
            _ => {
                put(frame, self.l4, tuple.sport.to_be_bytes());
                put(frame, self.l4 + 2, tuple.dport.to_be_bytes());
            }
        }
    }

    /// Both directions of an echo carry the inside port as id.
    #[inline]
    pub(super) fn echo_id(&self, oriented: Tuple) -> u16 {
        if self.outside {
            oriented.dport
        } else {
            oriented.sport
        }
    }

    /// Offset of the checksum of the TCP, UDP or ICMP header.
    #[inline]
    pub(super) fn checksum_at(&self) -> usize {
        self.l4
            + match self.class.protocol {
                Protocol::Tcp => 16,
                Protocol::Udp => 6,
                Protocol::Icmp => 2,
            }
    }

    /// The checksum covers the addresses too (all but ICMP for IPv4).
    #[inline]
    pub(super) fn has_pseudo_header(&self) -> bool {
        self.class.protocol != Protocol::Icmp || self.class.family == Family::V6
    }

    /// Sum of the pseudo header's words but for the length and the last 32 bits of the addresses.
    pub(super) fn pseudo_sum(&self) -> u32 {
        if !self.has_pseudo_header() {
            return 0;
        }
        match self.class.family {
            Family::V4 => byte(&self.bytes, self.ip + 9),
            Family::V6 => {
                let addresses = self.bytes.get(self.ip + 8..self.ip + 40);
                byte(&self.bytes, self.ip + 6) + sum(addresses.unwrap_or_default())
            }
        }
    }
}

impl GeneratorSpec {
    /// The longest frame that this traffic may have, in bytes.
    pub fn max_frame_len(&self) -> usize {
        let headers = longest_headers(self);
        headers.max(self.sizes.longest() as usize).max(MIN_FRAME)
    }
}

/// The longest frame that comes from headers rather than from the size asked for.
fn longest_headers(spec: &GeneratorSpec) -> usize {
    let families = spec.families.choices();
    let classes = families.flat_map(|family| {
        let protocols = spec.protocols.choices();
        protocols.map(move |protocol| Class { family, protocol })
    });
    let more = match spec.life {
        Life::None => 0,
        Life::Tcp => LEAST_DATA.max(SYN_OPTIONS.len()),
    };
    let lengths = classes.map(|class| Headers::new(spec, class, false).bytes.len() + more);
    lengths.max().unwrap_or(0)
}

fn byte(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at).copied().map_or(0, u32::from)
}

/// Puts a field into a frame that is known to hold it.
#[inline(always)]
pub(super) fn put<const N: usize>(frame: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(place) = frame.get_mut(at..at + N) {
        place.copy_from_slice(&field);
    }
}

/// Sum of the 16-bit words of RFC 1071; right for up to 128 KiB.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let (words, odd) = bytes.as_chunks::<2>();
    let words = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)));
    words.sum::<u32>() + odd.first().map_or(0, |&last| u32::from(last) << 8)
}

/// Sum of the words of a 32-bit field.
#[inline]
pub(super) fn sum32(field: u32) -> u32 {
    (field >> 16) + (field & 0xffff)
}

/// The checksum whose words sum up to `sum`.
#[inline]
pub(super) fn checksum(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// The same for UDP, where 0 would mean that there is none (RFC 768, RFC 8200 §8.1).
#[inline]
pub(super) fn checksum_of(protocol: Protocol, sum: u32) -> u16 {
    match checksum(sum) {
        0 if protocol == Protocol::Udp => 0xffff,
        checksum => checksum,
    }
}
