//! The engine's side of a [`Context`]: what all functions of a runtime share.

use weir_packet::{FramePool, Packet, Time};

use crate::context::{Aliases, Causes, Emits, MAX_ALIASES, MAX_EMITS, Marks};
use crate::{BufferPool, Context, EventLog, Leases, Tally};

/// The resources of one runtime, out of which a [`Context`] is made per call.
#[derive(Debug)]
pub struct World {
    /// Port leases.
    pub leases: Leases,
    /// Arena of side buffers.
    pub buffers: BufferPool,
    /// Events not yet taken by the driver.
    pub events: EventLog,
    /// Packets made during the burst.
    pub emits: Emits,
    /// Aliases asked for during the burst.
    pub aliases: Aliases,
    /// Seed of [`Context::random`].
    pub seed: u64,
    /// Nothing that functions say is heard: packets are applied a second time.
    pub silent: bool,
}

impl World {
    /// From here on, until a function moves on to another packet, effects are caused by packet
    /// `packet` of the burst.
    #[inline]
    pub fn caused_by(&mut self, packet: usize) {
        self.leases.packet = packet as u8;
    }

    /// Place in the burst of the packet that causes what is done now.
    pub fn cause(&self) -> u8 {
        self.leases.packet
    }

    /// Under a switch: what functions ask for is noted with the packet that
    /// caused it, and events are kept for one burst only. `events` says
    /// whether their text is kept at all.
    pub fn attribute(&mut self, events: bool) {
        self.emits.causes = Some(Causes::new(MAX_EMITS));
        self.aliases.causes = Some(Causes::new(MAX_ALIASES));
        self.leases.attribute();
        self.events = if events {
            EventLog::of_bursts()
        } else {
            EventLog::counting()
        };
    }

    /// The world of one function's call, at `now`.
    #[inline]
    pub fn context<'a>(
        &'a mut self,
        pool: &'a mut FramePool,
        counters: &'a mut [u64],
        tally: &'a mut Tally,
        function: u32,
        now: Time,
    ) -> Context<'a> {
        Context {
            leases: &mut self.leases,
            buffers: &mut self.buffers,
            events: &mut self.events,
            emits: &mut self.emits,
            pool,
            aliases: &mut self.aliases,
            counters,
            tally,
            space: None,
            seed: self.seed ^ u64::from(function).wrapping_mul(0xa076_1d64_78bd_642f),
            now,
            sequence: 0,
            marks: Marks::none(self.silent),
            unit: 0,
            clock: 0,
            draws: 0,
            flow: u32::MAX,
        }
    }
}

impl Context<'_> {
    /// Moves on to `packet`, which has no flow: its number stands for unit and
    /// clock, so that random numbers do not depend on other packets.
    #[inline(always)]
    pub(crate) fn at(&mut self, i: usize, packet: &Packet<'_>) {
        let meta = packet.meta();
        self.leases.packet = i as u8;
        self.now = meta.time;
        self.sequence = meta.sequence;
        self.marks = Marks::of(meta);
        self.unit = 0;
        self.clock = meta.sequence;
        self.draws = 0;
        self.flow = u32::MAX;
    }

    /// Moves on to `packet` of flow record `flow` in `unit`. Random numbers
    /// depend on the number that the packet was given where it was classified,
    /// not on how many of its unit have come as far as this stage.
    #[inline(always)]
    pub(crate) fn of(&mut self, i: usize, packet: &Packet<'_>, flow: u32, unit: u64) {
        let meta = packet.meta();
        self.leases.packet = i as u8;
        self.now = meta.time;
        self.sequence = meta.sequence;
        self.marks = Marks::of(meta);
        self.flow = flow;
        self.unit = unit;
        self.clock = meta.clock;
        self.draws = 0;
    }

    /// Moves on to the end of a flow.
    pub(crate) fn end_of(&mut self, flow: u32, unit: u64, clock: u64) {
        self.flow = flow;
        self.unit = unit;
        self.clock = clock;
        // Draws at the end differ from those at the last packet.
        self.draws = 1 << 31;
    }
}
