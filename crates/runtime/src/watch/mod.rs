//! Watches: what an operator wants to see of packets on their way.
//!
//! A **trace** follows single packets: everything that becomes of each is
//! recorded as a [`PacketTrace`]. A **tap** copies packets at points. Both are
//! off until somebody asks, and cost then one branch per burst (and one per
//! function and burst, which the audit has anyway).
//!
//! A burst is a speed-up and no semantics, so a packet that is traced is given
//! a burst of its own: whatever is different after it, it has caused. Packets
//! that a trace follows are marked ([`weir_packet::FrameMeta::watched`]), so
//! that later stages and a packet's second way through the chain know them
//! whatever functions have made of their headers. Taps don't change bursts.
//!
//! Where what is seen goes is the driver's: it gives a [`Tracer`] or [`Tapper`]
//! that must not wait.

mod observe;
mod record;
mod tap;
mod trace;

use weir_packet::{
    Depth, Direction, FlowKey, Frame, FrameMeta, Headers, KeyOutcome, Malformed, PacketMemory,
    ParseOptions, flow_key, frame_flags, parse_into,
};
use weir_telemetry::Label as _;

pub use record::{DispositionTrace, FieldChange, FlowTrace, Made, PacketTrace, Step, StepVerdict};
pub use tap::{Comment, Tap, TapPoint, Tapped, Tapper};

use weir_nf::host::Place;

use crate::audit::Audit;
use crate::flows::{FlowTable, Found};
use crate::runtime::Runtime;
use crate::stages::Kind;

/// Most traces of one runtime at a time: bits of a packet's mark.
pub const MOST_TRACES: usize = 8;
/// Most taps of one runtime at a time.
pub const MOST_TAPS: usize = 16;

/// A packet as a watch is asked whether it wants it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Its metadata.
    pub meta: &'a FrameMeta,
    /// Its bytes, as they are here.
    pub bytes: &'a [u8],
    /// Its headers; `None` where it is malformed.
    pub headers: Option<&'a Headers>,
    /// The key that its headers make here.
    pub key: Option<FlowKey>,
    /// The flow it belongs to, where that is open already.
    pub flow: Option<SeenFlow>,
    /// Name of the chain.
    pub chain: &'a str,
}

/// The flow of a packet that is [`Seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFlow {
    /// Its key: that of its first packet, whatever addresses this one carries.
    pub key: FlowKey,
    /// The packet's direction, under that key.
    pub direction: Direction,
    /// The packet goes from client to server.
    pub to_server: bool,
    /// Number of the flow.
    pub id: u64,
    /// Where the connection stands: `open`, `answered`, `established`,
    /// `closing` or `closed`.
    pub phase: &'static str,
}

/// What a watch says when it was given something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It goes on.
    More,
    /// It has enough, or nobody listens any more: it is taken off.
    Enough,
}

/// Who wants packets traced. Its calls come from within a burst: they must not
/// wait for anything.
pub trait Tracer: Send {
    /// True where this packet, which has just come in, is to be traced.
    fn wants(&mut self, seen: &Seen<'_>) -> bool;
    /// A traced packet has gone its way here.
    fn put(&mut self, trace: PacketTrace) -> Taken;
    /// True where unchanged state is to be recorded as well.
    fn is_full(&self) -> bool {
        false
    }
}

/// Why a watch can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyWatches;

impl core::fmt::Display for TooManyWatches {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "there are {MOST_TRACES} traces or {MOST_TAPS} taps already: end one of them first"
        )
    }
}

impl std::error::Error for TooManyWatches {}

/// All watches of a runtime.
pub(crate) struct Watches {
    tracers: [Option<Box<dyn Tracer>>; MOST_TRACES],
    taps: Vec<tap::Armed>,
    /// The packet that is alone in the burst at hand.
    current: Option<Box<trace::Current>>,
    /// Packets of the burst at hand that the engine dropped, and why.
    dropped: Vec<(u8, Why)>,
    options: ParseOptions,
}

/// Every reason for which the engine itself may drop a packet, as in reports.
pub fn engine_drops() -> impl Iterator<Item = String> {
    let malformed = Malformed::ALL.iter();
    let malformed = malformed.map(|fault| format!("malformed.{}", fault.reason()));
    crate::drops::EngineDrop::names()
        .map(str::to_owned)
        .chain(malformed)
}

/// Why the engine itself drops a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    Engine(crate::drops::EngineDrop),
    Malformed(Malformed),
}

impl Why {
    /// As in the report.
    fn name(self) -> String {
        match self {
            Why::Engine(reason) => reason.name().to_owned(),
            Why::Malformed(fault) => format!("malformed.{}", fault.reason()),
        }
    }
}

/// Who looks on: the audit of descriptors, traces and taps.
pub(crate) struct Observers {
    audit: Option<Box<Audit>>,
    watches: Option<Box<Watches>>,
    /// There is one of them.
    any: bool,
    inner: bool,
}

