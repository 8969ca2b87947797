//! A switch that starts again: what the runtimes claim, and what it makes of it.

use std::collections::{BTreeMap, BTreeSet};

use weir_nf::PoolId;
use weir_nf::host::AliasRequest;
use weir_packet::{FlowKey, Frame, FramePool, Time};

use super::claims::{Answers, Taken};
use super::runtimes::Slot;
use super::{Switch, SwitchCount, SwitchDrop};
use crate::ids::{RuntimeId, UnitId, View};
use crate::message::{Claim, Message};
use crate::plant::Plant;

/// Claims of one unit, and who made them.
type Claims = Vec<(Slot, Claim)>;

/// While claims are gathered.
#[derive(Debug)]
pub(super) struct Recovery {
    /// Packets that came meanwhile.
    pub(super) held: Vec<Frame>,
    answers: Answers,
    /// Blocks of ports that runtimes say they have: pool, address, number.
    blocks: BTreeSet<(RuntimeId, u8, u16, u16)>,
    /// When they were asked last.
    pub(super) asked: Time,
}

/// Other members with a copy of a unit that was recovered, until its view is
/// opened.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    of: BTreeMap<UnitId, Vec<Slot>>,
}

/// The units whose best claim has an alias that is the key of another's flow.
fn units_that_take(units: &[(View, UnitId, Claims)]) -> BTreeSet<UnitId> {
    let best = || {
        let claims = units
            .iter()
            .filter_map(|(_, unit, claims)| Some((*unit, &claims.first()?.1)));
        claims.filter(|(_, claim)| claim.state)
    };
    let keys =
        best().flat_map(|(unit, claim)| claim.flows.iter().map(move |(key, _)| (*key, unit)));
    let keys: BTreeSet<(FlowKey, UnitId)> = keys.collect();
    let is_anothers = |unit: UnitId, key: FlowKey| {
        let all = keys.range((key, UnitId(0))..=(key, UnitId(u64::MAX)));
        all.into_iter().any(|(_, of)| *of != unit)
    };
    best()
        .filter(|(unit, claim)| {
            let mut aliases = claim.aliases.iter();
            aliases.any(|(_, alias)| is_anothers(*unit, alias.key))
        })
        .map(|(unit, _)| unit)
        .collect()
}

impl Leftovers {
    /// Recovered units whose view is not opened yet.
    pub(super) fn count(&self) -> usize {
        self.of.len()
    }

    /// Units with other copies, but for one.
    pub(super) fn others(&self, but: UnitId) -> usize {
        self.of.keys().filter(|unit| **unit != but).count()
    }

    pub(super) fn take(&mut self, unit: UnitId) -> Vec<Slot> {
        if self.of.is_empty() {
            return Vec::new();
        }
        self.of.remove(&unit).unwrap_or_default()
    }
}

impl Switch {
    /// After a crash of the switch before it: asks `runtimes` for what they
    /// have and holds packets until all have answered or are suspected.
    pub fn recover(&mut self, now: Time, runtimes: &[RuntimeId]) {
        let mut is_alone = true;
        let mut recovery = Recovery {
            held: Vec::with_capacity(self.settings.recovery_held as usize),
            answers: Answers::new(self.classifier.places(), self.settings.pieces),
            blocks: BTreeSet::new(),
            asked: now,
        };
        // Not before all are known does anyone get a block.
        for &runtime in runtimes {
            if let Some(slot) = self.take_in(runtime) {
                recovery.answers.expect(slot);
                is_alone = false;
            }
        }
        if is_alone {
            return;
        }
        self.lessor.restarted();
        self.recovery = Some(recovery);
        let _ = self.ask_for_claims(now);
    }

    /// True while packets wait for claims.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Asks whose answer is not complete for what is missing; gives who was
    /// asked too often.
    #[must_use]
    fn ask_for_claims(&mut self, now: Time) -> Vec<Slot> {
        let Some(recovery) = &mut self.recovery else {
            return Vec::new();
        };
        recovery.asked = now;
        let (asked, given_up) = recovery.answers.ask();
        for (slot, from) in asked {
            self.ask(slot, from);
        }
        given_up
    }

