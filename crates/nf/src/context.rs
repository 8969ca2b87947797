//! Everything a network function may ask of the world.

use weir_packet::{
    Direction, FlowKey, Frame, FrameMeta, FramePool, LinkType, Side, Time, frame_flags,
};

use core::any::Any;

use crate::event::EventIds;
use crate::host::BURST;
use weir_telemetry::{Counts, Label};

use crate::{BufferPool, Event, EventLog, FlowInfo, Leases, Tally, WorkSpace};

/// The world of one network function during one call.
///
/// Time is the packet's ingress time, random numbers are a function of unit
/// and clock, and whatever leaves a function besides its packet goes through
/// here, so that a packet can be applied a second time without a second
/// effect.
#[derive(Debug)]
pub struct Context<'a> {
    /// Port leases of this runtime.
    pub leases: &'a mut Leases,
    pub(crate) buffers: &'a mut BufferPool,
    pub(crate) events: &'a mut EventLog,
    pub(crate) emits: &'a mut Emits,
    pub(crate) pool: &'a mut FramePool,
    pub(crate) aliases: &'a mut Aliases,
    pub(crate) counters: &'a mut [u64],
    pub(crate) tally: &'a mut Tally,
    pub(crate) space: Option<&'a mut WorkSpace>,
    pub(crate) seed: u64,
    pub(crate) now: Time,
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) unit: u64,
    pub(crate) clock: u64,
    pub(crate) draws: u32,
    pub(crate) flow: u32,
}

/// Marks of the packet at hand, in the order that they have in [`FrameMeta`]: they are copied as one
/// word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Marks {
    /// The port that the packet came in by: what is emitted takes its wire.
    port: u8,
    side: Side,
    link: LinkType,
    flags: u8,
}

impl Marks {
    #[inline(always)]
    pub(crate) fn of(meta: &FrameMeta) -> Marks {
        Marks {
            port: meta.port,
            side: meta.side,
            link: meta.link,
            flags: meta.flags,
        }
    }

    /// Of no packet.
    pub(crate) fn none(silent: bool) -> Marks {
        Marks {
            flags: if silent { frame_flags::NO_OUTPUT } else { 0 },
            ..Marks::default()
        }
    }
}

/// Packets that network functions made during a burst.
#[derive(Debug, Default)]
pub struct Emits {
    /// The packets, in order; [`FrameMeta::side`] is the side they come from,
    /// so they leave on the opposite one.
    pub frames: Vec<Frame>,
    /// Packets that could not be made: no frame was free or the burst had
    /// made as many as it may.
    pub lost: u64,
    /// Under a switch: which packet of the burst each was made for.
    pub causes: Option<Causes>,
    /// Frames that must stay in the pool, for what may not be lost.
    pub spare: usize,
}

/// Most packets that network functions may make in one burst.
pub const MAX_EMITS: usize = 256;

/// Which packet of a burst asked for something, where that must be told
/// apart; and a limit for each packet, so that one does not depend on what the
/// others of its burst ask for.
#[derive(Debug)]
pub struct Causes {
    /// The packet's place in its burst, one for each thing asked for.
    pub packets: Vec<u8>,
    asked: [u8; BURST],
    lost: [u32; BURST],
    used: bool,
}

impl Causes {
    /// Reserves the room for `most` in all.
    pub fn new(most: usize) -> Causes {
        Causes {
            packets: Vec::with_capacity(most),
            asked: [0; BURST],
            lost: [0; BURST],
            used: false,
        }
    }

    /// Packets that `packet` asked for and did not get.
    pub fn lost(&self, packet: usize) -> u32 {
        self.lost.get(packet).copied().unwrap_or(0)
    }

    /// Notes that `packet` did not get one.
    fn lose(&mut self, packet: u8) {
        if let Some(lost) = self.lost.get_mut(usize::from(packet)) {
            *lost += 1;
            self.used = true;
        }
    }

    /// True where nothing was asked for since [`Causes::clear`].
    pub fn is_unused(&self) -> bool {
        !self.used
    }

    /// Notes one of `packet`; false where it has had its share of `most`.
    fn note(&mut self, packet: u8, most: usize) -> bool {
        let asked = self.asked.get_mut(usize::from(packet));
        debug_assert!(asked.is_some(), "a packet of a burst");
        let Some(asked) = asked else { return false };
        if usize::from(*asked) >= most / BURST || self.packets.len() >= most {
            return false;
        }
        *asked += 1;
        self.used = true;
        self.packets.push(packet);
        true
    }

