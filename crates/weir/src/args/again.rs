//! What it takes to load a run's chain file again.

use weir_nf::host::Kind;

/// What it takes to load a run's chain file again.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// The functions that it may name.
    pub(crate) kinds: Vec<Kind>,
    /// The seed of the functions' hashes.
    pub(crate) seed: u64,
    /// The cores of the command line, without those of the file.
    pub(crate) cores: Vec<usize>,
}
