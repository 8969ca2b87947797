//! TCP segments that may be given another payload, and how.

use weir_nf::packet::checksum::{Change, Sum};
use weir_nf::packet::{HeaderFlags, LinkType, Packet};

use super::format::Marks;
use super::selection::Selection;

/// Offsets of the parts of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    ipv4: bool,
    l3: usize,
    l4: usize,
    payload: usize,
    end: usize,
}

/// Offset of TCP's checksum.
const TCP_CHECKSUM: usize = 16;
/// Offset of IPv4's.
const IPV4_CHECKSUM: usize = 10;

/// The packet is no packet that could be changed and brought back.
const NEVER: HeaderFlags = HeaderFlags::FRAGMENT
    .union(HeaderFlags::CUT)
    .union(HeaderFlags::TUNNEL)
    .union(HeaderFlags::DAMAGED)
    .union(HeaderFlags::NO_LENGTH);

impl Segment {
    /// Of a packet that is looked at: a whole TCP segment with a payload, to or from a chosen
    /// port, whose length stands in its IP header alone. It says the same of a packet before and
    /// after [`replace`].
    #[inline]
    pub(super) fn of(packet: &Packet<'_>, selection: &Selection) -> Option<Segment> {
        let headers = packet.headers();
        if !headers.is_tcp() || headers.flags.intersects(NEVER) {
            return None;
        }
        let bytes = packet.bytes();
        if !headers
            .ports(bytes)
            .is_some_and(|ports| selection.takes(ports))
        {
            return None;
        }
        let segment = Segment {
            ipv4: headers.is_ipv4(),
            l3: usize::from(headers.l3),
            l4: usize::from(headers.l4),
            payload: usize::from(headers.payload),
            end: headers.end as usize,
        };
        let declared = usize::from(word(bytes, segment.length_at())?);
        let start = segment.l3 + if segment.ipv4 { 0 } else { 40 };
        let fits = start + declared == segment.end
            && segment.payload < segment.end
            && segment.end <= bytes.len()
            && link_has_no_length(packet);
        fits.then_some(segment)
    }

    /// Offset of the IP header's length.
    fn length_at(&self) -> usize {
        self.l3 + if self.ipv4 { 2 } else { 4 }
    }

    #[inline]
    pub(super) fn payload<'a>(&self, packet: &'a Packet<'_>) -> &'a [u8] {
        packet.bytes().get(self.payload..self.end).unwrap_or(&[])
    }

    /// Marks of the segment's checksums, which the decoder needs to restore them.
    pub(super) fn marks(&self, packet: &Packet<'_>) -> Marks {
        let bytes = packet.bytes();
        Marks {
            transport_ones: word(bytes, self.l4 + TCP_CHECKSUM) == Some(u16::MAX),
            network_ones: self.ipv4 && word(bytes, self.l3 + IPV4_CHECKSUM) == Some(u16::MAX),
        }
    }

    /// Gives the packet another payload. Lengths are updated; checksums are brought up to date by
    /// what changed (RFC 1624), so that a wrong one stays as wrong as it was. Octets behind the
    /// datagram (padding, a trailer) move with its end. `None` where there is no room; nothing
    /// is changed then.
    pub(super) fn replace(&self, packet: &mut Packet<'_>, new: &[u8], marks: Marks) -> Option<()> {
        let old_len = self.end - self.payload;
        let old_end = packet.len();
        let end = self.payload + new.len();
        let (from, to) = (self.end - self.l4, end - self.l4);
        let old_total = word(packet.bytes(), self.length_at())?;
        let total = usize::from(old_total) + new.len();
        let total = u16::try_from(total.checked_sub(old_len)?).ok()?;
        let sum = word(packet.bytes(), self.l4 + TCP_CHECKSUM)?;

        let before = Sum::new().bytes(self.payload(packet)).folded();
        let after = Sum::new().bytes(new).folded();
        let change = Change::new()
            .word(before, after)
            .long(from as u32, to as u32);

        if let Some(more) = new.len().checked_sub(old_len) {
            packet.append(more)?;
        }
        let bytes = packet.bytes_mut();
        bytes.copy_within(self.end..old_end, end);
        bytes.get_mut(self.payload..end)?.copy_from_slice(new);
        put(bytes, self.length_at(), total);
        let sum = with_mark(change.apply(sum), marks.transport_ones);
        put(bytes, self.l4 + TCP_CHECKSUM, sum);
        if self.ipv4
            && let Some(sum) = word(bytes, self.l3 + IPV4_CHECKSUM)
        {
            let sum = Change::new().word(old_total, total).apply(sum);
            put(
                bytes,
                self.l3 + IPV4_CHECKSUM,
                with_mark(sum, marks.network_ones),
            );
        }
        packet.truncate(old_end - self.end + end);
        let mut headers = *packet.headers();
        headers.end = end as u32;
        packet.set_headers(headers);
        Some(())
    }
}

/// Both are zero in ones' complement.
fn with_mark(sum: u16, ones: bool) -> u16 {
    if sum == 0 && ones { u16::MAX } else { sum }
}

/// Some link layers say the length of what they carry as well (802.3 with LLC, PPPoE). Those
/// that do not have nothing but addresses, a type and tags in front of the IP header.
fn link_has_no_length(packet: &Packet<'_>) -> bool {
    let headers = packet.headers();
    let tags = 4 * usize::from(headers.vlans);
    let front = match packet.meta().link {
        LinkType::Ethernet => 14 + tags,
        LinkType::RawIp => 0,
        LinkType::Null | LinkType::Loop => 4,
        LinkType::LinuxSll => 16 + tags,
        LinkType::LinuxSll2 => 20 + tags,
        _ => return false,
    };
    usize::from(headers.l3) == front
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk::<2>()
        .map(|b| u16::from_be_bytes(*b))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *place = value.to_be_bytes();
    }
}
