//! Just enough reading of captures for tests: pcap, Ethernet, IPv4 and IPv6 without extensions, VXLAN no.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// A packet of a capture.
pub struct Captured {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    pub ip_id: Option<u16>,
    pub ip_options: Vec<u8>,
    /// The IP header.
    pub network: Vec<u8>,
    /// What follows the IP header.
    pub transport: Vec<u8>,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The IP packets of a capture; frames of other kinds and fragments are left out.
pub fn read(path: &Path) -> Vec<Captured> {
    let bytes = std::fs::read(path).unwrap();
    let Some(magic) = bytes.first_chunk::<4>() else {
        return Vec::new();
    };
    let little = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
        // pcapng and others are not for these tests.
        _ => return Vec::new(),
    };
    let word = |at: usize| -> Option<usize> {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        let word = if little {
            u32::from_le_bytes(four)
        } else {
            u32::from_be_bytes(four)
        };
        Some(word as usize)
    };
    let link = word(20).unwrap_or(0);
    let mut packets = Vec::new();
    let mut at = 24;
    while let Some(length) = word(at + 8) {
        let Some(frame) = bytes.get(at + 16..at + 16 + length) else {
            break;
        };
        packets.extend(ip_of(frame, link).and_then(decode));
        at += 16 + length;
    }
    packets
}

fn ip_of(frame: &[u8], link: usize) -> Option<&[u8]> {
    let mut at = match link {
        1 => 12,
        101 | 228 | 229 => return Some(frame),
        113 => 14,
        _ => return None,
    };
    loop {
        match be16(frame, at)? {
            0x8100 | 0x88a8 => at += 4,
            0x0800 | 0x86dd => return frame.get(at + 2..),
            // NSH (RFC 8300): its length in words, and the next protocol.
            0x894f => {
                let nsh = frame.get(at + 2..)?;
                let words = usize::from(*nsh.get(1)? & 0x3f);
                return matches!(nsh.get(3)?, 1 | 2)
                    .then(|| nsh.get(words * 4..))
                    .flatten();
            }
            _ => return None,
        }
    }
}

fn decode(ip: &[u8]) -> Option<Captured> {
    match ip.first()? >> 4 {
        4 => {
            let header = usize::from(ip[0] & 15) * 4;
            let total = usize::from(be16(ip, 2)?);
            if be16(ip, 6)? & 0x3fff != 0 {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let four: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(four)))
            };
            Some(Captured {
                source: address(12)?,
                destination: address(16)?,
                protocol: *ip.get(9)?,
                ttl: *ip.get(8)?,
                ip_id: be16(ip, 4),
                ip_options: ip.get(20..header)?.to_vec(),
                network: ip.get(..header)?.to_vec(),
                transport: ip.get(header..total.min(ip.len()))?.to_vec(),
            })
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                let sixteen: [u8; 16] = ip.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(sixteen)))
            };
            let length = usize::from(be16(ip, 4)?);
            Some(Captured {
                source: address(8)?,
                destination: address(24)?,
                protocol: *ip.get(6)?,
                ttl: *ip.get(7)?,
                ip_id: None,
                ip_options: Vec::new(),
                network: ip.get(..40)?.to_vec(),
                transport: ip.get(40..(40 + length).min(ip.len()))?.to_vec(),
            })
        }
        _ => None,
    }
}

/// The payload behind a TCP or UDP header.
pub fn payload(packet: &Captured) -> Option<&[u8]> {
    match packet.protocol {
        6 => {
            let header = usize::from(packet.transport.get(12)? >> 4) * 4;
            packet.transport.get(header..)
        }
        17 => packet.transport.get(8..),
        _ => Some(&packet.transport),
    }
}
