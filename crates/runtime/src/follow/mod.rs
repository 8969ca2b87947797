//! An engine under a switch: units, clocks and views come with the packets,
//! and everything they cause goes back as entries.
//!
//! Alone ([`crate::Runtime::process`]) an engine names units itself and ends flows
//! when they have been idle. Under a switch ([`crate::RuntimeConfig::follows`])
//! the frames say which unit they belong to, in which order they were
//! numbered, and nothing changes a unit but its own packets: what is due in it
//! ends at a tick, which is numbered like a packet.
//!
//! The results of a unit's packets depend on those packets alone, not on other
//! units of the engine: two engines that are given the same packets of a unit
//! in the same order give the same entries. So keys are names within a unit
//! ([`names`]), times are those of the packet at hand, limits are per packet
//! or per unit, and no flow makes room for another unit's. Only where a table,
//! the packet memory or the ports are used up does one unit feel another; that
//! is counted.

pub(crate) mod apply;
pub(crate) mod datagrams;
mod due;
mod engine;
mod leave;
pub(crate) mod names;
mod open;
mod touch;
pub(crate) mod units;

use weir_nf::host::{AliasRequest, BURST, FlowOptions, MAX_ALIASES, MAX_EMITS};
use weir_packet::{FlowKey, Frame, Internal};

pub use apply::FRAMES_PER_TICK;
use datagrams::Datagrams;
use units::Units;

use crate::flows::FlowTable;

/// The kind of a thing that begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    FlowEnded,
    /// An open alias: those of a flow go with it.
    AliasEnded,
    FlowOpened {
        client_is_b: bool,
    },
}

/// The end or the opening of a flow, or the end of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Place in the burst of the packet that caused it.
    pub(crate) cause: u8,
    pub(crate) key: FlowKey,
    pub(crate) what: What,
}

/// The part of an engine that only one under a switch has.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) units: Units,
    pub(crate) datagrams: Datagrams,
    /// Flows and open aliases that ended in this burst, and flows that must be
    /// made known.
    pub(crate) turns: Vec<Turn>,
    /// Flows and open aliases that have ended, heard or not; counts on, and
    /// round.
    pub(crate) ends: usize,
    /// Names given in this burst: whose packet, the flow's key, the name.
    pub(crate) named: Vec<(u8, FlowKey, AliasRequest)>,
    /// Units in which this burst has opened a flow.
    pub(crate) opened: Vec<u64>,
    /// Packets made in this burst, in the order in which they leave.
    pub(crate) emitted: Vec<(u32, Frame)>,
    /// Notes on their way into a frame.
    pub(crate) text: Vec<u8>,
}

/// The assertion that a missing [`Follow`] breaks.
const FOLLOWS: &str = "the stage is under a switch";

/// Both parts that an engine under a switch has; a missing one is counted.
pub(crate) fn following<'t>(
    internal: &mut Internal,
    table: &'t mut Option<FlowTable>,
    follow: &'t mut Option<Box<Follow>>,
) -> Option<(&'t mut FlowTable, &'t mut Follow)> {
    let both = table.as_mut().zip(follow.as_deref_mut());
    internal.expect(both, FOLLOWS)
}

impl Follow {
    pub(crate) fn new(options: &FlowOptions, flows: usize, advise: weir_packet::Advise) -> Follow {
        // The liaison unit has a place as well.
        let places = if flows == 0 {
            0
        } else {
            options.max as usize + 1
        };
        Follow {
            units: Units::new(places, flows, advise),
            datagrams: Datagrams::new(),
            turns: Vec::with_capacity(2 * BURST),
            ends: 0,
            named: Vec::with_capacity(MAX_ALIASES),
            opened: Vec::with_capacity(BURST),
            emitted: Vec::with_capacity(MAX_EMITS),
            text: Vec::with_capacity(1 << 16),
        }
    }
}

impl Follow {
    /// Takes a flow that ends out of its unit, and what was remembered of it.
    pub(crate) fn take_out(&mut self, flow: u32) {
        let unit = self.units.unit_of(flow).map_or(0, |unit| unit.id);
        if let Some(unit) = self.units.get_mut(unit) {
            self.datagrams.forget_flow(unit, flow);
        }
        self.units.remove(flow);
    }
}
