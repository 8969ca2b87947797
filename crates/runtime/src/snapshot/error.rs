//! Why a unit can't be taken out, or put in.

/// Why a snapshot was not made or not installed. After an error nothing has
/// changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// There is no flow under this key, or the stage keeps none.
    NoFlow,
    /// The bytes are no snapshot, or not all of one.
    Corrupt,
    /// The snapshot is of another stage; says what differs.
    Layout(String),
    /// This function has no way from the state's version to its own.
    Version(String),
    /// A flow, unit or alias of the snapshot exists here already.
    Exists,
    /// No record, alias or side buffer is free for it.
    Full,
}

impl core::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SnapshotError::NoFlow => f.write_str("there is no such flow"),
            SnapshotError::Corrupt => f.write_str("the bytes are no whole snapshot"),
            SnapshotError::Layout(what) => write!(f, "the snapshot is of another stage: {what}"),
            SnapshotError::Version(name) => {
                write!(f, "{name} can't make its state from that of the snapshot")
            }
            SnapshotError::Exists => f.write_str("a flow of the snapshot exists here already"),
            SnapshotError::Full => f.write_str("there is no room for the snapshot"),
        }
    }
}

impl std::error::Error for SnapshotError {}
