//! Reading in big blocks into one buffer that is used again and again.

use std::io::{self, Read};
use std::time::Duration;

const INITIAL: usize = 256 << 10;

/// A window on the input: bytes `start..end` of the buffer are read and not yet taken.
pub(super) struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes taken: the place in the file of `start`.
    taken: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; INITIAL],
            start: 0,
            end: 0,
            taken: 0,
        }
    }

    /// Place in the file of the next byte to take.
    pub(super) fn position(&self) -> u64 {
        self.taken
    }

    /// Bytes read from the file so far; its length once the end has been met.
    pub(super) fn bytes_read(&self) -> u64 {
        self.taken + (self.end - self.start) as u64
    }

    /// The bytes read and not yet taken.
    pub(super) fn window(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads until the window holds `need` bytes; false if the input ends before.
    ///
    /// The buffer doubles only when it is full of real bytes, so a length that lies in a short
    /// file costs no memory.
    pub(super) fn fill(&mut self, need: usize) -> io::Result<bool> {
        if self.end - self.start >= need {
            return Ok(true);
        }
        self.fill_slow(need)
    }

    #[cold]
    fn fill_slow(&mut self, need: usize) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < need {
            if self.end == self.buffer.len() {
                let grown = self.buffer.len() * 2;
                self.buffer.resize(grown, 0);
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.reader.read(free) {
                Ok(0) => return Ok(false),
                // A reader that claims more than it was asked for must not push `end` out.
                Ok(count) => self.end = (self.end + count).min(self.buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes `count` bytes, at most what the window holds.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        let count = count.min(self.end - from);
        self.start += count;
        self.taken += count as u64;
        self.buffer.get(from..from + count).unwrap_or_default()
    }

    /// As [`Input::fill`], for what comes behind bytes that can't be gone back to: it waits for them,
    /// also where the source does not.
    pub(super) fn fill_patiently(&mut self, need: usize) -> io::Result<bool> {
        loop {
            match self.fill(need) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return done,
            }
        }
    }

    /// Skips `count` bytes without keeping them; false if the input ends before.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        loop {
            let step = count.min((self.end - self.start) as u64);
            self.take(step as usize);
            count -= step;
            if count == 0 {
                return Ok(true);
            }
            if !self.fill_patiently(1)? {
                return Ok(false);
            }
        }
    }
}
