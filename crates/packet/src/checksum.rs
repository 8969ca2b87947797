//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and SCTP's CRC32c.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::headers::{HeaderFlags, Headers};
use crate::read::{be16, be32, chunk};

/// A ones' complement sum under way.
///
/// ```
/// use weir_packet::checksum::Sum;
///
/// // The example of RFC 1071 section 3.
/// let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(Sum::new().bytes(&data).checksum(), !0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Zero.
    #[inline]
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// Adds a 16-bit number.
    #[inline]
    #[must_use]
    pub const fn word(self, value: u16) -> Sum {
        Sum(add(self.0, value as u64))
    }

    /// Adds a 32-bit number.
    #[inline]
    #[must_use]
    pub const fn long(self, value: u32) -> Sum {
        Sum(add(self.0, value as u64))
    }

    /// Adds octets, which must start at an even place of what is summed. An odd last octet
    /// counts as followed by a zero.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // Ones' complement sums may be taken over wider words, in either byte order, and folded
        // at the end (RFC 1071 section 2). Two sums, so that additions need not wait for a carry.
        let (mut even, mut odd) = (0u64, 0u64);
        let mut blocks = bytes.chunks_exact(16);
        for block in &mut blocks {
            let Some((a, rest)) = block.split_first_chunk::<8>() else {
                break;
            };
            let Some(b) = rest.first_chunk::<8>() else {
                break;
            };
            even = add(even, u64::from_ne_bytes(*a));
            odd = add(odd, u64::from_ne_bytes(*b));
        }
        let mut sum = add(even, odd);
        let mut words = blocks.remainder().chunks_exact(4);
        for word in &mut words {
            if let Some(word) = word.first_chunk::<4>() {
                sum = add(sum, u64::from(u32::from_ne_bytes(*word)));
            }
        }
        sum = match *words.remainder() {
            [] => sum,
            [a] => add(sum, u64::from(u16::from_ne_bytes([a, 0]))),
            [a, b] => add(sum, u64::from(u16::from_ne_bytes([a, b]))),
            [a, b, c, ..] => add(sum, u64::from(u32::from_ne_bytes([a, b, c, 0]))),
        };
        Sum(add(self.0, u64::from(u16::from_be(fold(sum)))))
    }

    /// Adds TCP's, UDP's or ICMPv6's pseudo-header over IPv4 (RFC 9293 section 3.1).
    #[inline]
    #[must_use]
    pub fn pseudo_ipv4(
        self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        proto: u8,
        length: u32,
    ) -> Sum {
        self.long(u32::from(source))
            .long(u32::from(destination))
            .word(u16::from(proto))
            .long(length)
    }

    /// Adds the pseudo-header over IPv6 (RFC 8200 section 8.1).
    #[inline]
    #[must_use]
    pub fn pseudo_ipv6(
        self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        proto: u8,
        length: u32,
    ) -> Sum {
        self.bytes(&source.octets())
            .bytes(&destination.octets())
            .word(u16::from(proto))
            .long(length)
    }

    /// The sum, folded to 16 bits. `0xffff` over data that contain a right checksum.
    #[inline]
    pub const fn folded(self) -> u16 {
        fold(self.0)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !fold(self.0)
    }
}

/// Addition with end-around carry.
#[inline(always)]
const fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// A 64-bit ones' complement sum in 16 bits.
#[inline(always)]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The Internet checksum of `bytes`.
#[inline]
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// True if an IPv4 header (with its options) has the right checksum.
#[inline]
pub fn ipv4_is_right(header: &[u8]) -> bool {
    Sum::new().bytes(header).folded() == 0xffff
}

/// Effect of changes in a packet on the checksums over it (RFC 1624, equation 3).
///
/// Made once per flow for the fields that a translator rewrites, applied to each packet with a
/// few additions.
///
/// ```
/// use weir_packet::checksum::{Change, internet};
///
/// let mut data = [0x45, 0, 0, 20, 1, 2, 3, 4];
/// let before = internet(&data);
/// let change = Change::new().word(0x0014, 0x1234);
/// data[2..4].copy_from_slice(&0x1234u16.to_be_bytes());
/// assert_eq!(change.apply(before), internet(&data));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change(Sum);

impl Change {
    /// Nothing changes.
    #[inline]
    pub const fn new() -> Change {
        Change(Sum(0))
    }

    /// A 16-bit field changes (a port, a TTL with its protocol, ...).
    #[inline]
    #[must_use]
    pub const fn word(self, old: u16, new: u16) -> Change {
        Change(self.0.word(!old).word(new))
    }

    /// A 32-bit field changes.
    #[inline]
    #[must_use]
    pub const fn long(self, old: u32, new: u32) -> Change {
        // Halves, because the complement must be taken in the width that is summed.
        self.word((old >> 16) as u16, (new >> 16) as u16)
            .word(old as u16, new as u16)
    }

    /// An IPv4 address changes.
    #[inline]
    #[must_use]
    pub fn ipv4(self, old: Ipv4Addr, new: Ipv4Addr) -> Change {
        self.long(u32::from(old), u32::from(new))
    }

