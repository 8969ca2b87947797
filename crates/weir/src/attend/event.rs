//! What comes to the thread that looks after processes.

use weir_api::v1;

/// Something that the coordinator, or an instance, has said.
pub(super) enum Event {
    /// All that this host has to run.
    Run(v1::Shares),
    /// A switch was asked to reload a revision: why it did not.
    Reloaded {
        composition: String,
        revision: u64,
        refusal: Option<String>,
    },
}