impl Observers {
    /// `inner`: tunnels are opened.
    pub(crate) fn new(audit: bool, inner: bool) -> Observers {
        Observers {
            audit: audit.then(|| Box::new(Audit::new(inner))),
            watches: None,
            any: audit,
            inner,
        }
    }

    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any
    }

    pub(crate) fn audits(&self) -> bool {
        self.audit.is_some()
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.audit.as_deref()
    }

    pub(crate) fn audit_mut(&mut self) -> Option<&mut Audit> {
        self.audit.as_deref_mut()
    }

    /// The watches, for one more.
    fn watches(&mut self) -> &mut Watches {
        self.any = true;
        let inner = self.inner;
        self.watches
            .get_or_insert_with(|| Box::new(Watches::new(inner)))
    }

    /// Without a watch nothing is looked at.
    fn put_away(&mut self) {
        if self.watches.as_ref().is_some_and(|w| w.is_empty()) {
            self.watches = None;
        }
        self.any = self.watches.is_some() || self.audit.is_some();
    }
}

impl Watches {
    fn new(inner: bool) -> Watches {
        Watches {
            tracers: Default::default(),
            taps: Vec::new(),
            current: None,
            dropped: Vec::with_capacity(64),
            options: ParseOptions {
                depth: Depth::L4,
                inner,
                lenient: true,
            },
        }
    }

    fn is_empty(&self) -> bool {
        self.taps.is_empty() && self.tracers.iter().all(Option::is_none)
    }

    /// Slots in which there is a trace, as bits.
    fn slots(&self) -> u8 {
        let slots = self.tracers.iter().enumerate();
        slots.fold(0, |bits, (slot, tracer)| {
            bits | u8::from(tracer.is_some()) << slot
        })
    }
}

impl Runtime {
    /// Arms a trace in a slot (below [`MOST_TRACES`]), in place of the one that
    /// was there. Runtimes that pass packets to one another use the same slot
    /// for the same trace.
    ///
    /// # Errors
    ///
    /// There is no such slot.
    pub fn trace(&mut self, slot: u8, tracer: Box<dyn Tracer>) -> Result<(), TooManyWatches> {
        let watches = self.observers.watches();
        let place = watches.tracers.get_mut(usize::from(slot));
        *place.ok_or(TooManyWatches)? = Some(tracer);
        Ok(())
    }

    /// Takes the trace of a slot off.
    pub fn end_trace(&mut self, slot: u8) {
        if let Some(watches) = &mut self.observers.watches
            && let Some(place) = watches.tracers.get_mut(usize::from(slot))
        {
            *place = None;
        }
        self.observers.put_away();
    }

    /// Arms a tap.
    ///
    /// # Errors
    ///
    /// There are [`MOST_TAPS`] already.
    pub fn tap(&mut self, tap: Tap) -> Result<(), TooManyWatches> {
        let armed = tap::Armed::new(tap, self);
        let watches = self.observers.watches();
        if watches.taps.len() >= MOST_TAPS {
            return Err(TooManyWatches);
        }
        watches.taps.push(armed);
        Ok(())
    }

    /// Takes the tap with this number off.
    pub fn end_tap(&mut self, number: u64) {
        if let Some(watches) = &mut self.observers.watches {
            watches.taps.retain(|tap| tap.number() != number);
        }
        self.observers.put_away();
    }

    /// Traces and taps that are armed.
    pub fn watches(&self) -> usize {
        self.observers.watches.as_ref().map_or(0, |watches| {
            watches.slots().count_ones() as usize + watches.taps.len()
        })
    }

    /// Looks at a packet as far as a watch may ask.
    fn see<T>(
        &self,
        memory: &PacketMemory,
        frame: &Frame,
        options: &ParseOptions,
        look: impl FnOnce(&Seen<'_>) -> T,
    ) -> T {
        let (meta, bytes) = memory.read(frame);
        let mut headers = Headers::default();
        let readable = parse_into(bytes, meta.link, options, &mut headers).is_ok();
        let key = match flow_key(bytes, &headers, self.reading.key()) {
            KeyOutcome::Flow(key, direction) if readable => {
                let turned = meta.flags & frame_flags::TURNED != 0;
                Some((if turned { key.turned(direction) } else { key }, direction))
            }
            _ => None,
        };
        let flow = || {
            let (table, side) = (self.table.as_ref()?, meta.side);
            if self.plan.kind() == Kind::Later {
                // Its first stage has looked it up.
                let place = Place::of_carried(meta.place());
                let live = (place.flow as usize) < table.flows.blocks.count()
                    && table.flows.is_live(place.flow);
                return live.then(|| seen_flow(table, place.flow, place.direction));
            }
            let (key, direction) = key?;
            let found = match &self.follow {
                Some(follow) => {
                    let unit = follow.units.get(meta.unit)?;
                    table.find_in(&follow.units, unit, &key, direction, side)
                }
                None => table.find(&key, key.hash(table.seed()), direction, side),
            };
            match found {
                Found::Flow(flow, direction) => Some(seen_flow(table, flow, direction)),
                _ => None,
            }
        };
        look(&Seen {
            meta,
            bytes,
            headers: readable.then_some(&headers),
            key: key.map(|(key, _)| key),
            flow: flow(),
            chain: self.functions.chain(),
        })
    }
}

fn seen_flow(table: &FlowTable, flow: u32, direction: Direction) -> SeenFlow {
    let head = table.flows.blocks.head(flow);
    SeenFlow {
        key: head.key,
        direction,
        to_server: direction == head.client_direction(),
        id: weir_nf::shown_id(head.id),
        phase: trace::phase_name(head.phase()),
    }
}