    /// Asks a runtime for pieces of its answer, from this one on.
    fn ask(&mut self, slot: Slot, from: u32) {
        let question = Message::Recover {
            generation: self.settings.generation,
            from,
            most: self.settings.pieces,
        };
        self.tell(slot, question);
    }

    /// Asks again. Who gives no whole answer is as good as dead.
    pub(super) fn ask_again(&mut self, now: Time, pool: &mut FramePool) {
        for slot in self.ask_for_claims(now) {
            if let Some(runtime) = self.runtimes.id(slot) {
                self.counts.add(SwitchCount::AnswerGivenUp);
                self.suspect(now, pool, runtime);
            }
        }
    }

    /// Holds packets until it is known whose they are.
    pub(super) fn hold(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let Some(recovery) = &mut self.recovery else {
            self.internal.note("packets are held, and nobody is asked");
            return pool.give_all(frames);
        };
        let most = self.settings.recovery_held as usize;
        for frame in frames.drain(..) {
            if recovery.held.len() < most {
                recovery.held.push(frame);
            } else {
                self.drops.add(SwitchDrop::RecoveryFull);
                pool.give(frame);
            }
        }
    }

    pub(super) fn claimed(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: Slot,
        generation: u16,
        piece: (u32, u32),
        claims: Vec<Claim>,
    ) {
        let asked = self.recovery.as_mut().filter(|recovery| {
            generation == self.settings.generation && recovery.answers.waits_for(from)
        });
        let Some(recovery) = asked else {
            return self.counts.add(SwitchCount::ClaimLate);
        };
        let count = claims.len() as u64;
        match recovery.answers.take(from, piece, claims) {
            Taken::Impossible => self.counts.add(SwitchCount::ClaimImpossible),
            Taken::Piece => {
                self.counts.add_many(SwitchCount::Claimed, count);
                if let Some(piece) = recovery.answers.ask_on(from) {
                    self.ask(from, piece);
                }
            }
            Taken::Answer => {
                self.counts.add_many(SwitchCount::Claimed, count);
                self.answered(now, pool);
            }
        }
    }

    /// The switch before this one suspected these runtimes: what they claim is
    /// not heard.
    pub(super) fn suspected_before(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        runtimes: &[RuntimeId],
    ) {
        for &runtime in runtimes {
            self.runtimes.fence(runtime);
            let slot = self.runtimes.find(runtime).unwrap_or(0);
            if self.runtimes.is_here(slot) {
                self.counts.add(SwitchCount::SuspectedBefore);
                self.suspect(now, pool, runtime);
            }
        }
    }

    /// A runtime will never answer.
    pub(super) fn will_not_answer(&mut self, now: Time, pool: &mut FramePool, from: Slot) {
        if let Some(recovery) = &mut self.recovery {
            recovery.answers.drop_of(from);
        }
        self.answered(now, pool);
    }

    /// A block that a runtime had from the switch before this one.
    pub(super) fn block_claimed(&mut self, from: Slot, pool: PoolId, address: u16, block: u16) {
        let id = self.runtimes.id(from);
        match self.recovery.as_mut().zip(id) {
            Some((recovery, id)) => {
                recovery.blocks.insert((id, pool.0, address, block));
            }
            None => self.counts.add(SwitchCount::MessageMisdirected),
        }
    }

    /// All have said which blocks they have. Where two have one, an earlier switch thought the
    /// first dead and granted its block again: the one that is not suspected has it, and of
    /// two such the one that started last.
    fn restore_blocks(&mut self, blocks: &BTreeSet<(RuntimeId, u8, u16, u16)>) {
        for &(id, pool, address, block) in blocks {
            let slot = self.runtimes.find(id);
            if let Some(slot) = slot.filter(|slot| self.runtimes.is_here(*slot)) {
                self.lessor.claim(slot, PoolId(pool), address, block);
            }
        }
    }

