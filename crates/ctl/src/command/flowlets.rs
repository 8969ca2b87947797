//! The state of flowlets (`weir run --flowlets`), as `weir get flowlets` shows it.

weir_telemetry::counters! {
    /// Flowlets of a chain's switch, as they stand.
    #[derive(Clone, Debug)]
    pub struct FlowletCounts {
        /// Flowlets that began: after a gap, or because the one before had its size.
        pub begun: Counter<Times>,
        /// Those that stayed at their unit's owner, by choice.
        pub stayed: Counter<Times>,
        /// Those that stayed because their unit could not be moved then.
        pub bound: Counter<Times>,
        /// Those that went to a runtime that had the state already.
        pub moved_ready: Counter<Times>,
        /// Those that went to a runtime to which the state followed.
        pub moved_waiting: Counter<Times>,
        /// Times that no runtime had room for a flowlet: the least loaded one took it.
        pub overfull: Counter<Times>,
        /// Copies of states that were asked for ahead of a flowlet.
        pub copies: Counter<Times>,
        /// Those that were where the next flowlet went.
        pub copies_used: Counter<Times>,
    } and {
        /// What it is worth now that a runtime has the state, in parts per hundred.
        pub alpha: u32,
        /// Runtimes that get a copy now.
        pub copies_each: u8,
        /// Bytes per second that one runtime is filled up to.
        pub room: u64,
        /// Load of each runtime in bytes per second, by id.
        pub loads: Vec<(u32, u64)>,
    }
}
