//! Words for how shares stand, as agents say them.

/// Word of a share whose switch runs.
pub const RUNS: &str = "runs";
/// Words for the state of a share.
pub const READY: &str = "ready";
/// A share's processes start.
pub const STARTING: &str = "starting";
/// A share's processes can't be started, or have ended and wait for their next start.
pub const FAILED: &str = "failed";
/// The inputs of a share's switch have ended.
pub const OVER: &str = "over";
/// A host has nothing of a composition.
pub const ABSENT: &str = "absent";
