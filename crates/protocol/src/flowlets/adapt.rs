//! How `alpha` and `copies` follow what is measured.
//!
//! Once per epoch (100 ms), if enough flowlets moved to say something:
//!
//! - More than a tenth had to wait for their state: `alpha` grows by 5, and `copies` by one if
//!   a copy was of use at all. (The tenth is SNF's own figure: 9.57 % waited.)
//! - Fewer than a twentieth had to: `alpha` falls by 5 towards the setting, and fuller runtimes
//!   are preferred again; and `copies` falls by one, to 1 at least, where fewer than one in
//!   16 copies was used.

use weir_packet::Time;
use weir_telemetry::Counts;

use super::{FlowletCount, FlowletSettings, MOST_COPIES};

/// Length of an epoch in nanoseconds (SNF §9: 100 ms).
const EPOCH: u64 = 100_000_000;
/// Flowlets that have to have moved before an epoch says something.
const ENOUGH: u64 = 32;
/// The highest `alpha`: the state decides, whatever the load of those with room.
const ALPHA_MOST: u32 = 100;
/// Change of `alpha` per epoch.
const ALPHA_STEP: u32 = 5;

/// What was measured in an epoch, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Adapt {
    least_alpha: u32,
    alpha: u32,
    copies: u8,
    epoch: u64,
    moved: u64,
    waited: u64,
    asked: u64,
    used: u64,
}

impl Adapt {
    pub(super) fn new(settings: &FlowletSettings) -> Adapt {
        Adapt {
            least_alpha: settings.alpha,
            alpha: settings.alpha,
            copies: settings.copies,
            epoch: 0,
            moved: 0,
            waited: 0,
            asked: 0,
            used: 0,
        }
    }

    pub(super) fn alpha(&self) -> u32 {
        self.alpha
    }

    pub(super) fn copies(&self) -> u8 {
        self.copies
    }

    pub(super) fn moved(&mut self, was_ready: bool) {
        self.moved += 1;
        self.waited += u64::from(!was_ready);
    }

    pub(super) fn asked(&mut self, copies: u64) {
        self.asked += copies;
    }

    pub(super) fn used(&mut self) {
        self.used += 1;
    }

    #[inline]
    pub(super) fn advance(&mut self, now: Time, counts: &mut Counts<FlowletCount>) {
        let epoch = now.0 / EPOCH;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.follow(counts);
        }
    }

    fn follow(&mut self, counts: &mut Counts<FlowletCount>) {
        if self.moved < ENOUGH {
            return;
        }
        let before = (self.alpha, self.copies);
        if self.waited * 10 > self.moved {
            self.alpha = (self.alpha + ALPHA_STEP).min(ALPHA_MOST.max(self.least_alpha));
            if self.copies > 0 && self.used > 0 {
                self.copies = (self.copies + 1).min(MOST_COPIES as u8);
            }
        } else if self.waited * 20 < self.moved {
            self.alpha = self.alpha.saturating_sub(ALPHA_STEP).max(self.least_alpha);
            if self.copies > 1 && self.used * 16 < self.asked {
                self.copies -= 1;
            }
        }
        if before.0 != self.alpha {
            counts.add(FlowletCount::AlphaAdapted);
        }
        if before.1 != self.copies {
            counts.add(FlowletCount::CopiesAdapted);
        }
        (self.moved, self.waited, self.asked, self.used) = (0, 0, 0, 0);
    }
}