    /// An IPv6 address changes.
    #[inline]
    #[must_use]
    pub fn ipv6(self, old: Ipv6Addr, new: Ipv6Addr) -> Change {
        let old = Sum::new().bytes(&old.octets()).folded();
        Change(self.0.word(!old).bytes(&new.octets()))
    }

    /// Both changes.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Change) -> Change {
        Change(Sum(add(self.0.0, other.0.0)))
    }

    /// The change in 16 bits, to be kept in a flow's state.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0.folded()
    }

    /// The change that [`to_bits`](Change::to_bits) gave.
    #[inline]
    pub const fn from_bits(bits: u16) -> Change {
        Change(Sum(bits as u64))
    }

    /// The checksum after the change.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        self.0.word(!checksum).checksum()
    }

    /// UDP's checksum after the change: zero means "none" and stays so (RFC 768), and a sum that
    /// comes out as zero is sent as `0xffff`.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        match checksum {
            0 => 0,
            _ => match self.apply(checksum) {
                0 => 0xffff,
                sum => sum,
            },
        }
    }
}

/// Result of a checksum's check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Right.
    Good,
    /// Wrong.
    Bad,
    /// There is nothing to check: no checksum was sent (UDP over IPv4), the packet is a
    /// fragment or was cut, or the protocol is not known.
    Unchecked,
}

/// Checks the IPv4 header checksum of a parsed packet.
///
/// An offloaded checksum of zero is [`Verdict::Bad`]: the packet would be dropped by a router.
pub fn check_ipv4(bytes: &[u8], headers: &Headers) -> Verdict {
    if !headers.is_ipv4() {
        return Verdict::Unchecked;
    }
    match bytes.get(usize::from(headers.l3)..usize::from(ipv4_end(bytes, headers))) {
        Some(header) if header.len() >= 20 => verdict(ipv4_is_right(header)),
        _ => Verdict::Unchecked,
    }
}

/// Checks the checksum of a parsed packet's TCP, UDP, SCTP, ICMP or ICMPv6.
pub fn check_transport(bytes: &[u8], headers: &Headers) -> Verdict {
    let Some((at, segment)) = covered(bytes, headers) else {
        return Verdict::Unchecked;
    };
    if headers.is_sctp() {
        let Some(sent) = chunk::<4>(segment, 8) else {
            return Verdict::Unchecked;
        };
        return verdict(u32::from_le_bytes(*sent) == sctp(segment));
    }
    if headers.is_udp() && be16(segment, at) == Some(0) {
        // Over IPv6 a missing checksum is an error (RFC 8200), save in tunnels (RFC 6935).
        return if headers.is_ipv6() {
            Verdict::Bad
        } else {
            Verdict::Unchecked
        };
    }
    match pseudo(bytes, headers, segment.len()) {
        Some(sum) => verdict(sum.bytes(segment).folded() == 0xffff),
        None => Verdict::Unchecked,
    }
}

/// Computes and writes the checksums of a parsed packet: the IPv4 header's and the transport's.
///
/// Fragments and cut packets get the IPv4 header's only, since their transport's covers octets
/// that are not there. Returns whether the transport's was written.
pub fn fill(bytes: &mut [u8], headers: &Headers) -> bool {
    if headers.is_ipv4() {
        let (start, end) = (
            usize::from(headers.l3),
            usize::from(ipv4_end(bytes, headers)),
        );
        if let Some(header) = bytes.get_mut(start..end) {
            put16(header, 10, 0);
            let sum = internet(header);
            put16(header, 10, sum);
        }
    }
    let Some((at, segment)) = covered(bytes, headers) else {
        return false;
    };
    let end = usize::from(headers.l4) + segment.len();
    let sum = if headers.is_sctp() {
        None
    } else {
        pseudo(bytes, headers, segment.len())
    };
    let Some(segment) = bytes.get_mut(usize::from(headers.l4)..end) else {
        return false;
    };
    if headers.is_sctp() {
        let sum = sctp(segment).to_le_bytes();
        return match segment.get_mut(8..12) {
            Some(place) => {
                place.copy_from_slice(&sum);
                true
            }
            None => false,
        };
    }
    let Some(pseudo) = sum else { return false };
    put16(segment, at, 0);
    let checksum = match pseudo.bytes(segment).checksum() {
        0 if headers.is_udp() => 0xffff,
        sum => sum,
    };
    put16(segment, at, checksum)
}

