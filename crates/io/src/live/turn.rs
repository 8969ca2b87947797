//! Turns on a core that other threads want, too.

use std::io;

use crate::sys::scheduler::{Policy, has_fifo, set};

/// Before all that are not real-time, and behind what an operator gave more.
const FIRST: i32 = 1;

/// Has the calling thread, and those that it starts from now on, run before all
/// others of their cores that are not real-time: before what brings packets there
/// (threaded NAPI, `ksoftirqd`), too. The kernel then brings what they can take, and
/// what is too much is dropped early, for little; otherwise about half of the
/// core goes into packets that find a full ring. For threads that sleep when they
/// have nothing to do. A nice value would not do it: it counts among threads of
/// one control group or session only.
///
/// # Errors
///
/// It takes `CAP_SYS_NICE`, or `RLIMIT_RTPRIO`.
pub fn go_first() -> io::Result<()> {
    set(Policy::Fifo(FIRST))
}

/// True if the calling thread does so, by [`go_first`] and not by a policy that an
/// operator gave (`chrt`).
#[must_use]
pub fn goes_first() -> bool {
    has_fifo(FIRST)
}

/// Has the calling thread, and those that it starts from now on, take turns with
/// all others, as threads do that nothing was said of.
///
/// # Errors
///
/// None that is known: it is always allowed.
pub fn take_turns() -> io::Result<()> {
    set(Policy::Other)
}
