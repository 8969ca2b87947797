//! The contract between a network function and weir: all that an NF author
//! imports.
//!
//! A function is a type that implements [`NetworkFunction`]: settings, a state
//! per flow, and `process(packet, flow, context) -> Verdict`. It has no other
//! memory, no clock, no file and no socket, and writes no line about
//! migration, replication, scaling or serialization.
//!
//! Start with [`prelude`] and [`NetworkFunction`]; [`host`] is the engine's
//! side of the same contract.

mod buffer;
mod context;
mod descriptor;
mod event;
mod flow_info;
mod function;
mod gate;
pub mod host;
mod lease;
mod limit;
mod phase;
mod set_up;
mod sets;
mod shown;
mod state;
mod tally;
mod timed;
mod work_space;
mod world;

pub use buffer::{Buffer, BufferFull, BufferPool, LARGEST as LARGEST_BUFFER};
pub use context::Context;
pub use descriptor::{Descriptor, Fields, Needs, Parts, Scope};
pub use event::{Event, EventLog};
pub use flow_info::{FlowInfo, shown_id};
pub use function::{
    Burst, CloseReason, Cluster, DropReason, Flow, NetworkFunction, Owned, RuntimeId, SideBuffers,
    Verdict,
};
pub use gate::{GateStep, GateWord};
pub use lease::{Leases, PoolId, PoolSpec, PortLease, PortSpace, Want};
pub use limit::{EventLimit, EventLimiter, LimitKind};
pub use phase::{Phase, tcp_seen};
pub use set_up::{NoSources, SetUp, SettingsError, Sources};
pub use sets::{NamedSet, Sets};
pub use shown::{Shown, ShownField, ShownValue};
pub use state::{State, Stats, Tracked};
pub use tally::{LONGEST_NAME as LONGEST_TALLY_NAME, Tally};
pub use weir_packet as packet;
pub use weir_telemetry::{Counts, Entry, Label, labels};
pub use work_space::WorkSpace;

/// Everything a network function usually needs.
pub mod prelude {
    pub use crate::{
        Burst, CloseReason, Context, Counts, Descriptor, DropReason, Fields, Flow, FlowInfo, Label,
        Needs, NetworkFunction, Owned, Parts, Phase, Scope, SetUp, SettingsError, Shown, State,
        Stats, Verdict,
    };
    pub use weir_packet::{Direction, FlowKey, Packet, Prefix, Side, Time};
    pub use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
}
