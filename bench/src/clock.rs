//! Time of the measuring thread.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds that this thread has run on a processor. Unlike a clock on the wall it does not
/// count what other programs took, and the benchmark never waits.
pub(crate) fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs `work`; nanoseconds of the thread's time that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let start = thread_ns();
    let done = work();
    (thread_ns() - start, done)
}
