//! Frames of one packet memory in the pools of several threads.
//!
//! A packet's frame goes out with the packet and comes back with its entry, so
//! it changes no balance. What a function emits, and notes, are frames of the
//! runtime's pool that end in the switch's; packets that a runtime drops as
//! doubled go the other way. The switch's thread makes up for it: it alone
//! knows no end of its own pool, since it stops reading its input before.

use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use weir_packet::{Frame, FramePool};

use super::wiring::{Gauge, SwitchEnds};

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

/// On the switch's thread: takes back what the runtime does not need, and
/// sends frames where it runs short.
pub(super) fn balance(pool: &mut FramePool, ends: &mut SwitchEnds) {
    take_in(pool, &mut ends.spare_in);
    let free = ends.gauge.free.load(Ordering::Relaxed) as usize;
    // What was sent and not yet seen counts, or it would be sent again.
    let on_the_way = ends.spare_out.buffer().capacity() - ends.spare_out.slots();
    if free < LOW && on_the_way == 0 {
        send(pool, &mut ends.spare_out, BATCH);
    }
}

/// On a runtime's thread: takes in what the switch sent, gives back what is
/// too much, and says what is left.
pub(super) fn settle(
    pool: &mut FramePool,
    spare_in: &mut Consumer<Frame>,
    spare_out: &mut Producer<Frame>,
    gauge: &Gauge,
) {
    take_in(pool, spare_in);
    if pool.available() > HIGH {
        send(pool, spare_out, BATCH);
    }
    gauge.free.store(pool.available() as u32, Ordering::Relaxed);
}

fn take_in(pool: &mut FramePool, ring: &mut Consumer<Frame>) {
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
    take_in(pool, &mut ends.spare_in);
    for ring in &mut ends.entries {
        take_in(pool, ring);
    }
}
