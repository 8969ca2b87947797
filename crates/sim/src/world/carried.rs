//! What is on its way in streams.

use std::collections::{BTreeMap, VecDeque};

use super::links::ProcessNo;

/// Messages that streams have taken and not given out, by sender and receiver.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) under_way: BTreeMap<(ProcessNo, ProcessNo), VecDeque<u64>>,
    /// Frames so far.
    pub(super) frames: u64,
}
