//! How busy processors were, and with whose work.
//!
//! The kernel here does not account interrupts apart: what a soft interrupt does is charged to whom
//! it interrupted, or to nobody where that was the idle task. Only idle time is exact in all
//! cases, so *busy* is the window less idle (and stolen) time: programs, system calls, threads of
//! the kernel and soft interrupts alike, the same way for every arm. What *others* had of it is known by
//! accounting groups: this benchmark and all it starts are in one of their own.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use super::network::try_run;

const GROUPS: &str = "/sys/fs/cgroup/cpuacct";

/// The accounting group of this benchmark. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    path: Option<PathBuf>,
    /// By processor, the kernel's thread for soft interrupts.
    soft: Vec<Option<u32>>,
}

impl Group {
    /// Makes one and moves this process into it. Without accounting groups (version 2 only) the
    /// others' share is not known.
    pub(super) fn enter() -> Group {
        let path = PathBuf::from(format!("{GROUPS}/weir-wire-{}", std::process::id()));
        let made = fs::create_dir(&path)
            .and_then(|()| fs::write(path.join("cgroup.procs"), std::process::id().to_string()));
        if made.is_err() {
            let _ = fs::remove_dir(&path);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let soft = |core| {
            let id = try_run("pgrep", &["-x", &format!("ksoftirqd/{core}")]).ok()?;
            id.trim().parse().ok()
        };
        Group {
            path: made.is_ok().then_some(path),
            soft: (0..cores).map(soft).collect(),
        }
    }

    /// Takes in a thread of the kernel's that works for us.
    pub(super) fn add(&self, id: u32) {
        if let Some(path) = &self.path {
            // One that can't be moved counts as another's work, which the run reports.
            let _ = fs::write(path.join("tasks"), id.to_string());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::write(
                format!("{GROUPS}/cgroup.procs"),
                std::process::id().to_string(),
            );
            let _ = fs::remove_dir(path);
        }
    }
}

/// Shares of one processor in a window of time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// Length of the window.
    pub(super) window: f64,
    /// Not idle, and not stolen by the machine below.
    pub(super) busy: f64,
    /// Of that, for others' programs; 0 where it is not known.
    pub(super) others: f64,
    /// Taken by the machine below.
    pub(super) stolen: f64,
}

impl Used {
    /// Busy for this benchmark.
    pub(super) fn own(&self) -> f64 {
        (self.busy - self.others).max(0.0)
    }
}

/// Numbers at one moment.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    /// By processor: idle and stolen seconds.
    idle: Vec<[f64; 2]>,
    /// By processor: seconds of all programs, of ours, and of the kernel's thread for soft interrupts.
    all: Vec<f64>,
    ours: Vec<f64>,
    soft: Vec<f64>,
}

impl Reading {
    /// Reads them.
    pub(super) fn now(group: &Group) -> Reading {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let idle: Vec<[f64; 2]> = text
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .map(|line| {
                let ticks: Vec<f64> = line
                    .split_whitespace()
                    .skip(1)
                    .map(|word| word.parse().unwrap_or(0.0))
                    .collect();
                let tick = |n: usize| ticks.get(n).copied().unwrap_or(0.0) / 100.0;
                [tick(3) + tick(4), tick(7)]
            })
            .collect();
        let (all, ours) = match &group.path {
            Some(path) => (usage(GROUPS), usage(&path.to_string_lossy())),
            None => (Vec::new(), Vec::new()),
        };
        let soft = group.soft.iter();
        let soft = soft.map(|id| id.map_or(0.0, processor_time)).collect();
        Reading {
            at: Instant::now(),
            idle,
            all,
            ours,
            soft,
        }
    }

    /// Use of a processor from this reading to `end`.
    pub(super) fn until(&self, end: &Reading, core: usize) -> Used {
        let difference = |of: fn(&Reading) -> &Vec<f64>| {
            let at = |reading| of(reading).get(core).copied().unwrap_or(0.0);
            at(end) - at(self)
        };
        let idle = |reading: &Reading, n: usize| reading.idle.get(core).map_or(0.0, |i| i[n]);
        let window = (end.at - self.at).as_secs_f64();
        let stolen = idle(end, 1) - idle(self, 1);
        let busy = (window - (idle(end, 0) - idle(self, 0)) - stolen).max(0.0);
        let others = difference(|r| &r.all) - difference(|r| &r.ours) - difference(|r| &r.soft);
        Used {
            window,
            busy,
            others: others.clamp(0.0, busy),
            stolen,
        }
    }
}

/// Seconds by processor that a group has used.
fn usage(group: &str) -> Vec<f64> {
    let text = fs::read_to_string(format!("{group}/cpuacct.usage_percpu"));
    let text = text.unwrap_or_default();
    text.split_whitespace()
        .map(|word| word.parse::<f64>().unwrap_or(0.0) / 1e9)
        .collect()
}

/// Seconds of processor time that a process or thread has used.
pub(super) fn processor_time(id: u32) -> f64 {
    // Nanoseconds where the kernel has them.
    if let Ok(text) = fs::read_to_string(format!("/proc/{id}/schedstat"))
        && let Some(Ok(spent)) = text.split_whitespace().next().map(str::parse::<f64>)
    {
        return spent / 1e9;
    }
    let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}
