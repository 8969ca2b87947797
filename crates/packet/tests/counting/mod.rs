//! An allocator that counts while it is told to, for tests of what must not
//! allocate; tests of other crates have it by this path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Begins or ends to count.
pub(crate) fn count(on: bool) {
    ON.store(on, Ordering::SeqCst);
}

/// Allocations, and ends of them, that were counted since this was last asked.
pub(crate) fn counted() -> u64 {
    COUNT.swap(0, Ordering::SeqCst)
}

fn note() {
    if ON.load(Ordering::SeqCst) {
        COUNT.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: hands everything on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
