//! Counters of flowlets.

use weir_telemetry::labels;

labels! {
    /// What became of flowlets, and of copies sent ahead of them.
    pub enum FlowletCount: Counter<Times> {
        /// A unit's first flowlet.
        First = "first",
        /// A flowlet began after a gap.
        AfterGap = "after_gap",
        /// A flowlet began because the one before it had reached its size.
        AfterSize = "after_size",
        /// A flowlet stayed at its unit's owner, by choice.
        Stayed = "stayed",
        /// A flowlet stayed because its unit could not be moved: a view is not settled, or too
        /// many are.
        Bound = "bound",
        /// A flowlet went to another runtime, which had the state.
        MovedReady = "moved_ready",
        /// A flowlet went to another runtime, and the state goes there after it.
        MovedWaiting = "moved_waiting",
        /// No runtime had room for a flowlet: the least loaded one took it.
        Overfull = "overfull",
        /// A runtime was picked for a copy ahead of a flowlet.
        CopyAsked = "copy_asked",
        /// A copy was where the flowlet went.
        CopyUsed = "copy_used",
        /// The setting `alpha` was adapted.
        AlphaAdapted = "alpha_adapted",
        /// The setting `copies` was adapted.
        CopiesAdapted = "copies_adapted",
    }
}
