//! One direction of a link: who arrives, and when.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use weir_packet::Time;

use super::LinkSettings;

/// Counts of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Items lost.
    pub lost: u64,
    /// That came twice.
    pub duplicated: u64,
    /// That came late.
    pub reordered: u64,
    /// That found the link full.
    pub overflow: u64,
}

impl LinkCounts {
    /// Adds another's counts.
    pub fn merge(&mut self, other: LinkCounts) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.overflow += other.overflow;
    }
}

/// An item on its way.
#[derive(Debug)]
struct Travelling<T> {
    due: Time,
    /// Breaks ties: first in, first out.
    number: u64,
    /// It was doubled; this is not the one that was sent.
    copied: bool,
    item: T,
}

impl<T> PartialEq for Travelling<T> {
    fn eq(&self, other: &Travelling<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<T> Eq for Travelling<T> {}
impl<T> PartialOrd for Travelling<T> {
    fn partial_cmp(&self, other: &Travelling<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Travelling<T> {
    fn cmp(&self, other: &Travelling<T>) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

/// Items on their way through one direction of a link. The same settings and
/// items at the same times give the same.
#[derive(Debug)]
pub struct Link<T> {
    settings: LinkSettings,
    random: u64,
    travelling: BinaryHeap<Reverse<Travelling<T>>>,
    sent: u64,
    /// When the last octet that was sent will have left.
    free: u64,
    /// When the last item arrives that is not late on purpose.
    last: u64,
    counts: LinkCounts,
}

impl<T> Link<T> {
    /// `number` tells links of the same settings apart.
    pub fn new(settings: LinkSettings, number: u64) -> Link<T> {
        Link {
            settings,
            random: settings.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            travelling: BinaryHeap::new(),
            sent: 0,
            free: 0,
            last: 0,
            counts: LinkCounts::default(),
        }
    }

    /// Sends an item of so many octets, which `copy` may be asked to double.
    /// Returns items that are lost or find no room.
    pub fn send(
        &mut self,
        now: Time,
        octets: usize,
        item: T,
        copy: impl FnOnce(&T) -> Option<T>,
    ) -> Option<T> {
        if self.happens(self.settings.loss) {
            self.counts.lost += 1;
            return Some(item);
        }
        if self.len() >= self.settings.limit as usize {
            self.counts.overflow += 1;
            return Some(item);
        }
        let due = self.due(now, octets);
        if self.happens(self.settings.duplicate)
            && self.len() + 1 < self.settings.limit as usize
            && let Some(copy) = copy(&item)
        {
            self.counts.duplicated += 1;
            self.push(due, copy, true);
        }
        if self.happens(self.settings.reorder) {
            self.counts.reordered += 1;
            self.push(due + self.settings.late, item, false);
        } else {
            self.push(due, item, false);
        }
        None
    }

    /// When an item arrives that is sent now.
    fn due(&mut self, now: Time, octets: usize) -> u64 {
        let mut left = now.0;
        if self.settings.rate > 0 {
            let bits = octets as u128 * 8 * 1_000_000_000;
            let takes = (bits / u128::from(self.settings.rate)) as u64;
            self.free = self.free.max(now.0).saturating_add(takes);
            left = self.free;
        }
        let mut delay = self.settings.delay;
        if self.settings.jitter > 0 {
            let span = 2 * self.settings.jitter + 1;
            delay = (delay + self.random() % span).saturating_sub(self.settings.jitter);
        }
        self.last = self.last.max(left.saturating_add(delay));
        self.last
    }

    fn push(&mut self, due: u64, item: T, copied: bool) {
        self.sent += 1;
        self.travelling.push(Reverse(Travelling {
            due: Time(due),
            number: self.sent,
            copied,
            item,
        }));
    }

    /// The next item that has arrived by now, and when it did.
    pub fn arrived(&mut self, now: Time) -> Option<(Time, T)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(first) = self.travelling.pop()?;
        Some((first.due, first.item))
    }

    /// When the next item arrives.
    pub fn next_due(&self) -> Option<Time> {
        self.travelling.peek().map(|Reverse(first)| first.due)
    }

    /// True if the next item that arrives is a copy.
    pub fn is_next_a_copy(&self) -> bool {
        let next = self.travelling.peek();
        next.is_some_and(|Reverse(next)| next.copied)
    }

    /// Items on their way.
    pub fn len(&self) -> usize {
        self.travelling.len()
    }

    /// True where nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.travelling.is_empty()
    }

    /// Its counts.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// True for so many of a million.
    fn happens(&mut self, share: u32) -> bool {
        share > 0 && self.random() % 1_000_000 < u64::from(share)
    }

    /// splitmix64
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}
