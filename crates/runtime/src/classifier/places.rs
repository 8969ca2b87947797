//! Dense numbers that are in use or free, and lists through them.

use weir_packet::{Advise, Arena};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Neighbours in a list: numbers plus one, 0 for none.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Link {
    next: u32,
    previous: u32,
}

/// The numbers below a maximum. A free one is in the list of free ones, and
/// one in use may be in a list of its user's.
#[derive(Debug)]
pub(super) struct Places {
    links: Arena<Link>,
    /// First free one, plus one.
    free: u32,
    /// Numbers from here on were never used.
    fresh: u32,
    used: u32,
}

impl Places {
    /// Bytes that so many take.
    pub(super) const fn bytes(max: u32) -> u64 {
        max as u64 * size_of::<Link>() as u64
    }

    /// Numbers 0 to `max` − 1, all free.
    pub(super) fn new(max: u32, advise: Advise) -> Places {
        Places {
            links: Arena::zeroed(max as usize, advise),
            free: 0,
            fresh: 0,
            used: 0,
        }
    }

    /// Numbers in use.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// Free numbers.
    pub(super) fn left(&self) -> usize {
        self.links.len() - self.used as usize
    }

    /// Numbers from here on were never used.
    pub(super) const fn fresh(&self) -> u32 {
        self.fresh
    }

    /// A free number, the one that was freed last if there is one.
    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.checked_sub(1) {
            let mut free = self.free;
            self.unlink(&mut free, number);
            self.free = free;
            self.used += 1;
            return Some(number);
        }
        if self.fresh as usize == self.links.len() {
            return None;
        }
        self.fresh += 1;
        self.used += 1;
        Some(self.fresh - 1)
    }

    /// Takes a number that is free; false where there is no such number.
    pub(super) fn take_this(&mut self, number: u32) -> bool {
        if number as usize >= self.links.len() {
            return false;
        }
        let mut free = self.free;
        if number < self.fresh {
            self.unlink(&mut free, number);
        } else {
            for skipped in (self.fresh..number).rev() {
                self.push(&mut free, skipped);
            }
            self.fresh = number + 1;
        }
        self.free = free;
        self.used += 1;
        true
    }

    /// Frees a number that is in use and in no list.
    pub(super) fn give(&mut self, number: u32) {
        let mut free = self.free;
        self.push(&mut free, number);
        self.free = free;
        self.used -= 1;
    }

    /// Puts a number at the front of the list that begins at `head`.
    pub(super) fn push(&mut self, head: &mut u32, number: u32) {
        self.links[number as usize] = Link {
            next: *head,
            previous: 0,
        };
        if let Some(after) = head.checked_sub(1) {
            self.links[after as usize].previous = number + 1;
        }
        *head = number + 1;
    }

    /// Takes a number out of the list that begins at `head`.
    pub(super) fn unlink(&mut self, head: &mut u32, number: u32) {
        let Link { next, previous } = self.links[number as usize];
        match previous.checked_sub(1) {
            Some(before) => self.links[before as usize].next = next,
            None => *head = next,
        }
        if let Some(after) = next.checked_sub(1) {
            self.links[after as usize].previous = previous;
        }
    }

    /// The numbers of the list that begins at `head`.
    pub(super) fn list(&self, mut head: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::from_fn(move || {
            let number = head.checked_sub(1)?;
            head = self.links[number as usize].next;
            Some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn gives_each_number_once(steps in prop::collection::vec((0u8..4, 0u32..12), 1..200)) {
            let mut places = Places::new(10, weir_packet::no_advice);
            let (mut used, mut list, mut head) = (BTreeSet::new(), Vec::new(), 0);
            for (what, number) in steps {
                match what {
                    0 => match places.take() {
                        Some(number) => prop_assert!(number < 10 && used.insert(number)),
                        None => prop_assert_eq!(used.len(), 10),
                    },
                    1 if !used.contains(&number) => {
                        prop_assert_eq!(places.take_this(number), number < 10);
                        if number < 10 {
                            used.insert(number);
                        }
                    }
                    2 if used.contains(&number) && !list.contains(&number) => {
                        places.push(&mut head, number);
                        list.insert(0, number);
                    }
                    3 if used.contains(&number) => {
                        if list.contains(&number) {
                            places.unlink(&mut head, number);
                            list.retain(|&n| n != number);
                        }
                        places.give(number);
                        used.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(places.used() as usize, used.len());
                prop_assert_eq!(places.left(), 10 - used.len());
                prop_assert!(used.iter().all(|&n| n < places.fresh()));
                prop_assert_eq!(places.list(head).collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
