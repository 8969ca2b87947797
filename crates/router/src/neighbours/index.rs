//! From port and address to slot: open addressing with a seeded hash.

use std::net::IpAddr;

/// An empty place.
const EMPTY: u32 = u32::MAX;

/// Slots by the hash of what they are of. Twice as many places as slots, so
/// that searches are short and always end.
#[derive(Debug)]
pub(super) struct Index {
    /// Slot and the lower half of its hash, which gives the place where the
    /// search begins, and tells most others apart.
    places: Vec<(u32, u32)>,
    mask: usize,
    seed: u64,
}

/// Two words folded through one multiplication: good enough where the seed is
/// secret and the table bounded.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

impl Index {
    pub(super) fn new(slots: usize, seed: u64) -> Index {
        let places = (2 * slots.max(1)).next_power_of_two();
        Index {
            places: vec![(EMPTY, 0); places],
            mask: places - 1,
            seed,
        }
    }

    #[inline]
    fn hash(&self, port: u8, address: IpAddr) -> u32 {
        const A: u64 = 0x9e37_79b9_7f4a_7c15;
        const B: u64 = 0xd6e8_feb8_6659_fd93;
        let start = self.seed ^ u64::from(port) << 32;
        let hash = match address {
            IpAddr::V4(a) => fold(start ^ u64::from(u32::from(a)) ^ A, B ^ self.seed),
            IpAddr::V6(a) => {
                let a = u128::from(a);
                let upper = fold(start ^ (a >> 64) as u64 ^ B, A ^ self.seed);
                fold(upper ^ a as u64, B ^ self.seed)
            }
        };
        hash as u32
    }

    /// The slot for which `same` is true.
    #[inline]
    pub(super) fn find(
        &self,
        port: u8,
        address: IpAddr,
        same: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let hash = self.hash(port, address);
        let mut place = hash as usize & self.mask;
        loop {
            let (slot, other) = *self.places.get(place)?;
            if slot == EMPTY {
                return None;
            }
            if other == hash && same(slot) {
                return Some(slot);
            }
            place = (place + 1) & self.mask;
        }
    }

    /// Adds a slot that is not there. The table has room for all slots.
    pub(super) fn insert(&mut self, port: u8, address: IpAddr, slot: u32) {
        let hash = self.hash(port, address);
        let mut place = hash as usize & self.mask;
        for _ in 0..self.places.len() {
            match self.places.get_mut(place) {
                Some(at) if at.0 == EMPTY => {
                    *at = (slot, hash);
                    return;
                }
                _ => place = (place + 1) & self.mask,
            }
        }
    }

    /// Takes a slot out, and moves those behind it up.
    pub(super) fn remove(&mut self, port: u8, address: IpAddr, slot: u32) {
        let mut gap = self.hash(port, address) as usize & self.mask;
        loop {
            match self.places.get(gap) {
                Some(&(other, _)) if other == slot => break,
                None | Some(&(EMPTY, _)) => return,
                Some(_) => gap = (gap + 1) & self.mask,
            }
        }
        let mut place = gap;
        loop {
            place = (place + 1) & self.mask;
            let Some(&(other, hash)) = self.places.get(place) else {
                return;
            };
            if other == EMPTY {
                break;
            }
            // One whose search begins behind the gap stays.
            let begin = hash as usize & self.mask;
            let way = place.wrapping_sub(begin) & self.mask;
            if way < place.wrapping_sub(gap) & self.mask {
                continue;
            }
            if let Some(at) = self.places.get_mut(gap) {
                *at = (other, hash);
            }
            gap = place;
        }
        if let Some(at) = self.places.get_mut(gap) {
            *at = (EMPTY, 0);
        }
    }
}
