//! Asks whether the kernel's clock is kept right (`adjtimex`).
//!
//! # Safety
//!
//! The call is given a zeroed structure of this stack frame, which asks for
//! nothing to be changed, and which it fills.

#![allow(unsafe_code)]

use std::io;

use super::socket::check;

/// True where a program keeps the clock synchronised, as far as the kernel was
/// told.
pub(crate) fn is_synchronised() -> io::Result<bool> {
    // SAFETY: a C structure of numbers.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: module documentation.
    let state = check(unsafe { libc::adjtimex(&raw mut asked) })?;
    Ok(state != i64::from(libc::TIME_ERROR) && asked.status & libc::STA_UNSYNC == 0)
}
