//! The unit of each leased port, by the notes of what was let out.

use std::collections::{BTreeMap, BTreeSet};

use weir_nf::{PoolId, PortLease};
use weir_packet::{Disposition, FlowKey};
use weir_protocol::UnitId;
use weir_protocol::message::Entry;
use weir_runtime::notes::{self, Note};

use super::show::show_unit;

/// A port, and the clock of the packet that leased it.
#[derive(Clone, Copy, Debug)]
struct Held {
    port: (PoolId, PortLease),
    since: u64,
    /// The flow that has it alone; `None` where all flows of the unit share it.
    flow: Option<FlowKey>,
}

/// Ports that live flows have. A unit of the simulator's chains has one mapping at a
/// time: an address-and-port-dependent one is a flow's, an endpoint-independent one is
/// shared by all flows of a unit.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    of: BTreeMap<UnitId, Held>,
    /// The flow that had a port alone last: one that began anew leases its next port without
    /// an alias where its old one leads to the unit still.
    last: BTreeMap<UnitId, FlowKey>,
}

/// A port that two live units have.
#[derive(Clone, Debug)]
pub(crate) struct Doubled {
    /// The one that had it first.
    other: UnitId,
    since: u64,
    lease: PortLease,
}

impl Doubled {
    /// The unit that had the port first.
    pub(super) fn other(&self) -> UnitId {
        self.other
    }
}

impl core::fmt::Display for Doubled {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Doubled {
            other,
            since,
            lease,
        } = self;
        write!(
            f,
            "it leases port {} ({:?}), which unit {} has since its packet {since}",
            lease.port,
            lease.space,
            show_unit(*other),
        )
    }
}

/// The ports and flows in the notes of an entry.
#[derive(Debug, Default)]
pub(super) struct Turn {
    leased: Vec<(PoolId, PortLease)>,
    opened: BTreeSet<FlowKey>,
    ended: BTreeSet<FlowKey>,
    /// The flow whose answers alone the leased port takes.
    flow: Option<FlowKey>,
    /// An alias takes those of all.
    is_shared: bool,
}

impl Turn {
    /// Reads the notes of an entry.
    pub(super) fn of(made: &Entry) -> Turn {
        let mut turn = Turn::default();
        let is_notes =
            |part: &&weir_protocol::message::Part| part.disposition == Disposition::Notes;
        for part in made.parts.iter().filter(is_notes) {
            for note in notes::read(&part.bytes).flatten() {
                match note {
                    Note::Leased { pool, lease } => turn.leased.push((pool, lease)),
                    Note::FlowOpened { key, .. } => {
                        turn.opened.insert(key);
                    }
                    Note::FlowEnded { key } => {
                        turn.ended.insert(key);
                    }
                    Note::Alias { flow, request } if !request.open => turn.flow = Some(flow),
                    Note::Alias { .. } => turn.is_shared = true,
                    _ => {}
                }
            }
        }
        turn.flow = turn.flow.filter(|_| !turn.is_shared);
        turn
    }

    /// Ports that were leased, in this order.
    pub(super) fn leased(&self) -> &[(PoolId, PortLease)] {
        &self.leased
    }
}

impl Bindings {
    /// An entry was applied. `flows` gives the unit's flows after it. Gives a port that it
    /// leased and another live unit has.
    pub(super) fn turn(
        &mut self,
        unit: UnitId,
        clock: u64,
        turn: &Turn,
        flows: impl FnOnce() -> Vec<FlowKey>,
    ) -> Option<Doubled> {
        // A flow takes its mapping with it, the last one that of all; one that the same
        // packet opened has its own.
        let own = self.of.get(&unit).and_then(|held| held.flow);
        let is_over = match own {
            Some(flow) => turn.ended.contains(&flow),
            None => !turn.ended.is_empty() && flows().iter().all(|key| turn.opened.contains(key)),
        };
        if is_over {
            self.of.remove(&unit);
        }
        let mut doubled = None;
        for &port in &turn.leased {
            doubled = self.other_with(unit, port).or(doubled);
            let last = self.last.get(&unit).filter(|_| !turn.is_shared);
            let flow = turn.flow.or(last.copied());
            self.last.extend(flow.map(|flow| (unit, flow)));
            let held = Held {
                port,
                since: clock,
                flow,
            };
            self.of.insert(unit, held);
        }
        doubled
    }

    /// Another live unit with this port.
    fn other_with(&self, unit: UnitId, port: (PoolId, PortLease)) -> Option<Doubled> {
        let mut others = self.of.iter();
        let (other, held) = others.find(|(other, held)| **other != unit && held.port == port)?;
        Some(Doubled {
            other: *other,
            since: held.since,
            lease: port.1,
        })
    }

    /// Another live unit with this one's port.
    pub(super) fn doubled_of(&self, unit: UnitId) -> Option<Doubled> {
        self.other_with(unit, self.of.get(&unit)?.port)
    }

    /// All ports that live units have.
    pub(super) fn ports(&self) -> impl Iterator<Item = (UnitId, (PoolId, PortLease))> + '_ {
        self.of.iter().map(|(unit, held)| (*unit, held.port))
    }

    /// The unit's packets after `out` are undone.
    pub(super) fn go_back(&mut self, unit: UnitId, out: u64) {
        if self.of.get(&unit).is_some_and(|held| held.since > out) {
            self.of.remove(&unit);
        }
    }

    /// The unit has no state any more.
    pub(super) fn forget(&mut self, unit: UnitId) {
        self.last.remove(&unit);
        self.of.remove(&unit);
    }
}
