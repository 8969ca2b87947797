//! Memory that a function works in during a call, reserved once per runtime.

use core::any::Any;
use core::fmt;

use crate::Context;

/// Memory of one function in one runtime ([`crate::NetworkFunction::work_space`]).
///
/// It is what a function would otherwise allocate per packet. Nothing in it
/// may decide what a later packet comes to: it is neither moved nor copied
/// with flows, and other runtimes have their own.
#[derive(Default)]
pub struct WorkSpace(Option<Box<dyn Any + Send>>);

impl WorkSpace {
    /// None.
    pub const NONE: WorkSpace = WorkSpace(None);

    /// Of this kind.
    pub fn new<T: Any + Send>(space: T) -> WorkSpace {
        WorkSpace(Some(Box::new(space)))
    }
}

impl fmt::Debug for WorkSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkSpace").field(&self.0.is_some()).finish()
    }
}

impl<'a> Context<'a> {
    /// Lends a function's work space to its calls.
    #[inline]
    #[must_use]
    pub fn lend(mut self, space: &'a mut WorkSpace) -> Context<'a> {
        self.space = Some(space);
        self
    }

    /// Gives the function's work space to `work` together with this context;
    /// `None` where it is of another type or in use already (a call within a
    /// call).
    #[inline]
    pub fn with_work_space<T: Any, R>(
        &mut self,
        work: impl FnOnce(&mut T, &mut Self) -> R,
    ) -> Option<R> {
        let mut taken = self.space.as_mut()?.0.take()?;
        let result = taken.downcast_mut::<T>().map(|space| work(space, self));
        if let Some(place) = self.space.as_mut() {
            place.0 = Some(taken);
        }
        result
    }
}
