//! The engine's side of the contract; an NF author needs none of it.

mod blocks;
mod dispatch;
mod plan;
mod processor;
mod work;

pub use crate::context::{AliasRequest, Aliases, Causes, Emits, MAX_ALIASES, MAX_EMITS};
pub use crate::world::World;
pub use blocks::{Blocks, FlowHead, HEAD_BYTES, Opened, Slot, StageLayout};
pub use dispatch::{DispatchPolicy, Load, Recent, RoundRobin};
pub use plan::{FlowOptions, NewFunction, Node, OnMalformed, Stage, Target, Timeouts, WhenFull};
pub use processor::{Kind, Processor, Settings, SharedProcessor, StateLayout, Versions, bind};
pub use work::{BURST, MAX_LABELS, NO_FLOW, Outcome, Place, UnitPlace, Work};
