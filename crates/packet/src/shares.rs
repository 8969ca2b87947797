//! Free frames of one packet memory, in the pools of several threads.
//!
//! A packet's frame goes out with the packet and comes back with it, so that
//! changes no balance. Emitted packets, notes, and packets whose outputs
//! travel as messages are frames of one thread's pool that end in another's.
//! The memory's reserve makes up for it, batch by batch and without a lock: a
//! thread that runs short takes from it, one that has too many gives to it, and
//! the ports' thread keeps some there. The ports' thread itself never runs
//! short, since it stops reading its input before.

use crate::memory::FramePool;

/// Frames that a worker's pool starts with.
pub const SHARE: u32 = 1_024;
/// Large frames among a worker's share.
pub const LARGE_SHARE: u32 = 8;
/// Below as many free frames a worker takes some from the reserve.
pub const LOW: usize = SHARE as usize / 2;
/// Above as many it gives some to it. A memory has as many for each worker: what one of them
/// keeps, the ports' thread does not lack.
pub const HIGH: usize = SHARE as usize + 2 * BATCH;
/// The same for large frames.
pub const LARGE_HIGH: usize = 3 * LARGE_SHARE as usize;
/// Frames that go there or come from there at a time.
pub const BATCH: usize = 256;
/// Most frames that the ports' thread leaves in the reserve.
const MOST: usize = 4 * BATCH;
/// Most large frames there.
const LARGE_MOST: usize = 2 * LARGE_SHARE as usize;

const _: () = assert!(LOW >= BATCH && HIGH > LOW + BATCH);
const _: () = assert!(LARGE_HIGH > 2 * LARGE_SHARE as usize);

/// On the ports' thread: keeps some frames in the reserve for workers that run
/// short, and takes back what is there beyond. True where it added some.
pub fn balance(pool: &mut FramePool) -> bool {
    let large = pool.memory().large_in_reserve();
    if large < LARGE_SHARE as usize {
        pool.large_to_reserve(LARGE_SHARE as usize);
    } else if large > LARGE_MOST {
        pool.large_from_reserve();
    }
    let there = pool.memory().in_reserve();
    if there < BATCH {
        return pool.to_reserve(BATCH) > 0;
    }
    if there > MOST {
        pool.from_reserve();
    }
    false
}

/// On a worker: takes from the reserve where it runs short, and gives to it
/// what is too much. True where any came.
pub fn settle(pool: &mut FramePool) -> bool {
    let large = pool.available_large();
    if large > LARGE_HIGH {
        pool.large_to_reserve(large - LARGE_SHARE as usize);
    } else if large < LARGE_SHARE as usize / 2 {
        pool.large_from_reserve();
    }
    let free = pool.available_small();
    if free > HIGH {
        pool.to_reserve(BATCH);
    }
    free < LOW && pool.from_reserve() > 0
}

/// Moves all of the reserve into a pool, once the workers are over.
pub fn take_reserve(pool: &mut FramePool) {
    while pool.from_reserve() + pool.large_from_reserve() > 0 {}
}
