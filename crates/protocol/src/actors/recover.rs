//! A switch that starts again: its elders are fenced, and it hears what is
//! here.

use weir_packet::{FramePool, Time};

use super::cold::Role;
use super::table::Hot;
use super::{ActorCount, Actors};
use crate::ids::{RuntimeId, UnitId, View};
use crate::message::{CLAIMS, Claim, Message};
use crate::plant::Plant;

/// Names in one piece of an answer, unless one claim has more: a stream's
/// queue has room for messages of a bounded length.
const NAMES: usize = 256;

/// The answer to a switch that starts, until it opens a view: its next question costs no walk over
/// all units then.
#[derive(Debug)]
pub(super) struct Answer {
    generation: u16,
    pieces: Vec<Vec<Claim>>,
}

impl Actors {
    /// Runtimes of which a switch has said that it suspects them: the next one is told.
    pub fn suspected(&self) -> impl Iterator<Item = RuntimeId> + '_ {
        self.suspected.iter().copied()
    }

    /// The view of the newest copy of a unit that a switch that starts again would hear of: for
    /// tests.
    pub fn claimed(&self, unit: UnitId) -> Option<View> {
        let live = self.table.live(unit).map(|hot| hot.view);
        let stored = self.cold.get(&unit).map(|cold| &cold.stored);
        let stored = stored.and_then(|stored| stored.keys().next_back().copied());
        live.max(stored)
    }

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
        self.doubt_all_ports();
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
            cold.pulled = None;
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
    /// queue keeps the front of what it is given. The actors do not change
    /// any more while it asks, so neither do the pieces.
    pub(super) fn recover(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        generation: u16,
        (from, most): (u32, u32),
    ) {
        self.flush(now, pool);
        self.renew(pool, generation);
        self.claim_blocks();
        let answer = self.answer.take();
        let answer = answer.filter(|answer| answer.generation == generation);
        let answer = answer.unwrap_or_else(|| self.answer_to(generation));
        let pieces = answer.pieces.len() as u32;
        // The pieces that it counts may be those of another answer.
        let from = if from < pieces { from } else { 0 };
        let suspected: Vec<RuntimeId> = self.suspected.iter().copied().collect();
        for (piece, claims) in (0..pieces)
            .zip(&answer.pieces)
            .skip(from as usize)
            .take(most as usize)
        {
            self.tell_switch(Message::Claims {
                generation,
                piece,
                pieces,
                claims: claims.clone(),
                suspected: match piece {
                    0 => suspected.clone(),
                    _ => Vec::new(),
                },
            });
        }
        self.answer = Some(answer);
    }

    /// All that is here of units in which a switch of this generation has no view.
    fn answer_to(&mut self, generation: u16) -> Answer {
        let (mut answer, mut claims, mut names) = (Vec::new(), Vec::new(), 0);
        let units: Vec<Hot> = self.table.units().collect();
        for hot in units {
            // A switch that has opened a view has heard enough of the unit:
            // this is an old question.
            if self.newest(&hot).generation() >= generation {
                continue;
            }
            let Some(claim) = self.claim_of(&hot) else {
                continue;
            };
            self.counts.add(match claim.state {
                true => ActorCount::Claimed,
                false => ActorCount::ClaimedEnded,
            });
            let more = claim.flows.len() + claim.aliases.len();
            if claims.len() >= CLAIMS || !claims.is_empty() && names + more > NAMES {
                answer.push(core::mem::take(&mut claims));
                names = 0;
            }
            names += more;
            claims.push(claim);
        }
        if answer.is_empty() || !claims.is_empty() {
            answer.push(claims);
        }
        Answer {
            generation,
            pieces: answer,
        }
    }

    /// The newest that is here of a unit. Without state the unit is over, which
    /// the switch must hear: another runtime may have an older copy with state.
    fn claim_of(&self, hot: &Hot) -> Option<Claim> {
        let unit = hot.unit;
        let live = hot.is_live().then_some((hot.view, true, hot.clock));
        let counts = self.settings.plant != Some(Plant::ClaimWithState);
        let is_claimed = |state: bool| state || counts;
        let live = live.filter(|_| is_claimed(self.engine.has_unit(unit.0)));
        let stored = self.cold.get(&unit).and_then(|cold| {
            let mut stored = cold.stored.iter().rev();
            let (view, stored) = stored.find(|(_, stored)| is_claimed(stored.state.is_some()))?;
            Some((*view, stored.role != Role::Replica, stored.clock, stored))
        });
        let stored = stored.filter(|stored| live.is_none_or(|live| stored.0 > live.0));
        let (view, owner, clock, state) = match (live, stored) {
            (_, Some((view, owner, clock, stored))) => (view, owner, clock, stored.state.clone()),
            (Some((view, owner, clock)), None) => (view, owner, clock, self.export(unit)),
            (None, None) => return None,
        };
        let mut claim = Claim {
            unit,
            view,
            owner,
            clock,
            state: state.is_some(),
            key: None,
            flows: Vec::new(),
            aliases: Vec::new(),
        };
        if let Some(state) = state {
            (claim.flows, claim.aliases) = self.engine.read_names(&state).ok()?;
            claim.key = self.engine.read_scope_key(&state).ok()?;
        }
        Some(claim)
    }
}