    /// Goes on where no answer is missing.
    fn answered(&mut self, now: Time, pool: &mut FramePool) {
        let complete = |recovery: &mut Recovery| recovery.answers.is_complete();
        let Some(recovery) = self.recovery.take_if(complete) else {
            return;
        };
        self.restore_blocks(&recovery.blocks);
        let mut claims: BTreeMap<UnitId, Claims> = BTreeMap::new();
        for (slot, claim) in recovery.answers.into_claims() {
            claims.entry(claim.unit).or_default().push((slot, claim));
        }
        // An alias goes before a key, as at the gate; of two aliases or keys the
        // newer view's.
        let mut units: Vec<(View, UnitId, Claims)> = claims
            .into_iter()
            .filter_map(|(unit, mut claims)| {
                claims.retain(|(slot, _)| self.runtimes.is_here(*slot));
                claims.sort_by_key(|(slot, c)| {
                    core::cmp::Reverse((c.view, c.owner, c.clock, core::cmp::Reverse(*slot)))
                });
                Some((claims.first()?.1.view, unit, claims))
            })
            .collect();
        let takes = units_that_take(&units);
        units.sort_by_key(|(view, unit, _)| {
            (!takes.contains(unit), core::cmp::Reverse(*view), *unit)
        });
        for (_, unit, claims) in units {
            self.restore(now, unit, &claims);
        }
        self.sweep.start(self.units.top());
        let here: Vec<Slot> = self.runtimes.here().collect();
        for slot in here {
            self.grant_first(now, slot);
        }
        self.blocks_may_be_free();
        self.tell_cluster();
        let mut held = recovery.held;
        self.take(now, pool, &mut held);
    }

    /// Makes a unit of its claims, the best one first. Its view is opened by
    /// its next packet or in the sweep.
    fn restore(&mut self, now: Time, unit: UnitId, claims: &[(Slot, Claim)]) {
        let Some((holder, best)) = claims.first() else {
            return self.internal.note("a claimed unit without a claim");
        };
        if !best.state {
            // Its end was not granted, or not everyone has heard of it. Whoever
            // has state of it, in an older view or behind in this one, forgets
            // before those who know that it is over.
            self.counts.add(SwitchCount::ClaimEnded);
            return self.forget_claims(now, unit, claims, |claim| !claim.state);
        }
        let is_liaison = unit.0 == self.classifier.liaison();
        let restored = is_liaison || self.restore_names(unit, best);
        if !restored || !self.units.begin(unit.0) {
            self.counts.add(SwitchCount::ClaimRefused);
            return self.forget_claims(now, unit, claims, |claim| claim.view == best.view);
        }
        let second = self.second_holder(*holder, best, claims);
        self.set_holders(unit.slot(), *holder, second);
        let record = self.units.at_mut(unit.slot());
        record.view = best.view.0;
        record.sent = best.clock.0;
        record.out = best.clock.0;
        self.counts.add(SwitchCount::Recovered);
        let others = claims.iter().map(|(slot, _)| *slot).collect();
        self.leftovers.of.insert(unit, others);
    }

    /// The other holder of the view that goes on, 0 for none: it stands in if the first
    /// one dies. Behind the first one it lacks only packets that no switch has let out,
    /// where outputs wait for the replica; those are lost then
    /// ([`Switch::repeat_asked`]).
    fn second_holder(&self, first: Slot, best: &Claim, claims: &[(Slot, Claim)]) -> Slot {
        let outputs_wait = self.every == 0 && self.settings.plant != Some(Plant::BehindNoHolder);
        let mut others = claims
            .iter()
            .filter(|(slot, c)| *slot != first && c.view == best.view);
        others
            .find(|(_, c)| outputs_wait || c.clock == best.clock)
            .map_or(0, |(slot, _)| *slot)
    }

    /// All who claimed a unit that does not go on forget it, `last` of them
    /// those with the newest copies.
    fn forget_claims(
        &mut self,
        now: Time,
        unit: UnitId,
        claims: &[(Slot, Claim)],
        last: impl Fn(&Claim) -> bool,
    ) {
        let below = self.next_view;
        for (slot, claim) in claims {
            if last(claim) {
                self.forget_last(now, *slot, unit, below);
            } else {
                self.forget(now, *slot, unit, below, true);
            }
        }
        self.forget_on(unit);
    }

