//! Between processes: packet memory that several of them have, rings for its
//! frames, and what they need to find one another.
//!
//! One process makes the memory ([`packet_memory`]) and the rings, in files
//! without a name, and passes them to the others ([`Channel`]). A frame goes
//! from one to another as its offset, without being copied: [`output`] and
//! [`input`] are ports between stages as those between threads are
//! ([`crate::stage`]). A process without work sleeps until a [`Waker`] rings;
//! who writes into its ring rings it, but only where it sleeps.
//!
//! A process that dies leaves its rings as they are, for one that takes its
//! place; its frames come back to the process that made the memory
//! ([`reclaim`]).

pub mod border;
pub mod spsc;

mod atomic;
mod channel;
mod messages;
mod ring;
mod waker;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;

use weir_packet::{Frame, MemberId, MemoryLayout, PacketMemory};

use crate::sys::memfd::{self, FrameFile};

pub use crate::sys::confine::end_with_parent;
pub use crate::sys::memfd::{Longs, Pages, SharedMapping, Words};
pub use crate::sys::robust::{HeldWord, is_holder_dead};
pub use channel::{Channel, MOST_FDS, Message};
pub use messages::{MessageInput, MessageOutput};
pub use ring::{RingInput, RingOutput, input, output};
pub use waker::Waker;

/// Packet memory that other processes may be given.
#[derive(Debug)]
pub struct SharedMemory {
    /// The memory, for this process.
    pub memory: Arc<PacketMemory>,
    /// Which pages it is made of.
    pub pages: Pages,
    file: SharedMapping,
}

impl SharedMemory {
    /// The file, to be passed on.
    pub fn file(&self) -> &SharedMapping {
        &self.file
    }
}

/// Packet memory in a file without a name, in huge pages where enough are
/// free. It is gone when the last process that has it is.
///
/// # Errors
///
/// If the kernel has not so much memory.
pub fn packet_memory(layout: MemoryLayout) -> io::Result<SharedMemory> {
    let len = PacketMemory::bytes_in_mapping(&layout);
    let (file, pages) = SharedMapping::create_large("weir-packets", len)?;
    let memory = PacketMemory::in_mapping(layout, FrameFile::new(&file), MemberId::MAIN)
        .map_err(io::Error::other)?;
    Ok(SharedMemory {
        memory,
        pages,
        file,
    })
}

/// The packet memory that another process made, for this one of member `member`.
///
/// # Errors
///
/// If the file is none of such a memory.
pub fn attach_memory(
    file: OwnedFd,
    layout: MemoryLayout,
    member: MemberId,
) -> io::Result<Arc<PacketMemory>> {
    if member == MemberId::MAIN {
        return Err(io::Error::other("a memory is made by one process only"));
    }
    let file = SharedMapping::attach(file)?;
    PacketMemory::in_mapping(layout, FrameFile::new(&file), member).map_err(io::Error::other)
}

/// The user that a process which is not trusted becomes where it was root's:
/// the one that Linux calls `nobody`.
pub const NOBODY: u32 = 65_534;

/// Confines this process for good, before it touches what others sent: it keeps
/// these descriptors only, becomes [`NOBODY`] where it was root's, has no rights
/// and gets none, no core file, no further process, little further memory, and
/// no system calls but those of a stage at work. It must have one thread. True
/// where the user is another one now.
///
/// # Errors
///
/// If the kernel refuses any of it: then it must not go on.
pub fn confine(keep: &[BorrowedFd<'_>]) -> io::Result<bool> {
    crate::sys::confine::confine(keep, NOBODY)
}

/// Takes back the frames of a process that is over, as its exit status
/// shows: all that it had, but what it had handed on, which is in `from_it`.
/// Frames in `to_it` (rings to it, each with its writer's member) stay there for the process that
/// takes its place.
///
/// # Errors
///
/// If a ring is damaged.
pub fn reclaim(
    memory: &PacketMemory,
    dead: MemberId,
    over: &ExitStatus,
    to_it: &[(MemberId, &Words)],
    from_it: &[&Words],
) -> io::Result<Vec<Frame>> {
    let peek = |words: &Words| spsc::peek(words).map_err(io::Error::other);
    let to_it = to_it
        .iter()
        .map(|(writer, words)| Ok((*writer, peek(words)?)))
        .collect::<io::Result<Vec<_>>>()?;
    let mut on_the_way = Vec::new();
    for words in from_it {
        on_the_way.extend(peek(words)?);
    }
    Ok(memfd::take_back(memory, dead, over, &to_it, &on_the_way))
}

/// Takes back frames that this process, the one that made the memory, handed
/// to one that is over, and that it left in a ring that nobody will read.
///
/// # Errors
///
/// If the ring is damaged.
pub fn take_unread(
    memory: &PacketMemory,
    dead: MemberId,
    over: &ExitStatus,
    ring: &Words,
) -> io::Result<Vec<Frame>> {
    let unread = spsc::peek(ring).map_err(io::Error::other)?;
    // As if it had taken them, and nothing is on its way from it any more.
    let its = [(MemberId::MAIN, unread)];
    Ok(memfd::take_unread(memory, dead, over, &its))
}

/// Empties a ring whose reader is over, for its successor. Its content
/// is lost; frames are to be [taken back](take_unread) before.
///
/// # Errors
///
/// If the ring is damaged.
pub fn empty(ring: &Words) -> io::Result<()> {
    spsc::empty(ring).map_err(io::Error::other)
}
