//! State of the matcher per flow and per direction: plain data of a fixed layout, valid when zeroed
//! and safe to use whatever its bytes are.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// How many rules may wait for more bytes of a direction.
pub(crate) const PENDING: usize = 6;
/// How many rules are remembered to have alerted in a direction.
pub(crate) const ALERTED: usize = 6;

/// A rule whose fast pattern was found, and which more bytes may complete. Free when `rule` is 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(crate) struct Pending {
    /// Number of the rule in order of evaluation, plus 1.
    pub(crate) rule: u32,
    /// One bit per content (the last one for all from there on) that may still be found or decided.
    pub(crate) open: u32,
    /// Low half of the stream offset where the fast pattern ends.
    pub(crate) hit: u32,
    /// Low half of the stream offset after which a match must end to be new.
    pub(crate) fresh: u32,
}

/// A rule that has alerted. Free when `rule` is 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(crate) struct Alerted {
    /// Number of the rule in order of evaluation, plus 1.
    pub(crate) rule: u32,
    /// Low half of the stream offset where the last match that was reported ends.
    pub(crate) end: u32,
}

/// The matcher's memory of one direction of a stream.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct StreamState {
    pub(crate) generation: u64,
    /// Stream offset up to which bytes were scanned.
    pub(crate) scanned: u64,
    /// Stream offset of the current message's first byte.
    pub(crate) message_start: u64,
    pub(crate) pending: [Pending; PENDING],
    pub(crate) alerted: [Alerted; ALERTED],
    /// State of the automaton after the byte before `scanned`.
    pub(crate) automaton: u32,
    /// Index of the entry of `alerted` to overwrite next, once all are taken.
    pub(crate) next_alerted: u32,
}

impl StreamState {
    /// Stream offset up to which bytes were scanned.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Makes the state usable for bytes that begin at `offset`, with the rule set of this generation. What
    /// was remembered is forgotten when the rule set has changed, and the automaton starts afresh when the
    /// bytes do not continue those before.
    pub(crate) fn adopt(&mut self, generation: u64, offset: u64) {
        if self.generation != generation {
            *self = StreamState {
                generation,
                scanned: offset,
                message_start: offset,
                ..StreamState::default()
            };
        } else if self.scanned != offset {
            self.automaton = 0;
            self.scanned = offset;
            self.message_start = self.message_start.min(offset);
            self.pending = Default::default();
        }
    }

    /// The stream offset, at most `scanned`, of which `low` is the low half.
    pub(crate) fn offset_of(&self, low: u32) -> u64 {
        let back = (self.scanned as u32).wrapping_sub(low);
        self.scanned.saturating_sub(u64::from(back))
    }

    /// Offset where the last reported match of a rule ends.
    pub(crate) fn alerted_end(&self, rule: u32) -> Option<u64> {
        self.alerted
            .iter()
            .find(|entry| entry.rule == rule + 1)
            .map(|entry| self.offset_of(entry.end))
    }

    /// Remembers that a rule has alerted; true when another rule had to be forgotten for it.
    pub(crate) fn remember_alert(&mut self, rule: u32, end: u64) -> bool {
        let entry = Alerted {
            rule: rule + 1,
            // The low half is all that is kept; see `offset_of`.
            end: end as u32,
        };
        let place = self
            .alerted
            .iter()
            .position(|known| known.rule == rule + 1)
            .or_else(|| self.alerted.iter().position(|known| known.rule == 0));
        let (place, forgot) = match place {
            Some(place) => (place, false),
            None => {
                let place = self.next_alerted as usize % ALERTED;
                self.next_alerted = self.next_alerted.wrapping_add(1);
                (place, true)
            }
        };
        if let Some(slot) = self.alerted.get_mut(place) {
            *slot = entry;
        }
        forgot
    }

    /// Puts a rule among those that wait; true when another one had to be dropped for it.
    pub(crate) fn wait(&mut self, entry: Pending) -> bool {
        let place = self
            .pending
            .iter()
            .position(|known| known.rule == entry.rule)
            .or_else(|| self.pending.iter().position(|known| known.rule == 0));
        if let Some(slot) = place.and_then(|place| self.pending.get_mut(place)) {
            *slot = entry;
            return false;
        }
        // Full: the one that has waited longest goes.
        let newest = self.scanned as u32;
        if let Some(oldest) = self
            .pending
            .iter_mut()
            .max_by_key(|known| newest.wrapping_sub(known.hit))
        {
            *oldest = entry;
        }
        true
    }

    /// Forgets what lies so far back that the low half of its offset would soon be mistaken for a later one.
    pub(crate) fn forget_old(&mut self) {
        const OLD: u32 = 1 << 30;
        let now = self.scanned as u32;
        for entry in &mut self.alerted {
            if entry.rule != 0 && now.wrapping_sub(entry.end) > OLD {
                *entry = Alerted::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_back_from_their_low_half() {
        let mut state = StreamState {
            scanned: 0x1_0000_0005,
            ..StreamState::default()
        };
        state.remember_alert(3, 0xffff_fff0);
        assert_eq!(state.alerted_end(3), Some(0xffff_fff0));
        state.scanned += 0x2000_0000;
        state.forget_old();
        assert_eq!(state.alerted_end(3), Some(0xffff_fff0));
        state.scanned += 0x4000_0000;
        state.forget_old();
        assert_eq!(state.alerted_end(3), None);
    }

    #[test]
    fn full_memories_drop_the_oldest() {
        let mut state = StreamState::default();
        for rule in 0..ALERTED as u32 {
            assert!(!state.remember_alert(rule, u64::from(rule)));
        }
        assert!(!state.remember_alert(0, 9));
        state.scanned = 10;
        assert_eq!(state.alerted_end(0), Some(9));
        assert!(state.remember_alert(100, 9));
        assert_eq!(state.alerted_end(0), None);
        for rule in 1..=PENDING as u32 {
            let entry = Pending {
                rule,
                hit: rule,
                ..Pending::default()
            };
            assert!(!state.wait(entry));
        }
        let entry = Pending {
            rule: 50,
            hit: 9,
            ..Pending::default()
        };
        assert!(state.wait(entry));
        assert!(state.pending.iter().all(|known| known.rule != 1));
    }
}
