//! Counts of ports between stages.

/// Counts of a port of a parallel step or a balanced stage. Counts that it can't see
/// are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Branch: packets that went to all branches.
    pub branched: u64,
    /// Branch: frames that went along the first queue only.
    pub passed: u64,
    /// Copies made, those of notices too.
    pub copies: u64,
    /// Bytes of packets and notices in the copies.
    pub copied_bytes: u64,
    /// Branch: packets that fit no frame together with the headroom of a copy,
    /// and so were seen by the first branch only.
    pub uncopied: u64,
    /// Marker: packets marked.
    pub marked: u64,
    /// Marker: frames that were no copies of packets or notices, sent back all
    /// the same: what a branch makes itself does not go on.
    pub foreign: u64,
    /// Sync: packets that were branched and went on.
    pub joined: u64,
    /// Sync: packets and branches for which no mark came, since the branch's
    /// thread is gone: the packet went on without what the branch wrote.
    pub branch_lost: u64,
    /// Sync: packets and branches for which no mark came though one came for a
    /// later packet: the branch dropped the copy, which it may not. The packet
    /// went on without what the branch wrote.
    pub branch_dropped: u64,
    /// Sync: copies that were not taken over, since a branch changed the
    /// packet's length or moved its headers.
    pub length_changed: u64,
    /// Sync: copies that belong to no packet that was waited for.
    pub stray: u64,
    /// In turn: turns that ended.
    pub turns: u64,
    /// Balanced: frames that were given to an instance when its thread ended.
    pub lost: u64,
}

impl PortCounts {
    /// Adds what another port counted.
    pub fn add(&mut self, other: &PortCounts) {
        let sums = [
            (&mut self.branched, other.branched),
            (&mut self.passed, other.passed),
            (&mut self.copies, other.copies),
            (&mut self.copied_bytes, other.copied_bytes),
            (&mut self.uncopied, other.uncopied),
            (&mut self.marked, other.marked),
            (&mut self.foreign, other.foreign),
            (&mut self.joined, other.joined),
            (&mut self.branch_lost, other.branch_lost),
            (&mut self.branch_dropped, other.branch_dropped),
            (&mut self.length_changed, other.length_changed),
            (&mut self.stray, other.stray),
            (&mut self.turns, other.turns),
            (&mut self.lost, other.lost),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}
