//! Random octets of the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills a key.
///
/// # Errors
///
/// The kernel gives none.
pub(crate) fn fill(key: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = key.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += getrandom(rest, GetRandomFlags::empty())?;
    }
    Ok(())
}
