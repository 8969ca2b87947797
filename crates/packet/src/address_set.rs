//! A set of addresses and prefixes that changes while threads look into it.
//!
//! A hash table of prefixes with an index of tags over it, 7 to a word: an address that is in no
//! prefix costs about one word per length that prefixes of its family have. Memory is reserved
//! when the set is made. Entries never move, so who looks never waits and misses nothing that
//! stays: one thread changes the set at a time, any number look into it meanwhile.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::net::IpAddr;

use crate::Prefix;

/// Places in a bucket; the eighth octet of its word counts entries that went on to a later one.
const PLACES: usize = 7;
/// Of ten places so many may be taken.
const LOAD: usize = 8;
/// Lengths of IPv4 begin behind these of IPv6 in [`Key::code`]; 0 is an empty place.
const CODE_V4: u32 = 130;
/// A count that has reached this is not exact any more, and stays.
const MANY: u64 = 0xff;
/// Lengths for which words are fetched.
const FETCHED: usize = 4;
const EACH: u64 = 0x0001_0101_0101_0101;

/// A prefix as it is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    high: u64,
    low: u64,
    /// Family and length.
    code: u32,
}

impl Key {
    fn v4(address: u32, length: u32) -> Key {
        Key {
            high: 0,
            low: address.into(),
            code: CODE_V4 + length,
        }
    }

    fn v6(address: u128, length: u32) -> Key {
        Key {
            high: (address >> 64) as u64,
            low: address as u64,
            code: 1 + length,
        }
    }

    fn of(prefix: &Prefix) -> Key {
        match prefix.address() {
            IpAddr::V4(a) => Key::v4(a.into(), prefix.length().into()),
            IpAddr::V6(a) => Key::v6(a.into(), prefix.length().into()),
        }
    }

    fn prefix(self) -> Option<Prefix> {
        let (address, length): (IpAddr, u32) = match self.code.checked_sub(CODE_V4) {
            Some(length) => (std::net::Ipv4Addr::from(self.low as u32).into(), length),
            None => {
                let number = u128::from(self.high) << 64 | u128::from(self.low);
                (
                    std::net::Ipv6Addr::from(number).into(),
                    self.code.checked_sub(1)?,
                )
            }
        };
        Prefix::new(address, u8::try_from(length).ok()?).ok()
    }

    /// Every bit of a key reaches every bit of its hash.
    #[inline]
    fn hash(self, seed: u64) -> u64 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let low = self.low ^ u64::from(self.code).rotate_left(40);
        let first = fold(low ^ seed, 0x9e37_79b9_7f4a_7c15);
        fold(first ^ self.high, seed ^ 0xd6e8_feb8_6659_fd93)
    }
}

/// A place of an entry. Its version tells who reads it that it has changed meanwhile.
#[derive(Debug, Default)]
struct Slot {
    /// Version, and in the lowest octet the code.
    meta: AtomicU32,
    high: AtomicU64,
    low: AtomicU64,
}

impl Slot {
    #[inline]
    fn holds(&self, key: Key) -> bool {
        let before = self.meta.load(Acquire);
        if before & 0xff != key.code
            || self.low.load(Relaxed) != key.low
            || self.high.load(Relaxed) != key.high
        {
            return false;
        }
        // Where it has changed meanwhile, the entry came or went just now: either answer is right.
        fence(Acquire);
        self.meta.load(Relaxed) == before
    }

    fn key(&self) -> Option<Key> {
        let before = self.meta.load(Acquire);
        let key = Key {
            high: self.high.load(Relaxed),
            low: self.low.load(Relaxed),
            code: before & 0xff,
        };
        fence(Acquire);
        (key.code != 0 && self.meta.load(Relaxed) == before).then_some(key)
    }

    /// Empties the place, and fills it where there is a key.
    fn put(&self, key: Option<Key>) {
        let next = (self.meta.load(Relaxed) >> 8).wrapping_add(1) << 8;
        self.meta.store(next, Relaxed);
        let Some(key) = key else { return };
        fence(Release);
        self.high.store(key.high, Relaxed);
        self.low.store(key.low, Relaxed);
        self.meta.store(next | key.code, Release);
    }
}

/// How many prefixes of each length there are, and which lengths there are.
#[derive(Debug)]
struct Lengths {
    counts: [AtomicU32; 256],
    present: [AtomicU64; 4],
}

impl Lengths {
    fn new() -> Lengths {
        Lengths {
            counts: [const { AtomicU32::new(0) }; 256],
            present: [const { AtomicU64::new(0) }; 4],
        }
    }

