//! What a switch's process has heard of a peer, as its world saw it.

/// The good beats of one peer that the switch's process has taken in, in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// When the last one came, and when the first of the row.
    pub(super) last: u64,
    pub(super) first: u64,
    /// When it came last as the switch counts: time that it slept is nobody's silence.
    pub(super) counted: u64,
    /// Beats that the switch itself has sent since the last one.
    pub(super) own: u32,
    /// When the switch suspected it last.
    pub(super) suspected: Option<u64>,
}

impl Heard {
    pub(super) fn at(now: u64) -> Heard {
        Heard {
            last: now,
            first: now,
            counted: now,
            own: 0,
            suspected: None,
        }
    }
}
