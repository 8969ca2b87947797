//! Why a stage is refused.

/// A stage that can't be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageError(pub String);

impl core::fmt::Display for StageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StageError {}
