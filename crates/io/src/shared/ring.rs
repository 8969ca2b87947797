//! Rings between processes as ports between stages.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_packet::{Frame, MemberId, PacketMemory};

use super::spsc::{Nonsense, Reader, Writer};
use super::{Waker, Words};
use crate::stage::{PortCounts, Pressure, Refused, StageInput, StageOutput};

/// Numbers that are taken out of a ring at a time.
const BURST: usize = 64;

/// The end that frames are given to; see [`output`].
#[derive(Debug)]
pub struct RingOutput {
    ring: Writer<Words>,
    memory: Arc<PacketMemory>,
    /// The reader's.
    waker: Waker,
    pressure: Pressure,
    /// The reader's position makes no sense.
    broken: bool,
}

/// The end that frames are taken from; see [`input`].
#[derive(Debug)]
pub struct RingInput {
    ring: Reader<Words>,
    memory: Arc<PacketMemory>,
    /// Member whose frames come here.
    from: MemberId,
    /// Numbers that named no frame of the writer's.
    bad: u64,
    broken: bool,
}

/// The writing end of a ring in `words`, for frames of `memory`; `waker` wakes
/// the reader.
///
/// # Errors
///
/// If the words are no ring.
pub fn output(
    words: Words,
    memory: &Arc<PacketMemory>,
    waker: Waker,
) -> Result<RingOutput, Nonsense> {
    Ok(RingOutput {
        ring: Writer::attach(words)?,
        memory: Arc::clone(memory),
        waker,
        pressure: Pressure::default(),
        broken: false,
    })
}

/// The reading end of a ring in `words`, for frames of `memory` that the
/// process of member `from` writes.
///
/// # Errors
///
/// As [`output`].
pub fn input(
    words: Words,
    memory: &Arc<PacketMemory>,
    from: MemberId,
) -> Result<RingInput, Nonsense> {
    Ok(RingInput {
        ring: Reader::attach(words)?,
        memory: Arc::clone(memory),
        from,
        bad: 0,
        broken: false,
    })
}

impl StageOutput for RingOutput {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        let wanted = u32::try_from(offered).unwrap_or(u32::MAX);
        let room = if self.is_gone() {
            0
        } else {
            self.ring.free(wanted).unwrap_or_else(|Nonsense| {
                self.broken = true;
                0
            })
        };
        let given = (room as usize).min(offered);
        let number = self.memory.giver();
        self.ring.write(frames.drain(..given).map(number));
        if given > 0 && self.ring.publish() {
            self.waker.wake();
        }
        self.pressure.after(offered, given);
        given
    }

    fn room(&self) -> usize {
        if self.is_gone() {
            return 0;
        }
        self.ring.room() as usize
    }

    fn is_gone(&self) -> bool {
        self.broken || self.ring.is_gone()
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }
}

impl RingOutput {
    /// The reader has died: its successor gets frames again. To be called before that one
    /// attaches.
    pub fn mend(&mut self) {
        self.broken = false;
        self.ring.mend();
    }
}

impl Drop for RingOutput {
    fn drop(&mut self) {
        if self.ring.finish() {
            self.waker.wake();
        }
    }
}

impl RingInput {
    /// Numbers that named no frame of the writer's: nothing came of them. Each time that the
    /// whole way made no sense is one more.
    pub fn bad(&self) -> u64 {
        self.bad + u64::from(self.broken)
    }

    /// The writer has died: frames of its successor are taken again. To be called before that
    /// one attaches.
    pub fn mend(&mut self) {
        self.bad += u64::from(self.broken);
        self.broken = false;
        self.ring.mend();
    }
}

impl StageInput for RingInput {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        if self.broken {
            return 0;
        }
        let before = into.len();
        let Some(taker) = self.memory.taker(self.from) else {
            self.broken = true;
            return 0;
        };
        while into.len() - before < max {
            let mut numbers = [0; BURST];
            let most = (max - (into.len() - before)).min(BURST);
            let Ok(read) = self.ring.read(&mut numbers[..most]) else {
                self.broken = true;
                break;
            };
            self.bad += taker.take_all(&numbers[..read], into) as u64;
            if read > 0 {
                // The new owner is written down before the place in the ring is free.
                self.ring.release();
            }
            if read < most {
                break;
            }
        }
        into.len() - before
    }

    fn waiting(&self) -> usize {
        match self.broken {
            // Nothing of it is taken.
            true => 0,
            false => self.ring.waiting().unwrap_or(0) as usize,
        }
    }

    fn is_over(&self) -> bool {
        self.broken || self.ring.is_over()
    }

    fn counts(&self) -> PortCounts {
        PortCounts {
            foreign: self.bad,
            ..PortCounts::default()
        }
    }

    fn prepare_park(&mut self) -> bool {
        !self.broken && self.ring.fall_asleep()
    }

    fn unpark(&mut self) {
        self.ring.awake();
    }
}

impl Drop for RingInput {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

impl Waker {
    /// Sleeps until it rings, one of `others` has something to say, or `most`
    /// is over; not at all where something is there for `reader` already.
    pub fn sleep(&self, reader: &mut dyn StageInput, others: &[BorrowedFd<'_>], most: Duration) {
        if reader.prepare_park() {
            let fds = std::iter::once(self.as_fd()).chain(others.iter().copied());
            let mut polled: Vec<PollFd<'_>> = fds
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let most = Timespec {
                tv_sec: most.as_secs() as i64,
                tv_nsec: i64::from(most.subsec_nanos()),
            };
            // An error is a reason to look, as a signal is.
            let _ = poll(&mut polled, Some(&most));
            reader.unpark();
            self.quiet();
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
