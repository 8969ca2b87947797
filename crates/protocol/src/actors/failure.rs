//! Views after a failure: a holder of the last settled view goes on from what
//! it has.

use weir_packet::{FramePool, Time};

use super::cold::{Cursors, Role, Stored};
use super::handover::image_of;
use super::kept::Kept;
use super::{ActorCount, Actors};
use crate::message::{Entry, Open, Refusal};
use crate::plant::Plant;

impl Actors {
    /// This runtime's actor of the settled view, as owner or replica, is the
    /// one to go on. A copy of it stays: the next view after another failure
    /// begins there too, and what still comes for the old view must not reach
    /// the new one's state.
    pub(super) fn open_resumed(&mut self, now: Time, pool: &mut FramePool, open: &Open) {
        let unit = open.unit;
        let live = self.table.live(unit).filter(|hot| hot.view == open.old);
        if let Some(hot) = live {
            let state = self.export(unit);
            let cold = self.cold.entry(unit).or_default();
            let entries = cold.live.kept.to_vec();
            if self.settings.plant != Some(Plant::SharedActor) {
                let stored = Stored {
                    role: Role::Retired,
                    peer: cold.live.passes_on(),
                    clock: hot.clock,
                    state,
                    kept: core::mem::take(&mut cold.live.kept),
                    said: now,
                    cursors: Cursors::default(),
                };
                cold.stored.insert(open.old, stored);
            }
            self.counts.add(ActorCount::ResumedOwner);
            self.count_restart(open, &entries);
            let kept = Kept::after(entries, open.out);
            self.take_over(now, pool, open, hot.clock, kept);
            self.ask_for_silent(now, unit);
        } else if let Some(stored) = self.cold.get(&unit).and_then(|c| c.stored.get(&open.old)) {
            let image = image_of(stored);
            self.counts.add(ActorCount::ResumedCopy);
            self.count_restart(open, &image.outputs);
            self.retire(unit);
            self.install(now, pool, open, image);
        } else {
            return self.refuse(unit, open.view, Refusal::NoState);
        }
        if let Some(cold) = self.cold.get_mut(&unit)
            && self.settings.plant == Some(Plant::SharedActor)
        {
            cold.live.resumed = open.old;
        }
    }
    /// After its switch's restart a unit goes on after the last packet that was
    /// applied: outputs of those up to there that the switch was not known to
    /// have let out will not leave any more.
    pub(super) fn count_restart(&mut self, open: &Open, outputs: &[Entry]) {
        if open.old.generation() < open.view.generation() {
            let over = |entry: &&Entry| entry.clock <= open.out;
            let lost = outputs.iter().filter(over).count() as u64;
            self.counts.add_many(ActorCount::SwitchRestart, lost);
        }
    }
}
