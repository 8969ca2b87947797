//! From a key's hash to a record number: buckets of one cache line.
//!
//! A bucket holds eight 16-bit tags and eight record numbers. A full bucket
//! overflows into the next one and counts how many of its entries live
//! further on, so a look-up stops at the first bucket from which nothing
//! overflowed, and nothing is ever moved. The caller compares keys: the tag
//! only says where it is worth it.

use weir_packet::{Arena, lanes};

/// Entries per bucket.
const WIDTH: usize = 8;
const NO_TAG: u16 = 0;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
struct Bucket {
    tags: [u16; WIDTH],
    records: [u32; WIDTH],
    /// Entries whose home or path leads through here and that live further on.
    overflow: u32,
    unused: [u32; 3],
}

/// The index of one flow table.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Arena<Bucket>,
    mask: usize,
    len: usize,
}

/// No record.
pub(crate) const NONE: u32 = u32::MAX;

impl Bucket {
    /// The entries whose tag is `tag`, as a mask: bit 2·i for entry i.
    #[inline(always)]
    fn matches(&self, tag: u16) -> u32 {
        lanes::equal(&self.tags, tag)
    }
}

/// The entry of the lowest bit of what [`Bucket::matches`] gave.
#[inline(always)]
fn first(matches: u32) -> usize {
    matches.trailing_zeros() as usize / 2 % WIDTH
}

fn tag(hash: u64) -> u16 {
    // The top bits; the bottom ones choose the bucket. Never `NO_TAG`.
    (hash >> 48) as u16 | 1
}

impl Index {
    /// Buckets for `entries` at a load of at most 3/4.
    fn buckets(entries: usize) -> usize {
        (entries * 4 / 3).div_ceil(WIDTH).max(1).next_power_of_two()
    }

    /// Bytes that room for `entries` takes.
    pub(crate) fn bytes(entries: usize) -> u64 {
        (Self::buckets(entries) * size_of::<Bucket>()) as u64
    }

    /// Room for `entries` at a load of at most 3/4.
    pub(crate) fn new(entries: usize, advise: weir_packet::Advise) -> Index {
        let count = Self::buckets(entries);
        let buckets = Arena::zeroed(count, advise);
        Index {
            buckets,
            mask: count - 1,
            len: 0,
        }
    }

    /// Entries in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let bucket = self
            .buckets
            .as_ptr()
            .wrapping_add(hash as usize & self.mask);
        weir_packet::prefetch::read(bucket);
    }

    /// The first record that may have this hash, without a look at its key:
    /// what to prefetch, and nearly always the answer. [`NONE`] for none.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> u32 {
        let Some(bucket) = self.buckets.get(hash as usize & self.mask) else {
            return NONE;
        };
        match bucket.matches(tag(hash)) {
            0 => NONE,
            matches => bucket.records[first(matches)],
        }
    }

    /// The record with this hash for which `same` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let mut at = hash as usize & self.mask;
        // The bound keeps a table whose counts are wrong from looping.
        for _ in 0..=self.mask {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let record = bucket.records[first(matches)];
                if same(record) {
                    return Some(record);
                }
                matches &= matches - 1;
            }
            if bucket.overflow == 0 {
                return None;
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    /// Adds a record; false where every bucket is full.
    pub(crate) fn insert(&mut self, hash: u64, record: u32) -> bool {
        if self.len >= self.buckets.len() * WIDTH {
            return false;
        }
        let mut at = hash as usize & self.mask;
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(free) = bucket.tags.iter().position(|&t| t == NO_TAG) {
                bucket.tags[free] = tag(hash);
                bucket.records[free] = record;
                self.len += 1;
                return true;
            }
            bucket.overflow += 1;
            at = (at + 1) & self.mask;
        }
    }

    /// Removes a record that was added with this hash; false if it is not
    /// there.
    pub(crate) fn remove(&mut self, hash: u64, record: u32) -> bool {
        let tag = tag(hash);
        let home = hash as usize & self.mask;
        let mut at = home;
        for _ in 0..=self.mask {
            let bucket = &mut self.buckets[at];
            let place = (0..WIDTH).find(|&i| bucket.tags[i] == tag && bucket.records[i] == record);
            if let Some(place) = place {
                bucket.tags[place] = NO_TAG;
                self.len -= 1;
                while at != home {
                    at = at.wrapping_sub(1) & self.mask;
                    self.buckets[at].overflow -= 1;
                }
                return true;
            }
            if bucket.overflow == 0 {
                return false;
            }
            at = (at + 1) & self.mask;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((0u64..40, any::<bool>()), 1..400)) {
            // Few buckets and hashes that share tags and homes: overflow and
            // false matches happen all the time.
            let mut index = Index::new(24, weir_packet::no_advice);
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (key, add) in steps {
                let hash = ((key % 5) << 48) | (key % 3);
                if add && !model.contains_key(&key) {
                    if index.insert(hash, key as u32) {
                        model.insert(key, key as u32);
                    } else {
                        prop_assert_eq!(model.len(), index.buckets.len() * WIDTH);
                    }
                } else if !add {
                    prop_assert_eq!(index.remove(hash, key as u32), model.remove(&key).is_some());
                }
                for key in 0..40u64 {
                    let hash = ((key % 5) << 48) | (key % 3);
                    let found = index.find(hash, |record| record == key as u32);
                    prop_assert_eq!(found, model.get(&key).copied());
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for (&key, &record) in &model {
                let hash = ((key % 5) << 48) | (key % 3);
                prop_assert!(index.remove(hash, record));
            }
            prop_assert!(index.buckets.iter().all(|b| b.overflow == 0 && b.tags == [NO_TAG; WIDTH]));
        }
    }
}
