//! The flows of datagrams whose first fragment was seen, per unit: what one
//! unit remembers does not depend on the others, and moves with it.

use weir_packet::{Direction, FragmentKey};

use super::units::Unit;
use crate::fragments::{LIFETIME_NS, Owner};

/// Datagrams remembered in all.
const ALL: usize = 4_096;
/// Datagrams that one unit may have; the oldest makes room.
pub(crate) const PER_UNIT: usize = 16;

/// One datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) key: FragmentKey,
    pub(crate) seen: u64,
    pub(crate) flow: Owner,
    /// The unit's next older one, plus one; 0 for none.
    older: u32,
}

/// The datagrams of all units.
#[derive(Debug)]
pub(crate) struct Datagrams {
    all: Vec<Datagram>,
    free: Vec<u32>,
}

impl Datagrams {
    pub(crate) fn new() -> Datagrams {
        Datagrams {
            all: Vec::with_capacity(ALL),
            free: Vec::with_capacity(ALL),
        }
    }

    /// The unit's datagrams, the latest first.
    pub(crate) fn of<'a>(&'a self, unit: &Unit) -> impl Iterator<Item = &'a Datagram> + use<'a> {
        let mut next = unit.datagrams;
        core::iter::from_fn(move || {
            let found = self.all.get(next.checked_sub(1)? as usize)?;
            next = found.older;
            Some(found)
        })
    }

    /// The flow of a later fragment.
    pub(crate) fn later(&self, unit: &Unit, key: &FragmentKey, now: u64) -> Option<Owner> {
        self.of(unit)
            .find(|d| d.key == *key && now.saturating_sub(d.seen) <= LIFETIME_NS)
            .map(|d| d.flow)
    }

    /// Notes the flow of a datagram whose first fragment came. False where all
    /// places are other units'.
    pub(crate) fn first(
        &mut self,
        unit: &mut Unit,
        key: FragmentKey,
        flow: Owner,
        seen: u64,
    ) -> bool {
        // Removes datagrams that are over, known, or one too many.
        let mut kept = 1;
        self.retain(unit, |at| {
            let over = seen.saturating_sub(at.seen) > LIFETIME_NS;
            let keep = at.key != key && !over && kept < PER_UNIT;
            kept += usize::from(keep);
            keep
        });
        let new = Datagram {
            key,
            seen,
            flow,
            older: unit.datagrams,
        };
        let number = if let Some(number) = self.free.pop() {
            if let Some(place) = self.all.get_mut(number as usize) {
                *place = new;
            }
            number
        } else if self.all.len() < ALL {
            self.all.push(new);
            (self.all.len() - 1) as u32
        } else {
            return false;
        };
        unit.datagrams = number + 1;
        true
    }

    fn set_older(&mut self, unit: &mut Unit, newer: Option<u32>, older: u32) {
        match newer.and_then(|newer| self.all.get_mut(newer as usize)) {
            Some(newer) => newer.older = older,
            None => unit.datagrams = older,
        }
    }

    fn release(&mut self, number: u32) {
        // No number is in a list twice, so `free` never grows past its room.
        self.free.push(number);
    }

    /// Forgets those of a flow.
    pub(crate) fn forget_flow(&mut self, unit: &mut Unit, flow: u32) {
        self.retain(unit, |datagram| datagram.flow.flow != flow);
    }

    fn retain(&mut self, unit: &mut Unit, mut keep: impl FnMut(&Datagram) -> bool) {
        let mut link = unit.datagrams;
        let mut newer: Option<u32> = None;
        while let Some(number) = link.checked_sub(1) {
            let Some(&at) = self.all.get(number as usize) else {
                return;
            };
            link = at.older;
            if keep(&at) {
                newer = Some(number);
            } else {
                self.set_older(unit, newer, at.older);
                self.release(number);
            }
        }
    }

    /// Forgets all of a unit.
    pub(crate) fn forget(&mut self, unit: &mut Unit) {
        self.retain(unit, |_| false);
    }

    /// Datagrams remembered now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

/// A direction as a byte.
pub(crate) fn direction_from(byte: u8) -> Option<Direction> {
    match byte {
        0 => Some(Direction::Forward),
        1 => Some(Direction::Reverse),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::units::Units;

    fn owner(flow: u32) -> Owner {
        Owner {
            flow,
            id: 1,
            direction: Direction::Forward,
        }
    }

    fn key(n: u64) -> FragmentKey {
        FragmentKey::from_words([n; 6])
    }

    #[test]
    fn a_unit_remembers_its_latest_datagrams_for_a_while() {
        let mut units = Units::new(2, 4, weir_packet::no_advice);
        let (a, b) = (1 << 32, 1 << 32 | 1);
        assert!(units.begin(a) && units.begin(b));
        let mut datagrams = Datagrams::new();
        for n in 0..40 {
            let unit = units.get_mut(a).unwrap();
            assert!(datagrams.first(unit, key(n), owner(n as u32 % 2), n));
        }
        assert!(datagrams.first(units.get_mut(b).unwrap(), key(39), owner(3), 5));
        assert_eq!(datagrams.len(), PER_UNIT + 1);
        let unit = units.get(a).unwrap();
        assert_eq!(datagrams.later(unit, &key(39), 50), Some(owner(1)));
        assert_eq!(datagrams.later(unit, &key(39), 40 + LIFETIME_NS), None);
        assert_eq!(
            datagrams.later(unit, &key(40 - PER_UNIT as u64 - 1), 50),
            None
        );
        let unit = units.get_mut(a).unwrap();
        datagrams.forget_flow(unit, 1);
        assert_eq!(datagrams.later(unit, &key(39), 50), None);
        assert_eq!(datagrams.later(unit, &key(38), 50), Some(owner(0)));
        // what is over makes room at once
        assert!(datagrams.first(unit, key(99), owner(0), 100 + LIFETIME_NS));
        assert_eq!(datagrams.of(unit).count(), 1);
        datagrams.forget(unit);
        assert_eq!(datagrams.len(), 1);
        assert_eq!(
            datagrams.later(units.get(b).unwrap(), &key(39), 6),
            Some(owner(3))
        );
    }

    #[test]
    fn when_all_places_are_taken_nothing_is_remembered() {
        let units_count = ALL / PER_UNIT;
        let mut units = Units::new(units_count + 1, 1, weir_packet::no_advice);
        let mut datagrams = Datagrams::new();
        for place in 0..units_count as u64 {
            assert!(units.begin(1 << 32 | place));
            for n in 0..PER_UNIT as u64 {
                let unit = units.get_mut(1 << 32 | place).unwrap();
                assert!(datagrams.first(unit, key(n), owner(0), 1));
            }
        }
        let late = 1 << 32 | units_count as u64;
        assert!(units.begin(late));
        assert!(!datagrams.first(units.get_mut(late).unwrap(), key(0), owner(0), 1));
        datagrams.forget(units.get_mut(1 << 32).unwrap());
        assert!(datagrams.first(units.get_mut(late).unwrap(), key(0), owner(0), 1));
    }
}
