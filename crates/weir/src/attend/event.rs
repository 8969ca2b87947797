//! What comes to the thread that looks after processes.

use weir_api::v1;

/// Something that the coordinator, or an instance, has said.
pub(super) enum Event {
    /// All that this host has to run.
    Run(v1::Shares),
    /// A switch was asked to take a revision.
    Reloaded {
        composition: String,
        revision: u64,
        answer: Answer,
    },
}

/// What a switch says that is asked to take its changed files.
pub(super) enum Answer {
    /// It has taken them.
    Taken,
    /// It goes on as it was: why.
    Refused(String),
    /// It could not be asked: why.
    Unasked(String),
}
