//! The version of what a store has, whatever the store.

/// The version of what a store has.
pub(super) struct Version;

impl Version {
    /// Of this program.
    pub(super) const OWN: u64 = 1;

    pub(super) fn check(version: u64) -> Result<(), String> {
        match version {
            Version::OWN => Ok(()),
            other => Err(format!(
                "it is of version {other}, and this weir knows version {}: run a newer one",
                Version::OWN
            )),
        }
    }
}
