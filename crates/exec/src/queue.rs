//! Queues between threads: a ring of one writer and one reader, and what did
//! not fit.
//!
//! A writer that finds the ring full keeps what it wanted to send and goes on
//! with its own input: two threads that wait for room in one another's rings
//! would wait for ever. What waits is bounded by what there is: frames by the
//! packet memory, messages by unsettled views: a window of them, and after a death
//! one more per unit with packets on their way.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};

/// The writing end.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Producer<T>,
    /// Items that the full queue refused, oldest first.
    waiting: VecDeque<T>,
    /// Items that went into the ring so far.
    sent: u64,
}

/// A queue with room for so many items.
pub fn queue<T>(slots: usize) -> (Sender<T>, Consumer<T>) {
    let (ring, receiver) = RingBuffer::new(slots);
    let sender = Sender {
        ring,
        waiting: VecDeque::new(),
        sent: 0,
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Sends an item, now or as soon as there is room.
    pub fn push(&mut self, item: T) {
        if !self.waiting.is_empty() {
            self.waiting.push_back(item);
        } else if let Err(rtrb::PushError::Full(item)) = self.ring.push(item) {
            self.waiting.push_back(item);
        } else {
            self.sent += 1;
        }
    }

    /// Sends items in order.
    pub fn extend(&mut self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        let mut items = items.drain(..);
        if self.waiting.is_empty() {
            let places = self.ring.slots().min(items.len());
            if let Ok(chunk) = self.ring.write_chunk_uninit(places) {
                self.sent += chunk.fill_from_iter(&mut items) as u64;
            }
        }
        self.waiting.extend(items);
    }

    /// Keeps items for the next flush, behind those that wait.
    pub fn keep(&mut self, items: &mut Vec<T>) {
        self.waiting.extend(items.drain(..));
    }

    /// Sends what waits, as far as there is room; true where nothing is left.
    pub fn flush(&mut self) -> bool {
        while let Some(item) = self.waiting.pop_front() {
            if let Err(rtrb::PushError::Full(item)) = self.ring.push(item) {
                self.waiting.push_front(item);
                return false;
            }
            self.sent += 1;
        }
        true
    }

    /// Takes what waits: the reader is gone.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..)
    }

    /// Items that went to the reader so far: without those that wait.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Items that wait for room.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Moves up to `most` items out of a queue, to the end of `into`.
pub fn drain<T>(ring: &mut Consumer<T>, most: usize, into: &mut Vec<T>) -> usize {
    let items = ring.slots().min(most);
    if items == 0 {
        return 0;
    }
    match ring.read_chunk(items) {
        Ok(chunk) => {
            into.extend(chunk);
            items
        }
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_waits_in_order() {
        let (mut sender, mut receiver) = queue(2);
        sender.extend(&mut vec![1, 2, 3]);
        sender.push(4);
        assert_eq!(sender.waiting(), 2);
        assert!(!sender.flush());
        assert_eq!(sender.sent(), 2);
        let mut got = Vec::new();
        assert_eq!(drain(&mut receiver, 1, &mut got), 1);
        sender.push(5);
        assert!(!sender.flush());
        while drain(&mut receiver, 8, &mut got) > 0 {
            sender.flush();
        }
        assert_eq!((got, sender.waiting()), (vec![1, 2, 3, 4, 5], 0));
        assert_eq!(sender.sent(), 5);
        sender.push(6);
        assert_eq!(sender.sent(), 6);
    }
}
