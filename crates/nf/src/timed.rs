//! Values that last for a time, a bounded number of them at once.

use std::collections::{BTreeMap, BTreeSet};

/// Values by key, each with the end of its time. Times are microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Timed<V> {
    values: BTreeMap<Box<[u8]>, (u64, V)>,
    /// The keys by the ends of their times.
    ends: BTreeSet<(u64, Box<[u8]>)>,
    most: usize,
    forgotten: u64,
}

/// Values at a time.
const MOST: usize = 65_536;

impl<V> Default for Timed<V> {
    fn default() -> Timed<V> {
        Timed::new(MOST)
    }
}

impl<V> Timed<V> {
    /// An empty store of up to `most` values.
    pub(crate) fn new(most: usize) -> Timed<V> {
        Timed {
            values: BTreeMap::new(),
            ends: BTreeSet::new(),
            most,
            forgotten: 0,
        }
    }

    /// The value of a key whose time is not over.
    pub(crate) fn get_mut(&mut self, key: &[u8], now: u64) -> Option<&mut V> {
        let found = self.values.get_mut(key);
        found.filter(|(end, _)| now <= *end).map(|(_, value)| value)
    }

    /// Puts a value until `end`. Where the key is new, others make room for it.
    pub(crate) fn put(&mut self, key: &[u8], (now, end): (u64, u64), value: V) {
        if !self.remove(key) {
            self.make_room(now);
        }
        self.values.insert(key.into(), (end, value));
        self.ends.insert((end, key.into()));
    }

    /// Removes a value; false where there is none.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let removed = self.values.remove(key);
        if let Some((end, _)) = &removed {
            self.ends.remove(&(*end, key.into()));
        }
        removed.is_some()
    }

    /// Values that were removed before their time, because there were as many as fit.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Removes values whose time is over or, where the store is full, the one that ends first.
    fn make_room(&mut self, now: u64) {
        // Two at most, so that no event pays for all of them.
        for _ in 0..2 {
            let is_full = self.values.len() >= self.most;
            let Some((first, _)) = self.ends.first() else {
                return;
            };
            let is_over = *first < now;
            if !is_over && !is_full {
                return;
            }
            self.forgotten += u64::from(!is_over);
            if let Some((_, key)) = self.ends.pop_first() {
                self.values.remove(&key);
            }
        }
    }

    /// How many values and how many ends there are.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.values.len(), self.ends.len())
    }
}
