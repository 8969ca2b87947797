//! Which core a thread runs on, and its scheduling policy.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use weir_io::live::{go_first, goes_first, take_turns};

/// Numbers of the cores that the calling thread may run on; none where the
/// kernel does not say.
fn cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|core| set.is_set(*core)).collect()
}

/// Refuses cores that the calling thread can't run on. Ask before it is pinned.
///
/// # Errors
///
/// The first such core, and those that there are.
pub fn check_cores(asked: &[usize]) -> Result<(), String> {
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
pub fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Keeps the calling thread on a core.
///
/// # Errors
///
/// The machine has no such core, or does not allow it.
pub fn pin(core: usize) -> Result<(), String> {
    if core >= CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    run_wide();
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| format!("can't keep a thread on core {core}: {error}"))
}

/// The cores of the run as a whole: those of the first thread that was pinned, before it was.
fn run_wide() -> Option<&'static CpuSet> {
    static ALL: OnceLock<Option<CpuSet>> = OnceLock::new();
    ALL.get_or_init(|| sched_getaffinity(None).ok()).as_ref()
}

/// For threads that move no packets: gives the calling thread the normal policy and
/// all cores of the run, whatever the thread that started it has.
pub fn step_aside() {
    // Always allowed; and it answers as it is, if it were not.
    let _ = take_turns();
    leave_core();
}

/// The calling thread runs on any core of the run.
fn leave_core() {
    if let Some(all) = run_wide() {
        // As above.
        let _ = sched_setaffinity(None, all);
    }
}

/// Calls `start`, which starts a process, with the normal policy and all cores of
/// the run, so that what the process does before its work keeps no packets waiting.
/// The calling thread has its core and its policy afterwards as before.
pub fn started_aside<T>(start: impl FnOnce() -> T) -> T {
    let (kept, first) = (sched_getaffinity(None), goes_first());
    if first {
        let _ = take_turns();
    }
    leave_core();
    let started = start();
    if let Ok(kept) = kept {
        let _ = sched_setaffinity(None, &kept);
    }
    if first {
        let _ = go_first();
    }
    started
}

/// The core of worker `number`: the first is the ports' thread's, the workers
/// take the others in turn. `None`: the system decides.
pub fn nth_core(cores: &[usize], number: usize) -> Option<usize> {
    match cores {
        [] => None,
        [only] => Some(*only),
        [_, others @ ..] => others.get(number % others.len()).copied(),
    }
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

    #[test]
    fn workers_take_the_cores_behind_the_first_in_turn() {
        let of = |cores: &[usize]| [0, 1, 2].map(|number| nth_core(cores, number));
        assert_eq!(of(&[]), [None; 3]);
        assert_eq!(of(&[4]), [Some(4); 3]);
        assert_eq!(of(&[4, 7, 5]), [Some(7), Some(5), Some(7)]);
    }

    #[test]
    fn a_thread_that_starts_a_process_keeps_its_core_and_policy() {
        let mine = std::thread::spawn(|| {
            let core = cores()[0];
            pin(core).unwrap();
            let first = go_first().is_ok();
            let begins = started_aside(|| (cores(), goes_first()));
            assert!(begins.0.contains(&core));
            assert!(!begins.1);
            assert_eq!((cores(), goes_first()), (vec![core], first));
            if !first {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"SKIPPED in part: real-time policies take CAP_SYS_NICE\n",
                );
            }
        });
        mine.join().unwrap();
    }
}
