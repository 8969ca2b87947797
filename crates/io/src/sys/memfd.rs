//! Memory for several processes: a file without a name (memfd), mapped.
//!
//! Such a file goes when the last process that has it is over, however that
//! ends: neither it nor its huge pages can be left behind. It is sealed against
//! changes of its length, so that nobody who was given it can take pages from
//! under the others (which would end them with SIGBUS).
//!
//! A file with a name ([`SharedMapping::of_file`]) keeps what is in it when all processes are over. Its
//! length can't be sealed: the caller keeps others from changing it, and it is on the disk whole before
//! it is mapped, so that no full disk ends a process.
//!
//! # Safety
//!
//! A mapping is made by the kernel at an address of its choice, has the file's
//! whole length, and lives as long as the value. Of a file without a name the length can't change any
//! more; access behind the end of a file that was cut ends the process (SIGBUS), and reads nothing.
//! It is reached as atomic numbers only ([`Words`], [`Longs`]),
//! whose range is checked, or as a packet memory with that one's argument
//! ([`Mapping`]): a file is for the one or the other.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use weir_packet::{Mapping, MemberId, PacketMemory};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Which pages a memory is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages, of 2 MiB.
    Huge,
    /// Pages of the usual size, and why not huge ones.
    Normal(String),
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pages::Huge => write!(f, "huge pages"),
            Pages::Normal(why) => write!(f, "normal pages ({why})"),
        }
    }
}

/// A file without a name, mapped for reading and writing.
#[derive(Clone)]
pub struct SharedMapping(Arc<Inner>);

struct Inner {
    fd: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: what it holds is reached as the module documentation says, which is
// safe from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl fmt::Debug for SharedMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMapping")
            .field("len", &self.0.len)
            .finish_non_exhaustive()
    }
}

impl SharedMapping {
    /// A new one of so many bytes at least, all zeros, in pages of the usual
    /// size. `name` is for people (`/proc/PID/maps`).
    ///
    /// # Errors
    ///
    /// If the kernel refuses: no memory, no descriptor.
    pub fn create(name: &str, len: usize) -> io::Result<SharedMapping> {
        let page = rustix::param::page_size();
        let len = round_up(len, page)?;
        SharedMapping::make(name, len, MemfdFlags::empty())
    }

    /// The same in huge pages where enough are free, else in normal ones; says
    /// which.
    ///
    /// # Errors
    ///
    /// As [`SharedMapping::create`].
    pub fn create_large(name: &str, len: usize) -> io::Result<(SharedMapping, Pages)> {
        let whole = round_up(len, HUGE)?;
        let needed = whole / HUGE;
        let free = free_huge_pages();
        let why = if free < needed {
            format!("{free} huge pages are free, {needed} are needed")
        } else {
            let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            match SharedMapping::make(name, whole, flags) {
                Ok(mapping) => return Ok((mapping, Pages::Huge)),
                Err(error) => format!("no huge pages: {error}"),
            }
        };
        Ok((SharedMapping::create(name, len)?, Pages::Normal(why)))
    }

    fn make(name: &str, len: usize, flags: MemfdFlags) -> io::Result<SharedMapping> {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        SharedMapping::map(fd, len)
    }

    /// Maps one that another process made and passed on.
    ///
    /// # Errors
    ///
    /// If the file's length may still change, or it can't be mapped.
    pub fn attach(fd: OwnedFd) -> io::Result<SharedMapping> {
        let fixed = SealFlags::SHRINK | SealFlags::GROW;
        if !rustix::fs::fcntl_get_seals(&fd)?.contains(fixed) {
            return Err(io::Error::other("shared memory whose length may change"));
        }
        let len = rustix::fs::fstat(&fd)?.st_size;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        SharedMapping::map(fd, len)
    }

    /// Gives the empty file that is open as `fd` so many bytes, all zeros, and room on the disk for them,
    /// and maps it as [`SharedMapping::of_file`] does.
    ///
    /// # Errors
    ///
    /// There is no room, or it can't be mapped.
    pub fn make_file(fd: OwnedFd, len: usize) -> io::Result<SharedMapping> {
        rustix::fs::ftruncate(&fd, len as u64)?;
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64) {
            // Such a file system gives room when it is written.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        SharedMapping::map(fd, len)
    }

    /// Maps the file that is open as `fd`, of whatever kind, as long as it is now. Its content stays when
    /// all processes that have it are over. Nobody may cut it: a process that reads behind its end is
    /// ended by the kernel.
    ///
    /// # Errors
    ///
    /// It has no length, or can't be mapped.
    pub fn of_file(fd: OwnedFd) -> io::Result<SharedMapping> {
        let len = rustix::fs::fstat(&fd)?.st_size;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        SharedMapping::map(fd, len)
    }

