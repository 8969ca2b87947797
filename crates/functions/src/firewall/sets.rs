//! Sets that rules name, and what becomes of verdicts when these change.

use weir_nf::Burst;

use super::{ACCEPT, Firewall, JOINED, Remembered};
use crate::rewrite;

impl Firewall {
    /// The generation of what rules say now, with what is in their sets. It is read before rules are
    /// searched: what changes meanwhile has the next packet ask again.
    #[inline]
    pub(super) fn current(&self) -> u32 {
        let versions = (self.sets.iter()).map(|named| named.set.version());
        let changes = versions.fold(0u64, |all, version| {
            (all ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let folded = changes as u32 ^ (changes >> 32) as u32;
        (self.generation ^ folded).max(1)
    }

    /// The generation that a verdict has which was found in generation `current`. One that changed
    /// sets can't take back has that of the rules alone.
    #[inline]
    pub(super) fn stamp(&self, verdict: u8, current: u32) -> u32 {
        match verdict {
            ACCEPT | JOINED if !self.cuts_by_sets => self.generation,
            _ => current,
        }
    }

    /// Fetches what new flows of a burst are looked for in sets by: a great set is in no near cache.
    pub(super) fn fetch_sets(&self, burst: &mut Burst<'_, Self>) {
        let mut firsts = burst.firsts();
        while firsts != 0 {
            let i = firsts.trailing_zeros() as usize;
            firsts &= firsts - 1;
            let Some((source, destination)) = rewrite::addresses_of(&burst.packet(i)) else {
                continue;
            };
            for (named, from, to) in &self.fetched {
                if *from {
                    named.set.prefetch(source);
                }
                if *to {
                    named.set.prefetch(destination);
                }
            }
        }
    }

    /// True where a verdict is that of the rules and sets as they are.
    pub(super) fn is_current(&self, state: &Remembered) -> bool {
        state.generation == self.stamp(state.verdict, self.current())
    }
}
