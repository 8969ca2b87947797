//! What a switch and a runtime's actors are told by their driver.

use crate::ids::RuntimeId;
use crate::plant::Plant;

/// When a replica gets the state (design §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// Never: a death loses the owner's units. Moves stay exact.
    #[default]
    None,
    /// With each burst, before its outputs leave.
    EachBurst,
}

/// How a switch gives new units to runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// In turn.
    #[default]
    RoundRobin,
    /// To the one with the fewest units.
    LeastLoaded,
    /// By a hash of the unit's key: the same unit goes to the same runtime
    /// while the set of runtimes stays.
    Hash,
}

/// Settings of a switch. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct SwitchSettings {
    /// Its generation: higher than that of any switch before it, from 1.
    pub generation: u16,
    /// See [`Replication`].
    pub replication: Replication,
    /// See [`Dispatch`].
    pub dispatch: Dispatch,
    /// Packets kept for repeating, in all. When they are used up, packets are
    /// dropped before they are numbered (`unacked_full`). 0 keeps none: what
    /// is lost on the way is replaced by `Lost`.
    pub kept: u32,
    /// Most views open and not settled.
    pub window: u32,
    /// Time after which what was not answered is sent again.
    pub repeat_after: u64,
    /// Packets of unknown units held while a restarted switch gathers claims.
    pub recovery_held: u32,
    /// Tells owners and replicas what was let out. Needed where they keep
    /// outputs ([`ActorSettings::keep_outputs`]). Off also says that the path
    /// loses nothing: what a runtime misses is on its way.
    pub acknowledge: bool,
    /// A planted bug.
    pub plant: Option<Plant>,
}

impl Default for SwitchSettings {
    fn default() -> SwitchSettings {
        SwitchSettings {
            generation: 1,
            replication: Replication::None,
            dispatch: Dispatch::RoundRobin,
            kept: 16_384,
            window: 1_000,
            repeat_after: 10_000_000,
            recovery_held: 4_096,
            acknowledge: true,
            plant: None,
        }
    }
}

/// Settings of a runtime's actors. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct ActorSettings {
    /// The runtime's id: one start of a process.
    pub id: RuntimeId,
    /// Packets held in all for units whose state is not there yet. When they
    /// are used up, the copies of the flow that holds most go first: the
    /// switch sends them again.
    pub held: u32,
    /// Keeps outputs until the switch says that they were let out. May be off
    /// only where the path to the switch loses nothing and dies with it (rings
    /// in one process).
    pub keep_outputs: bool,
    /// Time after which what was not answered is sent again.
    pub repeat_after: u64,
    /// A planted bug.
    pub plant: Option<Plant>,
}

impl Default for ActorSettings {
    fn default() -> ActorSettings {
        ActorSettings {
            id: RuntimeId(0),
            held: 4_096,
            keep_outputs: true,
            repeat_after: 10_000_000,
            plant: None,
        }
    }
}
