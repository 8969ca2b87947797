//! Chains on the thread that has the ports.

use weir_ctl::command::Visit;
use weir_exec::{ExecError, Round};
use weir_packet::{Frame, FramePool, Internal, Time};
use weir_runtime::{Report, Runtime};

use super::super::BATCH;
use super::super::executor::{Executor, take_lines, visit_alone};
use super::super::wiring::NO_CHAIN;

/// An executor of nobody else: packets are through when they are taken.
pub(crate) struct Alone {
    pool: FramePool,
    pub(crate) runtimes: Vec<Runtime>,
    /// Packets that leave.
    done: Vec<Frame>,
    /// The runtime whose flows are to end next, and from which of them on, once
    /// no more packets come.
    ending: Option<(usize, u32)>,
    internal: Internal,
}

impl Alone {
    /// A runtime per chain, on frames of this pool.
    pub(crate) fn new(pool: FramePool, runtimes: Vec<Runtime>) -> Alone {
        Alone {
            pool,
            runtimes,
            done: Vec::with_capacity(4 * BATCH),
            ending: None,
            internal: Internal::default(),
        }
    }

    /// What the runtimes counted, per chain.
    pub(crate) fn chain_reports(&self) -> Vec<Report> {
        let mut reports: Vec<Report> = self.runtimes.iter().map(Runtime::report).collect();
        if let Some(first) = reports.first_mut() {
            first.add_internal(&self.internal);
        }
        reports
    }
}

impl Executor for Alone {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// Always: what finds no frame waits in its port.
    fn room(&self) -> usize {
        usize::MAX
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let runtime = self.runtimes.get_mut(chain);
        match self.internal.expect(runtime, NO_CHAIN) {
            Some(runtime) => runtime.process(&mut self.pool, frames, &mut self.done),
            None => self.pool.give_all(frames),
        }
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        let worked = !self.done.is_empty();
        out.append(&mut self.done);
        take_lines(&mut self.runtimes, events);
        Ok(Round {
            worked,
            ..Round::default()
        })
    }

    fn pass_time(&mut self, now: Time) -> bool {
        let mut more = false;
        for runtime in &mut self.runtimes {
            more |= runtime.pass_time(&mut self.pool, now, &mut self.done);
        }
        more
    }

    fn parts(&mut self, output: &mut Vec<Frame>, visit: &mut Visit<'_>) {
        visit_alone(&mut self.runtimes, &mut self.pool, output, visit);
    }

    /// More flows may end than a log has room for: some at a time, when what is in
    /// it was taken.
    fn stop(&mut self) {
        let Some((at, from)) = self.ending else {
            self.ending = Some((0, 0));
            return;
        };
        if let Some(runtime) = self.runtimes.get_mut(at) {
            let next = runtime.finish_some(&mut self.pool, from);
            self.ending = Some(next.map_or((at + 1, 0), |from| (at, from)));
        }
    }

    fn is_over(&self) -> bool {
        self.ending.is_some_and(|(at, _)| at >= self.runtimes.len())
    }
}

#[cfg(test)]
mod tests {
    use weir_functions::monitor::Monitor;
    use weir_nf::host::FlowOptions;
    use weir_packet::{FrameMeta, MemoryLayout};
    use weir_runtime::RuntimeConfig;
    use weir_runtime::harness::{Craft, Harness};

    use super::*;

    #[test]
    fn all_flows_that_end_with_the_run_are_told_of() {
        const FLOWS: u16 = 1_000;
        let flows = FlowOptions {
            max: FLOWS.into(),
            ..FlowOptions::default()
        };
        let builder = Harness::builder().flows(flows);
        let stage = builder.with::<Monitor>(Default::default()).unwrap().stage();
        let config = RuntimeConfig {
            event_bytes: 16 << 10,
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(&stage, config).unwrap();
        let pool = FramePool::with_layout(MemoryLayout::default());
        let mut executor = Alone::new(pool, vec![runtime]);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        for port in 0..FLOWS {
            let packet = Craft::udp(&format!("10.0.0.1:{}", 1_000 + port), "192.0.2.1:53").build();
            let meta = FrameMeta::received(Time::from_secs(1), packet.len() as u32);
            let frame = executor.pool.copy(&packet, meta).unwrap();
            executor.take(0, &mut vec![frame]);
            executor.step(&mut out, &mut events).unwrap();
        }
        assert!(events.is_empty());
        let mut most = 0;
        while !executor.is_over() {
            let before = events.len();
            executor.stop();
            executor.step(&mut out, &mut events).unwrap();
            most = most.max(events.len() - before);
        }
        assert!(most < events.len() / 2, "some at a time");
        let lines = events.split(|byte| *byte == b'\n');
        let told = lines.filter(|line| line.starts_with(b"{")).count();
        assert_eq!(told, usize::from(FLOWS));
        assert_eq!(executor.runtimes[0].report().events_lost, 0);
        executor.pool.give_all(&mut out);
    }
}
