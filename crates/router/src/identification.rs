//! Identifications of the router's own datagrams that may be cut (RFC 6864
//! section 4.3).

use std::net::Ipv4Addr;

use crate::neighbours::fold;

/// Counters; hosts share them. More of them repeat later, and tell a host less of
/// what others are sent.
const COUNTERS: usize = 64;

/// The next identifications, by a hash of the receiver.
#[derive(Debug)]
pub(crate) struct Identifications {
    seed: u64,
    next: [u16; COUNTERS],
}

impl Identifications {
    pub(crate) fn new(seed: u64) -> Identifications {
        let start = |n: usize| fold(seed ^ 0x9e37_79b9_7f4a_7c15, n as u64 + 1) as u16;
        Identifications {
            seed,
            next: core::array::from_fn(start),
        }
    }

    /// One that this host has not been sent for long.
    pub(crate) fn next(&mut self, host: Ipv4Addr) -> u16 {
        let hash = fold(
            self.seed ^ u64::from(u32::from(host)),
            0xd6e8_feb8_6659_fd93,
        );
        let next = &mut self.next[hash as usize % COUNTERS];
        *next = next.wrapping_add(1);
        *next
    }
}