    /// Takes the last note back: what was asked for could not be had.
    fn take_back(&mut self) {
        let packet = self.packets.pop().map(usize::from);
        if let Some(asked) = packet.and_then(|packet| self.asked.get_mut(packet)) {
            *asked -= 1;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.asked = [0; BURST];
        self.lost = [0; BURST];
        self.used = false;
    }
}

impl Emits {
    /// Reserves the room.
    pub fn new() -> Emits {
        Emits {
            frames: Vec::with_capacity(MAX_EMITS),
            ..Emits::default()
        }
    }

    /// A packet could not be made for `packet` of the burst.
    fn lose(&mut self, packet: u8) {
        self.lost += 1;
        if let Some(causes) = &mut self.causes {
            causes.lose(packet);
        }
    }
}

/// Aliases asked for during a burst: (record of the flow, key, whose).
#[derive(Debug)]
pub struct Aliases {
    /// Requests, in order.
    pub asked: Vec<AliasRequest>,
    /// Aliases refused because a burst had asked for as many as it may.
    pub refused: u64,
    /// Under a switch: which packet of the burst asked.
    pub causes: Option<Causes>,
}

/// A further key under which packets find a flow or its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasRequest {
    /// Record of the flow whose packet asked.
    pub flow: u32,
    /// The key.
    pub key: FlowKey,
    /// Direction, under `key`, of packets that the client sends.
    pub client: Direction,
    /// Side of the ingress port of the packet that asked.
    pub side: Side,
    /// True: the key names one end only (the other address and port are
    /// zero); any packet to it opens a new flow of the same unit.
    pub open: bool,
}

/// Most aliases that may be asked for in one burst.
pub const MAX_ALIASES: usize = 256;

impl Aliases {
    /// Reserves the room.
    pub fn new() -> Aliases {
        Aliases {
            asked: Vec::with_capacity(MAX_ALIASES),
            refused: 0,
            causes: None,
        }
    }
}

impl Default for Aliases {
    fn default() -> Aliases {
        Aliases::new()
    }
}

