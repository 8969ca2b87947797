//! What is on its way in streams.

use std::collections::{BTreeMap, VecDeque};

use super::links::ProcessNo;
use crate::random::mix;

/// With full buffers a stream refuses one message in so many, and all for so many nanoseconds.
const REFUSED: u64 = 500;
const FULL: u64 = 200_000;

/// Messages that streams have taken and not given out, by sender and receiver.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) under_way: BTreeMap<(ProcessNo, ProcessNo), VecDeque<u64>>,
    /// Messages so far.
    offered: u64,
    /// Streams that refuse messages until then, as with a full queue.
    full: BTreeMap<(ProcessNo, ProcessNo), u64>,
    /// Frames so far.
    pub(super) frames: u64,
}

impl Carried {
    /// True where a stream refuses the next message.
    pub(super) fn refuses(&mut self, of: (ProcessNo, ProcessNo), seed: u64, now: u64) -> bool {
        self.offered += 1;
        if mix(seed ^ REFUSED, self.offered).is_multiple_of(REFUSED) {
            self.full.insert(of, now + FULL);
        }
        self.full.get(&of).is_some_and(|until| now < *until)
    }
}
