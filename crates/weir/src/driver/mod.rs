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
mod dispatch;
mod ends;
mod events;
mod finish;
mod hand_overs;
mod histogram;
pub(crate) mod inbox;
pub(crate) mod live;
mod path;
mod pipeline;
mod rest;
mod ring;
mod spares;
mod wiring;
mod worker;
mod workers;

pub use cluster::{Cluster, ClusterError, ClusterSettings, GateCounts};
pub(crate) use crew::take_log;
pub use crew::{Counted, Crew, Part, PartReport, Visit};
pub(crate) use dispatch::Dispatcher;
pub(crate) use events::EventFile;
pub(crate) use finish::around;
pub use finish::{ClusterEnd, RuntimeEnd};
pub use hand_overs::HandOvers;
pub use histogram::Histogram;
pub use path::{PathCounts, PathSettings};
pub use pipeline::{
    BorderEnd, ChainEnd, ChainPlan, Pace, Patience, Pipeline, PipelineEnd, PipelineSettings,
    ProcessEnd, Processes, StageCommand, StageProcess, ThreadCounts,
};
pub use workers::{SharedLimits, WorkerCounts, Workers, WorkersEnd, WorkersSettings};

/// Who has a frame, for packet memory's ledger: a port by its number, or one of
/// these.
pub(crate) const CHAINS: weir_packet::Holder = 256;
/// The ports that packets leave by.
pub(crate) const LEAVING: weir_packet::Holder = 257;
/// The inputs, where several are merged.
pub(crate) const COMING: weir_packet::Holder = 258;

/// Numbers of the cores that the calling thread may run on; none where the
/// kernel does not say.
fn cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    let Ok(set) = set else { return Vec::new() };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|core| set.is_set(*core)).collect()
}

/// Refuses cores that the calling thread can't run on: to be asked before it
/// is kept on one.
///
/// # Errors
///
/// The first such core, and those that there are.
pub(crate) fn check_cores(asked: &[usize]) -> Result<(), String> {
    let there = cores();
    match asked.iter().find(|core| !there.contains(core)) {
        Some(core) if !there.is_empty() => Err(format!(
            "there is no core {core} to run on; there are {}",
            ranges(&there)
        )),
        _ => Ok(()),
    }
}

/// Ascending numbers, as `0-3,6`.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Keeps the calling thread on a core.
pub(crate) fn pin(core: usize) -> Result<(), String> {
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("can't keep a thread on core {core}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_are_not_there_are_named_with_those_that_are() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        let there = cores();
        assert_eq!(check_cores(&there), Ok(()));
        let error = check_cores(&[there[0], 1_000_000]).unwrap_err();
        assert!(error.contains("core 1000000"), "{error}");
        assert!(error.ends_with(&ranges(&there)), "{error}");
    }
}
