//! A set of octets: IP protocols, ICMP types, TCP flags, ports of an instance.

/// A set of numbers from 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// Adds a number.
    #[inline]
    pub const fn insert(&mut self, value: u8) {
        self.0[(value >> 6) as usize] |= 1 << (value & 63);
    }

    /// True if the number is in the set.
    #[inline]
    pub const fn contains(&self, value: u8) -> bool {
        self.0[(value >> 6) as usize] >> (value & 63) & 1 != 0
    }

    /// True if each number of `other` is in the set.
    pub fn covers(&self, other: &ByteSet) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .all(|(mine, other)| other & !mine == 0)
    }

    /// True if each number of the set is one of `others`.
    pub fn is_within(&self, others: &[u8]) -> bool {
        others.iter().copied().collect::<ByteSet>().covers(self)
    }
}

impl Extend<u8> for ByteSet {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.insert(value));
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(values: I) -> ByteSet {
        let mut set = ByteSet::default();
        set.extend(values);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: ByteSet = [0, 63, 64, 255].into_iter().collect();
        let held: Vec<u8> = (0..=255).filter(|value| set.contains(*value)).collect();
        assert_eq!(held, [0, 63, 64, 255]);
        assert!(set.covers(&ByteSet::from_iter([64])) && !ByteSet::from_iter([64]).covers(&set));
        assert!(set.is_within(&[0, 1, 63, 64, 255]) && !set.is_within(&[0, 63, 64]));
    }
}
