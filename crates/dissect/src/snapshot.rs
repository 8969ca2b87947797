//! Bytes of a state: little-endian numbers, and byte strings behind their length.

/// Why a snapshot was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// Its version is not known: another release wrote it.
    Version(u8),
    /// Its bytes are no state: cut, or not within the bounds.
    Malformed,
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Version(version) => {
                write!(f, "version {version} of a dissector's state is not known")
            }
            SnapshotError::Malformed => f.write_str("the bytes are no dissector's state"),
        }
    }
}

impl std::error::Error for SnapshotError {}

pub(crate) fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok(), "states are bounded");
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(SnapshotError::Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SnapshotError> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        let four = self.take(4)?.try_into();
        Ok(u32::from_le_bytes(
            four.map_err(|_| SnapshotError::Malformed)?,
        ))
    }

    /// At most `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Result<Vec<u8>, SnapshotError> {
        let count = self.u32()? as usize;
        if count > most {
            return Err(SnapshotError::Malformed);
        }
        Ok(self.take(count)?.to_vec())
    }
}
