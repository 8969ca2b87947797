//! How often a stage's thread yields, and how far it looks ahead.

/// How a stage's thread shares its core and looks ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bursts after which a thread gives way once; 0 for never while there is
    /// work.
    pub yield_after: u32,
    /// Packets of a ring that are fetched into the cache before their turn; 0
    /// for none.
    pub prefetch: usize,
}

impl Default for Pace {
    /// Gives way after 8 bursts, and looks 8 packets ahead.
    fn default() -> Pace {
        Pace {
            yield_after: 8,
            prefetch: 8,
        }
    }
}
