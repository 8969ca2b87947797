//! What is on its way in streams.

use std::collections::{BTreeMap, VecDeque};

use super::links::ProcessNo;
use crate::random::mix;

/// With full buffers a stream refuses one message in so many, and all for so many nanoseconds.
const REFUSED: u64 = 500;
const FULL: u64 = 200_000;

/// Nanoseconds in which a frame of data is acknowledged: ten times what an acknowledgement waits.
const ANSWERED: u64 = 1_000_000;

/// Messages that streams have taken and not given out, by sender and receiver.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) under_way: BTreeMap<(ProcessNo, ProcessNo), VecDeque<u64>>,
    /// Messages so far.
    offered: u64,
    /// Streams that refuse messages until then, as with a full queue.
    full: BTreeMap<(ProcessNo, ProcessNo), u64>,
    /// Since when the first process owes the second one a frame: one of data came from it.
    owed: BTreeMap<(ProcessNo, ProcessNo), u64>,
    /// Frames so far.
    pub(super) frames: u64,
}

impl Carried {
    /// A process has taken a frame of data from another one, for the first time or again: it
    /// acknowledges it.
    pub(super) fn owes(&mut self, of: (ProcessNo, ProcessNo), now: u64) {
        self.owed.entry(of).or_insert(now);
    }

    /// A frame has left, with an acknowledgement.
    pub(super) fn answers(&mut self, of: (ProcessNo, ProcessNo)) {
        self.owed.remove(&of);
    }

    /// A process that has not acknowledged a frame for too long, and the frame's sender. Time in which
    /// `may_speak` is false of the two does not count.
    pub(super) fn late_answer(
        &mut self,
        now: u64,
        may_speak: impl Fn(ProcessNo, ProcessNo) -> bool,
    ) -> Option<(ProcessNo, ProcessNo)> {
        for ((no, peer), since) in &mut self.owed {
            if !may_speak(*no, *peer) {
                *since = now;
            }
        }
        let late = self.owed.iter().find(|(_, since)| **since + ANSWERED < now);
        late.map(|(of, _)| *of)
    }

    /// True where a stream refuses the next message.
    pub(super) fn refuses(&mut self, of: (ProcessNo, ProcessNo), seed: u64, now: u64) -> bool {
        self.offered += 1;
        if mix(seed ^ REFUSED, self.offered).is_multiple_of(REFUSED) {
            self.full.insert(of, now + FULL);
        }
        self.full.get(&of).is_some_and(|until| now < *until)
    }
}
