//! The table in which data frames find their actor: one record per place of a unit.
//!
//! A record is 32 bytes, found without hashing by the low half of the unit's
//! id. It holds the unit's live actor, if there is one, or what is left of it:
//! the lowest view that may still be taken in.

use weir_packet::{Advise, Arena, prefetch};

use crate::ids::{Clock, UnitId, View};

/// The engine holds the unit's state, as that of the record's view.
pub(crate) const LIVE: u16 = 1;
/// The live actor has a replica.
pub(crate) const REPLICA: u16 = 2;
/// Packets after a gap are held.
pub(crate) const GAP: u16 = 4;
/// Packets are copied to the unit's next owner.
pub(crate) const COPYING: u16 = 8;
/// The unit is over: views below the limit are stale, whatever its own were.
pub(crate) const ENDED: u16 = 16;
/// Only a packet has said that the view is here, not yet its switch.
pub(crate) const UNSURE: u16 = 32;

/// Packets that were let out in an older view are applied again.
pub(crate) const SILENT: u16 = 64;

/// The clock in its word; the flags are above it.
const CLOCK: u64 = Clock::LAST.0;

/// A record, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    /// The unit, or [`UnitId`] 0 in a place never used.
    pub(crate) unit: UnitId,
    /// View of the live actor; without one, the lowest that is not stale.
    pub(crate) view: View,
    /// See [`LIVE`] and the others.
    pub(crate) flags: u16,
    /// Last packet applied.
    pub(crate) clock: Clock,
    /// Last packet that may be applied. Of an ended unit the lowest view that
    /// another life under its number could have.
    pub(crate) limit: Clock,
}

impl Hot {
    pub(crate) const NO_LIMIT: Clock = Clock(Clock::LAST.0 + 1);

    pub(crate) fn is_live(&self) -> bool {
        self.flags & LIVE != 0
    }

    /// True where no actor of this view can come: the unit is over.
    pub(crate) fn is_over(&self, view: View) -> bool {
        self.flags & ENDED != 0 && view.0 < self.limit.0
    }

    /// True where the view is ending (or its switch's time is over).
    pub(crate) fn is_closing(&self) -> bool {
        self.limit != Hot::NO_LIMIT
    }
}

/// All records.
#[derive(Debug)]
pub(crate) struct Table {
    places: Arena<[u64; 4]>,
    /// Places below this were used.
    top: u32,
}

