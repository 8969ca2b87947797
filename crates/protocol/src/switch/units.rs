//! The switch's table of units: one cache line each, at the unit's place.

use weir_packet::{Advise, Arena, prefetch};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::runtimes::Slot;
use crate::ids::{UnitId, View};

/// Marks on a unit.
pub(super) mod mark {
    /// All who had the state are gone; the next packet starts from none.
    pub(in crate::switch) const LOST: u8 = 1;
    /// It waits in the queue of moves.
    pub(in crate::switch) const QUEUED: u8 = 2;
    /// Something of it was let out in this burst and is to be acknowledged.
    pub(in crate::switch) const ACK: u8 = 4;
    /// Its owner was asked for an early snapshot.
    pub(in crate::switch) const PREPARING: u8 = 8;
    /// It has no owner and waits to be removed.
    pub(in crate::switch) const ORPHAN: u8 = 16;
    /// Names of it leave ([`crate::switch::leaving`]).
    pub(in crate::switch) const LEAVING: u8 = 32;
    /// A tick waits for room.
    pub(in crate::switch) const TICK: u8 = 64;
    /// Its state is too long for a message: it has no replica.
    pub(in crate::switch) const LONG: u8 = 128;
}

/// [`Unit::wanted`]: whoever the dispatch policy picks.
pub(super) const ANY: Slot = 0xffff;
/// [`Unit::wanted`]: another replica.
pub(super) const REPLICA: Slot = 0xfffe;

/// One unit. All zero: no unit was ever at this place.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(super) struct Unit {
    /// The unit that lives here; 0 for none.
    pub(super) id: u64,
    /// Its current view.
    pub(super) view: u64,
    /// Last clock given.
    pub(super) sent: u64,
    /// Last clock let out.
    pub(super) out: u64,
    /// Clock of its last tick.
    pub(super) tick: u64,
    /// First of its nodes ([`super::kept`]), 0 for none.
    pub(super) first: u32,
    /// Last of its nodes.
    pub(super) last: u32,
    /// Its record in [`super::views::Pendings`], 0 where there is none.
    pub(super) pending: u32,
    /// Owner of the current view, 0 for none.
    pub(super) owner: Slot,
    /// Replica of the current view, 0 for none.
    pub(super) replica: Slot,
    /// The next owner: a runtime, [`ANY`], [`REPLICA`], or 0.
    pub(super) wanted: Slot,
    /// How ([`super::moves::mode_of`]).
    pub(super) mode: u8,
    /// See [`mark`].
    pub(super) marks: u8,
    /// Frame flags of its packets: those of a first view until it is settled.
    pub(super) fresh: u8,
    /// Refusals and unanswered requests since the last settled view.
    pub(super) tries: u8,
    /// Nothing.
    pub(super) rest: [u8; 2],
}

const _: () = assert!(size_of::<Unit>() == 64);

impl Unit {
    pub(super) const fn id(&self) -> UnitId {
        UnitId(self.id)
    }

    pub(super) const fn view(&self) -> View {
        View(self.view)
    }

    /// The runtime that says that the current view's state is held.
    #[inline]
    pub(super) const fn holder(&self) -> Slot {
        if self.replica != 0 {
            self.replica
        } else {
            self.owner
        }
    }

    /// True where the current view is settled.
    #[inline]
    pub(super) const fn is_settled(&self) -> bool {
        self.pending == 0 && self.fresh == 0 && self.owner != 0
    }

    pub(super) const fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }
}

/// All units, by place.
#[derive(Debug)]
pub(super) struct Units {
    units: Arena<Unit>,
    /// Places below this have been used.
    top: u32,
    /// The record that a place beyond the table reads as.
    nobody: Unit,
}

impl Units {
    pub(super) fn new(places: usize, advise: Advise) -> Units {
        Units {
            units: Arena::zeroed(places, advise),
            top: 0,
            nobody: Unit::default(),
        }
    }

    /// Places that were ever used.
    pub(super) const fn top(&self) -> u32 {
        self.top
    }

    /// Asks for the line of a unit.
    #[inline]
    pub(super) fn prefetch(&self, id: u64) {
        prefetch::read(self.units.as_ptr().wrapping_add(id as u32 as usize));
    }

    /// The unit at a place.
    #[inline]
    pub(super) fn at(&self, place: u32) -> &Unit {
        self.units.get(place as usize).unwrap_or(&self.nobody)
    }

    /// The same, for writing; what is written beyond the table is forgotten.
    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> &mut Unit {
        match self.units.get_mut(place as usize) {
            Some(unit) => unit,
            None => {
                self.nobody = Unit::default();
                &mut self.nobody
            }
        }
    }

    /// The place of a unit that lives.
    #[inline]
    pub(super) fn find(&self, id: UnitId) -> Option<u32> {
        let unit = self.units.get(id.slot() as usize)?;
        (unit.id == id.0 && id.0 != 0).then_some(id.slot())
    }

    /// A unit's record, new; false where there is no such place.
    pub(super) fn begin(&mut self, id: u64) -> bool {
        let place = id as u32;
        let Some(unit) = self.units.get_mut(place as usize) else {
            return false;
        };
        *unit = Unit {
            id,
            ..Unit::default()
        };
        self.top = self.top.max(place + 1);
        true
    }
}
