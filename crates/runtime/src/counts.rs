//! What a runtime counts: packets, flows, drops, cycles.

use weir_nf::CloseReason;
use weir_packet::{Internal, Malformed};

use crate::drops::{EngineDrop, Reasons};
use crate::report::{FlowReport, Report};

/// Rare occurrences that the report tells one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Oddity {
    /// Under a switch: aliases, ends and leases that found no frame.
    NotesLost,
    /// Under a switch: ticks that found no frame for what they may cause.
    TicksLost,
    /// Under a switch: later fragments without their first one.
    FragmentsAlone,
    /// Under a switch: datagrams that found no place.
    DatagramsForgotten,
    /// TCP resets outside of their connection's window.
    ResetsIgnored,
}

const ODDITIES: usize = Oddity::ResetsIgnored as usize + 1;

/// Counts from the start of the runtime.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    packets_in: u64,
    bytes_in: u64,
    packets_out: u64,
    bytes_out: u64,
    emitted: u64,
    flows_opened: u64,
    flows_ended: [u64; CloseReason::ALL.len()],
    oddities: [u64; ODDITIES],
    drops: Reasons,
    /// States that cannot occur.
    pub(crate) internal: Internal,
}

impl Counts {
    /// Packets taken in.
    #[inline]
    pub(crate) fn take_in(&mut self, packets: usize, bytes: u64) {
        self.packets_in += packets as u64;
        self.bytes_in += bytes;
    }

    /// Packets put out, emitted ones included.
    #[inline]
    pub(crate) fn put_out(&mut self, packets: u32, bytes: u64) {
        self.packets_out += u64::from(packets);
        self.bytes_out += bytes;
    }

    /// Packets that functions made, of those put out.
    pub(crate) fn emit(&mut self, packets: usize) {
        self.emitted += packets as u64;
    }

    pub(crate) fn drop_packet(&mut self, why: EngineDrop) {
        self.drops.count(why);
    }

    pub(crate) fn malformed(&mut self, fault: Malformed, dropped: bool) {
        self.drops.count_malformed(fault, dropped);
    }

    pub(crate) fn open_flow(&mut self) {
        self.flows_opened += 1;
    }

    pub(crate) fn end_flow(&mut self, why: CloseReason) {
        self.flows_ended[why as usize] += 1;
    }

    pub(crate) fn add(&mut self, what: Oddity, n: u64) {
        self.oddities[what as usize] += n;
    }

    pub(crate) fn packets_in(&self) -> u64 {
        self.packets_in
    }

    pub(crate) fn flows_opened(&self) -> u64 {
        self.flows_opened
    }

    /// Flows ended, by why.
    pub(crate) fn flows_ended(&self) -> [u64; CloseReason::ALL.len()] {
        self.flows_ended
    }

    /// The part of a report that is counted here.
    pub(crate) fn report(&self) -> Report {
        let odd = |what: Oddity| self.oddities[what as usize];
        let ended = CloseReason::ALL.iter().zip(&self.flows_ended);
        let ended = ended.filter(|(_, count)| **count > 0);
        Report {
            packets_in: self.packets_in,
            bytes_in: self.bytes_in,
            packets_out: self.packets_out,
            bytes_out: self.bytes_out,
            emitted: self.emitted,
            drops: self.drops.drops(),
            malformed: self.drops.malformed(),
            flows: FlowReport {
                seen: self.flows_opened,
                ended: ended.map(|(why, count)| (why.name(), *count)).collect(),
                resets_ignored: odd(Oddity::ResetsIgnored),
                ..FlowReport::default()
            },
            notes_lost: odd(Oddity::NotesLost),
            ticks_lost: odd(Oddity::TicksLost),
            fragments_alone: odd(Oddity::FragmentsAlone),
            datagrams_forgotten: odd(Oddity::DatagramsForgotten),
            internal: self.internal.count(),
            internal_first: self.internal.first().map(ToString::to_string),
            ..Report::default()
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
