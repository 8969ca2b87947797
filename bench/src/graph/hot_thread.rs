//! Threads of a benchmark: kept on a core, under a scheduler.

use std::process::Command;

use rustix::thread::{CpuSet, gettid, sched_setaffinity};

/// Keeps the calling thread on a core.
pub(super) fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("can't keep to core {core}: {error}"))
}

/// Puts the calling thread under `SCHED_FIFO`, by `chrt` of util-linux. Needs
/// CAP_SYS_NICE, and real-time run time in the thread's control group.
pub(super) fn fifo() -> Result<(), String> {
    let id = gettid().as_raw_nonzero().to_string();
    let done = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &id])
        .output()
        .map_err(|error| format!("can't run chrt: {error}"))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
    }
}
