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
mod crew;
mod finish;
mod hand_overs;
mod histogram;
mod path;
mod pipeline;
mod ring;
mod spares;
mod wiring;
mod worker;
mod workers;

pub use cluster::{Cluster, ClusterError, ClusterSettings, GateCounts};
pub use crew::Crew;
pub use finish::{ClusterEnd, RuntimeEnd, merge};
pub use hand_overs::HandOvers;
pub use histogram::Histogram;
pub use path::{PathCounts, PathSettings};
pub use pipeline::{
    ChainEnd, ChainPlan, Pace, Pipeline, PipelineEnd, PipelineSettings, ThreadCounts,
};
pub use workers::{SharedLimits, WorkerCounts, Workers, WorkersEnd, WorkersSettings};

/// Keeps the calling thread on a core.
pub(crate) fn pin(core: usize) -> Result<(), String> {
    let mut set = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("can't keep a thread on core {core}: {error}"))
}
