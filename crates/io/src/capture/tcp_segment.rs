//! Finding the TCP segment in a captured frame, and cutting pieces out of it.

use std::net::IpAddr;
use std::ops::Range;

const LINKTYPE_NULL: u32 = 0;
const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_RAW: u32 = 101;
const LINKTYPE_LINUX_SLL: u32 = 113;
const LINKTYPE_IPV4: u32 = 228;
const LINKTYPE_IPV6: u32 = 229;
const LINKTYPE_LINUX_SLL2: u32 = 276;
/// Raw IP as old files number it.
const DLT_RAW: [u32; 2] = [12, 14];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TCP: u8 = 6;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
const PSH: u8 = 0x08;
pub(super) const URG: u8 = 0x20;

/// One end of a connection.
pub(super) type Endpoint = (IpAddr, u16);

/// A frame whose outermost IP packet is a whole TCP segment, not a fragment.
#[derive(Clone)]
pub(super) struct Segment<'a> {
    frame: &'a [u8],
    ip: usize,
    v6: bool,
    tcp: usize,
    payload: Range<usize>,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Offset of the IP header.
fn ip_offset(dlt: u32, frame: &[u8]) -> Option<usize> {
    let (mut at, mut protocol) = match dlt {
        LINKTYPE_ETHERNET => (14, u16_at(frame, 12)?),
        LINKTYPE_LINUX_SLL => (16, u16_at(frame, 14)?),
        LINKTYPE_LINUX_SLL2 => (20, u16_at(frame, 0)?),
        LINKTYPE_NULL => return Some(4),
        LINKTYPE_RAW | LINKTYPE_IPV4 | LINKTYPE_IPV6 => return Some(0),
        _ if DLT_RAW.contains(&dlt) => return Some(0),
        _ => return None,
    };
    while VLAN_TAGS.contains(&protocol) {
        protocol = u16_at(frame, at + 2)?;
        at += 4;
    }
    matches!(protocol, IPV4 | IPV6).then_some(at)
}

impl<'a> Segment<'a> {
    /// The TCP segment in `frame`, if it has one that is captured as a whole.
    pub(super) fn find(dlt: u32, frame: &'a [u8]) -> Option<Self> {
        let ip = ip_offset(dlt, frame)?;
        let packet = frame.get(ip..)?;
        let (v6, tcp, end, addresses): (_, _, _, [IpAddr; 2]) = match packet.first()? >> 4 {
            4 => {
                let header = usize::from(packet.first()? & 0x0f) * 4;
                let total = usize::from(u16_at(packet, 2)?);
                let fragment = u16_at(packet, 6)? & 0x3fff;
                if header < 20 || fragment != 0 || *packet.get(9)? != TCP {
                    return None;
                }
                // Segmentation offload leaves 0: the packet then fills the frame.
                let total = if total == 0 { packet.len() } else { total };
                let source: [u8; 4] = *packet.get(12..)?.first_chunk()?;
                let destination: [u8; 4] = *packet.get(16..)?.first_chunk()?;
                (false, header, total, [source.into(), destination.into()])
            }
            6 => {
                let total = 40 + usize::from(u16_at(packet, 4)?);
                let (mut next, mut at) = (*packet.get(6)?, 40);
                // Hop-by-hop, routing and destination options have one shape (RFC 8200 §4).
                while matches!(next, 0 | 43 | 60) {
                    next = *packet.get(at)?;
                    at += 8 + usize::from(*packet.get(at + 1)?) * 8;
                }
                if next != TCP {
                    return None;
                }
                let source: [u8; 16] = *packet.get(8..)?.first_chunk()?;
                let destination: [u8; 16] = *packet.get(24..)?.first_chunk()?;
                (true, at, total, [source.into(), destination.into()])
            }
            _ => return None,
        };
        let header = usize::from(packet.get(tcp + 12)? >> 4) * 4;
        if header < 20 || tcp + header > end || end > packet.len() {
            return None;
        }
        let [source, destination] = addresses;
        Some(Self {
            frame,
            ip,
            v6,
            tcp: ip + tcp,
            payload: ip + tcp + header..ip + end,
            source: (source, u16_at(packet, tcp)?),
            destination: (destination, u16_at(packet, tcp + 2)?),
        })
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        self.frame.get(self.payload.clone()).unwrap_or_default()
    }

    pub(super) fn sequence(&self) -> u32 {
        u32_at(self.frame, self.tcp + 4).unwrap_or_default()
    }

    pub(super) fn flags(&self) -> u8 {
        self.frame.get(self.tcp + 13).copied().unwrap_or_default()
    }

    /// A frame with `part` of the payload: same headers, sequence number, lengths and checksums
    /// made right, FIN and PSH only where the payload's last byte is.
    ///
    /// `None` if `part` is no part of the payload.
    pub(super) fn cut(&self, part: Range<usize>) -> Option<Vec<u8>> {
        let payload = self.payload();
        let piece = payload.get(part.clone())?;
        let mut frame = self.frame.get(..self.payload.start)?.to_vec();
        frame.extend_from_slice(piece);

        let sequence = self.sequence().wrapping_add(part.start as u32);
        put(&mut frame, self.tcp + 4, &sequence.to_be_bytes());
        let mut flags = self.flags();
        if part.end < payload.len() {
            flags &= !(FIN | PSH);
        }
        put(&mut frame, self.tcp + 13, &[flags]);

        let segment = frame.len() - self.tcp;
        let addresses = if self.v6 {
            let length = (frame.len() - self.ip - 40) as u16;
            put(&mut frame, self.ip + 4, &length.to_be_bytes());
            self.ip + 8..self.ip + 40
        } else {
            let length = (frame.len() - self.ip) as u16;
            put(&mut frame, self.ip + 2, &length.to_be_bytes());
            put(&mut frame, self.ip + 10, &[0; 2]);
            let header = usize::from(frame.get(self.ip)? & 0x0f) * 4;
            let checksum = !folded(sum(frame.get(self.ip..self.ip + header)?));
            put(&mut frame, self.ip + 10, &checksum.to_be_bytes());
            self.ip + 12..self.ip + 20
        };
        put(&mut frame, self.tcp + 16, &[0; 2]);
        let pseudo = sum(frame.get(addresses)?) + u64::from(TCP) + segment as u64;
        let checksum = !folded(pseudo + sum(frame.get(self.tcp..)?));
        put(&mut frame, self.tcp + 16, &checksum.to_be_bytes());
        Some(frame)
    }
}

fn put(frame: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = frame.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

/// Sum of the 16-bit words of RFC 1071, not yet folded.
fn sum(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let words = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)));
    words.sum::<u64>() + odd.first().map_or(0, |&last| u64::from(last) << 8)
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
