//! The hold buffer: packets that came before their turn.
//!
//! It is a cache: the switch repeats what it holds. When it is full, the
//! newest packet of the unit that holds most goes first, so that no unit
//! starves the others and what stays can still be applied in a row.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::{Frame, FramePool, Time};

use crate::ids::{Clock, UnitId, View};

type Key = (UnitId, View);

#[derive(Debug, Default)]
struct Queue {
    frames: BTreeMap<Clock, Frame>,
    since: Time,
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is held.
    Held,
    /// Its like was held already.
    Again,
    /// It, or another in its stead, went back to the pool.
    Overflow,
}

/// Packets held, over all units.
#[derive(Debug)]
pub(crate) struct Hold {
    queues: BTreeMap<Key, Queue>,
    by_length: BTreeSet<(usize, Key)>,
    held: usize,
    most: usize,
    room: usize,
    /// Packets are repeated: they need not be held when frames run short.
    repeated: bool,
}

impl Hold {
    /// A buffer for `room` packets. Where they are `repeated` it leaves frames
    /// for those that they wait for.
    pub(crate) fn new(room: u32, repeated: bool) -> Hold {
        Hold {
            repeated,
            queues: BTreeMap::new(),
            by_length: BTreeSet::new(),
            held: 0,
            most: 0,
            room: room as usize,
        }
    }

    /// Holds a packet.
    pub(crate) fn put(
        &mut self,
        pool: &mut FramePool,
        now: Time,
        key: Key,
        clock: Clock,
        frame: Frame,
    ) -> Put {
        let queue = self.queues.entry(key).or_default();
        if queue.frames.contains_key(&clock) {
            pool.give(frame);
            return Put::Again;
        }
        if queue.frames.is_empty() {
            queue.since = now;
        }
        let length = queue.frames.len();
        let is_short = self.repeated && pool.is_low(&frame);
        queue.frames.insert(clock, frame);
        self.by_length.remove(&(length, key));
        self.by_length.insert((length + 1, key));
        self.held += 1;
        let put = if self.held > self.room || is_short {
            self.drop_newest_of_longest(pool);
            Put::Overflow
        } else {
            Put::Held
        };
        self.most = self.most.max(self.held);
        put
    }

    fn drop_newest_of_longest(&mut self, pool: &mut FramePool) {
        if let Some(&(_, key)) = self.by_length.last()
            && let Some((_, frame)) = self.edit(key, |frames| frames.pop_last())
        {
            pool.give(frame);
        }
    }

    /// Takes one packet out of a queue and keeps the books.
    fn edit(
        &mut self,
        key: Key,
        take: impl FnOnce(&mut BTreeMap<Clock, Frame>) -> Option<(Clock, Frame)>,
    ) -> Option<(Clock, Frame)> {
        let queue = self.queues.get_mut(&key)?;
        let length = queue.frames.len();
        let taken = take(&mut queue.frames)?;
        self.held -= 1;
        self.by_length.remove(&(length, key));
        if length > 1 {
            self.by_length.insert((length - 1, key));
        } else {
            self.queues.remove(&key);
        }
        Some(taken)
    }

    /// The packet with this clock, where it is the first that is held for the
    /// view; older ones go back to the pool.
    pub(crate) fn next(&mut self, pool: &mut FramePool, key: Key, clock: Clock) -> Option<Frame> {
        loop {
            let first = *self.queues.get(&key)?.frames.first_key_value()?.0;
            if first > clock {
                return None;
            }
            let (at, frame) = self.edit(key, |frames| frames.pop_first())?;
            if at == clock {
                return Some(frame);
            }
            pool.give(frame);
        }
    }

