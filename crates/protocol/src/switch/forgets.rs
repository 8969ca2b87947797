//! Runtimes that are told to forget, until they say that they did.
//!
//! A switch that starts again goes on from the newest copy that a runtime
//! claims. So the newest copies of a unit that is over must not go before older
//! ones: an older copy alone would revive the unit. Older holders are told
//! first; the last ones when all of those have answered, or are gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_packet::Time;

use super::runtimes::Slot;
use crate::ids::{UnitId, View};

/// Runtimes that have not answered, at most. Beyond it no move begins and no
/// unit ends until some have.
const MOST: usize = 65_536;

/// One runtime that is to forget views of a unit.
#[derive(Clone, Copy, Debug)]
struct Told {
    to: Slot,
    below: View,
    ended: bool,
    /// It is told when no other of the unit is left.
    last: bool,
}

/// A message that a runtime is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forget {
    pub(super) to: Slot,
    pub(super) unit: UnitId,
    pub(super) below: View,
    pub(super) ended: bool,
}

/// Runtimes yet to answer.
#[derive(Debug, Default)]
pub(super) struct Forgets {
    of: BTreeMap<UnitId, Vec<Told>>,
    /// Units, by when their runtimes were last told.
    due: VecDeque<(Time, UnitId)>,
    count: usize,
}

impl Forgets {
    /// Adds a runtime that is told now.
    pub(super) fn add(&mut self, now: Time, forget: Forget) {
        self.insert(now, forget, false);
    }

    /// Adds one that is told when all others of the unit have answered.
    pub(super) fn add_last(&mut self, now: Time, forget: Forget) {
        self.insert(now, forget, true);
    }

    fn insert(&mut self, now: Time, forget: Forget, last: bool) {
        let of = self.of.entry(forget.unit).or_default();
        if of.is_empty() {
            self.due.push_back((now, forget.unit));
        }
        let told = Told {
            to: forget.to,
            below: forget.below,
            ended: forget.ended,
            last,
        };
        match of.iter_mut().find(|known| known.to == forget.to) {
            // The word that goes further stands for both.
            Some(known) if known.below <= told.below => *known = told,
            Some(_) => {}
            None => {
                of.push(told);
                self.count += 1;
            }
        }
    }

    /// True while a runtime has not answered about the unit.
    pub(super) fn waits(&self, unit: UnitId) -> bool {
        self.of.contains_key(&unit)
    }

    /// True while this runtime has not answered about the unit.
    pub(super) fn is_told(&self, to: Slot, unit: UnitId) -> bool {
        let of = self.of.get(&unit).into_iter().flatten();
        of.into_iter().any(|told| told.to == to)
    }

    /// True where a runtime has the newest copy of the unit, and its turn to
    /// forget has not come.
    pub(super) fn has_last(&self, unit: UnitId) -> bool {
        let of = self.of.get(&unit).into_iter().flatten();
        of.into_iter().any(|told| told.last)
    }

    /// True where this runtime has the newest copy of any unit that is over, while older
    /// ones are left: would it go now, they could revive the unit.
    pub(super) fn needs(&self, holder: Slot) -> bool {
        let mut all = self.of.values().flatten();
        all.any(|told| told.last && told.to == holder)
    }

    /// Units of which runtimes have not answered.
    pub(super) fn units(&self) -> usize {
        self.of.len()
    }

    /// What is wrong with the count, in words.
    pub(super) fn audit(&self) -> Option<String> {
        let right: usize = self.of.values().map(Vec::len).sum();
        let due: BTreeSet<UnitId> = self.due.iter().map(|(_, unit)| *unit).collect();
        if self.count != right {
            return Some(format!("{} are to forget, {right} is right", self.count));
        }
        let undue = self.of.keys().find(|unit| !due.contains(unit));
        undue.map(|unit| format!("nobody is told again to forget {unit:?}"))
    }

