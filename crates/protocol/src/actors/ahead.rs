//! States that were sent ahead of flowlets (SNF §5): a cache that may be dropped at any time.
//!
//! The switch has the owner of a quiet unit send copies of its state to runtimes that are likely to
//! own it next. One of them that does needs no pull, if its copy is of the right view and packet,
//! and of the right owner. A copy is no actor: nobody claims it after a switch's restart, and no
//! `Forget` is waited for.

use std::collections::BTreeMap;

use weir_packet::{FramePool, Time};

use super::{ActorCount, Actors};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Image, Message, Open, Origin};
use crate::plant::Plant;

/// Time after which a copy is forgotten: once or twice this, in nanoseconds. A flow that was
/// quiet for so long may as well wait for its state.
const LIFE: u64 = 5_000_000_000;
/// Bytes of a copy beside its state, about.
const FORM: usize = 96;

/// A copy of a state.
#[derive(Debug)]
struct Copied {
    from: RuntimeId,
    view: View,
    image: Image,
}

impl Copied {
    /// True if a planned view, whose state `source` has, can begin with it. Outputs that were not
    /// let out are with the source: then no copy is enough.
    fn fits(&self, source: RuntimeId, open: &Open, plant: Option<Plant>) -> bool {
        let is_last = self.image.clock == open.base || plant == Some(Plant::CopyOutdated);
        self.from == source && self.view == open.old && is_last && open.out == open.base
    }

    fn size(&self) -> usize {
        FORM + self.image.state.as_ref().map_or(0, Vec::len)
    }
}

/// Copies in two generations. The older one is forgotten in bulk: when its time has come, or when
/// the younger one has half of the room.
#[derive(Debug)]
pub(super) struct Copies {
    young: BTreeMap<UnitId, Copied>,
    old: BTreeMap<UnitId, Copied>,
    /// Bytes of the younger ones.
    bytes: usize,
    most: usize,
    since: Time,
}

impl Copies {
    pub(super) fn new(most: usize) -> Copies {
        Copies {
            young: BTreeMap::new(),
            old: BTreeMap::new(),
            bytes: 0,
            most,
            since: Time::ZERO,
        }
    }

    /// Keeps a copy; gives how many others were forgotten for it.
    fn keep(&mut self, now: Time, unit: UnitId, copied: Copied) -> usize {
        let known = self.young.get(&unit).or_else(|| self.old.get(&unit));
        let is_older =
            |known: &Copied| (known.view, known.image.clock) > (copied.view, copied.image.clock);
        if known.is_some_and(is_older) {
            return 1;
        }
        let mut forgotten = self.age(now);
        self.bytes += copied.size();
        forgotten += usize::from(self.old.remove(&unit).is_some());
        if let Some(before) = self.young.insert(unit, copied) {
            self.bytes -= before.size();
            forgotten += 1;
        }
        forgotten
    }

    /// Forgets the older generation if it is time; gives how many copies that were.
    fn age(&mut self, now: Time) -> usize {
        if now.since(self.since) < LIFE && self.bytes <= self.most / 2 {
            return 0;
        }
        self.since = now;
        self.bytes = 0;
        let young = core::mem::take(&mut self.young);
        core::mem::replace(&mut self.old, young).len()
    }

    fn take(&mut self, unit: UnitId) -> Option<Copied> {
        let young = self.young.remove(&unit);
        if let Some(copied) = &young {
            self.bytes -= copied.size();
        }
        young.or_else(|| self.old.remove(&unit))
    }

    /// When the next ones are forgotten.
    pub(super) fn age_at(&self) -> Option<Time> {
        (self.len() > 0).then(|| self.since.plus(LIFE))
    }

    /// Copies that are kept.
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

impl Actors {
    /// The switch thinks that a unit is quiet: its state goes to runtimes that may own it next.
    pub(super) fn copy_to_likely(
        &mut self,
        unit: UnitId,
        (view, clock): (View, Clock),
        to: &[RuntimeId],
    ) {
        let hot = self.table.live(unit);
        let is_quiet =
            hot.is_some_and(|hot| hot.view == view && hot.clock == clock && !hot.is_closing());
        if !is_quiet {
            return self.counts.add(ActorCount::AheadLate);
        }
        let longest = self.settings.most.min(self.settings.ahead / 2);
        let state = self.export(unit);
        if state.as_ref().is_some_and(|state| state.len() > longest) {
            return self.counts.add(ActorCount::AheadTooLong);
        }
        for &runtime in to {
            if runtime == self.settings.id {
                self.counts.add(ActorCount::MessageRefused);
                continue;
            }
            let image = Image {
                clock,
                state: state.clone(),
                since: clock,
                outputs: Vec::new(),
            };
            self.counts.add(ActorCount::AheadSent);
            self.tell_runtime(runtime, Message::Ahead { unit, view, image });
        }
    }

