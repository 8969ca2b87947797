//! Chains on threads: the drivers behind `weir run --runtimes` and `--workers`.
//!
//! With workers ([`Workers`]) packets are steered, once and for all, over plain
//! runtimes. With runtimes ([`Cluster`]) there is a switch:
//!
//! One thread has the switches (one per chain) and the ports; each runtime is
//! a thread of its own with the flow actors of every chain. Between them are
//! rings of one writer and one reader, for frames, messages and free frames;
//! all frames lie in one packet memory. What decides is in [`weir_protocol`]:
//! this only carries things from one to another, and knows the time.
//!
//! Two times run side by side. The protocol's timers run by a clock of the
//! machine; flows' time-outs run by the times of packets, since those of a
//! capture may be years old and go by much faster.

mod clock;
mod cluster;
mod dispatch;
mod edge_messages;
mod ends;
mod engine_process;
mod events;
mod executor;
mod gauge;
mod hand_overs;
mod histogram;
pub(crate) mod link;
pub(crate) mod live;
mod pipeline;
pub(crate) mod placement;
pub(crate) mod process;
mod relay;
mod runtime_done;
mod runtime_node;
mod spread;
mod supply;
mod wiring;
mod workers;

pub(crate) use cluster::ENDS_WITH_SWITCH;
#[cfg(test)]
pub(crate) use cluster::tests::Bed as ClusterBed;
pub use cluster::{
    Cluster, ClusterEnd, ClusterSettings, GAVE_WAY, GateCounts, HANDED_OVER, RuntimeEnd,
    RuntimeProcess, RuntimeProcesses, STOOD_STILL,
};
pub(crate) use dispatch::Dispatcher;
pub use engine_process::EngineProcess;
pub(crate) use events::{EventFile, Target};
pub use executor::Executor;
pub(crate) use executor::{take_log, thread_counts};
pub use hand_overs::HandOvers;
pub use histogram::Histogram;
pub(crate) use link::SPEAKS;
pub use link::{Lease, RemoteHosts, RemoteProcess};
pub use pipeline::{
    BorderEnd, ChainEnd, ChainPlan, Pace, Patience, Pipeline, PipelineEnd, PipelineSettings,
    ProcessEnd, Processes, StageProcess, ThreadCounts,
};
pub use process::{ProcessCommand, Reread};
pub(crate) use process::{Taken, cause as process_cause};
pub use relay::Relay;
pub use spread::Spread;
pub use weir_exec::ExecError;
pub(crate) use workers::part_of;
pub use workers::{SharedLimits, WorkerCounts, Workers, WorkersEnd, WorkersSettings};

/// Packets taken from a port at a time.
pub(crate) const BATCH: usize = 64;

/// Holders of frames in packet memory's ledger, beside ports, which go by their
/// numbers: the chains.
pub(crate) const CHAINS: weir_packet::Holder = 256;
/// The ports that packets leave by.
pub(crate) const LEAVING: weir_packet::Holder = 257;
/// The inputs, where several are merged.
pub(crate) const COMING: weir_packet::Holder = 258;
