//! The engine of weir: flow table, flow actors, bursts through a stage.
//!
//! A [`Runtime`] executes one stage for many flows. Per burst of up to 64
//! packets it parses, makes keys, looks flows up with prefetching, and calls
//! each function once. It is a state machine over packets: all time is packet
//! time, all memory is reserved when it is made, and it names no clock, thread,
//! socket or file.

mod audit;
mod bytes;
mod classifier;
mod classify;
mod config;
mod counts;
mod drops;
mod end;
mod execute;
mod flows;
mod follow;
mod fragments;
mod functions;
pub mod harness;
mod known;
mod lies;
mod look;
pub mod notes;
mod open;
mod open_flows;
mod owner;
mod reading;
mod replace;
mod report;
mod runtime;
mod same_as;
mod scratch;
mod setup;
mod snapshot;
mod stage_error;
mod stages;
mod states;
mod steer;
mod waiting;
pub mod watch;

pub use classifier::Classifier;
pub use config::{RunAtStart, RuntimeConfig};
pub use drops::EngineDrop;
pub use follow::FRAMES_PER_TICK;
pub use lies::Lie;
pub use open_flows::{FlowName, OpenFlow, Remembered};
pub use report::{FlowReport, FunctionReport, Report, add_named};
pub use runtime::Runtime;
pub use snapshot::SnapshotError;
pub use stage_error::StageError;
pub use stages::{Rest, Role};
pub use states::FunctionState;
pub use steer::{Obstacle, Steering};
