//! The runtimes of a switch.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::{Frame, Time};

use crate::ids::RuntimeId;
use crate::rtt::RoundTrip;

/// Number of a runtime at this switch, from 1 in the order of joining; 0 is
/// none.
pub(super) type Slot = u16;

/// Most runtimes that may ever join one switch.
pub(super) const MOST: usize = 0xfff0;

/// Suspected runtimes that are remembered, those with the highest ids. Ids rise
/// with every start: one that so many came after is not thought to run.
const MOST_FENCED: usize = 4_096;

/// The state of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes units.
    Live,
    /// It gives its units away.
    Draining,
    /// It has gone, with nothing.
    Left,
    /// It is dead, or thought so.
    Dead,
}

/// One runtime.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) id: RuntimeId,
    pub(super) standing: Standing,
    /// Units whose current view it owns.
    pub(super) owns: u32,
    /// Units of whose current view it is the replica.
    pub(super) copies: u32,
    /// Units that it owns and that have no replica.
    pub(super) alone: u32,
    /// Unsettled views for which it still holds the settled one.
    pub(super) waits: u32,
    /// The member that is to keep its copies; 0: by rotation.
    pub(super) replica: Slot,
    /// Side frames of an entry whose closing frame has not come yet.
    pub(super) partial: Vec<Frame>,
    /// Era that ended when it died or left.
    pub(super) era: u32,
    /// How long packets take from being sent to being let out.
    pub(super) trip: RoundTrip,
    /// When its packets were last sent again.
    pub(super) round_at: Time,
    /// The host that it runs on; `None` where nobody said.
    host: Option<u32>,
    /// It keeps copies and owns no unit.
    is_logger: bool,
}

/// All runtimes that ever joined.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    all: Vec<Runtime>,
    slots: BTreeMap<RuntimeId, Slot>,
    /// Runtimes present (draining included), in the order of joining: a walk over
    /// all that ever were would take longer with every start.
    present: Vec<Slot>,
    /// Runtimes taking units, in the order of joining.
    pub(super) usable: Vec<Slot>,
    /// Loggers that take copies, in the order of joining.
    loggers: Vec<Slot>,
    /// Ids that are loggers', joined or not.
    logger_ids: BTreeSet<RuntimeId>,
    /// Units that have an owner and no replica.
    pub(super) without_replica: u32,
    /// Runtimes that a switch before this one suspected: they do not join.
    fenced: BTreeSet<RuntimeId>,
}

impl Runtimes {
    /// A new runtime's slot; `None` where the id was used before or there are
    /// too many.
    pub(super) fn join(&mut self, id: RuntimeId, trip: RoundTrip) -> Option<Slot> {
        let is_known = self.slots.contains_key(&id) || self.fenced.contains(&id);
        if is_known || self.all.len() >= MOST {
            return None;
        }
        self.all.push(Runtime {
            id,
            standing: Standing::Live,
            owns: 0,
            copies: 0,
            alone: 0,
            waits: 0,
            replica: 0,
            partial: Vec::new(),
            era: 0,
            trip,
            round_at: Time::ZERO,
            host: None,
            is_logger: self.logger_ids.contains(&id),
        });
        let slot = self.all.len() as Slot;
        self.slots.insert(id, slot);
        self.stand(slot, Standing::Live);
        Some(slot)
    }

    /// Says that the member with this id is a logger, before it joins.
    pub(super) fn set_logger(&mut self, id: RuntimeId) {
        self.logger_ids.insert(id);
    }

