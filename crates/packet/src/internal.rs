//! States that cannot occur: asserted in tests, counted in release.

use std::fmt;
use std::panic::Location;

/// Counts how often code met a state that cannot occur.
///
/// Such a state is a bug of weir, never the fault of a packet or a peer. Builds
/// with debug assertions (tests, fuzzing) panic at once. Release builds count it,
/// keep the place where it was met first, and go on with the defined fallback of
/// the caller. The simulator and the report of a run treat a count above zero as
/// a failure.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Internal {
    count: u64,
    first: Option<&'static Location<'static>>,
}

impl Internal {
    /// Counts one impossible state; `what` says which, for the panic message.
    ///
    /// # Panics
    ///
    /// In builds with debug assertions.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn note(&mut self, what: &str) {
        if cfg!(debug_assertions) {
            panic!("internal: {what}");
        }
        self.count += 1;
        self.first.get_or_insert(Location::caller());
    }

    /// True if `holds`; otherwise counts it, see [`Internal::note`].
    #[inline(always)]
    #[track_caller]
    pub fn check(&mut self, holds: bool, what: &str) -> bool {
        if !holds {
            self.note(what);
        }
        holds
    }

    /// The value; a missing one is counted, see [`Internal::note`].
    #[inline(always)]
    #[track_caller]
    pub fn expect<T>(&mut self, value: Option<T>, what: &str) -> Option<T> {
        if value.is_none() {
            self.note(what);
        }
        value
    }

    /// How many were counted: 0 unless weir has a bug.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The place in the code of the first one.
    pub fn first(&self) -> Option<&'static Location<'static>> {
        self.first
    }

    /// Adds what another part counted.
    pub fn add(&mut self, other: &Internal) {
        self.count += other.count;
        self.first = self.first.or(other.first);
    }
}

impl fmt::Debug for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        match self.first {
            Some(first) => write!(f, " (first at {first})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_not_counted() {
        let mut internal = Internal::default();
        assert!(internal.check(true, "one is one"));
        assert_eq!(internal.expect(Some(7), "a value"), Some(7));
        assert_eq!(internal.count(), 0);
        assert!(internal.first().is_none());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "internal: a unit without a view")]
    fn what_cannot_be_panics_in_tests() {
        Internal::default().check(false, "a unit without a view");
    }
}
