//! Chains on the thread that has the ports.

use weir_packet::{Frame, FramePool};
use weir_runtime::Runtime;

use super::super::ClusterError;
use super::super::crew::{Crew, Visit, take_lines, visit_alone};
use super::BATCH;

/// A crew of nobody else: packets are through when they are taken.
pub(crate) struct Alone {
    pool: FramePool,
    pub(crate) runtimes: Vec<Runtime>,
    /// Packets that leave.
    done: Vec<Frame>,
    over: bool,
}

impl Alone {
    /// A runtime per chain, on frames of this pool.
    pub(crate) fn new(pool: FramePool, runtimes: Vec<Runtime>) -> Alone {
        Alone {
            pool,
            runtimes,
            done: Vec::with_capacity(4 * BATCH),
            over: false,
        }
    }
}

impl Crew for Alone {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// Always: what finds no frame waits in its port.
    fn room(&self) -> usize {
        usize::MAX
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        match self.runtimes.get_mut(chain) {
            Some(runtime) => runtime.process(&mut self.pool, frames, &mut self.done),
            None => self.pool.give_all(frames),
        }
    }

    fn step(
        &mut self,
        out: &mut Vec<Frame>,
        events: &mut Vec<u8>,
        _may_rest: bool,
    ) -> Result<bool, ClusterError> {
        let worked = !self.done.is_empty();
        out.append(&mut self.done);
        take_lines(&mut self.runtimes, events);
        Ok(worked)
    }

    fn parts(&mut self, output: &mut Vec<Frame>, visit: &mut Visit<'_>) {
        visit_alone(&mut self.runtimes, &mut self.pool, output, visit);
    }

    fn stop(&mut self) {
        if !self.over {
            for runtime in &mut self.runtimes {
                runtime.finish(&mut self.pool);
            }
        }
        self.over = true;
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
