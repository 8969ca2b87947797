//! Memory that a function works in during a call, reserved once per runtime.

use core::any::Any;
use core::fmt;

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

    /// Takes the memory out; `None` where there is none, or a call has it.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<dyn Any + Send>> {
        self.0.take()
    }

    /// Puts back what [`WorkSpace::take`] gave.
    #[inline]
    pub(crate) fn put(&mut self, space: Box<dyn Any + Send>) {
        self.0 = Some(space);
    }
}

impl fmt::Debug for WorkSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkSpace").field(&self.0.is_some()).finish()
    }
}