    /// True of a member that keeps copies and owns no unit.
    pub(super) fn is_logger(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|runtime| runtime.is_logger)
    }

    /// Keepers of copies, in the order of joining: runtimes, then loggers.
    pub(super) fn keepers(&self) -> impl Iterator<Item = Slot> + '_ {
        self.usable.iter().chain(&self.loggers).copied()
    }

    /// The number of keepers.
    pub(super) fn keeper_count(&self) -> usize {
        self.usable.len() + self.loggers.len()
    }

    /// The keeper at this place of their order.
    pub(super) fn keeper(&self, at: usize) -> Option<Slot> {
        let logger = || self.loggers.get(at.checked_sub(self.usable.len())?);
        self.usable.get(at).or_else(logger).copied()
    }

    /// How well `keeper` keeps copies of what `owner` has, 0 the best: on another host
    /// before on its host, then loggers before runtimes.
    pub(super) fn rank(&self, owner: Slot, keeper: Slot) -> u8 {
        2 * u8::from(self.share_host(owner, keeper)) + u8::from(!self.is_logger(keeper))
    }

    /// The lowest rank that there can be now.
    pub(super) fn best_rank(&self) -> u8 {
        u8::from(self.loggers.is_empty())
    }

    /// Says on which host a runtime runs.
    pub(super) fn set_host(&mut self, slot: Slot, host: u32) {
        if let Some(runtime) = self.get_mut(slot) {
            runtime.host = Some(host);
        }
    }

    /// True where both are known to run on one host, and to fail with it.
    pub(super) fn share_host(&self, one: Slot, other: Slot) -> bool {
        let host = |slot| self.get(slot).and_then(|runtime| runtime.host);
        host(one).is_some_and(|one| host(other) == Some(one))
    }

    /// True where another could keep the owner's copies better ([`Runtimes::rank`]).
    pub(super) fn could_be_better(&self, owner: Slot, replica: Slot) -> bool {
        let rank = self.rank(owner, replica);
        rank > self.best_rank()
            && self
                .keepers()
                .any(|slot| slot != owner && self.rank(owner, slot) < rank)
    }

    /// A runtime is not used any more under this id, by no switch.
    pub(super) fn fence(&mut self, id: RuntimeId) {
        self.fenced.insert(id);
        if self.fenced.len() > MOST_FENCED {
            self.fenced.pop_first();
        }
    }

    /// All of those, the highest ids of them.
    pub(super) fn fenced(&self) -> Vec<RuntimeId> {
        self.fenced.iter().copied().collect()
    }

    /// Slots of all that ever joined.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        1..=self.all.len() as Slot
    }

    pub(super) fn find(&self, id: RuntimeId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Runtime> {
        self.all.get(usize::from(slot).wrapping_sub(1))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Runtime> {
        self.all.get_mut(usize::from(slot).wrapping_sub(1))
    }

    pub(super) fn id(&self, slot: Slot) -> Option<RuntimeId> {
        self.get(slot).map(|runtime| runtime.id)
    }

    /// Changes where a runtime stands.
    pub(super) fn stand(&mut self, slot: Slot, standing: Standing) {
        if let Some(runtime) = self.get_mut(slot) {
            runtime.standing = standing;
        }
        let members = match self.is_logger(slot) {
            true => &mut self.loggers,
            false => &mut self.usable,
        };
        members.retain(|&other| other != slot);
        if standing == Standing::Live {
            members.push(slot);
        }
        let at = self.present.partition_point(|&other| other < slot);
        let was_here = self.present.get(at) == Some(&slot);
        match (was_here, self.is_here(slot)) {
            (true, false) => drop(self.present.remove(at)),
            (false, true) => self.present.insert(at, slot),
            _ => {}
        }
    }

    /// True of a runtime that can't be spoken to any more.
    #[inline]
    pub(super) fn is_gone(&self, slot: Slot) -> bool {
        self.get(slot)
            .is_some_and(|r| matches!(r.standing, Standing::Left | Standing::Dead))
    }

    /// True of a runtime that is there (draining included).
    pub(super) fn is_here(&self, slot: Slot) -> bool {
        self.get(slot)
            .is_some_and(|r| matches!(r.standing, Standing::Live | Standing::Draining))
    }

    pub(super) fn is_live(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|r| r.standing == Standing::Live)
    }

    /// True of a runtime that takes units.
    pub(super) fn may_own(&self, slot: Slot) -> bool {
        self.is_live(slot) && !self.is_logger(slot)
    }

    pub(super) fn is_draining(&self, slot: Slot) -> bool {
        self.get(slot)
            .is_some_and(|r| r.standing == Standing::Draining)
    }

    /// Time after which what was not answered is sent again: that of the slowest
    /// runtime that is there; `None` before there is a measurement.
    pub(super) fn wait(&self) -> Option<u64> {
        let here = self.here().filter_map(|slot| self.get(slot));
        let known = here.filter(|runtime| !runtime.trip.is_unknown());
        known.map(|runtime| runtime.trip.wait()).max()
    }

    /// Slots of all runtimes that are there.
    pub(super) fn here(&self) -> impl Iterator<Item = Slot> + '_ {
        self.present.iter().copied()
    }
}
