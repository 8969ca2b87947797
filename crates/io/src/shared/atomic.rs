//! The atomic types that the ring of words uses, which its model replaces.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
