//! Names that pass from one unit to another.
//!
//! A late packet of a connection that is over may open a flow in a unit of its
//! own, and the client's next connection may take that flow's key as its alias:
//! a balancer picks the same server again. The rule (docs/handover.md, *Who
//! owns a name*):
//!
//! - A name has one owner at a time. The entry that asks for it takes it, when
//!   it is next at the gate: later packets that come by it are numbered in the
//!   new owner's unit.
//! - That entry, and all behind it, wait until the old owner has let out what
//!   it was numbered by then. So packets that came by the name stay in order.
//! - A unit that waits keeps its names: an entry that it waits for does not take
//!   them. So no two units wait for one another, and each wait ends.

use weir_nf::host::AliasRequest;
use weir_packet::{Disposition, FlowKey, Frame, FramePool, PacketMemory, Time};
use weir_runtime::notes::{self, Note};

use super::{Switch, SwitchCount};
use crate::ids::UnitId;
use crate::journal::Done;
use crate::plant::Plant;

/// A unit that lets nothing out until another one has.
#[derive(Clone, Copy, Debug)]
struct Wait {
    unit: UnitId,
    /// The unit that had the name.
    of: UnitId,
    /// Its last clock when the name passed.
    until: u64,
}

/// All of them. They form no circle. At most one for each numbered packet.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    waits: Vec<Wait>,
}

impl Takeovers {
    /// True where no unit waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Units that wait.
    pub(super) fn count(&self) -> usize {
        self.waits.len()
    }

    fn waits(&self, unit: UnitId) -> bool {
        self.waits.iter().any(|wait| wait.unit == unit)
    }

    /// True where `unit` waits for `of`, or for one that does.
    fn depends(&self, unit: UnitId, of: UnitId) -> bool {
        let own = self.waits.iter().filter(|wait| wait.unit == unit);
        own.into_iter()
            .any(|wait| wait.of == of || self.depends(wait.of, of))
    }
}

impl Switch {
    /// True where the next entry of `unit`, with these side frames, has to wait
    /// for units whose names it takes. They are its from now on.
    pub(super) fn waits_for_name(
        &mut self,
        unit: UnitId,
        side: &[Frame],
        memory: &PacketMemory,
    ) -> bool {
        let notes = side.iter().filter_map(|frame| {
            let (meta, bytes) = memory.read(frame);
            (meta.disposition == Disposition::Notes).then_some(bytes)
        });
        for note in notes.flat_map(notes::read).flatten() {
            if let Note::Alias { flow, request } = note
                && !self.is_yielded(unit, &request.key)
            {
                self.wait_for_owner(unit, &flow, &request);
            }
        }
        self.takeovers.waits(unit)
    }

    /// Takes the name from a unit with packets on their way, and waits for them.
    fn wait_for_owner(&mut self, unit: UnitId, flow: &FlowKey, request: &AliasRequest) {
        let Some(of) = self.other_owner(unit, &request.key) else {
            return;
        };
        let Some(place) = self.units.find(of) else {
            return;
        };
        let other = self.units.at(place);
        let (out, until) = (other.out, other.sent);
        if out >= until
            || of.0 == self.classifier.liaison()
            || self.settings.plant == Some(Plant::NameUnawaited)
            || !self.take_name(unit, flow, request)
        {
            return;
        }
        self.counts.add(SwitchCount::NameWaited);
        self.takeovers.waits.push(Wait { unit, of, until });
    }

    fn other_owner(&self, unit: UnitId, key: &FlowKey) -> Option<UnitId> {
        let of = self.classifier.unit_of_name(key).map(UnitId);
        of.filter(|of| *of != unit)
    }

    fn is_yielded(&self, unit: UnitId, key: &FlowKey) -> bool {
        !self.takeovers.is_empty()
            && self.settings.plant != Some(Plant::NamesCrossed)
            && self
                .other_owner(unit, key)
                .is_some_and(|of| self.takeovers.depends(of, unit))
    }

    /// True where the name stays with its owner, which waits for `unit`.
    pub(super) fn yields_name(&mut self, unit: UnitId, key: &FlowKey) -> bool {
        let is_planted = self.settings.plant == Some(Plant::YieldedAlways);
        if !self.is_yielded(unit, key) && !is_planted {
            return false;
        }
        if let Some(of) = self.other_owner(unit, key) {
            self.counts.add(SwitchCount::NameYielded);
            let key = *key;
            self.outbox.journal.note(Done::Yielded { unit, of, key });
        }
        true
    }

    /// Gives the unit's flow a name, whoever has it. False where there is no
    /// room.
    pub(super) fn take_name(
        &mut self,
        unit: UnitId,
        flow: &FlowKey,
        request: &AliasRequest,
    ) -> bool {
        let of = self.other_owner(unit, &request.key);
        let is_alias = |key| self.classifier.alias_of(key).is_some();
        let was_alias = is_alias(&request.key);
        let flow_was_alias = is_alias(flow) || *flow == request.key;
        let is_added = self.classifier.add_alias(unit.0, flow, request);
        // The flow may have got a name first.
        self.count_name(unit, flow, flow_was_alias);
        if !is_added {
            return false;
        }
        self.count_name(unit, &request.key, was_alias);
        if let Some(of) = of {
            self.counts.add(SwitchCount::NameTaken);
            let key = request.key;
            self.outbox.journal.note(Done::Taken { unit, of, key });
        }
        true
    }

    /// Lets out the entries that need not wait any more.
    #[inline]
    pub(super) fn take_names_over(&mut self, now: Time, pool: &mut FramePool) {
        if !self.takeovers.is_empty() {
            self.look_at_takeovers(now, pool);
        }
    }

    #[cold]
    fn look_at_takeovers(&mut self, now: Time, pool: &mut FramePool) {
        let memory = pool.memory().clone();
        let mut at = 0;
        while let Some(&wait) = self.takeovers.waits.get(at) {
            let other = self.units.find(wait.of).map(|place| self.units.at(place));
            let waits = other.is_some_and(|other| other.out < wait.until);
            if waits && self.units.find(wait.unit).is_some() {
                at += 1;
                continue;
            }
            self.takeovers.waits.swap_remove(at);
            if !self.takeovers.waits(wait.unit)
                && let Some(place) = self.units.find(wait.unit)
            {
                self.let_out_parked(now, pool, &memory, place);
                // Another unit may wait for what it let out.
                at = 0;
            }
        }
    }
}
