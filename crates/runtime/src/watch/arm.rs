//! Arms watches, and looks at packets for them.

use weir_nf::host::Place;
use weir_packet::{
    Direction, Frame, Headers, KeyOutcome, PacketMemory, ParseOptions, flow_key, frame_flags,
    parse_into,
};

use super::seen::{Seen, SeenFlow, Tracer, phase_name};
use super::tap::{Armed, Tap};
use super::watches::{MOST_TAPS, MOST_TRACES};
use crate::flows::{FlowTable, Found};
use crate::runtime::Runtime;
use crate::stages::Kind;

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
        let names = self.functions.nodes().iter().map(|node| node.name.as_str());
        let armed = Armed::new(tap, names);
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
    pub(super) fn see<T>(
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
        phase: phase_name(head.phase()),
    }
}
