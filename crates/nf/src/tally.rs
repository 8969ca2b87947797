//! Counts under names that are found at run time.

/// Longest name in bytes; longer ones are cut.
pub const LONGEST_NAME: usize = 120;

#[derive(Clone, Copy, Debug)]
struct Entry {
    count: u64,
    len: u8,
    name: [u8; LONGEST_NAME - 1 + 8],
}

const EMPTY: Entry = Entry {
    count: 0,
    len: 0,
    name: [0; LONGEST_NAME + 7],
};

/// A bounded table of name → count: how often was a URL asked for, which VLANs
/// were seen. Tallies of several runtimes add up, so a tally is a counter, not
/// a state: it is copied lazily and a crash may lose what was counted since.
///
/// When the table is full a new name is counted as "other".
#[derive(Debug)]
pub struct Tally {
    entries: Vec<Entry>,
    used: usize,
    other: u64,
    seed: u64,
}

impl Tally {
    /// Room for `names` different names; `seed` keeps an attacker from
    /// choosing names that collide.
    pub fn new(names: usize, seed: u64) -> Tally {
        Tally {
            entries: vec![EMPTY; (names * 4 / 3 + 1).next_power_of_two()],
            used: 0,
            other: 0,
            seed,
        }
    }

    /// How many different names a tally for `names` takes: the table's size
    /// is a power of two.
    pub fn most(names: usize) -> usize {
        let mask = (names * 4 / 3 + 1).next_power_of_two() - 1;
        mask - mask / 4
    }

    fn hash(&self, name: &[u8]) -> u64 {
        let mut h = self.seed ^ name.len() as u64;
        for chunk in name.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(h ^ u64::from_le_bytes(word)) * 0x9e37_79b9_7f4a_7c15;
            h = product as u64 ^ (product >> 64) as u64;
        }
        h ^ h >> 29
    }

    /// Adds `n` (at least 1) under `name` and gives what was there before (so 0 means
    /// new); `None` where the table is full and the name not in it.
    pub fn add(&mut self, name: &[u8], n: u64) -> Option<u64> {
        let n = n.max(1);
        let name = name.get(..LONGEST_NAME).unwrap_or(name);
        let mask = self.entries.len() - 1;
        let mut at = self.hash(name) as usize & mask;
        loop {
            let entry = &mut self.entries[at];
            if entry.count == 0 {
                if self.used >= mask - mask / 4 {
                    self.other += n;
                    return None;
                }
                self.used += 1;
                entry.count = n;
                entry.len = name.len() as u8;
                entry.name[..name.len()].copy_from_slice(name);
                return Some(0);
            }
            if entry.name[..usize::from(entry.len)] == *name {
                let before = entry.count;
                entry.count = before.saturating_add(n);
                return Some(before);
            }
            at = (at + 1) & mask;
        }
    }

    /// Count under `name`, as [`Tally::add`] would return it, without counting.
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        let name = name.get(..LONGEST_NAME).unwrap_or(name);
        let mask = self.entries.len() - 1;
        let mut at = self.hash(name) as usize & mask;
        loop {
            let entry = &self.entries[at];
            if entry.count == 0 {
                return (self.used < mask - mask / 4).then_some(0);
            }
            if entry.name[..usize::from(entry.len)] == *name {
                return Some(entry.count);
            }
            at = (at + 1) & mask;
        }
    }

    /// Counts that found no place in the table.
    pub fn other(&self) -> u64 {
        self.other
    }

    /// Names and counts, in the order of the names.
    pub fn sorted(&self) -> Vec<(&[u8], u64)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .filter(|e| e.count > 0)
            .map(|e| (&e.name[..usize::from(e.len)], e.count))
            .collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_overflows_into_other() {
        let mut tally = Tally::new(3, 1);
        assert_eq!(tally.add(b"a", 2), Some(0));
        assert_eq!(tally.add(b"a", 1), Some(2));
        assert_eq!((tally.get(b"a"), tally.get(b"b")), (Some(3), Some(0)));
        let mut refused = 0;
        for i in 0..100u8 {
            refused += u64::from(tally.add(&[i, i], 1).is_none());
        }
        assert!(refused > 90);
        assert_eq!((tally.get(b"a"), tally.get(b"none")), (Some(3), None));
        assert_eq!(tally.other(), refused);
        assert_eq!(
            tally.sorted().iter().map(|(_, n)| n).sum::<u64>() + tally.other(),
            103
        );
    }
}
