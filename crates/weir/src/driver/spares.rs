//! Frames of one packet memory in the pools of several threads.
//!
//! A packet's frame goes out with the packet and comes back with its entry, so
//! it changes no balance. What a function emits, and notes, are frames of the
//! runtime's pool that end in the switch's; packets that a runtime drops as
//! doubled go the other way. The memory's reserve makes up for it, batch by
//! batch and without a lock: a thread that runs short takes from it, one that
//! has too many gives to it, and the switch's thread keeps some there. It alone
//! knows no end of its own pool, since it stops reading its input before.

use rtrb::Consumer;
use weir_packet::{Frame, FramePool};

use super::wiring::SwitchEnds;

/// Frames that a runtime's pool starts with.
pub(super) const SHARE: u32 = 1_024;
/// Large frames among a runtime's share.
pub(super) const LARGE_SHARE: u32 = 8;
/// Below as many a thread takes some from the reserve.
pub(super) const LOW: usize = SHARE as usize / 2;
/// Above as many it gives some to it.
pub(super) const HIGH: usize = 2 * SHARE as usize;
/// Frames that go there or come from there at a time.
pub(super) const BATCH: usize = 256;
/// Most frames that are left in the reserve.
const MOST: usize = 4 * BATCH;

/// The side of the thread that keeps the balance, for one other thread.
#[derive(Debug)]
pub(super) struct Spares;

/// That of the other thread.
#[derive(Debug)]
pub(super) struct TheirSpares;

/// For two threads whose pools are shares of one.
pub(super) fn spare_rings() -> (Spares, TheirSpares) {
    (Spares, TheirSpares)
}

/// On the thread that keeps the balance: keeps some frames in the reserve for
/// whoever runs short, and takes back what is there beyond. Whether there are
/// some that were not there before.
pub(super) fn balance(pool: &mut FramePool, _: &mut Spares) -> bool {
    let there = pool.memory().in_reserve();
    if there < BATCH {
        return pool.to_reserve(BATCH) > 0;
    }
    if there > MOST {
        pool.from_reserve();
    }
    false
}

/// On the other thread: takes from the reserve where it runs short, and gives
/// to it what is too much. Whether any came.
pub(super) fn settle(pool: &mut FramePool, _: &mut TheirSpares) -> bool {
    let free = pool.available();
    if free > HIGH {
        pool.to_reserve(BATCH);
    }
    free < LOW && pool.from_reserve() > 0
}

/// Moves the frames of a ring into a pool.
pub(super) fn take_in(pool: &mut FramePool, ring: &mut Consumer<Frame>) {
    let frames = ring.slots();
    if frames > 0
        && let Ok(chunk) = ring.read_chunk(frames)
    {
        chunk.into_iter().for_each(|frame| pool.give(frame));
    }
}

/// Moves what is in the reserve into a pool, when the other threads are over.
pub(super) fn take_reserve(pool: &mut FramePool) {
    while pool.from_reserve() > 0 {}
}

/// Moves all frames of a pool that is no longer needed.
pub(super) fn empty(pool: &mut FramePool, from: &mut FramePool) {
    while let Ok(frame) = from.take(0) {
        pool.give(frame);
    }
}

/// Takes back all frames that are still in the rings of a runtime whose thread
/// is over.
pub(super) fn reclaim(pool: &mut FramePool, ends: &mut SwitchEnds) {
    take_reserve(pool);
    for ring in &mut ends.entries {
        take_in(pool, ring);
    }
}