    /// Another runtime's unit may come here next: this is its state.
    pub(super) fn keep_copy(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        unit: UnitId,
        view: View,
        image: Image,
    ) {
        let is_nonsense = image.since != image.clock || !image.outputs.is_empty();
        if is_nonsense || from == self.settings.id {
            return self.counts.add(ActorCount::MessageRefused);
        }
        if view.generation() < self.generation {
            return self.counts.add(ActorCount::MessageStale);
        }
        let copied = Copied { from, view, image };
        let waiting = self.cold.get(&unit).and_then(|cold| cold.waiting);
        if let Some(waiting) = waiting
            && matches!(waiting.open.origin, Origin::Planned { .. })
            && copied.fits(waiting.source, &waiting.open, None)
        {
            // The flowlet was faster than the copy.
            self.counts.add(ActorCount::AheadUsed);
            self.unstage(unit);
            self.retire(unit);
            return self.install(now, pool, &waiting.open, copied.image);
        }
        self.counts.add(ActorCount::AheadKept);
        let forgotten = self.copies.keep(now, unit, copied);
        self.counts
            .add_many(ActorCount::AheadVain, forgotten as u64);
    }

    /// The copy that a planned view of a unit can begin with.
    pub(super) fn take_copy(&mut self, source: RuntimeId, open: &Open) -> Option<Image> {
        let copied = self.copies.take(open.unit)?;
        if copied.fits(source, open, self.settings.plant) {
            self.counts.add(ActorCount::AheadUsed);
            let image = copied.image;
            return Some(Image {
                clock: open.base,
                since: open.base,
                ..image
            });
        }
        self.counts.add(ActorCount::AheadStale);
        None
    }

    /// Forgets copies whose time is over.
    pub(super) fn age_copies(&mut self, now: Time) {
        let forgotten = self.copies.age(now);
        self.counts
            .add_many(ActorCount::AheadVain, forgotten as u64);
    }

    /// Copies that other runtimes have sent ahead, and that are kept now.
    pub fn copies_ahead(&self) -> usize {
        self.copies.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(clock: u64, bytes: usize) -> Copied {
        Copied {
            from: RuntimeId(1),
            view: View(1),
            image: Image {
                clock: Clock(clock),
                state: Some(vec![0; bytes]),
                since: Clock(clock),
                outputs: Vec::new(),
            },
        }
    }

    #[test]
    fn copies_are_forgotten_in_bulk_and_never_take_more_than_the_room() {
        let mut copies = Copies::new(100 * (FORM + 4));
        for n in 0..1_000 {
            copies.keep(Time(0), UnitId(n), copied(n, 4));
            let bytes: usize = copies.young.values().map(Copied::size).sum();
            assert_eq!(copies.bytes, bytes);
            assert!(copies.len() <= 102, "{}", copies.len());
        }
        assert!(copies.take(UnitId(999)).is_some() && copies.take(UnitId(999)).is_none());
        assert!(copies.take(UnitId(0)).is_none());
        assert!(copies.take(UnitId(950)).is_some());
        // Time alone does it, too: in two steps.
        let left = copies.len();
        assert!(copies.age(Time(LIFE)) < left);
        copies.age(Time(2 * LIFE));
        assert_eq!(copies.len(), 0);
    }

    #[test]
    fn the_newest_copy_of_a_unit_is_kept() {
        let mut copies = Copies::new(1 << 20);
        assert_eq!(copies.keep(Time(0), UnitId(1), copied(1, 4)), 0);
        assert_eq!(copies.keep(Time(1), UnitId(1), copied(2, 8)), 1);
        copies.age(Time(LIFE));
        assert_eq!(copies.keep(Time(LIFE), UnitId(1), copied(3, 8)), 1);
        assert_eq!(copies.len(), 1);
        assert_eq!(
            copies.take(UnitId(1)).map(|copied| copied.image.clock),
            Some(Clock(3))
        );
        assert_eq!(copies.bytes, 0);
    }
}
