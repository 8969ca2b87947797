//! Where threads run, and whose turn it is.

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
    if core >= CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    run_wide();
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| format!("can't keep a thread on core {core}: {error}"))
}

/// The cores of the run as a whole: those that the first thread had that is kept on one.
fn run_wide() -> Option<&'static CpuSet> {
    static ALL: OnceLock<Option<CpuSet>> = OnceLock::new();
    ALL.get_or_init(|| sched_getaffinity(None).ok()).as_ref()
}

/// For threads that move no packets: the calling one takes turns with all others,
/// wherever there is room, though the thread that started it does not.
pub(crate) fn step_aside() {
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

/// Starts a process that begins where there is room, and goes before nobody unless
/// an operator said so: what it does before its work keeps no packets waiting. The
/// calling thread has its core and its policy afterwards as before.
pub(crate) fn started_aside<T>(start: impl FnOnce() -> T) -> T {
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
    fn who_starts_a_process_has_its_core_and_its_turn_afterwards() {
        let mine = std::thread::spawn(|| {
            let core = cores()[0];
            pin(core).unwrap();
            let first = go_first().is_ok();
            let begins = started_aside(|| (cores(), goes_first()));
            assert!(begins.0.contains(&core));
            assert!(!begins.1);
            assert_eq!((cores(), goes_first()), (vec![core], first));
            if !first {
                println!("SKIPPED in part: real-time policies take CAP_SYS_NICE");
            }
        });
        mine.join().unwrap();
    }
}
