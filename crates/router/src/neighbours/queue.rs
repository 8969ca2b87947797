//! Slots in the order in which they came to be of a kind, for finding
//! one that can go. Slots whose kind has changed are skipped when they are taken out:
//! so each look passes over no more than was put in since the last.

use std::collections::VecDeque;

/// Numbers, each once at most, in memory that never grows.
#[derive(Debug)]
pub(super) struct Queue {
    numbers: VecDeque<u32>,
    inside: Vec<bool>,
}

impl Queue {
    pub(super) fn new(most: u32) -> Queue {
        Queue {
            numbers: VecDeque::with_capacity(most as usize),
            inside: vec![false; most as usize],
        }
    }

    /// Puts a slot in, if it is not there already.
    pub(super) fn push(&mut self, number: u32) {
        if let Some(inside) = self.inside.get_mut(number as usize)
            && !core::mem::replace(inside, true)
        {
            self.numbers.push_back(number);
        }
    }

    /// Takes the oldest one out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let number = self.numbers.pop_front()?;
        if let Some(inside) = self.inside.get_mut(number as usize) {
            *inside = false;
        }
        Some(number)
    }
}