    /// True where a packet of the view is held.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.queues.contains_key(&key)
    }

    /// Drops what is held for the unit's views below one; gives the number.
    pub(crate) fn drop_below(&mut self, pool: &mut FramePool, unit: UnitId, below: View) -> u64 {
        let mut dropped = 0;
        while let Some((&key, _)) = self.queues.range((unit, View::NONE)..(unit, below)).next() {
            dropped += self.drop_queue(pool, key);
        }
        dropped
    }

    fn drop_queue(&mut self, pool: &mut FramePool, key: Key) -> u64 {
        let Some(queue) = self.queues.remove(&key) else {
            debug_assert!(false, "a queue that is not there is dropped");
            return 0;
        };
        let length = queue.frames.len();
        self.by_length.remove(&(length, key));
        self.held -= length;
        for frame in queue.frames.into_values() {
            pool.give(frame);
        }
        length as u64
    }

    /// Drops what was held since before `before` and that nobody waits for.
    pub(crate) fn sweep(
        &mut self,
        pool: &mut FramePool,
        before: Time,
        is_awaited: impl Fn(UnitId, View) -> bool,
    ) -> u64 {
        let old = |(&(unit, view), queue): (&Key, &Queue)| {
            (queue.since <= before && !is_awaited(unit, view)).then_some((unit, view))
        };
        let old: Vec<Key> = self.queues.iter().filter_map(old).collect();
        old.into_iter().map(|key| self.drop_queue(pool, key)).sum()
    }

    /// Drops everything; gives the number.
    pub(crate) fn clear(&mut self, pool: &mut FramePool) -> u64 {
        let mut dropped = 0;
        while let Some((&key, _)) = self.queues.first_key_value() {
            dropped += self.drop_queue(pool, key);
        }
        dropped
    }

    /// What is wrong with the books, in words.
    pub(crate) fn audit(&self) -> Option<String> {
        let lengths = self.queues.iter().map(|(key, q)| (q.frames.len(), *key));
        let lengths: BTreeSet<(usize, Key)> = lengths.collect();
        let held: usize = lengths.iter().map(|(length, _)| length).sum();
        let is_wrong = held != self.held || lengths != self.by_length;
        is_wrong.then(|| format!("{} packets are held, {held} is right", self.held))
    }

    /// Packets held now.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Most packets held at one time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{FrameMeta, MemoryLayout};

    const A: Key = (UnitId(1 << 32), View(5));
    const B: Key = (UnitId(1 << 32 | 1), View(6));

    fn pool() -> FramePool {
        FramePool::with_layout(MemoryLayout {
            small_frames: 64,
            large_frames: 0,
            ..MemoryLayout::default()
        })
    }

    fn put(hold: &mut Hold, pool: &mut FramePool, key: Key, clock: u64) -> Put {
        let frame = pool.copy(&[1], FrameMeta::default()).unwrap();
        hold.put(pool, Time(clock), key, Clock(clock), frame)
    }

    #[test]
    fn packets_come_out_in_order_without_gaps() {
        let (mut hold, mut pool) = (Hold::new(10, false), pool());
        for clock in [5, 3, 4, 7] {
            assert_eq!(put(&mut hold, &mut pool, A, clock), Put::Held);
        }
        assert_eq!(put(&mut hold, &mut pool, A, 4), Put::Again);
        assert!(hold.next(&mut pool, A, Clock(2)).is_none());
        for clock in [4, 5] {
            let frame = hold.next(&mut pool, A, Clock(clock)).unwrap();
            pool.give(frame);
        }
        assert!(hold.next(&mut pool, A, Clock(6)).is_none() && hold.has(A));
        assert_eq!((hold.held(), hold.most(), pool.outstanding()), (1, 4, 1));
        assert_eq!(hold.drop_below(&mut pool, A.0, View(5)), 0);
        assert_eq!(hold.drop_below(&mut pool, A.0, View(6)), 1);
        assert_eq!((hold.held(), pool.outstanding()), (0, 0));
    }

    #[test]
    fn the_unit_that_holds_most_gives_way() {
        let (mut hold, mut pool) = (Hold::new(6, false), pool());
        for clock in 1..=5 {
            put(&mut hold, &mut pool, A, clock);
        }
        assert_eq!(put(&mut hold, &mut pool, B, 1), Put::Held);
        assert_eq!(put(&mut hold, &mut pool, B, 2), Put::Overflow);
        assert_eq!(put(&mut hold, &mut pool, A, 6), Put::Overflow);
        assert_eq!((hold.held(), hold.most()), (6, 6));
        for clock in 1..=4 {
            let frame = hold.next(&mut pool, A, Clock(clock)).unwrap();
            pool.give(frame);
        }
        assert!(!hold.has(A));
        assert_eq!(hold.clear(&mut pool), 2);
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn frames_are_left_for_what_held_packets_wait_for() {
        let (mut hold, mut pool) = (Hold::new(64, true), pool());
        let held = (1..=64)
            .map(|clock| put(&mut hold, &mut pool, A, clock))
            .filter(|put| *put == Put::Held)
            .count();
        // Half of so small a pool.
        assert_eq!((held, hold.held(), pool.outstanding()), (32, 32, 32));
        hold.clear(&mut pool);
    }

    #[test]
    fn only_what_nobody_waits_for_is_swept() {
        let (mut hold, mut pool) = (Hold::new(6, false), pool());
        put(&mut hold, &mut pool, A, 1);
        put(&mut hold, &mut pool, B, 2);
        assert_eq!(hold.sweep(&mut pool, Time(9), |unit, _| unit == A.0), 1);
        assert!(hold.has(A) && !hold.has(B));
        assert_eq!(hold.sweep(&mut pool, Time(0), |_, _| false), 0);
        assert_eq!(hold.sweep(&mut pool, Time(9), |_, _| false), 1);
        assert_eq!(pool.outstanding(), 0);
    }
}
