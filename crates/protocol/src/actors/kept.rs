//! Outputs that are kept until the switch has let them out.

use std::collections::VecDeque;

use crate::ids::Clock;
use crate::message::Entry;

/// Entries of consecutive clocks. Their number is bounded by the packets that
/// the switch keeps: it sends none on that it could not repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    entries: VecDeque<Entry>,
}

impl Kept {
    /// The `entries` after `out`.
    pub(crate) fn after(entries: Vec<Entry>, out: Clock) -> Kept {
        let mut kept = Kept::default();
        for entry in entries {
            if entry.clock > out {
                kept.push(entry);
            }
        }
        kept
    }

    /// One more; one that is there already stays as it is.
    pub(crate) fn push(&mut self, entry: Entry) {
        if self
            .entries
            .back()
            .is_none_or(|last| last.clock < entry.clock)
        {
            self.entries.push_back(entry);
        }
    }

    /// Forgets those up to `out`; gives their number.
    pub(crate) fn trim(&mut self, out: Clock) -> u64 {
        let mut trimmed = 0;
        while self.entries.front().is_some_and(|first| first.clock <= out) {
            self.entries.pop_front();
            trimmed += 1;
        }
        trimmed
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// A copy of those up to `out`.
    pub(crate) fn up_to(&self, out: Clock) -> Kept {
        let done = self.entries.iter().take_while(|entry| entry.clock <= out);
        Kept {
            entries: done.cloned().collect(),
        }
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A copy of all.
    pub(crate) fn to_vec(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// Entries after `cursor` of about so many bytes, at least one; true where
    /// none is left.
    pub(crate) fn after_clock(&self, cursor: Clock, bytes: usize) -> (Vec<Entry>, bool) {
        let from = self.entries.partition_point(|entry| entry.clock <= cursor);
        let mut room = bytes;
        let mut taken = Vec::new();
        for entry in self.entries.range(from..) {
            let more = entry.wire_len();
            if more > room && !taken.is_empty() {
                return (taken, false);
            }
            room = room.saturating_sub(more);
            taken.push(entry.clone());
        }
        (taken, true)
    }

    /// The clock before the first entry; `clock` where there is none.
    pub(crate) fn since(&self, clock: Clock) -> Clock {
        let first = self.entries.front();
        first.map_or(clock, |first| Clock(first.clock.0.saturating_sub(1)))
    }

    /// True where no clock is missing between the first entry and the last.
    pub(crate) fn is_gapless(&self) -> bool {
        let (Some(first), Some(last)) = (self.entries.front(), self.entries.back()) else {
            return true;
        };
        last.clock.0 - first.clock.0 + 1 == self.entries.len() as u64
    }

    /// True where all of `out + 1 ..= base` are here.
    pub(crate) fn covers(&self, out: Clock, base: Clock) -> bool {
        base <= out
            || self.entries.front().is_some_and(|e| e.clock <= out.next())
                && self.entries.back().is_some_and(|e| e.clock >= base)
    }

    /// Bytes of packets and notes in them.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.entries.iter().flat_map(|entry| &entry.parts);
        parts.map(|part| part.bytes.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(clocks: impl IntoIterator<Item = u64>) -> Vec<Entry> {
        let entry = |clock| Entry {
            clock: Clock(clock),
            parts: Vec::new(),
        };
        clocks.into_iter().map(entry).collect()
    }

    #[test]
    fn what_was_let_out_is_forgotten_and_the_rest_covers() {
        let mut kept = Kept::after(entries(3..=9), Clock(4));
        assert_eq!(kept.len(), 5);
        assert!(kept.covers(Clock(4), Clock(9)) && kept.covers(Clock(6), Clock(8)));
        assert!(!kept.covers(Clock(3), Clock(9)) && !kept.covers(Clock(4), Clock(10)));
        kept.push(entries([9]).remove(0));
        assert_eq!(kept.len(), 5);
        assert_eq!(kept.trim(Clock(8)), 4);
        assert_eq!(kept.to_vec(), entries([9]));
        assert_eq!(kept.trim(Clock(20)), 1);
        assert!(kept.is_empty() && kept.covers(Clock(9), Clock(9)));
        assert!(!kept.covers(Clock(9), Clock(10)));
    }
}
