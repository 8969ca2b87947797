//! A chain's plan that runs: its first stage, the stages behind it, and its end.

use std::time::{Duration, Instant};

use weir_graph::compile::Plan;
use weir_io::stage::{Lender, PortCounts, Refused, StageInput, StageOutput};
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::Runtime;

use super::super::executor::EventBox;
use super::node::StageEnd;
use super::process::{Process, ProcessEnd, Tenant};

/// A node of a chain, seen from the calling thread.
pub(super) struct Member {
    pub(super) step: usize,
    pub(super) place: (usize, usize),
    pub(super) ports: (usize, usize),
    pub(super) is_stage: bool,
    /// Its number in the team.
    pub(super) node: usize,
    pub(super) end: Option<StageEnd>,
}

/// The stages behind a first one.
pub(super) struct Behind {
    pub(super) output: Option<Box<dyn StageOutput>>,
    pub(super) refused: Refused,
    /// Counters of the output.
    pub(super) counts: PortCounts,
    pub(super) lender: Option<Lender>,
    pub(super) input: Box<dyn StageInput>,
    /// The runtime by which packets leave the plan.
    pub(super) end: Runtime,
    pub(super) members: Vec<Member>,
    pub(super) processes: Vec<Process>,
    pub(super) tenants: Vec<Tenant>,
}

/// One chain.
pub(super) struct ChainRun {
    pub(super) plan: Plan,
    pub(super) runtime: Runtime,
    /// Packets that the first stage has not taken yet.
    pub(super) input: Vec<Frame>,
    /// Packets that it has done, and that have no room behind it.
    pub(super) done: Vec<Frame>,
    pub(super) behind: Option<Behind>,
    /// True once the chain's flows were ended.
    pub(super) finished: bool,
    pub(super) busy: Duration,
    /// Final reports of its processes, each with the number of frames it lost.
    pub(super) processes: Vec<(ProcessEnd, usize)>,
}

impl ChainRun {
    /// Takes what waits through the first stage, and what that has done to the
    /// next one. True where something was done.
    pub(super) fn pump(
        &mut self,
        pool: &mut FramePool,
        events: &EventBox,
        out: &mut Vec<Frame>,
    ) -> bool {
        let mut worked = false;
        let something = !self.input.is_empty() || self.runtime.waits_for_frames();
        if self.done.is_empty() && something {
            let start = Instant::now();
            let waiting = self.input.len();
            self.runtime.process(pool, &mut self.input, &mut self.done);
            events.put(self.runtime.events());
            self.busy += start.elapsed();
            worked = waiting > self.input.len() || !self.done.is_empty();
        }
        match &mut self.behind {
            None => out.append(&mut self.done),
            Some(behind) => {
                if !self.done.is_empty()
                    && let Some(output) = &mut behind.output
                {
                    worked |= output.give(&mut self.done) > 0;
                }
            }
        }
        worked
    }

    /// Ends the flows and, when all was told, the way to the next stage.
    pub(super) fn finish(&mut self, pool: &mut FramePool, events: &EventBox) {
        // At the time of the last packets, as a runtime alone does.
        let now = Time::ZERO;
        if self.finished || !self.input.is_empty() || !self.done.is_empty() {
            return;
        }
        let Some(behind) = &mut self.behind else {
            self.runtime.finish_with(pool, now, |log| events.put(log));
            self.finished = true;
            return;
        };
        let Some(output) = &mut behind.output else {
            self.finished = true;
            return;
        };
        let told = self
            .runtime
            .finish_first(pool, now, &mut self.done, |log| events.put(log));
        output.give(&mut self.done);
        if told && self.done.is_empty() {
            behind.refused = output.refused();
            behind.counts = output.counts();
            behind.lender = behind.output.take().and_then(|output| output.close());
            self.finished = true;
        }
    }
}