    /// Gives a unit the names that it claims, but for those that a unit with a
    /// newer view has: of two that claimed one name the classifier had given
    /// it to one, which the other's owner was never told.
    fn restore_names(&mut self, unit: UnitId, claim: &Claim) -> bool {
        let is_free = |key: &FlowKey| self.classifier.unit_of_name(key).is_none();
        let mut flows = claim.flows.clone();
        flows.retain(|(key, _)| is_free(key));
        let mut free = claim.aliases.clone();
        free.retain(|(_, alias)| is_free(&alias.key));
        let mut aliases = free.clone();
        aliases.retain(|(flow, alias)| alias.open || flows.iter().any(|(key, _)| key == flow));
        let key = claim.key.as_ref();
        let is_taken = key.is_some_and(|key| self.classifier.unit_with_key(key).is_some());
        let names = &mut self.classifier;
        let mut restored = false;
        if is_taken {
            // After a loss an owner may have met a server first and taken it
            // for the client: the scope is then that of the other end.
            let turned = flows.iter().map(|(key, client_is_b)| (*key, !client_is_b));
            let turned: Vec<(FlowKey, bool)> = turned.collect();
            restored = names.restore(unit.0, None, &turned, &aliases).is_ok();
        }
        if !restored {
            // One whose scope is taken lives on without: its flows are found.
            restored = names.restore(unit.0, key, &flows, &aliases).is_ok();
        }
        if !restored && flows.is_empty() {
            // A flow of its that was ended began anew from its other end, as
            // another unit's, while packets of it were still on their way here. It is
            // found by its other names.
            restored = names.restore(unit.0, key, &claim.flows, &free).is_ok();
        }
        if !restored && flows.len() > 1 {
            // In a unit of one flow an owner after a loss knows the two sides
            // of a translated one as two, which a name it was never told of
            // brought together. Under one they go on as the unit's.
            let lessor = &self.lessor;
            let has_port = |key: &FlowKey| lessor.ports(key).iter().any(Option::is_some);
            let own = claim
                .flows
                .iter()
                .filter(|(key, _)| names.unit_of_name(key).is_none());
            let mut own: Vec<(FlowKey, bool)> = own.copied().collect();
            own.sort_by_key(|(key, _)| has_port(key));
            if let Some((first, others)) = own.split_first() {
                let known = aliases.iter().map(|(_, alias)| (first.0, *alias));
                let known: Vec<(FlowKey, AliasRequest)> = known.collect();
                restored = names
                    .restore(unit.0, None, core::slice::from_ref(first), &known)
                    .is_ok();
                for (key, _) in others.iter().filter(|_| restored) {
                    names.add_flow(unit.0, key);
                }
            }
        }
        if !restored && let Some((flow, _)) = claim.flows.first() {
            // Another unit has its keys: names of that one took them over, or a packet by
            // them opened it. It lives hidden until it ends, under its other names.
            restored = self.classifier.restore_hidden(unit.0, flow).is_ok();
            let is_planted = self.settings.plant == Some(Plant::HiddenNameless);
            for (flow, alias) in free.iter().filter(|_| restored && !is_planted) {
                self.classifier.add_alias(unit.0, flow, alias);
            }
        }
        if restored {
            self.restore_hidden_and_ports(unit, &claim.flows, &free);
        }
        restored
    }

    /// Gives a restored unit its hidden flows, their free aliases, and the ports of all its names.
    fn restore_hidden_and_ports(
        &mut self,
        unit: UnitId,
        flows: &[(FlowKey, bool)],
        free: &[(FlowKey, AliasRequest)],
    ) {
        let is_wide = self.classifier.has_wide_units();
        if is_wide {
            // Flows whose key another unit has, beside those that are found.
            for (key, _) in flows {
                self.classifier.add_flow(unit.0, key);
            }
            for (flow, alias) in free {
                if self.classifier.unit_of_name(&alias.key).is_none() {
                    self.classifier.add_alias(unit.0, flow, alias);
                }
            }
        }
        for key in self.classifier.aliases_of(unit.0) {
            self.lessor.restored(unit, &key, is_wide);
        }
        let mut keys = Vec::new();
        self.classifier.flows_of(unit.0, &mut keys);
        keys.retain(|key| self.classifier.alias_of(key) != Some(unit.0));
        keys.iter().for_each(|key| self.lessor.hold(unit, key));
    }
}
