//! A word of shared memory that the kernel marks when the thread ends that holds it: a robust
//! futex (Linux, Documentation/locking/robust-futex-ABI.rst).
//!
//! The kernel marks it as the thread's first step out, before it takes the process's memory
//! down. A descriptor of the process tells of its end only after that: tens of milliseconds
//! later where it had hundreds of megabytes.
//!
//! # Safety
//!
//! The kernel reads the thread's list when the thread ends, at a time that nobody knows: list
//! and word are leaked, so they are there as long as the process. The C library's own list of
//! the thread is replaced; it is used by robust mutexes alone, and there are none.

#![allow(unsafe_code)]

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memfd::Words;

/// Set by the kernel: the thread that held the word is over (`FUTEX_OWNER_DIED`).
const OWNER_DIED: u32 = 0x4000_0000;

/// `struct robust_list`.
#[repr(C)]
struct Entry {
    next: *const Entry,
}

/// `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: Entry,
    /// From an entry to its word.
    offset: libc::c_long,
    pending: *const Entry,
}

/// A word held by this thread; let go when this is dropped.
#[derive(Debug)]
pub struct HeldWord {
    words: Arc<Words>,
    at: usize,
    /// Only the thread that holds it lets it go.
    _thread: std::marker::PhantomData<*const ()>,
}

impl HeldWord {
    /// Holds word `at`: when this thread ends with it, [`is_holder_dead`] says so to all
    /// processes that have the memory. A thread holds one word at most.
    ///
    /// # Errors
    ///
    /// The kernel has no robust futexes.
    ///
    /// # Panics
    ///
    /// There is no such word.
    pub fn hold(words: Arc<Words>, at: usize) -> io::Result<HeldWord> {
        let word: *const AtomicU32 = &raw const words[at];
        let entry = Box::leak(Box::new(Entry { next: ptr::null() }));
        let head = Box::leak(Box::new(Head {
            list: Entry {
                next: ptr::from_ref(entry),
            },
            offset: word as libc::c_long - ptr::from_ref(entry) as libc::c_long,
            pending: ptr::null(),
        }));
        entry.next = &raw const head.list;
        std::mem::forget(Arc::clone(&words));
        // SAFETY: the call takes no pointer.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        words[at].store(id as u32, Ordering::Release);
        // SAFETY: the list is a circle of two entries that are never freed, as is the word
        // that the offset leads to; the length is that of the structure.
        let done = unsafe {
            libc::syscall(
                libc::SYS_set_robust_list,
                ptr::from_ref(head),
                size_of::<Head>(),
            )
        };
        let held = HeldWord {
            words,
            at,
            _thread: std::marker::PhantomData,
        };
        match done {
            0 => Ok(held),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for HeldWord {
    /// The kernel marks a word with the thread's number only.
    fn drop(&mut self) {
        self.words[self.at].store(0, Ordering::Release);
    }
}

/// True where the thread that held the word is over.
#[inline]
pub fn is_holder_dead(word: &AtomicU32) -> bool {
    word.load(Ordering::Acquire) & OWNER_DIED != 0
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::sys::memfd::SharedMapping;

    fn words() -> Arc<Words> {
        let file = SharedMapping::create("robust", 4_096).unwrap();
        Arc::new(file.words(0, 4).unwrap())
    }

    #[test]
    fn the_end_of_a_thread_that_holds_a_word_is_seen() {
        let words = words();
        let theirs = Arc::clone(&words);
        let ends = std::thread::spawn(move || {
            let held = HeldWord::hold(theirs, 1).unwrap();
            std::mem::forget(held);
        });
        ends.join().unwrap();
        assert!(is_holder_dead(&words[1]));
        assert_eq!(words[0].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_word_that_was_let_go_is_nobodys() {
        let words = words();
        let theirs = Arc::clone(&words);
        let ends = std::thread::spawn(move || {
            let held = HeldWord::hold(Arc::clone(&theirs), 2).unwrap();
            assert!(!is_holder_dead(&theirs[2]));
            drop(held);
        });
        ends.join().unwrap();
        assert_eq!(words[2].load(Ordering::Relaxed), 0);
    }
}
