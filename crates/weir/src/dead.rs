//! A switch of which another process says that it is dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The start of the last switch that has died; shared between threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dead(Arc<AtomicU64>);

impl Dead {
    /// The switch with this start is dead.
    pub(crate) fn set(&self, start: u32) {
        self.0.store(u64::from(start) + 1, Ordering::Release);
    }

    /// The last one, if any.
    pub(crate) fn get(&self) -> Option<u32> {
        let start = self.0.load(Ordering::Acquire).checked_sub(1)?;
        u32::try_from(start).ok()
    }
}
