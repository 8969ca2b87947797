//! When the threads that move packets have their turn on a core that others want.

use std::io;
use std::time::Duration;

use crate::sys::scheduler;

/// Nice value of threads that move packets between interfaces, where none is asked for.
pub const FIRST: i8 = -20;
/// Shortest slice that the kernel grants: whose are short need not wait for others' to end.
const SLICE: Duration = Duration::from_micros(100);

/// Gives the calling thread, and those that it starts from now on, this nice
/// value, -20 to 19. Below 0 they run before what brings packets on the same
/// core (threaded NAPI, `ksoftirqd`): the kernel then brings what they can
/// take, and what is too much is dropped early, for little. Otherwise half of
/// the core goes into packets that find a full ring.
///
/// # Errors
///
/// Less than it is takes `CAP_SYS_NICE`, or a high enough `RLIMIT_NICE`.
pub fn set_nice(nice: i8) -> io::Result<()> {
    let slice = if nice < 0 { SLICE } else { Duration::ZERO };
    scheduler::set(i32::from(nice), slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_started_later_have_it_and_others_not() {
        let before = nice();
        std::thread::spawn(move || {
            set_nice(19).unwrap();
            assert_eq!(nice(), 19);
            std::thread::spawn(|| assert_eq!(nice(), 19))
                .join()
                .unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(nice(), before);
    }

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }
}