/// Place of the checksum in the transport header, and the octets that it covers.
fn covered<'a>(bytes: &'a [u8], headers: &Headers) -> Option<(usize, &'a [u8])> {
    let without = HeaderFlags::FRAGMENT | HeaderFlags::CUT | HeaderFlags::DAMAGED;
    if headers.flags.intersects(without) {
        return None;
    }
    let (at, least) = if headers.is_tcp() {
        (16, 20)
    } else if headers.is_udp() {
        (6, 8)
    } else if headers.is_sctp() {
        (8, 12)
    } else if headers
        .flags
        .intersects(HeaderFlags::ICMP | HeaderFlags::ICMPV6)
    {
        (2, 8)
    } else {
        return None;
    };
    let mut segment = headers.l4_of(bytes);
    if headers.is_udp() {
        // UDP counts for itself: octets after its length are not covered. Zero is "to the end".
        match usize::from(be16(segment, 4)?) {
            0 => {}
            length => segment = segment.get(..length)?,
        }
    }
    if segment.len() < least {
        None
    } else {
        Some((at, segment))
    }
}

/// The pseudo-header's sum. ICMP over IPv4 has none.
fn pseudo(bytes: &[u8], headers: &Headers, length: usize) -> Option<Sum> {
    let l3 = usize::from(headers.l3);
    if headers.is_icmp() {
        return Some(Sum::new());
    }
    let sum = Sum::new()
        .word(u16::from(headers.proto))
        .long(length as u32);
    if headers.is_ipv4() {
        let mut destination = be32(bytes, l3 + 16)?;
        if headers.flags.contains(HeaderFlags::OPTIONS) {
            destination = ipv4_final_destination(bytes, headers).unwrap_or(destination);
        }
        Some(sum.long(be32(bytes, l3 + 12)?).long(destination))
    } else {
        Some(sum.bytes(chunk::<32>(bytes, l3 + 8)?))
    }
}

/// The last hop of an IPv4 source route, which is what the pseudo-header names
/// (RFC 1122 section 4.1.3.4).
fn ipv4_final_destination(bytes: &[u8], headers: &Headers) -> Option<u32> {
    let start = usize::from(headers.l3) + 20;
    let options = bytes.get(start..usize::from(ipv4_end(bytes, headers)))?;
    let mut at = 0;
    loop {
        let (kind, length) = match *options.get(at)? {
            0 => return None,
            1 => (1, 1),
            kind => (kind, usize::from(*options.get(at + 1)?)),
        };
        if matches!(kind, 131 | 137) {
            let pointer = usize::from(*options.get(at + 2)?);
            // Hops remain while the pointer is inside the option.
            return if pointer < length {
                be32(options, at + length.checked_sub(4)?)
            } else {
                None
            };
        }
        if length < 1 {
            return None;
        }
        at += length;
    }
}

fn ipv4_end(bytes: &[u8], headers: &Headers) -> u16 {
    let first = bytes.get(usize::from(headers.l3)).copied().unwrap_or(0);
    headers.l3.saturating_add(u16::from(first & 0xf) * 4)
}

fn verdict(good: bool) -> Verdict {
    if good { Verdict::Good } else { Verdict::Bad }
}

fn put16(bytes: &mut [u8], at: usize, value: u16) -> bool {
    match bytes.get_mut(at..at + 2) {
        Some(place) => {
            place.copy_from_slice(&value.to_be_bytes());
            true
        }
        None => false,
    }
}

/// SCTP's checksum (RFC 9260 appendix A) of a packet, as if its checksum field were zero.
/// It is sent least significant octet first.
pub fn sctp(packet: &[u8]) -> u32 {
    match packet.split_first_chunk::<12>() {
        Some((head, rest)) => crc32c_of(&[&head[..8], &[0; 4], rest]),
        None => crc32c(packet),
    }
}

/// CRC32c (Castagnoli; RFC 3385).
///
/// ```
/// assert_eq!(weir_packet::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_of(&[bytes])
}

/// CRC32c of what the parts make together.
pub(crate) fn crc32c_of(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |crc, part| crc32c_more(crc, part))
}

/// Table `n` gives what an octet does to the remainder `n` octets later, so that eight octets
/// are looked up at a time.
static CRC32C: [[u32; 256]; 8] = crc32c_tables();

const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut octet = 0;
    while octet < 256 {
        let mut crc = octet as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][octet] = crc;
        octet += 1;
    }
    let mut octet = 0;
    while octet < 256 {
        let mut n = 1;
        while n < 8 {
            let before = tables[n - 1][octet];
            tables[n][octet] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            n += 1;
        }
        octet += 1;
    }
    tables
}

fn crc32c_more(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut blocks = bytes.chunks_exact(8);
    for block in &mut blocks {
        let Some(&[a, b, c, d, e, f, g, h]) = block.first_chunk::<8>() else {
            break;
        };
        let low = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        crc = CRC32C[7][low[0] as usize]
            ^ CRC32C[6][low[1] as usize]
            ^ CRC32C[5][low[2] as usize]
            ^ CRC32C[4][low[3] as usize]
            ^ CRC32C[3][e as usize]
            ^ CRC32C[2][f as usize]
            ^ CRC32C[1][g as usize]
            ^ CRC32C[0][h as usize];
    }
    for &octet in blocks.remainder() {
        crc = crc >> 8 ^ CRC32C[0][usize::from(crc as u8 ^ octet)];
    }
    crc
}

#[cfg(test)]
#[path = "checksum_tests.rs"]
mod tests;
