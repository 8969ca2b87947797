//! Links that carry frames and messages from one process to another, and what
//! goes wrong on the way.

use std::collections::BTreeMap;

use crate::fault::{Fault, Faults};
use crate::random::mix;

/// Number of a process: one start.
pub(crate) type ProcessNo = usize;

/// A way from one process to another.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Frames so far.
    count: u64,
    /// Latest arrival so far of what must stay in order.
    last: u64,
    /// Time until which nothing gets through.
    cut_until: u64,
    /// Time until which frames are late, and by how much.
    slow_until: u64,
    slow_by: u64,
}

/// All links.
#[derive(Debug)]
pub(crate) struct Links {
    seed: u64,
    faults: Faults,
    links: BTreeMap<(ProcessNo, ProcessNo), Link>,
    burst_until: u64,
    /// Faults are over.
    healed: bool,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

/// When a frame arrives: not at all, once, or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub(crate) first: Option<u64>,
    pub(crate) again: Option<u64>,
}

/// When a message arrives that is sent until it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    /// Time up to which the sender has to live for that.
    pub(crate) sent: u64,
}

/// Nanoseconds after which what was lost on a plain link is sent again.
const AGAIN: u64 = 1_500_000;

impl Links {
    pub(crate) fn new(seed: u64, faults: Faults) -> Links {
        Links {
            seed,
            faults,
            links: BTreeMap::new(),
            burst_until: 0,
            healed: false,
            lost: 0,
            duplicated: 0,
            reordered: 0,
        }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.burst_until = 0;
        for link in self.links.values_mut() {
            link.cut_until = 0;
            link.slow_until = 0;
        }
    }

    pub(crate) fn burst(&mut self, until: u64) {
        self.burst_until = self.burst_until.max(until);
    }

    pub(crate) fn cut(&mut self, one: ProcessNo, other: ProcessNo, until: u64) {
        self.cut_one_way(one, other, until);
        self.cut_one_way(other, one, until);
    }

    pub(crate) fn cut_one_way(&mut self, from: ProcessNo, to: ProcessNo, until: u64) {
        let link = self.links.entry((from, to)).or_default();
        link.cut_until = link.cut_until.max(until);
    }

    /// Frames between two processes are late until then.
    pub(crate) fn slow(&mut self, one: ProcessNo, other: ProcessNo, by: u64, until: u64) {
        for pair in [(one, other), (other, one)] {
            let link = self.links.entry(pair).or_default();
            link.slow_until = until;
            link.slow_by = by;
        }
    }

    /// True where some link lets nothing, or little, through, or is slow.
    pub(crate) fn is_cut(&self, now: u64) -> bool {
        let ends = |link: &Link| link.cut_until.max(link.slow_until);
        now < self.burst_until || self.links.values().any(|link| now < ends(link))
    }

    fn slowness(&self, from: ProcessNo, to: ProcessNo, now: u64) -> u64 {
        let link = self.links.get(&(from, to));
        let slow = link.filter(|link| now < link.slow_until);
        slow.map_or(0, |link| link.slow_by)
    }

    /// Time that a frame is on its way, without jitter.
    fn base(&self, from: ProcessNo, to: ProcessNo) -> u64 {
        let (low, high) = (from.min(to) as u64, from.max(to) as u64);
        let drawn = mix(self.seed, 0x1000 + low * 4_096 + high);
        if self.faults.has(Fault::Delay) {
            20_000 + drawn % 2_000_000
        } else {
            5_000 + drawn % 60_000
        }
    }

    fn has(&self, fault: Fault) -> bool {
        !self.healed && self.faults.has(fault)
    }

    fn drawn(&mut self, from: ProcessNo, to: ProcessNo) -> u64 {
        let link = self.links.entry((from, to)).or_default();
        link.count += 1;
        mix(
            self.seed ^ (from as u64) << 40 ^ (to as u64) << 20,
            link.count,
        )
    }

    fn is_lost(&mut self, from: ProcessNo, to: ProcessNo, now: u64, drawn: u64) -> bool {
        let cut = self.links.get(&(from, to)).map_or(0, |l| l.cut_until);
        let parts = drawn % 1_000;
        let lost = now < cut
            || now < self.burst_until && parts < 700
            || self.has(Fault::Loss) && parts < 20;
        self.lost += u64::from(lost);
        lost
    }

    /// A frame that may be lost, doubled, and out of order.
    pub(crate) fn frame(&mut self, from: ProcessNo, to: ProcessNo, now: u64) -> Arrivals {
        let drawn = self.drawn(from, to);
        if self.is_lost(from, to, now, drawn) {
            return Arrivals {
                first: None,
                again: None,
            };
        }
        let base = self.base(from, to);
        let jitter = if self.has(Fault::Delay) {
            (drawn >> 10) % (base / 2)
        } else {
            0
        };
        let mut at = now + base + jitter + self.slowness(from, to, now);
        let late = self.has(Fault::Reorder) && (drawn >> 20) % 100 < 15;
        if late {
            at += (drawn >> 30) % (6 * base);
            self.reordered += 1;
        } else if !self.has(Fault::Reorder)
            && let Some(link) = self.links.get_mut(&(from, to))
        {
            at = at.max(link.last);
            link.last = at;
        }
        let twice = self.has(Fault::Duplicate) && (drawn >> 45) % 1_000 < 33;
        self.duplicated += u64::from(twice);
        Arrivals {
            first: Some(at),
            again: twice.then(|| at + (drawn >> 50) % (3 * base)),
        }
    }

    /// A message that is sent again until it arrives, in order.
    pub(crate) fn message(&mut self, from: ProcessNo, to: ProcessNo, now: u64) -> Arrival {
        let base = self.base(from, to);
        let mut sent = now;
        for _ in 0..64 {
            let drawn = self.drawn(from, to);
            if !self.is_lost(from, to, sent, drawn) {
                break;
            }
            let cut = self.links.get(&(from, to)).map_or(0, |l| l.cut_until);
            sent = (sent + AGAIN).max(cut);
        }
        let slow = self.slowness(from, to, sent);
        let link = self.links.entry((from, to)).or_default();
        let at = (sent + base + slow).max(link.last);
        link.last = at;
        Arrival {
            at,
            sent: at - base - slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_link_keeps_order_and_loses_nothing() {
        let mut links = Links::new(1, Faults::NONE);
        let mut last = 0;
        for now in 0..1_000 {
            let arrivals = links.frame(0, 1, now);
            let at = arrivals.first.unwrap();
            assert!(at >= last && arrivals.again.is_none());
            last = at;
        }
    }

    #[test]
    fn faults_bite_and_heal() {
        let mut links = Links::new(1, Faults::ALL);
        for now in 0..2_000 {
            links.frame(0, 1, now * 1_000);
        }
        assert!(links.lost > 10 && links.duplicated > 20 && links.reordered > 100);
        links.cut(0, 1, 9_000_000);
        assert_eq!(links.frame(1, 0, 8_999_999).first, None);
        assert!(links.message(1, 0, 8_000_000).at > 9_000_000);
        links.heal();
        assert!(links.frame(1, 0, 8_999_999).first.is_some());
    }
}
