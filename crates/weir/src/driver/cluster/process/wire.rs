//! Messages between the main process and a runtime's process over their channel.

use serde::{Deserialize, Serialize};

/// The first message to the process ([`Hello`]).
pub(in super::super::super) const HELLO: u8 = 16;
/// It can work.
pub(super) const READY: u8 = 17;
/// Lines of events of flows that ended with the run.
pub(super) const EVENTS: u8 = 18;
/// All flows have ended ([`SaidDone`]).
pub(super) const END: u8 = 19;
/// Counts so far, which outlive the process ([`SaidDone`]).
pub(super) const REPORT: u8 = 21;
/// The runtime can't be run: why.
pub(super) const FAILED: u8 = 20;

/// Longest message from a runtime's process.
pub(super) const LONGEST: usize = 64 << 20;
/// Longest message of events.
pub(super) const LONGEST_EVENTS: usize = 1 << 20;

/// Offsets of what a place of a runtime has in the rings' memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Offsets {
    /// Rings of data frames and of entries, by chain.
    pub(super) data: Vec<usize>,
    pub(super) entries: Vec<usize>,
    /// Rings of messages, to the runtime and from it.
    pub(super) inbox: usize,
    pub(super) outbox: usize,
    /// Rings of free frames, to the runtime and from it.
    pub(super) supply: usize,
    pub(super) home: usize,
    /// The gauge.
    pub(super) status: usize,
}

/// The settings of a runtime's process. It carries these files, in this order: packet
/// memory, rings, the process's own waker, that of the switch's thread, and the socket for
/// commands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Id of the runtime.
    pub(super) id: u32,
    /// Places of runtimes that there are.
    pub(super) places: usize,
    /// Its member of packet memory.
    pub(super) member: u8,
    /// The packet memory: small frames and their bytes, large ones and theirs.
    pub(super) layout: [u32; 4],
    /// Stands for the chains, which the process loads itself.
    pub(super) chains: u64,
    pub(super) seed: u64,
    /// When a unit's state is with a second runtime.
    pub(super) replication: String,
    /// A runtime is on another host.
    pub(super) linked: bool,
    /// Places of units, by chain.
    pub(super) units: Vec<u32>,
    /// Tenant and weight of each chain, where several tenants share its time.
    pub(super) shares: Option<Vec<(u16, u32)>>,
    /// It keeps copies and owns no unit.
    pub(super) is_logger: bool,
    pub(super) offsets: Offsets,
    /// Core that it is kept on.
    pub(super) core: Option<usize>,
    /// Its thread goes before all others of its core.
    pub(super) first: bool,
    /// It never sleeps.
    pub(super) wakeful: bool,
}
