//! Cores and the clock.

use std::fs;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::text::{numbers, read, read_number};
use crate::sys::timex;

const CPUS: &str = "/sys/devices/system/cpu";

/// The cores of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cores {
    /// Those that are switched on.
    pub online: Vec<usize>,
    /// Those that this process may run on.
    pub allowed: Vec<usize>,
    /// Those that the kernel gives no other work (`isolcpus`).
    pub isolated: Vec<usize>,
    /// Cores' worth of time that the control group grants; `None` is no limit.
    pub quota: Option<f64>,
    /// Frequency governors in use, each once.
    pub governors: Vec<String>,
    /// Groups of cores that share the units of one (SMT), each with two or more.
    pub siblings: Vec<Vec<usize>>,
    /// The cores of each memory node that has some, with its number.
    pub nodes: Vec<(u32, Vec<usize>)>,
}

impl Cores {
    pub(super) fn read() -> Cores {
        let list = |path: String| read(path).map(|list| numbers(&list)).unwrap_or_default();
        let online = list(format!("{CPUS}/online"));
        let mut governors = Vec::new();
        let mut siblings = Vec::new();
        for core in &online {
            let governor = read(format!("{CPUS}/cpu{core}/cpufreq/scaling_governor"));
            governors.extend(governor.filter(|governor| !governor.is_empty()));
            let group = list(format!("{CPUS}/cpu{core}/topology/thread_siblings_list"));
            if group.len() > 1 && !siblings.contains(&group) {
                siblings.push(group);
            }
        }
        governors.sort();
        governors.dedup();
        Cores {
            allowed: allowed(),
            isolated: list(format!("{CPUS}/isolated")),
            quota: quota(),
            governors,
            siblings,
            nodes: nodes(),
            online,
        }
    }
}

fn allowed() -> Vec<usize> {
    use rustix::thread::CpuSet;
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

fn nodes() -> Vec<(u32, Vec<usize>)> {
    let folder = fs::read_dir("/sys/devices/system/node");
    let entries = folder.into_iter().flatten().flatten();
    let mut all: Vec<(u32, Vec<usize>)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse();
            let cores = numbers(&read(entry.path().join("cpulist"))?);
            Some((number.ok()?, cores)).filter(|(_, cores)| !cores.is_empty())
        })
        .collect();
    all.sort();
    all
}

/// The smallest grant of this process's control groups.
fn quota() -> Option<f64> {
    let groups = read("/proc/self/cgroup")?;
    let mut least: Option<f64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|c| c == "cpu") {
            continue;
        }
        let roots: &[&str] = if second {
            &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        } else {
            &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        };
        // A limit of any group above holds, too.
        for root in roots {
            for group in std::path::Path::new(path).ancestors() {
                let group = group.strip_prefix("/").unwrap_or(group);
                let folder = std::path::Path::new(root).join(group);
                let granted = if second {
                    read(folder.join("cpu.max")).and_then(|text| granted(&text))
                } else {
                    let number = |name: &str| read_number::<i64>(folder.join(name));
                    number("cpu.cfs_quota_us")
                        .zip(number("cpu.cfs_period_us"))
                        .and_then(|(quota, period)| granted(&format!("{quota} {period}")))
                };
                least = match (least, granted) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
    }
    least
}

/// Cores' worth of `quota period`, where it is a limit.
fn granted(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The clock of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// The kernel's source of it, as `tsc`.
    pub source: Option<String>,
    /// Sources that the kernel could take.
    pub sources: Vec<String>,
    /// Nanoseconds that a reading takes.
    pub read_ns: u64,
    /// A program keeps it right; `None` where the kernel does not tell.
    pub synchronised: Option<bool>,
    /// Seconds since 1970 that it shows.
    pub seconds: u64,
}

impl Clock {
    pub(super) fn read() -> Clock {
        const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
        let sources = read(format!("{FOLDER}/available_clocksource")).unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock {
            source: read(format!("{FOLDER}/current_clocksource")),
            sources: sources.split_whitespace().map(str::to_owned).collect(),
            read_ns: cost(),
            synchronised: timex::is_synchronised().ok(),
            seconds: now.map_or(0, |since| since.as_secs()),
        }
    }
}

/// The least of several tries, so that other work of the machine does not count.
fn cost() -> u64 {
    const READINGS: u32 = 200;
    let once = || {
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed().as_nanos() as u64 / u64::from(READINGS)
    };
    (0..10).map(|_| once()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::granted;

    #[test]
    fn quotas_are_read_in_both_forms() {
        assert_eq!(granted("150000 100000"), Some(1.5));
        assert_eq!(granted("max 100000"), None);
        assert_eq!(granted("-1 100000"), None);
        assert_eq!(granted("100000 0"), None);
        assert_eq!(granted(""), None);
    }
}
