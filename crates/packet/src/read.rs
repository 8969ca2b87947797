//! Checked big-endian reads at an offset of outside input.

/// The `N` bytes at `at`, or `None` where the packet ends before.
#[inline(always)]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>()
}

/// The octet at `at`.
#[inline(always)]
pub(crate) fn be8(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The 16-bit number at `at`, network byte order.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk::<2>(bytes, at).map(|b| u16::from_be_bytes(*b))
}

/// The 32-bit number at `at`, network byte order.
#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk::<4>(bytes, at).map(|b| u32::from_be_bytes(*b))
}
