//! Messages of any length between two processes, through a ring of numbers.
//!
//! A message is a word with its length in bytes, and its bytes, four to a word; the
//! last word is padded with zeros. The writer keeps what finds no room, so neither
//! side ever waits for the other: two that wait in one another's rings would wait
//! for ever.

use std::collections::VecDeque;

use super::spsc::{Nonsense, Reader, Writer};
use super::{Waker, Words};

/// Words that are taken out of a ring at a time.
const CHUNK: usize = 1 << 10;

/// The writing end.
#[derive(Debug)]
pub struct MessageOutput {
    ring: Writer<Words>,
    /// Wakes the reader.
    waker: Waker,
    /// Words that are not in the ring yet, oldest first.
    waiting: VecDeque<u32>,
    /// The reader's position makes no sense: nothing goes this way any more.
    broken: bool,
}

impl MessageOutput {
    /// Of the ring in `words`; `waker` wakes its reader.
    ///
    /// # Errors
    ///
    /// If the words are no ring.
    pub fn attach(words: Words, waker: Waker) -> Result<MessageOutput, Nonsense> {
        Ok(MessageOutput {
            ring: Writer::attach(words)?,
            waker,
            waiting: VecDeque::new(),
            broken: false,
        })
    }

    /// Takes a message, which the next [`MessageOutput::flush`] sends.
    ///
    /// # Panics
    ///
    /// If it has 4 GiB or more.
    pub fn push(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("messages are far shorter");
        self.waiting.push_back(length);
        let (words, rest) = bytes.as_chunks::<4>();
        self.waiting
            .extend(words.iter().map(|four| u32::from_le_bytes(*four)));
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.waiting.push_back(u32::from_le_bytes(last));
        }
    }

    /// Sends what waits, as far as there is room; true where nothing is left.
    pub fn flush(&mut self) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let wanted = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let room = match self.ring.free(wanted) {
            Ok(room) if !self.broken => room as usize,
            Ok(_) => 0,
            Err(Nonsense) => {
                self.broken = true;
                0
            }
        };
        let sent = room.min(self.waiting.len());
        if sent > 0 {
            self.ring.write(self.waiting.drain(..sent));
            if self.ring.publish() {
                self.waker.wake();
            }
        }
        self.waiting.is_empty()
    }

    /// Words that wait for room.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The reader has died: its successor gets messages again. To be called before that one
    /// attaches.
    pub fn mend(&mut self) {
        self.broken = false;
        self.ring.mend();
    }

    /// Drops what waits. The ring may end within a message then: it is to be
    /// [emptied](super::empty) before the next reader attaches.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// The reading end.
#[derive(Debug)]
pub struct MessageInput {
    ring: Reader<Words>,
    /// Words that were read and not given out, from `next` on.
    read: Vec<u32>,
    next: usize,
    /// Longest message that is taken, in bytes.
    longest: usize,
    /// The writer's position, or a length, makes no sense.
    broken: bool,
}

impl MessageInput {
    /// Of the ring in `words`. A message of more than `longest` bytes breaks the way.
    ///
    /// # Errors
    ///
    /// If the words are no ring.
    pub fn attach(words: Words, longest: usize) -> Result<MessageInput, Nonsense> {
        Ok(MessageInput {
            ring: Reader::attach(words)?,
            read: Vec::new(),
            next: 0,
            longest,
            broken: false,
        })
    }

    /// Moves the next message into `into`, which it replaces; false where no whole one
    /// has come.
    pub fn take(&mut self, into: &mut Vec<u8>) -> bool {
        while !self.broken {
            if self.whole(into) {
                return true;
            }
            if self.broken || !self.fill() {
                return false;
            }
        }
        false
    }

    /// A whole message of those words that were read.
    fn whole(&mut self, into: &mut Vec<u8>) -> bool {
        let Some((&length, rest)) = self.read.get(self.next..).and_then(<[u32]>::split_first)
        else {
            return false;
        };
        let length = length as usize;
        if length > self.longest {
            self.broken = true;
            return false;
        }
        let Some(words) = rest.get(..length.div_ceil(4)) else {
            return false;
        };
        into.clear();
        into.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        into.truncate(length);
        self.next += 1 + words.len();
        if self.next == self.read.len() {
            self.read.clear();
            self.next = 0;
        }
        true
    }

    /// Reads what has come; false where there is nothing now.
    fn fill(&mut self) -> bool {
        // Room for what is there, no more: an empty ring is looked at in each round.
        let there = match self.ring.waiting() {
            Ok(0) => return false,
            Ok(there) => (there as usize).min(CHUNK),
            Err(Nonsense) => {
                self.broken = true;
                return false;
            }
        };
        if self.next >= CHUNK {
            self.read.drain(..self.next);
            self.next = 0;
        }
        let before = self.read.len();
        self.read.resize(before + there, 0);
        let count = self.ring.read(&mut self.read[before..]);
        let count = count.unwrap_or_else(|Nonsense| {
            self.broken = true;
            0
        });
        self.read.truncate(before + count);
        if count > 0 {
            self.ring.release();
        }
        count > 0
    }

    /// True where nothing waits, not even a part of a message.
    pub fn is_empty(&self) -> bool {
        self.next == self.read.len() && self.ring.waiting().unwrap_or(0) == 0
    }

    /// True where something made no sense: nothing comes this way any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Drops the part of a message whose writer has died, and takes a new writer's word. To be
    /// called before that one attaches.
    pub fn mend(&mut self) {
        self.read.clear();
        self.next = 0;
        self.broken = false;
        self.ring.mend();
    }

