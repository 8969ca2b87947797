//! A switch and its runtimes on one host, joined by queues or rings over one packet
//! memory: the settings and bounds that the program's driver and the simulator
//! (`--mode ring`) both keep to.

use weir_packet::FramePool;
use weir_packet::shares::{HIGH, LARGE_HIGH, SHARE};

use crate::ids::RuntimeId;
use crate::settings::{ActorSettings, Dispatch, Replication, SwitchSettings};

/// When the protocol sends again what was not answered, in ns. Queues lose nothing,
/// so there is no hurry: a thread may well not run for a while.
pub const REPEAT_AFTER: u64 = 50_000_000;
/// Places of a queue of frames. Few, so that they are still in a cache when they
/// are taken out, and enough for some bursts.
pub const FRAMES_ON_THE_WAY: usize = 1_024;
/// Places of a queue of messages.
pub const MESSAGES_ON_THE_WAY: usize = 1_024;
/// Frames of a chain that are taken out of a queue at a time.
pub const BURST: usize = 256;
/// Messages of a sender that are taken out of a queue at a time.
pub const MESSAGES: usize = 256;
/// Free frames that a runtime needs for one packet, mostly: notes and what
/// functions emit.
pub const PER_PACKET: usize = 2;
/// Frames that the switch's pool keeps back for each runtime that may run short.
pub const RESERVE: usize = 768;
/// Small frames for packets under way.
pub const FRAMES: u32 = 4_096;
/// Frames that one packet takes where the switch keeps packets: its own, its copy, and the one
/// of its entry.
const PER_KEPT: usize = 3;
/// Large frames for as many packets, where the switch keeps them.
const KEPT_LARGE: u32 = (BURST * PER_KEPT) as u32;
/// Packets of a chain that the switch keeps copies of, where states are replicated.
pub const KEPT: u32 = 4_096;
/// The same, and the shortest and the longest such time, where a runtime is on another host, on
/// the way to which packets get lost.
const LINK_REPEAT_AFTER: u64 = 20_000_000;
const LINK_REPEAT_WITHIN: (u64, u64) = (10_000_000, 10 * REPEAT_AFTER);

/// What switch and runtimes keep for repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// When a unit's state is with a second runtime.
    pub replication: Replication,
    /// A runtime is on another host.
    pub linked: bool,
}

impl Keeping {
    /// True where the switch keeps packets until they are let out, and runtimes their outputs.
    pub const fn keeps(self) -> bool {
        self.linked || !matches!(self.replication, Replication::None)
    }

    const fn repeats(self) -> (u64, (u64, u64)) {
        match self.linked {
            true => (LINK_REPEAT_AFTER, LINK_REPEAT_WITHIN),
            // A path that loses nothing is not measured.
            false => (REPEAT_AFTER, (REPEAT_AFTER, REPEAT_AFTER)),
        }
    }
}

/// Most views open and not settled. After a death a view that a packet waits for queues
/// behind at most so many views of units without packets.
const WINDOW: u32 = 128;

// A burst that a runtime takes has frames for all that it causes.
const _: () = assert!(BURST * PER_PACKET <= SHARE as usize);

/// Small and large frames beside the ports' own, for so many runtimes: each may keep as many
/// as it gives none back of.
pub const fn frames(runtimes: u32) -> (u32, u32) {
    let small = FRAMES + runtimes * (HIGH + RESERVE) as u32;
    (small, runtimes * LARGE_HIGH as u32)
}

/// Small and large frames for the copies that the switches of so many chains keep.
pub const fn frames_kept(chains: u32, keeping: Keeping) -> (u32, u32) {
    match keeping.keeps() {
        true => (chains * KEPT, KEPT_LARGE),
        false => (0, 0),
    }
}

/// Frames of the switch's pool that packets leave for entries, events and messages.
pub const fn kept_back(runtimes: usize) -> usize {
    RESERVE * runtimes + BURST
}

/// Packets for which the switch's pool has frames, beside those that are kept back for entries,
/// events and messages. [`room`] also counts large frames.
pub fn free(pool: &FramePool, runtimes: usize, keeping: Keeping) -> usize {
    let free = pool.available().saturating_sub(kept_back(runtimes));
    match keeping.keeps() {
        true => free / PER_KEPT,
        false => free,
    }
}

/// Packets that may be taken in with the frames of the switch's pool, where there are so many
/// runtimes. Frames kept back are for entries, events and messages.
pub fn room(pool: &FramePool, runtimes: usize, keeping: Keeping) -> usize {
    let free = free(pool, runtimes, keeping);
    match keeping.keeps() {
        // Any of them may be a long one, and entries that come early are not to lack a frame.
        true => {
            let large = pool.available_large().saturating_sub(pool.low_large());
            free.min(large / PER_KEPT)
        }
        false => free,
    }
}

/// Settings of the switch. It repeats no packet and is told of no outputs.
pub fn switch(dispatch: Dispatch) -> SwitchSettings {
    SwitchSettings {
        kept: 0,
        acknowledge: false,
        lossless: true,
        window: WINDOW,
        dispatch,
        repeat_after: REPEAT_AFTER,
        ..SwitchSettings::default()
    }
}

/// Settings of a runtime's actors. `frames` are the small ones of the memory: as
/// many are held, so that none is dropped.
pub fn actors(id: RuntimeId, frames: u32) -> ActorSettings {
    ActorSettings {
        id,
        held: frames,
        keep_outputs: false,
        waits: true,
        lossless: true,
        repeat_after: REPEAT_AFTER,
        ..ActorSettings::default()
    }
}

/// Settings of a switch that keeps packets until their effects are let out, or are with a
/// replica, where that is needed.
pub fn switch_with(dispatch: Dispatch, keeping: Keeping) -> SwitchSettings {
    let plain = switch(dispatch);
    if !keeping.keeps() {
        return plain;
    }
    let (repeat_after, repeat_within) = keeping.repeats();
    SwitchSettings {
        kept: KEPT,
        acknowledge: true,
        lossless: !keeping.linked,
        replication: keeping.replication,
        window: match keeping.linked {
            // Between hosts a larger window hides the round trip.
            true => SwitchSettings::default().window,
            false => WINDOW,
        },
        repeat_after,
        repeat_within,
        ..plain
    }
}

/// Settings of the actors of a runtime that keeps outputs until the switch has let them out,
/// where that is needed.
pub fn actors_with(id: RuntimeId, frames: u32, keeping: Keeping) -> ActorSettings {
    let plain = actors(id, frames);
    if !keeping.keeps() {
        return plain;
    }
    let (repeat_after, repeat_within) = keeping.repeats();
    ActorSettings {
        keep_outputs: true,
        lossless: !keeping.linked,
        repeat_after,
        repeat_within,
        ..plain
    }
}
