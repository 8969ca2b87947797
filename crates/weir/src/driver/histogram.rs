//! Durations in buckets: a fixed amount of memory, a known error.

/// Buckets per power of two: a value is known to 1/32 of it.
const FINE: u64 = 32;

/// How often which duration came, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: vec![0; (64 * FINE) as usize],
            count: 0,
            most: 0,
        }
    }
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, ns: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += 1;
        }
        self.count += 1;
        self.most = self.most.max(ns);
    }

    /// Adds another's durations.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// Durations added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn max(&self) -> u64 {
        self.most
    }

    /// The duration that a share (0 to 1) of them does not exceed, to 1/32;
    /// 0 where there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (number, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper_end(number as u64).min(self.most);
            }
        }
        self.most
    }
}

/// Small values have a bucket each, larger ones 32 per power of two.
fn bucket_of(ns: u64) -> usize {
    if ns < FINE {
        return ns as usize;
    }
    let shift = ns.ilog2() - FINE.ilog2();
    ((u64::from(shift) + 1) * FINE + (ns >> shift) - FINE) as usize
}

/// The greatest value of a bucket.
fn upper_end(bucket: u64) -> u64 {
    if bucket < FINE {
        return bucket;
    }
    let shift = bucket / FINE - 1;
    let first = (bucket % FINE + FINE) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_that_ends_at_or_above_it() {
        for ns in (0..200).chain([1_000, 4_095, 4_096, 1 << 40, u64::MAX / 2, u64::MAX]) {
            let bucket = bucket_of(ns);
            let end = upper_end(bucket as u64);
            assert!(end >= ns && end - ns <= ns / 32, "{ns}: {bucket} {end}");
            assert!(bucket < 64 * FINE as usize);
        }
    }

    #[test]
    fn quantiles_of_a_thousand() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|ms| histogram.add(ms * 1_000_000));
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = histogram.quantile(share) as f64 / 1e6;
            assert!(
                (expected..expected * 1.04).contains(&found),
                "{share}: {found}"
            );
        }
        assert_eq!((histogram.max(), histogram.count()), (1_000_000_000, 1_000));
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }
}
