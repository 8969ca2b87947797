//! State of a flow in one network function.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A state: plain old data that weir copies, compares, stores and moves as
/// bytes.
///
/// Derive the four zerocopy traits, `Clone` and `Copy`, and give a version.
/// Grow the version with every change of layout and say in
/// [`crate::NetworkFunction::upgrade`] how the old one becomes the new one.
///
/// ```
/// use weir_nf::prelude::*;
///
/// #[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Seen {
///     first_time: u64,
///     syns: u32,
///     warned: u32,
/// }
/// impl State for Seen {
///     const VERSION: u16 = 1;
/// }
/// ```
pub trait State: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + 'static {
    /// Version of the layout.
    const VERSION: u16 = 1;
    /// The oldest version that [`crate::NetworkFunction::upgrade`] makes one of this version of. An
    /// upgrade of weir is refused beforehand where the states that run are older.
    const OLDEST: u16 = Self::VERSION;
}

impl State for () {}

/// Counters of a flow that only ever grow by what a packet adds.
///
/// They are copied lazily, so that counting does not make every packet a
/// change of state; a crash may lose what was counted since the last copy.
/// They start as zeros.
pub trait Stats: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + 'static {}

impl Stats for () {}
impl Stats for [u64; 1] {}
impl Stats for [u64; 2] {}
impl Stats for [u64; 4] {}

/// A state that notices being changed.
///
/// Reading goes through `Deref`; the first `DerefMut` marks the state changed.
/// It may say so too often (a write of the same value), never too rarely.
#[derive(Debug)]
pub struct Tracked<'a, S> {
    state: &'a mut S,
    changed: &'a mut bool,
}

impl<'a, S> Tracked<'a, S> {
    /// Joins a state with the mark that notes its change.
    #[inline]
    pub fn new(state: &'a mut S, changed: &'a mut bool) -> Tracked<'a, S> {
        Tracked { state, changed }
    }

    /// The same, for a shorter time.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Tracked<'_, S> {
        Tracked::new(self.state, self.changed)
    }
}

impl<S> core::ops::Deref for Tracked<'_, S> {
    type Target = S;
    #[inline]
    fn deref(&self) -> &S {
        self.state
    }
}

impl<S> core::ops::DerefMut for Tracked<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        *self.changed = true;
        self.state
    }
}
