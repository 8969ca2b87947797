//! Frames of one packet memory in the pools of several threads.
//!
//! A packet's frame goes out with the packet and comes back with its entry, so
//! it changes no balance. What a function emits, and notes, are frames of the
//! runtime's pool that end in the switch's; packets that a runtime drops as
//! doubled go the other way. The switch's thread makes up for it: it alone
//! knows no end of its own pool, since it stops reading its input before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::{Frame, FramePool};

use super::wiring::SwitchEnds;

/// Frames that a runtime's pool starts with.
pub(super) const SHARE: u32 = 1_024;
/// Large frames among a runtime's share.
pub(super) const LARGE_SHARE: u32 = 8;
/// Below as many the switch sends more.
const LOW: usize = SHARE as usize / 2;
/// Above as many a runtime gives some back.
const HIGH: usize = 2 * SHARE as usize;
/// Frames sent at a time.
const BATCH: usize = 256;

/// Free frames on their way in one direction.
const ON_THE_WAY: usize = 512;

/// The rings of free frames to and from another thread, on the side of the one
/// that keeps the balance.
#[derive(Debug)]
pub(super) struct Spares {
    /// From there.
    pub(super) taken: Consumer<Frame>,
    sent: Producer<Frame>,
    free: Arc<AtomicU32>,
}

/// The same on the other side.
#[derive(Debug)]
pub(super) struct TheirSpares {
    taken: Consumer<Frame>,
    sent: Producer<Frame>,
    /// Frames that this thread's pool has.
    free: Arc<AtomicU32>,
}

/// Rings of free frames between two threads.
pub(super) fn spare_rings() -> (Spares, TheirSpares) {
    let (there, from_here) = RingBuffer::new(ON_THE_WAY);
    let (here, from_there) = RingBuffer::new(ON_THE_WAY);
    let free = Arc::new(AtomicU32::new(u32::MAX));
    let ours = Spares {
        taken: from_there,
        sent: there,
        free: Arc::clone(&free),
    };
    let theirs = TheirSpares {
        taken: from_here,
        sent: here,
        free,
    };
    (ours, theirs)
}

/// On the thread that keeps the balance: takes back what the other does not
/// need, and sends frames where it runs short: whether it did.
pub(super) fn balance(pool: &mut FramePool, spares: &mut Spares) -> bool {
    take_in(pool, &mut spares.taken);
    let free = spares.free.load(Ordering::Relaxed) as usize;
    // What was sent and not yet seen counts, or it would be sent again.
    let on_the_way = ON_THE_WAY - spares.sent.slots();
    let short = free < LOW && on_the_way == 0;
    if short {
        send(pool, &mut spares.sent, BATCH);
    }
    short
}

/// On the other thread: takes in what was sent, gives back what is too much,
/// and says what is left: whether any came.
pub(super) fn settle(pool: &mut FramePool, spares: &mut TheirSpares) -> bool {
    let came = spares.taken.slots() > 0;
    take_in(pool, &mut spares.taken);
    if pool.available() > HIGH {
        send(pool, &mut spares.sent, BATCH);
    }
    let free = pool.available() as u32;
    spares.free.store(free, Ordering::Relaxed);
    came
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

fn send(pool: &mut FramePool, ring: &mut Producer<Frame>, most: usize) {
    for _ in 0..most.min(ring.slots()) {
        let Ok(frame) = pool.take(0) else {
            return;
        };
        if let Err(rtrb::PushError::Full(frame)) = ring.push(frame) {
            return pool.give(frame);
        }
    }
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
    take_in(pool, &mut ends.spares.taken);
    for ring in &mut ends.entries {
        take_in(pool, ring);
    }
}
