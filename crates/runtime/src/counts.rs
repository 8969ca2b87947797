//! The counters of a runtime: packets, flows, drops, cycles.

use weir_nf::CloseReason;
use weir_packet::{Internal, Malformed};

use crate::drops::{EngineDrop, Reasons};
use crate::report::Report;

/// Counts from the start of the runtime.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The part of the report that is counted as it happens; the rest is gathered
    /// when somebody asks.
    pub(crate) so_far: Report,
    drops: Reasons,
    /// States that cannot occur.
    pub(crate) internal: Internal,
}

impl Counts {
    /// Packets taken in.
    #[inline]
    pub(crate) fn take_in(&mut self, packets: usize, bytes: u64) {
        self.so_far.packets_in += packets as u64;
        self.so_far.bytes_in += bytes;
    }

    /// Packets put out, emitted ones included.
    #[inline]
    pub(crate) fn put_out(&mut self, packets: u32, bytes: u64) {
        self.so_far.packets_out += u64::from(packets);
        self.so_far.bytes_out += bytes;
    }

    /// Packets that functions made, of those put out.
    pub(crate) fn emit(&mut self, packets: usize) {
        self.so_far.emitted += packets as u64;
    }

    pub(crate) fn drop_packet(&mut self, why: EngineDrop) {
        self.drops.count(why);
    }

    pub(crate) fn malformed(&mut self, fault: Malformed, dropped: bool) {
        self.drops.count_malformed(fault, dropped);
    }

    pub(crate) fn open_flow(&mut self) {
        self.so_far.flows.seen += 1;
    }

    pub(crate) fn end_flow(&mut self, why: CloseReason) {
        self.so_far.flows.ended.add(why);
    }

    /// The part of a report that is counted here.
    pub(crate) fn report(&self) -> Report {
        Report {
            drops: self.drops.drops(),
            malformed: self.drops.malformed(),
            internal: self.internal.count(),
            internal_first: self.internal.first().map(ToString::to_string),
            ..self.so_far.clone()
        }
    }
}

/// Cycles, by the clock that the driver gave.
#[derive(Debug)]
pub(crate) struct Cost {
    clock: fn() -> u64,
    engine: u64,
    /// Cycles spent in functions during this burst.
    in_functions: u64,
}

impl Cost {
    pub(crate) fn new(clock: fn() -> u64) -> Cost {
        Cost {
            clock,
            engine: 0,
            in_functions: 0,
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Notes what a function has spent.
    #[inline]
    pub(crate) fn add_function(&mut self, cycles: u64) {
        self.in_functions += cycles;
    }

    /// Ends a burst that began at `start`: what functions did not spend, the
    /// engine has.
    #[inline]
    pub(crate) fn end_burst(&mut self, start: u64) {
        let spent = core::mem::take(&mut self.in_functions);
        self.engine += self.now().wrapping_sub(start).saturating_sub(spent);
    }

    /// Cycles spent outside functions.
    pub(crate) fn engine(&self) -> u64 {
        self.engine
    }
}