    /// True where no more should be begun that adds to them.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST
    }

    /// A runtime has forgotten the unit's views below `below`: false where it
    /// was not asked to, or for more. Adds the runtimes to tell now to `tell`.
    pub(super) fn answered(
        &mut self,
        from: Slot,
        unit: UnitId,
        below: View,
        tell: &mut Vec<Forget>,
    ) -> bool {
        let Some(of) = self.of.get_mut(&unit) else {
            return false;
        };
        let before = of.len();
        of.retain(|told| told.to != from || told.last || told.below > below);
        let answered = before - of.len();
        self.count -= answered;
        if answered > 0 {
            self.go_on(unit, tell);
        }
        answered > 0
    }

    /// A runtime is gone: it answers nothing any more.
    pub(super) fn drop_of(&mut self, gone: Slot, tell: &mut Vec<Forget>) {
        let mut units = Vec::new();
        for (unit, of) in &mut self.of {
            let before = of.len();
            of.retain(|told| told.to != gone);
            if of.len() < before {
                self.count -= before - of.len();
                units.push(*unit);
            }
        }
        for unit in units {
            self.go_on(unit, tell);
        }
    }

    /// Counts runtimes that are not there: a planted bug.
    pub(super) fn miscount(&mut self, by: usize) {
        self.count += by;
    }

    /// Tells the last ones where no other is left.
    pub(super) fn go_on(&mut self, unit: UnitId, tell: &mut Vec<Forget>) {
        let Some(of) = self.of.get_mut(&unit) else {
            return;
        };
        if of.is_empty() {
            self.of.remove(&unit);
        } else if of.iter().all(|told| told.last) {
            for told in of {
                told.last = false;
                tell.push(told.forget(unit));
            }
        }
    }

    /// The next unit whose runtimes were told before `since`: what they are
    /// told again.
    pub(super) fn again(&mut self, now: Time, since: Time) -> Option<Vec<Forget>> {
        while let Some(&(at, unit)) = self.due.front() {
            let Some(of) = self.of.get(&unit) else {
                self.due.pop_front();
                continue;
            };
            if at > since {
                return None;
            }
            self.due.pop_front();
            self.due.push_back((now, unit));
            let now = of.iter().filter(|told| !told.last);
            return Some(now.map(|told| told.forget(unit)).collect());
        }
        None
    }

    /// When the first unit was told last.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.due.front().map(|(at, _)| *at)
    }
}

impl Told {
    fn forget(&self, unit: UnitId) -> Forget {
        Forget {
            to: self.to,
            unit,
            below: self.below,
            ended: self.ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: UnitId = UnitId(1 << 32 | 5);

    fn forget(to: Slot, below: u64) -> Forget {
        Forget {
            to,
            unit: U,
            below: View(below),
            ended: true,
        }
    }

    #[test]
    fn the_last_are_told_when_the_others_have_answered() {
        let mut forgets = Forgets::default();
        forgets.add(Time(0), forget(1, 7));
        forgets.add(Time(0), forget(2, 7));
        forgets.add_last(Time(0), forget(3, 7));
        let mut tell = Vec::new();
        assert!(forgets.needs(3) && !forgets.needs(1));
        assert!(
            !forgets.answered(3, U, View(7), &mut tell),
            "was not told yet"
        );
        assert!(!forgets.answered(1, U, View(6), &mut tell), "of less");
        assert!(forgets.answered(1, U, View(7), &mut tell));
        let again = forgets.again(Time(9), Time(5));
        assert_eq!((tell.len(), again), (0, Some(vec![forget(2, 7)])));
        assert_eq!(forgets.again(Time(9), Time(5)), None);
        forgets.drop_of(2, &mut tell);
        assert_eq!(tell, [forget(3, 7)]);
        assert!(forgets.waits(U) && !forgets.needs(3));
        assert!(forgets.answered(3, U, View(7), &mut tell));
        assert!(!forgets.waits(U) && forgets.count == 0);
        assert_eq!(
            (forgets.again(Time(99), Time(99)), forgets.oldest()),
            (None, None)
        );
    }

    #[test]
    fn a_word_that_goes_further_stands_for_both() {
        let mut forgets = Forgets::default();
        forgets.add(Time(0), forget(1, 7));
        forgets.add(Time(0), forget(1, 9));
        forgets.add(Time(0), forget(1, 8));
        let mut tell = Vec::new();
        assert!(!forgets.answered(1, U, View(7), &mut tell) && forgets.waits(U));
        assert!(forgets.answered(1, U, View(9), &mut tell) && !forgets.waits(U));
    }
}
