//! Work that senders leave to a card: checksums are completed and segments cut, so that
//! packets are as on a wire.

use std::ops::Range;

use weir_packet::checksum::Sum;

use crate::sys::offload::Offload;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TCP: u8 = 6;
const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
/// The option of a hop-by-hop header with the length of a packet beyond 64 KiB.
const JUMBO: [u8; 2] = [0xc2, 4];
const FIN_AND_PUSH: u8 = 0x09;
const CONGESTION_WINDOW_REDUCED: u8 = 0x80;

/// Offset of the checksum in SCTP's header. No other protocol that senders leave to cards has its
/// checksum there.
const SCTP_CHECKSUM: usize = 8;

/// Completes the checksum of a packet; false where there is no place for it.
pub(super) fn complete(packet: &mut [u8], checksum: (u16, u16)) -> bool {
    let (start, at) = (usize::from(checksum.0), usize::from(checksum.1));
    let Some(covered) = packet.get(start..) else {
        return false;
    };
    if at == SCTP_CHECKSUM {
        let sum = weir_packet::checksum::sctp(covered);
        return put(packet, start + at, &sum.to_le_bytes());
    }
    let sum = match Sum::new().bytes(covered).checksum() {
        // In UDP 0 stands for none; in TCP both are the same number.
        0 => 0xffff,
        sum => sum,
    };
    put(packet, start + at, &sum.to_be_bytes())
}

/// How a packet is to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Offset of the IP header.
    ip: usize,
    v6: bool,
    /// Octets that no segment has: a hop-by-hop header with a length only.
    without: Range<usize>,
    /// Offsets of the header of TCP or UDP, and of the payload.
    transport: usize,
    payload: usize,
    udp: bool,
    /// Octets of payload of each segment but the last.
    size: usize,
    reduced_once: bool,
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> bool {
    let place = bytes.get_mut(at..).and_then(|to| to.get_mut(..value.len()));
    place.map(|place| place.copy_from_slice(value)).is_some()
}

impl Cut {
    /// How `packet`, an Ethernet frame, is to be cut; none where it need not be, or
    /// it is of no form that is known (a tunnel).
    pub(super) fn of(packet: &[u8], offload: Offload) -> Option<Cut> {
        let size = usize::from(offload.segments?);
        let (mut ip, mut kind) = (14, number(packet, 12)?);
        while TAGS.contains(&kind) {
            kind = number(packet, ip + 2)?;
            ip += 4;
        }
        let (v6, mut protocol, mut transport) = match kind {
            IPV4 => {
                let header = usize::from(packet.get(ip)? & 0xf) * 4;
                (false, *packet.get(ip + 9)?, ip + header.max(20))
            }
            IPV6 => (true, *packet.get(ip + 6)?, ip + 40),
            _ => return None,
        };
        let mut without = transport..transport;
        let hop_by_hop = packet.get(transport..transport + 4);
        if v6
            && protocol == HOP_BY_HOP
            && let Some(&[next, 0, kind, len]) = hop_by_hop
            && [kind, len] == JUMBO
        {
            protocol = next;
            transport += 8;
            without.end = transport;
        }
        let payload = match protocol {
            TCP => transport + usize::from(packet.get(transport + 12)? >> 4).max(5) * 4,
            UDP => transport + 8,
            _ => return None,
        };
        let inner = offload
            .checksum
            .is_some_and(|(start, _)| usize::from(start) != transport);
        // A segment must fit its own length fields.
        let fits = payload - ip + size <= usize::from(u16::MAX);
        (size > 0 && fits && payload < packet.len() && !inner).then_some(Cut {
            ip,
            v6,
            without,
            transport,
            payload,
            udp: protocol == UDP,
            size,
            reduced_once: offload.reduced_once,
        })
    }

    /// The payload of segment `number`, from 0; none where there are not so many.
    fn part(&self, packet: &[u8], number: usize) -> Option<Range<usize>> {
        let start = self.payload + number * self.size;
        (start < packet.len()).then(|| start..packet.len().min(start + self.size))
    }

    fn headers(&self) -> usize {
        self.payload - self.without.len()
    }

    /// Octets of segment `number`, from 0; none where there are not so many.
    pub(super) fn len(&self, packet: &[u8], number: usize) -> Option<usize> {
        Some(self.headers() + self.part(packet, number)?.len())
    }

    /// Writes segment `number` to `to`, which is as long as that. False where it is
    /// not, or the packet is another one.
    pub(super) fn write(&self, packet: &[u8], number: usize, to: &mut [u8]) -> bool {
        self.segment(packet, number, to).is_some()
    }

    fn segment(&self, packet: &[u8], nth: usize, to: &mut [u8]) -> Option<()> {
        let part = self.part(packet, nth)?;
        if to.len() != self.headers() + part.len() {
            return None;
        }
        let last = part.end == packet.len();
        let (front, behind) = (self.without.start, self.without.end);
        let headers = self.headers();
        to.get_mut(..front)?.copy_from_slice(packet.get(..front)?);
        to.get_mut(front..headers)?
            .copy_from_slice(packet.get(behind..self.payload)?);
        to.get_mut(headers..)?
            .copy_from_slice(packet.get(part.clone())?);
        let transport = self.transport - self.without.len();
        let in_ip = to.len() - self.ip;
        let in_transport = to.len() - transport;
        let protocol = if self.udp { UDP } else { TCP };
        let addresses = if self.v6 {
            put(to, self.ip + 4, &(in_ip as u16 - 40).to_be_bytes());
            if !self.without.is_empty() {
                put(to, self.ip + 6, &[protocol]);
            }
            self.ip + 8..self.ip + 40
        } else {
            put(to, self.ip + 2, &(in_ip as u16).to_be_bytes());
            let id = number(to, self.ip + 4)?.wrapping_add(nth as u16);
            put(to, self.ip + 4, &id.to_be_bytes());
            put(to, self.ip + 10, &[0; 2]);
            let sum = Sum::new().bytes(to.get(self.ip..transport)?).checksum();
            put(to, self.ip + 10, &sum.to_be_bytes());
            self.ip + 12..self.ip + 20
        };
        let checksum = if self.udp {
            put(to, transport + 4, &(in_transport as u16).to_be_bytes());
            6
        } else {
            let sequence = u32::from_be_bytes(*to.get(transport + 4..)?.first_chunk()?);
            let sequence = sequence.wrapping_add((nth * self.size) as u32);
            put(to, transport + 4, &sequence.to_be_bytes());
            let flags = to.get_mut(transport + 13)?;
            if !last {
                *flags &= !FIN_AND_PUSH;
            }
            // In accurate ECN (RFC 9768) it is a bit of a number, which is the same
            // in all segments.
            if nth > 0 && self.reduced_once {
                *flags &= !CONGESTION_WINDOW_REDUCED;
            }
            16
        };
        // The sum over the pseudo-header stands where the checksum will be.
        let pseudo = Sum::new()
            .bytes(to.get(addresses)?)
            .word(u16::from(protocol))
            .long(in_transport as u32);
        put(to, transport + checksum, &pseudo.folded().to_be_bytes());
        complete(to, (transport as u16, checksum as u16)).then_some(())
    }
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
