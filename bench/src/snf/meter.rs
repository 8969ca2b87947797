//! Measurements of a switch that decides per flow: loads of units, rates of flows.
//!
//! A unit's load is what came within 100 ms, as for flowlets. Flows that were just placed are not
//! in it yet: for them the mean of what flows bring within their first 100 ms is added, and fades
//! as the measurement takes over.

use weir_protocol::flowlets::Slot;

/// Nanoseconds of a bucket, and buckets that are measured over (SNF §9).
const BUCKET: u64 = 500_000;
const BUCKETS: u64 = 200;
/// Nanoseconds that are measured over.
const WINDOW: u64 = BUCKET * BUCKETS;

#[derive(Clone, Debug)]
struct Load {
    buckets: Vec<u64>,
    sum: u64,
    /// Bytes per second of flows placed within each bucket.
    placed: Vec<u64>,
    /// Their sum, and their sum times the buckets that have passed since.
    placed_sum: u64,
    placed_age: u64,
}

/// Loads of units, and the mean rate of new flows.
#[derive(Debug)]
pub(super) struct Meter {
    loads: Vec<Load>,
    now: u64,
    filled: u64,
    /// Bytes of flows within their first window, and flows.
    young_bytes: u64,
    flows: u64,
}

impl Meter {
    pub(super) fn new(most: u16) -> Meter {
        let load = Load {
            buckets: vec![0; BUCKETS as usize],
            sum: 0,
            placed: vec![0; BUCKETS as usize],
            placed_sum: 0,
            placed_age: 0,
        };
        Meter {
            loads: vec![load; usize::from(most) + 1],
            now: 0,
            filled: 1,
            young_bytes: 0,
            flows: 0,
        }
    }

    pub(super) fn advance(&mut self, now: u64) {
        let bucket = now / BUCKET;
        let is_first = self.now == 0;
        let passed = bucket.saturating_sub(self.now);
        if is_first && passed > 0 {
            // The first bucket begins when time does.
            (self.now, self.filled) = (bucket, 1);
            return;
        }
        for _ in 0..passed.min(BUCKETS) {
            self.now += 1;
            let at = (self.now % BUCKETS) as usize;
            for load in &mut self.loads {
                load.sum -= core::mem::take(&mut load.buckets[at]);
                load.placed_age += load.placed_sum;
                let old = core::mem::take(&mut load.placed[at]);
                load.placed_sum -= old;
                load.placed_age -= old * BUCKETS;
            }
        }
        self.now = bucket;
        self.filled = (self.filled + passed).min(BUCKETS);
    }

    /// Counts a packet of a flow that began at `began`.
    pub(super) fn count(&mut self, slot: Slot, now: u64, began: u64, bytes: u16) {
        let load = &mut self.loads[usize::from(slot)];
        load.buckets[(self.now % BUCKETS) as usize] += u64::from(bytes);
        load.sum += u64::from(bytes);
        if now < began + WINDOW {
            self.young_bytes += u64::from(bytes);
        }
    }

    /// Bytes per second that a new flow is expected to bring within its first window.
    pub(super) fn demand(&self) -> u64 {
        self.young_bytes * (1_000_000_000 / WINDOW) / self.flows.max(1)
    }

    /// A flow of such a rate is placed.
    pub(super) fn place(&mut self, slot: Slot, rate: u64, is_new: bool) {
        self.flows += u64::from(is_new);
        let load = &mut self.loads[usize::from(slot)];
        load.placed[(self.now % BUCKETS) as usize] += rate;
        load.placed_sum += rate;
    }

    /// Bytes per second at a unit.
    pub(super) fn load(&self, slot: Slot) -> u64 {
        let load = &self.loads[usize::from(slot)];
        let measured = load.sum * (1_000_000_000 / BUCKET) / self.filled;
        // Each fades over the window.
        measured + load.placed_sum - load.placed_age / BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_placed_fades_as_it_is_measured() {
        let mut meter = Meter::new(2);
        meter.advance(BUCKET);
        meter.place(1, 1_000_000, true);
        assert_eq!(meter.load(1), 1_000_000);
        for bucket in 1..=200 {
            meter.advance(bucket * BUCKET);
            meter.count(1, bucket * BUCKET, BUCKET, 500);
        }
        assert!(
            meter.load(1).abs_diff(1_000_000) < 20_000,
            "{}",
            meter.load(1)
        );
        meter.advance(201 * BUCKET);
        meter.advance(1_000 * BUCKET);
        assert_eq!((meter.load(1), meter.load(2)), (0, 0));
        assert_eq!(meter.demand(), 1_000_000);
    }
}
