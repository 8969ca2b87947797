//! The switch's counts and gauges, held against its journal: what nobody looks at in a run
//! is what an operator looks at after one.

use std::collections::BTreeMap;

use weir_protocol::UnitId;
use weir_protocol::journal::{Done, Start};

use super::unit::UnitRecord;

/// What the journal of the current switch says, by number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Numbers given, to packets and ticks.
    pub(crate) numbered: u64,
    pub(crate) opened: u64,
    /// Views opened as planned, and those that a view after a failure replaced.
    pub(crate) planned: u64,
    pub(crate) failed: u64,
    /// Views opened from no state.
    pub(crate) empty: u64,
    pub(crate) settled: u64,
    /// Those that had been opened as planned.
    pub(crate) moved: u64,
    pub(crate) let_out: u64,
    /// Those of a view that was closed.
    pub(crate) closing: u64,
    pub(crate) lost: u64,
    pub(crate) ended: u64,
    pub(crate) aliases: u64,
    pub(crate) taken: u64,
    pub(crate) yielded: u64,
}

impl Ledger {
    /// Writes a line of the journal down, before anything else is made of it.
    pub(super) fn note(&mut self, done: &Done, units: &BTreeMap<UnitId, UnitRecord>) {
        let ledger = self;
        match *done {
            Done::Numbered { .. } => ledger.numbered += 1,
            Done::Opened { unit, from, .. } => {
                ledger.opened += 1;
                ledger.planned += u64::from(from == Start::Planned);
                ledger.empty += u64::from(matches!(from, Start::Nothing | Start::AfterLoss));
                let before = units.get(&unit);
                let before = before.filter(|unit| unit.is_live() && !unit.unopened);
                let is_given_up = before.is_some_and(|unit| {
                    let settled = unit.settled.map(|settled| settled.view);
                    unit.current.start == Start::Planned && settled != Some(unit.current.view)
                });
                let replaces = matches!(from, Start::Resumed | Start::Claimed(_));
                ledger.failed += u64::from(is_given_up && replaces);
            }
            Done::Settled { unit, view } => {
                ledger.settled += 1;
                let unit = units.get(&unit);
                let is_planned = |unit: &UnitRecord| {
                    unit.current.view == view && unit.current.start == Start::Planned
                };
                ledger.moved += u64::from(unit.is_some_and(is_planned));
            }
            Done::LetOut { unit, view, .. } => {
                ledger.let_out += 1;
                let unit = units.get(&unit);
                let is_closing = unit.is_some_and(|unit| unit.current.view != view);
                ledger.closing += u64::from(is_closing);
            }
            Done::OwnerLost { .. } => ledger.lost += 1,
            Done::Ended { .. } => ledger.ended += 1,
            Done::Alias { .. } => ledger.aliases += 1,
            Done::Taken { .. } => ledger.taken += 1,
            Done::Yielded { .. } => ledger.yielded += 1,
        }
    }
}
