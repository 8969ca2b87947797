//! Queues between threads: a ring of one writer and one reader, and what did
//! not fit.
//!
//! A writer that finds the ring full keeps what it wanted to send and goes on
//! with its own input: two threads that wait for room in one another's rings
//! would wait for ever. What waits is bounded by what there is: frames by the
//! packet memory, messages by the window of unsettled views.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::Time;

/// The writing end.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Producer<T>,
    /// What found no room, or is sent later, with its time; earliest first.
    waiting: VecDeque<(Time, T)>,
}

/// A queue with room for so many items.
pub fn queue<T>(slots: usize) -> (Sender<T>, Consumer<T>) {
    let (ring, receiver) = RingBuffer::new(slots);
    let sender = Sender {
        ring,
        waiting: VecDeque::new(),
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Sends an item, now or as soon as there is room.
    pub fn push(&mut self, item: T) {
        self.push_at(Time(0), item);
    }

    /// Sends an item at a time (of a delay that is emulated), but none before
    /// one that was pushed before it.
    pub fn push_at(&mut self, due: Time, item: T) {
        if self.waiting.is_empty() && due == Time(0) {
            if let Err(rtrb::PushError::Full(item)) = self.ring.push(item) {
                self.waiting.push_back((due, item));
            }
        } else {
            self.waiting.push_back((due, item));
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
                chunk.fill_from_iter(&mut items);
            }
        }
        self.waiting.extend(items.map(|item| (Time(0), item)));
    }

    /// Sends what waits and is due; true where nothing that is due is left.
    pub fn flush(&mut self, now: Time) -> bool {
        while let Some((due, _)) = self.waiting.front() {
            if *due > now {
                return true;
            }
            if self.ring.is_full() {
                return false;
            }
            if let Some((_, item)) = self.waiting.pop_front() {
                // There is room: only this end fills it.
                let _ = self.ring.push(item);
            }
        }
        true
    }

    /// Takes what waits: the reader is gone.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..).map(|(_, item)| item)
    }

    /// True where the reader is gone.
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Items that wait for room or their time.
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
        assert!(!sender.flush(Time(9)));
        let mut got = Vec::new();
        assert_eq!(drain(&mut receiver, 1, &mut got), 1);
        sender.push(5);
        assert!(!sender.flush(Time(9)));
        while drain(&mut receiver, 8, &mut got) > 0 {
            sender.flush(Time(9));
        }
        assert_eq!((got, sender.waiting()), (vec![1, 2, 3, 4, 5], 0));
    }

    #[test]
    fn delayed_items_keep_their_order() {
        let (mut sender, mut receiver) = queue(8);
        sender.push_at(Time(50), 'a');
        sender.push('b');
        assert!(sender.flush(Time(49)));
        let mut got = Vec::new();
        assert_eq!(drain(&mut receiver, 8, &mut got), 0);
        assert!(sender.flush(Time(50)));
        drain(&mut receiver, 8, &mut got);
        assert_eq!(got, ['a', 'b']);
    }
}
