//! A mapping that several processes have, with a table of the member that each
//! frame in it belongs to. The rules for changing the table are in the module
//! `members`.

use core::fmt::Debug;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use crate::layout::MemoryLayout;

/// Memory that several processes may have, which a driver mapped.
///
/// # Safety
///
/// From `start` on `len` bytes are mapped for reading and writing for as long
/// as the value lives, at the start of a page. They are reached by nothing but
/// the packet memory made of it and those that processes of the same program
/// made of the same memory; what they hold at first is zeros.
pub unsafe trait Mapping: Send + Sync + Debug {
    /// Its first byte.
    fn start(&self) -> NonNull<u8>;
    /// Bytes.
    fn len(&self) -> usize;
    /// True for a mapping of nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A process's number among those that share a packet memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u8);

impl MemberId {
    /// That of the process that made the memory, to which all frames belong at
    /// first.
    pub const MAIN: MemberId = MemberId(0);
    /// Most members beside the first.
    pub const MOST: u8 = 254;

    /// The member of this number, at most [`MemberId::MOST`]; 0 is [`MemberId::MAIN`].
    pub const fn new(number: u8) -> Option<MemberId> {
        if number <= MemberId::MOST {
            Some(MemberId(number))
        } else {
            None
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A mapping that is too small for the frames that were to lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingTooSmall {
    /// Bytes that are needed.
    pub needed: usize,
    /// Bytes that there are.
    pub len: usize,
}

impl core::fmt::Display for MappingTooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "packet memory needs a mapping of {} bytes, not {}",
            self.needed, self.len
        )
    }
}

impl core::error::Error for MappingTooSmall {}

/// Bytes of frames, and in all.
pub(crate) const fn extent(layout: &MemoryLayout) -> (usize, usize) {
    let frames = layout.total_bytes();
    let owners = layout.small_frames as usize + layout.large_frames as usize;
    (frames, frames + owners)
}

/// A mapping with the table of owners behind the frames.
#[derive(Debug)]
pub(crate) struct Shared {
    mapping: Box<dyn Mapping>,
    owners: NonNull<AtomicU8>,
    count: usize,
    /// This process's.
    member: MemberId,
}

// SAFETY: the table is only ever reached as atomic numbers, and the mapping
// may be sent (`Mapping`).
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new(
        layout: &MemoryLayout,
        mapping: Box<dyn Mapping>,
        member: MemberId,
    ) -> Result<Shared, MappingTooSmall> {
        let (frames, needed) = extent(layout);
        let len = mapping.len();
        if len < needed {
            return Err(MappingTooSmall { needed, len });
        }
        Ok(Shared {
            // SAFETY: inside the mapping, by the comparison above.
            owners: unsafe { mapping.start().add(frames) }.cast(),
            count: needed - frames,
            mapping,
            member,
        })
    }

    #[inline]
    pub(crate) const fn member(&self) -> MemberId {
        self.member
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    #[inline]
    pub(crate) fn owners(&self) -> &[AtomicU8] {
        // SAFETY: `count` bytes lie there (`new`), for as long as the mapping,
        // which is a field; any byte is an `AtomicU8`.
        unsafe { core::slice::from_raw_parts(self.owners.as_ptr(), self.count) }
    }
}
