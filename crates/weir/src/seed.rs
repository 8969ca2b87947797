//! The one source of randomness of the program.

use std::hash::{BuildHasher, RandomState};

/// A seed that nobody can guess.
pub(crate) fn random() -> u64 {
    // `RandomState` takes its keys from the system's random source.
    RandomState::new().hash_one(std::process::id())
}
