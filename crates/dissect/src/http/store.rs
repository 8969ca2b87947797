//! Memory in which a message's head is put together.

/// The store holds all it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFull;

/// Bytes that grow and shrink at their end, up to a bound.
pub trait Store {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The bytes for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Keeps the first `len` bytes; does nothing where there are no more.
    fn shorten(&mut self, len: usize);

    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// [`StoreFull`]; nothing is added then.
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreFull>;
}

/// The last `count` bytes.
pub(super) fn tail(store: &impl Store, count: u32) -> &[u8] {
    let all = store.bytes();
    all.get(all.len().saturating_sub(count as usize)..)
        .unwrap_or(&[])
}

/// The caller of [`super::message`] bounds a head and a line, so that memory of its own needs no other bound.
impl Store for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn shorten(&mut self, len: usize) {
        self.truncate(len);
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreFull> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
