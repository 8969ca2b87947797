//! Numbers that a runtime and the switch's thread share, without messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use weir_io::shared::Words;
use weir_packet::Time;

/// Words of a runtime's process, in the rings' memory. What one side writes has lines of
/// its own.
pub(super) const STATUS_WORDS: usize = 96;
/// The packets' time: its upper half, its lower half, and the upper one again.
const TIME: [usize; 3] = [0, 1, 2];
/// Ends of flows that were asked for and are not numbered yet.
const ENDS: usize = 32;
/// Free small frames that the process's pool has.
pub(super) const FREE: usize = 64;
/// The same of large frames.
pub(super) const FREE_LARGE: usize = 65;
/// Messages that the process has sent over its channel.
pub(super) const MAIL: usize = 66;
/// Held by the process's runtime while it runs: tells of its death.
pub(super) const LIFE: usize = 67;

/// A runtime's gauge; clones are the same one.
#[derive(Clone, Debug)]
pub(super) enum Gauge {
    /// Of a thread of this process.
    Thread(Arc<ThreadGauge>),
    /// Of a process of its own.
    Process(Arc<Words>),
}

/// See [`Gauge`].
#[derive(Debug, Default)]
pub(super) struct ThreadGauge {
    /// Time of the packets that have come to the switch.
    packet_time: AtomicU64,
    /// Ends of flows that the runtime has asked for and the switch has not numbered yet.
    ends: AtomicUsize,
}

impl Default for Gauge {
    /// That of a thread.
    fn default() -> Gauge {
        Gauge::Thread(Arc::default())
    }
}

impl Gauge {
    /// The latest time of a packet at the switch. Of a process, zero where it is being
    /// written just now.
    pub(super) fn packet_time(&self) -> Time {
        match self {
            Gauge::Thread(gauge) => Time(gauge.packet_time.load(Ordering::Relaxed)),
            // Read in the opposite order of `pass_time`: where both upper halves agree, the
            // lower one was written between them.
            Gauge::Process(words) => {
                let [high, low, again] = TIME.map(|at| &words[at]);
                let again = again.load(Ordering::Acquire);
                let low = low.load(Ordering::Acquire);
                match high.load(Ordering::Acquire) == again {
                    true => Time(u64::from(again) << 32 | u64::from(low)),
                    false => Time::ZERO,
                }
            }
        }
    }

    /// Tells the runtime the latest time of a packet.
    pub(super) fn pass_time(&self, time: Time) {
        match self {
            Gauge::Thread(gauge) => gauge.packet_time.store(time.0, Ordering::Relaxed),
            Gauge::Process(words) => {
                let [high, low, again] = TIME.map(|at| &words[at]);
                let upper = (time.0 >> 32) as u32;
                high.store(upper, Ordering::Release);
                low.store(time.0 as u32, Ordering::Release);
                again.store(upper, Ordering::Release);
            }
        }
    }

    /// Ends of flows that were asked for and are not numbered yet.
    pub(super) fn ends(&self) -> usize {
        match self {
            Gauge::Thread(gauge) => gauge.ends.load(Ordering::Relaxed),
            Gauge::Process(words) => words[ENDS].load(Ordering::Relaxed) as usize,
        }
    }

    /// One more end is asked for.
    pub(super) fn ask_end(&self) {
        match self {
            Gauge::Thread(gauge) => _ = gauge.ends.fetch_add(1, Ordering::Relaxed),
            Gauge::Process(words) => _ = words[ENDS].fetch_add(1, Ordering::Relaxed),
        }
    }

    /// One of them is numbered, or never will be.
    pub(super) fn end_done(&self) {
        match self {
            Gauge::Thread(gauge) => _ = gauge.ends.fetch_sub(1, Ordering::Relaxed),
            Gauge::Process(words) => _ = words[ENDS].fetch_sub(1, Ordering::Relaxed),
        }
    }

    /// The runtime is over: of the ends that it has asked for so many are with the switch,
    /// the others got lost.
    pub(super) fn set_ends(&self, ends: usize) {
        match self {
            Gauge::Thread(gauge) => gauge.ends.store(ends, Ordering::Relaxed),
            Gauge::Process(words) => words[ENDS].store(ends as u32, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_io::shared::SharedMapping;

    use super::*;

    #[test]
    fn a_process_reads_what_was_told() {
        let mapping = SharedMapping::create("weir-test", STATUS_WORDS * 4).unwrap();
        let words = || Gauge::Process(Arc::new(mapping.words(0, STATUS_WORDS).unwrap()));
        let (here, there) = (words(), words());
        for time in [0, 7, u64::from(u32::MAX), 1 << 32, u64::MAX - 1] {
            here.pass_time(Time(time));
            assert_eq!(there.packet_time(), Time(time));
        }
        there.ask_end();
        there.ask_end();
        here.end_done();
        assert_eq!((here.ends(), there.ends()), (1, 1));
    }
}
