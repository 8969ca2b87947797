//! Which unit a flow is of, and which flows a unit has: lists through arrays
//! beside the records, found by the place that a unit's number names.

use weir_packet::Arena;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// No place, no record.
const NONE: u32 = u32::MAX;

/// The record of one unit, at its place.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Unit {
    /// Its number; 0 for none.
    pub(crate) id: u64,
    /// A set of [`BELONGINGS`] and [`WRITTEN`]; in one cache line with the
    /// number, as the next.
    pub(crate) changed: u32,
    /// Its first flow, plus one; 0 for none.
    pub(crate) first: u32,
    /// When it was last said to have something due, plus one; 0 for not since
    /// its last tick.
    pub(crate) proposed: u64,
    /// Its last flow, as [`Unit::first`].
    pub(crate) last: u32,
    /// Record of its coarsest scope, plus one; 0 for none.
    pub(crate) root: u32,
    /// The latest of its datagrams, plus one; 0 for none.
    pub(crate) datagrams: u32,
    /// Number of its flows.
    pub(crate) flows: u32,
    /// Of the states when they were last asked for; 0 where that is not known.
    pub(crate) fingerprint: u64,
}

/// A flow or name of the unit has changed.
pub(crate) const BELONGINGS: u32 = 1;
/// A state was borrowed for writing.
pub(crate) const WRITTEN: u32 = 2;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Link {
    /// Place of the unit.
    unit: u32,
    /// Neighbours in the unit's list, plus one; 0 for none.
    next: u32,
    previous: u32,
}

/// Units and the lists of their flows.
#[derive(Debug)]
pub(crate) struct Units {
    units: Arena<Unit>,
    /// By flow record.
    links: Arena<Link>,
    /// By place: the record of the flow that was its unit's only one when it
    /// was opened, plus one; 0 for none. It may be long gone: the record says
    /// whose it is. A line has those of sixteen units.
    shortcuts: Arena<u32>,
}

/// The place that a unit's number names.
pub(crate) const fn place_of(unit: u64) -> u32 {
    unit as u32
}

impl Units {
    /// For `places` units and `flows` flow records.
    pub(crate) fn new(places: usize, flows: usize, advise: weir_packet::Advise) -> Units {
        Units {
            units: Arena::zeroed(places, advise),
            links: Arena::zeroed(flows, advise),
            shortcuts: Arena::zeroed(places, advise),
        }
    }

    /// The flow record that is nearly always the unit's, where units are no
    /// wider than flows; [`NONE`] for none.
    #[inline]
    pub(crate) fn shortcut(&self, unit: u64) -> u32 {
        let found = self.shortcuts.get(place_of(unit) as usize);
        found.map_or(NONE, |record| record.wrapping_sub(1))
    }

    /// Fetches what [`Units::shortcut`] will look at.
    #[inline]
    pub(crate) fn fetch_shortcut(&self, unit: u64) {
        let place = place_of(unit) as usize;
        weir_packet::prefetch::read(self.shortcuts.as_ptr().wrapping_add(place));
    }

    /// Fetches what is known of a unit.
    pub(crate) fn fetch(&self, unit: u64) {
        let known = self.units.as_ptr().wrapping_add(place_of(unit) as usize);
        weir_packet::prefetch::read(known);
    }

    /// The unit, where something is known of it.
    pub(crate) fn get(&self, unit: u64) -> Option<&Unit> {
        let found = self.units.get(place_of(unit) as usize)?;
        (found.id == unit && unit != 0).then_some(found)
    }

    /// The same, for writing.
    pub(crate) fn get_mut(&mut self, unit: u64) -> Option<&mut Unit> {
        let found = self.units.get_mut(place_of(unit) as usize)?;
        (found.id == unit && unit != 0).then_some(found)
    }

    /// The unit that lives in the place of `unit`, whatever its number; `None`
    /// where there is no such place.
    pub(crate) fn at_place_of(&self, unit: u64) -> Option<&Unit> {
        self.units.get(place_of(unit) as usize)
    }

    /// Makes the place that of `unit`, with nothing in it. False where there
    /// is no such place.
    pub(crate) fn begin(&mut self, unit: u64) -> bool {
        let Some(place) = self.units.get_mut(place_of(unit) as usize) else {
            return false;
        };
        *place = Unit {
            id: unit,
            proposed: 0,
            first: 0,
            last: 0,
            root: 0,
            datagrams: 0,
            flows: 0,
            changed: 0,
            fingerprint: 0,
        };
        true
    }

    /// Nothing is known of the unit any more.
    pub(crate) fn forget(&mut self, unit: u64) {
        if let Some(known) = self.get_mut(unit) {
            known.id = 0;
        }
    }

    /// True where the unit has a flow.
    pub(crate) fn has_flows(&self, unit: u64) -> bool {
        self.get(unit).is_some_and(|unit| unit.first != 0)
    }