impl Context<'_> {
    /// True while nothing that the function says is heard: the packet is applied a second time.
    #[inline]
    pub(crate) fn silent(&self) -> bool {
        self.marks.flags & frame_flags::NO_OUTPUT != 0
    }

    /// Ingress time of the packet at hand.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// A random number that is the same whenever this packet is applied to
    /// this state. Not for secrets.
    pub fn random(&mut self) -> u64 {
        self.draws += 1;
        let mut x = self.seed
            ^ self.unit.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.clock.wrapping_mul(0xd1b5_4a32_d192_ed03)
            ^ u64::from(self.draws).wrapping_mul(0x8cb9_2ba7_2f3d_8dd7);
        // splitmix64's finisher
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Adds to one of the function's own counters
    /// ([`crate::Descriptor::counters`]); one that is not there does nothing.
    #[inline]
    pub fn count(&mut self, counter: impl Label, n: u64) {
        if !self.silent()
            && let Some(value) = self.counters.get_mut(counter.index())
        {
            *value += n;
        }
    }

    /// Adds to all of them, what was counted over a burst.
    #[inline]
    pub fn count_all<L: Label>(&mut self, counts: &Counts<L>) {
        if self.silent() {
            return;
        }
        for (value, n) in self.counters.iter_mut().zip(counts.values()) {
            *value += n;
        }
    }

    /// Counts under a name found at run time and gives what was counted
    /// before: `Some(0)` means the name is new, `None` that the table is full.
    pub fn tally(&mut self, name: &[u8], n: u64) -> Option<u64> {
        if self.silent() {
            return self.tally.get(name);
        }
        self.tally.add(name, n)
    }

    #[inline]
    pub(crate) fn begin(&mut self, kind: &str, ids: EventIds, packet: u64) -> Event<'_> {
        let cause = (self.leases.packet, self.silent());
        self.events.begin(kind, self.now, &ids, packet, cause)
    }

    /// Starts an event about the packet at hand, with its addresses and ports;
    /// it is recorded when the value goes out of scope.
    pub fn event(&mut self, kind: &str, flow: &FlowInfo<'_>) -> Event<'_> {
        let mut event = self.begin(kind, flow.ids(), self.sequence);
        event.endpoints(flow.key(), flow.direction());
        event
    }

    /// Starts an event about a flow as a whole: its client is the source.
    pub fn flow_event(&mut self, kind: &str, flow: &FlowInfo<'_>) -> Event<'_> {
        let mut event = self.begin(kind, flow.ids(), 0);
        event.endpoints(flow.key(), flow.client_direction());
        event
    }

    /// Starts an event about a unit, without addresses: a scope wider than the
    /// flow has no two ends.
    pub fn unit_event(&mut self, kind: &str, flow: &FlowInfo<'_>) -> Event<'_> {
        self.begin(kind, flow.ids(), 0)
    }

    /// Starts an event about a packet that has no flow.
    pub fn packet_event(&mut self, kind: &str) -> Event<'_> {
        self.begin(kind, EventIds::default(), self.sequence)
    }

    /// Asked once where an event is due: true where its text is wanted. Where
    /// events are only counted this one is, and its costly text may be spared.
    pub fn wants_events(&mut self) -> bool {
        let wanted = self.events.is_enabled();
        if !wanted && !self.silent() {
            self.events.count_one();
        }
        wanted && !self.silent()
    }

    /// Makes a packet of `len` bytes that leaves on side `towards`, beginning
    /// with the same link header type as the packet at hand; `None` (and a
    /// count) where no frame is free.
    pub fn emit(&mut self, towards: Side, len: usize) -> Option<&mut [u8]> {
        if self.silent() {
            return None;
        }
        let packet = self.leases.packet;
        let emits = &mut *self.emits;
        if emits.frames.len() >= MAX_EMITS
            || emits.spare > 0 && self.pool.available() <= emits.spare
            || emits
                .causes
                .as_mut()
                .is_some_and(|causes| !causes.note(packet, MAX_EMITS))
        {
            emits.lose(packet);
            return None;
        }
        let Ok(mut frame) = self.pool.take(len) else {
            if let Some(causes) = &mut emits.causes {
                causes.take_back();
            }
            emits.lose(packet);
            return None;
        };
        let memory = self.pool.memory();
        let (meta, _) = memory.split_mut(&mut frame);
        *meta = FrameMeta::received(self.now, len as u32);
        meta.side = towards.opposite();
        (meta.link, meta.port) = (self.marks.link, self.marks.port);
        meta.flags = frame_flags::EMITTED;
        let start = usize::from(meta.start);
        self.emits.frames.push(frame);
        let frame = self.emits.frames.last_mut()?;
        let room = self
            .pool
            .memory()
            .split_mut(frame)
            .1
            .get_mut(start..start + len)?;
        room.fill(0);
        Some(room)
    }

    /// Makes `key` a further name of the flow at hand, until it ends: packets
    /// of both directions that carry it belong to the flow. `client` is the
    /// direction, under `key`, of the client's packets; [`FlowKey::new`] with
    /// the client's end as source gives both.
    pub fn alias(&mut self, key: FlowKey, client: Direction) {
        self.ask(key, client, false);
    }

    /// Makes one end (`key` with the other address and port zero) a name of
    /// the unit at hand: a packet to it from anywhere on the other side of the
    /// chain opens a flow that shares the unit's state (endpoint-independent filtering, RFC 4787 section 5).
    /// Only for functions with a scope wider than the flow.
    pub fn open_alias(&mut self, key: FlowKey) {
        self.ask(key, Direction::Forward, true);
    }

    fn ask(&mut self, key: FlowKey, client: Direction, open: bool) {
        let packet = self.leases.packet;
        let causes = &mut self.aliases.causes;
        if self.aliases.asked.len() < MAX_ALIASES
            && causes
                .as_mut()
                .is_none_or(|causes| causes.note(packet, MAX_ALIASES))
        {
            self.aliases.asked.push(AliasRequest {
                flow: self.flow,
                key,
                client,
                side: self.marks.side,
                open,
            });
        } else {
            self.aliases.refused += 1;
        }
    }
}

impl<'a> Context<'a> {
    /// Lends a function's work space to its calls.
    #[inline]
    #[must_use]
    pub fn lend(mut self, space: &'a mut WorkSpace) -> Context<'a> {
        self.space = Some(space);
        self
    }

    /// Gives the function's work space to `work` together with this context;
    /// `None` where it is of another type or in use already (a call within a
    /// call).
    #[inline]
    pub fn with_work_space<T: Any, R>(
        &mut self,
        work: impl FnOnce(&mut T, &mut Self) -> R,
    ) -> Option<R> {
        let mut taken = self.space.as_mut()?.take()?;
        let result = taken.downcast_mut::<T>().map(|space| work(space, self));
        if let Some(place) = self.space.as_mut() {
            place.put(taken);
        }
        result
    }
}