    /// Says that the reader sleeps; false where it must not.
    #[must_use = "with false the reader stays awake"]
    pub fn prepare_park(&mut self) -> bool {
        self.ring.fall_asleep() || self.broken
    }

    /// Says that the reader is awake.
    pub fn unpark(&mut self) {
        self.ring.awake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::{SharedMapping, spsc};
    use super::*;

    fn ring(places: u32) -> (MessageOutput, MessageInput, SharedMapping) {
        let words = spsc::words_for(places);
        let mapping = SharedMapping::create("weir-test", words * 4).unwrap();
        let at = || mapping.words(0, words).unwrap();
        let output = MessageOutput::attach(at(), Waker::new().unwrap()).unwrap();
        (
            output,
            MessageInput::attach(at(), 1 << 20).unwrap(),
            mapping,
        )
    }

    #[test]
    fn messages_longer_than_the_ring_come_whole_and_in_order() {
        let (mut output, mut input, _mapping) = ring(64);
        let sent: Vec<Vec<u8>> = (0..40u8)
            .map(|n| vec![n; [0, 1, 3, 4, 7, 900, 5_000][usize::from(n) % 7]])
            .collect();
        for message in &sent {
            output.push(message);
        }
        let (mut got, mut message) = (Vec::new(), Vec::new());
        while got.len() < sent.len() {
            output.flush();
            while input.take(&mut message) {
                got.push(message.clone());
            }
        }
        assert_eq!(got, sent);
        assert!(output.flush() && input.is_empty() && !input.is_broken());
    }

    #[test]
    fn a_successor_begins_with_a_whole_message() {
        let (mut output, mut input, mapping) = ring(64);
        output.push(b"whole");
        output.push(&[1; 900]);
        output.flush();
        let mut message = Vec::new();
        assert!(input.take(&mut message) && message == b"whole");
        assert!(!input.take(&mut message) && !input.is_empty());
        // The writer dies in the middle of a message, and another one takes its place.
        drop(output);
        input.mend();
        let words = mapping.words(0, spsc::words_for(64)).unwrap();
        let mut output = MessageOutput::attach(words, Waker::new().unwrap()).unwrap();
        output.push(b"next");
        output.flush();
        assert!(input.take(&mut message) && message == b"next");
    }

    #[test]
    fn a_reader_that_died_leaves_its_successor_no_half_message() {
        let (mut output, input, mapping) = ring(64);
        output.push(&[1; 900]);
        output.flush();
        drop(input);
        output.clear();
        let words = || mapping.words(0, spsc::words_for(64)).unwrap();
        super::super::empty(&words()).unwrap();
        output.push(b"next");
        output.flush();
        let mut input = MessageInput::attach(words(), 1 << 20).unwrap();
        let mut message = Vec::new();
        assert!(input.take(&mut message) && message == b"next");
    }

    /// Whatever one that died has written over a ring's positions, its successor starts.
    #[test]
    fn a_way_that_was_broken_is_whole_for_a_successor() {
        const TAIL: usize = 0;
        const HEAD: usize = 32;
        let mut message = Vec::new();
        for scribbled in [TAIL, HEAD] {
            let (mut output, mut input, mapping) = ring(64);
            let words = || mapping.words(0, spsc::words_for(64)).unwrap();
            for number in 0..3u8 {
                output.push(&[number; 40]);
                output.flush();
                assert!(input.take(&mut message));
            }
            words()[scribbled].store(77_777, Ordering::Relaxed);
            output.push(b"into nowhere");
            output.flush();
            assert!(!input.take(&mut message) || message == b"into nowhere");
            // Both sides, as if each had a neighbour that died.
            output.clear();
            output.mend();
            input.mend();
            super::super::empty(&words()).unwrap();
            let attached = MessageInput::attach(words(), 1 << 20);
            let mut input = attached.expect("a successor reads");
            let attached = MessageOutput::attach(words(), Waker::new().unwrap());
            let mut output = attached.expect("a successor writes");
            output.push(b"next");
            output.flush();
            assert!(input.take(&mut message) && message == b"next");
        }
    }

    /// The reader skips the unread words of a writer that died.
    #[test]
    fn a_reader_goes_on_with_a_successor_behind_what_is_left() {
        const TAIL: usize = 0;
        for tail_too in [false, true] {
            let (mut output, mut input, mapping) = ring(4_096);
            let words = || mapping.words(0, spsc::words_for(4_096)).unwrap();
            let mut message = Vec::new();
            output.push(b"first");
            output.flush();
            assert!(input.take(&mut message) && message == b"first");
            // Longer than the reader takes (1 MiB), with much behind it.
            output.push(&vec![7; 2 << 20]);
            output.flush();
            assert!(!input.take(&mut message), "it is broken");
            if tail_too {
                words()[TAIL].store(7_777_777, Ordering::Relaxed);
            }
            drop(output);
            input.mend();
            let attached = MessageOutput::attach(words(), Waker::new().unwrap());
            let mut output = attached.expect("a successor writes");
            for word in [&b"next"[..], b"and next"] {
                output.push(word);
                output.flush();
                assert!(input.take(&mut message) && message == word, "{tail_too}");
            }
        }
    }

    #[test]
    fn an_empty_ring_costs_no_memory() {
        let (_output, mut input, _mapping) = ring(64);
        assert!(!input.take(&mut Vec::new()));
        assert_eq!(input.read.capacity(), 0);
    }

    #[test]
    fn a_length_that_makes_no_sense_breaks_the_way() {
        let (mut output, mut input, _mapping) = ring(64);
        output.waiting.push_back(u32::MAX);
        output.push(b"after it");
        output.flush();
        assert!(!input.take(&mut Vec::new()) && input.is_broken());
    }
}
