//! Errors of files, ids and authorities.

use std::fmt;
use std::io;
use std::path::Path;

/// What is wrong with a file, an id or an authority, and what mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    why: String,
}

impl IdentityError {
    pub(crate) fn new(why: impl Into<String>) -> IdentityError {
        IdentityError { why: why.into() }
    }

    /// This file is wrong.
    pub(crate) fn file(path: &Path, why: impl fmt::Display) -> IdentityError {
        IdentityError::new(format!("{}: {why}", path.display()))
    }

    /// This could not be done with a file.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> IdentityError {
        IdentityError::new(format!("can't {what} {}: {error}", path.display()))
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for IdentityError {}