    fn add(&self, code: u32, more: bool) {
        let at = code as usize;
        let (Some(count), Some(word)) = (self.counts.get(at), self.present.get(at / 64)) else {
            return;
        };
        let now = match more {
            true => count.load(Relaxed).saturating_add(1),
            false => count.load(Relaxed).saturating_sub(1),
        };
        count.store(now, Relaxed);
        let bit = 1 << (at % 64);
        let known = word.load(Relaxed);
        word.store(if now > 0 { known | bit } else { known & !bit }, Release);
    }
}

/// A set of addresses and prefixes of both families, of a bounded size.
pub struct AddressSet {
    words: Box<[AtomicU64]>,
    slots: Box<[Slot]>,
    lengths: Lengths,
    len: AtomicUsize,
    most: usize,
    seed: u64,
    version: AtomicU64,
    changing: AtomicBool,
}

impl fmt::Debug for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressSet")
            .field("len", &self.len())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// A set that has as many entries as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFull;

impl AddressSet {
    /// An empty set of at most so many entries, with a seed for its hashes.
    pub fn new(most: usize, seed: u64) -> AddressSet {
        let buckets = (most.max(1) * 10).div_ceil(LOAD * PLACES);
        AddressSet {
            words: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            slots: (0..buckets * PLACES).map(|_| Slot::default()).collect(),
            lengths: Lengths::new(),
            len: AtomicUsize::new(0),
            most,
            seed,
            version: AtomicU64::new(0),
            changing: AtomicBool::new(false),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True where there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most entries.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Which of its contents it has: 0 as it was loaded, a greater number after each change. Who
    /// keeps what a look-up said reads it before that.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// True where an entry is or contains the address.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => {
                let a = u32::from(a);
                // Codes 130 to 162.
                let mut lengths = self.lengths.present[2].load(Acquire) >> (CODE_V4 - 128);
                while lengths != 0 {
                    let length = lengths.trailing_zeros();
                    lengths &= lengths - 1;
                    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                    if self.has(Key::v4(a & mask, length)) {
                        return true;
                    }
                }
                false
            }
            IpAddr::V6(a) => self.contains_v6(a.into()),
        }
    }

    /// Has the cache fetch what [`AddressSet::contains`] reads first, for some of the lengths that
    /// there are.
    #[inline]
    pub fn prefetch(&self, address: IpAddr) {
        let IpAddr::V4(a) = address else { return };
        let a = u32::from(a);
        let mut lengths = self.lengths.present[2].load(Relaxed) >> (CODE_V4 - 128);
        for _ in 0..FETCHED {
            if lengths == 0 {
                return;
            }
            let length = lengths.trailing_zeros();
            lengths &= lengths - 1;
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            let (bucket, _) = self.home(Key::v4(a & mask, length));
            if let Some(word) = self.words.get(bucket) {
                crate::prefetch::read(word);
            }
        }
    }

    fn contains_v6(&self, address: u128) -> bool {
        let [first, second, third, _] = &self.lengths.present;
        // Codes 1 to 129: the third word has IPv4's, too.
        let words = [first, second, third].map(|word| word.load(Acquire));
        let words = [words[0], words[1], words[2] & 3];
        for (number, mut lengths) in (0..).zip(words) {
            while lengths != 0 {
                let length = number * 64 + lengths.trailing_zeros() - 1;
                lengths &= lengths - 1;
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                if self.has(Key::v6(address & mask, length)) {
                    return true;
                }
            }
        }
        false
    }

    /// True where the prefix itself is an entry.
    pub fn has_entry(&self, prefix: &Prefix) -> bool {
        self.has(Key::of(prefix))
    }

    #[inline]
    fn has(&self, key: Key) -> bool {
        self.find(key, self.home(key)).is_some()
    }

    /// The bucket at which a key is looked for first, and its tag.
    #[inline]
    fn home(&self, key: Key) -> (usize, u64) {
        let hash = key.hash(self.seed);
        let bucket = (u128::from(hash) * self.words.len() as u128) >> 64;
        (bucket as usize, (hash & 0xff).max(1))
    }

    /// The place of a key: bucket, and place in it.
    #[inline]
    fn find(&self, key: Key, (mut bucket, tag): (usize, u64)) -> Option<(usize, usize)> {
        for _ in 0..self.words.len() {
            let word = self.words.get(bucket)?.load(Acquire);
            // Octets that are the tag become zero; a few more are taken for it by the borrow.
            let same = (word ^ (tag * EACH)) & (u64::MAX >> 8);
            let mut hits = same.wrapping_sub(EACH) & !same & (EACH << 7);
            while hits != 0 {
                let place = (hits.trailing_zeros() / 8) as usize;
                hits &= hits - 1;
                let slot = self.slots.get(bucket * PLACES + place)?;
                if slot.holds(key) {
                    return Some((bucket, place));
                }
            }
            if word >> 56 == 0 {
                return None;
            }
            bucket = self.after(bucket);
        }
        None
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        match bucket + 1 {
            next if next < self.words.len() => next,
            _ => 0,
        }
    }

    /// All entries, in no order; those that come or go meanwhile may be among them.
    pub fn entries(&self) -> impl Iterator<Item = Prefix> + '_ {
        let keys = self.slots.iter().filter_map(Slot::key);
        keys.filter_map(Key::prefix)
    }

    /// The way to change it; `None` while somebody else does.
    pub fn change(&self) -> Option<Changes<'_>> {
        let free = self
            .changing
            .compare_exchange(false, true, Acquire, Relaxed);
        free.is_ok().then_some(Changes(self))
    }
}

