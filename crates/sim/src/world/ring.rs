//! A queue between two threads, as `weir_exec::queue` has it: a ring, and what
//! did not fit, which waits with the writer.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Ring<T> {
    places: usize,
    ring: VecDeque<T>,
    waiting: VecDeque<T>,
}

impl<T> Ring<T> {
    pub(super) fn new(places: usize) -> Ring<T> {
        Ring {
            places,
            ring: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Sends an item, now or as soon as there is room.
    pub(super) fn push(&mut self, item: T) {
        if self.waiting.is_empty() && self.ring.len() < self.places {
            self.ring.push_back(item);
        } else {
            self.waiting.push_back(item);
        }
    }

    /// Sends what waits, as far as there is room; true where nothing is left.
    pub(super) fn flush(&mut self) -> bool {
        while self.ring.len() < self.places
            && let Some(item) = self.waiting.pop_front()
        {
            self.ring.push_back(item);
        }
        self.waiting.is_empty()
    }

    /// Takes up to `most` items out.
    pub(super) fn take(&mut self, most: usize) -> impl Iterator<Item = T> + '_ {
        let count = most.min(self.ring.len());
        self.ring.drain(..count)
    }

    /// Takes what waits: the reader is gone.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..)
    }

    /// Items that the reader finds.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True where the reader finds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_waits_in_order() {
        let mut ring = Ring::new(2);
        (1..=4).for_each(|n| ring.push(n));
        assert!(ring.waits() && !ring.flush());
        let mut got: Vec<u32> = ring.take(1).collect();
        ring.push(5);
        while !ring.flush() || !ring.is_empty() {
            got.extend(ring.take(8));
        }
        assert_eq!((got, ring.waits()), (vec![1, 2, 3, 4, 5], false));
    }
}