    fn map(fd: OwnedFd, len: usize) -> io::Result<SharedMapping> {
        if len == 0 {
            return Err(io::Error::other("shared memory of no length"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(SharedMapping(Arc::new(Inner { fd, start, len }))),
            None => Err(io::Error::other("memory is mapped at address 0")),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Always false: there is no mapping of nothing.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// `count` numbers of 32 bits, `at` bytes from the start (a multiple of 4).
    ///
    /// # Errors
    ///
    /// If they are not in it.
    pub fn words(&self, at: usize, count: usize) -> io::Result<Words> {
        let start = self.place(at, count, size_of::<AtomicU32>())?.cast();
        Ok(Words {
            _mapping: self.clone(),
            start,
            count,
        })
    }

    /// `count` numbers of 64 bits, `at` bytes from the start (a multiple of 8).
    ///
    /// # Errors
    ///
    /// If they are not in it.
    pub fn longs(&self, at: usize, count: usize) -> io::Result<Longs> {
        let start = self.place(at, count, size_of::<AtomicU64>())?.cast();
        Ok(Longs {
            _mapping: self.clone(),
            start,
            count,
        })
    }

    /// A new one that holds these bytes, for another process to read.
    ///
    /// # Errors
    ///
    /// As [`SharedMapping::create`].
    pub fn of_bytes(name: &str, bytes: &[u8]) -> io::Result<SharedMapping> {
        let mapping = SharedMapping::create(name, bytes.len().next_multiple_of(4))?;
        let words = mapping.words(0, bytes.len().div_ceil(4))?;
        for (word, four) in words.iter().zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole[..four.len()].copy_from_slice(four);
            word.store(u32::from_le_bytes(whole), Ordering::Relaxed);
        }
        Ok(mapping)
    }

    /// Its first `len` bytes.
    ///
    /// # Errors
    ///
    /// If there are fewer.
    pub fn copy(&self, len: usize) -> io::Result<Vec<u8>> {
        let words = self.words(0, len.div_ceil(4))?;
        let numbers = words.iter().map(|word| word.load(Ordering::Relaxed));
        let mut bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        bytes.truncate(len);
        Ok(bytes)
    }

    fn place(&self, at: usize, count: usize, size: usize) -> io::Result<NonNull<u8>> {
        let len = count.checked_mul(size);
        let end = len.and_then(|len| at.checked_add(len));
        if end.is_none_or(|end| end > self.0.len) || !at.is_multiple_of(size) {
            return Err(io::Error::other("beyond the end of a shared memory"));
        }
        // SAFETY: the range was found to be inside the mapping.
        Ok(unsafe { self.0.start.add(at) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which nothing uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl AsFd for SharedMapping {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// A file that holds a packet memory.
#[derive(Debug)]
pub(crate) struct FrameFile(SharedMapping);

impl FrameFile {
    /// For a packet memory alone.
    pub(crate) fn new(file: &SharedMapping) -> Box<FrameFile> {
        Box::new(FrameFile(file.clone()))
    }
}

// SAFETY: module documentation; zeros at first, and reached by packet memories
// only: `shared` gives out no words of these files.
unsafe impl Mapping for FrameFile {
    fn start(&self) -> NonNull<u8> {
        self.0.0.start
    }
    fn len(&self) -> usize {
        self.0.0.len
    }
}

/// Numbers in a [`SharedMapping`].
#[derive(Debug)]
pub struct Words {
    _mapping: SharedMapping,
    start: NonNull<AtomicU32>,
    count: usize,
}

// SAFETY: atomic numbers in a mapping that lives as long.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Deref for Words {
    type Target = [AtomicU32];
    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: `words` found the range to be inside the mapping, and
        // aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

/// Numbers of 64 bits in a [`SharedMapping`].
#[derive(Debug)]
pub struct Longs {
    _mapping: SharedMapping,
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: atomic numbers in a mapping that lives as long.
unsafe impl Send for Longs {}
// SAFETY: as above.
unsafe impl Sync for Longs {}

impl Deref for Longs {
    type Target = [AtomicU64];
    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `longs` found the range to be inside the mapping, and
        // aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

/// Frames of a process that is over: [`PacketMemory::hand_over_again`] for
/// what is in rings to it (each with the member of its writer), then
/// [`PacketMemory::reclaim`] for the rest but what is in rings from it.
/// That it is over, its exit status shows.
pub(crate) fn take_back(
    memory: &PacketMemory,
    dead: MemberId,
    _over: &std::process::ExitStatus,
    to_it: &[(MemberId, Vec<u32>)],
    from_it: &[u32],
) -> Vec<weir_packet::Frame> {
    for (writer, in_ring) in to_it {
        // SAFETY: the process is over; it was in the ring to it that these
        // were seen.
        unsafe { memory.hand_over_again(dead, *writer, in_ring) };
    }
    // SAFETY: the process is over, and its rings were looked at before.
    unsafe { memory.reclaim(dead, from_it) }
}

/// Frames that the process which made the memory handed to one that is over,
/// which did not take them, and which nobody else will: they are in rings that
/// had no other reader.
pub(crate) fn take_unread(
    memory: &PacketMemory,
    dead: MemberId,
    _over: &std::process::ExitStatus,
    unread: &[(MemberId, Vec<u32>)],
) -> Vec<weir_packet::Frame> {
    let mut back = Vec::new();
    for (writer, ring) in unread {
        // SAFETY: nobody takes them any more, and no frame of this process is
        // made of them: they were handed over. So they may count as the dead
        // one's, of which `reclaim` takes them once.
        unsafe { memory.hand_over_again(*writer, dead, ring) };
    }
    // SAFETY: the process is over. Its other frames were taken back before, but
    // for those in rings from it: only those here are taken.
    let all = unsafe { memory.reclaim_only(dead, unread.iter().flat_map(|(_, ring)| ring)) };
    back.extend(all);
    back
}

fn round_up(len: usize, to: usize) -> io::Result<usize> {
    len.max(1)
        .checked_next_multiple_of(to)
        .filter(|len| isize::try_from(*len).is_ok())
        .ok_or_else(|| io::Error::other("a shared memory that is too large"))
}

/// Huge pages that nobody has or has asked for.
fn free_huge_pages() -> usize {
    let read = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse::<usize>().unwrap_or(0)
    };
    read("free_hugepages").saturating_sub(read("resv_hugepages"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_one_memory() {
        let one = SharedMapping::create("test", 10_000).unwrap();
        assert!(one.len().is_multiple_of(4_096) && one.len() >= 10_000);
        let two = SharedMapping::attach(one.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let (a, b) = (one.words(64, 16).unwrap(), two.words(64, 16).unwrap());
        assert!(a.iter().all(|word| word.load(Relaxed) == 0));
        a[3].store(7, Relaxed);
        drop((one, a));
        assert_eq!(b[3].load(Relaxed), 7);
        let text = SharedMapping::of_bytes("test", b"notices").unwrap();
        assert_eq!(text.copy(7).unwrap(), b"notices");
        assert!(text.copy(1 << 20).is_err());
        for (at, count) in [(1, 1), (0, 1 << 20), (usize::MAX - 3, 1), (8_192, 1_025)] {
            assert!(two.words(at, count).is_err(), "{at} {count}");
        }
    }

    #[test]
    fn a_file_with_a_name_keeps_what_is_in_it() {
        let path = std::env::temp_dir().join(format!("weir-memfd-{}", std::process::id()));
        let file = || {
            let mut options = std::fs::OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false);
            OwnedFd::from(file.open(&path).unwrap())
        };
        assert!(SharedMapping::of_file(file()).is_err(), "it is empty");
        let longs = SharedMapping::make_file(file(), 64)
            .unwrap()
            .longs(8, 7)
            .unwrap();
        longs[6].store(u64::MAX - 1, Relaxed);
        drop(longs);
        let again = SharedMapping::of_file(file()).unwrap();
        assert_eq!(again.longs(56, 1).unwrap()[0].load(Relaxed), u64::MAX - 1);
        for (at, count) in [(4, 1), (64, 1), (0, 9)] {
            assert!(again.longs(at, count).is_err(), "{at} {count}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nobody_can_take_pages_away() {
        let mapping = SharedMapping::create("test", 8_192).unwrap();
        for len in [0, 4_096, 1 << 20] {
            assert!(rustix::fs::ftruncate(&mapping, len).is_err());
        }
        let loose = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 4_096).unwrap();
        assert!(SharedMapping::attach(loose).is_err());
    }

    #[test]
    fn what_was_obtained_is_said() {
        let (mapping, pages) = SharedMapping::create_large("test", 3 << 20).unwrap();
        match &pages {
            Pages::Huge => assert_eq!(mapping.len(), 4 << 20),
            Pages::Normal(why) => assert!(why.contains("huge pages"), "{why}"),
        }
        let word = mapping.words(mapping.len() - 4, 1).unwrap();
        word[0].store(1, Relaxed);
    }
}
