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
const _: () = assert!(PER_SECOND.is_multiple_of(BUCKETS as u64));

/// The loads of all runtimes, by slot.
///
/// What was measured lags behind a flowlet that was just placed, and what was promised is an
/// estimate: a runtime's load is the larger of the two.
///
/// A boundary asks for all sums, a packet adds to one bucket of now: sums lie side by side, and
/// so do the buckets of one time.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    /// Bytes in all buckets of each runtime, and estimated rates of the flowlets that are
    /// under way there, summed up.
    sums: Vec<Sum>,
    /// Bytes by bucket, and in it by slot.
    buckets: Vec<u32>,
    /// The bucket that is filled now, counted from time 0.
    now: u64,
    /// Buckets that have been filled, up to [`BUCKETS`]: the time that the sums are over.
    filled: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    promised: u64,
}

impl Loads {
    pub(super) fn new() -> Loads {
        Loads {
            sums: Vec::new(),
            buckets: Vec::new(),
            now: 0,
            filled: 1,
        }
    }

    /// A runtime may be given work from now on. Allocates.
    pub(super) fn admit(&mut self, slot: Slot) {
        let (before, slots) = (self.sums.len(), usize::from(slot) + 1);
        if before >= slots {
            return;
        }
        let mut buckets = vec![0; slots * BUCKETS];
        let rows = self.buckets.chunks(before.max(1));
        for (row, old) in buckets.chunks_mut(slots).zip(rows) {
            row[..old.len()].copy_from_slice(old);
        }
        self.buckets = buckets;
        self.sums.resize(slots, Sum::default());
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
        let slots = self.sums.len();
        for at in (bucket + 1).saturating_sub(passed.min(BUCKETS as u64))..=bucket {
            let first = at as usize % BUCKETS * slots;
            let row = self.buckets.iter_mut().skip(first);
            for (sum, bytes) in self.sums.iter_mut().zip(row) {
                sum.bytes -= u64::from(core::mem::take(bytes));
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
        let at = self.now as usize % BUCKETS * self.sums.len() + usize::from(slot);
        if let Some(sum) = self.sums.get_mut(usize::from(slot))
            && let Some(bucket) = self.buckets.get_mut(at)
        {
            let before = *bucket;
            *bucket = before.saturating_add(bytes);
            sum.bytes += u64::from(*bucket - before);
        }
    }

    /// A flowlet of such an estimated rate begins at a runtime.
    pub(super) fn promise(&mut self, slot: Slot, rate: u32) {
        let sum = self.sums.get_mut(usize::from(slot));
        debug_assert!(
            sum.is_some(),
            "a flowlet for a runtime that was not admitted"
        );
        if let Some(sum) = sum {
            sum.promised += u64::from(rate);
        }
    }

    /// It is over.
    pub(super) fn release(&mut self, slot: Slot, rate: u32) {
        if let Some(sum) = self.sums.get_mut(usize::from(slot)) {
            debug_assert!(
                sum.promised >= u64::from(rate),
                "more is released than promised"
            );
            sum.promised = sum.promised.saturating_sub(u64::from(rate));
        }
    }

    /// What flowlets under way at a runtime are estimated to bring, in bytes per second.
    #[cfg(test)]
    pub(super) fn promised(&self, slot: Slot) -> u64 {
        let sum = self.sums.get(usize::from(slot));
        sum.map_or(0, |sum| sum.promised)
    }

    /// Holds what is promised against what it should be, by slot.
    pub(super) fn audit(&self, promised: &BTreeMap<Slot, u64>) -> Option<String> {
        let slots = self.sums.len().max(1);
        let sums = self.sums.iter().enumerate();
        sums.into_iter().find_map(|(slot, sum)| {
            let right = promised.get(&(slot as Slot)).copied().unwrap_or(0);
            let buckets = self.buckets.iter().skip(slot).step_by(slots);
            let bytes: u64 = buckets.map(|bytes| u64::from(*bytes)).sum();
            let has = sum.promised;
            (has != right || bytes != sum.bytes).then(|| {
                format!("runtime {slot} is promised {has} bytes per second, {right} is right")
            })
        })
    }

    /// Bytes per second at a runtime.
    pub(super) fn of(&self, slot: Slot) -> u64 {
        self.of_with(slot, 0)
    }

    /// The same if a flowlet of such a rate begins there, of a unit whose packets were measured
    /// there so far.
    pub(super) fn of_with(&self, slot: Slot, rate: u64) -> u64 {
        let sum = self.sums.get(usize::from(slot));
        sum.map_or(0, |sum| self.measured(sum).max(sum.promised + rate))
    }

    /// Bytes per second measured at some runtimes together.
    pub(super) fn of_all(&self, slots: &[Slot]) -> u64 {
        let sums = slots
            .iter()
            .filter_map(|slot| self.sums.get(usize::from(*slot)));
        sums.map(|sum| self.measured(sum)).sum()
    }

    fn measured(&self, sum: &Sum) -> u64 {
        match self.filled == BUCKETS as u64 {
            // Multiplied, not divided: this is asked of each runtime at each boundary.
            true => sum.bytes * (PER_SECOND / BUCKETS as u64),
            false => sum.bytes * PER_SECOND / self.filled,
        }
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
    fn a_runtime_that_joins_changes_no_load() {
        let mut loads = Loads::new();
        loads.admit(1);
        for tick in 1..=150_u64 {
            loads.advance(tick * BUCKET);
            loads.count(1, 500);
        }
        let before = loads.of(1);
        loads.admit(7);
        assert_eq!((loads.of(1), loads.of(7)), (before, 0));
        for tick in 151..=500_u64 {
            loads.advance(tick * BUCKET);
            loads.count(7, 100);
        }
        assert_eq!((loads.of(1), loads.of(7)), (0, 200_000));
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
