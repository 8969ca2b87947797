//! The load of each runtime, in bytes per second.

use std::collections::BTreeMap;

use super::Slot;

/// Length of a bucket in nanoseconds (SNF §9: 500 µs).
const BUCKET: u64 = 500_000;
/// Buckets that make up what is measured (SNF §9: 200, which is 100 ms).
const BUCKETS: usize = 200;
/// Buckets per second.
const PER_SECOND: u64 = 1_000_000_000 / BUCKET;
const _: () = assert!(PER_SECOND * BUCKET == 1_000_000_000);

/// The load of one runtime.
#[derive(Clone, Debug)]
struct Load {
    /// Bytes in each of the last buckets.
    buckets: [u32; BUCKETS],
    /// Their sum.
    sum: u64,
    /// Estimated rates of the flowlets that are under way there, summed up.
    promised: u64,
}

impl Load {
    const NONE: Load = Load {
        buckets: [0; BUCKETS],
        sum: 0,
        promised: 0,
    };
}

/// The loads of all runtimes, by slot.
///
/// What was measured lags behind a flowlet that was just placed, and what was promised is an
/// estimate: a runtime's load is the larger of the two.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    loads: Vec<Load>,
    /// The bucket that is filled now, counted from time 0.
    now: u64,
    /// Buckets that have been filled, up to [`BUCKETS`]: the time that the sums are over.
    filled: u64,
}

impl Loads {
    pub(super) fn new() -> Loads {
        Loads {
            loads: Vec::new(),
            now: 0,
            filled: 1,
        }
    }

    /// A runtime may be given work from now on. Allocates.
    pub(super) fn admit(&mut self, slot: Slot) {
        let slots = usize::from(slot) + 1;
        if self.loads.len() < slots {
            self.loads.resize(slots, Load::NONE);
        }
    }

    /// Begins new buckets as time has passed.
    pub(super) fn advance(&mut self, now: u64) {
        let bucket = now / BUCKET;
        let passed = bucket.saturating_sub(self.now);
        if passed == 0 {
            return;
        }
        // The first bucket begins when time does.
        let is_first = self.now == 0;
        for at in (bucket + 1).saturating_sub(passed.min(BUCKETS as u64))..=bucket {
            let at = at as usize % BUCKETS;
            for load in &mut self.loads {
                load.sum -= u64::from(core::mem::take(&mut load.buckets[at]));
            }
        }
        self.now = bucket;
        self.filled = match is_first {
            true => 1,
            false => (self.filled + passed).min(BUCKETS as u64),
        };
    }

    /// Counts bytes for a runtime.
    #[inline]
    pub(super) fn count(&mut self, slot: Slot, bytes: u32) {
        if let Some(load) = self.loads.get_mut(usize::from(slot)) {
            let bucket = &mut load.buckets[self.now as usize % BUCKETS];
            let before = *bucket;
            *bucket = before.saturating_add(bytes);
            load.sum += u64::from(*bucket - before);
        }
    }

    /// A flowlet of such an estimated rate begins at a runtime.
    pub(super) fn promise(&mut self, slot: Slot, rate: u32) {
        let load = self.loads.get_mut(usize::from(slot));
        debug_assert!(
            load.is_some(),
            "a flowlet for a runtime that was not admitted"
        );
        if let Some(load) = load {
            load.promised += u64::from(rate);
        }
    }

    /// It is over.
    pub(super) fn release(&mut self, slot: Slot, rate: u32) {
        if let Some(load) = self.loads.get_mut(usize::from(slot)) {
            debug_assert!(
                load.promised >= u64::from(rate),
                "more is released than promised"
            );
            load.promised = load.promised.saturating_sub(u64::from(rate));
        }
    }

    /// What flowlets under way at a runtime are estimated to bring, in bytes per second.
    #[cfg(test)]
    pub(super) fn promised(&self, slot: Slot) -> u64 {
        let load = self.loads.get(usize::from(slot));
        load.map_or(0, |load| load.promised)
    }

    /// Holds what is promised against what it should be, by slot.
    pub(super) fn audit(&self, promised: &BTreeMap<Slot, u64>) -> Option<String> {
        let loads = self.loads.iter().enumerate();
        loads.into_iter().find_map(|(slot, load)| {
            let right = promised.get(&(slot as Slot)).copied().unwrap_or(0);
            let sum: u64 = load.buckets.iter().map(|bytes| u64::from(*bytes)).sum();
            let has = load.promised;
            (has != right || sum != load.sum).then(|| {
                format!("runtime {slot} is promised {has} bytes per second, {right} is right")
            })
        })
    }

    /// Bytes per second at a runtime.
    pub(super) fn of(&self, slot: Slot) -> u64 {
        self.loads.get(usize::from(slot)).map_or(0, |load| {
            let measured = load.sum * PER_SECOND / self.filled;
            measured.max(load.promised)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_what_came_within_a_tenth_of_a_second() {
        let mut loads = Loads::new();
        loads.admit(1);
        for tick in 1..=400_u64 {
            loads.advance(tick * BUCKET);
            loads.count(1, 500);
        }
        assert_eq!(loads.of(1), 1_000_000);
        loads.advance(400 * BUCKET + 50_000_000);
        assert_eq!(loads.of(1), 500_000);
        loads.advance(400 * BUCKET + 99_500_000);
        assert_eq!(loads.of(1), 5_000);
        loads.advance(400 * BUCKET + 100_000_000);
        assert_eq!(loads.of(1), 0);
        // Longer than the ring is.
        loads.count(1, 500);
        loads.advance(9_000 * BUCKET);
        assert_eq!(loads.of(1), 0);
    }

    #[test]
    fn what_is_promised_counts_before_it_comes() {
        let mut loads = Loads::new();
        loads.admit(2);
        loads.advance(BUCKET);
        loads.promise(2, 70);
        assert_eq!((loads.of(2), loads.of(1), loads.of(9)), (70, 0, 0));
        loads.release(2, 70);
        assert_eq!(loads.of(2), 0);
    }
}
