//! The outermost IP header of a packet, whether or not a tunnel was opened.

use weir_nf::packet::Packet;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// Version and offset of the header by which the packet is forwarded; `None` for what is not IP.
#[inline]
pub(crate) fn outer(packet: &Packet<'_>) -> Option<(Version, usize)> {
    let headers = packet.headers();
    if !headers.is_ip() {
        return None;
    }
    // The parser's flags are about the innermost header; the outer one says itself what it is.
    let at = usize::from(headers.outer_l3);
    match packet.bytes().get(at)? >> 4 {
        4 => Some((Version::V4, at)),
        6 => Some((Version::V6, at)),
        _ => None,
    }
}
