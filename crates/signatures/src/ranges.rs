//! Sets of numbers as sorted, disjoint, inclusive ranges: addresses and ports.

use std::fmt::Debug;
use std::net::IpAddr;

/// A number a [`RangeSet`] can hold.
pub trait Element: Copy + Ord + Debug {
    /// The smallest number.
    const MIN: Self;
    /// The largest number.
    const MAX: Self;
    /// The next number, unless this is the largest.
    fn next(self) -> Option<Self>;
    /// The number before, unless this is the smallest.
    fn previous(self) -> Option<Self>;
}

macro_rules! element {
    ($($kind:ty),*) => {$(
        impl Element for $kind {
            const MIN: Self = <$kind>::MIN;
            const MAX: Self = <$kind>::MAX;
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    )*};
}
element!(u16, u32, u128);

/// A set of numbers, kept as sorted ranges that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeSet<T> {
    ranges: Vec<(T, T)>,
}

impl<T: Element> RangeSet<T> {
    /// The set of no number.
    pub fn empty() -> Self {
        RangeSet { ranges: Vec::new() }
    }

    /// The set of all numbers.
    pub fn full() -> Self {
        RangeSet::range(T::MIN, T::MAX)
    }

    /// The numbers from `low` to `high`, both included; empty when `low` is above `high`.
    pub fn range(low: T, high: T) -> Self {
        let ranges = if low <= high {
            vec![(low, high)]
        } else {
            Vec::new()
        };
        RangeSet { ranges }
    }

    /// True if no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True if every number is in the set.
    pub fn is_full(&self) -> bool {
        self.ranges.as_slice() == [(T::MIN, T::MAX)]
    }

    /// The ranges, ascending, both ends included.
    pub fn ranges(&self) -> &[(T, T)] {
        &self.ranges
    }

    /// True if `number` is in the set.
    #[inline]
    pub fn contains(&self, number: T) -> bool {
        match self.ranges.as_slice() {
            [] => false,
            [(low, high)] => *low <= number && number <= *high,
            ranges => {
                let at = ranges.partition_point(|&(_, high)| high < number);
                ranges.get(at).is_some_and(|&(low, _)| low <= number)
            }
        }
    }

    /// The numbers in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<(T, T)> = self.ranges.iter().chain(&other.ranges).copied().collect();
        all.sort_unstable();
        let mut ranges: Vec<(T, T)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match ranges.last_mut() {
                Some(last) if last.1.next().is_none_or(|after| low <= after) => {
                    last.1 = last.1.max(high);
                }
                _ => ranges.push((low, high)),
            }
        }
        RangeSet { ranges }
    }

    /// The numbers not in the set.
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::new();
        let mut from = Some(T::MIN);
        for &(low, high) in &self.ranges {
            if let (Some(start), Some(end)) = (from, low.previous())
                && start <= end
            {
                ranges.push((start, end));
            }
            from = high.next();
        }
        if let Some(start) = from {
            ranges.push((start, T::MAX));
        }
        RangeSet { ranges }
    }

    /// The numbers in this set that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        self.complement().union(other).complement()
    }
}

/// A set of ports.
pub type PortSet = RangeSet<u16>;

/// A set of IPv4 and IPv6 addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSet {
    /// The IPv4 addresses, in host order.
    pub v4: RangeSet<u32>,
    /// The IPv6 addresses, in host order.
    pub v6: RangeSet<u128>,
}

impl AddressSet {
    /// The set of all addresses.
    pub fn full() -> Self {
        AddressSet {
            v4: RangeSet::full(),
            v6: RangeSet::full(),
        }
    }

    /// True if every address is in the set.
    pub fn is_full(&self) -> bool {
        self.v4.is_full() && self.v6.is_full()
    }

    /// True if `address` is in the set. An IPv4-mapped IPv6 address is taken as the IPv6 address it is.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address.to_bits()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(ranges: &[(u16, u16)]) -> RangeSet<u16> {
        ranges.iter().fold(RangeSet::empty(), |all, &(low, high)| {
            all.union(&RangeSet::range(low, high))
        })
    }

    #[test]
    fn touching_ranges_become_one() {
        assert_eq!(set(&[(5, 9), (0, 4), (10, 65535)]), RangeSet::full());
        assert!(RangeSet::<u16>::full().complement().is_empty());
        assert!(RangeSet::<u16>::empty().complement().is_full());
    }

    proptest! {
        #[test]
        fn algebra_agrees_with_membership(
            a in prop::collection::vec((0u16..60, 0u16..60), 0..5),
            b in prop::collection::vec((0u16..60, 0u16..60), 0..5),
        ) {
            let (a, b) = (set(&a), set(&b));
            let (union, difference, complement) = (a.union(&b), a.difference(&b), a.complement());
            for number in (0u16..64).chain([65535]) {
                prop_assert_eq!(union.contains(number), a.contains(number) || b.contains(number));
                prop_assert_eq!(difference.contains(number), a.contains(number) && !b.contains(number));
                prop_assert_eq!(complement.contains(number), !a.contains(number));
            }
        }
    }
}
