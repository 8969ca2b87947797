//! A switch that starts again: its elders are fenced, and it hears what is
//! here.

use weir_packet::{FramePool, Time};

use super::cold::Role;
use super::table::Hot;
use super::{ActorCount, Actors};
use crate::ids::{UnitId, View};
use crate::message::{CLAIMS, Claim, Message};

/// Names in one piece of an answer, unless one claim has more: a stream's
/// queue has room for messages of a bounded length.
const NAMES: usize = 256;

impl Actors {
    /// A switch of this generation speaks: nothing of an older one's views is
    /// applied, stored or forgotten any more.
    pub(super) fn renew(&mut self, pool: &mut FramePool, generation: u16) {
        if generation <= self.generation {
            return;
        }
        let before = core::mem::replace(&mut self.generation, generation);
        if before == 0 {
            return;
        }
        self.counts.add(ActorCount::Fenced);
        for (_, asked) in &mut self.wanted {
            *asked = None;
        }
        let units: Vec<Hot> = self.table.units().collect();
        for hot in units {
            if hot.is_live() && hot.view.generation() < generation {
                let limit = hot.clock;
                self.table.set(Hot { limit, ..hot });
            }
        }
        for (unit, cold) in &mut self.cold {
            cold.waiting = None;
            cold.closing = None;
            cold.copying = None;
            cold.ahead = None;
            cold.staged = None;
            cold.ending = None;
            cold.preferred = None;
            cold.refused = None;
            if cold.early.take().is_some() {
                self.engine.forget_unit(unit.0);
            }
        }
        let dropped = self.hold.clear(pool);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
    }

    /// Answers the switch's question, from the piece that it misses on: a full
    /// queue keeps the front of what it is given. What is here does not change
    /// any more while it asks, so neither do the pieces.
    pub(super) fn recover(&mut self, now: Time, pool: &mut FramePool, generation: u16, from: u32) {
        self.flush(now, pool);
        self.renew(pool, generation);
        self.claim_blocks();
        let (mut answer, mut claims, mut names) = (Vec::new(), Vec::new(), 0);
        let units: Vec<Hot> = self.table.units().collect();
        for hot in units {
            // A switch that has opened a view has heard enough of the unit:
            // this is an old question.
            if self.newest(&hot).generation() >= generation {
                continue;
            }
            match self.claim_of(&hot) {
                Some(claim) => {
                    self.counts.add(ActorCount::Claimed);
                    let more = claim.flows.len() + claim.aliases.len();
                    if claims.len() >= CLAIMS || !claims.is_empty() && names + more > NAMES {
                        answer.push(core::mem::take(&mut claims));
                        names = 0;
                    }
                    names += more;
                    claims.push(claim);
                }
                // What has no state has no names: nobody could find it. What
                // the new switch has opened since is its own.
                None => {
                    let is_old = self.newest(&hot).generation() < generation;
                    if is_old && self.drop_stateless(pool, &hot) {
                        self.counts.add(ActorCount::Unclaimed);
                    }
                }
            }
        }
        if answer.is_empty() || !claims.is_empty() {
            answer.push(claims);
        }
        let pieces = answer.len() as u32;
        // What it knows of may be another answer than this one.
        let from = if from < pieces { from } else { 0 };
        for (piece, claims) in (0..pieces).zip(answer).skip(from as usize) {
            self.tell_switch(Message::Claims {
                generation,
                piece,
                pieces,
                claims,
            });
        }
    }

    /// The best that is here of a unit: the highest view with state.
    fn claim_of(&self, hot: &Hot) -> Option<Claim> {
        let unit = hot.unit;
        let live = match hot.is_live() {
            true => self
                .export(unit)
                .map(|state| (hot.view, true, hot.clock, state)),
            false => None,
        };
        let stored = self.cold.get(&unit).and_then(|cold| {
            let with_state = |(view, stored): (&View, &super::Stored)| {
                let state = stored.state.clone()?;
                Some((*view, stored.role != Role::Replica, stored.clock, state))
            };
            cold.stored.iter().rev().find_map(with_state)
        });
        let (view, owner, clock, state) = match (live, stored) {
            (Some(live), Some(stored)) if stored.0 > live.0 => stored,
            (Some(live), _) => live,
            (None, stored) => stored?,
        };
        let (flows, aliases) = self.engine.read_names(&state).ok()?;
        let key = self.engine.read_scope_key(&state).ok()?;
        Some(Claim {
            unit,
            view,
            owner,
            clock,
            key,
            flows,
            aliases,
        })
    }

    fn drop_stateless(&mut self, pool: &mut FramePool, hot: &Hot) -> bool {
        let unit: UnitId = hot.unit;
        let stored = self.cold.get(&unit).is_some_and(|c| !c.stored.is_empty());
        let known = hot.is_live() || stored;
        if known {
            self.drop_unit(pool, unit);
        }
        known
    }
}
