//! Durations, counted in buckets of an eighth of a power of two.

const STEPS: u64 = 8;

/// How many durations of which length there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: vec![0; 64 * STEPS as usize],
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

/// Below 8 each value has its own bucket.
fn bucket_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let power = value.ilog2();
    let step = value >> (power - STEPS.ilog2()) & (STEPS - 1);
    (u64::from(power - 2) * STEPS + step) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let (bucket, steps) = (bucket as u64, STEPS);
    if bucket < steps {
        return bucket;
    }
    let shift = bucket / steps - 1;
    let first = (steps + bucket % steps) << shift;
    first + ((1 << shift) - 1)
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, nanoseconds: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanoseconds)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    /// How many there were.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Their mean; 0 where there were none.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// A value that `per_mille` of a thousand are not above; at most an eighth
    /// too large. 0 where there were none.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (self.count * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return last_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_holds_it() {
        let mut values: Vec<u64> = (0..200).collect();
        values.extend((3..64).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1]));
        values.push(u64::MAX);
        for value in values {
            let bucket = bucket_of(value);
            assert!(bucket < 64 * STEPS as usize);
            assert!(value <= last_of(bucket), "{value}");
            assert!(bucket == 0 || value > last_of(bucket - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_of_a_line() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), 0);
        (1..=1_000).for_each(|n| histogram.add(n));
        assert_eq!((histogram.count(), histogram.mean()), (1_000, 500));
        for (per_mille, value) in [(500, 500), (990, 990), (1_000, 1_000)] {
            let found = histogram.quantile(per_mille);
            assert!((value..=value + value / 8).contains(&found), "{found}");
        }
    }
}
