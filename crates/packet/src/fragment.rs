//! Fragment keys: which fragments belong to one datagram.

use std::net::IpAddr;

use crate::headers::Headers;
use crate::ipv6::extension_len;
use crate::key::{KeyOptions, address, hash_words, ipv4_addresses, ipv6_addresses, kind};
use crate::protocol::ip;
use crate::read::{be8, be16, be32, chunk};

/// The fragments of one datagram.
///
/// Later fragments have no ports; a flow table remembers under this key which flow the
/// first fragment belongs to. IPv4's key has the protocol (RFC 791 section 3.2), IPv6's has
/// not (RFC 8200 section 4.5), since later fragments need not repeat it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C, align(16))]
pub struct FragmentKey([u64; 6]);

const _: () = assert!(size_of::<FragmentKey>() == 48);

impl FragmentKey {
    /// The key of this fragment, the first one or a later one; `None` where the packet is whole.
    pub fn of(bytes: &[u8], headers: &Headers, options: &KeyOptions) -> Option<FragmentKey> {
        if !headers.is_fragment() {
            return None;
        }
        let l3 = usize::from(headers.l3);
        let zone = if options.zone { headers.zone } else { 0 };
        let addresses;
        let (id, proto);
        if headers.is_ipv4() {
            let [s, d] = ipv4_addresses(bytes, l3)?;
            addresses = [0, u64::from(s), 0, u64::from(d)];
            id = u32::from(be16(bytes, l3 + 4)?);
            proto = headers.proto;
        } else {
            let [s, d] = ipv6_addresses(bytes, l3)?;
            addresses = [s[0], s[1], d[0], d[1]];
            id = ipv6_fragment_id(bytes, headers)?;
            proto = 0;
        }
        let [w0, w1, w2, w3] = addresses;
        let word = u64::from(id) << 32 | u64::from(zone);
        Some(FragmentKey([
            w0,
            w1,
            w2,
            w3,
            word,
            kind(proto, options.chain, headers.is_ipv6()),
        ]))
    }

    /// The key as six words, for storage.
    pub const fn to_words(self) -> [u64; 6] {
        self.0
    }

    /// The key with these words.
    pub const fn from_words(words: [u64; 6]) -> FragmentKey {
        FragmentKey(words)
    }

    /// Source of the datagram.
    pub fn source(&self) -> IpAddr {
        address(&self.0, 0)
    }

    /// Destination of the datagram.
    pub fn destination(&self) -> IpAddr {
        address(&self.0, 2)
    }

    /// The identification field.
    pub const fn id(&self) -> u32 {
        (self.0[4] >> 32) as u32
    }

    /// The IP protocol; 0 for IPv6.
    pub const fn proto(&self) -> u8 {
        self.0[5] as u8
    }

    /// VLAN ids or tunnel key; 0 where zones are not used.
    pub const fn zone(&self) -> u32 {
        self.0[4] as u32
    }

    /// The chain that the packet belongs to.
    pub const fn chain(&self) -> u8 {
        (self.0[5] >> 8) as u8
    }

    /// A hash with the properties of [`FlowKey::hash`](crate::FlowKey::hash).
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        hash_words(&self.0, seed)
    }
}

/// The id in the first fragment header between `l3` and `l4`.
fn ipv6_fragment_id(bytes: &[u8], headers: &Headers) -> Option<u32> {
    let l3 = usize::from(headers.l3);
    let (mut next, mut here) = (be8(bytes, l3 + 6)?, l3 + 40);
    while here < usize::from(headers.l4) && ip::is_extension(next) {
        let [following, size] = *chunk::<2>(bytes, here)?;
        here += match next {
            // An atomic fragment's header may come before the one that counts.
            ip::FRAGMENT if be16(bytes, here + 2)? & 0xfff9 != 0 => return be32(bytes, here + 4),
            _ => extension_len(next, size),
        };
        next = following;
    }
    None
}
