//! Differences of the counters between two samples.

use weir_api::v1;

/// Two looks at one instance.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    pub(crate) seconds: f64,
    pub(crate) now: v1::GetStatsResponse,
    pub(crate) before: v1::GetStatsResponse,
}

impl Between {
    pub(crate) fn new(before: v1::GetStatsResponse, now: v1::GetStatsResponse) -> Between {
        let elapsed = now.elapsed_ns.saturating_sub(before.elapsed_ns);
        Between {
            seconds: (elapsed as f64 / 1e9).max(1e-3),
            now,
            before,
        }
    }

    /// Something per second.
    pub(crate) fn rate(&self, of: impl Fn(&v1::GetStatsResponse) -> u64) -> f64 {
        of(&self.now).saturating_sub(of(&self.before)) as f64 / self.seconds
    }

    /// Share of the time in which thread `number` slept, 0 to 1.
    pub(crate) fn idle(&self, number: usize) -> f64 {
        let idle =
            |stats: &v1::GetStatsResponse| stats.threads.get(number).map_or(0, |t| t.idle_ns);
        (self.rate(idle) / 1e9).min(1.0)
    }
}

/// The value of this name; 0 where there is none.
pub(crate) fn named(counts: &[v1::Count], name: &str) -> u64 {
    counts
        .iter()
        .find(|c| c.name == name)
        .map_or(0, |c| c.value)
}
