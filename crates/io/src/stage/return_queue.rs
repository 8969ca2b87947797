//! Queues from the instances of a stage, which a port behind them merges.

use std::collections::VecDeque;

use weir_packet::Frame;

use super::StageInput;

/// One queue and the frames that were taken out of it for later.
#[derive(Debug)]
pub(super) struct ReturnQueue {
    pub(super) input: Box<dyn StageInput>,
    pub(super) ahead: VecDeque<Frame>,
    scratch: Vec<Frame>,
}

impl ReturnQueue {
    pub(super) fn all(inputs: Vec<Box<dyn StageInput>>) -> Vec<ReturnQueue> {
        let queue = |input| ReturnQueue {
            input,
            ahead: VecDeque::new(),
            scratch: Vec::new(),
        };
        inputs.into_iter().map(queue).collect()
    }

    /// Takes at most `max` frames out of the queue if none is ahead.
    pub(super) fn fill(&mut self, max: usize) {
        if self.ahead.is_empty() {
            self.input.take(&mut self.scratch, max);
            self.ahead.extend(self.scratch.drain(..));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ahead.is_empty() && self.input.is_over()
    }

    /// Frames that wait in all of them.
    pub(super) fn waiting(queues: &[ReturnQueue]) -> usize {
        let waiting = |queue: &ReturnQueue| queue.ahead.len() + queue.input.waiting();
        queues.iter().map(waiting).sum()
    }
}
