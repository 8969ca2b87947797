//! Checks of frames for tests, written apart from the code that makes them.

use std::net::IpAddr;

/// Facts about an IP packet for tests, without extension headers other than those of the shared
/// captures.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) protocol: u8,
    pub(crate) vlan: Option<u16>,
    /// The IP packet, header and all, as long as its length field says.
    pub(crate) packet: Vec<u8>,
    /// Offset of the next header in it.
    pub(crate) l4: usize,
    /// Bytes of the frame after the packet.
    pub(crate) padding: usize,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Seen {
    pub(crate) fn new(dlt: u32, frame: &[u8]) -> Self {
        let mut vlan = None;
        let mut ip = match dlt {
            0 => 4,
            1 => 14,
            113 => 16,
            276 => 20,
            _ => 0,
        };
        let mut kind = if matches!(dlt, 1 | 113) {
            be16(frame, ip - 2)
        } else {
            0
        };
        while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            vlan = Some(be16(frame, ip) & 0x0fff);
            kind = be16(frame, ip + 2);
            ip += 4;
        }
        let packet = &frame[ip..];
        let (l4, length, protocol, addresses): (_, _, _, [IpAddr; 2]) = if packet[0] >> 4 == 4 {
            let from: [u8; 4] = packet[12..16].try_into().unwrap();
            let to: [u8; 4] = packet[16..20].try_into().unwrap();
            let header = usize::from(packet[0] & 15) * 4;
            (
                header,
                usize::from(be16(packet, 2)),
                packet[9],
                [from.into(), to.into()],
            )
        } else {
            assert_eq!(packet[0] >> 4, 6);
            let from: [u8; 16] = packet[8..24].try_into().unwrap();
            let to: [u8; 16] = packet[24..40].try_into().unwrap();
            let (mut next, mut at) = (packet[6], 40);
            while matches!(next, 0 | 43 | 60) {
                next = packet[at];
                at += 8 + usize::from(packet[at + 1]) * 8;
            }
            (
                at,
                40 + usize::from(be16(packet, 4)),
                next,
                [from.into(), to.into()],
            )
        };
        Self {
            addresses,
            protocol,
            vlan,
            packet: packet[..length].to_vec(),
            l4,
            padding: packet.len() - length,
        }
    }

    pub(crate) fn segment(&self) -> &[u8] {
        &self.packet[self.l4..]
    }

    pub(crate) fn payload(&self) -> &[u8] {
        let header = match self.protocol {
            6 => usize::from(self.segment()[12] >> 4) * 4,
            _ => 8,
        };
        &self.segment()[header..]
    }

    /// Ports; of ICMP the id twice.
    pub(crate) fn ports(&self) -> [u16; 2] {
        match self.protocol {
            1 | 58 => [be16(self.segment(), 4); 2],
            _ => [be16(self.segment(), 0), be16(self.segment(), 2)],
        }
    }

    pub(crate) fn flags(&self) -> u8 {
        self.segment()[13]
    }

    pub(crate) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.segment()[at..at + 4].try_into().unwrap())
    }
}

/// The sum of RFC 1071, one carry at a time; 0xffff over valid data.
fn ones_sum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut total = 0u16;
    for part in parts {
        for pair in part.chunks(2) {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            let (sum, carry) = total.overflowing_add(word);
            total = sum + u16::from(carry);
        }
    }
    total
}

/// All checksums are right.
pub(crate) fn checksums_hold(dlt: u32, frame: &[u8]) -> bool {
    let seen = Seen::new(dlt, frame);
    let v4 = seen.packet[0] >> 4 == 4;
    let header = usize::from(seen.packet[0] & 15) * 4;
    if v4 && ones_sum([&seen.packet[..header]]) != 0xffff {
        return false;
    }
    let addresses = if v4 {
        &seen.packet[12..20]
    } else {
        &seen.packet[8..40]
    };
    let length = (seen.segment().len() as u32).to_be_bytes();
    let protocol = [0, seen.protocol];
    match seen.protocol {
        1 => ones_sum([seen.segment()]) == 0xffff,
        17 if be16(seen.segment(), 6) == 0 => false,
        _ => ones_sum([addresses, &length, &protocol, seen.segment()]) == 0xffff,
    }
}

/// All length fields agree with one another and with the frame.
pub(crate) fn lengths_hold(dlt: u32, frame: &[u8]) -> bool {
    let seen = Seen::new(dlt, frame);
    let udp = seen.protocol != 17 || usize::from(be16(seen.segment(), 4)) == seen.segment().len();
    udp && (seen.padding == 0 || frame.len() == 60)
}
