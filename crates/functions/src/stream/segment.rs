//! One TCP segment, as a stream needs it.

use weir_nf::packet::{HeaderFlags, Packet};

/// Contribution of one packet to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'p> {
    /// Sequence number of the first byte (or of the SYN).
    pub seq: u32,
    /// Acknowledgement number; meaningful with [`super::ACK`].
    pub ack: u32,
    /// TCP's flag octet.
    pub flags: u8,
    /// The payload, as far as captured.
    pub payload: &'p [u8],
    /// Bytes of payload that were on the wire but not captured.
    pub cut: u32,
}

impl<'p> Segment<'p> {
    /// The segment in a packet; `None` where it holds no whole TCP header.
    #[inline]
    pub fn of(packet: &'p Packet<'_>) -> Option<Segment<'p>> {
        let headers = packet.headers();
        if !headers.is_tcp() || headers.is_later_fragment() {
            return None;
        }
        let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, _, flags] =
            *packet.transport().first_chunk::<14>()?;
        let cut = if headers.flags.contains(HeaderFlags::CUT) {
            not_captured(packet).unwrap_or(0)
        } else {
            0
        };
        Some(Segment {
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            flags,
            payload: packet.payload(),
            cut,
        })
    }
}

/// Bytes that the IP header declares beyond the captured ones.
#[cold]
fn not_captured(packet: &Packet<'_>) -> Option<u32> {
    let network = packet.network();
    let declared = if packet.headers().is_ipv4() {
        let [_, _, a, b] = *network.first_chunk::<4>()?;
        u32::from(u16::from_be_bytes([a, b]))
    } else {
        let [_, _, _, _, a, b] = *network.first_chunk::<6>()?;
        u32::from(u16::from_be_bytes([a, b])) + 40
    };
    declared.checked_sub(network.len() as u32)
}

/// `a - b` on the circle of sequence numbers (RFC 9293 section 3.4).
#[inline]
pub(super) fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}