/// Changes of a set, until this is dropped. Each is seen at once by who looks.
#[derive(Debug)]
pub struct Changes<'a>(&'a AddressSet);

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.0.changing.store(false, Release);
    }
}

impl Changes<'_> {
    /// Adds an entry. False where it is there already.
    ///
    /// # Errors
    ///
    /// The set is full.
    pub fn insert(&mut self, prefix: &Prefix) -> Result<bool, SetFull> {
        let set = self.0;
        let key = Key::of(prefix);
        let (home, tag) = set.home(key);
        if set.find(key, (home, tag)).is_some() {
            return Ok(false);
        }
        if set.len() >= set.most {
            return Err(SetFull);
        }
        let mut bucket = home;
        // There are more places than entries: one of them is free.
        for _ in 0..set.words.len() {
            let Some(word) = set.words.get(bucket) else {
                break;
            };
            let known = word.load(Relaxed);
            let free = (0..PLACES).find(|place| known >> (8 * place) & 0xff == 0);
            let Some(place) = free else {
                if known >> 56 < MANY {
                    word.store(known + (1 << 56), Release);
                }
                bucket = set.after(bucket);
                continue;
            };
            if let Some(slot) = set.slots.get(bucket * PLACES + place) {
                slot.put(Some(key));
            }
            word.store(known | (tag << (8 * place)), Release);
            set.lengths.add(key.code, true);
            set.len.store(set.len() + 1, Relaxed);
            return Ok(true);
        }
        Err(SetFull)
    }

    /// Removes an entry. False where it is not there.
    pub fn remove(&mut self, prefix: &Prefix) -> bool {
        let set = self.0;
        let key = Key::of(prefix);
        let (home, tag) = set.home(key);
        let Some((found, place)) = set.find(key, (home, tag)) else {
            return false;
        };
        if let Some(word) = set.words.get(found) {
            word.store(word.load(Relaxed) & !(0xff << (8 * place)), Release);
        }
        if let Some(slot) = set.slots.get(found * PLACES + place) {
            slot.put(None);
        }
        let mut bucket = home;
        while bucket != found {
            if let Some(word) = set.words.get(bucket) {
                let known = word.load(Relaxed);
                if known >> 56 < MANY {
                    word.store(known - (1 << 56), Release);
                }
            }
            bucket = set.after(bucket);
        }
        set.lengths.add(key.code, false);
        set.len.store(set.len() - 1, Relaxed);
        true
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        let set = self.0;
        set.words.iter().for_each(|word| word.store(0, Release));
        set.slots.iter().for_each(|slot| slot.put(None));
        (set.lengths.present.iter()).for_each(|word| word.store(0, Release));
        (set.lengths.counts.iter()).for_each(|count| count.store(0, Relaxed));
        set.len.store(0, Relaxed);
    }

    /// Has it have exactly these entries, where all that stay are found meanwhile; `wanted` is
    /// sorted.
    ///
    /// # Errors
    ///
    /// They are more than it may have: the last are not in it.
    pub fn become_of(&mut self, wanted: &[Prefix]) -> Result<(), SetFull> {
        let known: Vec<Prefix> = self.0.entries().collect();
        for prefix in known {
            if wanted.binary_search(&prefix).is_err() {
                self.remove(&prefix);
            }
        }
        wanted
            .iter()
            .try_for_each(|prefix| self.insert(prefix).map(drop))
    }

    /// Says that the contents are those of `version` from here on.
    pub fn set_version(&mut self, version: u64) {
        self.0.version.store(version, Release);
    }
}

#[cfg(test)]
#[path = "address_set_tests.rs"]
mod tests;
