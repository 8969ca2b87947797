//! Entries that wait for a name that another unit has.
//!
//! A late packet of a connection that is over may open a flow in a unit of its
//! own, and the client's next connection may take that flow's key as its alias:
//! a balancer picks the same server again. One key is one unit's while any number
//! is in flight (design §6). So the entry that registers the alias waits, parked
//! at the gate, until what the other unit was sent is let out. Otherwise packets
//! of the new connection would overtake those of the old one.
//!
//! Two units may want names of each other. So that no two wait for one another, a
//! unit that is waited for does not wait, and no unit waits for one that waits.

use weir_packet::{Disposition, Frame, FramePool, PacketMemory, Time};
use weir_runtime::notes::{self, Note};

use super::{Switch, SwitchCount};
use crate::ids::UnitId;

/// More packets of the other unit that may be numbered while an entry waits: one
/// that is sent packets all the time does not keep its name for ever.
const MOST_MORE: u64 = 256;

/// A unit whose next entry waits.
#[derive(Clone, Copy, Debug)]
struct Wait {
    unit: UnitId,
    /// The unit that has the name.
    of: UnitId,
    /// It waits until this clock of the other unit is let out, or all that was
    /// sent to it.
    until: u64,
}

/// All of them: one for each unit at most.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    waits: Vec<Wait>,
}

impl Switch {
    /// True where the next entry of `unit`, with these side frames, has to wait
    /// for another unit's name. Noted then, and looked at after each burst.
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
            let Note::Alias { request, .. } = note else {
                continue;
            };
            if let Some(of) = self.classifier.unit_of(&request.key).map(UnitId)
                && of != unit
                && self.must_wait(unit, of)
            {
                return true;
            }
        }
        false
    }

    fn must_wait(&mut self, unit: UnitId, of: UnitId) -> bool {
        let Some(place) = self.units.find(of) else {
            return false;
        };
        let other = self.units.at(place);
        if other.out >= other.sent || of.0 == self.classifier.liaison() {
            return false;
        }
        let (out, sent) = (other.out, other.sent);
        let waits = &mut self.takeovers.waits;
        if waits.iter().any(|w| w.unit == of || w.of == unit) {
            return false;
        }
        match waits.iter_mut().find(|w| w.unit == unit) {
            Some(wait) if wait.of == of => return out < wait.until,
            Some(wait) => {
                let until = sent.saturating_add(MOST_MORE);
                *wait = Wait { unit, of, until };
            }
            None => {
                let until = sent.saturating_add(MOST_MORE);
                waits.push(Wait { unit, of, until });
            }
        }
        self.counts.add(SwitchCount::NameWaited);
        true
    }

    /// Lets out the entries whose names are free now.
    #[inline]
    pub(super) fn take_names_over(&mut self, now: Time, pool: &mut FramePool) {
        if !self.takeovers.waits.is_empty() {
            self.look_at_takeovers(now, pool);
        }
    }

    #[cold]
    fn look_at_takeovers(&mut self, now: Time, pool: &mut FramePool) {
        let memory = pool.memory().clone();
        let mut at = 0;
        while let Some(&wait) = self.takeovers.waits.get(at) {
            let other = self.units.find(wait.of).map(|place| self.units.at(place));
            let waits = other.is_some_and(|o| o.out < o.sent && o.out < wait.until);
            let place = self.units.find(wait.unit);
            if waits && place.is_some() {
                at += 1;
                continue;
            }
            if let Some(place) = place {
                self.let_out_parked(now, pool, &memory, place);
            }
            let is_it = |w: &Wait| w.unit == wait.unit && w.of == wait.of;
            self.takeovers.waits.retain(|w| !is_it(w));
        }
    }
}