impl Table {
    pub(crate) fn new(places: u32, advise: Advise) -> Table {
        Table {
            places: Arena::zeroed(places as usize, advise),
            top: 0,
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, unit: u64) {
        let place = (unit as u32 as usize).min(self.places.len());
        prefetch::read(self.places.as_ptr().wrapping_add(place));
    }

    /// The fast path: takes the next packet of a live actor, except the last
    /// one of an ending view, and tells whether the actor has a replica.
    #[inline(always)]
    pub(crate) fn step(&mut self, unit: u64, view: u64, clock: u64) -> Option<bool> {
        const PLAIN: u64 = (LIVE as u64) << 48;
        const COPIED: u64 = (REPLICA as u64) << 48;
        const ASIDE: u64 = COPIED | (UNSURE as u64) << 48;
        let [its, in_view, word, limit] = self.places.get_mut(unit as u32 as usize)?;
        // The clock and the flags of a plain live actor in one comparison.
        let fits = *its == unit
            && *in_view == view
            && ((*word & !ASIDE) ^ PLAIN).wrapping_add(1) == clock
            && clock < *limit;
        if !fits {
            return None;
        }
        *word += 1;
        Some(*word & COPIED != 0)
    }

    /// The record at the unit's place, be it of this unit or another.
    pub(crate) fn at(&self, unit: UnitId) -> Option<Hot> {
        self.read(unit.slot())
    }

    fn read(&self, slot: u32) -> Option<Hot> {
        let &[unit, view, word, limit] = self.places.get(slot as usize)?;
        Some(Hot {
            unit: UnitId(unit),
            view: View(view),
            flags: (word >> 48) as u16,
            clock: Clock(word & CLOCK),
            limit: Clock(limit),
        })
    }

    /// The record of the unit itself.
    pub(crate) fn of(&self, unit: UnitId) -> Option<Hot> {
        self.at(unit).filter(|hot| hot.unit == unit)
    }

    /// The record of a unit with a live actor.
    pub(crate) fn live(&self, unit: UnitId) -> Option<Hot> {
        self.of(unit).filter(Hot::is_live)
    }

    /// Writes the record at its unit's place.
    pub(crate) fn set(&mut self, hot: Hot) {
        let slot = hot.unit.slot();
        if let Some(place) = self.places.get_mut(slot as usize) {
            let word = hot.clock.0 & CLOCK | u64::from(hot.flags) << 48;
            *place = [hot.unit.0, hot.view.0, word, hot.limit.0];
            self.top = self.top.max(slot + 1);
        }
    }

    /// The switch has let out what the unit's live actor put out.
    pub(crate) fn confirm(&mut self, unit: UnitId) {
        if let Some(hot) = self.live(unit) {
            let flags = hot.flags & !UNSURE;
            self.set(Hot { flags, ..hot });
        }
    }

    /// Records of all units known, by place.
    pub(crate) fn units(&self) -> impl Iterator<Item = Hot> + '_ {
        (0..self.top)
            .filter_map(|slot| self.read(slot))
            .filter(|hot| hot.unit.0 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(hot: Hot) -> Table {
        let mut table = Table::new(8, weir_packet::no_advice);
        table.set(hot);
        table
    }

    const HOT: Hot = Hot {
        unit: UnitId(7 << 32 | 3),
        view: View(9 << 48 | 5),
        flags: LIVE,
        clock: Clock(41),
        limit: Hot::NO_LIMIT,
    };

    #[test]
    fn a_record_is_what_was_written() {
        let hot = Hot {
            flags: LIVE | REPLICA | GAP | COPYING,
            limit: Clock(50),
            ..HOT
        };
        let table = table(hot);
        assert_eq!(table.of(HOT.unit), Some(hot));
        assert_eq!(table.of(UnitId(8 << 32 | 3)), None);
        assert_eq!(table.at(UnitId(8 << 32 | 3)), Some(hot));
        assert_eq!(table.at(UnitId(1 << 32 | 8)), None);
        assert_eq!(table.units().collect::<Vec<_>>(), [hot]);
    }

    #[test]
    fn the_last_clock_is_not_passed() {
        let hot = Hot {
            clock: Clock(Clock::LAST.0 - 1),
            ..HOT
        };
        let mut table = table(hot);
        let (unit, view) = (HOT.unit.0, HOT.view.0);
        assert_eq!(table.step(unit, view, Clock::LAST.0), Some(false));
        let last = Hot {
            clock: Clock::LAST,
            ..HOT
        };
        assert_eq!(table.of(HOT.unit), Some(last));
        assert_eq!(table.step(unit, view, Clock::LAST.0 + 1), None);
        assert_eq!(table.of(HOT.unit), Some(last));
    }

    #[test]
    fn only_the_next_packet_of_the_view_takes_the_fast_path() {
        let (unit, view) = (HOT.unit.0, HOT.view.0);
        let live = u64::from(LIVE) << 48;
        for (unit, view, clock) in [
            (unit, view, 41),
            (unit, view, 43),
            (unit, view, 0),
            (unit, view + 1, 42),
            (unit, view, live | 42),
            (unit, view, u64::from(REPLICA) << 48 | 42),
            (unit, view, u64::from(UNSURE) << 48 | 42),
            (unit + (1 << 32), view, 42),
            (unit + 1, view, 42),
            (u64::MAX, view, 42),
        ] {
            assert_eq!(table(HOT).step(unit, view, clock), None);
        }
        for flags in [0, LIVE | GAP, LIVE | COPYING, REPLICA] {
            assert_eq!(table(Hot { flags, ..HOT }).step(unit, view, 42), None);
        }
        let last = Hot {
            limit: Clock(42),
            ..HOT
        };
        assert_eq!(table(last).step(unit, view, 42), None);
        let mut table = table(HOT);
        assert_eq!(table.step(unit, view, 42), Some(false));
        assert_eq!(table.of(HOT.unit).map(|hot| hot.clock), Some(Clock(42)));
        table.set(Hot {
            flags: LIVE | REPLICA,
            ..HOT
        });
        assert_eq!(table.step(unit, view, 42), Some(true));
        table.set(Hot {
            flags: LIVE | UNSURE,
            ..HOT
        });
        assert_eq!(table.step(unit, view, 42), Some(false));
    }
}
