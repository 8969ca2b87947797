//! The cost of each rule, for who asks for it: how often it was tried and matched, and how long that took.

use std::fmt::Debug;
use std::sync::Arc;

use crate::rule::Rule;

/// Hears of each attempt of a rule, and has the clock for it. It is for a look at rules, not for traffic.
pub trait Watch: Debug + Send + Sync {
    /// The time in nanoseconds since any moment.
    fn now(&self) -> u64;

    /// A rule was tried, behind the search for patterns that chooses rules, and that took so many nanoseconds.
    fn tried(&self, rule: &Rule, took: u64, matched: bool);
}

/// The clock of a work space, which runs where somebody watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    watch: Option<Arc<dyn Watch>>,
}

impl Clock {
    pub(crate) fn of(watch: Arc<dyn Watch>) -> Clock {
        Clock { watch: Some(watch) }
    }

    /// The time, where it is of use.
    #[inline]
    pub(crate) fn start(&self) -> Option<u64> {
        self.watch.as_ref().map(|watch| watch.now())
    }

    /// Tells of an attempt that began at `start`.
    #[inline]
    pub(crate) fn stop(&self, start: Option<u64>, rule: &Rule, matched: bool) {
        if let (Some(watch), Some(start)) = (&self.watch, start) {
            watch.tried(rule, watch.now().saturating_sub(start), matched);
        }
    }
}