    /// Place of the unit of a flow record.
    #[inline]
    pub(crate) fn place(&self, flow: u32) -> u32 {
        self.links.get(flow as usize).map_or(NONE, |link| link.unit)
    }

    /// The unit of a live flow record.
    pub(crate) fn unit_of(&self, flow: u32) -> Option<&Unit> {
        self.units.get(self.place(flow) as usize)
    }

    /// Notes a change of [`BELONGINGS`] or [`WRITTEN`].
    #[inline]
    pub(crate) fn mark(&mut self, unit: u64, change: u32) {
        if let Some(known) = self.get_mut(unit) {
            known.changed |= change;
        }
    }

    /// Adds a flow at the end of its unit's list.
    pub(crate) fn add(&mut self, unit: u64, flow: u32) {
        let Some(known) = self.get_mut(unit) else {
            return;
        };
        let previous = core::mem::replace(&mut known.last, flow + 1);
        if previous == 0 {
            known.first = flow + 1;
        }
        known.flows += 1;
        known.changed |= BELONGINGS;
        if previous == 0
            && let Some(shortcut) = self.shortcuts.get_mut(place_of(unit) as usize)
        {
            *shortcut = flow + 1;
        }
        if let Some(link) = self.link(previous) {
            link.next = flow + 1;
        }
        if let Some(link) = self.links.get_mut(flow as usize) {
            *link = Link {
                unit: place_of(unit),
                next: 0,
                previous,
            };
        }
    }

    /// Takes a flow out of its unit's list.
    pub(crate) fn remove(&mut self, flow: u32) {
        let Some(&Link {
            unit,
            next,
            previous,
        }) = self.links.get(flow as usize)
        else {
            return;
        };
        if let Some(link) = self.link(previous) {
            link.next = next;
        }
        if let Some(link) = self.link(next) {
            link.previous = previous;
        }
        if let Some(known) = self.units.get_mut(unit as usize) {
            if previous == 0 {
                known.first = next;
            }
            if next == 0 {
                known.last = previous;
            }
            known.flows = known.flows.saturating_sub(1);
            if known.first == 0 {
                known.root = 0;
            }
            known.changed |= BELONGINGS;
        }
    }

    fn link(&mut self, number: u32) -> Option<&mut Link> {
        self.links.get_mut(number.checked_sub(1)? as usize)
    }

    /// The flow after this one in its unit's list.
    pub(crate) fn after(&self, flow: u32) -> Option<u32> {
        self.links.get(flow as usize)?.next.checked_sub(1)
    }

    /// The unit's flows, in the order in which they were opened.
    pub(crate) fn flows(&self, unit: u64) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.get(unit).and_then(|unit| unit.first.checked_sub(1));
        core::iter::from_fn(move || {
            let flow = next?;
            next = self.after(flow);
            Some(flow)
        })
    }
}

/// Number of a flow or a finer scope's record in a unit that has others: a
/// mix of the unit's number and its clock when the record was opened. One bit
/// keeps them apart from units' numbers, and 53 bits from being rounded as
/// numbers in JSON.
pub(crate) fn mixed_id(unit: u64, clock: u64, level: usize) -> u64 {
    let mut x = unit
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(clock.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(level as u64);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) >> 12 | 1 << 52
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn lists_are_those_of_a_model(steps in prop::collection::vec((0u32..12, 0u64..3), 1..200)) {
            let mut units = Units::new(3, 12, weir_packet::no_advice);
            let mut model: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for (flow, place) in steps {
                let unit = 1 << 32 | place;
                if let Some(list) = model.values_mut().find(|list| list.contains(&flow)) {
                    list.retain(|&f| f != flow);
                    units.remove(flow);
                } else {
                    if units.get(unit).is_none() {
                        prop_assert!(units.begin(unit));
                    }
                    units.add(unit, flow);
                    model.entry(unit).or_default().push(flow);
                }
                for (&unit, list) in &model {
                    prop_assert_eq!(&units.flows(unit).collect::<Vec<_>>(), list);
                    prop_assert_eq!(units.has_flows(unit), !list.is_empty());
                    prop_assert_eq!(units.get(unit).unwrap().flows as usize, list.len());
                }
            }
        }
    }

    #[test]
    fn places_are_checked_and_lives_told_apart() {
        let mut units = Units::new(2, 2, weir_packet::no_advice);
        assert!(units.get(0).is_none() && units.get(1).is_none());
        assert!(!units.begin(1 << 32 | 2));
        assert!(units.begin(1 << 32 | 1));
        assert!(units.get(2 << 32 | 1).is_none() && units.get(1 << 32 | 1).is_some());
        units.forget(1 << 32 | 1);
        assert!(units.get(1 << 32 | 1).is_none());
    }

    #[test]
    fn mixed_numbers_fit_json_and_differ_from_units() {
        let ids = (0..1_000u64).map(|clock| mixed_id(7 << 32 | 3, clock, 0));
        let ids: std::collections::BTreeSet<u64> = ids.collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| (1 << 52..1 << 53).contains(id)));
    }
}
