//! The key that the processes of a cluster share, and the codes made with it.
//!
//! SipHash-2-4 is a keyed function made for short inputs: who does not know the
//! key can't make or change a frame. It hides nothing; frames travel in the
//! clear.

use core::fmt;
use core::hash::Hasher as _;

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128 as _, SipHasher24 as SipHasher24x128};

/// The key of a cluster: 16 secret bytes, the same in each of its processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

/// Never printed.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Code of 128 bits over two pieces, which are taken as one.
    pub(crate) fn code(&self, head: &[u8], payload: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher24x128::new_with_key(&self.0);
        hasher.write(head);
        hasher.write(payload);
        hasher.finish128().as_bytes()
    }

    /// The key of a link between two process starts, `from` the one that opened it: frames of
    /// another pair have other codes, so none can be taken for one of this.
    #[must_use]
    pub fn of_link(&self, from: u64, to: u64) -> Key {
        let mut ends = [0; 16];
        ends[..8].copy_from_slice(&from.to_be_bytes());
        ends[8..].copy_from_slice(&to.to_be_bytes());
        Key(self.code(b"weir link", &ends))
    }

    /// Code of 64 bits over one piece.
    pub fn tag(&self, bytes: &[u8]) -> u64 {
        self.tag_of(bytes, &[])
    }

    /// Code of 64 bits over two pieces, which are taken as one.
    pub(crate) fn tag_of(&self, head: &[u8], payload: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(head);
        hasher.write(payload);
        hasher.finish()
    }
}

/// Compares all bytes, wherever they differ first: the time that it takes says
/// nothing.
pub(crate) fn equal(a: &[u8; 16], b: &[u8; 16]) -> bool {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of the reference implementation (key 00 01 .. 0f,
    /// input 00 01 ..).
    #[test]
    fn codes_are_siphash() {
        let mut key = [0; 16];
        (0u8..).zip(&mut key).for_each(|(n, octet)| *octet = n);
        let key = Key(key);
        let empty = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        let one = [
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45,
        ];
        assert_eq!(key.code(&[], &[]), empty);
        assert_eq!(key.code(&[0], &[]), one);
        assert_eq!(key.code(&[], &[0]), one);
        assert_eq!(key.tag(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(format!("{key:?}"), "Key(..)");
        assert!(equal(&one, &one) && !equal(&one, &empty));
    }
}
