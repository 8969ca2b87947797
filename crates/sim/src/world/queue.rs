//! Events to come, by time and then in the order in which they were added.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// When an event happens, its number among all, and its slot.
type Due = Reverse<(u64, u64, u32)>;

/// Events of type `E`. The heap moves small numbers only; events stay where they
/// are until their turn.
#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: BinaryHeap<Due>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    number: u64,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Queue<E> {
        Queue {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            number: 0,
        }
    }

    pub(super) fn push(&mut self, at: u64, event: E) {
        self.number += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Some(event),
            None => self.slots.push(Some(event)),
        }
        self.heap.push(Reverse((at, self.number, slot)));
    }

    /// The time of the earliest event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The earliest event, with its time.
    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        let event = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_order() {
        let mut queue = Queue::new();
        for (at, event) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            queue.push(at, event);
        }
        let mut seen = Vec::new();
        while let Some((at, event)) = queue.pop() {
            seen.push((at, event));
            if event == 'b' {
                queue.push(4, 'e');
            }
        }
        assert_eq!(seen, [(3, 'b'), (3, 'd'), (4, 'e'), (5, 'a'), (5, 'c')]);
    }
}
