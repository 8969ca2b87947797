//! A thread's runtimes as commands see them, and their reports.

use super::flowlets::FlowletCounts;
use std::net::SocketAddr;
use std::time::Duration;

use weir_packet::{Frame, FramePool};
use weir_runtime::{Report, Runtime, add_named};

/// A runtime of a thread, shown between two bursts.
pub struct Part<'a> {
    /// Number of its chain.
    pub chain: usize,
    /// Number of its stage in the chain's plan. The first, 0, opens and ends flows.
    pub stage: usize,
    /// The runtime.
    pub runtime: &'a mut Runtime,
    /// Its frames.
    pub pool: &'a mut FramePool,
    /// Receives packets that leave, and notices to later stages.
    pub output: &'a mut Vec<Frame>,
}

/// Called with each runtime of a thread.
pub type Visit<'a> = dyn FnMut(Part<'_>) + 'a;

/// Counts of a part of a chain.
#[derive(Clone, Debug)]
pub enum Counted {
    /// One stage by one thread. Those of the same stage add up; those of a
    /// chain's stages follow one another.
    Stage(usize),
    /// The switch around the runtimes: what came in and went out is its word.
    Switch,
}

/// The report of a part of a chain.
#[derive(Clone, Debug)]
pub struct PartReport {
    /// Number of the chain.
    pub chain: usize,
    /// The part.
    pub part: Counted,
    /// Its counts.
    pub report: Report,
}

weir_telemetry::counters! {
    /// A stage that is a process of its own, as it stands.
    #[derive(Clone, Debug)]
    pub struct StageProcessCounts {
        /// Times that a stage's process died.
        pub deaths: Counter<Times>,
        /// Frames that came back from processes that died.
        pub frames_back: Counter<Frames>,
        /// Flows whose state in a stage was lost with its process.
        pub flows_lost: Counter<Flows> as "weir_stage_lost_flows_total",
    } and {
        /// Number of the chain, and of the step in its plan.
        pub place: (usize, usize),
        /// Names of its functions.
        pub functions: Vec<String>,
        /// It is not behind a border.
        pub trusted: bool,
        /// `ready`, `starting`, `over` or `given up`.
        pub state: &'static str,
    }
}

/// Where the runtimes of a place run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// On a thread of this process.
    Thread,
    /// In processes of their own on this host.
    Process,
    /// On another host, where this agent starts them.
    Agent(SocketAddr),
}

weir_telemetry::counters! {
    /// A place of a runtime behind a switch, as it stands: the runtimes that it had follow
    /// one another.
    #[derive(Clone, Debug)]
    pub struct RuntimePlaceCounts {
        /// Times that a runtime's thread or process died.
        pub deaths: Counter<Times>,
    } and {
        /// Its number, from 1.
        pub place: u32,
        /// The id of the runtime that it has, or had last.
        pub id: u32,
        /// `starting`, `ready`, `draining`, `leaving`, or `over` where it has none and gets
        /// none.
        pub state: &'static str,
        /// How long that has been so.
        pub since: Duration,
        /// Where it runs.
        pub site: Site,
        /// A logger: it keeps copies of units and owns none.
        pub is_logger: bool,
        /// Units of all chains that it owns.
        pub owns: u64,
        /// Units of which it has the replica.
        pub replicas: u64,
        /// Units that it owns, that are to have a replica, and have none.
        pub unprotected: u64,
    }
}

weir_telemetry::counters! {
    /// The switch of a chain, as it stands.
    #[derive(Clone, Debug)]
    pub struct SwitchCounts {
        /// Units that are open.
        pub units: Gauge<Units>,
        /// Units whose state a second runtime is to have and has not: the death of their owner
        /// loses them.
        pub unprotected: Gauge<Units>,
        /// Units whose owner or second runtime is being changed.
        pub unsettled: Gauge<Units>,
        /// Units whose state was lost with all runtimes that had it.
        pub lost: Counter<Units> as "weir_switch_lost_units_total",
    } and {
        /// Number of the chain.
        pub chain: usize,
        /// When a second runtime has a unit's state: `none`, `each-burst` or `every-N`.
        pub replication: String,
        /// Units that wait for a move.
        pub queued: u64,
        /// Moves that were planned and are done, and those that came to nothing.
        pub moved: u64,
        /// See `moved`.
        pub move_failed: u64,
        /// Units that went on elsewhere after a failure.
        pub resumed: u64,
        /// How long moves took: half of them at most so long, 99 of 100, and all.
        pub durations: [Duration; 3],
        /// Where units are given out by flowlet.
        pub flowlets: Option<FlowletCounts>,
    }
}

impl Part<'_> {
    /// Its counts.
    pub fn report(&self) -> PartReport {
        PartReport {
            chain: self.chain,
            part: Counted::Stage(self.stage),
            report: self.runtime.report(),
        }
    }
}

/// Makes the report of a chain's runtimes that of the chain, with what its
/// switch has counted around them.
pub fn around(report: &mut Report, switch: &Report) {
    report.packets_in = switch.packets_in;
    report.bytes_in = switch.bytes_in;
    report.packets_out = switch.packets_out;
    report.bytes_out = switch.bytes_out;
    report.emitted = switch.emitted;
    report.held = switch.held;
    // Runtimes see what the classifier has passed on once more.
    report.malformed.clone_from(&switch.malformed);
    add_named(&mut report.drops, &switch.drops);
    report.flows.aliases_refused += switch.flows.aliases_refused;
    report.engine_cycles += switch.engine_cycles;
    report.internal += switch.internal;
    if report.internal_first.is_none() {
        report.internal_first.clone_from(&switch.internal_first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_errors_of_runtimes_and_of_their_switch_are_in_the_chains_report() {
        let met = |internal, first: &str| Report {
            internal,
            internal_first: Some(first.to_owned()),
            ..Report::default()
        };
        let mut chain = met(2, "actors.rs:7");
        around(&mut chain, &met(3, "gate.rs:9"));
        assert_eq!(chain.internal, 5);
        assert_eq!(chain.internal_first.as_deref(), Some("actors.rs:7"));

        let mut chain = Report::default();
        around(&mut chain, &met(1, "gate.rs:9"));
        assert_eq!(chain.internal_first.as_deref(), Some("gate.rs:9"));
    }
}
